"""How the logit of a target is read off the residual stream where a model decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnflow.models.capture.readout import mean_row
from attnflow.models.outputs import balanced_logit
from attnflow.records import Readout
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.capture.mode import Capture


def make_readout(  # noqa: PLR0913 - what is read, and where
    capture: Capture,
    item: int,
    position: int,
    logits: Tensor,
    target: int,
    contrast: int | None,
    *,
    alone: bool = False,
) -> Readout | None:
    """The readout of one input; ``None`` where the final norm and projection were not found.

    ``logits`` are the model's own at the position: they must be what the projection gave. ``alone``
    says that labels are independent of each other (`balanced_logit`).
    """
    seen = capture.readout
    streams = [site.sum if site.stream is None else site.stream for site in capture.sites]
    if seen is None or any(each is None for each in streams):
        return None

    def row(tensor: Tensor | None) -> Tensor:
        if tensor is None:
            return torch.ones(1, dtype=torch.float64)
        by_item = tensor.detach().reshape(capture.batch, -1, tensor.shape[-1])
        return by_item[item, position].double()

    if seen.logits.shape[-1] != len(logits) or not torch.equal(row(seen.logits), logits.double()):
        return None

    def balanced(values: Tensor) -> Tensor:
        return balanced_logit(values.detach().double(), target, contrast, alone=alone)

    direction = _balanced_row(seen.weight.detach(), target, contrast, alone=alone)
    constant = 0.0 if seen.shift is None else float(seen.shift.detach().double() @ direction)
    if seen.bias is not None:
        constant += float(balanced(seen.bias))
    if seen.scale is not None:
        direction = direction * seen.scale.detach().double()
    if seen.centred:
        direction = direction - direction.mean()
    direction = direction * row(seen.factor).to(direction.device)
    return Readout(
        position,
        to_numpy(direction),
        constant,
        float(balanced(logits)),
        to_numpy(torch.stack([row(each) for each in streams])),
    )


def _balanced_row(weight: Tensor, target: int, contrast: int | None, *, alone: bool) -> Tensor:
    """What `balanced_logit` makes of a projection's rows, which may be many, without a copy."""
    row = weight[target].double()
    if contrast is not None:
        return row - weight[contrast].double()
    return row if alone else row - mean_row(weight)
