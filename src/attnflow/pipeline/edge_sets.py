"""Sets of attention edges in the forms that callers give, resolved for one input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnflow.errors import InputError, shown
from attnflow.records import Edge, FlowTrace, Route
from attnflow.records.arrays import is_tensor
from attnflow.records.knockout import Edges
from attnflow.records.selection import is_integer, resolve, resolve_all, words_of_tokens

if TYPE_CHECKING:
    from attnflow.models.adapter import Tokens
    from attnflow.models.knockout import ModelEdges
    from attnflow.records.parts import Part

BoolArray = npt.NDArray[np.bool_]
ALLOWED = (
    "Edges(…), a token's text, (layer, query, key) or (layer, query, key, head), a FlowTrace, its "
    "cut or one of its routes, a mask [layer, query, key] or [layer, head, query, key], or a list "
    "of these"
)
NAMED = 3  # tokens or sets that a label names


@dataclass(frozen=True)
class EdgeRemoval:
    """The edges of a set that a model has on one input.

    Attributes:
        steps: For each step of the graph ``[query, key]``, or ``[head, query, key]`` with
            ``per_head``; ``None`` where nothing is removed.
        count: How many edges there are.
        per_head: Whether they are edges of single heads.
        own: Whether some lead from a token to itself.
    """

    steps: tuple[BoolArray | None, ...]
    count: int
    per_head: bool
    own: bool


@dataclass(frozen=True)
class _Block:
    """All edges between some tokens, of some layers and heads; ``None`` is all."""

    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    queries: tuple[int, ...] | None
    keys: tuple[int, ...] | None
    own: bool

    def put(self, into: _Masks) -> None:
        size = into.size
        reads, read = np.ones(size, bool), np.ones(size, bool)
        for side, named, other in (
            (reads, self.queries, self.keys),
            (read, self.keys, self.queries),
        ):
            if named is not None:
                side[:] = False
                side[list(named)] = True
            elif other is not None and not self.own:
                side[list(other)] = False
        between = np.outer(reads, read)
        if not self.own:
            np.fill_diagonal(between, False)
        for layer in self.layers:
            for step in into.edges.steps_in(layer):
                into.add(step, between, self.heads)


@dataclass(frozen=True)
class _Singles:
    """Single edges ``(layer, query, key, head or None)``; of a graph, steps stand for layers."""

    edges: tuple[tuple[int, int, int, int | None], ...]
    of_graph: bool = False

    @property
    def heads(self) -> tuple[int, ...] | None:
        named = tuple(head for *_, head in self.edges if head is not None)
        return named or None

    def put(self, into: _Masks) -> None:
        for layer, query, key, head in self.edges:
            steps = [layer - 1] if self.of_graph else into.edges.steps_in(layer)
            found = [step for step in steps if into.sees(step, query, key, head)]
            if not found and not self.of_graph:
                msg = (
                    f"the model has no edge {(layer, query, key)}: position {query} does not see "
                    f"position {key} in layer {layer}"
                )
                raise InputError(msg)
            for step in found:
                into.add_one(step, query, key, head)


@dataclass(frozen=True, eq=False)
class _Mask:
    """Whatever is True in ``[layer or step, query, key]`` or ``[layer or step, head, …]``."""

    array: BoolArray

    @property
    def heads(self) -> tuple[int, ...] | None:
        return tuple(range(self.array.shape[1])) if self.array.ndim > 3 else None

    def put(self, into: _Masks) -> None:
        of_graph = len(self.array) == len(into.edges.steps)
        for number, layer in enumerate(self.array):
            for step in [number] if of_graph else into.edges.steps_in(number + 1):
                if layer.ndim == 2:
                    into.add(step, layer, None)
                    continue
                for head in range(len(layer)):
                    into.add(step, layer[head], (head,))


Pick = _Block | _Singles | _Mask


class _Masks:
    """The steps of one input while edges are put into them."""

    def __init__(self, edges: ModelEdges, *, per_head: bool) -> None:
        self.edges = edges
        self.size = edges.steps[0].size
        self.per_head = per_head
        self.steps: list[BoolArray | None] = [None] * len(edges.steps)
        self.visible: dict[bool, list[BoolArray]] = {}

    def of(self, step: int) -> BoolArray:
        found = self.steps[step]
        if found is None:
            heads = (self.edges.heads[step],) if self.per_head else ()
            found = self.steps[step] = np.zeros((*heads, self.size, self.size), bool)
        return found

    def add(self, step: int, between: BoolArray, heads: Sequence[int] | None) -> None:
        for place in self._places(step, heads):
            self.of(step)[place] |= between

    def add_one(self, step: int, query: int, key: int, head: int | None) -> None:
        for place in self._places(step, None if head is None else [head]):
            self.of(step)[(*place, query, key)] = True

    def seen(self, *, per_head: bool) -> list[BoolArray]:
        """The edges that the model has in each step."""
        if per_head not in self.visible:
            self.visible[per_head] = self.edges.seen(per_head=per_head)
        return self.visible[per_head]

    def sees(self, step: int, query: int, key: int, head: int | None) -> bool:
        visible = self.seen(per_head=head is not None)[step]
        if head is None:
            return bool(visible[query, key])
        ((place,),) = self._places(step, [head])
        return bool(visible[place, query, key])

    def _places(self, step: int, heads: Sequence[int] | None) -> list[tuple[Any, ...]]:
        if heads is None:
            return [(slice(None),)] if self.per_head else [()]
        count = self.edges.heads[step]
        layer = next(at for at, end in enumerate(self.edges.ends, start=1) if step < end)
        return [(resolve(f"heads (layer {layer})", head, 0, count - 1, count),) for head in heads]


@dataclass(frozen=True)
class EdgeSet:
    """A set of edges of one input.

    Attributes:
        label: What they are, in words.
        picks: What it is made of.
        kept: How many edges that were given are none of attention, and stay.
    """

    label: str
    picks: tuple[Pick, ...]
    kept: int = 0

    def of(self, edges: ModelEdges) -> EdgeRemoval:
        """Those that the model has; an error where there are none."""
        masks = _Masks(edges, per_head=any(pick.heads is not None for pick in self.picks))
        for pick in self.picks:
            pick.put(masks)
        count, own = 0, False
        seen = masks.seen(per_head=masks.per_head)
        for step, found in enumerate(masks.steps):
            if found is not None:
                found &= seen[step]
                count += int(found.sum())
                own = own or bool(found[..., range(masks.size), range(masks.size)].any())
                masks.steps[step] = found if found.any() else None
        if not count:
            why = "the residual stream and own edges stay" if self.kept else "no position sees them"
            msg = f"there is nothing to remove: {self.label} has no edge of attention ({why})"
            raise InputError(msg)
        return EdgeRemoval(tuple(masks.steps), count, masks.per_head, own)


def candidates(edges: ModelEdges, like: EdgeRemoval) -> list[BoolArray]:
    """The edges of each step that random sets are drawn from; own ones if the set has any."""
    seen = edges.seen(per_head=like.per_head)
    return seen if like.own else [each & ~np.eye(each.shape[-1], dtype=bool) for each in seen]


def draw(
    among: Sequence[BoolArray], like: EdgeRemoval, generator: np.random.Generator
) -> EdgeRemoval:
    """As many random edges as a set has, of its `candidates`."""
    counts = [int(each.sum()) for each in among]
    chosen = np.sort(generator.choice(sum(counts), like.count, replace=False, shuffle=False))
    steps: list[BoolArray | None] = []
    first = 0
    for step, count in enumerate(counts):
        own = chosen[(chosen >= first) & (chosen < first + count)] - first
        first += count
        if not len(own):
            steps.append(None)
            continue
        picked = np.zeros(among[step].shape, bool)
        picked.flat[np.flatnonzero(among[step])[own]] = True
        steps.append(picked)
    return EdgeRemoval(tuple(steps), like.count, like.per_head, like.own)


@dataclass(frozen=True)
class EdgeReader:
    """Makes edge sets of what callers give, for one input; errors name what they can't resolve.

    Attributes:
        tokens: The input.
        depth: How many layers the model has.
        heads: How many heads a layer has at most.
        steps: How many steps its graph has; a decoder layer of an encoder–decoder has two.
        model: The model's name.
        parts: The named parts of the input.
        writes: The positions at which an answer's tokens are predicted: its readers.
    """

    tokens: Tokens
    depth: int
    heads: int
    steps: int
    model: str
    parts: tuple[Part, ...] = ()
    writes: tuple[int, ...] = ()

    def read(self, given: Any) -> EdgeSet:
        """One set."""
        labels, picks, kept = [], list[Pick](), 0
        for part in self._each(given):
            labels.append(part.label)
            picks += part.picks
            kept += part.kept
        shown_labels = list(dict.fromkeys(labels))
        more = len(shown_labels) - NAMED
        label = "; ".join(shown_labels[:NAMED]) + (f"; and {more} more" if more > 0 else "")
        return EdgeSet(label, tuple(picks), kept)

    def _each(self, given: Any) -> Iterator[EdgeSet]:
        """The sets that one is the union of; single edges together are one of them."""
        if isinstance(given, str):
            given = Edges(keys=given)
        if isinstance(given, Edges):
            yield self._block(given)
        elif isinstance(given, FlowTrace):
            yield self._cut(given)
        elif isinstance(given, Route):
            yield self._route(given)
        elif isinstance(given, Edge):
            yield self._graph_edges([given])
        elif hasattr(given, "dtype"):
            yield self._mask(given)
        elif _is_single(given):
            yield self._singles([given])
        elif isinstance(given, Iterable) and not isinstance(given, bytes | dict):
            yield from self._union(list(given))
        else:
            msg = f"edges={shown(given)} is {type(given).__name__}; allowed: {ALLOWED}"
            raise InputError(msg)

    def _union(self, given: list[Any]) -> Iterator[EdgeSet]:
        if not given:
            msg = f"edges=[] has no edges; allowed: {ALLOWED}"
            raise InputError(msg)
        edges = [each for each in given if isinstance(each, Edge)]
        singles = [each for each in given if _is_single(each)]
        if edges:
            yield self._graph_edges(edges)
        if singles:
            yield self._singles(singles)
        for each in given:
            if not isinstance(each, Edge) and not _is_single(each):
                yield from self._each(each)

    def _block(self, given: Edges) -> EdgeSet:
        layers = resolve_all("layers", given.layers, 1, self.depth, self.depth + 1)
        heads = None
        if given.heads is not None:
            heads = resolve_all("heads", given.heads, 0, self.heads - 1, self.heads)
        queries, keys = (
            None if side is None else tuple(sorted(set(self._places(name, side))))
            for name, side in (("queries", given.queries), ("keys", given.keys))
        )
        block = _Block(tuple(dict.fromkeys(layers)), heads, queries, keys, given.has_own)
        return EdgeSet(self._describe(given, block), (block,))

    def _singles(self, given: Sequence[Any]) -> EdgeSet:
        found = []
        for layer, query, key, *head in given:
            edge = (
                resolve("layer", layer, 1, self.depth, self.depth + 1),
                self.tokens.position(query, "query"),
                self.tokens.position(key, "key"),
                resolve("head", head[0], 0, self.heads - 1, self.heads) if head else None,
            )
            found.append(edge)
        return EdgeSet(_count(len(found)), (_Singles(tuple(found)),))

    def _graph_edges(self, given: Sequence[Edge]) -> EdgeSet:
        """Edges of a graph, where own edges are mostly the residual stream, which stays."""
        size, found = len(self.tokens), []
        # One position after the last is a logit.
        bounds = ("layer", 1, self.steps), ("query", 0, size), ("key", 0, size)
        columns = [
            resolve_all(name, [getattr(edge, name) for edge in given], low, high, high + 1)
            for name, low, high in bounds
        ]
        for step, query, key in zip(*columns, strict=True):
            if query != key and query < size and key < size:
                found.append((step, query, key, None))
        singles = _Singles(tuple(found), of_graph=True)
        return EdgeSet(_count(len(given)), (singles,), len(given) - len(found))

    def _cut(self, trace: FlowTrace) -> EdgeSet:
        names = self.tokens.names
        if trace.tokens and trace.tokens[: len(names)] != names:
            msg = (
                f"edges={shown(trace)} is of another text: its tokens are "
                f"{shown(' '.join(trace.tokens))}, those of this one {shown(' '.join(names))}"
            )
            raise InputError(msg)
        if trace.model and trace.model != self.model:
            msg = f"edges={shown(trace)} is of {trace.model}, and this model is {self.model}"
            raise InputError(msg)
        if not trace.cut and not trace.value:
            msg = f"edges={shown(trace)} has no cut, as nothing passes; give edges of your own"
            raise InputError(msg)
        if not trace.cut:
            msg = (
                f"edges={shown(trace)} has no cut, which method={trace.method!r} does not find; "
                "use method='flow', or give edges of your own"
            )
            raise InputError(msg)
        found = self._graph_edges(trace.cut)
        key = names[trace.key] if trace.key < len(names) else str(trace.key)
        query = names[trace.query] if trace.query < len(names) else "the logit"
        return EdgeSet(f"the cut between “{key}” and “{query}”", found.picks, found.kept)

    def _route(self, route: Route) -> EdgeSet:
        """The edges of a path that ends at the input, which its last position is."""
        top = len(route.positions) - 1
        steps = pairwise(route.positions)
        edges = [Edge(top - at, *pair, route.amount) for at, pair in enumerate(steps)]
        found = self._graph_edges(edges)
        names = [self._name(at) for at in reversed(route.positions)]
        path = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
        return EdgeSet(f"the route {' → '.join(path)}", found.picks, found.kept)

    def _mask(self, given: Any) -> EdgeSet:
        array = np.asarray(given.detach().cpu() if is_tensor(given) else given)
        size = len(self.tokens)
        fits = array.ndim in (3, 4) and array.shape[-2:] == (size, size)
        counts = {self.depth, self.steps}
        if array.dtype != np.bool_ or not fits or len(array) not in counts:
            layers = " or ".join(map(str, sorted(counts)))
            msg = (
                f"edges is an array of {array.dtype} of shape {array.shape}; a mask is of bool, "
                f"[layer, query, key] or [layer, head, query, key]: {layers} layers and "
                f"{size} × {size} positions here"
            )
            raise InputError(msg)
        return EdgeSet("the edges of a mask", (_Mask(array),))

    # -- names

    def _places(self, side: str, given: Any) -> Iterator[int]:
        for place in given:
            if isinstance(place, str):
                yield from self._named(side, place)
            else:
                yield self.tokens.position(place, side)

    def _named(self, side: str, name: str) -> tuple[int, ...]:
        """The positions of a part, a token, a word or a stretch of the text."""
        for part in self.parts:
            if part.name == name:
                return (
                    self.writes if part.role == "answer" and side == "queries" else part.positions
                )
        try:
            return (self.tokens.position(name, side),)
        except InputError:
            found = self._word(name) or self._stretch(name)
            if not found:
                raise
            return found

    def _word(self, name: str) -> tuple[int, ...]:
        """The tokens of a word that occurs once."""
        words = words_of_tokens(self.tokens.word_ids, self.tokens.word_texts)
        folded = [None if word is None else word.casefold() for word in words]
        places = [at for at, word in enumerate(folded) if word == name.casefold()]
        numbers = {(self.tokens.word_ids or ())[at] for at in places}
        return tuple(places) if len(numbers) == 1 else ()

    def _stretch(self, name: str) -> tuple[int, ...]:
        """The tokens of a stretch of the input's text that occurs once."""
        text, spans = self.tokens.text, self.tokens.spans
        start = text.find(name.strip())
        if spans is None or start < 0 or text.find(name.strip(), start + 1) >= 0:
            return ()
        end = start + len(name.strip())
        segments = self.tokens.segments or ("text",) * len(self.tokens)
        return tuple(
            at
            for at, (first, last) in enumerate(spans)
            if segments[at] not in ("target", "answer") and first < end and start < last
        )

    # -- labels

    def _name(self, at: int) -> str:
        return f"“{self.tokens.names[at]}”" if at < len(self.tokens) else "the logit"

    def _names(self, given: Any) -> str:
        names = [f"“{each}”" if isinstance(each, str) else self._name(each) for each in given]
        more = len(names) - NAMED
        return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")

    def _describe(self, given: Edges, block: _Block) -> str:
        what = "all attention"
        if given.keys is not None or given.queries is not None:
            hidden = "everything else" if given.keys is None else self._names(given.keys)
            readers = "" if given.queries is None else f" from {self._names(given.queries)}"
            what = f"{hidden} hidden{readers}"
        if given.layers is not None:
            several = len(block.layers) > 1
            what += f" in layer{'s' if several else ''} {_ranges(block.layers)}"
        if block.heads is not None:
            what += f", head{'s' if len(block.heads) > 1 else ''} {_ranges(block.heads)}"
        if given.own is not None:
            what += ", own edges too" if given.own else ", but for own edges"
        return what


def _is_single(given: Any) -> bool:
    """Whether this is one edge: (layer, query, key) or (layer, query, key, head)."""
    if not isinstance(given, tuple) or len(given) not in (3, 4):
        return False
    layer, query, key, *head = given
    places = all(isinstance(each, str) or is_integer(each) for each in (query, key))
    return is_integer(layer) and places and all(map(is_integer, head))


def _count(number: int) -> str:
    return "1 edge" if number == 1 else f"{number:,} edges"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers with those that follow each other joined.

    >>> _ranges([1, 3, 4, 5])
    '1, 3–5'
    """
    runs: list[list[int]] = []
    for each in sorted(set(numbers)):
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in runs)
