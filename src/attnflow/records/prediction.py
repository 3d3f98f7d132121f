"""What a model predicts."""

from __future__ import annotations

from dataclasses import dataclass

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
        checks.check_alternatives([(self.label, self.probability), *self.alternatives])
        if self.position is not None:
            checks.check_number("the prediction's position", self.position, 0)
