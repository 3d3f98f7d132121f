"""Weights as 8-bit integers with a scale per row: a quarter of float32's size.

A model that is to be shipped is packed once; loading it gives float32 weights again, which differ
from the original ones by at most half a step of a row's scale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKED = "model.int8.safetensors"
"""The file of a packed model, in place of ``model.safetensors``."""
SCALE = ".scale"
STEPS = 127


def pack(weights: dict[str, Any]) -> dict[str, Any]:
    """Matrices as integers from -127 to 127 and the scales of their rows, the rest in float32."""
    import torch

    packed = {}
    for name, weight in weights.items():
        if weight.ndim != 2:
            packed[name] = weight.float()
            continue
        scale = weight.float().abs().amax(1) / STEPS
        scale[scale == 0] = 1.0
        packed[name] = (weight.float() / scale[:, None]).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def unpack(path: Path) -> dict[str, Any]:
    """The weights of a packed model, in float32."""
    from safetensors.torch import load_file

    packed = load_file(path)
    weights = {}
    for name, weight in packed.items():
        if name.endswith(SCALE):
            continue
        scale = packed.get(name + SCALE)
        weights[name] = weight if scale is None else weight.float() * scale[:, None]
    return weights
