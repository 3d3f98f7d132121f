"""Tables 1 and 2: how attention agrees with importance, layer by layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from attnflow.api.explain import attribute
from attnflow.evaluation.agreement import agreement, summarize
from attnflow.evaluation.blank_out import blank_out
from attnflow.evaluation.gradients import gradients
from attnflow.models.adapter import ModelAdapter
from attnflow.pipeline.config import Plan
from attnflow.records import Attribution

METHODS = ("raw", "rollout", "flow")
Explained = dict[str, list[Attribution]]
"""Method → one explanation a text."""
Importances = dict[str, list[Attribution]]
"""Importance → one attribution a text."""
Correlations = dict[str, dict[str, list[list[float]]]]
"""Importance → method → for each text one correlation a layer."""
Table = dict[str, dict[str, list[dict[str, float]]]]
"""Importance → method → one cell a layer: mean, std, count, undefined."""
Importance = Callable[[Sequence[str], Sequence[int], ModelAdapter], Importances]


def explanations(
    texts: Sequence[str], model: ModelAdapter, *, query: str | None = None
) -> Explained:
    """Every method's scores of every text, for all layers; the model reads each text once."""
    plans = [Plan(method, query=query) for method in METHODS]
    given = {"truncate": False, "target": None}
    found = attribute(list(texts), model, plans, given, batch_size=64)
    return {method: [row[at] for row in found] for at, method in enumerate(METHODS)}


def blanked(texts: Sequence[str], labels: Sequence[int], model: ModelAdapter) -> Importances:
    """Table 1: |Δ P(right label)|, a token replaced by UNK as in the paper; and deleted."""
    return {
        name: blank_out(list(texts), model, replacement=name, target=list(labels))
        for name in ("unk", "delete")
    }


def sloped(texts: Sequence[str], labels: Sequence[int], model: ModelAdapter) -> Importances:
    """Table 2: the gradient's norm, and the size of gradient × embedding."""
    found = {
        kind: gradients(list(texts), model, kind=kind, target=list(labels))
        for kind in ("norm", "input")
    }
    found["input"] = [
        dataclasses.replace(item, scores=np.abs(item.scores)) for item in found["input"]
    ]
    return found


def correlate(
    explained: Explained, importances: Importances, layers: Sequence[int]
) -> Correlations:
    """Spearman of each text's scores with its importance, at each layer."""
    return {
        name: {
            method: [
                [agreement(one, other, layer) for layer in layers]
                for one, other in zip(found, wanted, strict=True)
            ]
            for method, found in explained.items()
        }
        for name, wanted in importances.items()
    }


def summed_up(pieces: Sequence[Correlations]) -> Table:
    """Mean ± standard deviation over the texts of all pieces."""
    return {
        name: {
            method: [
                dataclasses.asdict(summarize(layer))
                for layer in _by_layer(piece[name][method] for piece in pieces)
            ]
            for method in methods
        }
        for name, methods in pieces[0].items()
    }


def _by_layer(pieces: Iterable[list[list[float]]]) -> Iterator[tuple[float, ...]]:
    return zip(*chain.from_iterable(pieces), strict=True)
