"""Blanking as a check of other methods, where it costs little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from attnflow.evaluation.importance import make_attribution
from attnflow.measures.blank_out import MEMBER
from attnflow.measures.question import Target
from attnflow.pipeline.measured import target_position

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution

MOST_WORK = 3 * 10**10  # multiplications: about a second on two cores
FEWEST = 3  # tokens: of fewer, any two rankings agree or don't by chance


def is_cheap(adapter: ModelAdapter, tokens: int) -> bool:
    """Whether a model runs on so many tokens, once without each, in about a second."""
    return int(adapter.description.get("parameters", MOST_WORK)) * tokens**2 <= MOST_WORK


def check_by_blanking(session: Session) -> Attribution | None:
    """The blank-out of a session's input; ``None`` where it is costly or asks something else.

    Blanking runs the model once for each token.
    """
    config, adapter = session.config, session.adapter
    chosen = config.query not in (None, "all") or config.heads == "each"
    top = config.resolve_layers(session.depth)[1] == session.depth
    text = adapter.kind == "text" and session.tokens.grid is None
    comparable = text and session.prediction is not None and top and not chosen
    cheap = is_cheap(adapter, session.size)
    if not comparable or not cheap or len(session.blanking.positions) < FEWEST:
        return None
    if not session.measurable:
        return None
    objective = session.objective
    if config.words or objective.contrast is not None:
        return session.attribution(MEMBER.name)
    # One run for this and for all who ask later what is predicted without a token.
    rows = session.blanking.each()
    whole = rows[None]
    index = int(whole.argmax())
    if objective.target is not None:
        index = adapter.output_index(objective.target)
    change = [float(whole[index] - rows.get(at, whole)[index]) for at in range(session.size)]
    name, position = adapter.output_name(index), target_position(session)
    target = Target(index, name, position, session.prediction)
    return make_attribution(adapter, session.tokens, target, np.abs(change), MEMBER.name, {}, {})
