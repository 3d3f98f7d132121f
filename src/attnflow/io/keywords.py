"""Public functions: keywords that they do not have are refused with those that they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from attnflow.errors import UnknownKeyword, shown
from attnflow.io.surroundings import plain_torch

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def known_keywords(
    *others: str,
) -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Refuse unknown keywords of a public function, and run it in any surroundings.

    ``others`` are keywords that it takes as a dictionary. What the caller has set for torch, such
    as ``torch.no_grad()``, does not count within the function.
    """

    def refusing(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
        named = [p for p in signature(function).parameters.values() if p.kind in NAMED]
        known = (*(each.name for each in named), *others)

        @wraps(function)
        def checked(*args: Parameters.args, **keywords: Parameters.kwargs) -> Returned:
            for name in keywords:
                if name not in known:
                    raise UnknownKeyword(_refusal(function.__name__, name, known))
            with plain_torch():
                return function(*args, **keywords)

        return checked

    return refusing


def _refusal(function: str, name: str, known: Sequence[str]) -> str:
    longer = [each for each in known if each.startswith(f"{name}_")]  # target_column for target
    near = get_close_matches(name, known, n=1) or longer[:1]
    meant = f"; did you mean {near[0]}=?" if near else ";"
    return f"{function} has no argument {shown(name)}{meant} allowed: {', '.join(known)}"
