"""Importance by gradients, taken with respect to the word embeddings."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import torch
from torch import Tensor

from attnflow.errors import InputError, shown
from attnflow.evaluation.targets import (
    Target,
    TargetSpec,
    batches_by_length,
    make_attribution,
    resolve_targets,
    rows_that_fit,
    target_values,
)
from attnflow.io.inputs import as_list, check_unicode
from attnflow.io.progress import progress_bar
from attnflow.models.loading import load_model
from attnflow.records import Attribution, FloatArray
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens
    from attnflow.models.loading import Source

log = logging.getLogger("attnflow")
BATCH = 32
FIRST_STEPS, MOST_STEPS = 32, 512
MOST_POINTS = 4096  # that can be asked for: finding them takes seconds
TOLERANCE = 1e-3
CANCELLED = 1e-4
CANCELS = (
    "the gradients sum to zero over the embedding: the model's layer norms subtract the mean, so "
    "a shift of all dimensions changes nothing, and kind='sum' shows rounding only. Use 'norm'"
)


class Options(TypedDict, total=False):
    """The keywords of `gradients`, for type checkers and editors."""

    kind: str
    target: TargetSpec | Sequence[TargetSpec]
    contrast: TargetSpec
    steps: int | None
    batch_size: int
    progress: bool


@overload
def gradients(text: str, model: Source = None, **options: Unpack[Options]) -> Attribution: ...


@overload
def gradients(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


def gradients(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    kind: str = "norm",
    target: TargetSpec | Sequence[TargetSpec] = None,
    contrast: TargetSpec = None,
    steps: int | None = None,
    batch_size: int = 32,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """How sensitive the probability of the model's answer is to each token's embedding.

    Args:
        text: A text, or many: a list, a Series, a generator.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.
        kind: ``"norm"``: the gradient's L2 norm; ``"sum"``: the size of its sum over the embedding
            (the paper's; zero up to rounding where layer norms follow the embeddings, as in
            GPT-2 and BERT); ``"input"``: gradient × embedding, summed; ``"integrated"``: integrated
            gradients from embeddings of zero.
        target: The label or token whose probability counts; ``None`` is the model's own answer.
        contrast: Count how much larger the target's logit is than that of this label or token.
        steps: For ``"integrated"``: points on the line; ``None`` doubles 32 until the scores add up
            to the change of the probability within 0.001 (completeness), at most to 512. The
            statistics say how far they do.
        batch_size: How many inputs, or points, run together at most; fewer where they are long.
        progress: Show a progress bar.

    Examples:
        >>> import attnflow
        >>> attnflow.gradients("the keys", kind="integrated").tokens
        ('[CLS]', 'the', 'keys')
    """
    if not isinstance(kind, str) or kind not in KINDS:
        msg = f"kind={shown(kind)} is unknown; allowed: {', '.join(KINDS)}"
        raise InputError(msg)
    if steps is not None and not (is_integer(steps) and 1 <= steps <= MOST_POINTS):
        msg = f"steps={shown(steps)} must be an integer from 1 to {MOST_POINTS}, or None"
        raise InputError(msg)
    if not (is_integer(batch_size) and batch_size >= 1):
        msg = f"batch_size={shown(batch_size)} must be an integer of at least 1"
        raise InputError(msg)
    check_flag("progress", progress)
    loaded = load_model(model)
    texts, single = as_list(text)
    inputs = [loaded.tokenize(check_unicode("text", one)) for one in texts]
    targets = resolve_targets(loaded, inputs, target, contrast)
    name = "gradient" if kind == "sum" else f"gradient ({kind})"
    integrated = kind == "integrated"
    tried = [max(inputs, key=len)] * 2 if integrated and inputs else inputs  # one at many scales
    size = rows_that_fit(loaded, tried, batch_size, gradients=True)
    together = 1 if integrated else size
    results: dict[int, Attribution] = {}
    with progress_bar("differentiating", len(inputs), shown=progress) as show:
        for places in batches_by_length(inputs, together):
            gradient = EmbeddingGradient(
                loaded, [inputs[i] for i in places], [targets[i] for i in places], size
            )
            scores, statistics = KINDS[kind](gradient, None if steps is None else int(steps))
            for place, row in zip(places, scores.cpu().numpy(), strict=True):
                tokens, one = inputs[place], targets[place]
                results[place] = make_attribution(
                    loaded, tokens, one, row[: len(tokens)], name, {"kind": kind}, statistics
                )
            show(len(results))
    ordered = [results[place] for place in range(len(inputs))]
    return ordered[0] if single else ordered


@dataclass(frozen=True, eq=False)
class EmbeddingGradient:
    """Probabilities as functions of their inputs' word embeddings."""

    model: ModelAdapter
    inputs: Sequence[Tokens]
    targets: Sequence[Target]
    batch_size: int

    def at(self, scale: Tensor | float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
        """At scaled embeddings: probabilities, embeddings and gradients, one row per input."""
        leaves: list[Tensor] = []

        def edit(embeddings: Tensor) -> Tensor:
            factor = torch.as_tensor(scale).to(embeddings.device, embeddings.dtype)
            leaves.append((embeddings.detach() * factor).requires_grad_())
            return leaves[0]

        with torch.enable_grad():
            positions = [target.position for target in self.targets]
            wanted = target_values(self.model, self.inputs, positions, self.targets, edit)
            gradients = torch.autograd.grad(wanted.sum(), leaves[0])[0]
        return wanted.detach(), leaves[0].detach().double(), gradients.double()

    def along(self, scales: FloatArray) -> Tensor:
        """The gradients of one input at many scales, ``[scale, position, dimension]``."""
        parts = []
        for start in range(0, len(scales), self.batch_size):
            part = scales[start : start + self.batch_size]
            many = EmbeddingGradient(
                self.model,
                [*self.inputs] * len(part),
                [*self.targets] * len(part),
                self.batch_size,
            )
            parts.append(many.at(torch.tensor(part)[:, None, None])[2])
        return torch.cat(parts)


Scored = tuple[Tensor, dict[str, Any]]


def _sum(gradient: EmbeddingGradient, _: int | None) -> Scored:
    gradients = gradient.at()[2]
    sums = gradients.sum(-1).abs()
    if bool((sums <= CANCELLED * gradients.norm(dim=-1).amax(-1, keepdim=True)).all()):
        log.warning(CANCELS)
    return sums, {}


def _norm(gradient: EmbeddingGradient, _: int | None) -> Scored:
    return gradient.at()[2].norm(dim=-1), {}


def _input(gradient: EmbeddingGradient, _: int | None) -> Scored:
    _probability, words, gradients = gradient.at()
    return (words * gradients).sum(-1), {}


def _integrated(gradient: EmbeddingGradient, fixed: int | None) -> Scored:
    """Gauss–Legendre points on the straight line from zero to the embeddings."""
    after, words, _ = gradient.at()
    change = float(after[0] - gradient.at(0.0)[0][0])
    steps = FIRST_STEPS if fixed is None else fixed
    while True:
        points, weights = np.polynomial.legendre.leggauss(steps)
        gradients = gradient.along((points + 1) / 2)
        mean = (gradients * torch.tensor(weights / 2, device=gradients.device)[:, None, None]).sum(
            0
        )
        scores = (words[0] * mean).sum(-1)
        gap = abs(float(scores.sum()) - change)
        if fixed is not None or gap <= TOLERANCE or steps >= MOST_STEPS:
            break
        steps *= 2
    if gap > TOLERANCE:
        log.warning("integrated gradients miss the change of %.4f by %.4f", change, gap)
    return scores[None], {"steps": steps, "change": change, "completeness_gap": gap}


KINDS = {"sum": _sum, "norm": _norm, "input": _input, "integrated": _integrated}
