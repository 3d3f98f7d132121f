"""What a model says of an input without some of its tokens: the one place where tokens are erased.

How a kind of model replaces tokens is its own business (`ModelAdapter.blank`). Here inputs are run
in batches of similar length that fit in memory, long work can be interrupted between batches, and
an `Eraser` keeps what was found, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from attnflow.errors import InputError
from attnflow.methods.question import (
    Target,
    batches_by_length,
    no_progress,
    rows_that_fit,
    target_values,
)
from attnflow.models.adapter import Filler
from attnflow.models.capture.products import wide_products

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import Edit, ModelAdapter, Tokens

    Erased = tuple[Tokens, Sequence[int]]  # an input, and the positions that are erased

T = TypeVar("T")
Advance = Callable[[float], None]  # called with the share of the work that is done; may raise
# What is read of erased inputs that run together, given their places among all inputs.
Read = Callable[[Sequence[int], "Sequence[Tokens]", "Edit | None"], Iterable[T]]

MOST_TOGETHER = 256  # inputs in a batch
DELETE = Filler("delete", "nothing")
MEAN = Filler("mean", "the mean of all word embeddings")


def erase(
    model: ModelAdapter,
    inputs: Sequence[Erased],
    replacement: Filler,
    read: Read[T],
    *,
    batch_size: int = MOST_TOGETHER,
    advance: Advance = no_progress,
) -> list[T]:
    """What ``read`` finds in each input without these of its tokens.

    At most ``batch_size`` inputs run together, fewer where they are long. ``advance`` is called
    after each batch.
    """
    erased = [_without(model, *each, replacement) for each in inputs]
    found: dict[int, T] = {}
    for places in batches_by_length(erased, rows_that_fit(model, erased, batch_size)):
        part = [erased[place] for place in places]
        edit = None
        if replacement == MEAN:
            edit = _put_mean(model, len(part[0]), [inputs[place][1] for place in places])
        with torch.no_grad(), wide_products():
            found.update(zip(places, read(places, part, edit), strict=True))
        advance(len(found) / len(erased))
    return [found[place] for place in range(len(inputs))]


def removable(model: ModelAdapter, tokens: Tokens, positions: Iterable[int]) -> list[int]:
    """These positions but for what a masked language model predicts, which stays in place."""
    predicted = model.predicted(tokens)
    return [at for at in positions if at not in predicted]


def read_targets(model: ModelAdapter, inputs: Sequence[tuple[Tokens, Target]]) -> Read[float]:
    """Reads the numbers that targets are about, of each input its own.

    Where tokens are deleted, a language model decides at another position.
    """

    def read(places: Sequence[int], erased: Sequence[Tokens], edit: Edit | None) -> list[float]:
        wholes = [inputs[place] for place in places]
        positions = [
            target.position if len(one) == len(whole) else model.decision(one)
            for (whole, target), one in zip(wholes, erased, strict=True)
        ]
        targets = [target for _, target in wholes]
        values: list[float] = target_values(model, erased, positions, targets, edit).tolist()
        return values

    return read


def read_target(model: ModelAdapter, tokens: Tokens, target: Target) -> Read[float]:
    """Reads the number that a target is about, of one input."""

    def read(_: Sequence[int], erased: Sequence[Tokens], edit: Edit | None) -> Iterable[float]:
        every = [(tokens, target)] * len(erased)
        return read_targets(model, every)(range(len(erased)), erased, edit)

    return read


def read_probabilities(model: ModelAdapter, position: int) -> Read[Tensor]:
    """Reads the probabilities of all labels, or of all tokens at a position."""

    def read(_: Sequence[int], erased: Sequence[Tokens], edit: Edit | None) -> Iterable[Tensor]:
        return model.probabilities(erased, [position] * len(erased), edit)

    return read


@dataclass(frozen=True, eq=False)
class Eraser(Generic[T]):
    """One input without sets of its tokens.

    Attributes:
        model: The model.
        tokens: The input.
        replacement: What takes the place of tokens.
        read: What is kept of each run.
        batch_size: How many inputs run together at most.
        known: What was found without which positions.
    """

    model: ModelAdapter
    tokens: Tokens
    replacement: Filler
    read: Read[T]
    batch_size: int = MOST_TOGETHER
    known: dict[frozenset[int], T] = field(default_factory=dict)

    def without(self, sets: Iterable[Collection[int]], advance: Advance = no_progress) -> list[T]:
        """What is read without each set of positions; an empty one is the input as it is."""
        wanted = [frozenset(each) for each in sets]
        new = [each for each in dict.fromkeys(wanted) if each not in self.known]
        if new:
            found = erase(
                self.model,
                [(self.tokens, sorted(each)) for each in new],
                self.replacement,
                self.read,
                batch_size=self.batch_size,
                advance=advance,
            )
            self.known.update(zip(new, found, strict=True))
        return [self.known[each] for each in wanted]


def _without(
    model: ModelAdapter, tokens: Tokens, positions: Sequence[int], replacement: Filler
) -> Tokens:
    if not positions or replacement == MEAN:
        return tokens
    if replacement.name == DELETE.name and len(positions) == len(tokens):
        count = "one token" if len(tokens) == 1 else "one word"
        msg = f"{tokens.text!r} has only {count}: without it there is no input; give a longer text"
        raise InputError(msg)
    return model.blank(tokens, positions, replacement)


def _put_mean(model: ModelAdapter, size: int, sets: Sequence[Sequence[int]]) -> Edit:
    """Puts the mean of all word embeddings in the place of tokens."""
    network: Any = model
    mean = network.network.get_input_embeddings().weight.detach().mean(0)
    erased = torch.zeros(len(sets), size, 1, dtype=torch.bool)
    for row, positions in enumerate(sets):
        erased[row, list(positions)] = True

    def edit(words: Tensor) -> Tensor:
        return torch.where(erased.to(words.device), mean.to(words), words)

    return edit
