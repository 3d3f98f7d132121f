"""The two sides of an encoder–decoder as the nodes of one square graph: source, then target.

The nodes of every step are the source positions followed by the target positions. An encoder layer
moves the source and carries the target along; a decoder layer is two steps, self-attention and
cross-attention, which move the target and carry the source along:

    encoder   | W 0 |     decoder self   | I 0 |     cross   | I 0 |
              | 0 I |                    | 0 W |             | C 0 |

The residual that all edges get, (1 − r)·W + r·I, then gives each sub-layer its own residual, and
leaves what is carried along unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import CaptureError, InputError
from attnflow.models.adapter import Aim
from attnflow.models.capture import run as network
from attnflow.models.capture.backward import BackwardCapture
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.relevance import Relevance
from attnflow.models.capture.spec import Site
from attnflow.models.capture.towards import ItemRelevance, read_relevance
from attnflow.models.capture.windows import sees_ahead
from attnflow.records import Activations, AttentionBlock, NotKept, Relevances

Sizes = tuple[int, int]  # of the source or encoder, and of the target or decoder


@dataclass(frozen=True)
class AttentionStep:
    """One step of attention: the positions that it moves, and those that they read."""

    queries: range
    keys: range
    size: int

    @cached_property
    def block(self) -> tuple[Any, ...]:
        """The index of what is between queries and keys among all positions."""
        first, last = self.queries, self.keys
        return ..., slice(first.start, first.stop), slice(last.start, last.stop)

    @property
    def carried(self) -> tuple[int, ...]:
        """The positions that stay as they are."""
        return tuple(at for at in range(self.size) if at not in self.queries)

    @property
    def is_causal(self) -> bool:
        """Whether it is the decoder's attention to what was written so far."""
        return self.queries == self.keys and self.queries.start > 0

    def place(self, block: Tensor) -> Tensor:
        """What is between queries and keys, ``[…, query, key]``, among zeros."""
        whole = block.new_zeros(*block.shape[:-2], self.size, self.size)
        whole[self.block] = block
        return whole

    def place_attention(self, attention: Tensor | NotKept) -> Tensor | NotKept:
        """Attention among the identity of what is carried along."""
        if isinstance(attention, NotKept):
            return replace(attention, shape=(*attention.shape[:-2], self.size, self.size))
        whole = self.place(attention)
        carried = list(self.carried)
        whole[..., carried, carried] = 1
        return whole

    def place_block(self, block: AttentionBlock | None) -> AttentionBlock | None:
        """An attention block: positions of the other side have no values and take nothing."""
        if block is None:
            return None
        return replace(
            block,
            values=self._pad(block.values, self.keys),
            output=self._pad(block.output, self.queries),
            residual=None if block.residual is None else self._pad(block.residual, self.queries),
            row_scale=None if block.row_scale is None else self._pad(block.row_scale, self.queries),
        )

    def _pad(self, rows: Tensor, at: range) -> Tensor:
        whole = rows.new_zeros(*rows.shape[:-2], self.size, rows.shape[-1])
        whole[..., at.start : at.stop, :] = rows
        return whole

    def first(self, block: Tensor) -> Tensor:
        """What is between queries and keys, without the padding after them."""
        return block[..., : len(self.queries), : len(self.keys)]


def make_steps(sizes: Sizes, depths: Sizes) -> list[AttentionStep]:
    """The steps of an encoder, then self- and cross-attention of every decoder layer."""
    source, size = sizes[0], sum(sizes)
    left, right = range(source), range(source, size)
    own, cross = AttentionStep(right, right, size), AttentionStep(right, left, size)
    return [AttentionStep(left, left, size)] * depths[0] + [own, cross] * depths[1]


def check_sites(sites: Sequence[Site], sizes: Sizes, depths: Sizes, net: Any) -> None:
    """Refuse what is not encoder, then decoder and cross-attention by turns."""
    network.expect(sites, None, None, net)
    encoder, decoder = depths
    if len(sites) != encoder + 2 * decoder:
        msg = (
            f"{len(sites)} attention maps were seen; {encoder} encoder layers and twice "
            f"{decoder} decoder layers were expected of {type(net).__name__}"
        )
        raise CaptureError(msg)
    for site, step in zip(sites, make_steps(sizes, depths), strict=True):
        network.expect([site], None, (len(step.queries), len(step.keys)), net)


def pair_activations(
    capture: Capture, item: int, sizes: Sizes, depths: Sizes, net: Any, name: str
) -> Activations:
    """One item's activations: the sides that each step joins, in their places."""
    steps, (encoder, decoder) = make_steps(sizes, depths), depths
    maps, blocks = [], []
    for site, step in zip(capture.sites, steps, strict=True):
        lengths = (len(step.queries), len(step.keys))
        attention = network.cut(site, item, *lengths)
        if step.is_causal:
            _check_causal(attention, net)
        maps.append(step.place_attention(attention))
        if capture.spec.blocks:
            block = network.cut_block(site, item, capture.batch, *lengths)
            blocks.append(step.place_block(block))
    return Activations(
        tuple(maps),
        ends=(*range(1, encoder + 1), *range(encoder + 2, encoder + 2 * decoder + 1, 2)),
        blocks=tuple(blocks) if capture.spec.blocks else None,
        source=sizes[0],
        carried=tuple(step.carried for step in steps),
        calls=tuple(site.call for site in capture.sites),
        model=name,
    )


def _check_causal(attention: Tensor | NotKept, net: Any) -> None:
    """Refuse a decoder that saw what it was to predict."""
    if sees_ahead(attention):
        msg = (
            f"the decoder of {type(net).__name__} attends to later positions of the answer: it "
            "runs without its causal mask, and predicts what it already sees"
        )
        raise CaptureError(msg)


def add_edges(
    passes: Sequence[Activations],
    capture: Capture,
    output: Any,
    aims: Sequence[Aim],
    *,
    keep: bool = False,
) -> list[Activations]:
    """The activations of a batch with all that depends on its targets.

    With ``keep`` the tape stays, for other targets.
    """
    tape = capture.output if isinstance(capture, BackwardCapture) else output
    if isinstance(capture, Relevance):
        items = read_relevance(capture, output, aims, passes[0].model, keep=keep)
        return [
            replace(each, relevance=_relevances(each, capture.reading.maps(at), items[at]))
            for at, each in enumerate(passes)
        ]
    total = torch.stack([aim.value(tape) for aim in aims]).sum()
    if isinstance(capture, BackwardCapture):
        capture.reading.backward(total, len(capture.sites), keep=keep)
        return [
            replace(each, removal=_placed(each, capture.reading.maps(at)))
            for at, each in enumerate(passes)
        ]
    gradients = [each.detach().cpu() for each in capture.gradients(total, keep=keep)]
    found = []
    for item, each in enumerate(passes):
        steps = zip(gradients, steps_of(each), strict=True)
        placed = tuple(step.place(step.first(gradient[item])) for gradient, step in steps)
        found.append(replace(each, gradients=placed))
    return found


def _placed(seen: Activations, maps: Sequence[Tensor]) -> Tensor:
    """Maps of the sides that each step joins, in their places: ``[step, …, query, key]``."""
    steps, device = steps_of(seen), maps[0].device
    heads = sorted({int(each.shape[0]) for each in maps if each.ndim == 3})
    if len(heads) > 1:
        msg = (
            "single heads need the same number of heads in all layers; here they have "
            f"{' and '.join(map(str, heads))}. Use heads='mean'"
        )
        raise InputError(msg)
    pairs = zip(steps, maps, strict=True)
    return torch.stack([step.place(step.first(each).to(device)) for step, each in pairs])


def _relevances(seen: Activations, maps: Sequence[Tensor], own: ItemRelevance) -> Relevances:
    placed, source = _placed(seen, maps), seen.source or 0
    left, right = own.inputs
    inputs = torch.cat([left[:source], right[: placed.shape[-1] - source].to(left.device)])
    streams = _streams(seen, placed, own.streams)
    return Relevances(placed, inputs, own.value, own.gap, streams)


def _streams(seen: Activations, maps: Tensor, found: Sequence[Tensor]) -> Tensor | None:
    """The relevance of all nodes of the graph, of what layers read and made.

    What is between the two steps of a decoder layer is not made by a module: what its biases absorb
    is counted below. A side that is carried along keeps what it has; the source has what later
    steps took from it.
    """
    source, size = seen.source or 0, int(maps.shape[-1])
    decoder = len(maps) - len(seen.steps)
    encoder = len(maps) - 2 * decoder
    if len(found) != encoder + decoder + 2:
        return None
    edges = maps if maps.dim() == 3 else maps.sum(1)
    streams = edges.new_zeros(len(maps) + 1, size)
    left, right = found[: encoder + 1], found[encoder + 1 :]
    for step in range(encoder + 1):
        streams[step, :source] = left[step][:source]
        streams[step, source:] = right[0][: size - source]
    for step in range(len(maps), encoder, -1):
        layer, within = divmod(step - encoder, 2)
        streams[step, :source] = edges[step:, source:, :source].sum((0, 1))
        states = right[layer + within][: size - source]
        taken = edges[step, source:].sum(-1) if within else 0
        streams[step, source:] = states - taken
    return streams


def add_zeroed(
    seen: Activations, measure: Callable[[list[list[Tensor]]], list[list[Tensor]]]
) -> Activations:
    """With the distances that ``measure`` finds, given what each layer attended to.

    A decoder layer is measured as a whole, by its values of both sides, in its second step; the
    first carries all positions along.
    """
    steps = steps_of(seen)
    maps = [each[step.block] for step, each in zip(steps, seen.attention, strict=True)]
    starts = [0, *seen.steps[:-1]]
    layers = list(zip(starts, seen.steps, strict=True))
    found = measure([maps[first:last] for first, last in layers])
    carried, zeroed = [step.carried for step in steps], []
    for (first, last), parts in zip(layers, found, strict=True):
        placed = [step.place(each) for step, each in zip(steps[first:last], parts, strict=True)]
        for at in range(first, last - 1):
            carried[at] = tuple(range(steps[at].size))
            zeroed.append(torch.zeros_like(placed[0]))
        zeroed.append(torch.stack(placed).sum(0))
    return replace(seen, zeroed=tuple(zeroed), carried=tuple(carried))


def steps_of(seen: Activations) -> list[AttentionStep]:
    """The steps of activations: of one sequence, all positions read all; of two, by side."""
    source, size = seen.source, int(seen.attention[0].shape[-1])
    if source is None:
        return [AttentionStep(range(size), range(size), size)] * len(seen.attention)
    decoder = len(seen.attention) - len(seen.steps)
    return make_steps((source, size - source), (len(seen.steps) - decoder, decoder))
