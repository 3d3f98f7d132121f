"""The colours of methods: one palette for figures, the terminal and the explorer.

Each method has a slot, and each slot a colour for light paper and one for dark. They are those of
Okabe and Ito, darker or lighter where the original would be too faint on its paper: all can be told
apart with any kind of colour vision.
"""

from __future__ import annotations

from typing import NamedTuple

from attnflow.views.methods import method_info


class Slot(NamedTuple):
    """A colour, as ``#rrggbb``, on light and on dark paper."""

    light: str
    dark: str


SLOTS = (
    Slot("#009e73", "#2fbf96"),  # bluish green
    Slot("#0072b2", "#56b4e9"),  # blue
    Slot("#d55e00", "#f28e3c"),  # vermilion
    Slot("#b25690", "#e39cc6"),  # reddish purple
    Slot("#bd7b00", "#e6b93c"),  # orange
    Slot("#3a94cc", "#a9d8f5"),  # sky blue
    Slot("#6f6a00", "#f0e442"),  # yellow
    Slot("#4a4f57", "#c8ced6"),  # grey
)


def slot_of(method: str) -> int:
    """The slot of a method."""
    return method_info(method).slot


def colour_of(method: str, *, dark: bool = False) -> str:
    """The colour of a method, as ``#rrggbb``."""
    slot = SLOTS[slot_of(method) % len(SLOTS)]
    return slot.dark if dark else slot.light
