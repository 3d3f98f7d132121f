"""The result: scores of input tokens, with everything that is needed to read and repeat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError, MissingExtra
from attnflow.records.kinds import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Prediction:
    """What the model said: a label or a token, and how likely it found it.

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


@dataclass(frozen=True)
class PatchGrid:
    """How the patches of a vision model lie on the image.

    Attributes:
        rows: Patches from top to bottom.
        columns: Patches from left to right.
        image: The image's height and width in pixels.
        box: The part of the image that the model saw, in its pixels: left, top, right, bottom.
    """

    rows: int
    columns: int
    image: tuple[int, int]
    box: tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each input token contributed, by one method, to positions of one or more layers.

    Attributes:
        tokens: The input tokens: the key axis.
        scores: ``[layer, query, key]``, or ``[layer, head, query, key]`` for single heads.
        layers: The layer numbers along the first axis of ``scores``.
        queries: The positions along the query axis.
        layer: The layer asked about, one of ``layers``.
        query: The position asked about, one of ``queries``.
        method: The name of the method, e.g. ``"flow"``.
        options: Every option that was used.
        model: The model's name.
        text: The input text.
        prediction: What the model said, where it has a head that says something.
        statistics: What the method reports of its work, e.g. the largest optimality gap.
        word_ids: For each token its word's index in ``word_texts``; ``None`` for special tokens.
        word_texts: The words as they stand in the text.
        segments: For each token what it is part of, e.g. ``"source"`` and ``"target"``, or
            ``"patch"``; ``None`` where there is only one kind.
        grid: For images, how the patches lie on the image.
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

    def __post_init__(self) -> None:
        for name in ("tokens", "layers", "queries", "word_texts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        scores = np.array(self.scores, dtype=np.float64)
        scores.flags.writeable = False
        object.__setattr__(self, "scores", scores)
        for name in ("options", "statistics"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        self._check()

    def _check(self) -> None:
        expected = (len(self.layers), len(self.queries), len(self.tokens))
        shape = self.scores.shape
        if self.scores.ndim not in (3, 4) or (shape[0], *shape[-2:]) != expected:
            msg = (
                f"scores have shape {shape}; {expected[0]} layers, {expected[1]} queries and "
                f"{expected[2]} tokens need [layer, query, key] or [layer, head, query, key]"
            )
            raise InputError(msg)
        if not np.isfinite(self.scores).all():
            msg = "scores must be finite; these hold NaN or infinity"
            raise InputError(msg)
        _require("layer", self.layer, self.layers)
        _require("query", self.query, self.queries)
        for name in ("word_ids", "segments"):
            labels = getattr(self, name)
            if labels is not None and len(labels) != len(self.tokens):
                msg = f"{name} has {len(labels)} entries; there are {len(self.tokens)} tokens"
                raise InputError(msg)

    def row(self, layer: int | None = None, query: int | None = None) -> FloatArray:
        """The scores of all tokens, ``[key]`` (or ``[head, key]``), for a layer and a position.

        ``None`` is what was asked about; negative layers count from the top.
        """
        layer = self.layer if layer is None else layer
        if layer < 0:
            layer += max(self.layers) + 1
        query = self.query if query is None else query
        _require("layer", layer, self.layers)
        _require("query", query, self.queries)
        return self.scores[self.layers.index(layer), ..., self.queries.index(query), :]

    @property
    def values(self) -> FloatArray:
        """The scores of all tokens for the layer and the position asked about."""
        return self.row()

    def top(self, k: int = 5) -> Sequence[tuple[str, float]]:
        """The k highest-scored tokens with their scores, highest first; heads are averaged."""
        values = self.values if self.values.ndim == 1 else self.values.mean(0)
        order = np.argsort(-values, kind="stable")[:k]
        return [(self.tokens[i], float(values[i])) for i in order]

    def words(self) -> Attribution:
        """The same scores for words: summed over a word's tokens, averaged over its positions.

        Under the correction ``"uniform"``, whose scores are ratios to chance, they are averaged
        over a word's tokens, so that 1 still means "as by chance" for a word of many tokens. A
        maximum flow to a word is less than the sum of flows to its tokens: for flow, ask
        ``explain(…, words=True)``, which solves it.

        Special tokens stay as they are. Only positions that were computed are averaged: ask with
        ``query="all"`` for the mean over all tokens of a word.
        """
        if self.word_ids is None:
            msg = "this attribution knows no words: its tokenizer gave no offsets in the text"
            raise InputError(msg)
        from attnflow.records.words import merge_words

        return merge_words(self)

    def patches(self, layer: int | None = None, query: int | None = None) -> FloatArray:
        """The scores of an image's patches as they lie on it, ``[row, column]``."""
        if self.grid is None or self.segments is None:
            msg = "this attribution is of no image; patches are for vision models"
            raise InputError(msg)
        keep = np.array([segment == "patch" for segment in self.segments])
        row = self.row(layer, query)[..., keep]
        return row.reshape(*row.shape[:-1], self.grid.rows, self.grid.columns)

    def over_image(self, layer: int | None = None, query: int | None = None) -> FloatArray:
        """The scores of the patches for every pixel of the image, ``[height, width]``.

        Pixels that the model did not see (cut away by its preprocessing) are 0.
        """
        patches = self.patches(layer, query)
        grid = self.grid
        if grid is None:  # patches() has refused already; this is for the type checker
            raise AssertionError
        left, top, right, bottom = grid.box
        y = (np.arange(grid.image[0]) + 0.5 - top) / (bottom - top) * grid.rows
        x = (np.arange(grid.image[1]) + 0.5 - left) / (right - left) * grid.columns
        inside = np.outer((y >= 0) & (y < grid.rows), (x >= 0) & (x < grid.columns))
        rows = np.clip(y.astype(int), 0, grid.rows - 1)
        columns = np.clip(x.astype(int), 0, grid.columns - 1)
        spread: FloatArray = patches[..., rows[:, None], columns] * inside
        return spread

    def figure(self, kind: str = "heatmap", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw this on ``ax`` or on a new figure, and return the axes: see `attnflow.figures.draw`.

        ``kind`` is ``"heatmap"``, ``"graph"``, ``"heads"``, ``"pronouns"`` or ``"image"``.
        """
        # By its name: records know no view.
        drawn: Axes = import_module("attnflow.figures").draw(kind, self, ax, **options)
        return drawn

    def _repr_html_(self) -> str:
        """The interactive view, for notebooks."""
        html: str = import_module("attnflow.page.exploring").exploration_of(self)._repr_html_()
        return html

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

        return save(self, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read what `save` wrote."""
        from attnflow.records.files import load

        return load(Path(path))

    def to_frame(self) -> pd.DataFrame:
        """One row a score: layer, (head,) query, query_token, key, token, score. Needs pandas."""
        try:
            import pandas as pd
        except ImportError:
            msg = "to_frame needs pandas: pip install pandas"
            raise MissingExtra(msg) from None
        axes: dict[str, Sequence[int]] = {"layer": self.layers}
        if self.scores.ndim == 4:
            axes["head"] = range(self.scores.shape[1])
        axes |= {"query": self.queries, "key": range(len(self.tokens))}
        index = pd.MultiIndex.from_product(axes.values(), names=axes)
        frame = pd.DataFrame({"score": self.scores.ravel()}, index=index).reset_index()
        names = np.array(self.tokens, dtype=object)
        frame.insert(frame.columns.get_loc("query") + 1, "query_token", names[frame["query"]])
        frame.insert(frame.columns.get_loc("key") + 1, "token", names[frame["key"]])
        return frame

    def __reduce__(self) -> tuple[Any, ...]:  # options are read-only views, which pickle refuses
        return (Attribution.from_dict, (self.to_dict(),))


def _require(name: str, value: int, allowed: tuple[int, ...]) -> None:
    if value not in allowed:
        msg = f"{name}={value} was not computed; this attribution has {_shown(allowed)}"
        raise InputError(msg)


def _shown(numbers: tuple[int, ...]) -> str:
    if len(numbers) > 1 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
