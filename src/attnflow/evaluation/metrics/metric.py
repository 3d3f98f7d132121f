"""A metric: one number for one explanation of one text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores
from attnflow.registry import Registry

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the tokens, as in ERASER (DeYoung et al. 2020)
STEPS = 10  # of a curve, from all tokens to none
Erase = Callable[[Sequence[tuple[int, ...]]], FloatArray]


@dataclass(frozen=True, eq=False)
class Case:
    """One explanation of one text.

    Tokens are those that can be removed (not special ones, nor the mask), counted from 0.

    Attributes:
        scores: One per token. Signed ones count for the target where they are positive.
        value: The target's probability with all tokens.
        erase: The target's probability without each of these sets of tokens.
        reference: The scores of another explanation, for metrics of agreement.
        rationale: Which tokens people marked, for metrics of plausibility.
        seed: The seed of whatever is random for this text, the same for all explanations.
    """

    scores: FloatArray
    value: float
    erase: Erase
    reference: FloatArray | None = None
    rationale: FloatArray | None = None
    seed: int = 0

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return len(self.scores)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Tokens from the highest score to the lowest; ties in the order of the text."""
        return tuple(np.argsort(-round_scores(self.scores), kind="stable").tolist())

    @property
    def sizes(self) -> FloatArray:
        """How important each token is, for or against."""
        return round_scores(np.abs(self.scores))

    def top(self, share: float) -> tuple[int, ...]:
        """The highest share of tokens, at least one."""
        return self.order[: max(1, round(share * self.size))]

    def without(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """All other tokens."""
        left = set(range(self.size)) - set(tokens)
        return tuple(sorted(left))

    @cached_property
    def counts(self) -> list[int]:
        """How many tokens are removed at each step of a curve, from none to all."""
        return sorted({round(self.size * step / STEPS) for step in range(STEPS + 1)})

    def removing(self) -> FloatArray:
        """The probability at each step while the highest tokens are removed."""
        return self.erase([self.order[:count] for count in self.counts])

    def adding(self) -> FloatArray:
        """The probability at each step while the highest tokens are put back, from none on."""
        return self.erase([self.order[count:] for count in self.counts])

    def area(self, curve: FloatArray) -> float:
        """The area under a curve over the share of tokens, by trapezoids."""
        return float(np.trapezoid(curve, np.array(self.counts) / self.size))


@dataclass(frozen=True)
class Metric:
    """A metric by its name.

    Attributes:
        name: What users write.
        title: What tables call it.
        measure: The number; NaN where it is undefined.
        higher: Whether higher is better.
        against: What it needs: ``"filler"``, tokens are removed; ``"reference"``, another
            explanation; ``"rationale"``, what people marked.
    """

    name: str
    title: str
    measure: Callable[[Case], float]
    higher: bool
    against: Literal["filler", "reference", "rationale"] = "filler"


METRICS: Registry[Metric] = Registry(
    "metric",
    "Metric",
    {
        "comprehensiveness": "attnflow.evaluation.metrics.removal:COMPREHENSIVENESS",
        "sufficiency": "attnflow.evaluation.metrics.removal:SUFFICIENCY",
        "aopc": "attnflow.evaluation.metrics.removal:AOPC",
        "deletion": "attnflow.evaluation.metrics.removal:DELETION",
        "insertion": "attnflow.evaluation.metrics.removal:INSERTION",
        "log-odds": "attnflow.evaluation.metrics.removal:LOG_ODDS",
        "infidelity": "attnflow.evaluation.metrics.removal:INFIDELITY",
        "token-f1": "attnflow.evaluation.metrics.references:TOKEN_F1",
        "auprc": "attnflow.evaluation.metrics.references:AUPRC",
        "spearman": "attnflow.evaluation.metrics.references:SPEARMAN",
        "kendall": "attnflow.evaluation.metrics.references:KENDALL",
        "top-k": "attnflow.evaluation.metrics.references:TOP_K",
        "partial": "attnflow.evaluation.metrics.references:PARTIAL",
    },
)
