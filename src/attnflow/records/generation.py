"""The result for a whole answer: where each sentence of it, or each token, came from."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.records import checks
from attnflow.records.attribution import Attribution, Input, checked_input, read_grid
from attnflow.records.contrast import Contrast
from attnflow.records.files import SavedRecord, check_fields, read_list, read_prediction
from attnflow.records.parts import ANSWER, SOURCE, TEMPLATE, Part, PartScore
from attnflow.records.prediction import Prediction
from attnflow.records.selection import find_position, is_integer
from attnflow.records.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attnflow.views.explorer.exploration import Exploration

Span = int | str | slice | Sequence[int] | None


def find_place(of: Generation, piece: int | str) -> int:
    """The number of a piece of the answer, by its number, its text, or a text inside it."""
    count = len(of.pieces)
    if isinstance(piece, str):
        if all(last - first == 1 for first, last in of.pieces):
            return find_position(piece, of.answer_tokens[:count], "answer")
        found = _pieces_of_text(of, piece)
        if len(found) > 1:
            texts = " and ".join(repr(of.piece_texts[row]) for row in found[:2])
            msg = f"answer={shown(piece)} is in several pieces of the answer ({texts}): name one"
            raise InputError(msg)
        return found[0]
    number = operator.index(piece) if is_integer(piece) else count
    if not -count <= number < count:
        what = "tokens" if count == len(of.answer) else "pieces"
        msg = (
            f"answer={shown(piece)} does not exist; the answer has {count} {what}, 0 to {count - 1}"
        )
        raise InputError(msg)
    return number % count


def find_rows(of: Generation, span: Span) -> list[int]:
    """The numbers of a span's pieces of the answer; ``None`` is all."""
    count = len(of.pieces)
    if span is None:
        return list(range(count))
    if isinstance(span, slice):
        found = list(range(count))[span]
    elif isinstance(span, str):
        found = _whole_pieces(of, span)
    elif is_integer(span):
        found = [find_place(of, span)]  # type: ignore[arg-type]
    else:
        found = sorted({find_place(of, each) for each in span})  # type: ignore[union-attr]
    if not found:
        msg = f"span={shown(span)} holds no token of the answer: {of.answer_text!r}"
        raise InputError(msg)
    return found


def _tokens_of_text(of: Generation, text: str) -> set[int]:
    """The tokens that a piece of the answer's text is made of."""
    start = of.answer_text.find(text) if text else -1
    if start < 0 or of.spans is None:
        msg = f"span={shown(text)} is not in the answer: {of.answer_text!r}"
        raise InputError(msg)
    if of.answer_text.find(text, start + 1) >= 0:
        msg = f"span={shown(text)} is in the answer several times; give the numbers of its pieces"
        raise InputError(msg)
    end = start + len(text)
    places = [of.spans[at] for at in of.answer]
    return {at for at, (first, last) in enumerate(places) if first < end and start < last}


def _pieces_of_text(of: Generation, text: str) -> list[int]:
    """The pieces of the answer that have a token of a text."""
    tokens = _tokens_of_text(of, text)
    found = [row for row, piece in enumerate(of.pieces) if tokens & set(range(*piece))]
    if not found:
        msg = f"span={shown(text)} holds no token of the answer that was explained"
        raise InputError(msg)
    return found


def _whole_pieces(of: Generation, text: str) -> list[int]:
    """The pieces that a text is made of; an error where it is a part of one."""
    found, tokens = _pieces_of_text(of, text), _tokens_of_text(of, text)
    for row in found:
        if not _visible(of, row) <= tokens:
            msg = (
                f"span={shown(text)} is a part of {shown(of.piece_texts[row])}, which was "
                "explained as a whole: name all of it, or explain with each='tokens'"
            )
            raise InputError(msg)
    return found


def _visible(of: Generation, row: int) -> set[int]:
    """The tokens of a piece that stand for something in the answer's text."""
    spans = of.spans or ()
    return {
        number
        for number in range(*of.pieces[row])
        if of.answer_text[slice(*spans[of.answer[number]])].strip()
    }


def stopped_at(cut_at: int | None) -> str:
    """What is shown behind an answer that was cut; empty where it came to its end."""
    if cut_at is None:
        return ""
    return f" … (stopped at {cut_at} token{'' if cut_at == 1 else 's'})"


@dataclass(frozen=True, eq=False, repr=False)
class Generation(SavedRecord, Input):
    """Where each sentence of an answer, or each token of it, came from.

    The answer is explained in pieces. ``found.matrix()`` is ``[piece, source]``: row k has the
    scores of all tokens (prompt, then answer) for the k-th piece, for the mean over its tokens, so
    that long pieces and short ones compare; it is 0 from the piece's last token on.
    ``found.at(answer=k)`` and ``found.mean(span)`` are a usual `Attribution` of one piece, and of
    several. It has all that an `Input` has; its ``tokens`` are the prompt's, then the answer's, and
    ``text`` is the prompt.

    Attributes:
        answer: The positions of the answer's tokens among them; each was predicted one before.
        scores: ``[piece, source]``; ``None`` where parts alone were scored.
        part_scores: ``[piece, part]``: scores of whole parts. Those of flow are maximum flows to
            the whole part, which sums over its tokens would exceed.
        log_probabilities: ``[answer]``: of the answer's tokens, as the model gave them.
        predictions: What the model predicted at each of them, with alternatives.
        parts: The parts of the prompt, then what is left of it, then the answer; every token is in
            one of them.
        drops: ``[answer, part]``, of parts that were named: by how much the log-probability of
            each token falls when the part is deleted; ``None`` where that was not measured.
        without_sources: ``[answer]``: the same without all parts that are sources; ``None`` where
            there are fewer than two, or it was not measured.
        method: The name of the method.
        layer: The layer that is explained.
        depth: How many layers the model has.
        options: Every option that was used.
        model: The model's name.
        answer_text: The answer.
        spans: For each token where it stands in ``text``, or in ``answer_text``; ``None`` where
            that is not known.
        statistics: What the method reports of its work.
        cut_at: How many tokens the model was let write, where it had more to say; ``None`` for an
            answer that came to its end, or was given.
        contrast: Another answer that this one is compared with. There is one row of scores then,
            for the choice between the two.
        pieces: For each row where its piece starts and ends among the answer's tokens; without
            them each token is a piece. One follows the other. They end before the answer does
            where work was interrupted.
    """

    _kind = "generation"
    _with_gaps = ("options", "statistics", "predictions")
    _writer = "Generation.save or attnflow explain --save"

    answer: tuple[int, ...]
    scores: FloatArray | None
    part_scores: FloatArray
    log_probabilities: FloatArray
    predictions: tuple[Prediction, ...]
    parts: tuple[Part, ...]
    method: str
    layer: int
    depth: int
    drops: FloatArray | None = None
    without_sources: FloatArray | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    answer_text: str = ""
    spans: tuple[tuple[int, int], ...] | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    cut_at: int | None = None
    pieces: tuple[tuple[int, int], ...] = ()
    contrast: Contrast | Any = None  # None without one; Any, as Attribution.prediction

    def __post_init__(self) -> None:
        for name, value in checked_input(self).items():
            object.__setattr__(self, name, value)
        last = len(self.tokens) - 1
        count = len(checks.check_numbers("answer", self.answer, 1, last))
        object.__setattr__(self, "pieces", _check_pieces(self.pieces, count))
        rows = len(self.pieces)
        shapes = {
            "scores": (rows, len(self.tokens)),
            "part_scores": (rows, len(self.parts)),
            "log_probabilities": (count,),
            "drops": (count, len(self.named)),
            "without_sources": (count,),
        }
        for name, shape in shapes.items():
            if getattr(self, name) is None and name in ("scores", "drops", "without_sources"):
                continue
            values = checks.check_scores(name, getattr(self, name))
            if values.shape != shape:
                msg = f"{name} has shape {values.shape}; this answer and its parts need {shape}"
                raise InputError(msg)
            object.__setattr__(self, name, values)
        checks.keep_checked(
            self, dict.fromkeys(("method", "model", "answer_text"), checks.check_text)
        )
        checks.check_number("layer", self.layer, 1, checks.check_number("depth", self.depth, 1))
        if self.cut_at is not None:
            checks.check_number("cut_at", self.cut_at, 1)
        covered = sorted(at for part in self.parts for at in part.positions)
        if covered != list(range(len(self.tokens))):
            msg = f"parts hold the positions {shown(covered)}; every token must be in one of them"
            raise InputError(msg)
        for name, size in (("predictions", count), ("spans", last + 1)):
            given = getattr(self, name)
            if given is not None and len(given) != size:
                msg = f"{name} has {len(given)} entries; {size} are needed"
                raise InputError(msg)
        checks.keep_checked(self, dict.fromkeys(("options", "statistics"), checks.check_mapping))

    def __repr__(self) -> str:
        prompt = [
            row for row, part in zip(self.table(), self.parts, strict=True) if part in self.named
        ]
        best = max(prompt, key=lambda row: row.score)
        return (
            f"<Generation: {self.method} of {self.model}, {len(self.answer)} tokens from "
            f"{len(self.tokens) - len(self.answer)}; most from {best.name!r}: "
            f"{self.answer_text!r}{self.stopped}>"
        )

    @property
    def named(self) -> tuple[Part, ...]:
        """The parts that have a name of their own: neither the template nor the answer."""
        return tuple(part for part in self.parts if part.named)

    @property
    def stopped(self) -> str:
        """What is shown behind an answer that was cut; empty where it came to its end."""
        return stopped_at(self.cut_at)

    @property
    def probabilities(self) -> FloatArray:
        """``[answer]``: the probabilities of the answer's tokens."""
        found: FloatArray = np.exp(self.log_probabilities)
        return found

    @property
    def answer_tokens(self) -> tuple[str, ...]:
        """The tokens of the answer."""
        return tuple(self.tokens[at] for at in self.answer)

    @property
    def piece_texts(self) -> tuple[str, ...]:
        """The text of each piece of the answer; a token's name where a piece is one token."""
        return tuple(self._text_of(*piece) for piece in self.pieces)

    def _text_of(self, first: int, last: int) -> str:
        names = self.answer_tokens[first:last]
        if last - first == 1 or self.spans is None:
            return " ".join(names)
        places = [self.spans[at] for at in self.answer[first:last]]
        return self.answer_text[places[0][0] : places[-1][1]].strip() or " ".join(names)

    def probability(self, row: int) -> float:
        """How likely the tokens of a piece were, each given all before it: their geometric mean."""
        return float(np.exp(self.log_probabilities[self.numbers([row])].mean()))

    @property
    def complete(self) -> bool:
        """Whether all of the answer was explained: work may have been interrupted."""
        return self.pieces[-1][1] == len(self.answer)

    @property
    def explained_to(self) -> int:
        """Where in ``answer_text`` ends what was explained."""
        if self.complete or self.spans is None:
            return len(self.answer_text)
        return self.spans[self.answer[self.pieces[-1][1] - 1]][1]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of these scores must know."""
        return tuple(self.statistics.get("warnings", ()))

    def matrix(self, of: Literal["tokens", "parts"] = "tokens") -> FloatArray:
        """``[piece, source]``; with ``"parts"``, ``[piece, part]``."""
        if of == "parts":
            return self.part_scores
        if of != "tokens":
            msg = f"of={shown(of)} is unknown; allowed: 'tokens', 'parts'"
            raise InputError(msg)
        if self.scores is None:
            msg = "parts alone were scored; leave out parts_only=True for the scores of tokens"
            raise InputError(msg)
        return self.scores

    def at(self, answer: int | str) -> Attribution:
        """The attribution of one piece of the answer: by its number, or by a text inside it."""
        return self._attribution([self.place(answer)])

    def mean(self, span: Span = None) -> Attribution:
        """The attribution of a span of the answer, the mean over its tokens; ``None`` is all.

        A span is a slice of the pieces, their numbers, one number, or the text of one or more.
        """
        return self._attribution(self.rows(span))

    @property
    def ratios(self) -> bool:
        """Whether scores are ratios to chance (the correction ``"uniform"``), which have no sum."""
        return self.options.get("correction") == "uniform"

    def table(self, span: Span = None) -> list[PartScore]:
        """What each part gave to the answer, or to a span of it, in the order of the prompt.

        Drops are those of the whole span's log-probability; with a contrast, of how much larger
        that of the answer is.
        """
        rows = self.rows(span)
        values = self._mean(self.part_scores, rows)
        total = float(values.sum())
        shared = total > 0 and not self.ratios and bool((self.part_scores >= 0).all())
        values_without = () if self.drops is None else self.drops[self.numbers(rows)].sum(0)
        if self.contrast is not None and self.contrast.drops is not None:
            values_without = values_without - np.array(self.contrast.drops)
        drops = iter(values_without)
        return [
            PartScore(
                part.name,
                float(value),
                float(value) / total if shared else None,
                float(next(drops)) if self.drops is not None and part.named else None,
            )
            for part, value in zip(self.parts, values, strict=True)
        ]

    def place(self, answer: int | str) -> int:
        """The number of a piece of the answer, by its number or by a text inside it."""
        return find_place(self, answer)

    def rows(self, span: Span = None) -> list[int]:
        """The numbers of a span's pieces: their rows in `matrix`."""
        return find_rows(self, span)

    def numbers(self, rows: Sequence[int]) -> list[int]:
        """The numbers of the answer's tokens in these pieces, for what each token has."""
        return [number for row in rows for number in range(*self.pieces[row])]

    def _mean(self, values: FloatArray, rows: Sequence[int]) -> FloatArray:
        """The mean over the tokens of pieces."""
        lengths = [last - first for first, last in (self.pieces[row] for row in rows)]
        mean: FloatArray = np.average(values[list(rows)], axis=0, weights=lengths)
        return mean

    def _attribution(self, rows: Sequence[int]) -> Attribution:
        numbers = self.numbers(rows)
        queries = tuple(self.answer[number] - 1 for number in numbers)
        lengths = [last - first for first, last in (self.pieces[row] for row in rows)]
        # A piece's scores are the mean over its tokens, and stand at each of them.
        scores = np.repeat(self.matrix()[list(rows)], lengths, axis=0)
        one = len(queries) == 1
        target = {"target": self.piece_texts[rows[0]]} if len(rows) == 1 else {}
        return Attribution(
            **self.about_input,
            scores=scores[None],
            layers=(self.layer,),
            queries=queries,
            layer=self.layer,
            query=queries[-1],
            method=self.method,
            options={**self.options, "answer": self.answer_text, **target},
            model=self.model,
            prediction=self.predictions[numbers[-1]],
            statistics=self.statistics,
            depth=self.depth,
            pooled=() if one else (queries[-1], *queries[:-1]),
        )

    def explore(self) -> Exploration:
        """The interactive view: prompt and answer side by side; ``save`` writes it as one file."""
        from attnflow.views.explorer.exploration import exploration_of_answer

        return exploration_of_answer(self)

    def _repr_html_(self) -> str:
        """The interactive view, for notebooks."""
        return self.explore()._repr_html_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {**self.explore()._repr_mimebundle_(), "text/plain": repr(self)}

    def figure(self, kind: str = "generation", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw this on ``ax`` or on a new figure, and return the axes.

        Options are ``values=True``, which writes the numbers into the cells, and ``theme``.
        """
        from attnflow.views.figures import draw

        return draw(kind, self, ax, **options)

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        for name, read in (("predictions", read_prediction), ("parts", _read_part)):
            values[name] = tuple(map(read, read_list(name, values[name])))
        if values.get("contrast") is not None:
            values["contrast"] = _read_contrast(values["contrast"])
        values["answer"] = read_list("answer", values["answer"])
        for name in ("spans", "pieces"):
            if values.get(name) is not None:
                values[name] = tuple(
                    read_list(name, each) for each in read_list(name, values[name])
                )
        return cls(**values | {"grid": read_grid(values.get("grid"))})


def _check_pieces(given: Sequence[Any], count: int) -> tuple[tuple[int, int], ...]:
    """Pieces of the answer, one after the other from its first token on."""
    if len(given) == 0:
        return tuple((at, at + 1) for at in range(count))
    pairs = [checks.check_numbers("pieces", each, 0, count) for each in given]
    starts = [0, *(pair[-1] for pair in pairs[:-1] if pair)]
    if any(
        len(pair) != 2 or pair[0] != start or pair[1] <= start
        for pair, start in zip(pairs, starts, strict=False)
    ):
        msg = (
            f"pieces={shown(given)} must be where each piece of the answer starts and ends among "
            f"its {count} tokens, one after the other: ((0, 3), (3, {count}))"
        )
        raise InputError(msg)
    return tuple((first, last) for first, last in pairs)


def _read_contrast(data: Any) -> Contrast:
    fields = check_fields("contrast", Contrast, data)
    for name in ("tokens", "log_probabilities", "drops"):
        if fields.get(name) is not None:
            fields[name] = read_list(name, fields[name])
    return Contrast(**fields)


OLD_KINDS = {"part": SOURCE, "rest": TEMPLATE, "answer": ANSWER}  # of files of version 0.2


def _read_part(data: Any) -> Part:
    if isinstance(data, Mapping) and data.get("kind") in OLD_KINDS and "role" not in data:
        data = {"role": OLD_KINDS[data["kind"]], **data}
        del data["kind"]
    return Part(**check_fields("part", Part, data))
