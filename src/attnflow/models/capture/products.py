"""Matrix products on AMD's CPUs: with their widest instructions, which torch's library leaves out.

torch multiplies float32 with MKL, which uses AVX-512 on Intel's CPUs only. oneDNN, which comes with
torch, too, uses it on both, and takes half the time on AMD's.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode


def wide_products() -> AbstractContextManager[Any]:
    """A context in which this thread's linear layers use all that the CPU has.

    Gradients reach what goes into a layer, never its weights.
    """
    return WideProducts() if _leaves_out() else nullcontext()


class WideProducts(TorchFunctionMode):
    """Linear layers by oneDNN, where they are plain float32 on a CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the layer returns."""
        if func is F.linear and not kwargs and all(map(_plain, args)):
            return _Linear.apply(*args)  # type: ignore[no-untyped-call]
        return func(*args, **(kwargs or {}))


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        ctx.weight = weight.detach()
        return _product(given, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _product(gradient.contiguous(), ctx.weight.T, None), None, None


def _product(given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(given, weight, bias, "none", [], "")
    return found


def _plain(each: Any) -> bool:
    if each is None:
        return True
    known = type(each) in (Tensor, torch.nn.Parameter) and each.layout is torch.strided
    return known and each.dtype is torch.float32 and each.device.type == "cpu" and each.numel() > 0


@cache
def _leaves_out() -> bool:
    """Whether this CPU has instructions that MKL does not use."""
    from llvmlite import binding  # type: ignore[import-untyped] # which numba brings

    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    there = torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return bool(wide and there and binding.get_host_cpu_name().startswith("znver"))
