"""Edges that the backward pass adds up, some rows at a time.

A fused kernel shows no probabilities, and those of all heads and layers fit into no memory for long
inputs. So attention runs as it does, and its backward pass computes the probabilities again, for a
block of rows at a time, and adds the block's edges to one map for all heads:

    relevance   R_ij = Σ_h A_hij · (∂t/∂o_hi · v_hj), the weights held fixed: no gradient by scores
    removal     K_ij = Σ_h A_hij / (1 − A_hij) · (∇A_hij − Σ_k A_hik ∇A_hik), ordinary gradients

`BackwardCapture` recognises attention as `Capture` does, and puts `Attend` or `Weigh` in its place;
on a GPU `Beside` reads the edges of a fused kernel, by kernels of its own (`kernels`).
`EdgeReading` holds what is added up. It has no reference to the tape, so that no cycle keeps one
alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.capture import kernels
from attnflow.models.capture.mode import PRODUCTS, SOFTMAX, Capture, operands_of
from attnflow.models.capture.probabilities import (
    FusedCall,
    for_each_head,
    probabilities_of,
    wide_product,
)
from attnflow.models.capture.spec import CaptureSpec, Site
from attnflow.records import NotKept
from attnflow.records.layers import DeviceLayers

LARGE = 1 << 27  # bytes of maps on a GPU from which on each is made when it is added to
BLOCK = {"cpu": 1 << 21, "cuda": 1 << 25}  # entries of [batch, head, row, key] held at a time
# Where a position reads a single key, nothing is left to read without it: costs are capped there.
LEAST_REST = 1e-3


class Place:
    """Where the edges of one call of attention are added up."""

    def __init__(self, reading: EdgeReading, number: int) -> None:
        self._reading = reading
        self._number = number

    @property
    def map(self) -> Tensor | None:
        """``[batch, query, key]`` or ``[batch, head, query, key]``, once a backward pass began.

        ``None`` where nothing is kept: the attention of a head that pools is not a layer.
        """
        return self._reading.map_of(self._number)

    def add(self, rows: slice, edges: Tensor) -> None:
        """Add the edges ``[batch, head, row, key]`` of some rows."""
        into = self.map
        if into is not None:
            # Some models have one axis for items and heads.
            edges = edges.reshape(len(into), -1, *edges.shape[-2:])
            kept = edges if into.dim() == edges.dim() else edges.sum(1)
            into[..., rows, : kept.shape[-1]] += kept


class EdgeReading:
    """What the backward pass of one run adds up.

    Attributes:
        batch: How many items run together.
        heads: Whether maps are kept for every head.
        inputs: What comes in, ``[batch, position, dimension]``, leaves of the tape: the word
            embeddings of each table, or the states that the first layer reads.
        added: Leaves that are added on the way, such as biases.
        streams: The relevance of the residual stream, ``[batch, position]``, by its number.
    """

    def __init__(self, batch: int, *, heads: bool) -> None:
        self.batch = batch
        self.heads = heads
        self.inputs: dict[int, Tensor] = {}
        self.added: list[Tensor] = []
        self.streams: dict[int, Tensor] = {}
        self._followed = 0
        self._held: dict[int, Tensor] = {}  # states that are followed, until they are noted
        self._keep = False  # whether there will be another backward pass
        self._shapes: list[tuple[tuple[int, ...], torch.dtype, torch.device]] = []
        self._maps: list[Tensor | None] = []

    def place(self, heads: int, queries: int, keys: int, like: Tensor) -> Place:
        """A place for another call of attention."""
        shape = (self.batch, *((heads,) if self.heads else ()), queries, keys)
        dtype = torch.promote_types(like.dtype, torch.float32)
        self._shapes.append((shape, dtype, like.device))
        return Place(self, len(self._shapes) - 1)

    def map_of(self, number: int) -> Tensor | None:
        """The map of a call of attention, while and after a backward pass runs."""
        if number >= len(self._maps):
            return None
        made = self._maps[number]
        if made is None:
            shape, dtype, device = self._shapes[number]
            made = self._maps[number] = torch.zeros(shape, dtype=dtype, device=device)
        return made

    def follow(self, states: Tensor | None, *, items_first: bool) -> None:
        """Note the relevance of states of the residual stream, when it is known."""
        number = self._followed
        self._followed += 1
        if states is None or not states.requires_grad:
            return
        self._held[number] = states.detach()
        version = states._version

        def note(gradient: Tensor) -> None:
            held = self._held[number] if self._keep else self._held.pop(number)
            if held._version == version:  # else the model has changed them in place since
                dtype = torch.promote_types(held.dtype, torch.float32)
                found = (held.to(dtype) * gradient.to(dtype)).sum(-1)
                self.streams[number] = found if items_first else found.T

        states.register_hook(note)

    def all_streams(self) -> list[Tensor]:
        """The relevance of all states of the residual stream; empty where one is missing."""
        if len(self.streams) < self._followed:
            return []
        return [self.streams[number] for number in range(self._followed)]

    @property
    def leaves(self) -> list[Tensor]:
        """What comes in, by its number."""
        return [self.inputs[number] for number in sorted(self.inputs)]

    def backward(self, target: Tensor, count: int, *, keep: bool) -> list[Tensor | None]:
        """Differentiate a scalar: adds up the edges of the first ``count`` calls of attention.

        Gives the gradients by the inputs and by what was added. With ``keep`` the tape stays, for
        another scalar.
        """
        self.streams.clear()
        self._keep = keep
        shapes = self._shapes[:count]
        self._maps = [None] * count
        if len(set(shapes)) == 1 and not self._are_large(shapes):
            # One array, so that layers need not be copied into one.
            shape, dtype, device = shapes[0]
            self._maps = list(torch.zeros(count, *shape, dtype=dtype, device=device))
        leaves = [*self.leaves, *self.added]
        found = torch.autograd.grad(target, leaves, allow_unused=True, retain_graph=keep)
        return list(found)

    def maps(self, item: int) -> list[Tensor]:
        """The maps of one item, ``[query, key]`` or ``[head, query, key]``."""
        made = [self.map_of(number) for number in range(len(self._maps))]
        return [each[item] for each in made if each is not None]

    def stacked(self, item: int, size: int) -> Tensor | DeviceLayers:
        """The maps of one item whose layers have one size, as one array ``[step, …]``."""
        maps = [each[..., :size, :size] for each in self.maps(item)]
        first = self._maps[0]
        whole = None if first is None else first._base
        if whole is not None and len(whole) == len(maps):
            return whole[:, item, ..., :size, :size]
        if self._are_large(self._shapes[: len(maps)]):
            return DeviceLayers(maps)
        return torch.stack([each.to(maps[0].device) for each in maps])

    def _are_large(self, shapes: Sequence[Any]) -> bool:
        """Whether maps take memory only when they are added to, which the tape has given back."""
        there = len({device for *_, device in shapes}) == 1 and shapes[0][2].type != "cpu"
        return there and not self.heads and sum(4 * prod(shape) for shape, *_ in shapes) > LARGE


class Attend(torch.autograd.Function):
    """A fused kernel, with probabilities only in its backward pass; nothing is dropped out."""

    @staticmethod
    def forward(  # noqa: PLR0913 - the arguments of torch's own function, and what is read
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float | None,
        fixed: bool,
        place: Place,
    ) -> Tensor:
        """The kernel's own output."""
        ctx.save_for_backward(query, key, value, mask)
        ctx.causal, ctx.scale, ctx.fixed, ctx.place = causal, scale, fixed, place
        grouped = key.size(-3) != query.size(-3)
        return FusedCall(query, key, value, mask, 0.0, causal, scale, grouped).run()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients by values, and by queries and keys where weights are not fixed."""
        query, shared_key, shared_value, mask = ctx.saved_tensors
        (given,) = outputs
        key, value = for_each_head(query, shared_key, shared_value)
        wide = torch.promote_types(query.dtype, torch.float32)
        scale = query.size(-1) ** -0.5 if ctx.scale is None else ctx.scale
        to_value = torch.zeros(value.shape, dtype=wide, device=value.device)
        to_query, to_key = (
            None if ctx.fixed else torch.zeros(each.shape, dtype=wide, device=each.device)
            for each in (query, key)
        )
        for rows, seen, weights, by_weights in _in_blocks(ctx, query, key, value, mask, given):
            half = weights.to(value.dtype)
            to_value[seen] += wide_product(half.transpose(-1, -2), given[..., rows, :])
            if to_query is None or to_key is None:
                ctx.place.add(rows, by_weights.mul_(weights))
                continue
            by_scores = gradient_of_scores(weights, by_weights)
            narrow = by_scores.to(key.dtype)
            to_query[..., rows, :] = wide_product(narrow, key[seen]) * scale
            to_key[seen] += wide_product(narrow.transpose(-1, -2), query[..., rows, :]) * scale
            ctx.place.add(rows, cost_of_removal(weights, by_scores))
        return (
            None if to_query is None else to_query.to(query.dtype),
            None if to_key is None else _for_groups(to_key, shared_key),
            _for_groups(to_value, shared_value),
            *[None] * 5,
        )


class Beside(torch.autograd.Function):
    """What a fused kernel gave, which is differentiated by torch; its edges are read on a GPU."""

    @staticmethod
    def forward(  # noqa: PLR0913 - the arguments of torch's own function, and what is read
        ctx: Any,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float | None,
        fixed: bool,
        place: Place,
    ) -> Tensor:
        """The output, unchanged."""
        ctx.save_for_backward(query, key, value, mask)
        ctx.causal, ctx.scale, ctx.fixed, ctx.place = causal, scale, fixed, place
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradient, unchanged."""
        query, key, value, mask = ctx.saved_tensors
        (given,) = outputs
        into = ctx.place.map
        if into is not None and not kernels.add_edges(
            *(into, query, key, value, given, mask),
            causal=ctx.causal,
            scale=query.size(-1) ** -0.5 if ctx.scale is None else ctx.scale,
            least_rest=None if ctx.fixed else LEAST_REST,
        ):
            key, value = for_each_head(query, key, value)
            for rows, _, weights, by_weights in _in_blocks(ctx, query, key, value, mask, given):
                if ctx.fixed:
                    ctx.place.add(rows, by_weights.mul_(weights))
                else:
                    by_scores = gradient_of_scores(weights, by_weights)
                    ctx.place.add(rows, cost_of_removal(weights, by_scores))
        return given, *[None] * 8


class Weigh(torch.autograd.Function):
    """A product of probabilities and values, which records its edges in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: Tensor,
        value: Tensor,
        product: Callable[[Tensor, Tensor], Tensor],
        fixed: bool,
        place: Place,
    ) -> Tensor:
        """The product."""
        ctx.save_for_backward(weights, value)
        ctx.product, ctx.fixed, ctx.place = product, fixed, place
        return product(weights, value)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> Any:
        """The gradients by values, and by the weights where they are not fixed."""
        held = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad():
            made = ctx.product(*held)
        by_weights, by_values = torch.autograd.grad(made, held, outputs)
        wide = torch.promote_types(by_weights.dtype, torch.float32)
        weights, gradient = held[0].detach().to(wide), by_weights.to(wide)
        if ctx.fixed:
            ctx.place.add(slice(None), weights * gradient)
            return None, by_values, None, None, None
        by_scores = gradient_of_scores(weights, gradient)
        ctx.place.add(slice(None), cost_of_removal(weights, by_scores))
        return by_weights, by_values, None, None, None


def gradient_of_scores(weights: Tensor, gradient: Tensor) -> Tensor:
    """Through a softmax: A ⊙ (∇A − Σ A ∇A)."""
    return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))


def cost_of_removal(weights: Tensor, by_scores: Tensor) -> Tensor:
    """What the target loses, to first order, without an edge, the rest of its row made to sum to 1.

    Without j the others become A_k / (1 − A_j), and the target changes by
    −A_j / (1 − A_j) · (∇A_j − Σ A ∇A).
    """
    return by_scores / (1 - weights).clamp_min(LEAST_REST)


def _in_blocks(
    ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, given: Tensor
) -> Iterator[tuple[slice, Any, Tensor, Tensor]]:
    """Some rows at a time: which, what they see, their weights, and the gradient by these.

    Keys and values have all heads; ``given`` is the gradient by the output.
    """
    count, size = query.size(-2), key.size(-2)
    row = query.numel() // (count * query.size(-1)) * size
    step = max(1, BLOCK.get(query.device.type, BLOCK["cpu"]) // max(1, row))
    for start in range(0, count, step):
        rows = slice(start, min(start + step, count))
        stop = min(rows.stop, size) if ctx.causal and mask is None else size
        seen = (..., slice(0, stop), slice(None))
        places = range(rows.start, rows.stop)
        weights = probabilities_of(query, key[seen], mask, ctx.causal, ctx.scale, places)
        by_weights = wide_product(given[..., rows, :], value[seen].transpose(-1, -2))
        yield rows, seen, weights, by_weights


def _for_groups(gradient: Tensor, shared: Tensor) -> Tensor:
    """The gradient by keys or values that several heads share."""
    groups = shared.size(-3)
    if gradient.size(-3) != groups:
        gradient = gradient.unflatten(-3, (groups, -1)).sum(-3)
    return gradient.to(shared.dtype)


class WordTable:
    """A table of word embeddings, and the words of a batch that are looked up in it.

    ``number`` is that of the words among all that comes in.
    """

    def __init__(self, module: Any, ids: Tensor, number: int) -> None:
        check_table(module, ids)
        self.module = module
        self.ids = ids
        self.number = number

    def reads(self, ids: Tensor, weight: Any) -> bool | None:
        """Whether these are the words, positions first or not; ``None`` where they are not."""
        # An offloaded table is another tensor whenever the module runs, and maybe elsewhere.
        if weight is not self.module.weight:
            return None
        own = self.ids.to(ids.device)
        if ids.shape == own.shape and torch.equal(ids, own):
            return False
        return True if ids.shape == own.T.shape and torch.equal(ids, own.T) else None


def check_table(module: Any, ids: Tensor) -> None:
    """Refuse a table of word embeddings to which a module in it, such as an adapter, adds more."""
    if not any(True for _ in module.children()):
        return
    with torch.no_grad():
        if not torch.equal(module(ids), F.embedding(ids, module.weight)):
            msg = (
                f"the word embeddings are changed by an adapter ({type(module).__name__}), so that "
                "they can't be read as one table: merge it first (model.merge_and_unload() in peft)"
            )
            raise ModelError(msg)


class BackwardCapture(Capture):
    """A context in which the backward pass of any model that runs in this thread adds up edges.

    They are added up where the spec requests it. Word embeddings are leaves of the tape.
    ``output`` is for what the model returned.
    """

    fixed = False  # whether no gradient goes through attention weights

    def __init__(
        self, spec: CaptureSpec | None = None, batch: int = 1, tables: Sequence[WordTable] = ()
    ) -> None:
        super().__init__(spec, batch)
        self.reading = EdgeReading(batch, heads=self.spec.heads)
        self.tables = tables
        self.output: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer one call of torch; the mode is off inside."""
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._fused_kernel(FusedCall.of(*args, **kwargs))
        if func is F.multi_head_attention_forward:
            return self._multi_head_attention(func, args, kwargs)
        if func is F.embedding:
            return self._embedding(*args, **kwargs)
        if self._softmaxes and (func in PRODUCTS or func is torch.einsum):
            tracked = self._tracked(func, args)
            if tracked is not None:
                return self._weigh(func, args, kwargs, tracked)
        result = self._answer(func, args, kwargs)
        if func in SOFTMAX:
            self._softmax(result)
        elif self._softmaxes:
            self._follow(func, args, result)
        return result

    def _answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Any other call."""
        return func(*args, **kwargs)

    def _embedding(self, ids: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found = F.embedding(ids, weight.detach(), *args, **kwargs)
        matches = [(each.number, each.reads(ids, weight)) for each in self.tables]
        matches = [(number, turned) for number, turned in matches if turned is not None]
        if not matches:
            return found
        # The two sides of an encoder–decoder may have the same words, each its own.
        left = [each for each in matches if each[0] not in self.reading.inputs]
        if not left:
            msg = "a model that looks its word embeddings up twice can't be explained by relevance"
            raise ModelError(msg)
        number, turned = left[0]
        leaf = (found.transpose(0, 1) if turned else found).detach().requires_grad_()
        self.reading.inputs[number] = leaf
        # Not the leaf itself: some models add in place.
        return (leaf.transpose(0, 1) if turned else leaf).clone()

    def _weigh(self, func: Any, args: Any, kwargs: Any, weights: Tensor) -> Tensor:
        """A product of what came from a softmax, and values."""
        factors = operands_of(args) if func is torch.einsum else args[1:]
        value = next((each for each in factors if each is not weights), None)
        _, root, sink = self._softmaxes[id(weights)]
        self._softmaxes.clear()
        if not self.spec.reads_backward:
            return func(*args, **kwargs)
        maps = self._four_axes(weights.detach())
        sums = self._four_axes(root.detach()).to(torch.float32).sum(-1)
        ahead = tuple(bool(each) for each in (maps != 0).any(1).triu(1).any(-1).any(-1))
        place = self._place(maps.shape, weights, sums=sums, ahead=ahead, sink=sink)
        if value is None:
            return func(*args, **kwargs)

        def product(first: Tensor, second: Tensor) -> Tensor:
            given = {id(weights): first, id(value): second}
            return func(*_replaced(args, given), **kwargs)

        return Weigh.apply(weights, value, product, self.fixed, place)

    def _fused_kernel(self, call: FusedCall) -> Tensor:
        call = call._replace(dropout=0.0)
        if self.fixed:
            call = call._replace(query=call.query.detach(), key=call.key.detach())
        query, key, value, mask, _, causal, scale, _ = call
        if not self.spec.reads_backward:
            return call.run()
        # On a GPU kernels read the edges beside torch's own; elsewhere `Attend` does it all.
        output = call.run() if kernels.can_run(query, key, value, mask) else None
        shape = self._four_axes(query).shape[:3] + key.shape[-2:-1]
        ahead = _sees_ahead(mask, causal=causal, size=shape[-2:])
        ahead = ahead * self.batch if len(ahead) == 1 else ahead
        place = self._place(shape, query, sums=None, ahead=ahead)
        rest = (query, key, value, mask, causal, scale, self.fixed, place)
        if output is None:
            return Attend.apply(*rest)
        held = (each.detach() if isinstance(each, Tensor) else each for each in rest)
        return Beside.apply(output, *held)

    def _place(
        self,
        shape: Any,
        like: Tensor,
        *,
        sums: Tensor | None,
        ahead: tuple[bool, ...],
        sink: bool = False,
    ) -> Place:
        """Note a call of attention ``[batch, head, query, key]``."""
        batch, heads, queries, keys = shape
        place = self.reading.place(heads, queries, keys, like)
        held = NotKept((batch, *((heads,) if self.spec.heads else ()), queries, keys), any(ahead))
        rows = torch.ones(batch, 1, queries) if sums is None else sums
        self.sites.append(Site(held, rows, like.dtype, sink=sink, ahead=ahead))
        return place


def _sees_ahead(mask: Tensor | None, *, causal: bool, size: Any) -> tuple[bool, ...]:
    """Whether positions read later ones: of all items alike, or of each."""
    if mask is None:
        return (not causal and size[-1] > 1,)
    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    seen = seen.expand(*seen.shape[:-2], *size)
    seen = seen.reshape(-1, *seen.shape[-3:]) if seen.dim() > 2 else seen[None, None]
    return tuple(bool(each) for each in seen.any(1).triu(1).any(-1).any(-1))


def _replaced(args: Any, given: dict[int, Tensor]) -> Any:
    """Arguments with some of their tensors replaced, which may stand in a list."""
    return tuple(
        _replaced(each, given) if isinstance(each, list | tuple) else given.get(id(each), each)
        for each in args
    )
