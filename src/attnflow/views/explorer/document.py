"""A session as the JSON document that feeds the page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from attnflow.errors import AttnflowError
from attnflow.evaluation.blanking_check import BlankingCheck, check_by_blanking
from attnflow.methods import METHODS, Scores
from attnflow.methods.relevance_flow import read_at
from attnflow.pipeline.choice import Shown
from attnflow.pipeline.knockouts import knock_out_of, verified
from attnflow.pipeline.request import AUTO
from attnflow.pipeline.session import Check, Session
from attnflow.records import Attribution, FloatArray, FlowTrace
from attnflow.records.arrays import to_numpy
from attnflow.records.knockout import Edges
from attnflow.records.selection import Groups, input_positions
from attnflow.version import VERSION
from attnflow.views.explorer.parts import (
    describe_findings,
    describe_method,
    describe_rule,
    first_key,
    label_tokens,
    make_notes,
    model_name,
    predictions,
    to_grid,
    written_labels,
)
from attnflow.views.explorer.schema import (
    FORMAT,
    Blanked,
    Document,
    DrawnEdges,
    FoundByMethod,
    HeadScores,
    KnockedOut,
    MethodDescription,
    PackedScores,
    Trace,
    View,
    pack,
)
from attnflow.views.wording.findings import find, find_each, merged_scores
from attnflow.views.wording.knockouts import beside_blanking
from attnflow.views.wording.labels import LONGEST, word_labels
from attnflow.views.wording.names import is_signed, method_id, method_info, name_of
from attnflow.views.wording.numbers import as_sentence
from attnflow.views.wording.summaries import BLANK_OUT, summarize
from attnflow.views.wording.traces import MOST, Told, tell


@dataclass(frozen=True)
class Extent:
    """How much of a session goes into its document; the rest is computed by a server, or left out.

    Attributes:
        all_queries: Up to this many tokens, every position can be explained.
        solved: Up to this many tokens, methods that solve every score apart are included; up to an
            eighth of them, those that solve a system as large as the graph.
        pairs: At most this many (layer, token) pairs are traced.
        heads: At most this many scores of single heads are solved separately.
        blanks: Up to this many tokens, each is blanked out, and methods are included that run the
            model many times.
        trace_edges: At most this many edges of a trace are included, the strongest.
        verified: Of so many traces, the edges of the cut are removed from the model.
        all_methods: Whether methods are offered whose scores are not in the document.
    """

    all_queries: int
    solved: int
    pairs: int
    heads: int
    blanks: int
    trace_edges: int = 1500
    verified: int = 0
    all_methods: bool = False

    def most(self, cost: str) -> float:
        """Up to how many tokens a method of that cost is included."""
        most = {"matrix": math.inf, "pair": self.solved, "query": self.solved // 8}
        return {**most, "pass": math.inf, "passes": self.blanks}[cost]


SERVED = Extent(all_queries=32, solved=64, pairs=1, heads=0, blanks=0, all_methods=True)
STANDALONE = Extent(
    all_queries=40, solved=1024, pairs=100, heads=20_000, blanks=128, trace_edges=250, verified=5
)


MOST_EDGES = 15_000  # in a document, shared by all positions
SHARE = 10  # of the traces of a short text, one in so many is there of a long one
MOST_AMOUNTS = 200
FEWEST_EDGES = 4  # of each position, however many positions there are
MOST_TRACED = 1500  # edges; more would blur a graph of 512 tokens
MOST_ROUTES = 12
NEGLIGIBLE = 1e-3  # of a trace's value: thinner than any line
MOST_HEAD_WORK = 10**10  # edges that flows of all heads of a layer pass: seconds on one core


def make_document(views: Sequence[View], method: str, *, words: bool = False) -> Document:
    """One view, or two to compare, and how they are shown at first."""
    return {
        "format": FORMAT,
        "library": VERSION,
        "views": list(views),
        "method": method,
        "words": words,
    }


def to_json(content: Any) -> str:
    """JSON that no HTML parser reads as markup, wherever it stands."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        msg = f"the model's numbers can't be shown: {error}; NaN often comes of half precision"
        raise AttnflowError(msg) from error
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates are not UTF-8


def make_view(
    session: Session, extent: Extent, check: Check | None = None, image: str | None = None
) -> View:
    """One input with what the page needs at first."""
    tokens, query, blanking = session.tokens, session.query, session.blanking
    layered = session.beside  # whose edges every layer has
    layers = list(range(1, session.depth + 1))
    few = session.size <= extent.all_queries and not layered.towards_query
    queries = list(range(session.size)) if few else [query]
    members = {shown: METHODS[shown.method] for shown in _in_order(session)}
    first = {
        shown: member.shown_by_default or _is_asked(shown, session)
        for shown, member in members.items()
    }
    offered = [
        shown
        for shown, member in members.items()
        if (extent.all_methods or first[shown]) and (member.reads_edges or session.measurable)
    ]
    methods = [
        shown
        for shown in offered
        if (first[shown] and session.size <= extent.most(members[shown].cost))
        or (not members[shown].reads_edges and _is_asked(shown, session))
    ]
    described = {shown: _describe(shown, first[shown]) for shown in offered}
    one_row = {shown: not each["layered"] for shown, each in described.items()}
    # A server adds the scores that the document lacks.
    with_heads = offered if extent.all_methods else methods
    by_head = [shown for shown in with_heads if not one_row[shown] and can_show_heads(*shown)]
    within = [shown for shown in by_head if _heads_within(*shown, extent)]
    found = find_all(session, methods, extent.blanks)
    extents = {shown: _extent(shown, one_row[shown], layers, queries) for shown in methods}
    scores = {
        shown: shown.session.scores(shown.method, *places, check=check).values
        for shown, places in extents.items()
    }
    view: View = {
        "text": tokens.text,
        "answer": tokens.answer,
        "model": model_name(session.adapter.name),
        "head": str(session.adapter.description["head"]),
        "methods": list(described.values()),
        "rule": describe_rule(session.config.rule.name),
        "causal": session.causal,
        "ordinary": input_positions(tokens.word_ids, tokens.segments, session.size),
        "blankable": [] if blanking.filler is None else list(blanking.positions),
        **label_tokens(tokens.names, tokens),
        "grid": to_grid(tokens.grid),
        "image": image,
        "columns": columns_of(session),
        "ends": list(session.activations.steps),
        "heads": layered.heads if layered.config.rule.single_heads else 0,
        "options": {
            "residual": _residual(session),
            "discard": session.config.discard,
            "correction": _correction(session, session.config.method),
            **session.named_objective,
        },
        "layer": session.config.resolve_layers(session.depth)[1],
        "query": query,
        "key": found.key,
        "said": predictions(session.prediction),
        "said_at": None if session.prediction is None else session.prediction.position,
        "replacement": blanking.filler,
        "scores": [_packed(*shown, *extents[shown], scores[shown], check) for shown in methods],
        "head_methods": [
            described[shown]["name"] for shown in (by_head if extent.all_methods else within)
        ],
        "head_scores": [heads_of(*shown, layers, query, check) for shown in within],
        "edges": strongest_edges(layered),
        "amounts": None if layered is session else carrying_edges(session),
        "sources": _sources(session),
        "traces": [],
        "blanked": [],
        "findings": found.findings,
        "agreement": found.agreement,
        "notes": [
            *make_notes(session.warnings, len(session.forward.pooled), tokens.names[query]),
            *_unchecked(session, found.unchecked, extent),
        ],
    }
    for shown in methods:
        if _has_routes(shown):
            at, queried = extents[shown]
            top = scores[shown][at.index(session.depth), queried.index(query)]
            sources = view["sources"] if one_row[shown] else None
            view["traces"] += _traces(shown, top, found.key, sources, extent, check)
    cheap = blanking.known or session.size <= extent.blanks
    if blanking.filler is not None and cheap:
        sets = _blanked_apart(session.groups, blanking.positions)
        view["blanked"] = predict_blanked(session, sets, check)
    return view


def _blanked_apart(groups: Groups, places: Sequence[int]) -> list[Sequence[int]]:
    """Each token alone, and each word of several tokens."""
    words = [group for group in groups if len(group) > 1 and set(group) <= set(places)]
    return [*([at] for at in places), *words]


def _unchecked(session: Session, why: str, extent: Extent) -> list[str]:
    """Why the answer was not checked by blanking, and what does it."""
    if not why:
        return []
    if not session.measurable:
        saved = session.size > extent.blanks and not extent.all_methods  # has no model to ask
        where = " with attnflow serve" if saved else ""
        return [as_sentence(f"{why}; “blank it out”{where} shows it of one token")]
    title = METHODS[BLANK_OUT].title
    if extent.all_methods:
        return [as_sentence(f"{why}; the method {title} does it")]
    limit = f" (a page does that for up to {extent.blanks})" if session.size > extent.blanks else ""
    always = f"made with the method {title}, it checks texts of any length"
    return [as_sentence(f"{why}{limit}; {always}")]


def shown_id(session: Session, method: str) -> str:
    """What a method of a session is called in its document."""
    return method_id(method, session.config.rule.name)


def first_method(session: Session) -> str:
    """The method that is shown first."""
    return shown_id(session, session.config.method)


def _in_order(session: Session) -> list[Shown]:
    """All methods: what was asked for, the others that read edges, and those that read none.

    Those that read edges which every layer has; amounts have what was asked for.
    """
    asked = [Shown(session, name) for name in dict.fromkeys(_asked(session))]
    beside = session.beside
    others = [
        Shown(beside if member.reads_edges else session, member.name)
        for member in METHODS.members()
    ]
    return list(dict.fromkeys([asked[0], *others, *asked]))


def _asked(session: Session) -> tuple[str, ...]:
    return (session.config.method, *(name for name in session.config.methods if name != AUTO))


def _is_asked(shown: Shown, session: Session) -> bool:
    return shown.session is session and shown.method in _asked(session)


def _describe(shown: Shown, first: bool) -> MethodDescription:
    of, method = shown
    ratio = _correction(of, method) == "uniform"
    described = describe_method(method, edges=of.config.rule.name, ratio=ratio)
    return {**described, "first": first}


def _sources(session: Session) -> list[int]:
    """Where the answer is read, for a method that starts there; empty for others."""
    method = session.config.method
    if not METHODS[method].reads_edges or not session.starts_at_target(method):
        return []
    relevance = session.graph(method).relevance
    return [] if relevance is None else list(read_at(relevance, (session.query,)))


def _traces(
    shown: Shown,
    top: FloatArray,
    key: int,
    sources: Sequence[int] | None,
    extent: Extent,
    check: Check | None,
) -> list[Trace]:
    """How the ``top`` layer's scores came about, of the first tokens or all of a short text.

    ``sources`` are where scores start that are one row; other methods have all layers.
    """
    session, method = shown
    depth, query = session.depth, session.query
    layers = list(range(1, depth + 1)) if sources is None else [depth]
    pairs = traced_pairs(np.abs(top), layers, extent.pairs, key)
    places = [(layer, token) for layer, token in pairs if token not in (sources or ())]
    traces = session.traces(method, query, places, check) if places else []
    if sources is not None:
        most = extent.verified
        traces = [*verified(session, traces[:most]), *traces[most:]]
    found = to_traces(traces, written_labels(session.tokens.names, session.tokens))
    _compare_with_blanking(session, traces, found)
    for each in found:
        each["edges"] = each["edges"][: extent.trace_edges]
    return found


def _correction(session: Session, method: str) -> str | None:
    """How a method is corrected for a decoder's receptive field, if it reads edges."""
    reads_edges = METHODS[method].reads_edges
    return session.correction(method) if reads_edges else None


def _residual(session: Session) -> float | None:
    """The share that the first method's edges have, if it reads edges."""
    method = session.config.method
    reads_edges = METHODS[method].reads_edges
    return session.config.residual_of(method) if reads_edges else None


def _extent(
    shown: Shown, one_row: bool, layers: Sequence[int], queries: Sequence[int]
) -> tuple[Sequence[int], Sequence[int]]:
    """The layers and positions that a method has scores of."""
    session, method = shown
    if not METHODS[method].reads_edges:
        return [session.depth], [session.target.position]
    return ([session.depth], [session.query]) if one_row else (layers, queries)


def can_show_heads(session: Session, method: str) -> bool:
    """Whether a method of several rows has scores of heads, which take seconds at most a layer."""
    member = METHODS[method]
    if not (member.reads_edges and member.single_heads):
        return False
    steps = len(session.activations.attention)
    slow = takes_long(method, session.heads, steps, session.size)
    return session.config.rule.single_heads and not slow


def takes_long(method: str, heads: int, steps: int, size: int) -> bool:
    """Whether the scores of all heads of a layer take more than seconds."""
    return METHODS[method].cost != "matrix" and heads * steps * size**3 > MOST_HEAD_WORK


def _heads_within(session: Session, method: str, extent: Extent) -> bool:
    few = session.depth * session.heads * session.size <= extent.heads
    return METHODS[method].cost == "matrix" or few


def _has_routes(shown: Shown) -> bool:
    """Whether a trace has more than one edge."""
    member = METHODS[shown.method]
    return member.reads_edges and member.trace is not None and member.reaches_input


def scores_of(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    check: Check | None = None,
) -> PackedScores:
    """Scores of chosen layers and positions, packed."""
    scores = session.scores(method, layers, queries, check=check).values
    return _packed(session, method, layers, queries, scores, check)


def _packed(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    scores: FloatArray,
    check: Check | None,
) -> PackedScores:
    """These scores, packed, with those of words and what they say."""
    values = pack(scores)
    packed: PackedScores = {
        "method": shown_id(session, method),
        "layers": list(layers),
        "queries": list(queries),
        "values": values,
        "findings": find_elsewhere(session, method, layers, queries, scores),
    }
    if len(session.groups) < session.size:
        words = session.scores(method, layers, queries, words=True, check=check)
        packed["words"] = pack(words.values)
    elif session.tokens.word_ids is not None:
        packed["words"] = values  # every word is one token
    return packed


def heads_of(
    session: Session, method: str, layers: Sequence[int], query: int, check: Check | None = None
) -> HeadScores:
    """Scores of single heads, packed."""

    def scores(*, words: bool) -> Any:
        each = session.scores(method, layers, [query], words=words, each_head=True, check=check)
        return pack(each.values[:, :, 0])

    values = scores(words=False)
    packed: HeadScores = {
        "method": shown_id(session, method),
        "layers": list(layers),
        "query": query,
        "values": values,
    }
    if len(session.groups) < session.size:
        packed["words"] = scores(words=True)
    elif session.tokens.word_ids is not None:
        packed["words"] = values
    return packed


def predict_blanked(
    session: Session, sets: Sequence[Sequence[int]], check: Check | None = None
) -> list[Blanked]:
    """The model's predictions without each of these sets of tokens."""
    pairs = zip(sets, session.blanking.compare(sets, check), strict=True)
    return [
        {"positions": sorted(each), "said": predictions(said), "change": change}
        for each, (said, change) in pairs
    ]


def columns_of(session: Session) -> list[str]:
    """A name for each step of the graph; an encoder–decoder says which kind of step it is."""
    activations = session.activations
    if activations.ends is None:
        return ["input", *(f"L{layer}" for layer in range(1, session.depth + 1))]
    names = {}
    before = 0
    for layer, end in enumerate(activations.steps, start=1):
        names[end] = f"L{layer}"
        if end - before == 2:
            names[end - 1] = f"L{layer} self"
            names[end] = f"L{layer} cross"
        before = end
    return ["input", *(names[step] for step in sorted(names))]


def strongest_edges(session: Session) -> DrawnEdges:
    """The strongest edges of every position: all of them where there are few tokens."""
    maps = session.maps
    steps, size = len(maps), maps[0].shape[-1]
    count = min(size, max(FEWEST_EDGES, MOST_EDGES // (steps * size)))
    # Map by map: all of a long text together may take more memory than there is.
    kept = [_strongest(to_numpy(each), count) for each in maps]
    step = np.repeat(np.arange(1, steps + 1), [len(each[0]) for each in kept])
    query, key, weight = (np.concatenate(each) for each in zip(*kept, strict=True))
    order = np.argsort(-weight, kind="stable")
    return {
        "step": pack(step[order], "u2"),
        "query": pack(query[order], "u2"),
        "key": pack(key[order], "u2"),
        "weight": pack(weight[order]),
        "kept": int(count),
    }


def carrying_edges(session: Session) -> DrawnEdges:
    """The edges between tokens that carry 90 % of all amounts, for the target and against it."""
    maps = np.stack([to_numpy(each) for each in session.maps])
    maps[:, range(session.size), range(session.size)] = 0.0  # which stay in place
    sizes = np.abs(maps).ravel()
    order = np.argsort(-sizes, kind="stable")[:MOST_AMOUNTS]
    passed = np.cumsum(sizes[order])
    count = 1 + int(np.searchsorted(passed, MOST * sizes.sum())) if sizes.any() else 0
    order = order[:count]
    step, query, key = np.unravel_index(order, maps.shape)
    return {
        "step": pack(step + 1, "u2"),
        "query": pack(query, "u2"),
        "key": pack(key, "u2"),
        "weight": pack(maps.ravel()[order]),
        "kept": 0,
    }


def _strongest(weights: FloatArray, count: int) -> tuple[Any, Any, FloatArray]:
    """Queries, keys and weights of the strongest edges of every position that are not 0."""
    keys = np.argpartition(-weights, count - 1, axis=-1)[..., :count]
    strongest = np.take_along_axis(weights, keys, -1)
    nonzero = strongest > 0
    return np.nonzero(nonzero)[0], keys[nonzero], strongest[nonzero]


def traced_pairs(
    top: FloatArray, layers: Sequence[int], most: int, key: int
) -> list[tuple[int, int]]:
    """Which (layer, token) pairs are traced: all, or the highest-scored of the last layer."""
    order = [key, *(int(at) for at in np.argsort(-top, kind="stable") if at != key)]
    if len(layers) * len(order) <= most:
        return [(layer, at) for layer in reversed(layers) for at in order]
    return [(layers[-1], at) for at in order[: max(1, most // SHARE)]]


@dataclass(frozen=True)
class Found:
    """What methods found: in words, which of them agree, and the token that is traced at first."""

    findings: list[FoundByMethod]
    agreement: str
    unchecked: str
    key: int


def find_all(session: Session, methods: Sequence[Shown], blanks: int) -> Found:
    """What these methods found where the configuration asks, compared with blanking if cheap.

    Inputs of up to ``blanks`` tokens are, whatever it costs.
    """
    attributions = [of.attribution(method) for of, method in methods]
    summary = summarize(session, attributions, blank=True, tokens=blanks)
    order = summary.main.order
    main = next(each for each in attributions if name_of(each) == summary.main.name)
    if is_signed(main):  # what speaks against the answer may be what is asked for
        sizes = np.abs(merged_scores(main))
        order = tuple(sorted(order, key=lambda at: -sizes[at]))
    names, words = session.tokens.names, session.config.words
    of_token = {at: group for group in session.groups for at in group}
    group_of = session.groups if words else [of_token[at] for at in range(session.size)]
    if words:
        order = tuple(group_of[at][0] for at in order)
    # What the headline names as the answer's reason is traced, and not what it doubts or what
    # speaks against it; of a split word no single letter, where there is another piece.
    found, verdict = summary.main, summary.main.verdict
    reasons = () if verdict is None else verdict.words
    shown = [part.position for part in found.parts if part.role in ("token", "for")]
    named = [group_of[at] for at in (*reasons, *shown) if at is not None]
    first = [at for group in named for at in order if at in group]
    first.sort(key=lambda at: len(of_token[at]) > 1 and _is_letter(names[at]))
    order = (*first, *order)
    return Found(
        describe_findings(
            summary.each,
            [(of.layer, session.query) for of in attributions],
            session.groups if words else (),
        ),
        summary.agreement,
        summary.unchecked,
        first_key(order, session.tokens.names, session.tokens),
    )


def _is_letter(token: str) -> bool:
    return sum(map(str.isalnum, token)) == 1


def find_elsewhere(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    values: FloatArray,
) -> list[FoundByMethod]:
    """What a method found by its scores ``[layer, query, key]``.

    Of many positions, every layer for the one that the session explains, and all at the last.
    """
    # What the model says without each word is used where it is known: this is asked for scores.
    check = check_by_blanking(session, session.size) if session.blanking.known else None
    info = method_info(method, session.config.rule.name)
    if not info.layered:
        only = find(session.attribution(method), None, check)
        groups = session.groups if session.config.words else ()
        return describe_findings([only], [(session.depth, session.query)], groups)
    found = _attribution(session, method, layers, queries, values)
    ties = None
    if info.tie_breaker:
        seconds = session.scores(info.tie_breaker, layers, queries).values
        ties = _attribution(session, info.tie_breaker, layers, queries, seconds)
    own, depth = session.query, session.depth
    places = [
        (layer, query)
        for layer, query in product(layers, queries)
        if len(queries) == 1 or query == own or layer == depth
    ]
    answer = check if (found.layer, found.query) == (depth, own) else None
    return describe_findings(find_each(found, ties, places, answer), places)


def _attribution(
    session: Session,
    method: str,
    layers: Sequence[int],
    queries: Sequence[int],
    values: FloatArray,
) -> Attribution:
    """Scores of these layers and positions, explaining the session's where it is one of them."""
    rising, own = tuple(sorted(set(layers))), session.query
    return session.make_attribution(
        Scores(values[[layers.index(layer) for layer in rising]]),
        None,
        layers=rising,
        queries=tuple(queries),
        layer=rising[-1],
        query=own if own in queries else queries[0],
        method=method,
        options=session.describe(method),
    )


def trace_path(
    session: Session, method: str, layer: int, query: int, key: int, *, verify: bool = False
) -> Trace:
    """The trace of one score of a session; with ``verify`` its cut is removed from the model."""
    trace = session.trace(method, layer, query, key)
    found = verified(session, [trace], verify=True) if verify else [trace]
    shown = to_traces(found, written_labels(session.tokens.names, session.tokens))
    _compare_with_blanking(session, found, shown)
    return shown[0]


def _compare_with_blanking(
    session: Session, traces: Sequence[FlowTrace], shown: Sequence[Trace]
) -> None:
    """Say why removing the edges of a word does more than blanking it, where both are known."""
    check = session.cache.get(BlankingCheck)
    if check is None or check.contrast or not any(each.knockout for each in traces):
        return
    labels = word_labels(check.scores, LONGEST)
    place = {at: word for word, group in enumerate(session.groups) for at in group}
    for trace, each in zip(traces, shown, strict=True):
        at = place[trace.key] if session.config.words else trace.key
        removal, found = check.removals[at], trace.knockout
        if removal is not None and found is not None and found.target == check.target:
            why = beside_blanking(found, labels[at], removal.change)
            each["verified"] = " ".join(filter(None, [each["verified"], why]))


def knocked_out(session: Session, edges: Sequence[Edges], random: int) -> KnockedOut:
    """What a session's model says without all of these edges, and without as many random ones."""
    (found,) = knock_out_of(session, {"": list(edges)}, random).values()
    return {
        "removed": found.removed,
        "total": found.total,
        "target": found.target,
        "before": found.before.probability,
        "after": found.after.probability,
        "random": [each.probability for each in found.random],
        "said": predictions(found.after.prediction),
        "sentence": as_sentence(found.summary),
    }


def to_traces(traces: Sequence[FlowTrace], labels: Sequence[str]) -> list[Trace]:
    """Traces of one method as plain data, without edges too thin to be seen.

    ``labels`` are those that the page has for tokens.
    """
    if not traces:
        return []
    first = traces[0]
    name = method_id(first.method, str(first.options.get("edges", "attention")))
    return [
        _to_trace(each, name, told) for each, told in zip(traces, tell(traces, labels), strict=True)
    ]


def _to_trace(trace: FlowTrace, name: str, told: Told) -> Trace:
    everything = trace.edges > NEGLIGIBLE * abs(trace.value)
    steps, queries, keys = np.nonzero(everything if told.carrying is None else told.carrying)
    amounts = trace.edges[steps, queries, keys]
    strongest = np.argsort(-amounts, kind="stable")[:MOST_TRACED]
    found: Trace = {
        "method": name,
        "layer": trace.layer,
        "query": trace.query,
        "key": trace.key,
        "value": tidy(trace.value),
        "opposed": tidy(trace.opposed),
        "gap": tidy(trace.gap),
        "edges": [
            [int(steps[i]) + 1, int(queries[i]), int(keys[i]), tidy(amounts[i])] for i in strongest
        ],
        "all_edges": int(np.count_nonzero(everything)),
        "cut": [[edge.layer, edge.query, edge.key, tidy(edge.capacity)] for edge in told.cut],
        "all_cut": len(trace.cut),
        "routes": [
            {"positions": list(route.positions), "amount": tidy(route.amount)}
            for route in trace.routes[:MOST_ROUTES]
        ],
        "all_routes": len(trace.routes),
        "sentence": told.sentence,
    }
    if trace.knockout is not None:
        found["verified"] = as_sentence(trace.knockout.summary)
    return found


def tidy(value: float) -> float:
    """A number rounded to the digits of float32: shorter in JSON, and more than a page shows."""
    return float(f"{value:.7g}")
