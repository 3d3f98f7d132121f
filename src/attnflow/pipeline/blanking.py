"""What a model predicts without some of its input, for the input of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

from attnflow.errors import InputError
from attnflow.methods.erasing import Eraser, erase, read_probabilities, removable
from attnflow.methods.question import no_progress
from attnflow.models.outputs import find_outputs, rank_outputs
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
    _without: dict[frozenset[int], Tensor]

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

    @cached_property
    def _eraser(self) -> Eraser[Tensor]:
        session, model = self.session, self.session.adapter
        position = session.target_position if session.measurable else session.query
        return Eraser(
            model,
            session.tokens,
            model.filler(),
            read_probabilities(model, position),
            known=self._without,
        )

    def without(self, groups: Groups) -> dict[tuple[int, ...], Tensor]:
        """The probabilities without each of these groups, and of the whole input at ``()``.

        They are kept, so that `predict` need not run the model again. What a masked language model
        predicts can't be removed, and is left out.
        """
        session = self.session
        able = set(removable(session.adapter, session.tokens, range(session.size)))
        kept = {group: [at for at in group if at in able] for group in groups}
        sets = {(): [], **{group: removed for group, removed in kept.items() if removed}}
        return dict(zip(sets, self._eraser.without(sets.values()), strict=True))

    def predict(
        self, sets: Sequence[Sequence[int]], check: Callable[[], None] | None = None
    ) -> list[Prediction | None]:
        """The model's prediction without each of these sets of tokens."""
        return [said for said, _ in self.compare(sets, check)]

    def compare(
        self, sets: Sequence[Sequence[int]], check: Callable[[], None] | None = None
    ) -> list[tuple[Prediction | None, float | None]]:
        """The prediction without each of these sets of tokens, and how far the answer changes.

        The change is that of the target's probability, or of its share against the contrast;
        ``None`` where it is not known.
        """
        session, model = self.session, self.session.adapter
        filler = model.filler()
        if session.prediction is None:
            msg = f"{model.name} predicts nothing here, so blanking a token changes nothing"
            raise InputError(msg)
        for positions in sets:
            refused = sorted(set(positions) - set(self.positions))
            if refused:
                msg = f"positions={refused} cannot be blanked; allowed: {list(self.positions)}"
                raise InputError(msg)
        advance = no_progress if check is None else lambda _: check()
        advance(0.0)
        known = all(frozenset(each) in self._without for each in sets)
        if known or session.measurable:
            # What clients ask for is not kept: it may be any number of sets.
            own = replace(self._eraser, batch_size=BLANK_BATCH, known=dict(self._without))
            before, whole = session.prediction, self._share(self._whole)
            rows = own.without(sets, advance)
            return [(self._said(row, before), self._share(row) - whole) for row in rows]
        query = session.query
        found = erase(
            model,
            [(session.tokens, sorted(each)) for each in sets],
            filler,
            lambda _, erased, __: model.predict(erased, [query] * len(erased)),
            batch_size=BLANK_BATCH,
            advance=advance,
        )
        return [(said, self._change(said)) for said in found]

    @cached_property
    def _name(self) -> Callable[[int], str]:
        return cache(self.session.adapter.output_name)

    @cached_property
    def _whole(self) -> Tensor:
        """The probabilities with all tokens."""
        (whole,) = self._eraser.without([()])
        return whole

    @cached_property
    def _outputs(self) -> tuple[int, int | None]:
        """The numbers of the target and the contrast: several outputs may have the same name."""
        return find_outputs(self.session.adapter, self.session.objective, self._whole)

    def _share(self, probabilities: Tensor) -> float:
        """The target's probability, or its share of its own and the contrast's."""
        target, contrast = self._outputs
        likely = float(probabilities[target])
        if contrast is None:
            return likely
        both = likely + float(probabilities[contrast])
        return likely / both if both else 0.0

    def _change(self, said: Prediction | None) -> float | None:
        """The change of what was predicted, by its name."""
        before, objective = self.session.prediction, self.session.objective
        if said is None or before is None or (objective.target, objective.contrast) != (None, None):
            return None
        now = dict(said.alternatives).get(before.label)
        return None if now is None else now - before.probability

    def _said(self, probabilities: Tensor, before: Prediction) -> Prediction:
        """A prediction without some tokens; what was predicted with them is always among it."""
        found = rank_outputs(probabilities, self._name, before.position)
        if before.label in dict(found.alternatives):
            return found
        kept = float(probabilities[int(self._whole.argmax())])
        return replace(found, alternatives=(*found.alternatives, (before.label, kept)))
