"""Importance by blanking: how far a probability moves when a token is taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
import torch

from attnflow.errors import InputError
from attnflow.evaluation.targets import (
    Aim,
    Target,
    alike,
    attribution,
    probabilities,
    take_aims,
    text_model,
)
from attnflow.io.inputs import listed
from attnflow.io.progress import progress_bar
from attnflow.models.adapter import Tokens
from attnflow.models.heads import CAUSAL, MASKED
from attnflow.models.loading import load_model
from attnflow.models.text import TextModel
from attnflow.records import Attribution

if TYPE_CHECKING:
    from attnflow.models.loading import Source

REPLACEMENTS = ("unk", "mask", "pad", "delete")


class Options(TypedDict, total=False):
    """The keywords of `blank_out`, for type checkers and editors."""

    replacement: str
    target: Target | Sequence[Target]
    signed: bool
    batch_size: int
    progress: bool


@overload
def blank_out(text: str, model: Source = None, **options: Unpack[Options]) -> Attribution: ...


@overload
def blank_out(
    text: Iterable[Any], model: Source = None, **options: Unpack[Options]
) -> list[Attribution]: ...


def blank_out(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    text: str | Iterable[str],
    model: Source = None,
    *,
    replacement: str = "unk",
    target: Target | Sequence[Target] = None,
    signed: bool = False,
    batch_size: int = 256,
    progress: bool = False,
) -> Attribution | list[Attribution]:
    """How much the probability of the model's answer changes when each token is blanked out.

    Args:
        text: A text, or many: a list, a Series, a generator.
        model: As for `attnflow.explain`: a classifier, a masked or a causal language model.
        replacement: ``"unk"`` (the paper's), ``"mask"``, ``"pad"`` (a token that none attends to)
            or ``"delete"`` (the tokens after it move up).
        target: The label or token whose probability counts, by name or number; a list has one for
            each text. ``None`` is the model's own answer.
        signed: Before minus after, so that tokens which speak against the answer are negative;
            otherwise the size of the change.
        batch_size: How many blanked inputs run together.
        progress: Show a progress bar.

    The mask of a masked language model is where the question is asked: it is left in place and
    scores 0.

    Example:
        >>> import attnflow
        >>> attnflow.blank_out("the keys to the cabinet", replacement="delete").top(1)[0][0]
        'keys'
    """
    if replacement not in REPLACEMENTS:
        msg = f"replacement={replacement!r} is unknown; allowed: {', '.join(REPLACEMENTS)}"
        raise InputError(msg)
    if batch_size < 1:
        msg = f"batch_size={batch_size} must be at least 1"
        raise InputError(msg)
    loaded = text_model(load_model(model))
    token = _token(loaded, replacement)
    texts, single = listed(text)
    inputs = [loaded.tokenize(one) for one in texts]
    aims = take_aims(loaded, inputs, target)
    rows = [row for i, aim in enumerate(aims) for row in _blanked(loaded, i, inputs[i], aim, token)]
    found = _measure(loaded, rows, batch_size, progress=progress)
    options = {"replacement": replacement, "signed": signed}
    results = []
    for i, (tokens, aim) in enumerate(zip(inputs, aims, strict=True)):
        before = found[i, None]
        change = np.array([before - found.get((i, place), before) for place in range(len(tokens))])
        scores = change if signed else np.abs(change)
        facts = {"probability": before}
        results.append(attribution(loaded, tokens, aim, scores, "blank-out", options, facts))
    return results[0] if single else results


@dataclass(frozen=True, eq=False)
class Row:
    """One input to run: text ``item`` without its token ``place`` (``None``: whole)."""

    item: int
    place: int | None
    tokens: Tokens
    position: int
    index: int


def _token(model: TextModel, replacement: str) -> int | None:
    """The number of the token put in; ``None`` for deletion."""
    if replacement == "delete":
        return None
    token = getattr(model.tokenizer, f"{replacement}_token_id")
    if token is None and replacement == "pad":
        return 0  # none attends to it, so any will do
    if token is None:
        having = [n for n in ("unk", "mask") if getattr(model.tokenizer, f"{n}_token_id", None)]
        msg = (
            f"the tokenizer of {model.name} has no {replacement} token; choose one of: "
            f"{', '.join([*having, 'pad', 'delete'])}"
        )
        raise InputError(msg)
    return int(token)


def _blanked(
    model: TextModel, item: int, tokens: Tokens, aim: Aim, token: int | None
) -> Iterator[Row]:
    """The whole input, then the input without each token."""
    size = len(tokens)
    if token is None and size == 1:
        msg = f"{tokens.text!r} has one token only: there would be nothing left to read"
        raise InputError(msg)
    yield Row(item, None, tokens, aim.position, aim.index)
    for place in range(size):
        if model.head is not MASKED or place != aim.position:
            position = _position(model, aim, place, size, token)
            yield Row(item, place, _without(model, tokens, place, token), position, aim.index)


def _measure(
    model: TextModel, rows: Sequence[Row], batch_size: int, *, progress: bool
) -> dict[tuple[int, int | None], float]:
    """The probability of each row's target."""
    found = {}
    size = batch_size if model.batchable else 1
    with progress_bar("blanking out", len(rows), shown=progress) as show:
        for places in alike([row.tokens for row in rows], size):
            part = [rows[place] for place in places]
            with torch.no_grad():
                batch = model.batch([row.tokens for row in part])
                chances = probabilities(model, batch, [row.position for row in part])
            for row, chance in zip(part, chances, strict=True):
                found[row.item, row.place] = float(chance[row.index])
            show(len(found))
    return found


def _position(model: TextModel, aim: Aim, place: int, size: int, token: int | None) -> int:
    """Where the answer is read once a token is gone: a causal model reads at the new end."""
    if token is not None:
        return aim.position
    if model.head is CAUSAL:
        return size - 2
    return aim.position - (place < aim.position)


def _without(model: TextModel, tokens: Tokens, place: int, token: int | None) -> Tokens:
    inputs = {name: list(values) for name, values in tokens.inputs.items()}
    if token is None:
        for values in inputs.values():
            del values[place]
    else:
        inputs["input_ids"][place] = token
        if token == (model.tokenizer.pad_token_id or 0):
            inputs["attention_mask"][place] = 0
    return Tokens(tokens.names[: len(inputs["input_ids"])], tokens.text, inputs)
