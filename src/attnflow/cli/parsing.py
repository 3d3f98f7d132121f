"""What is written behind options, as the library takes it."""

from __future__ import annotations

from typing import Any

from attnflow.errors import InputError


def parse_methods(given: list[str] | None) -> list[str]:
    """The methods that were named; none leaves the choice to the model."""
    from attnflow.methods import METHODS

    if given and "auto" in given and len(given) > 1:
        msg = "--method auto stands alone: it is chosen by the model; leave out the others"
        raise InputError(msg)
    return [METHODS[name].name for name in given or () if name != "auto"]


def parse_layers(given: str | None) -> Any:
    """``all`` as it is; ``1,3`` as layer numbers."""
    if given is None or given == "all":
        return given
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        msg = f"--layers {given!r} is unknown; give all, or numbers such as 1,3,6"
        raise InputError(msg) from None


def parse_heads(given: str) -> Any:
    """``mean`` and the like as they are; ``0,3`` as head numbers."""
    if given in ("mean", "max", "min", "each") or given.endswith(".json"):
        return given
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        known = "mean, max, min, each, numbers such as 0,3, or a .json file of attnflow fit"
        msg = f"--heads {given!r} is unknown; give {known}"
        raise InputError(msg) from None


def parse_correction(given: str) -> str | None:
    """``none`` is the plain method."""
    known = ("auto", "uniform", "visible", "sink")
    if given not in (*known, "none"):
        msg = f"--correction {given!r} is unknown; give {', '.join(known[1:])}, or none"
        raise InputError(msg)
    return None if given == "none" else given


def parse_query(given: str | None) -> int | str | None:
    """A number where it is one, else a token."""
    return None if given is None else parse_position(given)


def parse_position(given: str) -> int | str:
    """A position where it is a number, else a token."""
    try:
        return int(given)
    except ValueError:
        return given
