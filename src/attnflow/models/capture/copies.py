"""Copies of a network that share its weights, to be run in another way than the network itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from types import MethodType
from typing import Any

import torch

from attnflow.errors import ModelError

Forward = Callable[..., Any]
Watch = Callable[[str, Forward], Forward]  # from a module's name and its forward, another one


def copied(network: Any, watch: Watch | None = None, only: Collection[str] | None = None) -> Any:
    """A copy in eval mode that shares every parameter; ``watch`` may replace what modules do.

    The network that was given is never changed, so that other threads may use it meanwhile. With
    ``only`` just these modules are watched, and those that hold none of them are shared: copying
    hundreds takes time. The network must be in eval mode then.
    """
    copies: dict[int, torch.nn.Module] = {}
    above = {name.rsplit(".", up)[0] for name in only or () for up in range(name.count(".") + 1)}

    def copy_of(module: torch.nn.Module, name: str) -> torch.nn.Module:
        if only is not None and name not in above:
            return module
        held = _held_by_attribute(module)
        if held is not None:  # the copy would run the original
            reason = "is in training mode" if watch is None else "can't be run layer by layer"
            msg = (
                f"{type(network).__name__} {reason}, and {type(module).__name__} holds modules or "
                f"their methods in its attribute {held!r}"
            )
            raise ModelError(msg + ("; call model.eval() first" if watch is None else ""))
        if id(module) not in copies:  # a module may be used in several places
            # Not copy.copy, which modules with parametrized weights (weight norm) refuse.
            twin = copies[id(module)] = type(module).__new__(type(module))
            # Its own lists of hooks: transformers adds some to networks that are to show states.
            hooks = {
                key: value.copy()
                for key, value in module.__dict__.items()
                if isinstance(value, dict) and "_hooks" in key
            }
            own = {key: _bound(value, module, twin) for key, value in vars(module).items()}
            twin.__dict__ = {**own, **hooks, "training": False}
            twin._compiled_call_impl = None  # bound to the original; the copy runs uncompiled
            twin._modules = {
                child_name: None if child is None else copy_of(child, f"{name}.{child_name}")
                for child_name, child in module._modules.items()
            }
            if watch is not None and (only is None or name in only):
                forward = own.get("forward", MethodType(type(module).forward, twin))
                twin.__dict__["forward"] = watch(name, forward)
        return copies[id(module)]

    return copy_of(network, type(network).__name__)


def _held_by_attribute(module: torch.nn.Module) -> str | None:
    """The attribute in which a module refers to modules that are not its children, if any."""

    def refers(value: Any) -> bool:
        if isinstance(value, torch.nn.Module):
            return True
        if isinstance(value, list | tuple | set | frozenset):
            return any(map(refers, value))
        if isinstance(value, dict):
            return any(map(refers, value.values()))
        if isinstance(value, partial):
            return refers(value.func) or refers(value.args) or refers(value.keywords)
        return isinstance(getattr(value, "__self__", None), torch.nn.Module)

    own = ("_modules", "_parameters", "_buffers", "_compiled_call_impl")
    named = ((name, value) for name, value in vars(module).items() if name not in own)
    return next((n for n, value in named if refers(_bound(value, module, None))), None)


def _bound(value: Any, module: torch.nn.Module, twin: torch.nn.Module | None) -> Any:
    """A method that a module holds of itself, as the copy's: accelerate puts its own around one."""
    if isinstance(value, MethodType) and value.__self__ is module:
        return None if twin is None else MethodType(value.__func__, twin)
    if isinstance(value, partial) and any(each is module for each in value.args):
        args = (twin if each is module else each for each in value.args)
        return partial(value.func, *args, **value.keywords)
    return value
