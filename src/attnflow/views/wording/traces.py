"""What a trace comes to: the routes that carry it, in runs and shares, and its cut in words.

Where a token keeps what it has, a cut is one threshold for each token: the layer from which on it
carries the word's information. Every edge of the cut is full, so that what a position reads over it
is the word's information, which had arrived at the token below. The largest edges that carry 90 %
of the flow are what is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnflow.records import Edge, FloatArray, FlowTrace, Route
from attnflow.views.wording.labels import LONGEST, distinct_labels, written
from attnflow.views.wording.numbers import as_sentence, join_names, share

WORTH_NAMING = 0.05  # of a flow
MOST = 0.9  # of the flow: the edges that carry it are shown and told
MOST_NAMED = 3  # tokens
MOST_THROUGH = 2  # tokens that it passes through


def steps_between(trace: FlowTrace) -> FloatArray:
    """What each edge carries ``[step, query, key]``, without those on which it stays on a token.

    Where it never leaves its token, all of them.
    """
    same = np.eye(trace.edges.shape[-1], dtype=bool)
    between: FloatArray = np.where(same, 0.0, trace.edges)
    return between if between.any() else trace.edges


def trace_names(tokens: Sequence[str]) -> list[str]:
    """The names of its tokens, in quotation marks."""
    return [f"“{name}”" for name in distinct_labels(tokens, LONGEST)]


class Told(NamedTuple):
    """What is shown of a trace: a sentence, and of a flow of relevance only the main edges."""

    sentence: str
    carrying: npt.NDArray[np.bool_] | None
    cut: Sequence[Edge]


def tell(traces: Sequence[FlowTrace], tokens: Sequence[str]) -> list[Told]:
    """What is shown of traces of one input, with what its tokens are called."""
    names = trace_names(tokens)
    return [
        Told(trace_sentence(each, names), carrying(each), main_edges(each.cut))
        if each.carries_from
        else Told(trace_sentence(each, names), None, each.cut)
        for each in traces
    ]


def trace_sentence(trace: FlowTrace, names: Sequence[str] = ()) -> str:
    """What a trace comes to: the ways that carry it, and where it is narrow.

    ``names`` are its `trace_names`, which many traces share.
    """
    names = list(names) or trace_names(written(trace))
    key, query = names[trace.key], names[trace.query]
    if not trace.value and trace.key == 0 and trace.options.get("correction") == "sink":
        return f"{key}, the first token, is left out (correction sink), so nothing is traced to it."
    if not trace.value:
        return f"Nothing passes from {key} to {query}."
    if trace.carries_from:
        return cut_sentence(trace, names)
    parts = []
    if not trace.routes and not trace.cut:
        edges = steps_between(trace)
        layer, to, start = np.unravel_index(int(edges.argmax()), edges.shape)
        carries = share(float(edges.max()) / trace.value)
        own = start == trace.key and to == trace.query
        ends = "is" if own else f"goes from {names[start]} to {names[to]}"
        where = f"in layer {layer + trace.to_layer + 1}"
        return f"From {key} to {query}, the step that carries most, {carries}, {ends} {where}."
    if trace.routes:
        direct, through = carried(trace, MOST_THROUGH)
        named = [(at, part) for at, part in through if part >= WORTH_NAMING]
        ways = [f"{share(part)} through {names[at]}" for at, part in named]
        # What also passes the first token is counted there.
        ways[1:] = [f"another {way}" for way in ways[1:]]
        if direct >= WORTH_NAMING or not ways:
            ways.insert(0, f"{share(direct)} goes directly")
        parts.append(f"from {key} to {query}, {join_names(ways)}")
    where = {
        "source": f"the bottleneck is at {query}: all edges into it that {key} can reach are full",
        "input": f"the bottleneck is at {key}: all edges out of it that lead to {query} are full",
        "between": "the bottleneck lies between them",
        "": "",
    }[place_of_cut(trace)]
    sentence = "; ".join(filter(None, [*parts, where]))
    return as_sentence(sentence) if sentence else ""


@dataclass(frozen=True)
class CutReading:
    """What the main edges of a cut say.

    Attributes:
        edges: These edges, the largest first.
        share: How much of the flow passes over them.
        taken_over: For each other token that they read from, by which layer it had taken the word's
            information over; the one that most is read from first. Empty where little is.
        by_answer: The layers in which the answer read from such tokens.
        itself: The layers in which the answer read the word itself.
        own_share: How much of the flow that is.
        handed_on: For each position that read and is not where the answer is read, its layers.
    """

    edges: tuple[Edge, ...]
    share: float
    taken_over: dict[int, int]
    by_answer: tuple[int, ...]
    itself: tuple[int, ...]
    own_share: float
    handed_on: dict[int, tuple[int, ...]]


def main_edges(edges: Iterable[Edge], most: float = MOST) -> list[Edge]:
    """The largest edges that carry this share of what all of them carry."""
    order = sorted(edges, key=lambda each: (-each.capacity, -each.layer, each.query, each.key))
    total, passed, found = sum(each.capacity for each in order), 0.0, []
    for edge in order:
        if passed >= most * total:
            break
        found.append(edge)
        passed += edge.capacity
    return found


def read_cut(trace: FlowTrace) -> CutReading:
    """What the main edges of a cut say."""
    edges = main_edges(trace.cut)
    total = sum(edge.capacity for edge in trace.cut) or 1.0
    answer = set(trace.sources or (trace.query,))
    others = [edge for edge in edges if edge.key != trace.key]
    if sum(edge.capacity for edge in others) < WORTH_NAMING * total:
        others = []
    amounts: dict[int, float] = {}
    for edge in others:
        amounts[edge.key] = amounts.get(edge.key, 0.0) + edge.capacity
    order = sorted(amounts, key=lambda at: (-amounts[at], at))
    readers = dict.fromkeys(edge.query for edge in edges if edge.query not in answer)
    own = [edge for edge in edges if edge.key == trace.key and edge.query in answer]
    return CutReading(
        edges=tuple(edges),
        share=sum(edge.capacity for edge in edges) / total,
        taken_over={at: min(e.layer for e in others if e.key == at) - 1 for at in order},
        by_answer=_layers(edge for edge in others if edge.query in answer),
        itself=_layers(own),
        own_share=sum(edge.capacity for edge in own) / total,
        handed_on={at: _layers(edge for edge in edges if edge.query == at) for at in readers},
    )


def cut_sentence(trace: FlowTrace, names: Sequence[str]) -> str:
    """A cut in one sentence; ``names`` are those of the positions, in quotation marks."""
    found, key = read_cut(trace), names[trace.key]
    step = "layer" if trace.to_layer + len(trace.edges) == trace.layer else "step"
    says = f"what {key} says" + (" against it" if trace.value < 0 else "")
    parts = []
    if found.taken_over:
        parts.append(f"{_taken_over(found.taken_over, names, step)} had taken over {says}")
    if found.by_answer:
        whence = "from there " if found.taken_over else ""
        parts.append(f"the answer read it {whence}in {_in_layers(found.by_answer, step)}")
    if found.itself:
        if found.taken_over:
            part = f"{share(found.own_share)} of the flow"
            own = f"{part} from {key} itself in {_in_layers(found.itself, step)}"
            parts[-1:] = (
                [f"{parts[-1]}, and {own}"]
                if found.by_answer
                else [parts[-1], f"the answer read {own}"]
            )
        else:
            what = f"{says} from {key} itself" if trace.value < 0 else f"{key} itself"
            parts.append(f"the answer read {what}, in {_in_layers(found.itself, step)}")
    if found.handed_on:
        parts.append(_handed_on(found, names, step, says))
    rest = len(trace.cut) - len(found.edges)
    left = f" ({share(found.share)} of the flow; {_count(rest)} the rest)" if rest else ""
    return as_sentence("; ".join(parts) + left)


def _taken_over(tokens: dict[int, int], names: Sequence[str], step: str) -> str:
    """By which layers which tokens: by layer 3 “is”, by layer 5 “music” and 2 other tokens."""
    named, rest = list(tokens)[:MOST_NAMED], list(tokens)[MOST_NAMED:]
    by: dict[int, list[str]] = {}
    for at in named:
        by.setdefault(tokens[at], []).append(names[at])
    if rest:
        many = "another token" if len(rest) == 1 else f"{len(rest)} other tokens"
        by.setdefault(max(tokens[at] for at in tokens), []).append(many)
    return join_names([f"by {step} {layer} {join_names(by[layer])}" for layer in sorted(by)])


def _handed_on(found: CutReading, names: Sequence[str], step: str, says: str) -> str:
    """What positions read that are not where the answer is read."""
    readers = list(found.handed_on)
    layers = sorted({layer for at in readers for layer in found.handed_on[at]})
    named = [names[at] for at in readers[:MOST_NAMED]]
    rest = len(readers) - len(named)
    if rest:
        named.append("another token" if rest == 1 else f"{rest} other tokens")
    what = "it" if found.taken_over or found.itself else says
    return f"{join_names(named)} read {what} in {_in_layers(layers, step)} and handed it on"


def _in_layers(layers: Sequence[int], step: str) -> str:
    """Layers as in a sentence.

    >>> _in_layers([6], "layer"), _in_layers([5, 6], "layer"), _in_layers([2, 3, 4, 6], "layer")
    ('layer 6', 'layers 5 and 6', 'layers 2 to 4 and 6')
    """
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    named: list[str] = []
    for run in runs:
        named += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"{step}{'s' if len(layers) > 1 else ''} {join_names(named)}"


def _layers(edges: Iterable[Edge]) -> tuple[int, ...]:
    return tuple(sorted({edge.layer for edge in edges}))


def _count(edges: int) -> str:
    return "1 thinner edge carries" if edges == 1 else f"{edges} thinner edges carry"


class Stretch(NamedTuple):
    """The layers, from the input up, in which a route stays on one token: it is named once."""

    position: int
    first: int
    last: int

    @property
    def span(self) -> str:
        """The layers in short.

        >>> Stretch(3, 0, 28).span, Stretch(5, 29, 30).span, Stretch(5, 6, 6).span
        ('input–28', 'L29–30', 'L6')
        """
        start = "input" if self.first == 0 else f"L{self.first}"
        return start if self.first == self.last else f"{start}–{self.last}"


def runs(route: Route, base: int = 0) -> list[Stretch]:
    """A route from the input up, ``base`` being the layer that it ends at.

    >>> runs(Route((0, 0, 2, 2), 0.5))
    [Stretch(position=2, first=0, last=1), Stretch(position=0, first=2, last=3)]
    """
    upward = enumerate(reversed(route.positions), start=base)
    found = []
    for position, stay in groupby(upward, key=lambda step: step[1]):
        layers = [layer for layer, _ in stay]
        found.append(Stretch(position, layers[0], layers[-1]))
    return found


def carrying(trace: FlowTrace) -> npt.NDArray[np.bool_]:
    """The edges of the largest routes that carry 90 % of a flow, ``[layer, query, key]``."""
    found = np.zeros(trace.edges.shape, dtype=bool)
    top, left = len(trace.edges) - 1, MOST * abs(trace.value)
    for route in trace.routes:
        if left <= 0:
            break
        for at, (query, key) in enumerate(pairwise(route.positions)):
            found[top - at, query, key] = True
        left -= route.amount
    return found


def place_of_cut(trace: FlowTrace) -> str:
    """Where a minimum cut lies: ``"source"``, ``"input"``, ``"between"``, or nowhere (empty)."""
    if not trace.cut:
        return ""
    top, bottom = trace.to_layer + len(trace.edges), trace.to_layer + 1
    if all(edge.layer == top and edge.query == trace.query for edge in trace.cut):
        return "source"
    if all(edge.layer == bottom and edge.key == trace.key for edge in trace.cut):
        return "input"
    return "between"


def carried(trace: FlowTrace, most: int) -> tuple[float, list[tuple[int, float]]]:
    """The share of a flow that goes directly, and the shares through up to ``most`` other tokens.

    Every route counts once, so that shares sum to 1 at most: the first token is the one that most
    passes through, the next the one that most of the rest passes through.
    """
    if not trace.value:
        return 0.0, []
    ends = {trace.query, trace.key}
    passed = [(set(route.positions) - ends, route.amount) for route in trace.routes]
    direct = sum(amount for tokens, amount in passed if not tokens)
    found: list[tuple[int, float]] = []
    for _ in range(most):
        through: dict[int, float] = {}
        for tokens, amount in passed:
            for at in tokens:
                through[at] = through.get(at, 0.0) + amount
        if not through:
            break
        first = min(through, key=lambda at: (-through[at], at))
        found.append((first, through[first] / trace.value))
        passed = [(tokens, amount) for tokens, amount in passed if first not in tokens]
    return direct / trace.value, found
