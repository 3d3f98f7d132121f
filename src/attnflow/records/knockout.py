"""What a model says without some of its attention edges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path
from attnflow.records import checks
from attnflow.records.files.json import (
    FORMAT,
    check_fields,
    dump,
    load_records,
    read_prediction,
    to_plain,
    write_json,
)
from attnflow.records.prediction import Prediction

KIND = "knockout"


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
    prediction: Prediction | None = None
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
class Knockout:
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
        for name in ("label", "target", "text", "model"):
            checks.check_text(name, getattr(self, name))
        for name in ("contrast", "answer"):
            if getattr(self, name) is not None:
                checks.check_text(name, getattr(self, name))
        checks.check_number("total", self.total, 1)
        checks.check_number("removed", self.removed, 1, self.total)
        for name in ("kept", "seed"):
            checks.check_number(name, getattr(self, name), 0)
        for name in ("per_head", "independent"):
            checks.check_flag(name, getattr(self, name))
        for name in ("tokens", "warnings"):
            object.__setattr__(self, name, checks.check_texts(name, getattr(self, name)))
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

    def to_dict(self) -> dict[str, Any]:
        """Lists, numbers, strings and ``None`` only."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        plain |= {"before": asdict(self.before), "after": asdict(self.after)}
        plain["random"] = [asdict(each) for each in self.random]
        return {"format": FORMAT, "record": KIND, **to_plain(plain)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Knockout:
        """The knockout that `to_dict` described."""
        values = dict(data) if isinstance(data, Mapping) else {}
        found = values.pop("format", None), values.pop("record", None)
        if found != (FORMAT, KIND):
            msg = f"this is not a knockout of format {FORMAT}: {shown(found)}"
            raise InputError(msg)
        check_fields(KIND, Knockout, values)
        values |= {name: _outcome(name, values[name]) for name in ("before", "after")}
        random = values.get("random", ())
        if not isinstance(random, list | tuple):
            msg = f"random={shown(random)} must be a list"
            raise InputError(msg)
        values["random"] = tuple(_outcome("random", each) for each in random)
        return Knockout(**values)

    def save(self, file: str | Path, *, overwrite: bool = False) -> Path:
        """Write it as JSON, compressed where the name ends in ``.gz``; `load` reads it."""
        return save_all([self], as_path(file), overwrite=overwrite)

    @staticmethod
    def load(file: str | Path) -> Knockout:
        """What `save` wrote."""
        found = Knockout.load_all(file)
        if len(found) != 1:
            msg = f"{file} holds {len(found)} knockouts; read them with Knockout.load_all"
            raise InputError(msg)
        return found[0]

    @staticmethod
    def load_all(file: str | Path) -> list[Knockout]:
        """What `save` or ``attnflow knockout --save`` wrote: one or many, each on a line."""
        writer = "Knockout.save or attnflow knockout --save"
        return load_records(as_path(file), Knockout.from_dict, KIND, writer)


def save_all(knockouts: Sequence[Knockout], path: Path, *, overwrite: bool) -> Path:
    """Write a line of JSON for each, compressed where the name ends in ``.gz``."""
    lines = b"".join(dump(each.to_dict(), ()) + b"\n" for each in knockouts)
    return write_json(path, lines, overwrite=overwrite)


def _outcome(name: str, data: Any) -> Outcome:
    values = check_fields(name, Outcome, data)
    if values.get("prediction") is not None:
        values["prediction"] = read_prediction(values["prediction"])
    tokens = values.get("log_probabilities", ())
    if not isinstance(tokens, list | tuple):
        msg = f"log_probabilities={shown(tokens)} must be a list"
        raise InputError(msg)
    return Outcome(**values | {"log_probabilities": tuple(tokens)})
