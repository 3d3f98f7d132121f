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
from attnflow.records.attribution_fields import check_computed, check_fields
from attnflow.records.grid import PatchGrid
from attnflow.records.prediction import Prediction
from attnflow.records.rounding import round_scores
from attnflow.records.selection import find_position, input_positions, is_integer, words_of_tokens
from attnflow.records.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
        for name, value in check_fields(self).items():
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
        return check_computed("layer", given, number, self.layers)

    def _query(self, given: int | str | None) -> int:
        if given is None:
            return self.query
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
        from attnflow.records.files.attributions import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attribution:
        """The attribution that `to_dict` described."""
        from attnflow.records.files.attributions import from_dict

        return from_dict(data)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write JSON (compressed where the name ends in ``.gz``); `load` reads it back."""
        from attnflow.records.files.attributions import save

        return save(self, as_path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Attribution:
        """Read what `save` wrote."""
        from attnflow.records.files.attributions import load

        return load(as_path(path))

    @classmethod
    def load_all(cls, path: str | Path) -> list[Attribution]:
        """Read a file of one or many, such as ``attnflow explain … --save FILE`` writes."""
        from attnflow.records.files.attributions import load_all

        return load_all(as_path(path))

    def to_frame(self) -> pd.DataFrame:
        """One row per score: layer, (head,) query, query_token, key, token, score. Needs pandas."""
        from attnflow.records.frames import to_frame

        return to_frame(self)

    def __reduce__(self) -> tuple[Any, ...]:  # options are read-only views, which pickle refuses
        return (Attribution.from_dict, (self.to_dict(),))
