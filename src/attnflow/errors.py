"""Everything attnflow raises on purpose.

    AttnflowError
    ├── InputError        an argument is not what it must be   (also a ValueError)
    │   └── UnknownKeyword  a function has no argument of that name   (also a TypeError)
    ├── CaptureError      a model ran, and its attention could not be captured
    ├── ModelError        a model or tokenizer could not be loaded or does not fit the request
    ├── CertificateError  a computed result failed its own proof and is not returned
    └── MissingExtra      an optional package is needed; the message names its install command

    Interrupted           work was interrupted (also a KeyboardInterrupt); it has what was finished

Messages name the value, what is allowed, and what to do next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any


class AttnflowError(Exception):
    """Base of every error that attnflow raises on purpose."""


class InputError(AttnflowError, ValueError):
    """An argument is not what it must be."""


class UnknownKeyword(InputError, TypeError):  # noqa: N818 - it names what is unknown
    """A function has no argument of that name."""


class CaptureError(AttnflowError):
    """A model ran, and its attention could not be captured."""


class ModelError(AttnflowError):
    """A model or tokenizer could not be loaded, or does not fit the request."""


class CertificateError(AttnflowError):
    """A computed result failed its own proof, and is not returned."""


class MissingExtra(AttnflowError, ImportError):  # noqa: N818 - it names what is missing
    """An optional package is needed for this."""


class Interrupted(KeyboardInterrupt):
    """Work was interrupted, by Ctrl+C, and some of it is finished.

    Attributes:
        found: The results so far; of the last one a part.
    """

    def __init__(self, found: Sequence[Any]) -> None:
        super().__init__(
            "the explanation was interrupted; what was finished is in the exception: "
            "sys.last_value.found, or except attnflow.errors.Interrupted as stopped: stopped.found"
        )
        self.found = list(found)


LONGEST_SHOWN = 200


def unknown(name: str, value: object, allowed: Iterable[str], *others: str) -> str:
    """What is wrong with a value that is none of those allowed, and which may have been meant.

    ``others`` are further things that are allowed, in words.
    """
    known = list(allowed)
    listed = ", ".join([*known, *others])
    return f"{name}={shown(value)} is unknown; {did_you_mean(value, known)}allowed: {listed}"


def did_you_mean(value: object, allowed: Iterable[str]) -> str:
    """A question about the nearest of the values that are allowed, if one is near.

    >>> did_you_mean("positve", ["negative", "positive"])
    "did you mean 'positive'? "
    """
    near = get_close_matches(value, list(allowed), n=1) if isinstance(value, str) else []
    return f"did you mean {near[0]!r}? " if near else ""


def shown(value: object) -> str:
    """A value as errors show it: on one line, not too long, and whatever its type."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, TypeError, RuntimeError):  # Python writes no integer of 4,300 digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
