"""Blank-out: how far the target's value changes when tokens are removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnflow.methods import Method, Scores
from attnflow.methods.erasing import erase, read_targets, removable
from attnflow.methods.question import Question, Target, no_progress
from attnflow.records import FloatArray
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Filler, ModelAdapter, Tokens

Asked = tuple["Tokens", Target, Groups]  # an input, what is measured, and what is blanked


def changes(
    model: ModelAdapter,
    inputs: Sequence[Asked],
    replacement: Filler,
    batch_size: int,
    advance: Callable[[float], None] = no_progress,
) -> list[tuple[float, FloatArray]]:
    """For each input its target's value, and how much lower it is without each of its groups.

    What a masked language model predicts is left in place, and changes nothing.
    """
    # Each input as it is, then without each group of which something can be removed.
    rows: dict[tuple[int, int | None], list[int]] = {}
    for item, (tokens, _, groups) in enumerate(inputs):
        rows[item, None] = []
        for place, group in enumerate(groups):
            if positions := removable(model, tokens, group):
                rows[item, place] = positions
    found = erase(
        model,
        [(inputs[item][0], positions) for (item, _), positions in rows.items()],
        replacement,
        read_targets(model, [inputs[item][:2] for item, _ in rows]),
        batch_size=batch_size,
        advance=advance,
    )
    values = dict(zip(rows, found, strict=True))
    results = []
    for item, (_, _, groups) in enumerate(inputs):
        before = values[item, None]
        after = [values.get((item, place), before) for place in range(len(groups))]
        results.append((before, before - np.array(after)))
    return results


def measure(question: Question) -> Scores:
    """The size of the change without each group, which the model's usual filler replaces."""
    filler = question.model.filler()
    asked = (question.tokens, question.target, question.groups)
    ((before, change),) = changes(
        question.model, [asked], filler, question.batch_size, question.advance
    )
    statistics = {"probability": before, "replacement": filler.name, "falls": change.tolist()}
    return Scores(np.abs(change), statistics)


MEMBER = Method(
    "blank-out",
    "Blank-out",
    measure=measure,
    summary=(
        "How much the answer’s probability, or with a contrast the difference of logits, changes "
        "when a token is blanked out."
    ),
    cost="passes",
    shown_by_default=False,
    slot=3,
)
