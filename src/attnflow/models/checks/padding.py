"""Whether inputs that run together give what each gives alone.

Whether padding changes a result depends on the model: a decoder's classifier looks for the last
token that is no padding by its number, some heads read the last position, and convolutions read
what stands beside a token. So a short batch is run, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import AttnflowError
from attnflow.models.adapter import Tokens
from attnflow.models.checks.memory import once
from attnflow.models.checks.samples import shorten

Outcomes = Callable[[Sequence[Tokens]], list[list[Tensor]]]  # per input, what is compared
SAMPLE = 10  # tokens of the longer input that is tried
CLOSE = 2e-5  # in float32, of the largest number


def batchable(
    network: Any, inputs: Sequence[Tokens], outcomes: Outcomes, padding: Hashable
) -> bool:
    """Whether these inputs give together what each gives alone.

    Tried once for a network and its padding tokens, with and without padding, on short samples.
    """
    if len(inputs) < 2:
        return True
    longest = max(inputs, key=len)
    sizes = {tuple(len(values) for values in _lists(tokens)) for tokens in inputs}
    sample = [
        shorten(longest, SAMPLE),
        shorten(longest, SAMPLE if len(sizes) == 1 else SAMPLE // 2),
    ]
    if len(sizes) > 1 and len(sample[0]) == len(sample[1]):
        sample = [longest, min(inputs, key=len)]  # too short to be cut
    return once(
        network, ("together", len(sizes) > 1, padding), lambda: same_together(outcomes, sample)
    )


def _lists(tokens: Tokens) -> list[list[int]]:
    return [values for values in tokens.inputs.values() if isinstance(values, list)]


def same_together(outcomes: Outcomes, sample: Sequence[Tokens]) -> bool:
    """Whether a batch gives what its inputs give alone; one that can't be run does not."""
    try:
        together = outcomes(sample)
        alone = [outcomes([tokens])[0] for tokens in sample]
    except (AttnflowError, ValueError, RuntimeError):  # this batch; the error comes back alone
        return False
    return all(
        len(one) == len(other) and all(map(is_close, one, other))
        for one, other in zip(together, alone, strict=True)
    )


def is_close(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal up to rounding."""
    if one.shape != other.shape:
        return False
    rounding = 4 * torch.finfo(one.dtype).eps if one.is_floating_point() else 0.0
    one, other = one.detach().double(), other.detach().double()
    scale = max(1.0, float(other.abs().max()) if other.numel() else 1.0)
    return bool(((one - other).abs() <= max(CLOSE, rounding) * scale).all())
