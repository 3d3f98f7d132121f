"""A session: one forward pass, and every result that can be computed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from attnflow.edges.logit import LogitParts, take_logit_apart, with_logit
from attnflow.errors import AttnflowError, InputError
from attnflow.methods import Method, Scores, find_edge_method
from attnflow.methods.question import Target, no_progress
from attnflow.methods.relevance_flow import check_start
from attnflow.models.adapter import Objective
from attnflow.models.outputs import is_number
from attnflow.pipeline.amounts import starts_at_target
from attnflow.pipeline.attributions import attribute
from attnflow.pipeline.blanking import Blanking
from attnflow.pipeline.graphs import Graphs
from attnflow.pipeline.measured import (
    Advance,
    Check,
    find_measure,
    find_target,
    measured,
    measured_scores,
    target_position,
)
from attnflow.pipeline.request import Request, check_single_heads
from attnflow.pipeline.scoring import score
from attnflow.pipeline.traces import trace_score
from attnflow.records import (
    Activations,
    Array,
    Attribution,
    FlowTrace,
    LayeredGraph,
    Prediction,
    Selection,
)
from attnflow.records.selection import Groups, resolve
from attnflow.records.words import word_groups

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import ForwardPass, ModelAdapter, Tokens


@dataclass(frozen=True, eq=False)
class Session:
    """A model's forward pass on one input, under a configuration.

    Scores of any method and selection, attributions and traces come from it; graphs are built once.
    ``given`` is the input before it ran, where that differs: an image gets its CLS token by a run.
    """

    adapter: ModelAdapter
    forward: ForwardPass
    config: Request
    objective: Objective = Objective()  # noqa: RUF009 - frozen
    notes: tuple[str, ...] = ()
    given: Tokens | None = None
    _graphs: Graphs = field(init=False)
    _measured: dict[tuple[str, bool], Scores] = field(default_factory=dict, init=False)
    _without: dict[tuple[int, ...], Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_graphs", Graphs(self.activations, self.config))

    @property
    def tokens(self) -> Tokens:
        """The input as the model's tokens."""
        return self.forward.tokens

    @property
    def read(self) -> Tokens:
        """The input as the model reads it, to run it again."""
        return self.given or self.tokens

    @property
    def activations(self) -> Activations:
        """What the model computed."""
        return self.forward.activations

    @property
    def query(self) -> int:
        """The position that is explained."""
        return self.forward.query

    @property
    def prediction(self) -> Prediction | None:
        """The model's prediction."""
        return self.forward.prediction

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self.activations.steps)

    @property
    def heads(self) -> int:
        """How many heads the first layer has; 0 where they were fused while the model ran."""
        return self._graphs.heads

    @property
    def causal(self) -> bool:
        """Whether the model is a causal decoder."""
        return self.activations.causal

    def correction(self, method: str) -> str | None:
        """How a method's scores are corrected for the receptive field of a causal decoder."""
        return self.config.correction_for(method, causal=self.causal, size=self.size)

    @property
    def maps(self) -> Sequence[Array]:
        """The maps of the edge rule, heads fused: ``[query, key]`` per step."""
        return self._graphs.maps

    @property
    def towards_query(self) -> bool:
        """Whether edges are towards what the explained position predicts: others have others."""
        said = self.prediction
        at_query = said is not None and said.position is not None and self.config.query != "all"
        return self.config.rule.needs.target and at_query

    def starts_at_target(self, method: str) -> bool:
        """Whether a method's scores are those of the target alone, whatever the position."""
        return starts_at_target(find_edge_method(method), self.config.rule)

    @cached_property
    def groups(self) -> Groups:
        """The tokens of each word; a token that belongs to no word is alone."""
        return word_groups(self.tokens.word_ids or [None] * self.size)

    @property
    def nbytes(self) -> int:
        """About how much memory this holds, or will hold once its graphs are built."""
        without = sum(row.nbytes for row in tuple(self._without.values()))
        other = self.__dict__.get("beside", self)
        beside = 0 if other is self else other.activations.nbytes + other._graphs.nbytes
        return self.activations.nbytes + self._graphs.nbytes + without + beside

    def graph(self, method: str, *, each_head: bool = False, chance: bool = False) -> LayeredGraph:
        """The graph that a method runs on; with ``chance``, that of even attention."""
        correction = self.correction(method)
        return self._graphs.find(method, correction, each_head=each_head, chance=chance)

    def scores(  # noqa: PLR0913 - what is asked for
        self,
        method: str,
        layers: Sequence[int],
        queries: Sequence[int],
        *,
        words: bool = False,
        groups: Groups | None = None,
        each_head: bool = False,
        check: Check | None = None,
    ) -> Scores:
        """``[layer, query, key]``, or ``[layer, head, query, key]`` with ``each_head``.

        Keys are tokens, words, or these groups of tokens. Long work is done in pieces, and
        ``check`` is called before each.
        """
        if each_head:
            check_single_heads(method)
        measure = find_measure(method)
        if measure is not None:
            return measured_scores(self, measure, layers, queries, words=words, check=check)
        steps = tuple(self.step(layer) for layer in layers)
        for query in queries:
            resolve("query", query, 0, self.size - 1, self.size)
        groups = self.groups if words else groups
        keys = range(self.size if groups is None else len(groups))
        selection = Selection(steps, tuple(queries), tuple(keys), groups=groups)
        return score(self, method, selection, each_head=each_head, check=check)

    @cached_property
    def target(self) -> Target:
        """What methods explain that read no edges."""
        return find_target(self)

    @cached_property
    def measurable(self) -> bool:
        """Whether there is a target's probability that such methods can measure."""
        try:
            return self.prediction is not None and target_position(self) >= 0
        except AttnflowError:
            return False

    def measured(
        self, measure: Method, *, words: bool = False, advance: Advance = no_progress
    ) -> Scores:
        """The scores of a method that reads no edges, ``[key]``; computed once."""
        key = measure.name, words
        if key not in self._measured:
            self._measured[key] = measured(self, measure, words=words, advance=advance)
        return self._measured[key]

    def step(self, layer: int) -> int:
        """The step of the graph at which a layer ends."""
        return self.activations.steps[resolve("layer", layer, 1, self.depth, self.depth + 1) - 1]

    def attribution(
        self,
        method: str | None = None,
        advance: Advance = no_progress,
        *,
        only_asked: bool = False,
    ) -> Attribution:
        """The scores that the configuration selects, of its method or another (`attribute`)."""
        return attribute(self, method, advance, only_asked=only_asked)

    @cached_property
    def beside(self) -> Session:
        """The same input on attention edges, for methods that read no amounts.

        It is itself where the edges are shares; else the model runs once more.
        """
        if not self.config.rule.amounts:
            return self
        config = replace(self.config, edges="attention", method="flow", methods=())
        spec = config.capture(all_heads=self.heads > 0)
        (forward,) = self.adapter.run([self.read], config.query, spec, [self.objective])
        other = Session(self.adapter, forward, config, self.objective, self.notes, self.given)
        for shared in ("_measured", "_without"):
            object.__setattr__(other, shared, getattr(self, shared))
        return other

    @property
    def blanking(self) -> Blanking:
        """What the model predicts without some of the tokens."""
        # Not cached: a session that refers to itself is freed by the garbage collector alone, which
        # may come hundreds of sessions later.
        return Blanking(self, self._without)

    @cached_property
    def logit_parts(self) -> LogitParts:
        """What the target's logit is the sum of, for ``source="logit"``."""
        return take_logit_apart(self.activations, self.config.rule.name)

    def logit_graph(self, method: str) -> LayeredGraph:
        """The graph that a method runs on, with the target's logit as its last position."""
        capacities = find_edge_method(method).from_logit == "capacities"
        return with_logit(self.graph(method), self.logit_parts.shares, capacities=capacities)

    def describe(self, method: str) -> dict[str, Any]:
        """The options that scores of a method were computed with."""
        options = self.config.describe(method, self.correction(method))
        if self.forward.objective is not None:
            options |= self.named_objective
        if self.tokens.decoding:
            options["decoding"] = dict(self.tokens.decoding)
        return options

    @property
    def named_objective(self) -> dict[str, str]:
        """The target and the contrast by their names, as far as they were given or found."""
        found = self.forward.objective or self.objective
        named = {"target": found.target, "contrast": found.contrast}
        return {
            name: each
            if isinstance(each, str) and not is_number(each)
            else self.adapter.output_name(self.adapter.output_indices(each)[0])
            for name, each in named.items()
            if each is not None
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know: of the model, of this input, and of the edges chosen for it."""
        return (*self.forward.warnings, *self.tokens.notices, *self.notes)

    def check(self) -> None:
        """Refuse options that this input has no meaning for."""
        if self.config.discard and self.activations.ends is not None:
            msg = "discard is defined for models of one sequence, not for encoder–decoders"
            raise InputError(msg)
        if self.config.words and self.tokens.word_ids is None:
            why = "its tokenizer gave no offsets in the text"
            if self.tokens.grid is not None:
                why = "the pieces of an image or a sound are none; leave words out"
            msg = f"{self.adapter.name} has no words: {why}"
            raise InputError(msg)

    def check_edges(self) -> None:
        """Refuse edges that this input does not have, or not from the position that is explained.

        The graph that is made for it is kept.
        """
        graph = self.graph(self.config.method)
        if graph.relevance is not None and self.starts_at_target(self.config.method):
            check_start(graph, graph.relevance, (graph.depth,), (self.query,))

    def check_one_position(self) -> None:
        """Refuse routes from the mean of several positions: they start at one."""
        if self.forward.pooled:
            msg = (
                f"{self.adapter.name} decides from the mean of {len(self.forward.pooled)} "
                "positions, and routes start at one: give it with query= (--query)"
            )
            raise InputError(msg)

    def trace(self, method: str, layer: int, query: int, key: int) -> FlowTrace:
        """How one score came about (`trace_score`)."""
        return trace_score(self, method, layer, query, key)
