"""Which position an explanation is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnflow.errors import InputError

SHOWN = 64


def find(query: int | str, tokens: Sequence[str], name: str = "query") -> int:
    """The position of an index (negatives count from the end) or of a token's text.

    ``name`` is what the caller's argument is called, for the error.
    """
    if isinstance(query, str):
        return _by_text(query, tokens, name)
    if isinstance(query, bool) or not -len(tokens) <= query < len(tokens):
        msg = f"{name}={query} does not exist; there are {len(tokens)} tokens: {_listed(tokens)}"
        raise InputError(msg)
    return query % len(tokens)


def _by_text(query: str, tokens: Sequence[str], name: str) -> int:
    places = [i for i, token in enumerate(tokens) if token == query]
    places = places or [i for i, t in enumerate(tokens) if t.casefold() == query.casefold()]
    if len(places) == 1:
        return places[0]
    if places:
        msg = (
            f"{name}={query!r} stands at {_shortened(', ', map(str, places))}; give the position: "
            f"{_listed(tokens)}"
        )
    else:
        msg = (
            f"{name}={query!r} is none of the tokens; give one, or its position: {_listed(tokens)}"
        )
    raise InputError(msg)


def _listed(tokens: Sequence[str]) -> str:
    return _shortened(" ", (f"{i}:{token}" for i, token in enumerate(tokens)))


def _shortened(between: str, parts: Iterable[str]) -> str:
    """All parts, or the first ones and the last of a long text's: an error is one line."""
    every = list(parts)
    return between.join(every if len(every) <= SHOWN else [*every[: SHOWN - 2], "…", every[-1]])
