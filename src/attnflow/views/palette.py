"""The colours of methods: one palette for figures, the terminal and the explorer.

Each method has a slot, and each slot a colour for light paper and one for dark. They have the hues
of Okabe and Ito; how light they are was chosen so that all can be seen on their paper and told
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
    Slot("#c46f9f", "#e8c1d7"),  # reddish purple
    Slot("#785300", "#a06e00"),  # orange
    Slot("#2d5e79", "#3f83aa"),  # sky blue
    Slot("#9a922a", "#f8f3a8"),  # yellow
    Slot("#616161", "#757575"),  # grey
)


AGAINST, IN_FAVOUR = SLOTS[1], SLOTS[2]  # of signed scores: below and above 0


def sign_colour(value: float, *, dark: bool = False) -> str:
    """The colour of scores that speak against what is explained, or in favour of it."""
    slot = AGAINST if value < 0 else IN_FAVOUR
    return slot.dark if dark else slot.light


def slot_of(method: str) -> int:
    """The slot of a method."""
    return method_info(method).slot


def colour_of(method: str, *, dark: bool = False) -> str:
    """The colour of a method, as ``#rrggbb``."""
    slot = SLOTS[slot_of(method) % len(SLOTS)]
    return slot.dark if dark else slot.light
