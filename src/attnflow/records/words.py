"""From the scores of tokens to those of words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from attnflow.records.attribution import Attribution, Prediction


def merge_words(of: Attribution) -> Attribution:
    """Sum keys (average them where they are ratios) and average queries over words' tokens."""
    groups: list[list[int]] = []
    names: list[str] = []
    last: int | None = None
    for token, word in enumerate(of.word_ids or ()):
        if word is None or word != last:
            groups.append([])
            names.append(of.tokens[token] if word is None else of.word_texts[word])
        groups[-1].append(token)
        last = word
    special = [(of.word_ids or ())[group[0]] is None for group in groups]
    texts = [name for name, alone in zip(names, special, strict=True) if not alone]
    count = iter(range(len(texts)))
    numbers = [None if alone else next(count) for alone in special]
    home = {token: number for number, group in enumerate(groups) for token in group}
    queries = sorted({home[query] for query in of.queries})
    gather = np.mean if of.options.get("correction") == "uniform" else np.sum
    keys = np.stack([gather(of.scores[..., group], -1) for group in groups], axis=-1)
    rows = [[i for i, q in enumerate(of.queries) if home[q] == word] for word in queries]
    return replace(
        of,
        tokens=tuple(names),
        scores=np.stack([keys[..., row, :].mean(-2) for row in rows], axis=-2),
        queries=tuple(queries),
        query=home[of.query],
        prediction=_moved(of.prediction, home),
        word_ids=tuple(numbers),
        word_texts=tuple(texts),
        segments=None if of.segments is None else tuple(of.segments[g[0]] for g in groups),
        options={**of.options, "words": True},
    )


def _moved(prediction: Prediction | None, home: Mapping[int, int]) -> Prediction | None:
    if prediction is None or prediction.position is None:
        return prediction
    return replace(prediction, position=home[prediction.position])
