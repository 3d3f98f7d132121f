"""Another answer to the same prompt, which an answer is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnflow.records import checks


@dataclass(frozen=True)
class Contrast:
    """An answer that was not given, and how likely it was.

    Attributes:
        text: The answer.
        tokens: Its tokens.
        shared: How many of them are those that the given answer begins with. The choice between
            the two is made at the token behind them.
        log_probabilities: Of its tokens.
        drops: By how much the log-probability of all of it falls without each named part of the
            prompt; ``None`` where nothing was deleted.
        without_sources: The same without all sources.
    """

    text: str
    tokens: tuple[str, ...]
    shared: int
    log_probabilities: tuple[float, ...]
    drops: tuple[float, ...] | None = None
    without_sources: float | None = None

    def __post_init__(self) -> None:
        checks.check_text("the contrast's text", self.text)
        count = len(checks.check_texts("the contrast's tokens", self.tokens))
        checks.check_number("shared", self.shared, 0, count - 1)

    @property
    def log_probability(self) -> float:
        """Of all its tokens together."""
        return sum(self.log_probabilities)

    @property
    def probability(self) -> float:
        """How likely it was to be written instead."""
        return math.exp(self.log_probability)
