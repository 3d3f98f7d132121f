"""From the scores of tokens to those of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attnflow.records.attribution import Attribution
from attnflow.records.prediction import Prediction
from attnflow.records.selection import Groups, word_groups
from attnflow.records.types import FloatArray


class Words(NamedTuple):
    """What stands in place of tokens: words, and tokens that belong to none.

    Attributes:
        names: As they are displayed.
        word_ids: For each its index in ``word_texts``; ``None`` for special tokens.
        word_texts: The words alone.
    """

    names: tuple[str, ...]
    word_ids: tuple[int | None, ...]
    word_texts: tuple[str, ...]


def name_words(
    groups: Groups,
    tokens: Sequence[str],
    word_ids: Sequence[int | None],
    word_texts: Sequence[str],
) -> Words:
    """The words that groups of tokens are."""
    words = [word_ids[group[0]] for group in groups]
    names = [
        tokens[group[0]] if word is None else word_texts[word]
        for group, word in zip(groups, words, strict=True)
    ]
    texts = [name for name, word in zip(names, words, strict=True) if word is not None]
    count = iter(range(len(texts)))
    numbers = [None if word is None else next(count) for word in words]
    return Words(tuple(names), tuple(numbers), tuple(texts))


def merge_words(of: Attribution, keys: FloatArray | None = None) -> Attribution:
    """The attribution of words: queries are averaged over a word's tokens.

    ``keys`` are the scores with words for keys; without them the tokens' scores are summed, or
    averaged where they are ratios to chance.
    """
    word_ids = of.word_ids or ()
    groups = word_groups(word_ids)
    words = name_words(groups, of.tokens, word_ids, of.word_texts)
    word_of = {token: number for number, group in enumerate(groups) for token in group}
    queries = sorted({word_of[query] for query in of.queries})
    if keys is None:
        gather = np.mean if of.options.get("correction") == "uniform" else np.sum
        keys = np.stack([gather(of.scores[..., list(group)], -1) for group in groups], axis=-1)
    rows = [[i for i, q in enumerate(of.queries) if word_of[q] == word] for word in queries]
    return replace(
        of,
        tokens=words.names,
        scores=np.stack([keys[..., row, :].mean(-2) for row in rows], axis=-2),
        queries=tuple(queries),
        query=word_of[of.query],
        pooled=tuple(word_of[position] for position in of.pooled),
        prediction=_move_prediction(of.prediction, word_of),
        word_ids=words.word_ids,
        word_texts=words.word_texts,
        segments=None if of.segments is None else tuple(of.segments[g[0]] for g in groups),
        options={**of.options, "words": True},
    )


def _move_prediction(
    prediction: Prediction | None, word_of: Mapping[int, int]
) -> Prediction | None:
    if prediction is None or prediction.position is None:
        return prediction
    return replace(prediction, position=word_of[prediction.position])
