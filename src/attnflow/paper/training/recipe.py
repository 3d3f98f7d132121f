"""Every number of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MIXTURE = MappingProxyType(
    {"natural": 260, "inner": 52, "attractors": 60, "cut": 60, "corpora": 60, "flipped": 20}
)


@dataclass(frozen=True)
class Recipe:
    """What a run does; two runs of one recipe on a CPU give the same weights.

    Attributes:
        seed: Of the weights, the batches and the dropout.
        steps: Optimiser steps.
        mixture: Rows of each source in a batch.
        learning_rate: The highest; warmed up over the first twentieth, then a cosine to zero.
        weight_decay: Of AdamW, on matrices and embeddings.
        dropout: In attention, after each part of a block and after the embeddings.
        substitute: The share of nouns exchanged for another of the same number.
        unknown: The share of words shown as UNK.
        shift: Rows begin at a random position up to this one, so that every position is learnt and
            the CLS token, not its place, marks the state that is read.
        smoothing: Of the labels.
        masked: The weight of a second task, naming masked words; 0 leaves it out.
        average: The decay of the moving average of the weights, which is what is kept.
    """

    seed: int = 0
    steps: int = 6_000
    mixture: Mapping[str, int] = field(default_factory=lambda: dict(MIXTURE))
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    dropout: float = 0.1
    substitute: float = 0.3
    unknown: float = 0.0
    shift: int = 0
    smoothing: float = 0.0
    masked: float = 0.0
    average: float = 0.999
