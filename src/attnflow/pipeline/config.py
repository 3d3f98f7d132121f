"""What `explain` was asked, checked; and the way from one reading of a model to an attribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.aggregation import METHODS, Execution, Scores
from attnflow.edges import EDGES, EdgeOptions
from attnflow.edges.attention import fuse_heads
from attnflow.edges.corrections import CORRECTIONS, correct, uniform_activations
from attnflow.errors import InputError
from attnflow.records import Activations, Attribution, FloatArray
from attnflow.records.arrays import to_numpy
from attnflow.records.selection import Selection, resolve
from attnflow.records.words import Groups, merge_words, word_groups

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import ForwardPass, ModelAdapter, Query, Tokens, Wish

RESIDUAL = {"raw": 0.0}  # the paper's raw attention has no residual; the other methods have 0.5
CAUSAL_DEFAULT = "uniform"
WHOLE_MAPS = ("raw", "rollout")  # these have the scores of all positions at no extra cost


@dataclass(frozen=True)
class Plan:
    """A method with all its options. See `attnflow.explain` for what they mean."""

    method: str = "flow"
    layer: int = -1
    query: Query = None
    residual: float | None = None
    heads: Any = "mean"
    discard: float = 0.0
    correction: str | None = "auto"
    normalize: bool = False
    words: bool = False
    effort: Execution = Execution()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if self.method not in tuple(METHODS):  # which takes lists, too, that a dict can't look up
            msg = f"method={self.method!r} is unknown; allowed: one of {', '.join(METHODS)}"
            raise InputError(msg)
        if self.correction not in (None, "auto", *CORRECTIONS):
            msg = (
                f"correction={self.correction!r} is unknown; allowed: {', '.join(CORRECTIONS)}, "
                "'auto', or None for the plain method"
            )
            raise InputError(msg)
        self.edges  # noqa: B018 - its options are checked now, before a model is loaded

    @property
    def edges(self) -> EdgeOptions:
        """How attention becomes edges."""
        usual = RESIDUAL.get(self.method, 0.5)
        return EdgeOptions(
            usual if self.residual is None else self.residual, self.heads, self.discard
        )

    def wish(self) -> Wish:
        """What to read from a model: heads are fused while it runs, unless each is asked for."""
        from attnflow.models.adapter import Wish

        return Wish(fuse=None if self.heads == "each" else self._fuse)

    def _fuse(self, attention: Tensor) -> Tensor:
        if self.heads == "mean":
            return attention.mean(1)  # in the model's precision: float64 is for what comes after
        fused: Tensor = fuse_heads(attention, self.heads)
        return fused

    def layer_in(self, depth: int) -> int:
        """The layer asked about, counted from 1."""
        return resolve("layer", self.layer, 1, depth, depth + 1)

    def attribute(self, reading: ForwardPass, adapter: ModelAdapter) -> Attribution:
        """The scores of one input."""
        record, size = reading.record, len(reading.tokens)
        if self.discard and record.ends is not None:
            msg = "discard is defined for models of one sequence, not for encoder–decoders"
            raise InputError(msg)
        steps = record.steps
        everywhere = self.query == "all" or self.method in WHOLE_MAPS
        tokens = reading.tokens
        groups = _words(tokens, adapter) if self.words else None
        asking = next((g for g in groups or () if reading.query in g), (reading.query,))
        queries = tuple(range(size)) if everywhere else asking
        question = Selection(steps, queries, tuple(range(size)), groups=groups)
        answer = self.answer(record, question)
        scores = to_numpy(answer.scores)
        if self.normalize:
            scores = _ratio(scores, scores.sum(-1, keepdims=True))
        found = Attribution(
            tokens=tokens.names,
            scores=scores if groups is None else _spread(scores, groups),
            layers=tuple(range(1, len(steps) + 1)),
            queries=queries,
            layer=self.layer_in(len(steps)),
            query=reading.query,
            method=self.method,
            options=self._options(self.correction_for(record), tokens.target),
            model=adapter.name,
            text=tokens.text,
            prediction=reading.prediction,
            statistics={**answer.statistics, "model": adapter.description},
            word_ids=tokens.word_ids,
            word_texts=tokens.word_texts,
            segments=tokens.segments,
            grid=tokens.grid,
        )
        return found if groups is None else merge_words(found, scores)

    def correction_for(self, record: Activations) -> str | None:
        """The correction that this record gets; ``None`` is the plain method."""
        if self.correction == "auto":
            return CAUSAL_DEFAULT if record.causal else None
        if self.correction and not record.causal and record.layers[0].shape[-1] > 1:
            msg = (
                f"correction={self.correction!r} is for causal decoders, and this model is none; "
                "leave it out"
            )
            raise InputError(msg)
        return self.correction

    def answer(self, record: Activations, question: Selection) -> Scores:
        """The scores of any part of a record, corrected for the receptive field where needed."""
        correction = self.correction_for(record)
        answer = self._solve(correct(record, correction), question)
        if correction != "uniform":
            return answer
        chance = self._solve(uniform_activations(record), question)
        return Scores(_ratio(to_numpy(answer.scores), to_numpy(chance.scores)), answer.statistics)

    def _solve(self, record: Activations, question: Selection) -> Scores:
        edges = (
            self.edges
            if self.heads == "each"
            else EdgeOptions(self.edges.residual, "mean", self.discard)
        )
        graph = EDGES["attention"](record, edges)
        return METHODS[self.method](graph, question, self.effort)

    def _options(self, correction: str | None, target: str | None) -> dict[str, Any]:
        heads = self.heads if isinstance(self.heads, str) else list(self.heads)
        return {
            "layer": self.layer,
            "query": self.query,
            "heads": heads,
            "residual": self.edges.residual,
            "discard": self.discard,
            "correction": correction,
            "normalize": self.normalize,
            **({} if target is None else {"target": target}),
        }


def _words(tokens: Tokens, adapter: ModelAdapter) -> Groups:
    if tokens.word_ids is None:
        msg = f"{adapter.name} knows no words: its tokenizer gave no offsets in the text"
        raise InputError(msg)
    return word_groups(tokens.word_ids)


def _spread(scores: FloatArray, groups: Groups) -> FloatArray:
    """Every token with its word's score."""
    return np.repeat(scores, [len(group) for group in groups], axis=-1)


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Above / below, and 0 where both are 0: what cannot be seen is not attended to."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
