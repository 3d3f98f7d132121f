"""Colours: which one a method or a sign has, and what sets the scale; for all views.

Each method has a slot, and each slot a colour for light paper and one for dark, in shades that can
be seen on their paper and told apart with any kind of colour vision. Signs have the blue and the
vermilion of Okabe and Ito, and no method has their hues.

A scale goes from 0 to the highest score of an ordinary token at the layer that is explained.
Special tokens are attention sinks, and the residual connection favours the position that is
explained: both would leave all other tokens pale.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnflow.records import Attribution, FloatArray
from attnflow.views.wording.names import method_info


class Slot(NamedTuple):
    """A colour, as ``#rrggbb``, on light and on dark paper."""

    light: str
    dark: str


SLOTS = (
    Slot("#009e73", "#2fbf96"),  # green
    Slot("#683ccc", "#7b5ad4"),  # violet
    Slot("#512143", "#eac0c9"),  # plum
    Slot("#843a7c", "#ac4ba9"),  # purple
    Slot("#bb699c", "#db9ec6"),  # pink
    Slot("#29421b", "#607f44"),  # dark green
    Slot("#9b9352", "#d8d4b4"),  # olive
    Slot("#606060", "#868686"),  # grey
)

AGAINST = Slot("#0072b2", "#56b4e9")  # blue: signed scores below 0
IN_FAVOUR = Slot("#d55e00", "#f28e3c")  # vermilion: those above 0


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


def ordinary_patches(of: Attribution) -> list[int]:
    """Among the patches of an input, those that set the scale: not the explained one."""
    segments = of.segments or ()
    patches = [at for at, segment in enumerate(segments) if segment == "patch"]
    ordinary = set(ordinary_positions(of))
    kept = [place for place, at in enumerate(patches) if at in ordinary]
    return kept or list(range(len(patches)))


def ordinary_positions(of: Attribution) -> list[int]:
    """Positions without special tokens and the explained one; all if fewer than two remain."""
    own = None if of.pooled else of.query
    places = [at for at in of.ordinary if at != own]
    return places if len(places) > 1 else list(range(len(of.tokens)))


def scale_setters(of: Attribution) -> str:
    """The tokens that set the scale, in words."""
    return "all tokens" if len(ordinary_positions(of)) == len(of.tokens) else "ordinary tokens"


def colour_top(of: Attribution) -> float:
    """The score that tops a scale: the highest of ordinary tokens at the explained layer."""
    return top_of(of, of.values)


def top_of(of: Attribution, values: FloatArray) -> float:
    """The highest of these scores ``[…, key]`` of ordinary tokens; 1 where all are 0.

    Of scores with signs it is the largest.
    """
    sizes: FloatArray = np.abs(values)
    return float(sizes[..., ordinary_positions(of)].max()) or float(sizes.max()) or 1.0
