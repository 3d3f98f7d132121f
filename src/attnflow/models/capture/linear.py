"""Output projections that torch does not show: linear layers of packages that quantise.

Such a module multiplies by weights that it has packed, in kernels of its own. What it does is read
off by running it: of the identity it gives its weights as it uses them, of zeros its bias. One that
rounds what it reads, too, gives another output than these weights do; how far off it may be is up
to those who take the block apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnflow.models.capture.copies import Forward, copied

Project = Callable[[Forward, Tensor], Any]


def with_projections_read(network: Any, project: Project) -> Any:
    """The network; with packed linear layers, a copy in which ``project`` runs these."""
    names = {
        f"{type(network).__name__}.{name}"
        for name, module in network.named_modules()
        if _is_packed(module)
    }

    def watch(name: str, forward: Forward) -> Forward:
        if name not in names:
            return forward
        return lambda x, *args, **kwargs: (
            forward(x, *args, **kwargs) if args or kwargs else project(forward, x)
        )

    return copied(network, watch) if names else network


def weights_of(forward: Forward, like: Tensor) -> tuple[Tensor, Tensor]:
    """The weight ``[output, input]`` and the bias of a linear layer that reads such inputs."""
    width = like.shape[-1]
    with torch.no_grad():
        bias = forward(like.new_zeros(1, width))[0]
        return (forward(torch.eye(width, dtype=like.dtype, device=like.device)) - bias).T, bias


def _is_packed(module: torch.nn.Module) -> bool:
    sized = hasattr(module, "in_features") and hasattr(module, "out_features")
    return sized and type(module).forward is not torch.nn.Linear.forward
