"""Attributions as text for terminals: any width, with colours and without."""

from collections import Counter
from collections.abc import Sequence

from attnflow.views.labels import clip, isolate


def label(token: str, width: int) -> str:
    """A token in at most ``width`` cells that does not move its neighbours."""
    return isolate(clip(token, width))


def distinct_labels(tokens: Sequence[str], width: int) -> list[str]:
    """Labels of tokens; those that occur more than once with their positions: ``the:4``."""
    count = Counter(tokens)
    return [
        label(token, width) + (f":{at}" if count[token] > 1 else "")
        for at, token in enumerate(tokens)
    ]
