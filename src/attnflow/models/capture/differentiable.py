"""Gradients that a layer cuts off are refused: quantised layers may hand on none.

Autograd takes what comes out of such a layer for a constant. What goes around it (the residual
connection) still has a gradient, which looks like one of the whole model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.checks.memory import once

STEPS = 3  # of a tape that a layer ends with: its operation, and what fits the result to the input


class NoGradientError(ModelError):
    """A layer hands on no gradient."""


@contextmanager
def watch_gradients(network: torch.nn.Module) -> Iterator[None]:
    """Refuse a network while it runs of which a module reads its input and hands on no gradient.

    A network that has passed is not watched again.
    """
    passed: list[bool] = once(network, "differentiable", list)
    if passed or not torch.is_grad_enabled():
        yield
        return

    def check(name: str, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not torch.is_grad_enabled() or not _is_cut(module, args, kwargs, output):
            return
        msg = (
            f"{type(network).__name__} can't be differentiated: its layer {name!r} "
            f"({type(module).__name__}) hands on no gradient, as quantised layers may do. Use the "
            "model as it was before, or what needs no gradients: method='blank-out' or "
            "edges='attention'"
        )
        raise NoGradientError(msg)

    hooks = [
        module.register_forward_hook(partial(check, name), with_kwargs=True)
        for name, module in network.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    passed.append(True)


def _is_cut(module: Any, args: Any, kwargs: Mapping[str, Any], output: Any) -> bool:
    made = _floats(output if isinstance(output, tuple | list) else [output])
    if any(_is_unknown(each.grad_fn) for each in made):
        return True
    if not made or any(each.requires_grad for each in made):
        return False
    if not any(each.requires_grad for each in _floats([*args, *kwargs.values()])):
        return False
    # A module may ask its input for the shape alone, as position embeddings do.
    with torch.no_grad():
        again = module.forward(*map(_moved, args), **{k: _moved(v) for k, v in kwargs.items()})
    others = _floats(again if isinstance(again, tuple | list) else [again])
    return any(not torch.equal(a, b) for a, b in zip(made, others, strict=True))


def _is_unknown(step: Any, steps: int = STEPS) -> bool:
    """Whether one of the last steps of the tape is an operation without a derivative."""
    if step is None or not steps:
        return False
    if "NotImplemented" in step.name():
        return True
    return any(_is_unknown(before, steps - 1) for before, _ in step.next_functions)


def _floats(values: Any) -> list[Tensor]:
    return [each for each in values if isinstance(each, Tensor) and each.is_floating_point()]


def _moved(value: Any) -> Any:
    """Another input of the same kind."""
    if isinstance(value, Tensor) and value.requires_grad:
        return value.detach() * 1.5 + 0.25
    return value
