"""The hyperparameters of the verb-number model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MIXTURE = MappingProxyType(
    {"natural": 260, "inner": 52, "attractors": 60, "cut": 60, "corpora": 60, "flipped": 20}
)


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters; two runs of one recipe on a CPU give the same weights.

    Attributes:
        seed: Random seed of the weights, the batches and the dropout.
        steps: Number of optimizer steps.
        mixture: Number of rows of each source in a batch.
        learning_rate: The maximum: a warm-up over the first twentieth, then a cosine to zero.
        weight_decay: AdamW's weight decay, on matrices and embeddings.
        dropout: Dropout in attention, after each part of a block and after the embeddings.
        substitute: The fraction of nouns replaced by another of the same number.
        unknown: The fraction of words replaced by UNK.
        shift: Rows start at a random position up to this one, so that every position is trained
            and the CLS token, not its position, marks the state that is read.
        smoothing: Label smoothing.
        masked: The weight of a second task, predicting masked words; 0 disables it.
        average: The decay of the moving average of the weights, which is what is saved.
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
