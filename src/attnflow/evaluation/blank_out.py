"""Importance by blanking: how far a probability changes when a token is removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import torch

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
from attnflow.records import Attribution
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    from attnflow.models.adapter import Filler, ModelAdapter, Tokens
    from attnflow.models.loading import Source

REPLACEMENTS = ("unk", "mask", "pad", "delete")


class Options(TypedDict, total=False):
    """The keywords of `blank_out`, for type checkers and editors."""

    replacement: str
    target: TargetSpec | Sequence[TargetSpec]
    contrast: TargetSpec
    signed: bool
    batch_size: int
    progress: bool


@overload
def blank_out(text: str, model: Source = None, **options: Unpack[Options]) -> Attribution: ...


@overload
def blank_out(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


def blank_out(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    replacement: str = "unk",
    target: TargetSpec | Sequence[TargetSpec] = None,
    contrast: TargetSpec = None,
    signed: bool = False,
    batch_size: int = 256,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """How much the probability of the model's answer changes when each token is blanked out.

    Args:
        text: A text, or many: a list, a Series, a generator.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.
        replacement: ``"unk"`` (the paper's), ``"mask"``, ``"pad"`` (a token that no position
            attends to) or ``"delete"`` (the tokens after it move up).
        target: The label or token whose probability counts, by name or number; a list has one for
            each text. ``None`` is the model's own answer.
        contrast: Count how much larger the target's logit is than that of this label or token.
        signed: Before minus after, so that tokens which speak against the answer are negative;
            otherwise the size of the change.
        batch_size: How many blanked inputs run together at most; fewer where they are long.
        progress: Show a progress bar.

    The mask of a masked language model is what it predicts: it is left in place and scores 0.

    Examples:
        >>> import attnflow
        >>> attnflow.blank_out("the keys to the cabinet", replacement="delete").top(1)[0][0]
        'keys'
    """
    if not isinstance(replacement, str) or replacement not in REPLACEMENTS:
        msg = f"replacement={shown(replacement)} is unknown; allowed: {', '.join(REPLACEMENTS)}"
        raise InputError(msg)
    if not (is_integer(batch_size) and batch_size >= 1):
        msg = f"batch_size={shown(batch_size)} must be an integer of at least 1"
        raise InputError(msg)
    check_flag("signed", signed)
    check_flag("progress", progress)
    loaded = load_model(model)
    texts, single = as_list(text)
    inputs = [loaded.tokenize(check_unicode("text", one)) for one in texts]
    filler = loaded.filler(replacement)
    targets = resolve_targets(loaded, inputs, target, contrast)
    rows = [
        row
        for item, (tokens, one) in enumerate(zip(inputs, targets, strict=True))
        for row in _blanked_rows(loaded, item, tokens, one, filler)
    ]
    probabilities = _measure(loaded, rows, batch_size, progress=progress)
    options = {"replacement": replacement, "signed": bool(signed)}
    results = []
    for i, (tokens, one) in enumerate(zip(inputs, targets, strict=True)):
        before = probabilities[i, None]
        after = [probabilities.get((i, place), before) for place in range(len(tokens))]
        change = before - np.array(after)
        scores = change if signed else np.abs(change)
        statistics = {"probability": before}
        results.append(
            make_attribution(loaded, tokens, one, scores, "blank-out", options, statistics)
        )
    return results[0] if single else results


@dataclass(frozen=True, eq=False)
class Row:
    """One input to run: text ``item`` without its token ``place`` (``None``: whole)."""

    item: int
    place: int | None
    tokens: Tokens
    position: int
    target: Target


def _blanked_rows(
    model: ModelAdapter, item: int, tokens: Tokens, target: Target, filler: Filler
) -> Iterator[Row]:
    """The whole input, then the input without each token."""
    size = len(tokens)
    deleted = filler.token is None
    if deleted and size == 1:
        msg = (
            f"{tokens.text!r} has one token only: without it there is no input; give a longer text"
        )
        raise InputError(msg)
    yield Row(item, None, tokens, target.position, target)
    for place in range(size):
        if not model.predicts_at(tokens, place):
            blanked = model.blank(tokens, [place], filler)
            position = model.decision(blanked) if deleted else target.position
            yield Row(item, place, blanked, position, target)


def _measure(
    model: ModelAdapter, rows: Sequence[Row], batch_size: int, *, progress: bool
) -> dict[tuple[int, int | None], float]:
    """The probability of each row's target."""
    found = {}
    size = rows_that_fit(model, [row.tokens for row in rows], batch_size)
    with progress_bar("blanking out", len(rows), shown=progress) as show:
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
            show(len(found))
    return found
