"""What a model predicts without some of its input, for the input of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from attnflow.errors import InputError
from attnflow.models.outputs import rank_outputs
from attnflow.pipeline.measured import probabilities_without
from attnflow.records import Prediction
from attnflow.records.selection import Groups

if TYPE_CHECKING:
    from torch import Tensor

    from attnflow.pipeline.session import Session

BLANK_BATCH = 16


@dataclass(frozen=True, eq=False)
class Blanking:
    """The predictions of a session's model on its input with tokens blanked out.

    ``_without`` belongs to the session: the probabilities that were computed before.
    """

    session: Session
    _without: dict[tuple[int, ...], Tensor]

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The positions that can be blanked out to see the prediction without them."""
        session = self.session
        return tuple(session.adapter.blankable(session.tokens, session.query))

    @property
    def filler(self) -> str | None:
        """What replaces a blanked token; ``None`` where there is no prediction to change."""
        session = self.session
        return None if session.prediction is None else session.adapter.filler().label

    @property
    def known(self) -> bool:
        """Whether the model has run without each token already."""
        return len(self._without) > 1

    def without(self, groups: Groups) -> dict[tuple[int, ...], Tensor]:
        """The probabilities without each of these groups, and of the whole input at ``()``.

        They are kept, so that `predict` need not run the model again. What a masked language model
        predicts can't be removed, and is left out.
        """
        missing = tuple(group for group in ((), *groups) if group not in self._without)
        if missing:
            self._without.update(probabilities_without(self.session, missing))
        return self._without

    def predict(
        self, sets: Sequence[Sequence[int]], check: Callable[[], None] | None = None
    ) -> Iterator[Prediction | None]:
        """The model's prediction without each of these sets of tokens."""
        session, adapter = self.session, self.session.adapter
        filler = adapter.filler()
        if session.prediction is None:
            msg = f"{adapter.name} predicts nothing here, so blanking a token changes nothing"
            raise InputError(msg)
        for positions in sets:
            refused = sorted(set(positions) - set(self.positions))
            if refused:
                msg = f"positions={refused} cannot be blanked; allowed: {list(self.positions)}"
                raise InputError(msg)
        known = [tuple(sorted(positions)) for positions in sets]
        if all(positions in self._without for positions in known):
            yield from (self._said(self._without[positions]) for positions in known)
            return
        blanked = [adapter.blank(session.tokens, positions, filler) for positions in sets]
        size = BLANK_BATCH if adapter.batchable(blanked) else 1
        for start in range(0, len(sets), size):
            if check is not None:
                check()
            part = blanked[start : start + size]
            queries = [session.query] * len(part)
            if session.measurable:
                with torch.no_grad():
                    yield from map(self._said, adapter.probabilities(part, queries))
            else:
                yield from adapter.predict(part, queries)

    @property
    def _predicted(self) -> int:
        """The number of the label or token that is predicted: several may have the same name."""
        if () not in self._without:
            session = self.session
            with torch.no_grad():
                (row,) = session.adapter.probabilities([session.tokens], [session.query])
            self._without[()] = row
        return int(self._without[()].argmax())

    def _said(self, probabilities: Tensor) -> Prediction:
        """A prediction without some tokens; what was predicted with them is always among it."""
        before = self.session.prediction
        found = rank_outputs(
            probabilities,
            self.session.adapter.output_name,
            None if before is None else before.position,
        )
        if before is None or before.label in dict(found.alternatives):
            return found
        kept = float(probabilities[self._predicted])
        return replace(found, alternatives=(*found.alternatives, (before.label, kept)))
