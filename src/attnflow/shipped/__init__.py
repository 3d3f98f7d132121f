"""The models that come with the package, by name: one folder each, and one card for all."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(each.parent.name for each in FOLDER.glob("*/config.json")))
"""What ``load_model`` and ``--model`` take."""
DEFAULT = "sentiment"
"""The one that answers when none is named."""
OWNER = "attnflow/"
"""In front of a name, it means the shipped model and nothing else."""


def find_shipped(name: str) -> Path | None:
    """The folder of a shipped model, by its short or full name; ``None`` for other names.

    >>> find_shipped("verbs") == find_shipped("attnflow/verbs") == folder_of("verbs")
    True
    >>> find_shipped("./verbs")
    """
    short = name.removeprefix(OWNER)
    return folder_of(short) if short in NAMES else None


def folder_of(name: str) -> Path:
    """The folder of the shipped model of this name."""
    return FOLDER / name


def full_name(name: str) -> str:
    """What a shipped model is called in results.

    >>> full_name("verbs")
    'attnflow/verbs'
    """
    return OWNER + name.removeprefix(OWNER)
