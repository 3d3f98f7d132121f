"""A set of attention edges, and what a model predicts without them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from attnflow.errors import InputError, shown
from attnflow.records import checks
from attnflow.records.checks import check_flag
from attnflow.records.files import SavedRecord, check_fields, read_list, read_prediction
from attnflow.records.prediction import Prediction
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


@dataclass(frozen=True)
class Outcome:
    """What a model says, and how likely it finds the target.

    Attributes:
        log_probability: Of the target; of an answer, the sum over its tokens.
        prediction: What the model finds most likely; ``None`` for an answer.
        margin: With a contrast, how much larger the target's logit is than the contrast's.
        log_probabilities: For an answer, those of its tokens.
    """

    log_probability: float
    prediction: Prediction | Any = None  # as in Attribution
    margin: float | None = None
    log_probabilities: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.check_real("log_probability", self.log_probability)
        if self.margin is not None:
            checks.check_real("margin", self.margin)
        if self.prediction is not None and not isinstance(self.prediction, Prediction):
            msg = f"prediction={shown(self.prediction)} must be a Prediction or None"
            raise InputError(msg)
        values = tuple(
            checks.check_real(f"log_probabilities[{at}]", each)
            for at, each in enumerate(self.log_probabilities)
        )
        object.__setattr__(self, "log_probabilities", values)

    @property
    def probability(self) -> float:
        """The target's probability; an answer's, of all its tokens together."""
        return math.exp(self.log_probability)


@dataclass(frozen=True, eq=False, repr=False)
class Knockout(SavedRecord):
    """What a model says with and without a set of attention edges, and without random ones.

    Attributes:
        label: What was removed, in words.
        removed: How many edges were removed.
        total: How many edges there are to remove: those that the model does not mask; own edges,
            from a token to itself, are counted if some of them were removed.
        before: What the model says as it is.
        after: What it says without the edges.
        random: What it says without random sets of as many edges, drawn from all ``total``.
        target: The label or token that probabilities are of; for an answer, its text.
        contrast: The label or token that the target is compared with.
        per_head: Whether an edge is that of a single head; otherwise it is one in all heads.
        independent: Whether labels are independent of each other: an input may have several.
        kept: How many edges of a cut or a route were left in place, as they are none of attention:
            own edges, which stand for the residual stream, and those of a logit.
        seed: Of drawing the random sets.
        tokens: The input's tokens.
        text: The input.
        answer: The answer, where the target is one.
        model: The model's name.
        warnings: What a reader must know of the model and the input.
    """

    _kind = "knockout"
    _writer = "Knockout.save or attnflow knockout --save"

    label: str
    removed: int
    total: int
    before: Outcome
    after: Outcome
    random: tuple[Outcome, ...] = ()
    target: str = ""
    contrast: str | None = None
    per_head: bool = False
    independent: bool = False
    kept: int = 0
    seed: int = 0
    tokens: tuple[str, ...] = ()
    text: str = ""
    answer: str | None = None
    model: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = [name for name in ("contrast", "answer") if getattr(self, name) is not None]
        fields: dict[str, checks.Check] = {
            **dict.fromkeys(("label", "target", "text", "model", *named), checks.check_text),
            "total": partial(checks.check_number, low=1),
            "removed": partial(checks.check_number, low=1, high=self.total),
            **dict.fromkeys(("kept", "seed"), partial(checks.check_number, low=0)),
            **dict.fromkeys(("per_head", "independent"), checks.check_flag),
            **dict.fromkeys(("tokens", "warnings"), checks.check_texts),
        }
        checks.keep_checked(self, fields)
        object.__setattr__(self, "random", tuple(self.random))
        for each in (self.before, self.after, *self.random):
            if not isinstance(each, Outcome):
                msg = f"before, after and random must be outcomes; this is {shown(each)}"
                raise InputError(msg)

    @property
    def change(self) -> float:
        """By how much the target's log-probability changes; with a contrast, the margin."""
        return self._value(self.after) - self._value(self.before)

    @property
    def random_change(self) -> float:
        """The same without random edges, on average; NaN where none were drawn."""
        if not self.random:
            return math.nan
        return sum(map(self._value, self.random)) / len(self.random) - self._value(self.before)

    @property
    def summary(self) -> str:
        """All of it in one sentence."""
        from attnflow.views.wording.knockouts import summarize

        return summarize(self)

    def __repr__(self) -> str:
        return f"<Knockout: {self.label}; {self.summary}>"

    def _value(self, outcome: Outcome) -> float:
        return outcome.log_probability if outcome.margin is None else outcome.margin

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        values |= {name: _outcome(name, values[name]) for name in ("before", "after")}
        random = read_list("random", values.get("random", ()))
        return cls(**values | {"random": tuple(_outcome("random", each) for each in random)})


def _outcome(name: str, data: Any) -> Outcome:
    values = check_fields(name, Outcome, data)
    if values.get("prediction") is not None:
        values["prediction"] = read_prediction(values["prediction"])
    tokens = read_list("log_probabilities", values.get("log_probabilities", ()))
    return Outcome(**values | {"log_probabilities": tokens})
