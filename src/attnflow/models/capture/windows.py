"""Attention in windows: held by what is not 0, and read where a model shows no product of it.

Longformer (with LED's encoder) and BigBird multiply values by pieces of their probabilities, moved
and cut, so that no call of torch shows a map. Their attention modules return the probabilities
themselves, and these are put where they belong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import CaptureError
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.spec import CaptureSpec
from attnflow.records import NotKept
from attnflow.records.sparse import SparseLayer

LEAST_TOKENS = 1024  # fewer are dense: there is nothing to gain
MOST_FILLED = 0.4  # the share of entries that are not 0; of all before a position, it is one half

Layer = Tensor | SparseLayer | NotKept
# From [batch, head, query, key] in any precision: heads fused, and what the rows summed to.
Finish = Callable[[Tensor], tuple[Tensor, Tensor]]
Read = Callable[[Finish], tuple[Any, Tensor, Tensor]]
Keep = Callable[[Read, int], Any]
Reader = Callable[[Forward, Any, dict[str, Any], Finish], tuple[Any, Tensor, Tensor]]


def thinned(rows: Tensor, spec: CaptureSpec) -> Layer:
    """One input's map ``[1, query, key]`` by what is not 0, where that is little."""
    size = rows.shape[-1]
    if spec.fuse is None or rows.dim() != 3 or len(rows) > 1 or rows.shape[-2] != size:
        return rows
    if size < LEAST_TOKENS or int(rows.count_nonzero()) > MOST_FILLED * size**2:
        return rows
    return SparseLayer.of(rows[0].detach().cpu().numpy())


def all_alike(layers: Sequence[Any]) -> tuple[Any, ...]:
    """Layers ``[query, key]`` that are all sparse, where most of all entries are 0, or all dense.

    Models may have windows in only some of their layers.
    """
    if not any(isinstance(each, SparseLayer) for each in layers):
        return tuple(layers)
    filled = sum(
        len(each.values) if isinstance(each, SparseLayer) else int(each.count_nonzero())
        for each in layers
    )
    if filled <= MOST_FILLED * len(layers) * layers[0].shape[-1] ** 2:
        return tuple(
            each if isinstance(each, SparseLayer) else SparseLayer.of(each.numpy())
            for each in layers
        )
    return tuple(as_tensor(each) for each in layers)


def as_tensor(layer: Tensor | SparseLayer) -> Tensor:
    """Dense."""
    return torch.from_numpy(layer.__array__()) if isinstance(layer, SparseLayer) else layer


def sees_ahead(layer: Layer) -> bool:
    """Whether a position reads a later one, in ``[…, query, key]``."""
    if isinstance(layer, SparseLayer | NotKept):
        return layer.sees_ahead
    return bool(torch.triu(layer, diagonal=1).any())


def with_windows_read(network: Any, spec: CaptureSpec, width: int, keep: Keep) -> Any:
    """The network; with attention in windows, a copy that gives ``keep`` the maps of each layer.

    The maps are those of the first ``width`` positions: such models fill texts up.
    """

    def instead(reader: Reader, forward: Forward, args: Any, kwargs: dict[str, Any]) -> Any:
        if spec.blocks or spec.towards_target or spec.zeroing:
            msg = (
                f"{type(network).__name__} attends in windows, of which the attention itself can "
                "be read, and no more. Use edges='attention'"
            )
            raise CaptureError(msg)
        return keep(lambda finish: reader(forward, args, kwargs, finish), width)

    return _with_windows(network, instead)


def without_windows(network: Any) -> Any:
    """The network; with attention in windows, a copy in which it gives nothing."""

    def instead(_: Reader, __: Forward, args: Any, kwargs: dict[str, Any]) -> Any:
        states = args[0] if args else kwargs["hidden_states"]
        return torch.zeros_like(states), None

    return _with_windows(network, instead)


def _with_windows(network: Any, instead: Callable[..., Any]) -> Any:
    """The network; with attention in windows, a copy of which these modules do something else."""
    names = {
        f"{type(network).__name__}.{name}": READERS[type(module).__name__]
        for name, module in network.named_modules()
        if type(module).__name__ in READERS
    }

    def watch(name: str, forward: Forward) -> Forward:
        if name not in names:
            return forward
        return lambda *args, **kwargs: instead(names[name], forward, args, kwargs)

    return copied(network, watch) if names else network


def _read_longformer(
    forward: Forward, args: Any, kwargs: dict[str, Any], finish: Finish
) -> tuple[Any, Tensor, Tensor]:
    """What the module returns, its maps, and the sums of their rows.

    A row has its probabilities for global tokens, then for the window around it; rows of global
    tokens themselves are returned apart.
    """
    requested = kwargs.pop("output_attentions", False)
    output = forward(*args, **kwargs, output_attentions=True)
    band, sums = finish(output[1].transpose(1, 2))
    is_global = kwargs["is_index_global_attn"]
    most, size = int(is_global.sum(1).max()), band.shape[-2]
    reach = (band.shape[-1] - most - 1) // 2
    maps = band.new_zeros(*band.shape[:-1], size)
    rows = torch.arange(size, device=band.device)[:, None]
    keys = rows + torch.arange(-reach, reach + 1, device=band.device)
    there = (keys >= 0) & (keys < size)
    maps[..., rows.expand_as(keys)[there], keys[there]] = band[..., most:][..., there]
    if most:
        own, own_sums = finish(output[2])
        for item, places in enumerate(each.nonzero().flatten() for each in is_global):
            count = len(places)
            maps[item][..., places] = band[item][..., :count]
            maps[item][..., places, :] = own[item][..., :count, :]
            sums[item][..., places] = own_sums[item][..., :count]
    return (output if requested else output[:1]), maps, sums


def _read_bigbird(
    forward: Forward, args: Any, kwargs: dict[str, Any], finish: Finish
) -> tuple[Any, Tensor, Tensor]:
    """What the module returns, its maps, and the sums of their rows.

    Outside of training all random blocks are the first one, which the rows in between read as a
    global block already: they read it as many times more as there are such blocks.
    """
    output = forward(*args, **kwargs)
    module: Any = forward.__self__  # type: ignore[attr-defined] # a method
    maps, block = output[1], module.block_size
    if maps is None:
        msg = f"{type(module).__name__} of this version of transformers shows no probabilities"
        raise CaptureError(msg)
    maps[:, :, block:-block, :block] *= 1 + module.num_random_blocks
    return output, *finish(maps)


READERS: dict[str, Reader] = {
    "LongformerSelfAttention": _read_longformer,
    "LEDEncoderSelfAttention": _read_longformer,
    "BigBirdBlockSparseAttention": _read_bigbird,
    "BigBirdPegasusBlockSparseAttention": _read_bigbird,
}
