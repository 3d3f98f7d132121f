"""Where the patches of an image, or the frames of a sound, stand among a model's tokens.

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
from attnflow.models.audio.frames import Frames
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
    images = torch.cat([pixels, pixels, *(change_patch(pixels, patch, grid) for patch in tried)])
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


NEAR = 2  # frames: neighbours share samples, and rows of a spectrogram


def find_frame_layout(
    network: Any, inputs: dict[str, Tensor], name: str, frames: Frames, size: int
) -> Layout:
    """Change single frames of one sound, and see what follows.

    ``inputs`` has a batch axis of one, and ``name`` is the input that frames are cut from.
    """
    who = type(network).__name__
    count = frames.rows * frames.columns
    tried = sorted({0, count // 2, count - 1})
    sounds = [inputs[name][0], inputs[name][0]]
    for piece in tried:
        changed = inputs[name][0].clone()
        part = frames.part(changed, *divmod(piece, frames.columns))
        noise = torch.randn(part.shape, generator=torch.Generator().manual_seed(piece))
        part += noise.to(part) * (1 + float(changed.abs().max()))
        sounds.append(changed)
    batch = {
        key: values.expand(len(sounds), *values.shape[1:]) for key, values in inputs.items()
    } | {name: torch.stack(sounds)}
    states = last_states(network, batch)
    if states is None or states.shape[1] != size:
        msg = f"where {who} keeps the frames of a sound could not be found out"
        raise ModelError(msg)
    if changed_positions(states[0], states[1]):
        msg = f"{who} gives another result each time it is run"
        raise ModelError(msg)
    before = size - count
    changes = [_changed(states[0], states[2 + at]) for at in range(len(tried))]
    for at, piece in enumerate(tried):
        if (
            at and not changes[at]
        ):  # behind the end of the sound, where the model is told not to hear
            continue
        places = [_distance(place - before, piece, frames.columns) for place in changes[at]]
        if not any(place <= NEAR for place in places):
            msg = f"{who} does not keep frames in the order of their time"
            raise ModelError(msg)
        if any(place > NEAR for place in places):  # a convolution over many frames, or a norm
            return Layout(before, 0, (MIXES.format(who),))
    return Layout(before, 0, ())


def _changed(before: Tensor, after: Tensor) -> list[int]:
    """The positions that changed beyond rounding; in half precision perhaps the most changed."""
    apart = (after.double() - before.double()).abs().amax(-1)
    most = [int(apart.argmax())] if float(apart.max()) else []
    return changed_positions(before, after) or most


def _distance(one: int, other: int, columns: int) -> int:
    """How many rows or columns two pieces are apart; what is no piece is far from all."""
    if one < 0:
        return NEAR + 1
    (row, column), (row_too, column_too) = divmod(one, columns), divmod(other, columns)
    return max(abs(row - row_too), abs(column - column_too))


def change_patch(pixels: Tensor, patch: int, grid: tuple[int, int]) -> Tensor:
    """The image with other colours in one patch."""
    height, width = pixels.shape[-2] // grid[0], pixels.shape[-1] // grid[1]
    top, left = (patch // grid[1]) * height, (patch % grid[1]) * width
    changed = pixels.clone()
    part = changed[..., top : top + height, left : left + width]
    noise = torch.rand(part.shape, generator=torch.Generator().manual_seed(patch))
    part += 1 + noise.to(part)
    return changed
