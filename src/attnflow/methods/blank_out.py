"""Blank-out: how far the target's value changes when tokens are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from attnflow.errors import InputError
from attnflow.methods import Method, Scores
from attnflow.methods.question import (
    Question,
    Target,
    batches_by_length,
    no_progress,
    rows_that_fit,
    target_values,
)
from attnflow.records import FloatArray
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from attnflow.models.adapter import Filler, ModelAdapter, Tokens

Asked = tuple["Tokens", Target, Groups]  # an input, what is measured, and what is blanked


def changes(
    model: ModelAdapter,
    inputs: Sequence[Asked],
    filler: Filler,
    batch_size: int,
    advance: Callable[[float], None] = no_progress,
) -> list[tuple[float, FloatArray]]:
    """For each input its target's value, and how much lower it is without each of its groups.

    What a masked language model predicts is left in place, and changes nothing.
    """
    rows = [row for item, asked in enumerate(inputs) for row in _rows(model, item, asked, filler)]
    values = _measure(model, rows, batch_size, advance)
    found = []
    for item, (_, _, groups) in enumerate(inputs):
        before = values[item, None]
        after = [values.get((item, place), before) for place in range(len(groups))]
        found.append((before, before - np.array(after)))
    return found


@dataclass(frozen=True, eq=False)
class BlankedRow:
    """One input to run: number ``item`` without its group ``place`` (``None``: whole)."""

    item: int
    place: int | None
    tokens: Tokens
    position: int
    target: Target


def _rows(model: ModelAdapter, item: int, asked: Asked, filler: Filler) -> Iterator[BlankedRow]:
    """The whole input, then the input without each group."""
    tokens, target, groups = asked
    deleted = filler.token is None
    yield BlankedRow(item, None, tokens, target.position, target)
    for place, group in enumerate(groups):
        positions = [at for at in group if not model.predicts_at(tokens, at)]
        if deleted and len(positions) == len(tokens):
            count = "one token" if len(tokens) == 1 else "one word"
            msg = (
                f"{tokens.text!r} has {count} only: without it there is no input; give a longer "
                "text"
            )
            raise InputError(msg)
        if positions:
            blanked = model.blank(tokens, positions, filler)
            position = model.decision(blanked) if deleted else target.position
            yield BlankedRow(item, place, blanked, position, target)


def _measure(
    model: ModelAdapter,
    rows: Sequence[BlankedRow],
    batch_size: int,
    advance: Callable[[float], None],
) -> dict[tuple[int, int | None], float]:
    """The value of each row's target."""
    found = {}
    size = rows_that_fit(model, [row.tokens for row in rows], batch_size)
    for places in batches_by_length([row.tokens for row in rows], size):
        part = [rows[place] for place in places]
        with torch.no_grad():
            values = target_values(
                model,
                [row.tokens for row in part],
                [row.position for row in part],
                [row.target for row in part],
            )
        for row, value in zip(part, values, strict=True):
            found[row.item, row.place] = float(value)
        advance(len(found) / len(rows))
    return found


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
