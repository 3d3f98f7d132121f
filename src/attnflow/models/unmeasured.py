"""Models without one probability that importance could be measured by: pairs of texts, images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnflow.models.adapter import Tokens
from attnflow.models.outputs import no_probability

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import Edit


class UnmeasuredModel:
    """The methods of a `ModelAdapter` that only importance uses, all of them errors."""

    name: str

    def is_decoder(self, tokens: Tokens) -> bool:
        """It is none: an image is read as a whole, and a pair has an encoder, too."""
        return False

    def decision(self, tokens: Tokens) -> int:
        """Not defined: an answer has many positions, and the label of an image none."""
        raise no_probability(self.name)

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Never: nothing is predicted in place of a token."""
        return False

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """Not defined, as `decision`."""
        raise no_probability(self.name)

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """Not defined, as `decision`."""
        raise no_probability(self.name)

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """Not defined, as `decision`."""
        raise no_probability(self.name)

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """Not defined, as `decision`."""
        raise no_probability(self.name)
