"""Which calls of a network's modules are its layers.

A layer is the outermost call of a module within which the network attends once (a decoder layer of
an encoder–decoder: twice), and which makes states of states, of the same shape. Each layer must
read what the one before made, or its modules are only parts of what a layer does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import ModelError
from attnflow.models.capture.copies import Forward, copied
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.run import called
from attnflow.models.capture.spec import CaptureSpec
from attnflow.models.checks.padding import once

STATES = 3  # axes: [batch, position, dimension]


@dataclass(frozen=True)
class Layers:
    """The names of the modules that are layers, how wide states are, and how they are laid out.

    ``items_first`` means that states are ``[batch, position, dimension]``, not positions first.
    """

    names: frozenset[str]
    width: int
    items_first: bool = True


@dataclass
class _ModuleCall:
    """One call of a module: its name, and the states that it was given and made."""

    name: str
    given: Tensor | None = None
    made: Tensor | None = None

    @property
    def keeps_shape(self) -> bool:
        return self.given is not None and self.made is not None and _alike(self.given, self.made)


class _Watch(Capture):
    """Which calls of modules are underway whenever the network attends."""

    def __init__(self) -> None:
        super().__init__(CaptureSpec(layers=()))
        self.calls: list[_ModuleCall] = []
        self.underway: list[int] = []
        self.seen: list[tuple[int, ...]] = []

    def _is_wanted(self) -> bool:
        self.seen.append(tuple(self.underway))
        return super()._is_wanted()

    def watch(self, name: str, forward: Forward) -> Forward:
        """Note every call of a module."""

        def observed(*args: Any, **kwargs: Any) -> Any:
            call = _ModuleCall(name)
            self.underway.append(len(self.calls))
            self.calls.append(call)
            try:
                output = forward(*args, **kwargs)
            finally:
                self.underway.pop()
            call.given, call.made = given_states(args, kwargs), made_states(output)
            return output

        return observed


def layers_of(network: Any, inputs: dict[str, Any], attends: Sequence[int]) -> Layers:
    """The layers of a network, by how often each attends; found once for a network."""
    return once(network, "layers", lambda: _find_layers(network, inputs, attends))


def _find_layers(network: Any, inputs: dict[str, Any], attends: Sequence[int]) -> Layers:
    seen = _Watch()
    try:
        with torch.no_grad(), seen:
            called(copied(network, seen.watch), inputs)
        return _layers_among(seen, network, attends)
    finally:
        # The copy's modules and their methods hold each other, and would hold all states.
        seen.calls.clear()


def _layers_among(seen: _Watch, network: Any, attends: Sequence[int]) -> Layers:
    name = type(network).__name__
    config = getattr(network, "config", None)
    if len(seen.seen) == sum(attends) + 1 and not getattr(config, "is_encoder_decoder", False):
        # A head that pools by one query (SigLIP) is not a layer, as in `drop_pooling`.
        seen.seen.pop()
    if len(seen.seen) != sum(attends):
        msg = (
            f"{name} attends {len(seen.seen)} times, and its layers {sum(attends)} times: they "
            "can't be run one by one without single values; use other edges, such as 'attention'"
        )
        raise ModelError(msg)
    found, first = [], 0
    for count in attends:
        call = _outermost(seen, range(first, first + count))
        if call is None:
            raise ModelError(_no_layers(name))
        found.append(call)
        first += count
    for (before, after), counts in zip(pairwise(found), pairwise(attends), strict=True):
        if counts[0] == counts[1] and not _equal(before.made, after.given):
            raise ModelError(_no_layers(name))
    items_first = all(call.made is not None and call.made.shape[0] == 1 for call in found)
    width = 0 if found[0].made is None else found[0].made.shape[-1]
    return Layers(frozenset(call.name for call in found), width, items_first)


def made_states(output: Any) -> Tensor | None:
    """The states that a layer returned, alone or first among others."""
    first = output[0] if isinstance(output, tuple) and output else output
    return first if isinstance(first, Tensor) else None


def _outermost(seen: _Watch, group: Sequence[int]) -> _ModuleCall | None:
    for number in seen.seen[group[0]]:
        within = [site for site, underway in enumerate(seen.seen) if number in underway]
        if within == list(group) and seen.calls[number].keeps_shape:
            return seen.calls[number]
    return None


def given_states(args: Any, kwargs: Any) -> Tensor | None:
    """The states that a layer was given: the first of its arguments that can be such."""
    states = (each for each in (*args, *kwargs.values()) if isinstance(each, Tensor))
    return next((e for e in states if e.dim() == STATES and e.is_floating_point()), None)


def with_states(args: Any, kwargs: dict[str, Any], old: Tensor, new: Tensor) -> Any:
    """The arguments of a layer with other states in place of those it was given."""
    swapped = {name: new if value is old else value for name, value in kwargs.items()}
    return tuple(new if value is old else value for value in args), swapped


def _alike(first: Tensor, second: Tensor) -> bool:
    return first.dim() == STATES and first.shape == second.shape


def _equal(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return False
    return first is second or (first.shape == second.shape and torch.equal(first, second))


def _no_layers(name: str) -> str:
    return (
        f"no modules of {name} are its layers, each of which reads what the one before made: they "
        "can't be run one by one without single values"
    )
