"""The steps of spread flows by kernels of their own (spread.cu): one a layer, and no waiting."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.solvers.cuda.device import Device
from attnflow.solvers.steps import MOST_FULL, Nodes, Sweep, Tensor

THREADS = 256
SHARED = 32 * (8 + 4)  # bytes: two numbers for each warp


class ByKernels:
    """See `attnflow.solvers.steps.Steps`; tensors are on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def limit(
        self, layer: Tensor, held: Tensor, nodes: Nodes, sweep: Sweep
    ) -> tuple[Tensor, Tensor]:
        """See `Steps`."""
        import torch

        sinks, size = held.shape
        rate, extra = torch.empty_like(held), torch.empty_like(held)
        full_rates = held.new_empty((sinks, MOST_FULL))
        full_nodes = held.new_empty((sinks, MOST_FULL), dtype=torch.int32)
        tensors = (held.contiguous(), *nodes, rate, extra, full_rates, full_nodes)
        first = (_address(layer), np.int64(layer.stride(0)), np.float64(sweep.forget))
        numbers = (size, int(sweep.causal), MOST_FULL)
        self._launch("limit_rates", sinks, first, tensors, numbers)
        return rate, extra

    def weigh(self, nodes: Nodes, into: Tensor) -> None:
        """See `Steps`."""
        sinks, size = into.shape
        self._launch("weigh_nodes", sinks, (), (*nodes[1:], into), (size,))

    def _launch(
        self, name: str, blocks: int, first: Any, tensors: Any, numbers: tuple[int, ...]
    ) -> None:
        args = (*first, *map(_address, tensors), *map(np.int32, numbers))
        self._device.launch(name, (blocks, 1, 1), THREADS, args, SHARED, with_torch=True)


def _address(tensor: Tensor) -> Any:
    return np.uint64(tensor.data_ptr())
