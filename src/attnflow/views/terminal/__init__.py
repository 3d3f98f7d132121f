"""Attributions as text for terminals: any width, with colours and without."""

from collections import Counter
from collections.abc import Sequence

from attnflow.views.labels import clip, isolated


def label(token: str, width: int) -> str:
    """A token in at most ``width`` cells that leaves its neighbours where they are."""
    return isolated(clip(token, width))


def distinct(tokens: Sequence[str], width: int) -> list[str]:
    """Labels of tokens; those that occur more than once with their positions: ``the:4``."""
    count = Counter(tokens)
    return [
        label(token, width) + (f":{at}" if count[token] > 1 else "")
        for at, token in enumerate(tokens)
    ]
