"""Whether work on all heads fits into memory at all, before it starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from attnflow.errors import ModelError
from attnflow.models.sizes import depth_of, depths_of_sides, heads_in

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter


# Bytes per attention probability while all heads of all layers are on the tape and differentiated,
# and edges are made of them: measured, docs/costs.md.
TAPE_BYTES = 40
# The same while single heads have scores, whose graphs are in float64: measured for a page of 2,048
# tokens.
HEAD_BYTES = 64
MAP_BYTES = 5  # of an entry of a map that all heads share, while it is made and checked
STATES = 16  # numbers of every entry of a layer's states that relevance keeps on its tape: measured
STATE_BYTES = 96  # of every entry of a layer's states, all that a layer makes on the tape with it
MEMINFO, GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")  # of Linux


def check_memory(
    network: Any,
    inputs: dict[str, Any],
    device: torch.device,
    rows: int | None = None,
    *,
    maps_only: bool = False,
) -> None:
    """Refuse a pass with gradients that would take more memory than there is.

    With a fused kernel only some ``rows`` of each map may be needed; with ``maps_only`` a map
    of each layer is kept, and no tape of its heads.
    """
    ids = inputs.get("input_ids")
    there = memory_of(device)
    if ids is None or there is None:
        return
    batch, size = ids.shape
    paired = getattr(network.config, "is_encoder_decoder", False)
    depth = sum(depths_of_sides(network)) if paired else depth_of(network)
    each = depth * batch * size  # positions of all layers
    needed = TAPE_BYTES * each * heads_in(network) * size
    width = int(getattr(network.config.get_text_config(), "hidden_size", 0) or 0)
    fused = getattr(network.config, "_attn_implementation", None) == "sdpa"
    if maps_only:
        heads = 0 if fused else heads_in(network)
        number = next(network.parameters()).element_size()
        needed = each * (MAP_BYTES * size * (1 + heads) + STATES * number * width)
    elif fused and rows is not None:
        tape = TAPE_BYTES * heads_in(network) * rows
        needed = min(needed, each * (tape + STATE_BYTES * width))
    if needed <= there:
        return
    fewer = "batch_size=1, a shorter text" if batch > 1 else "a shorter text"
    what = (
        f"gradients by the attention of {batch * size:,} tokens in all heads and layers of "
        f"{type(network).__name__}"
    )
    _refuse(what, needed, there, f"Use {fewer}, or edges='attention'")


def check_heads_memory(adapter: ModelAdapter, size: int) -> None:
    """Refuse the scores of single heads of a text that would take more memory than there is."""
    there = memory_of(torch.device("cpu"))
    needed = HEAD_BYTES * adapter.depth * adapter.heads * size**2
    if there is None or needed <= there:
        return
    instead = "Use a shorter text, or `explain` without a page, which merges heads"
    _refuse(f"single heads and routes of {size:,} tokens", needed, there, instead)


def _refuse(what: str, needed: int, there: int, instead: str) -> NoReturn:
    msg = (
        f"{what} would take about {needed / 2**30:.0f} GiB of memory, and "
        f"{there / 2**30:.0f} are free. {instead}"
    )
    raise ModelError(msg)


def memory_of(device: torch.device) -> int | None:
    """The memory of a device that is free, in bytes; ``None`` where it is not known."""
    if device.type == "cuda":
        # What torch holds for later is free, too.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    if device.type != "cpu":
        return None
    known = [each for each in (_available(), _left_to_group(), _installed()) if each is not None]
    return min(known, default=None)


def _available() -> int | None:
    """What Linux could give without swapping, caches included."""
    try:
        lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, LookupError):
        return None


def _left_to_group() -> int | None:
    """What is left of the limit of a container, whose caches can be given up."""
    try:
        most = int((GROUP / "memory.max").read_text())
        used = int((GROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
        return most - used + int(stat["inactive_file"])
    except (OSError, ValueError, LookupError):  # no limit reads "max"
        return None


def _installed() -> int | None:
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
