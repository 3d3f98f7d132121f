"""The result: scores of input tokens, with everything that is needed to use and repeat them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from attnflow.errors import InputError, MissingExtra, shown
from attnflow.records import checks
from attnflow.records.arrays import round_scores
from attnflow.records.files import SavedRecord, check_fields, read_list, read_prediction
from attnflow.records.prediction import Prediction
from attnflow.records.selection import (
    Groups,
    find_position,
    input_positions,
    is_integer,
    word_groups,
    words_of_tokens,
)
from attnflow.records.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
class Input:
    """What was explained, as the model's tokens: what every result says of its input.

    Attributes:
        tokens: The tokens as they are displayed.
        text: The input text; of a chat, as the model's template has it.
        word_ids: For each token its word's index in ``word_texts``; ``None`` for special tokens.
        word_texts: The words as they stand in the text.
        segments: For each token what it is part of, e.g. ``"source"`` and ``"target"``, or
            ``"patch"``; ``None`` where there is only one kind.
        grid: For images and sounds, how the patches lie on the image, or the frames in time.
    """

    tokens: tuple[str, ...]
    text: str = field(default="", kw_only=True)
    word_ids: tuple[int | None, ...] | None = field(default=None, kw_only=True)
    word_texts: tuple[str, ...] = field(default=(), kw_only=True)
    segments: tuple[str, ...] | None = field(default=None, kw_only=True)
    grid: PatchGrid | Any = field(default=None, kw_only=True)

    @property
    def about_input(self) -> dict[str, Any]:
        """These fields by their names, for another record of the same input."""
        return {each.name: getattr(self, each.name) for each in fields(Input)}

    @property
    def ordinary(self) -> list[int]:
        """The positions of tokens that are part of the input itself: no special ones."""
        return input_positions(self.word_ids, self.segments, len(self.tokens))

    @property
    def groups(self) -> Groups:
        """The tokens of each word; a token that belongs to no word is alone."""
        return word_groups(self.word_ids or [None] * len(self.tokens))

    def position(self, token: int | str, name: str = "query") -> int:
        """The position of a token: by its text, by its label (``the:4``), or by its index.

        ``name`` is what the value is called in errors.
        """
        return find_position(
            token, self.tokens, name, words_of_tokens(self.word_ids, self.word_texts)
        )


def read_grid(data: Any) -> PatchGrid | None:
    """The grid that was written, if there was one."""
    if data is None:
        return None
    grid = check_fields("grid", PatchGrid, data)
    return PatchGrid(
        **grid | {name: read_list(f"grid.{name}", grid[name]) for name in ("image", "box")}
    )


def checked_input(given: Input) -> dict[str, Any]:
    """The fields of an input as they are kept: plain, read-only, fitting each other."""
    texts = ("tokens", "word_texts", *(() if given.segments is None else ("segments",)))
    found = checks.checked(
        given, {**dict.fromkeys(texts, checks.check_texts), "text": checks.check_text}
    )
    if given.word_ids is not None:
        count = len(found["word_texts"])
        found["word_ids"] = checks.check_places("word_ids", given.word_ids, count)
    for name in ("word_ids", "segments"):
        size = len(found.get(name, found["tokens"]))
        if size != len(found["tokens"]):
            msg = f"{name} has {size} entries; there are {len(found['tokens'])} tokens"
            raise InputError(msg)
    return found


MOST_LAYERS = 1 << 16


def _checked(given: Attribution) -> dict[str, Any]:
    """The fields as they are kept: plain, read-only, each of its own type, fitting each other."""
    found = _plain_fields(given)
    scores, tokens = found["scores"], found["tokens"]
    layers, queries = found["layers"], found["queries"]
    shape, expected = scores.shape, (len(layers), len(queries), len(tokens))
    if scores.ndim not in (3, 4) or (shape[0], *shape[-2:]) != expected or not all(shape):
        msg = (
            f"scores have shape {shape}; {expected[0]} layers, {expected[1]} queries and "
            f"{expected[2]} tokens need [layer, query, key] or [layer, head, query, key]"
        )
        raise InputError(msg)
    check_computed("layer", found["layer"], found["layer"], layers)
    for position in (found["query"], *found["pooled"]):
        check_computed("query", position, position, queries)
    return found


def _plain_fields(given: Attribution) -> dict[str, Any]:
    """Each field by itself."""
    about = checked_input(given)
    depth = checks.check_number("depth", given.depth, 0, MOST_LAYERS)
    last = len(about["tokens"]) - 1
    if given.prediction is not None and given.prediction.position is not None:
        checks.check_number("the prediction's position", given.prediction.position, 0, last)
    own = checks.checked(
        given,
        {
            "layers": partial(checks.check_numbers, low=1, high=depth or MOST_LAYERS),
            "scores": checks.check_scores,
            "queries": partial(checks.check_numbers, low=0, high=last),
            "layer": partial(checks.check_number, low=1),
            "query": partial(checks.check_number, low=0),
            "pooled": partial(checks.check_positions, last=last),
            **dict.fromkeys(("method", "model"), checks.check_text),
            **dict.fromkeys(("options", "statistics"), checks.check_mapping),
        },
    )
    return {**about, **own, "depth": depth or max(own["layers"], default=0)}


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


def _shown(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 1 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(SavedRecord, Input):
    """How much each input token contributed, by one method, to positions of one or more layers.

    It has all that an `Input` has: its ``tokens`` are the key axis.

    Attributes:
        scores: ``[layer, query, key]``, or ``[layer, head, query, key]`` for single heads.
        layers: The layer numbers along the first axis of ``scores``.
        queries: The positions along the query axis.
        layer: The layer that is explained, one of ``layers``.
        query: The position that is explained, one of ``queries``.
        method: The name of the method, e.g. ``"flow"``.
        options: Every option that was used.
        model: The model's name.
        prediction: The model's prediction; ``None`` if it has no head that predicts.
        statistics: What the method reports of its work, e.g. the largest optimality gap.
        depth: How many layers the model has; ``layers`` may be some of them.
        pooled: Where the model decides from several positions, all of them, ``query`` first: their
            mean is explained. In words, a word stands there once for each of its tokens.
    """

    _kind = "attribution"
    _tagged = False
    _with_gaps = ("options", "statistics", "prediction")
    _writer = "Attribution.save or attnflow explain --save"

    scores: FloatArray
    layers: tuple[int, ...]
    queries: tuple[int, ...]
    layer: int
    query: int
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    # None where the model predicts nothing; Any, so that nobody else has to check for it.
    prediction: Prediction | Any = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    pooled: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value in _checked(self).items():
            object.__setattr__(self, name, value)

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
        (moved,) = at_each(self, [(layer, query)])
        return moved

    def _at(self, layer: int | None, query: int | str | None) -> Attribution:
        given = {"layer": layer, "query": query}
        moved = object.__new__(type(self))  # with fields that were checked
        moved.__dict__.update(
            vars(self),
            layer=self._layer(layer),
            query=self._query(query),
            pooled=self.pooled if query is None else (),
        )
        changes = {
            name: value if isinstance(value, str) else operator.index(value)
            for name, value in given.items()
            if value is not None
        }
        moved.__dict__["options"] = MappingProxyType({**self.options, **changes})
        return moved

    def _layer(self, given: int | None) -> int:
        if given is None or (type(given) is int and given in self.layers):
            return self.layer if given is None else given
        if not is_integer(given):
            msg = f"layer must be an integer from 1 to {self.depth}, got {shown(given)}"
            raise InputError(msg)
        given = operator.index(given)
        number = given + self.depth + 1 if given < 0 else given
        return check_computed("layer", given, number, self.layers)

    def _query(self, given: int | str | None) -> int:
        if given is None or (type(given) is int and given in self.queries):
            return self.query if given is None else given
        return check_computed("query", given, self.position(given), self.queries)

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
        words = self.ordinary
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
        return _patches(self, self.row(layer, query))

    def over_image(self, layer: int | None = None, query: int | str | None = None) -> FloatArray:
        """The scores of the patches for every pixel of the image, ``[height, width]``.

        Pixels that the model did not see (removed by its preprocessing) are 0. For a sound
        ``[band, sample]``.
        """
        return _over_image(self, self.row(layer, query))

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

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from attnflow.views.explorer.exploration import exploration_of

        return {**exploration_of(self)._repr_mimebundle_(), "text/plain": repr(self)}

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        if values.get("prediction") is not None:
            values["prediction"] = read_prediction(values["prediction"])
        return cls(**values | {"grid": read_grid(values.get("grid"))})

    def to_frame(self) -> pd.DataFrame:
        """One row per score: layer, (head,) query, query_token, key, token, score. Needs pandas."""
        return _to_frame(self)


def at_each(
    of: Attribution, places: Iterable[tuple[int | None, int | str | None]]
) -> list[Attribution]:
    """The same scores at each of these layers and positions, as by `Attribution.at`."""
    return [of._at(*place) for place in places]


def _to_frame(of: Attribution) -> pd.DataFrame:
    """One row per score."""
    try:
        import pandas as pd
    except ImportError:
        msg = "to_frame needs pandas: pip install pandas"
        raise MissingExtra(msg) from None
    axes: dict[str, Sequence[int]] = {"layer": of.layers}
    if of.scores.ndim == 4:
        axes["head"] = range(of.scores.shape[1])
    axes |= {"query": of.queries, "key": range(len(of.tokens))}
    index = pd.MultiIndex.from_product(axes.values(), names=axes)
    frame = pd.DataFrame({"score": of.scores.ravel()}, index=index).reset_index()
    names = np.array(of.tokens, dtype=object)
    frame.insert(frame.columns.get_loc("query") + 1, "query_token", names[frame["query"]])
    frame.insert(frame.columns.get_loc("key") + 1, "token", names[frame["key"]])
    return frame


MOST_PIXELS = 1 << 30


def _patches(of: Attribution, row: FloatArray) -> FloatArray:
    """``[row, column]``."""
    grid = _grid(of)
    keep = np.array([segment == "patch" for segment in of.segments or ()])
    if keep.sum() != grid.rows * grid.columns:
        expected = f"a grid of {grid.rows} × {grid.columns} has {grid.rows * grid.columns}"
        msg = f"this attribution has {keep.sum()} patches; {expected}"
        raise InputError(msg)
    kept = row[..., keep]
    return kept.reshape(*kept.shape[:-1], grid.rows, grid.columns)


def _over_image(of: Attribution, row: FloatArray) -> FloatArray:
    """``[height, width]``: the score of each pixel's patch, 0 where the model saw nothing."""
    grid = _grid(of)
    if grid.image[0] * grid.image[1] > MOST_PIXELS:
        msg = f"the image has {grid.image[0]} × {grid.image[1]} pixels, too many for the memory"
        raise InputError(msg)
    left, top, right, bottom = grid.box
    y = (np.arange(grid.image[0]) + 0.5 - top) / (bottom - top) * grid.rows
    x = (np.arange(grid.image[1]) + 0.5 - left) / (right - left) * grid.columns
    inside = np.outer((y >= 0) & (y < grid.rows), (x >= 0) & (x < grid.columns))
    rows = np.clip(y.astype(int), 0, grid.rows - 1)
    columns = np.clip(x.astype(int), 0, grid.columns - 1)
    pixels: FloatArray = _patches(of, row)[..., rows[:, None], columns] * inside
    return pixels


def _grid(of: Attribution) -> PatchGrid:
    if of.grid is None or of.segments is None:
        msg = "this attribution is not of an image; patches are for models of images and sounds"
        raise InputError(msg)
    return of.grid
