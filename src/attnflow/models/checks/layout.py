"""Where the patches of an image stand among a vision model's tokens.

Other tokens may stand before the patches (CLS, registers) or behind them (YOLOS's detections), and
some models shuffle patches. So it is measured: with every attention map the identity, a changed
patch changes the state of its own position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.checks.mixing import MIXES, changed_positions, last_states


@dataclass(frozen=True)
class Layout:
    """How many tokens stand before and behind the patches, and what readers must know."""

    before: int
    after: int
    warnings: tuple[str, ...]


def find_layout(network: Any, pixels: Tensor, grid: tuple[int, int], size: int) -> Layout:
    """Change single patches of one image ``[1, channel, height, width]``, and see what follows."""
    name = type(network).__name__
    count = grid[0] * grid[1]
    tried = sorted({0, min(1, count - 1), count - 1})
    images = torch.cat([pixels, pixels, *(_changed(pixels, patch, grid) for patch in tried)])
    states = last_states(network, {"pixel_values": images})
    if states is None or states.shape[1] != size:
        msg = f"where {name} keeps the patches of an image could not be found out"
        raise ModelError(msg)
    if changed_positions(states[0], states[1]):
        msg = (
            f"{name} gives another result each time it is run (it shuffles or masks patches at "
            "random), so that its positions are no places of the image"
        )
        raise ModelError(msg)
    most = [(states[2 + at] - states[0]).abs().amax(-1) for at in range(len(tried))]
    found = [int(apart.argmax()) for apart in most]
    before = found[0]
    if found != [before + patch for patch in tried] or before + count > size:
        msg = f"{name} does not keep patches in the order in which they lie on the image"
        raise ModelError(msg)
    alone = all(
        set(changed_positions(states[0], states[2 + at])) <= {position}
        for at, position in enumerate(found)
    )
    return Layout(before, size - count - before, () if alone else (MIXES.format(name),))


def _changed(pixels: Tensor, patch: int, grid: tuple[int, int]) -> Tensor:
    """The image with other colours in one patch."""
    height, width = pixels.shape[-2] // grid[0], pixels.shape[-1] // grid[1]
    top, left = (patch // grid[1]) * height, (patch % grid[1]) * width
    changed = pixels.clone()
    part = changed[..., top : top + height, left : left + width]
    noise = torch.rand(part.shape, generator=torch.Generator().manual_seed(patch))
    part += 1 + noise.to(part)
    return changed
