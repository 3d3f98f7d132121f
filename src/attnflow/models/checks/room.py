"""Whether a pass with gradients fits into memory at all, before it starts."""

from __future__ import annotations

import os
from typing import Any

import torch

from attnflow.errors import ModelError
from attnflow.models.sizes import depth_of, depths_of_sides, heads_in

# Bytes per attention probability while all heads of all layers are on the tape and differentiated,
# and edges are made of them: measured, docs/answers.md.
TAPE_BYTES = 40


def check_room(network: Any, inputs: dict[str, Any], device: torch.device) -> None:
    """Refuse a pass with gradients that would take more memory than there is."""
    ids = inputs.get("input_ids")
    there = memory_of(device)
    if ids is None or there is None:
        return
    batch, size = ids.shape
    paired = getattr(network.config, "is_encoder_decoder", False)
    depth = sum(depths_of_sides(network)) if paired else depth_of(network)
    needed = TAPE_BYTES * depth * heads_in(network) * batch * size**2
    if needed <= there:
        return
    fewer = "batch_size=1, a shorter text" if batch > 1 else "a shorter text"
    msg = (
        f"gradients by the attention of {batch * size:,} tokens in all heads and layers of "
        f"{type(network).__name__} would take about {needed / 2**30:.0f} GiB, and there are "
        f"{there / 2**30:.0f}. Use {fewer}, or edges='attention'"
    )
    raise ModelError(msg)


def memory_of(device: torch.device) -> int | None:
    """The memory of a device in bytes; ``None`` where it is not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "cpu" and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
