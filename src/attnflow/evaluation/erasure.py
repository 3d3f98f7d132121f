"""The target's probability without some tokens, for any filler; nothing is computed twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from attnflow.errors import InputError, shown
from attnflow.methods.question import Target, batches_by_length, rows_that_fit, target_values
from attnflow.records import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.models.adapter import ModelAdapter, Tokens

FILLERS = ("unk", "mask", "delete", "mean")
BATCH = 256


@dataclass(frozen=True, eq=False)
class Eraser:
    """One text without sets of its tokens, which are counted among those that can be removed.

    Attributes:
        model: The model.
        tokens: The text.
        target: What is predicted.
        positions: Where the tokens that can be removed stand.
        filler: ``"unk"`` and ``"mask"`` put that token in their places, ``"delete"`` nothing, and
            ``"mean"`` the mean of all word embeddings.
    """

    model: ModelAdapter
    tokens: Tokens
    target: Target
    positions: tuple[int, ...]
    filler: str
    _known: dict[frozenset[int], float] = field(default_factory=dict, init=False)

    def __call__(self, sets: Sequence[tuple[int, ...]]) -> FloatArray:
        """The probability without each set; NaN where nothing would be left to read."""
        wanted = [frozenset(each) for each in sets]
        new = [each for each in dict.fromkeys(wanted) if each not in self._known]
        if new:
            run = self._with_mean if self.filler == "mean" else self._with_filler
            self._known.update(zip(new, run([self._at(each) for each in new]), strict=True))
        return np.array([self._known[each] for each in wanted])

    def _at(self, tokens: frozenset[int]) -> list[int]:
        return sorted(self.positions[each] for each in tokens)

    def _with_filler(self, sets: Sequence[list[int]]) -> list[float]:
        filler = self.model.filler(self.filler)
        deleted = filler.token is None
        found = [float("nan")] * len(sets)
        places = [at for at, each in enumerate(sets) if len(each) < len(self.tokens) or not deleted]
        inputs = [self.model.blank(self.tokens, sets[at], filler) for at in places]
        if not inputs:
            return found
        for part in batches_by_length(inputs, rows_that_fit(self.model, inputs, BATCH)):
            rows = [inputs[each] for each in part]
            at = [self.model.decision(row) if deleted else self.target.position for row in rows]
            for each, value in zip(part, self._values(rows, at), strict=True):
                found[places[each]] = value
        return found

    def _with_mean(self, sets: Sequence[list[int]]) -> list[float]:
        network: Any = self.model
        mean = network.network.get_input_embeddings().weight.detach().mean(0)
        found: list[float] = []
        size = rows_that_fit(self.model, [self.tokens] * 2, BATCH)
        for start in range(0, len(sets), size):
            part = sets[start : start + size]
            erased = torch.zeros(len(part), len(self.tokens), 1, dtype=torch.bool)
            for row, positions in enumerate(part):
                erased[row, positions] = True

            def edit(words: Tensor, erased: Tensor = erased) -> Tensor:
                return torch.where(erased.to(words.device), mean.to(words), words)

            rows = [self.tokens] * len(part)
            found += self._values(rows, [self.target.position] * len(part), edit)
        return found

    def _values(self, rows: Any, positions: Sequence[int], edit: Any = None) -> list[float]:
        with torch.no_grad():
            targets = [self.target] * len(rows)
            return target_values(self.model, rows, positions, targets, edit).tolist()


def check_fillers(model: ModelAdapter, fillers: Sequence[str]) -> None:
    """Refuse fillers that a model does not have."""
    for name in fillers:
        if name not in FILLERS:
            msg = f"replacement={shown(name)} is unknown; allowed: {', '.join(FILLERS)}"
            raise InputError(msg)
        if name != "mean":
            model.filler(name)
        elif not model.edits_words:
            msg = f"replacement='mean' needs a model of one text; {model.name} is another kind"
            raise InputError(msg)
