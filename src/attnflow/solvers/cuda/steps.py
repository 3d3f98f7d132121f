"""The steps of spread flows by kernels of their own (spread.cu): one a layer, and no waiting."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnflow.solvers.cuda.device import Device
from attnflow.solvers.steps import MOST_FULL, Nodes, Sweep, Tensor

THREADS = 512
SHARED = 32 * (8 + 4)  # bytes: two numbers for each warp


class ByKernels:
    """See `attnflow.solvers.steps.Steps`; tensors are on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._scratch: tuple[Tensor, ...] = ()

    def limit(
        self, layer: Tensor, held: Tensor, nodes: Nodes, sweep: Sweep
    ) -> tuple[Tensor, Tensor]:
        """See `Steps`."""
        sinks, size = held.shape
        if not self._scratch or self._scratch[0].shape != held.shape:
            self._scratch = _make_scratch(held)
        tensors = (held, *nodes, *self._scratch)
        first = (_address(layer[0]), np.int64(layer.stride(0)), np.float64(sweep.forget))
        numbers = (size, int(sweep.causal), MOST_FULL)
        self._launch("limit_rates", sinks, first, tensors, numbers)
        return self._scratch[:2]

    def weigh(self, nodes: Nodes, into: Tensor) -> None:
        """See `Steps`."""
        sinks, size = into.shape
        self._launch("weigh_nodes", sinks, (), (*nodes[1:], into), (size,))

    def _launch(
        self, name: str, blocks: int, first: Any, tensors: Any, numbers: tuple[int, ...]
    ) -> None:
        args = (*first, *map(_address, tensors), *map(np.int32, numbers))
        self._device.launch(name, (blocks, 1, 1), THREADS, args, SHARED, with_torch=True)


def _make_scratch(held: Tensor) -> tuple[Tensor, ...]:
    """Rates and what arrives, and lists of nodes with full edges: their rates and numbers."""
    import torch

    full = held.new_empty((len(held), MOST_FULL))
    return torch.empty_like(held), torch.empty_like(held), full, full.to(torch.int32)


def _address(tensor: Tensor) -> Any:
    # A kernel that read other numbers than torch does would prove what is not so.
    if not tensor.is_contiguous():
        msg = f"a tensor of strides {tensor.stride()} is not laid out row by row"
        raise ValueError(msg)
    return np.uint64(tensor.data_ptr())
