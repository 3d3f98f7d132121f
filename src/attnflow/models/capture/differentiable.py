"""Gradients that a layer cuts off are refused: quantised layers may pass on none.

Autograd takes what comes out of such a layer for a constant. What goes around it (the residual
connection) still has a gradient, which looks like one of the whole model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.checks.padding import once

STEPS = 3  # of a tape that a layer ends with: its operation, and what fits the result to the input


class NoGradientError(ModelError):
    """A layer passes on no gradient."""


def check_once(network: torch.nn.Module, run: Callable[[], Any]) -> None:
    """Have ``run`` call a network that was not watched yet, with a tape."""
    if not once(network, "differentiable", list):
        with torch.enable_grad():
            run()


@contextmanager
def watched(network: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The network to run: one that refuses to where a module reads its input without a gradient.

    A network that has passed is not watched again. What is watched is a copy where one can be made,
    so that other threads may run the network meanwhile.
    """
    if torch.is_grad_enabled() and any(each.is_inference() for each in network.parameters()):
        msg = (
            f"{type(network).__name__} can't be differentiated: it was made or loaded inside "
            "torch.inference_mode(). Load it outside, or use what needs no gradients: "
            "method='blank-out' or edges='attention'"
        )
        raise NoGradientError(msg)
    passed: list[bool] = once(network, "differentiable", list)
    if passed or not torch.is_grad_enabled():
        yield network
        return

    def check(name: str, forward: Forward, args: Any, kwargs: Any, output: Any) -> None:
        if not name or not torch.is_grad_enabled() or not _is_cut(forward, args, kwargs, output):
            return
        kind = type(getattr(forward, "__self__", network)).__name__
        msg = (
            f"{type(network).__name__} can't be differentiated: its layer {name!r} ({kind}) "
            "passes on no gradient, as quantised layers may do. Use the original model, or "
            "what needs no gradients: method='blank-out' or edges='attention'"
        )
        raise NoGradientError(msg)

    with _checked(network, check) as running:
        yield running
    passed.append(True)


@contextmanager
def _checked(network: torch.nn.Module, check: Callable[..., None]) -> Iterator[torch.nn.Module]:
    """A copy that checks after every module; the network itself where it can't be copied."""

    def watch(path: str, forward: Forward) -> Forward:
        name = path.partition(".")[2]

        @wraps(forward)
        def run(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            check(name, forward, args, kwargs, output)
            return output

        return run

    try:
        running = copied(network, watch)
    except ModelError:  # it holds modules elsewhere than in its tree
        hooks = [
            module.register_forward_hook(
                lambda module, args, kwargs, output, name=name: check(
                    name, module.forward, args, kwargs, output
                ),
                with_kwargs=True,
            )
            for name, module in network.named_modules()
        ]
        try:
            yield network
        finally:
            for hook in hooks:
                hook.remove()
    else:
        yield running


def _is_cut(forward: Forward, args: Any, kwargs: Mapping[str, Any], output: Any) -> bool:
    made = _floats(output if isinstance(output, tuple | list) else [output])
    if any(_is_unknown(each.grad_fn) for each in made):
        return True
    if not made or any(each.requires_grad for each in made):
        return False
    if not any(each.requires_grad for each in _floats([*args, *kwargs.values()])):
        return False
    # A module may read only the shape of its input, as position embeddings do.
    with torch.no_grad():
        again = forward(*map(_moved, args), **{k: _moved(v) for k, v in kwargs.items()})
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
