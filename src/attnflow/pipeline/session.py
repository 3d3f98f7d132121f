"""A session: one forward pass, and every result that can be computed from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.edges.graph import add_heads, build_graph, chance_graph, fuse_layers
from attnflow.edges.logit import LogitParts, take_logit_apart, with_logit
from attnflow.edges.rule import Maps
from attnflow.errors import AttnflowError, InputError
from attnflow.methods import METHODS, Method, Scores, find_edge_method, find_trace
from attnflow.methods.method import inexact, merge_statistics
from attnflow.methods.question import Question, Target, no_progress, resolve_targets
from attnflow.methods.relevance_flow import check_start, stays_on_device
from attnflow.models.adapter import Objective
from attnflow.models.outputs import is_number
from attnflow.options.option import described, refuse
from attnflow.options.tables import NO_OFFSETS, PAIRS, PIECES
from attnflow.pipeline.blanking import Blanking
from attnflow.pipeline.request import LOGIT, Request, check_single_heads, starts_at_target
from attnflow.records import (
    Activations,
    Array,
    Attribution,
    FloatArray,
    FlowTrace,
    LayeredGraph,
    Pair,
    Prediction,
    Selection,
)
from attnflow.records.arrays import ratio, to_numpy
from attnflow.records.learned import LearnedHeads
from attnflow.records.selection import Groups, resolve, resolve_all, word_groups
from attnflow.records.sparse import SparseLayer
from attnflow.records.words import merge_words

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import ForwardPass, ModelAdapter, Tokens


MOST_KEPT = 1 << 28  # bytes of a rule's maps that are kept for the next graph


@dataclass(frozen=True, eq=False)
class Graphs:
    """What edges are made of, and the graphs that were built."""

    activations: Activations
    config: Request
    _built: dict[Any, LayeredGraph] = field(default_factory=dict, init=False)
    _kept: list[Maps] = field(default_factory=list, init=False)

    @property
    def heads(self) -> int:
        """How many heads the first layer has; 0 where they were fused while the model ran."""
        first = self.activations.attention[0]
        return int(first.shape[0]) if first.ndim == 3 else 0

    @cached_property
    def fused(self) -> Activations:
        """The activations with their heads fused."""
        if not self.heads:
            return self.activations
        config, layers = self.config, self.activations.attention
        if isinstance(config.heads, LearnedHeads):
            return replace(self.activations, attention=tuple(fuse_layers(layers, config.heads)))
        fuse = (replace(config, heads="mean") if config.heads == "each" else config).fuse
        return replace(self.activations, attention=tuple(fuse(each[None])[0] for each in layers))

    @property
    def maps(self) -> Sequence[Array]:
        """The maps of the edge rule, heads fused: ``[query, key]`` per step."""
        if self.config.rule.fuses_heads:
            return self.fused.attention
        heads = "mean" if self.config.heads == "each" else self.config.heads
        if self.config.rule.amounts:
            made: Array = self._made().layers
            return list(made if made.ndim == 3 else add_heads(made, heads))
        return fuse_layers(self._made().layers, heads)

    def _made(self) -> Maps:
        """What the edge rule makes of the activations; kept where that is small.

        Methods differ in how they go on (residual, correction, chance), and rules may be slow.
        """
        if self._kept:
            return self._kept[0]
        found = self.config.rule.apply(self.activations)
        if sum(int(each.nbytes) for each in found.layers) <= MOST_KEPT:
            self._kept.append(found)
        return found

    @property
    def nbytes(self) -> int:
        """About how much memory this holds, or will hold once graphs are built."""
        graphs = sum(self._built[key].nbytes for key in tuple(self._built))
        attention = self.activations.attention
        usual = 3 * 8 * len(attention) * int(attention[0].shape[-1]) ** 2
        if isinstance(attention[0], SparseLayer):  # of which graphs hold 12 bytes for 8
            usual = 3 * sum(each.nbytes for each in attention) * 12 // 8
        return sum(int(each.nbytes) for made in self._kept for each in made.layers) + max(
            graphs, usual
        )

    def find(
        self, method: str, correction: str | None, *, each_head: bool, chance: bool
    ) -> LayeredGraph:
        """The graph that a method runs on; with ``chance``, that of even attention."""
        options = self.config.edge_options(method, correction)
        activations = self.activations
        if each_head:
            if not self.heads:
                msg = "the heads were fused while the model ran; open the session with all heads"
                raise InputError(msg)
            options = replace(options, heads="each")
        elif self.config.rule.fuses_heads and not isinstance(options.heads, LearnedHeads):
            activations, options = self.fused, replace(options, heads="mean")
        elif options.heads == "each":
            options = replace(options, heads="mean")
        keep_maps = find_edge_method(method).uses_maps
        lazily = self.config.rule.amounts and method == "flow" and not chance
        key = (options.residual, options.correction, each_head, chance, keep_maps, lazily)
        if key not in self._built:
            build = chance_graph if chance else partial(build_graph, read_once=lazily)
            made = None if self.config.rule.fuses_heads else self._made()
            self._built[key] = build(activations, options, keep_maps=keep_maps, made=made)
        return self._built[key]


Check = Callable[[], None]  # called between pieces of work; raises to end it
Advance = Callable[[float], None]  # called with the share of the work that is done; may raise
PIECE = 10**8  # edges that flow passes between two calls of a check: some tenths of a second


@dataclass(frozen=True, eq=False)
class Session:
    """A model's forward pass on one input, under a configuration.

    Scores of any method and selection, attributions and traces come from it; graphs are built once.
    ``given`` is the input before it ran, where that differs: an image gets its CLS token by a run.
    ``cache`` holds what is derived from it once and used often.
    """

    adapter: ModelAdapter
    forward: ForwardPass
    config: Request
    objective: Objective = Objective()  # noqa: RUF009 - frozen
    notes: tuple[str, ...] = ()
    given: Tokens | None = None
    _graphs: Graphs = field(init=False)
    cache: dict[Any, Any] = field(default_factory=dict, init=False)
    _corrections: dict[str, str | None] = field(default_factory=dict, init=False)
    _measured: dict[tuple[str, bool], Scores] = field(default_factory=dict, init=False)
    _without: dict[frozenset[int], Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_graphs", Graphs(self.activations, self.config))

    # -- the input, and what the model computed

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

    @cached_property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.tokens)

    @cached_property
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

    @cached_property
    def groups(self) -> Groups:
        """The tokens of each word; a token that belongs to no word is alone."""
        return word_groups(self.tokens.word_ids or [None] * self.size)

    @property
    def nbytes(self) -> int:
        """About how much memory this holds, or will hold once its graphs are built."""
        without = sum(row.nbytes for row in tuple(self._without.values()))
        other = self.__dict__.get("_on_attention")
        beside = 0 if other is None else other.activations.nbytes + other._graphs.nbytes
        return self.activations.nbytes + self._graphs.nbytes + without + beside

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know: of the model, of this input, and of the edges chosen for it."""
        return (*self.forward.warnings, *self.tokens.notices, *self.notes)

    # -- edges

    def correction(self, method: str) -> str | None:
        """How a method's scores are corrected for the receptive field of a causal decoder."""
        if method not in self._corrections:
            found = self.config.correction_for(method, causal=self.causal, size=self.size)
            self._corrections[method] = found
        return self._corrections[method]

    @property
    def maps(self) -> Sequence[Array]:
        """The maps of the edge rule, heads fused: ``[query, key]`` per step."""
        return self._graphs.maps

    @property
    def towards_query(self) -> bool:
        """Whether edges are towards what the explained position predicts: others have others."""
        found = self.prediction
        at_query = found is not None and found.position is not None and self.config.query != "all"
        return self.config.rule.needs.target and at_query

    def starts_at_target(self, method: str) -> bool:
        """Whether a method's scores are those of the target alone, whatever the position."""
        return starts_at_target(find_edge_method(method), self.config.rule)

    def step(self, layer: int) -> int:
        """The step of the graph at which a layer ends."""
        return self.steps([layer])[0]

    def steps(self, layers: Sequence[int]) -> tuple[int, ...]:
        """The steps of the graph at which these layers end."""
        ends, depth = self.activations.steps, self.depth
        return tuple(ends[at - 1] for at in resolve_all("layer", layers, 1, depth, depth + 1))

    def graph(self, method: str, *, each_head: bool = False, chance: bool = False) -> LayeredGraph:
        """The graph that a method runs on; with ``chance``, that of even attention."""
        kind = method, each_head, chance
        if kind not in self.cache:
            correction = self.correction(method)
            found = self._graphs.find(method, correction, each_head=each_head, chance=chance)
            self.cache[kind] = found
        graph: LayeredGraph = self.cache[kind]
        return graph

    @cached_property
    def logit_parts(self) -> LogitParts:
        """What the target's logit is the sum of, for ``source="logit"``."""
        return take_logit_apart(self.activations, self.config.rule.name)

    def logit_graph(self, method: str) -> LayeredGraph:
        """The graph that a method runs on, with the target's logit as its last position."""
        capacities = find_edge_method(method).from_logit == "capacities"
        return with_logit(self.graph(method), self.logit_parts.shares, capacities=capacities)

    def check_edges(self) -> None:
        """Refuse edges that this input does not have, or not from the position that is explained.

        The graph that is made for it is kept.
        """
        graph = self.graph(self.config.method)
        if graph.relevance is not None and self.starts_at_target(self.config.method):
            check_start(graph, graph.relevance, (graph.depth,), (self.query,))

    # -- scores

    def scores(  # noqa: PLR0913 - what can be selected
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
        member = METHODS[method]
        if not member.reads_edges:
            return self._output_scores(member, layers, queries, words=words, check=check)
        steps = self.steps(layers)
        resolve_all("query", queries, 0, self.size - 1, self.size)
        groups = self.groups if words else groups
        keys = tuple(range(self.size if groups is None else len(groups)))
        sources = len(steps) * len(queries) * (self.heads if each_head else 1)
        whole = check is None or member.cost != "pair" or stays_on_device(self.graph(method))
        most = len(keys) if whole else self._keys_per_piece(sources)

        parts = []
        for start in range(0, len(keys), most):
            if check is not None:
                check()
            piece = Selection(steps, tuple(queries), keys[start : start + most], groups=groups)

            def solve(graph: LayeredGraph, piece: Selection = piece) -> Scores:
                return member.apply(graph, piece, self.config.execution)

            parts.append(self.corrected(method, solve, each_head=each_head))
        values = np.concatenate([part.values for part in parts], axis=-1)  # never the graph itself
        statistics = merge_statistics([part.statistics for part in parts])
        graph = self.graph(method, each_head=each_head)
        return Scores(values, {**graph.statistics, **statistics})

    def corrected(
        self, method: str, solve: Callable[[LayeredGraph], Scores], *, each_head: bool = False
    ) -> Scores:
        """What ``solve`` makes of a method's graph; under ``"uniform"``, against that of chance."""
        scores = solve(self.graph(method, each_head=each_head))
        values = to_numpy(scores.values)
        if self.correction(method) == "uniform":
            even = solve(self.graph(method, each_head=each_head, chance=True))
            values = ratio(values, to_numpy(even.values))
        return Scores(values, scores.statistics)

    def _keys_per_piece(self, sources: int) -> int:
        """How many keys make a short piece of work, whatever the size."""
        edges = len(self.activations.attention) * self.size**2
        return max(1, PIECE // (sources * edges))

    def logit_scores(self, method: str, groups: Groups | None) -> Scores:
        """The scores from the target's logit, ``[layer, query, key]`` of one layer and position."""
        graph = self.logit_graph(method)
        keys = tuple(range(self.size if groups is None else len(groups)))
        selection = Selection((graph.depth,), (self.size,), keys, groups=groups)
        scores = find_edge_method(method).apply(graph, selection, self.config.execution)
        statistics = {**graph.statistics, **scores.statistics, **self.logit_parts.statistics}
        return Scores(np.array(to_numpy(scores.values)), statistics)

    # -- methods that run the model again

    @cached_property
    def target(self) -> Target:
        """What methods explain that read no edges."""
        objective = self.objective
        (found,) = resolve_targets(
            self.adapter,
            [self.tokens],
            objective.target,
            objective.contrast,
            [self.target_position],
        )
        return replace(found, prediction=self.prediction)

    @property
    def target_position(self) -> int:
        """Where the target is predicted: where the model decides, or at the query."""
        decided = self.adapter.decision(self.tokens)
        asked, found = self.config.query, self.prediction
        if found is not None and found.position is not None:
            return self.query
        if asked in (None, "all") or self.query == decided:
            return decided
        msg = (
            f"query={asked!r} is not for methods that run the model again: what they explain is "
            f"decided at position {decided} ({self.tokens.names[decided]!r}); leave query out"
        )
        raise InputError(msg)

    @cached_property
    def measurable(self) -> bool:
        """Whether there is a target's probability that such methods can measure."""
        try:
            return self.prediction is not None and self.target_position >= 0
        except AttnflowError:
            return False

    def measured(
        self, method: Method, *, words: bool = False, advance: Advance = no_progress
    ) -> Scores:
        """The scores of a method that reads no edges, ``[key]``; computed once."""
        key = method.name, words
        if key not in self._measured:
            question = Question(
                self.adapter,
                self.tokens,
                self.target,
                self.groups if words else tuple((at,) for at in range(self.size)),
                self.config.steps if method.uses_steps else None,
                self.config.batch_size,
                advance,
            )
            scores = method.answer(question)
            self._measured[key] = Scores(to_numpy(scores.values), scores.statistics)
        return self._measured[key]

    def _output_scores(
        self,
        method: Method,
        layers: Sequence[int],
        queries: Sequence[int],
        *,
        words: bool,
        check: Check | None,
    ) -> Scores:
        """The scores of a method that reads no edges: of the top layer and one position only."""
        wanted = [resolve("layer", layer, 1, self.depth, self.depth + 1) for layer in layers]
        check_output_alone(method.name, wanted, queries, self.depth, self.target.position)
        advance = no_progress if check is None else lambda _: check()
        found = self.measured(method, words=words, advance=advance)
        return Scores(found.values[None, None], found.statistics)

    @property
    def beside(self) -> Session:
        """The same input on attention edges, for methods that read no amounts.

        It is itself where the edges are shares; else the model runs once more.
        """
        # As below, a cached reference to itself would keep it until the collector comes.
        return self._on_attention if self.config.rule.amounts else self

    @cached_property
    def _on_attention(self) -> Session:
        """The same input on attention edges: a run of the model."""
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

    # -- records

    def attribution(
        self,
        method: str | None = None,
        advance: Advance = no_progress,
        *,
        only_asked: bool = False,
    ) -> Attribution:
        """The scores that the configuration selects, of its method or another.

        ``advance`` is called with the share of the work that is done, where it may take long. Where
        scores of all positions come at once they are all kept, unless ``only_asked``.
        """
        config = self.config
        member = METHODS[config.method if method is None else method]
        self.check()
        groups = self.groups if config.words else None
        layers: tuple[int, ...] = (self.depth,)
        pooled: tuple[int, ...] = ()
        layer = self.depth
        if not member.reads_edges:
            found = self.measured(member, words=config.words, advance=advance)
            scores = Scores(found.values[None, None], found.statistics)
            query = self.target.position
            queries: tuple[int, ...] = (query,)
            options = self._describe_measured()
        elif config.source == LOGIT:
            scores = self.logit_scores(member.name, groups)
            query = self.logit_parts.position
            queries = (query,)
            options = self.describe(member.name)
        else:
            layers, layer = config.resolve_layers(self.depth)
            at_target = starts_at_target(member, config.rule)
            if at_target:
                layers = (layer,)
            at_once = member.cost == "matrix" and not only_asked
            alone = self.towards_query or at_target
            everywhere = config.query == "all" or (at_once and not alone)
            queries = tuple(range(self.size)) if everywhere else self._explained(groups)
            query, pooled = self.query, self.forward.pooled
            each = config.heads == "each"
            scores = self.scores(member.name, layers, queries, words=config.words, each_head=each)
            options = self.describe(member.name)
        return self.make_attribution(
            scores,
            groups,
            layers=layers,
            queries=queries,
            layer=layer,
            query=query,
            pooled=pooled,
            method=member.name,
            options=options,
        )

    def make_attribution(self, scores: Scores, groups: Groups | None, **parts: Any) -> Attribution:
        """The record of scores ``[layer, query, key]``."""
        values, tokens = scores.values, self.tokens
        if self.config.normalize:
            values = ratio(values, values.sum(-1, keepdims=True))
        read: dict[str, Any] = {} if tokens.answer is None else {"answer": tokens.answer}
        if tokens.pair is not None:
            read["pair"] = list(tokens.pair)
        model = {**self.adapter.description, "causal": self.causal}
        told = [*self.warnings, *inexact([scores.statistics])]
        warnings = {"warnings": told} if told else {}
        attribution = Attribution(
            **{**parts, "options": parts["options"] | read},
            **tokens.about_input,
            scores=values if groups is None else _spread(values, groups),
            depth=self.depth,
            model=self.adapter.name,
            prediction=self.prediction,
            statistics={**scores.statistics, "model": model, **warnings},
        )
        return attribution if groups is None else merge_words(attribution, values)

    def _explained(self, groups: Groups | None) -> tuple[int, ...]:
        """The positions that are explained; with words, all tokens of their words."""
        asked = self.forward.pooled or (self.query,)
        if groups is None:
            return tuple(sorted(asked))
        return tuple(at for group in groups if not set(asked).isdisjoint(group) for at in group)

    def trace(self, method: str, layer: int, query: int, key: int) -> FlowTrace:
        """How one score came about: how much a method carried over which edges.

        The correction ``"uniform"`` divides scores by those of chance and changes no edge: there a
        trace has the value before the division.
        """
        return self.traces(method, query, [(layer, key)])[0]

    def traces(
        self,
        method: str,
        query: int,
        places: Sequence[tuple[int, int]],
        check: Check | None = None,
    ) -> list[FlowTrace]:
        """How the scores of a position came about at each layer and key."""
        self.check()
        trace_of = find_trace(method)
        source = resolve("query", query, 0, self.size - 1, self.size)
        keys = resolve_all("key", [key for _, key in places], 0, self.size - 1, self.size)
        depth = self.depth
        layers = resolve_all("layer", [layer for layer, _ in places], 1, depth, depth + 1)
        said = self.tokens.about_input
        if self.config.source == LOGIT:  # which is one more position
            graph, source = self.logit_graph(method), self.size
            logit = f"logit of {self.named_objective['target']}"
            said = self.tokens.with_logit(logit).about_input
        else:
            graph = self.graph(method)
        about: dict[str, Any] = {
            **said,
            "model": self.adapter.name,
            "prediction": self.prediction,
            "causal": self.causal,
            "options": self.describe(method),
            "warnings": self.warnings,
        }
        found = []
        for layer, step, key in zip(layers, self.steps(layers), keys, strict=True):
            if check is not None:
                check()
            trace = trace_of(graph, Pair(step, source, key))
            found.append(replace(trace, layer=layer, **about))
        return found

    def describe(self, method: str) -> dict[str, Any]:
        """The options that scores of a method were computed with."""
        options = self.config.describe(method, self.correction(method))
        if self.forward.objective is not None:
            options |= self.named_objective
        if self.tokens.decoding:
            options["decoding"] = dict(self.tokens.decoding)
        return options

    def _describe_measured(self) -> dict[str, Any]:
        """The options that scores of a method that reads no edges were computed with."""
        contrast = {}
        if self.target.contrast is not None:
            contrast["contrast"] = self.adapter.output_name(self.target.contrast)
        options = {"query": self.config.query, "normalize": self.config.normalize}
        return {**options, **described(self.config), "target": self.target.label, **contrast}

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

    # -- refusals

    def check(self) -> None:
        """Refuse options that this input has no meaning for."""
        if self.config.discard and self.activations.ends is not None:
            refuse(self.config, "discard", self.config.discard, PAIRS, self.adapter.name)
        if self.config.words and self.tokens.word_ids is None:
            why = NO_OFFSETS if self.tokens.grid is None else PIECES
            refuse(self.config, "words", self.config.words, why, self.adapter.name)

    def check_one_position(self) -> None:
        """Refuse routes from the mean of several positions: they start at one."""
        if self.forward.pooled:
            msg = (
                f"{self.adapter.name} decides from the mean of {len(self.forward.pooled)} "
                "positions, and routes start at one: give it with query= (--query)"
            )
            raise InputError(msg)


def check_output_alone(
    method: str, layers: Sequence[int], queries: Sequence[int], depth: int, position: int | None
) -> None:
    """Refuse layers and positions other than the output's; ``None`` is any position."""
    if list(layers) != [depth] or (position is not None and list(queries) != [position]):
        where = f"layer {depth}" + ("" if position is None else f" and position {position}")
        msg = (
            f"method={method!r} has scores of the output alone: {where}, not layers "
            f"{list(layers)} and positions {list(queries)}"
        )
        raise InputError(msg)


def _spread(scores: FloatArray, groups: Groups) -> FloatArray:
    """Every token with its word's score."""
    return np.repeat(scores, [len(group) for group in groups], axis=-1)
