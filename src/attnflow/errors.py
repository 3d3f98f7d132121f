"""Everything attnflow raises on purpose.

    AttnflowError
    ├── InputError        an argument is not what it must be   (also a ValueError)
    ├── CaptureError      a model ran, and its attention could not be captured
    ├── ModelError        a model or tokenizer could not be loaded or does not fit the request
    └── MissingExtra      an optional package is needed; the message names its install command

Messages name the value, what is allowed, and what to do next.
"""


class AttnflowError(Exception):
    """Base of every error that attnflow raises on purpose."""


class InputError(AttnflowError, ValueError):
    """An argument is not what it must be."""


class CaptureError(AttnflowError):
    """A model ran, and its attention could not be captured."""


class ModelError(AttnflowError):
    """A model or tokenizer could not be loaded, or does not fit the request."""


class MissingExtra(AttnflowError, ImportError):  # noqa: N818 - it names what is missing
    """An optional package is needed for this."""
