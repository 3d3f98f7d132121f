"""Gradients with respect to the word embeddings: their norm, and times the embedding itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnflow.methods import Method, Scores
from attnflow.methods.question import Question, Target, target_values
from attnflow.models.capture.products import wide_products
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens


@dataclass(frozen=True, eq=False)
class EmbeddingGradient:
    """Targets' values as functions of their inputs' word embeddings."""

    model: ModelAdapter
    inputs: Sequence[Tokens]
    targets: Sequence[Target]

    def at(self, scale: Tensor | float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """At scaled embeddings: values, embeddings and gradients, one row per input."""
        with torch.enable_grad():
            wanted, leaf = self._run(scale, differentiated=True)
            gradients = torch.autograd.grad(wanted.sum(), leaf)[0]
        return wanted.detach(), leaf.detach().double(), gradients.double()

    def values(self, scale: Tensor | float = 1.0) -> Tensor:
        """At scaled embeddings the values alone, for one forward pass."""
        with torch.no_grad():
            return self._run(scale, differentiated=False)[0]

    def _run(self, scale: Tensor | float, *, differentiated: bool) -> tuple[Tensor, Tensor]:
        """The values, and the embeddings that they are values of."""
        leaves: list[Tensor] = []

        def edit(embeddings: Tensor) -> Tensor:
            factor = torch.as_tensor(scale).to(embeddings.device, embeddings.dtype)
            leaves.append((embeddings.detach() * factor).requires_grad_(differentiated))
            return leaves[0]

        positions = [target.position for target in self.targets]
        with wide_products():
            wanted = target_values(self.model, self.inputs, positions, self.targets, edit)
        return wanted, leaves[0]


def norms(gradients: Tensor, _: Tensor) -> Tensor:
    """The L2 norm of the gradient by each embedding, ``[…, position]``."""
    found: Tensor = gradients.norm(dim=-1)
    return found


def products(gradients: Tensor, words: Tensor) -> Tensor:
    """Gradient × embedding, summed over the embedding, ``[…, position]``."""
    return (words * gradients).sum(-1)


def sum_groups(values: Tensor, groups: Groups) -> Tensor:
    """The sums of groups of entries, ``[group]``."""
    return torch.stack([values[list(group)].sum() for group in groups])


def measure_norm(question: Question) -> Scores:
    """The norm of the gradient by all embeddings of a group."""
    _, words, gradients = _at_once(question)
    squares = norms(gradients, words)[0] ** 2
    return Scores(to_numpy(sum_groups(squares, question.groups).sqrt()))


def measure_input(question: Question) -> Scores:
    """Gradient × embedding: what the value would change by to first order without a group."""
    _, words, gradients = _at_once(question)
    return Scores(to_numpy(sum_groups(products(gradients, words)[0], question.groups)))


def _at_once(question: Question) -> tuple[Tensor, Tensor, Tensor]:
    return EmbeddingGradient(question.model, [question.tokens], [question.target]).at()


NORM = Method(
    "gradient-norm",
    "Gradient norm",
    measure=measure_norm,
    summary="How much the answer changes with a small change of a token, in any direction.",
    shown_by_default=False,
    slot=5,
)
INPUT = Method(
    "gradient-input",
    "Gradient × input",
    measure=measure_input,
    summary="The gradient times the token itself: whether it speaks for the answer or against it.",
    signed=True,
    shown_by_default=False,
    slot=4,
)
