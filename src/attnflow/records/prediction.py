"""What a model predicts."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.errors import InputError, shown
from attnflow.records import checks


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
        checks.check_text("label", self.label)
        checks.check_probability(self.label, self.probability)
        for each in self.alternatives:
            if not (isinstance(each, tuple) and len(each) == 2):
                msg = f"alternatives hold {shown(each)}; they must be (label, probability)"
                raise InputError(msg)
            checks.check_probability(checks.check_text("label", each[0]), each[1])
        if self.position is not None:
            checks.check_number("the prediction's position", self.position, 0)
