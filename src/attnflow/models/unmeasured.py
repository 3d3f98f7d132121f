"""Models without one decision that importance could be measured by: pairs of texts, images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from attnflow.models.adapter import Tokens
from attnflow.models.capture import run as network
from attnflow.models.outputs import no_probability, to_probabilities

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import Edit
    from attnflow.models.capture.towards import ItemRelevance
    from attnflow.records import Prediction


class UnmeasuredModel(ABC):
    """The methods of a `ModelAdapter` that only importance uses: errors, but for the outputs."""

    name: str
    network: Any

    @abstractmethod
    def inputs(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """What the network is called with."""

    @abstractmethod
    def _labels_inputs(self) -> bool:
        """Whether the head says labels of whole inputs."""

    @abstractmethod
    def _logits(self, output: Any, item: int, tokens: Tokens, at: int) -> Tensor | None:
        """Of all labels, or of all tokens at a position; ``None`` where nothing is said there."""

    @abstractmethod
    def _prediction(self, output: Any, item: int, tokens: Tokens, at: int) -> Prediction | None:
        """What is predicted of one item, or at its position."""

    def predict(self, batch: Sequence[Tokens], positions: Sequence[int]) -> list[Prediction | None]:
        """The labels of inputs, or what is said at positions."""
        output = self._output(batch)
        pairs = enumerate(zip(batch, positions, strict=True))
        return [self._prediction(output, item, tokens, at) for item, (tokens, at) in pairs]

    def _output(self, batch: Sequence[Tokens]) -> Any:
        """What the network returns, without watching it."""
        with torch.no_grad():
            return network.called(network.in_eval_mode(self.network), self.inputs(batch))

    def is_decoder(self, tokens: Tokens) -> bool:
        """It is none: an image is read as a whole, and a pair has an encoder, too."""
        return False

    def decision(self, tokens: Tokens) -> int:
        """Not defined: an answer has many positions, and the label of an image none."""
        raise no_probability(self.name)

    def predicts_at(self, tokens: Tokens, position: int) -> bool:
        """Never: nothing is predicted in place of a token."""
        return False

    @property
    def labels_of(self) -> Any:
        """The network's configuration where outputs are labels of a whole input; else ``None``."""
        return self.network.config if self._labels_inputs() else None

    def logits(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """For each input the logits of all labels, or of all tokens at its position."""
        if edit is not None:
            raise no_probability(self.name)
        output = self._output(batch)
        rows = [
            self._logits(output, item, tokens, at)
            for item, (tokens, at) in enumerate(zip(batch, positions, strict=True))
        ]
        known = [row for row in rows if row is not None]
        if len(known) < len(rows):
            raise no_probability(self.name)
        return torch.stack(known).double()

    def probabilities(
        self, batch: Sequence[Tokens], positions: Sequence[int], edit: Edit | None = None
    ) -> Tensor:
        """The logits as probabilities."""
        logits = self.logits(batch, positions, edit)
        return to_probabilities(logits, self.labels_of, self.name)

    def relevance(
        self, tokens: Tokens, position: int, target: int, contrast: int | None = None
    ) -> ItemRelevance:
        """Not defined, as `decision`; edges of relevance are read by `run`."""
        raise no_probability(self.name)

    def row_bytes(self, length: int, *, gradients: bool = False) -> int:
        """Not defined, as `decision`."""
        raise no_probability(self.name)

    def output_indices(self, target: str | int) -> tuple[int, ...]:
        """Not defined, as `decision`."""
        raise no_probability(self.name)
