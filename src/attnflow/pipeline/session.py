"""One input through one model, kept so that it can be asked again: other layers, heads, routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.aggregation import METHODS, Execution
from attnflow.edges import EDGES
from attnflow.edges.corrections import correct
from attnflow.errors import InputError
from attnflow.pipeline.config import Plan
from attnflow.records import Activations, FloatArray, LayeredGraph, Prediction
from attnflow.records.arrays import double, to_numpy
from attnflow.records.selection import Selection
from attnflow.records.words import Groups, word_groups

if TYPE_CHECKING:
    from attnflow.models.adapter import ForwardPass, ModelAdapter, Query

Check = Callable[[], None]  # called between pieces of work; raises where nobody waits any more
PIECE = 10**8  # edges passed by flow between two calls of a check: some tenths of a second


def go_on() -> None:
    """The check of work that nobody interrupts."""


@dataclass(frozen=True)
class Choices:
    """What the methods are asked with: the words of `attnflow.explain`."""

    residual: float | None = None
    discard: float = 0.0
    correction: str | None = "auto"
    threads: int | None = None

    def plan(self, method: str, heads: str = "mean") -> Plan:
        """A method with these options."""
        return Plan(
            method,
            residual=self.residual,
            discard=self.discard,
            correction=self.correction,
            heads=heads,
            effort=Execution(self.threads),
        )


@dataclass(frozen=True, eq=False)
class Session:
    """A model's reading of one input with all heads, and what the methods make of it."""

    adapter: ModelAdapter
    reading: ForwardPass
    choices: Choices = Choices()

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.reading.tokens)

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self.reading.record.steps)

    @property
    def heads(self) -> int:
        """How many heads the first layer has."""
        return int(self.reading.record.layers[0].shape[0])

    @property
    def correction(self) -> str | None:
        """How scores are corrected for the receptive field of a causal decoder."""
        return self.choices.plan("flow").correction_for(self.reading.record)

    @cached_property
    def fused(self) -> Activations:
        """The record with its heads averaged."""
        record = self.reading.record
        return replace(record, layers=tuple(double(layer).mean(0) for layer in record.layers))

    @cached_property
    def graph(self) -> LayeredGraph:
        """The edges that rollout and flow run on."""
        graph = EDGES["attention"](
            correct(self.fused, self.correction), self.choices.plan("flow").edges
        )
        return LayeredGraph(to_numpy(graph.weights))

    @property
    def bytes(self) -> int:
        """About how much memory this holds."""
        heads = sum(layer.nbytes for layer in self.reading.record.layers)
        return int(heads + 3 * 8 * len(self.reading.record.layers) * self.size**2)

    def scores(
        self,
        method: str,
        layers: Sequence[int],
        queries: Sequence[int],
        check: Check = go_on,
        *,
        words: bool = False,
    ) -> FloatArray:
        """``[layer, query, key]``: what `attnflow.explain` gives, for some layers and positions."""
        plan = replace(self.choices.plan(method), words=words)
        return self._asked(plan, self.fused, layers, queries, check)

    def head_scores(
        self,
        method: str,
        layers: Sequence[int],
        query: int,
        check: Check = go_on,
        *,
        words: bool = False,
    ) -> FloatArray:
        """``[layer, head, key]``: single heads on top of the merged layers below (App. A.1)."""
        plan = replace(self.choices.plan(method, "each"), words=words)
        return self._asked(plan, self.reading.record, layers, (query,), check)[:, :, 0]

    @cached_property
    def groups(self) -> Groups:
        """The tokens of each word."""
        return word_groups(self.reading.tokens.word_ids or [None] * self.size)

    @property
    def splits_words(self) -> bool:
        """Whether a word has several tokens."""
        return len(self.groups) < self.size

    def _asked(
        self,
        plan: Plan,
        record: Activations,
        layers: Sequence[int],
        queries: Sequence[int],
        check: Check,
    ) -> FloatArray:
        steps = tuple(self.step(layer) for layer in layers)
        for query in queries:
            self._require("query", query)
        groups = self.groups if plan.words else tuple((at,) for at in range(self.size))
        sources = len(steps) * len(queries) * (self.heads if plan.heads == "each" else 1)
        most = len(groups) if plan.method != "flow" else self._at_once(sources)
        parts = []
        for start in range(0, len(groups), most):
            check()
            part = groups[start : start + most]
            keys = tuple(key for group in part for key in group)
            asked = Selection(steps, tuple(queries), keys, groups=part if plan.words else None)
            parts.append(to_numpy(plan.answer(record, asked).scores))
        return np.concatenate(parts, axis=-1)

    def _at_once(self, sources: int) -> int:
        """How many sinks make a piece of work that is short whatever the size."""
        return max(1, PIECE // (sources * len(self.reading.record.layers) * self.size**2))

    def step(self, layer: int) -> int:
        """The step of the graph at which a layer ends."""
        if not 1 <= layer <= self.depth:
            msg = f"layer={layer} does not exist; this model has layers 1 to {self.depth}"
            raise InputError(msg)
        return self.reading.record.steps[layer - 1]

    def _require(self, name: str, position: int) -> None:
        if not 0 <= position < self.size:
            msg = f"{name}={position} does not exist; there are tokens 0 to {self.size - 1}"
            raise InputError(msg)

    def require_pair(self, method: str, layer: int, query: int, key: int) -> int:
        """The step of a pair that routes are asked for, checked."""
        if method not in METHODS:
            msg = f"method={method!r} is unknown; allowed: {', '.join(METHODS)}"
            raise InputError(msg)
        self._require("query", query)
        self._require("key", key)
        return self.step(layer)

    @property
    def prediction(self) -> Prediction | None:
        """What the model said."""
        return self.reading.prediction


def study(
    item: Any,
    adapter: ModelAdapter,
    *,
    query: Query = None,
    target: str | None = None,
    truncate: bool = False,
    choices: Choices = Choices(),  # noqa: B008 - frozen
) -> Session:
    """Run the model once and keep what is needed to answer everything the page can ask."""
    from attnflow.models.adapter import Wish

    tokens = adapter.tokenize(item, truncate=truncate, target=target)
    (reading,) = adapter.read([tokens], query, Wish())
    return Session(adapter, reading, choices)
