"""What the fields of an attribution may be, and how they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, shown
from attnflow.records import checks

if TYPE_CHECKING:
    from attnflow.records.attribution import Attribution

TEXTS = ("method", "model", "text")
MAPPINGS = ("options", "statistics")
MOST_LAYERS = 1 << 16


def check_fields(given: Attribution) -> dict[str, Any]:
    """The fields as they are kept: plain, read-only, each of its own type, fitting each other."""
    fields = _plain_fields(given)
    scores, tokens = fields["scores"], fields["tokens"]
    layers, queries = fields["layers"], fields["queries"]
    shape, expected = scores.shape, (len(layers), len(queries), len(tokens))
    if scores.ndim not in (3, 4) or (shape[0], *shape[-2:]) != expected or not all(shape):
        msg = (
            f"scores have shape {shape}; {expected[0]} layers, {expected[1]} queries and "
            f"{expected[2]} tokens need [layer, query, key] or [layer, head, query, key]"
        )
        raise InputError(msg)
    check_computed("layer", fields["layer"], fields["layer"], layers)
    for position in (fields["query"], *fields["pooled"]):
        check_computed("query", position, position, queries)
    for name in ("word_ids", "segments"):
        labels = fields[name]
        if labels is not None and len(labels) != len(tokens):
            msg = f"{name} has {len(labels)} entries; there are {len(tokens)} tokens"
            raise InputError(msg)
    return fields


def _plain_fields(given: Attribution) -> dict[str, Any]:
    """Each field by itself."""
    tokens = checks.check_texts("tokens", given.tokens)
    depth = checks.check_number("depth", given.depth, 0, MOST_LAYERS)
    layers = checks.check_numbers("layers", given.layers, 1, depth or MOST_LAYERS)
    last = len(tokens) - 1
    if given.prediction is not None and given.prediction.position is not None:
        checks.check_number("the prediction's position", given.prediction.position, 0, last)
    texts = checks.check_texts("word_texts", given.word_texts)
    words, segments = given.word_ids, given.segments
    return {
        "tokens": tokens,
        "scores": checks.check_scores(given.scores),
        "layers": layers,
        "queries": checks.check_numbers("queries", given.queries, 0, last),
        "layer": checks.check_number("layer", given.layer, 1),
        "query": checks.check_number("query", given.query, 0),
        "depth": depth or max(layers, default=0),
        "pooled": checks.check_positions("pooled", given.pooled, last),
        "word_texts": texts,
        "word_ids": None if words is None else _check_word_ids(words, len(texts)),
        "segments": None if segments is None else checks.check_texts("segments", segments),
        **{name: checks.check_text(name, getattr(given, name)) for name in TEXTS},
        **{name: checks.check_mapping(name, getattr(given, name)) for name in MAPPINGS},
    }


def check_computed(name: str, given: int | str, number: int, allowed: tuple[int, ...]) -> int:
    """The number, if it was computed; an error names it as it was given."""
    if number not in allowed:
        all_of = {"query": "query='all'", "layer": "layers='all'"}[name]
        more = f"; explain with {all_of} for all of them"
        msg = (
            f"{name}={shown(given)} was not computed; this attribution has {_shown(allowed)}{more}"
        )
        raise InputError(msg)
    return number


def _check_word_ids(given: object, count: int) -> tuple[int | None, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        msg = f"word_ids={shown(given)} must be a list with an integer or None for each token"
        raise InputError(msg)
    return tuple(
        None if word is None else checks.check_number(f"word_ids[{at}]", word, 0, count - 1)
        for at, word in enumerate(given)
    )


def _shown(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 1 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
