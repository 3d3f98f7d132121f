"""Values of options from the text that is written behind their flags."""

from __future__ import annotations

from typing import Any

from attnflow.errors import InputError, did_you_mean


def parse_layers(given: str) -> Any:
    """``all`` as it is; ``1,3`` as layer numbers."""
    if given == "all":
        return given
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        msg = f"--layers {given!r} is unknown; give all, or numbers such as 1,3,6"
        raise InputError(msg) from None


def parse_heads(given: str) -> Any:
    """Names and files as they are; ``0,3`` as head numbers."""
    if given in ("mean", "each") or given.endswith(".json"):
        return given
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        known = "mean, each, numbers such as 0,3, or a .json file of attnflow fit"
        msg = f"--heads {given!r} is unknown; give {known}"
        raise InputError(msg) from None


def parse_correction(given: str) -> str | None:
    """``none`` is the plain method."""
    known = ("auto", "uniform", "sink")
    if given not in (*known, "none"):
        near = did_you_mean(given, known)
        msg = f"--correction {given!r} is unknown; {near}give {', '.join(known[1:])}, or none"
        raise InputError(msg)
    return None if given == "none" else given


def parse_position(given: str) -> int | str:
    """A position where it is a number, else a token."""
    try:
        return int(given)
    except ValueError:
        return given


def parse_device(given: str) -> str | None:
    """``auto`` leaves it to the model."""
    return None if given == "auto" else given
