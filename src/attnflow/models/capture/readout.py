"""Following the residual stream behind the last block: final norm and projection to logits.

Every block might be the last one, so that each stream is followed until the next block begins. What
is not recognised is not followed: then there is no readout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

ROWS = 4096  # of a projection that are held in float64 at a time


@dataclass(frozen=True, eq=False)
class SeenReadout:
    """How logits were read off the residual stream.

    Attributes:
        weight: ``[output, model dimension]``: the projection.
        bias: What the projection adds, or ``None``.
        logits: What it gave.
        scale: ``[model dimension]``: the norm's weight, or ``None`` for ones.
        shift: ``[model dimension]``: what the norm adds, or ``None``.
        factor: ``[…, position, 1]``: what the norm multiplies a position by; ``None`` without one.
        centred: Whether the norm takes the mean away.
    """

    weight: Tensor
    bias: Tensor | None
    logits: Tensor
    scale: Tensor | None
    shift: Tensor | None
    factor: Tensor | None
    centred: bool


class ReadoutTracker:
    """What happens to a residual stream, up to the first projection."""

    def __init__(self) -> None:
        self.found: SeenReadout | None = None
        self._held: dict[int, Tensor] = {}  # by id; held, so that no id is used twice
        self._norm: dict[str, Any] = {}

    def start(self, stream: Tensor) -> None:
        """Follow another stream."""
        self.forget()
        self._held = {id(stream): stream}

    def forget(self) -> None:
        """Nothing is followed, and nothing was found."""
        self.found, self._norm = None, {}
        self._held.clear()

    def release(self) -> None:
        """Follow nothing any more; what was found stays."""
        self._held.clear()

    def follow(
        self, func: Any, args: Any, kwargs: Any, result: Tensor, *, unchanged: bool, product: bool
    ) -> None:
        """See one call of torch; ``unchanged`` and ``product`` say what kind of call it is."""
        stream = next((each for each in args if id(each) in self._held), None)
        if stream is None:
            return
        if unchanged or (func is Tensor.__getitem__ and result.shape == stream.shape):
            self._held[id(result)] = result
        elif func is F.linear and len(args) > 1:
            bias = args[2] if len(args) > 2 else kwargs.get("bias")
            parts = {"scale": None, "shift": None, "factor": None, "centred": False, **self._norm}
            self.found = SeenReadout(args[1], bias, result, **parts)
            self._held.clear()
        elif func is F.layer_norm and not self._norm:
            self._layer_norm(*args, **kwargs)
            self._held = {id(result): result}
        elif product:
            self._multiply(stream, args, result)

    def _layer_norm(
        self,
        x: Tensor,
        _shape: Any,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        eps: float = 1e-5,
    ) -> None:
        variance = x.detach().double().var(-1, unbiased=False, keepdim=True)
        factor = (variance + eps).rsqrt()
        self._norm = {"scale": weight, "shift": bias, "factor": factor, "centred": True}

    def _multiply(self, stream: Tensor, args: Any, result: Tensor) -> None:
        """A step of an RMS norm: the factor of each position, or the norm's weight."""
        other = next((each for each in args if each is not stream), None)
        if not isinstance(other, Tensor) or self._norm.get("centred"):
            return
        if other.dim() == result.dim() and other.shape[-1] == 1 and "factor" not in self._norm:
            self._norm["factor"] = other
        elif other.numel() == result.shape[-1] == other.shape[-1] and "scale" not in self._norm:
            self._norm["scale"] = other.reshape(-1)
        else:
            return
        self._held = {id(result): result}


def mean_row(weight: Tensor) -> Tensor:
    """The mean of a projection's rows in float64; a vocabulary is long, so by parts."""
    total = torch.zeros(weight.shape[-1], dtype=torch.float64, device=weight.device)
    for start in range(0, len(weight), ROWS):
        total += weight.detach()[start : start + ROWS].double().sum(0)
    return total / len(weight)
