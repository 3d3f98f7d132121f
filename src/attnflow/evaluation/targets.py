"""Which probability importance is measured by: a label's, or a token's at one position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnflow.io.inputs import check_choice, one_each
from attnflow.records import Attribution, FloatArray, Prediction

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import Edit, ModelAdapter, Tokens

TargetSpec = str | int | None
BATCH = 64
BATCH_BYTES = 1 << 30  # what the activations of a batch may take, about


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


def resolve_targets(
    model: ModelAdapter,
    inputs: Sequence[Tokens],
    targets: TargetSpec | Sequence[TargetSpec],
    contrast: TargetSpec = None,
) -> list[Target]:
    """The targets of inputs: a label or token by name or number; ``None`` is the prediction."""
    chosen_contrast = check_choice("contrast", contrast)
    other = None if chosen_contrast is None else model.output_index(chosen_contrast)
    positions = [model.decision(tokens) for tokens in inputs]
    indices = [
        None if target is None else model.output_index(target)
        for target in one_each("target", targets, len(inputs))
    ]
    found: dict[int, Target] = {}
    for places in batches_by_length(inputs, rows_that_fit(model, inputs, BATCH)):
        with torch.no_grad():
            rows = model.probabilities([inputs[i] for i in places], [positions[i] for i in places])
        for place, row in zip(places, rows, strict=True):
            best, chosen = int(row.argmax()), indices[place]
            index = best if chosen is None else chosen
            prediction = Prediction(model.output_name(best), float(row[best]))
            found[place] = Target(
                index, model.output_name(index), positions[place], prediction, other
            )
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
    """How many of these inputs run together, at most ``most``: as many as memory is for.

    One, where together they would give something else than alone.
    """
    if not model.batchable(inputs):
        return 1
    length = max(map(len, inputs), default=1)
    return max(1, min(most, BATCH_BYTES // model.row_bytes(length, gradients=gradients)))


def batches_by_length(inputs: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Places of inputs that run together: of similar length, so that little is padding."""
    order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def make_attribution(  # noqa: PLR0913 - the parts of a record
    model: ModelAdapter,
    tokens: Tokens,
    target: Target,
    scores: FloatArray,
    method: str,
    options: dict[str, Any],
    statistics: dict[str, Any],
) -> Attribution:
    """Scores of the input tokens as a record; they belong to the model's last layer."""
    return Attribution(
        tokens=tokens.names,
        scores=np.asarray(scores)[None, None],
        layers=(model.depth,),
        queries=(target.position,),
        layer=model.depth,
        query=target.position,
        method=method,
        options={**options, "target": target.label, **_named_contrast(model, target)},
        model=model.name,
        text=tokens.text,
        prediction=target.prediction,
        statistics=statistics,
        word_ids=tokens.word_ids,
        word_texts=tokens.word_texts,
    )


def _named_contrast(model: ModelAdapter, target: Target) -> dict[str, str]:
    return {} if target.contrast is None else {"contrast": model.output_name(target.contrast)}
