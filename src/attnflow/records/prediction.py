"""What a model predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnflow.errors import InputError, shown
from attnflow.records.checks import check_number, check_real, check_text

ROUNDING = 1e-6


@dataclass(frozen=True)
class Prediction:
    """The model's prediction: a label or a token, and its probability.

    Attributes:
        label: The most likely label or token.
        probability: Its probability.
        alternatives: The most likely ones with their probabilities, ``label`` first.
        position: The token the prediction was made at; ``None`` for a label of the whole input.
    """

    label: str
    probability: float
    alternatives: tuple[tuple[str, float], ...] = ()
    position: int | None = None

    def __post_init__(self) -> None:
        for each in ((self.label, self.probability), *self.alternatives):
            if not (isinstance(each, tuple) and len(each) == 2):
                msg = f"alternatives hold {shown(each)}; they must be (label, probability)"
                raise InputError(msg)
            if type(each[0]) is not str:
                check_text("label", each[0])
            _check_probability(*each)
        if self.position is not None:
            check_number("the prediction's position", self.position, 0)


def _check_probability(label: str, given: object) -> None:
    """A probability, which rounding may leave a little outside 0 to 1; a model may give NaN."""
    if type(given) is float and (0 <= given <= 1 or math.isnan(given)):
        return
    if isinstance(given, np.floating) and math.isnan(given):
        return
    value = check_real(f"the probability of {shown(label)}", given)
    if not -ROUNDING <= value <= 1 + ROUNDING:
        msg = f"the probability of {shown(label)} is {value:g}; it must be from 0 to 1"
        raise InputError(msg)
