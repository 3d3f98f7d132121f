"""What becomes of a layer's output without the value vector of each position.

While the network runs once, each of its layers is run again for every position that it attends to,
with this position's value vector set to zero in all heads. Everything else of the layer is as it
was. Several positions run together, in a batch of copies of one input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.mode import PRODUCTS, Capture, with_operand
from attnflow.models.capture.probabilities import FusedCall
from attnflow.models.capture.run import called
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.layers import given_states, layers_of, made_states, with_states

BATCH_BYTES = 1 << 28  # what a layer's activations of all copies may take, about
SAME = 1e-5  # of the largest number, in float32

Sizes = Sequence[Sequence[tuple[int, int]]]  # queries and keys of each layer's attentions
Progress = Callable[[float], None]  # takes the share of the work that is done


class WithoutValues(Capture):
    """A context in which item m of a batch reads nothing at ``positions[m]``.

    That is so at the attention call of number ``site``, counted from 1; ``None`` are all positions.
    A position without its value and one that no position reads give the same output.
    """

    def __init__(self, site: int, positions: Tensor | None, batch: int) -> None:
        super().__init__(CaptureSpec(layers=()), batch)
        self.site = site
        self.positions = positions

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Change what multiplies values; leave all other calls as they are."""
        if self._is_next and (func in PRODUCTS or func is torch.einsum):
            tracked = self._tracked(func, args)
            if tracked is not None:
                hidden = self._hide(tracked, -1)
                _, root, sink = self._softmaxes[id(tracked)]
                self._softmaxes[id(hidden)] = (hidden, root, sink)
                args = with_operand(args, tracked, hidden)
        return super().__torch_function__(func, types, args, kwargs)

    def _fused_kernel(self, call: FusedCall) -> Tensor:
        value = self._hide(call.value, -2) if self._is_next else call.value
        return super()._fused_kernel(call._replace(value=value))

    @property
    def _is_next(self) -> bool:
        return self._calls + 1 == self.site

    def _hide(self, tensor: Tensor, axis: int) -> Tensor:
        """The tensor, its items first (or flattened with heads), with zeros along an axis."""
        if self.positions is None:
            return torch.zeros_like(tensor)
        whole = self._four_axes(tensor)
        if whole.shape[0] != self.batch:
            msg = "attention whose items are not its first axis can't be run without single values"
            raise ModelError(msg)
        keep = torch.ones(self.batch, whole.shape[axis], dtype=whole.dtype, device=whole.device)
        keep[torch.arange(self.batch), self.positions] = 0
        shape = [1] * whole.dim()
        shape[0], shape[axis] = keep.shape
        return (whole * keep.reshape(shape)).reshape(tensor.shape)


class _Finished(Exception):  # noqa: N818 - no error: the last layer has run, and heads are not needed
    pass


class _Measurement:
    """The distances of all layers, in the order in which they run."""

    def __init__(self, network: Any, sizes: Sizes, batch: int, progress: Progress | None) -> None:
        self.name = type(network).__name__
        self.sizes = sizes
        self.batch = batch
        self.found: list[list[Tensor]] = []
        self.progress = progress
        self.done = 0
        self.total = sum(-(-keys // batch) for layer in sizes for _, keys in layer)

    def run(self, forward: Forward, args: Any, kwargs: Any) -> Any:
        """One call of a layer, and how its output changes without each value."""
        output = forward(*args, **kwargs)
        plain = made_states(output)
        layer = [
            self._distances(forward, args, kwargs, plain, site, size)
            for site, size in enumerate(self.sizes[len(self.found)], start=1)
        ]
        self.found.append(layer)
        if len(self.found) == len(self.sizes):
            raise _Finished
        return output

    def _distances(
        self, forward: Forward, args: Any, kwargs: Any, plain: Any, site: int, size: tuple[int, int]
    ) -> Tensor:
        def again(
            positions: Tensor | None, site: int = site, args: Any = args, kwargs: Any = kwargs
        ) -> Tensor:
            with WithoutValues(site, positions, self.batch):
                states = made_states(forward(*args, **kwargs))
            assert states is not None  # which `layers_of` saw
            return states

        def on_others() -> Tensor:
            """What is left without values of states that are others than those given."""
            states = given_states(args, kwargs)
            assert states is not None  # as above
            rolled = states.roll(1, -1)
            others, named = with_states(args, kwargs, states, rolled)
            return again(None, args=others, kwargs=named)

        if tuple(plain.shape[:2]) != (self.batch, size[0]):
            msg = f"the layers of {self.name} make states of {tuple(plain.shape)}, not of positions"
            raise ModelError(msg)
        self._check(plain, again(None, 0), again(None), on_others)
        found = torch.empty(size, dtype=torch.float64)
        for positions in _batches(size[1], self.batch):
            apart = cosine_distance(plain, again(positions))
            found[:, positions] = apart.T.cpu()  # a position that fills a batch up is there twice
            self.done += 1
            if self.progress is not None:
                self.progress(self.done / self.total)
        return found

    def _check(
        self, plain: Tensor, same: Tensor, empty: Tensor, on_others: Callable[[], Tensor]
    ) -> None:
        """Refuse layers that run differently a second time, or that have no residual stream.

        Without values, such a layer gives the same at all positions. So does one of a text of the
        same token all over, where a layer begins with the same states; its stream shows where it is
        given others.
        """
        limit = max(SAME, 16 * torch.finfo(plain.dtype).eps) * float(plain.abs().max())
        if float((plain - same).abs().max()) > limit:
            msg = f"a layer of {self.name}, run again on the same states, gives others"
            raise ModelError(msg)
        apart = float((empty[:1] - empty[:1, :1]).abs().max())
        moved = plain.shape[1] > 1 and float((plain - empty).abs().max()) > limit
        if moved and apart <= limit and float((on_others() - empty).abs().max()) <= limit:
            msg = f"the layers of {self.name} were not found: without values nothing is left"
            raise ModelError(msg)


def measure_zeroing(
    network: Any,
    inputs: dict[str, Any],
    attention: Sequence[Sequence[Tensor]],
    progress: Progress | None = None,
) -> list[list[Tensor]]:
    """For each layer and each of its attentions the distances ``[query, key]`` of one input.

    ``inputs`` are those of one item, with a batch axis; ``attention`` is what each layer's
    attentions were, ``[head, query, key]``: what a position does not see does not move it.
    """
    sizes = [[(each.shape[-2], each.shape[-1]) for each in layer] for layer in attention]
    layers = layers_of(network, inputs, [len(each) for each in sizes])
    if not layers.items_first:
        msg = (
            f"the layers of {type(network).__name__} have positions before items: they can't be "
            "run in batches"
        )
        raise ModelError(msg)
    batch = _batch_size(attention, layers.width)
    measured = _Measurement(network, sizes, batch, progress)

    def watch(name: str, forward: Forward) -> Forward:
        if name not in layers.names:
            return forward
        return lambda *args, **kwargs: measured.run(forward, args, kwargs)

    copies = {
        name: each.repeat(batch, *[1] * (each.dim() - 1)) if isinstance(each, Tensor) else each
        for name, each in inputs.items()
    }
    try:
        with torch.no_grad():
            called(copied(network, watch), copies)
    except _Finished:
        pairs = zip(measured.found, attention, strict=True)
        return [
            [moved * (seen > 0).any(0) for moved, seen in zip(*layer, strict=True)]
            for layer in pairs
        ]
    msg = f"{len(measured.found)} layers of {measured.name} ran; {len(sizes)} were expected"
    raise ModelError(msg)


def cosine_distance(first: Tensor, second: Tensor) -> Tensor:
    """1 − cos of vectors along the last axis, without the loss of nearly equal ones."""
    first, second = (
        torch.nn.functional.normalize(each.double(), dim=-1) for each in (first, second)
    )
    return (first - second).square().sum(-1) / 2


def _batch_size(attention: Sequence[Sequence[Tensor]], width: int) -> int:
    """How many copies run together."""
    each = [maps for layer in attention for maps in layer]
    size = max(maps.shape[-1] for maps in each)
    per_item = 4 * (24 * size * width + 3 * max(maps.numel() for maps in each))
    return max(1, min(size, BATCH_BYTES // per_item))


def _batches(count: int, size: int) -> Iterator[Tensor]:
    """All positions in batches of a size; the last one fills the last batch up."""
    for start in range(0, count, size):
        yield torch.arange(start, start + size).clamp_max(count - 1)
