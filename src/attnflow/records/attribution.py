"""The result: scores of input tokens, with everything that is needed to use and repeat them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path
from attnflow.records import checks
from attnflow.records.kinds import FloatArray
from attnflow.records.positions import find_position, input_positions, words_of_tokens
from attnflow.records.rounding import round_scores
from attnflow.records.selection import is_integer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


TEXTS = ("method", "model", "text")
MAPPINGS = ("options", "statistics")
MOST_LAYERS = 1 << 16


@dataclass(frozen=True)
class Prediction:
    """The model's prediction: a label or a token, and its probability.

    Attributes:
        label: The most likely label or token.
        probability: Its probability.
        alternatives: The most likely ones with their probabilities, ``label`` first.
        position: The token the prediction was made at; ``None`` for a label of the whole input.
    """

    label: str
    probability: float
    alternatives: tuple[tuple[str, float], ...] = ()
    position: int | None = None

    def __post_init__(self) -> None:
        checks.check_text("label", self.label)
        checks.check_probability(self.label, self.probability)
        for each in self.alternatives:
            if not (isinstance(each, tuple) and len(each) == 2):
                msg = f"alternatives hold {shown(each)}; they must be (label, probability)"
                raise InputError(msg)
            checks.check_probability(checks.check_text("label", each[0]), each[1])
        if self.position is not None:
            checks.check_number("the prediction's position", self.position, 0)


@dataclass(frozen=True)
class PatchGrid:
    """How the patches of a vision model lie on the image, or frames in the time of a sound.

    A sound is an image as wide as it has samples, and as high as it has rows of frequencies.

    Attributes:
        rows: Patches from top to bottom.
        columns: Patches from left to right.
        image: The image's height and width in pixels.
        box: The part of the image that the model saw, in its pixels: left, top, right, bottom.
        seconds: For sounds, how long the image is; ``None`` for images.
    """

    rows: int
    columns: int
    image: tuple[int, int]
    box: tuple[float, float, float, float]
    seconds: float | None = None

    def __post_init__(self) -> None:
        sizes = ("rows", self.rows), ("columns", self.columns), *(("image", n) for n in self.image)
        for name, size in sizes:
            checks.check_number(f"grid.{name}", size, 1)
        box = [checks.check_real("grid.box", edge) for edge in self.box]
        if self.seconds is not None and not checks.check_real("grid.seconds", self.seconds) > 0:
            msg = f"grid.seconds={shown(self.seconds)} must be positive"
            raise InputError(msg)
        if len(self.image) != 2 or len(box) != 4 or not (box[0] < box[2] and box[1] < box[3]):
            msg = (
                f"grid.image={shown(self.image)} must be a height and a width, and "
                f"grid.box={shown(self.box)} left, top, right and bottom"
            )
            raise InputError(msg)


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """How much each input token contributed, by one method, to positions of one or more layers.

    Attributes:
        tokens: The input tokens: the key axis.
        scores: ``[layer, query, key]``, or ``[layer, head, query, key]`` for single heads.
        layers: The layer numbers along the first axis of ``scores``.
        queries: The positions along the query axis.
        layer: The layer that is explained, one of ``layers``.
        query: The position that is explained, one of ``queries``.
        method: The name of the method, e.g. ``"flow"``.
        options: Every option that was used.
        model: The model's name.
        text: The input text.
        prediction: The model's prediction; ``None`` if it has no head that predicts.
        statistics: What the method reports of its work, e.g. the largest optimality gap.
        word_ids: For each token its word's index in ``word_texts``; ``None`` for special tokens.
        word_texts: The words as they stand in the text.
        segments: For each token what it is part of, e.g. ``"source"`` and ``"target"``, or
            ``"patch"``; ``None`` where there is only one kind.
        grid: For images and sounds, how the patches lie on the image, or the frames in time.
        depth: How many layers the model has; ``layers`` may be some of them.
        pooled: Where the model decides from several positions, all of them, ``query`` first: their
            mean is explained. In words, a word stands there once for each of its tokens.
    """

    tokens: tuple[str, ...]
    scores: FloatArray
    layers: tuple[int, ...]
    queries: tuple[int, ...]
    layer: int
    query: int
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    text: str = ""
    prediction: Prediction | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    word_ids: tuple[int | None, ...] | None = None
    word_texts: tuple[str, ...] = ()
    segments: tuple[str, ...] | None = None
    grid: PatchGrid | None = None
    depth: int = 0
    pooled: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value in self._checked().items():
            object.__setattr__(self, name, value)
        shape = self.scores.shape
        expected = (len(self.layers), len(self.queries), len(self.tokens))
        if self.scores.ndim not in (3, 4) or (shape[0], *shape[-2:]) != expected or not all(shape):
            msg = (
                f"scores have shape {shape}; {expected[0]} layers, {expected[1]} queries and "
                f"{expected[2]} tokens need [layer, query, key] or [layer, head, query, key]"
            )
            raise InputError(msg)
        _require("layer", self.layer, self.layer, self.layers)
        for position in (self.query, *self.pooled):
            _require("query", position, position, self.queries)
        for name in ("word_ids", "segments"):
            labels = getattr(self, name)
            if labels is not None and len(labels) != len(self.tokens):
                msg = f"{name} has {len(labels)} entries; there are {len(self.tokens)} tokens"
                raise InputError(msg)

    def _checked(self) -> dict[str, Any]:
        """The fields as they are kept: plain, read-only, each of its own type."""
        tokens = checks.check_texts("tokens", self.tokens)
        depth = checks.check_number("depth", self.depth, 0, MOST_LAYERS)
        layers = checks.check_numbers("layers", self.layers, 1, depth or MOST_LAYERS)
        last = len(tokens) - 1
        if self.prediction is not None and self.prediction.position is not None:
            checks.check_number("the prediction's position", self.prediction.position, 0, last)
        texts = checks.check_texts("word_texts", self.word_texts)
        return {
            "tokens": tokens,
            "scores": checks.check_scores(self.scores),
            "layers": layers,
            "queries": checks.check_numbers("queries", self.queries, 0, last),
            "layer": checks.check_number("layer", self.layer, 1),
            "query": checks.check_number("query", self.query, 0),
            "depth": depth or max(layers, default=0),
            "pooled": checks.check_positions("pooled", self.pooled, last),
            "word_texts": texts,
            "word_ids": self.word_ids
            if self.word_ids is None
            else _word_ids(self.word_ids, len(texts)),
            "segments": self.segments
            if self.segments is None
            else checks.check_texts("segments", self.segments),
            **{name: checks.check_text(name, getattr(self, name)) for name in TEXTS},
            **{name: checks.check_mapping(name, getattr(self, name)) for name in MAPPINGS},
        }

    def __repr__(self) -> str:
        best = ", ".join(f"{token} {score:.3g}" for token, score in self.top(3))
        best += ", …" if len(self.tokens) > 3 else ""
        of = f" of {self.model}" if self.model else ""
        return f"<Attribution: {self.method}{of}, {len(self.tokens)} tokens; {best}>"

    def row(self, layer: int | None = None, query: int | str | None = None) -> FloatArray:
        """The scores of all tokens, ``[key]`` (or ``[head, key]``), for a layer and a position.

        ``None`` is the explained one. A layer is 1 … L, negatives from the top; a position is an
        index, negatives from the end, or a token's text.
        """
        found: FloatArray = self.of_layers(query)[self.layers.index(self._layer(layer))]
        return found

    def of_layers(self, query: int | str | None = None) -> FloatArray:
        """The scores of all tokens, ``[layer, key]`` (or ``[layer, head, key]``), for a position.

        ``None`` is what was asked about: the mean of ``pooled`` where there are several.
        """
        asked = self.pooled if query is None and self.pooled else (self._query(query),)
        rows = [self.scores[..., self.queries.index(at), :] for at in asked]
        mean: FloatArray = rows[0] if len(rows) == 1 else np.mean(rows, axis=0)
        return mean

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of these scores must know about the model."""
        return tuple(self.statistics.get("warnings", ()))

    @property
    def explained(self) -> str:
        """What was asked about, in words: a token, the mean of several, or a target's logit."""
        count = len(self.pooled)
        if self.options.get("source") == "logit":
            return f"the logit of {self.options['target']}"
        return f"the mean of {count} positions" if count else self.tokens[self.query]

    def at(self, layer: int | None = None, query: int | str | None = None) -> Attribution:
        """The same scores, explaining another layer or position of those that were computed.

        ``layer`` and ``query`` are as for `row`; ``None`` changes nothing. The prediction stays
        the same.
        """
        given = {"layer": layer, "query": query}
        changes = {
            name: operator.index(value) if is_integer(value) else value  # type: ignore[arg-type]
            for name, value in given.items()
            if value is not None
        }
        return replace(
            self,
            layer=self._layer(layer),
            query=self._query(query),
            pooled=self.pooled if query is None else (),
            options={**self.options, **changes},
        )

    def position(self, token: int | str, name: str = "query") -> int:
        """The position of a token: by its text, by its label (``the:4``), or by its index.

        ``name`` is what the value is called in errors.
        """
        return find_position(
            token, self.tokens, name, words_of_tokens(self.word_ids, self.word_texts)
        )

    def _layer(self, given: int | None) -> int:
        if given is None:
            return self.layer
        if not is_integer(given):
            msg = f"layer must be an integer from 1 to {self.depth}, got {shown(given)}"
            raise InputError(msg)
        given = operator.index(given)
        number = given + self.depth + 1 if given < 0 else given
        return _require("layer", given, number, self.layers)

    def _query(self, given: int | str | None) -> int:
        if given is None:
            return self.query
        return _require("query", given, self.position(given), self.queries)

    @property
    def values(self) -> FloatArray:
        """The scores of all tokens for the layer and the position that are explained."""
        return self.row()

    def top(self, k: int = 5, *, special: bool = False) -> Sequence[tuple[str, float]]:
        """The k highest-scored tokens with their scores, highest first; heads are averaged.

        Special tokens are left out unless ``special`` is set. Tokens whose scores differ by
        rounding alone are in the order of the text.
        """
        checks.check_flag("special", special)
        if not is_integer(k) or k < 0:
            rule = "must be an integer of at least 0"
            msg = f"k={shown(k)} {rule}; top({len(self.tokens)}) ends with the lowest scores"
            raise InputError(msg)
        values = self.values if self.values.ndim == 1 else self.values.mean(0)
        everything = range(len(self.tokens))
        words = input_positions(self.word_ids, self.segments, len(self.tokens))
        places = np.array(everything if special or not words else words)
        order = places[np.argsort(-round_scores(values)[places], kind="stable")]
        return [(self.tokens[i], float(values[i])) for i in order[: operator.index(k)]]

    def words(self) -> Attribution:
        """The same scores for words: summed over a word's tokens, averaged over its positions.

        Under the correction ``"uniform"``, whose scores are ratios to chance, they are averaged
        over a word's tokens, so that 1 still means "as by chance" for a word of many tokens. A
        maximum flow to a word is at most the sum of flows to its tokens: for flow, use
        ``explain(…, words=True)``, which solves it.

        Special tokens stay as they are. Only positions that were computed are averaged: explain
        with ``query="all"`` for the mean over all tokens of a word.
        """
        if self.word_ids is None:
            msg = "this attribution has no words: its tokenizer gave no offsets in the text"
            raise InputError(msg)
        from attnflow.records.words import merge_words

        return merge_words(self)

    def patches(self, layer: int | None = None, query: int | str | None = None) -> FloatArray:
        """The scores of an image's patches as they lie on it, ``[row, column]``.

        Of a sound's frames, ``[band, time]``: one band, unless the model has patches of
        frequencies (AST), from low to high.
        """
        from attnflow.records.images import patches

        return patches(self, self.row(layer, query))

    def over_image(self, layer: int | None = None, query: int | str | None = None) -> FloatArray:
        """The scores of the patches for every pixel of the image, ``[height, width]``.

        Pixels that the model did not see (removed by its preprocessing) are 0. For a sound
        ``[band, sample]``.
        """
        from attnflow.records.images import over_image

        return over_image(self, self.row(layer, query))

    def figure(self, kind: str = "heatmap", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw this on ``ax`` or on a new figure, and return the axes.

        Options are those of `draw` in `attnflow.views.figures`.

        ``kind`` is ``"heatmap"``, ``"graph"``, ``"heads"``, ``"pronouns"``, ``"image"`` or
        ``"sound"``.
        """
        from attnflow.views.figures import draw

        return draw(kind, self, ax, **options)

    def _repr_html_(self) -> str:
        """The interactive view, for notebooks."""
        from attnflow.views.explorer.exploration import exploration_of

        return exploration_of(self)._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and strings, which `from_dict` reads back without loss."""
        from attnflow.records.files import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attribution:
        """The attribution that `to_dict` described."""
        from attnflow.records.files import from_dict

        return from_dict(data)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write JSON (compressed where the name ends in ``.gz``); `load` reads it back."""
        from attnflow.records.files import save

        return save(self, as_path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read what `save` wrote."""
        from attnflow.records.files import load

        return load(as_path(path))

    @classmethod
    def load_all(cls, path: str | Path) -> list[Attribution]:
        """Read a file of one or many, such as ``attnflow explain … --save FILE`` writes."""
        from attnflow.records.files import load_all

        return load_all(as_path(path))

    def to_frame(self) -> pd.DataFrame:
        """One row per score: layer, (head,) query, query_token, key, token, score. Needs pandas."""
        from attnflow.records.frames import to_frame

        return to_frame(self)

    def __reduce__(self) -> tuple[Any, ...]:  # options are read-only views, which pickle refuses
        return (Attribution.from_dict, (self.to_dict(),))


def _require(name: str, given: int | str, number: int, allowed: tuple[int, ...]) -> int:
    """The number, if it was computed; an error names it as it was given."""
    if number not in allowed:
        all_of = {"query": "query='all'", "layer": "layers='all'"}[name]
        more = f"; explain with {all_of} for all of them"
        msg = (
            f"{name}={shown(given)} was not computed; this attribution has {_shown(allowed)}{more}"
        )
        raise InputError(msg)
    return number


def _word_ids(given: object, count: int) -> tuple[int | None, ...]:
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
