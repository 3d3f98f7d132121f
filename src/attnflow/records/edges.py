"""A set of attention edges, by what they lie between."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer, listed_numbers

Place = int | str  # a position, or a token, a word, a part or a stretch of the text by its name


@dataclass(frozen=True)
class Edges:
    """The attention edges of some layers and heads, from some tokens to some others.

    An edge is what the position ``query`` of a layer reads of the position ``key`` below. Each
    attribute narrows the set, and ``None`` is everything; a list of several is their union.

    Where tokens are named on one side alone, the other side is everyone else: ``Edges(keys="not")``
    hides “not” from all other tokens, and ``Edges(queries="[CLS]")`` all other tokens from
    ``[CLS]``. What a token reads of itself by attention, its own edge, stays with it as its
    residual stream does; without named tokens, as in ``Edges(layers=5, heads=2)``, own edges go,
    too, and the head gives nothing. ``own`` overrides both.

    Attributes:
        layers: Layers, 1 … L, negatives from the top: one, or several such as ``range(3, 6)``.
        heads: Heads, from 0.
        queries: Who reads: positions, or names of tokens, words or parts, or a stretch of the text.
        keys: Who is read, in the same way.
        own: Whether a token's own edge, from itself to itself, is one of them.

    >>> Edges(layers=range(3, 6), keys="not", queries="[CLS]")
    Edges(layers=(3, 4, 5), heads=None, queries=('[CLS]',), keys=('not',), own=None)
    """

    layers: int | Iterable[int] | None = None
    heads: int | Iterable[int] | None = None
    queries: Place | Iterable[Place] | None = None
    keys: Place | Iterable[Place] | None = None
    own: bool | None = None

    def __post_init__(self) -> None:
        for name in ("layers", "heads"):
            object.__setattr__(self, name, _listed(name, getattr(self, name), texts=False))
        for name in ("queries", "keys"):
            object.__setattr__(self, name, _listed(name, getattr(self, name), texts=True))
        if self.own is not None:
            object.__setattr__(self, "own", check_flag("own", self.own))

    @property
    def has_own(self) -> bool:
        """Whether own edges are among them."""
        return (self.queries is None and self.keys is None) if self.own is None else self.own


def _listed(name: str, given: Any, *, texts: bool) -> tuple[Place, ...] | None:
    """One or several as a tuple of integers, and of texts where these are allowed."""
    if given is None:
        return None
    values = listed_numbers(given)
    if not values:
        msg = f"{name}={shown(given)} is empty; name at least one, or leave it out for all"
        raise InputError(msg)
    for each in values:
        if not is_integer(each) and not (texts and isinstance(each, str)):
            allowed = "positions, or names of tokens" if texts else "integers"
            msg = f"{name}={shown(given)} holds {shown(each)}; {name} are {allowed}"
            raise InputError(msg)
    return tuple(each if isinstance(each, str) else operator.index(each) for each in values)  # type: ignore[arg-type]
