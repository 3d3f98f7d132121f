"""Calls of public functions: unknown keywords are refused, and torch is set as usual."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from attnflow.errors import UnknownKeyword, shown

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def known_keywords() -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Refuse unknown keywords of a public function, and run it in any surroundings.

    What the caller has set for torch, such as ``torch.no_grad()``, does not count within the
    function.
    """

    def refusing(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
        known = tuple(signature(function).parameters)

        @wraps(function)
        def checked(*args: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
            check_keywords(function.__name__, keywords, known)
            with plain_torch():
                return function(*args, **keywords)

        return checked

    return refusing


def check_keywords(
    function: str,
    given: Iterable[str],
    known: Sequence[str],
    elsewhere: Mapping[str, str] | None = None,
) -> None:
    """Refuse keywords that a function does not have, with the ones that may have been meant.

    ``elsewhere`` are keywords of other functions, by whose names they are.
    """
    for name in given:
        if name in known:
            continue
        if elsewhere and name in elsewhere:
            msg = f"{function} has no argument {name!r}: it is for attnflow.{elsewhere[name]}"
            raise UnknownKeyword(msg)
        longer = [each for each in known if each.startswith(f"{name}_")]  # target_column for target
        near = get_close_matches(name, known, n=1) or longer[:1]
        meant = f"; did you mean {near[0]}=?" if near else ";"
        msg = f"{function} has no argument {shown(name)}{meant} allowed: {', '.join(known)}"
        raise UnknownKeyword(msg)


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
