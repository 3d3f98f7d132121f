"""What made two texts similar: the cosine of their embeddings, split over pairs of tokens."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, shown, unknown
from attnflow.io.files import as_path, check_target, with_checksum, without_checksum, write_file
from attnflow.records import checks
from attnflow.records.selection import is_integer, word_groups
from attnflow.records.types import FloatArray
from attnflow.records.words import name_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 1
SMALLEST = 1e-6  # cosine that something can be divided by


@dataclass(frozen=True)
class EmbeddedText:
    """One of the two texts.

    Attributes:
        text: The text.
        tokens: Its tokens, special ones included.
        word_ids: For each token its word's index in ``word_texts``; ``None`` for special tokens.
        word_texts: The words as they stand in the text.
    """

    text: str
    tokens: tuple[str, ...]
    word_ids: tuple[int | None, ...] | None = None
    word_texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.check_text("text", self.text)
        checks.check_texts("tokens", self.tokens)
        checks.check_texts("word_texts", self.word_texts)
        if self.word_ids is not None and len(self.word_ids) != len(self.tokens):
            msg = f"word_ids has {len(self.word_ids)} entries; {len(self.tokens)} are needed"
            raise InputError(msg)

    @property
    def ordinary(self) -> list[int]:
        """The positions of tokens that are part of the text; all where none is known to be."""
        words = self.word_ids or range(len(self.tokens))
        return [at for at, word in enumerate(words) if word is not None]


@dataclass(frozen=True, eq=False, repr=False)
class Similarity:
    """How much each pair of tokens, one of either text, contributed to the cosine of two texts.

    Attributes:
        first: The first text: the rows of ``scores``.
        second: The second text: the columns.
        scores: ``[first, second]``: what each pair of input tokens contributed; below 0 where it
            makes the texts less similar. The sum is the cosine.
        states: ``[first, second]``: the same of the last layer's positions, before they are traced
            back to input tokens. The sum is the cosine.
        cosine: The cosine of the two embeddings.
        pooling: What an embedding is: the ``"mean"`` of the last states, that of the ``"first"`` or
            of the ``"last"`` position.
        method: The method that traced positions back to tokens.
        options: Every option that was used.
        model: The model's name.
        warnings: What a reader must know.
    """

    first: EmbeddedText
    second: EmbeddedText
    scores: FloatArray
    states: FloatArray
    cosine: float
    pooling: str
    method: str = "rollout"
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.check_real("cosine", self.cosine)
        checks.check_mapping("options", self.options)
        checks.keep_checked(self, dict.fromkeys(("pooling", "method", "model"), checks.check_text))
        shape = (len(self.first.tokens), len(self.second.tokens))
        for name in ("scores", "states"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.shape != shape or not np.isfinite(values).all():
                msg = f"{name} have shape {values.shape}; finite ones of {shape} are needed"
                raise InputError(msg)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    def __repr__(self) -> str:
        best = ", ".join(f"{one}–{other} {score:.3g}" for one, other, score in self.top(3))
        return f"<Similarity: cosine {self.cosine:.4g}; {best}, …>"

    def of(self, side: str) -> FloatArray:
        """What each token of the ``"first"`` or the ``"second"`` text contributed in all."""
        if side not in ("first", "second"):
            raise InputError(unknown("side", side, ("first", "second")))
        found: FloatArray = self.scores.sum(1 if side == "first" else 0)
        return found

    def top(self, k: int = 5, *, special: bool = False) -> Sequence[tuple[str, str, float]]:
        """The k pairs of tokens that contributed most, with what they did, the largest first.

        Pairs with special tokens are left out unless ``special`` is set.
        """
        return self._largest(self.scores, k, special=special)

    @property
    def excess(self) -> FloatArray:
        """``[first, second]``: what pairs contributed beyond what their tokens do with all others.

        That is scores − (sums of rows) (sums of columns) / cosine, which is 0 where it does not
        matter which token meets which. Every row and every column sums to 0.
        """
        if abs(self.cosine) < SMALLEST:
            msg = f"the cosine is {self.cosine:.2g}: what pairs contribute beyond it is not defined"
            raise InputError(msg)
        even = np.outer(self.of("first"), self.of("second")) / self.cosine
        beyond: FloatArray = self.scores - even
        return beyond

    def matches(self, k: int = 5, *, special: bool = False) -> Sequence[tuple[str, str, float]]:
        """The k pairs of tokens that belong together most, with their ``excess``.

        All tokens of a text share in its meaning, so that the pairs that contributed most are often
        those of the heaviest tokens; here is which of them met their like.
        """
        return self._largest(self.excess, k, special=special)

    def _largest(
        self, values: FloatArray, k: int, *, special: bool
    ) -> list[tuple[str, str, float]]:
        checks.check_flag("special", special)
        if not is_integer(k) or k < 0:
            msg = f"k={shown(k)} must be an integer of at least 0"
            raise InputError(msg)
        rows, columns = (
            list(range(len(side.tokens))) if special else side.ordinary
            for side in (self.first, self.second)
        )
        pairs = [(row, column) for row in rows for column in columns]
        pairs.sort(key=lambda at: -values[at])
        return [
            (self.first.tokens[i], self.second.tokens[j], float(values[i, j]))
            for i, j in pairs[: operator.index(k)]
        ]

    def words(self) -> Similarity:
        """The same for words: the sums over their tokens. Special tokens stay as they are."""
        sides = (self.first, self.second)
        if any(side.word_ids is None for side in sides):
            msg = "these texts have no words: the tokenizer gave no offsets in the text"
            raise InputError(msg)
        groups = [word_groups(side.word_ids or ()) for side in sides]
        merged = [
            EmbeddedText(
                side.text, *name_words(each, side.tokens, side.word_ids or (), side.word_texts)
            )
            for side, each in zip(sides, groups, strict=True)
        ]
        starts = [[group[0] for group in each] for each in groups]
        scores, states = (
            np.add.reduceat(np.add.reduceat(values, starts[0], 0), starts[1], 1)
            for values in (self.scores, self.states)
        )
        options = {**self.options, "words": True}
        return replace(
            self,
            first=merged[0],
            second=merged[1],
            scores=scores,
            states=states,
            options=options,
        )

    def figure(self, ax: Axes | None = None, *, theme: str = "light", values: bool = False) -> Axes:
        """A heat map: tokens of the first text × tokens of the second, on ``ax`` or a new figure.

        ``values`` writes the numbers into the cells.
        """
        from attnflow.views.figures.similarity import draw

        return draw(self, ax, theme=theme, values=values)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        plain = {"first": asdict(self.first), "second": asdict(self.second)}
        numbers = {"scores": self.scores.tolist(), "states": self.states.tolist()}
        return {
            "cosine": self.cosine,
            "model": self.model,
            "method": self.method,
            "pooling": self.pooling,
            **plain,
            **numbers,
            "options": dict(self.options),
            "warnings": list(self.warnings),
        }

    def save(self, file: str | Path, *, overwrite: bool = False) -> Path:
        """Write it as JSON; `Similarity.load` reads it."""
        path = check_target(file, overwrite=overwrite)
        plain = with_checksum({"format": FORMAT, **self.to_dict()})
        text = json.dumps(plain, ensure_ascii=False)
        write_file(path, text.encode(errors="backslashreplace") + b"\n")
        return path

    @staticmethod
    def load(file: str | Path) -> Similarity:
        """What was saved."""
        path = as_path(file)
        try:
            found = without_checksum(json.loads(path.read_bytes()))
            known = found.pop("format")
            first, second = (EmbeddedText(**_tuples(found.pop(side))) for side in SIDES)
            warnings = tuple(found.pop("warnings"))
            read = Similarity(first, second, **found, warnings=warnings)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, InputError) as error:
            msg = f"{path} is not a file that Similarity.save wrote: {shown(error)}"
            raise InputError(msg) from None
        if known != FORMAT:
            msg = f"{path} has format {shown(known)}; this version reads {FORMAT}"
            raise InputError(msg)
        return read


SIDES = ("first", "second")


def _tuples(side: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in side.items()
    }
