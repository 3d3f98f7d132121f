"""Questions that a method answers by running the model: how much tokens matter for a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from attnflow.io.inputs import check_choice, one_each
from attnflow.models.adapter import Objective
from attnflow.models.outputs import find_outputs
from attnflow.records import Prediction
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import Edit, ModelAdapter, Tokens

TargetSpec = str | int | None
BATCH = 64
BATCH_BYTES = 1 << 30  # of the activations of a batch, approximately
MOST_PIECES = 16  # images, sounds or pairs of texts that run together


@dataclass(frozen=True)
class Target:
    """One number that a model gives at ``position``: the probability of ``index``.

    With a contrast it is how much larger the logit of ``index`` is than that of the contrast.

    Attributes:
        index: Of the label, or of the token in the vocabulary.
        label: Its name.
        position: Where a language model predicts it; 0 for classifiers, whose label has none.
        prediction: The model's prediction of the whole input.
    """

    index: int
    label: str
    position: int
    prediction: Prediction | None
    contrast: int | None = None


def no_progress(_: float) -> None:
    """A progress callback that does nothing."""


@dataclass(frozen=True, eq=False)
class Question:
    """One input and one target.

    Attributes:
        model: The model.
        tokens: The input.
        target: What the scores are for.
        groups: The tokens that get a score together; each token alone, or a word's tokens.
        steps: How exactly something is computed, for measures with ``uses_steps``.
        batch_size: How many inputs run together at most; fewer where memory is short.
        advance: To be called with the share of the work that is done; it may raise to end it.
    """

    model: ModelAdapter
    tokens: Tokens
    target: Target
    groups: Groups
    steps: int | None = None
    batch_size: int = 16
    advance: Callable[[float], None] = no_progress


def resolve_targets(
    model: ModelAdapter,
    inputs: Sequence[Tokens],
    targets: TargetSpec | Sequence[TargetSpec],
    contrast: TargetSpec = None,
    positions: Sequence[int] | None = None,
) -> list[Target]:
    """The targets of inputs: a label or token by name or number; ``None`` is the prediction.

    ``positions`` are where a language model predicts; by default where it decides.
    """
    chosen_contrast = check_choice("contrast", contrast)
    places_of = [model.decision(tokens) for tokens in inputs] if positions is None else positions
    wanted = one_each("target", targets, len(inputs))
    for each in {*wanted, chosen_contrast} - {None}:
        model.output_indices(each)  # refuses unknown names before anything runs
    found: dict[int, Target] = {}
    for places in batches_by_length(inputs, rows_that_fit(model, inputs, BATCH)):
        with torch.no_grad():
            rows = model.probabilities([inputs[i] for i in places], [places_of[i] for i in places])
        for place, row in zip(places, rows, strict=True):
            index, other = find_outputs(model, Objective(wanted[place], chosen_contrast), row)
            best = int(row.argmax())
            prediction = Prediction(model.output_name(best), float(row[best]))
            name = model.output_name(index)
            found[place] = Target(index, name, places_of[place], prediction, other)
    return [found[place] for place in range(len(inputs))]


def target_values(
    model: ModelAdapter,
    inputs: Sequence[Tokens],
    positions: Sequence[int],
    targets: Sequence[Target],
    edit: Edit | None = None,
) -> Tensor:
    """The numbers that targets are about, one per input."""
    rows = range(len(targets))
    indices = [target.index for target in targets]
    if targets[0].contrast is None:
        return model.probabilities(inputs, positions, edit)[rows, indices]
    logits = model.logits(inputs, positions, edit)
    return logits[rows, indices] - logits[rows, [target.contrast for target in targets]]


def rows_that_fit(
    model: ModelAdapter, inputs: Sequence[Tokens], most: int, *, gradients: bool = False
) -> int:
    """How many of these inputs to run as a batch: as many as fit into memory, ``most`` at most.

    One, where batching would change results.
    """
    if most == 1 or not model.batchable(inputs):
        return 1
    if not model.estimates_memory:
        return min(most, MOST_PIECES)
    length = max((len(each.names) for each in inputs), default=1)
    return max(1, min(most, BATCH_BYTES // model.row_bytes(length, gradients=gradients)))


def batches_by_length(inputs: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Places of inputs that run together: of similar length, so that little is padding."""
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place].names))
    for start in range(0, len(order), size):
        yield order[start : start + size]
