"""What a caller has set for torch, kept out of the way of what attnflow computes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def plain_torch() -> Iterator[None]:
    """While it lasts, gradients can be taken and tensors are made on the processor.

    A caller may be in ``torch.no_grad()``, in ``torch.inference_mode()``, or have another default
    device, as ``with torch.device("meta")`` sets it. Each of these holds for one thread.
    """
    torch = sys.modules.get("torch")
    if torch is None:  # nothing can be set yet, and importing it takes its time
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(mode=False))
        stack.enter_context(torch.enable_grad())
        if torch.empty(0).device.type != "cpu":  # a mode costs time with every call of torch
            stack.enter_context(torch.device("cpu"))
        yield
