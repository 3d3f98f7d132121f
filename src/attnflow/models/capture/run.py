"""Running a network once and making records of what it attended to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import CaptureError
from attnflow.models.adapter import Wish
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.sites import Site, Wanted
from attnflow.records import Activations
from attnflow.records.arrays import row_tolerance


@contextmanager
def quiet(network: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) inside; every module's own mode after."""
    training = [module for module in network.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def run(network: torch.nn.Module, inputs: dict[str, Any], wish: Wish) -> tuple[Any, Capture]:
    """Call the network with its attention captured."""
    batch = next(iter(inputs.values())).shape[0]
    wanted = Wanted(fuse=wish.fuse, values=wish.values, gradients=wish.gradients, batch=batch)
    with quiet(network), torch.set_grad_enabled(wish.gradients), Capture(wanted) as capture:
        output = network(**inputs)
    return output, capture


def device_of(network: torch.nn.Module) -> torch.device:
    """Where the first parameter is."""
    return next((p.device for p in network.parameters()), torch.device("cpu"))


def pad(items: Sequence[dict[str, list[int]]], pads: dict[str, int]) -> dict[str, Tensor]:
    """Lists of token numbers as one batch, padded on the right: no position moves."""
    width = max(len(item["input_ids"]) for item in items)
    return {
        name: torch.tensor([i[name] + [pads.get(name, 0)] * (width - len(i[name])) for i in items])
        for name in items[0]
    }


def expect(
    sites: Sequence[Site], count: int | None, size: tuple[int, int], what: str = "layers"
) -> None:
    """Refuse a capture that is not ``count`` maps of ``size``."""
    if not sites:
        msg = (
            "the model ran, and no attention was seen. Load it with "
            "attn_implementation='sdpa' or 'eager'; a compiled model has its original in ._orig_mod"
        )
        raise CaptureError(msg)
    shapes = sorted({tuple(site.probabilities.shape[-2:]) for site in sites})
    if shapes != [size]:
        msg = (
            f"attention has the shapes {shapes}; {size[0]} × {size[1]} was expected: attention in "
            "windows or over pooled positions makes no layered graph of tokens"
        )
        raise CaptureError(msg)
    if count is not None and len(sites) != count:
        msg = (
            f"{len(sites)} attention maps were seen; the model's configuration says {count} {what}"
        )
        raise CaptureError(msg)


def cut(site: Site, item: int, queries: int, keys: int) -> Tensor:
    """One item's probabilities without padding, checked: ``[head, query, key]``, or fused."""
    attention = site.probabilities[item, ..., :queries, :keys]
    sums = site.sums[item, ..., :queries]
    low, high = float(sums.min()), float(sums.max())
    kind = str(site.precision).removeprefix("torch.")
    tolerance = row_tolerance(kind)
    if not high <= 1 + tolerance or not (site.sink or low >= 1 - tolerance):
        msg = (
            f"what was captured is no attention: its rows sum to {low:g} … {high:g}, not to 1 "
            f"(within {tolerance:g} for {kind})"
        )
        raise CaptureError(msg)
    return attention.cpu()


def square_activations(capture: Capture, item: int, size: int) -> Activations:
    """One item's record of a network whose every layer attends within one sequence."""
    layers = tuple(cut(site, item, size, size) for site in capture.sites)
    if not capture.wanted.values:
        return Activations(layers, causal=is_causal(layers))
    return Activations(
        layers,
        causal=is_causal(layers),
        values=tuple(_off(s.values[item, :, :size]) for s in capture.sites if s.values is not None),
        projections=tuple(
            None if s.projection is None else _off(s.projection) for s in capture.sites
        ),
    )


def with_gradients(
    records: Sequence[Activations], capture: Capture, target: Tensor
) -> list[Activations]:
    """The records of a batch with the gradients of a scalar that sums over the batch."""
    gradients = capture.gradients(target)
    return [
        replace(
            record,
            gradients=tuple(
                _off(g[item, :, : layer.shape[-2], : layer.shape[-1]])
                for g, layer in zip(gradients, record.layers, strict=True)
            ),
        )
        for item, record in enumerate(records)
    ]


def _off(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu()


def is_causal(layers: Sequence[Tensor]) -> bool:
    """Whether no position attends to a later one; one token alone tells nothing."""
    return layers[0].shape[-1] > 1 and not any(
        bool(torch.triu(layer, diagonal=1).any()) for layer in layers
    )
