"""Blanking as a check of other methods, where it costs little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.measures.blank_out import MEMBER

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution

MOST_WORK = 3 * 10**10  # multiplications: about a second on two cores
FEWEST = 3  # tokens: of fewer, any two rankings agree or don't by chance


def check_by_blanking(session: Session) -> Attribution | None:
    """The blank-out of a session's input; ``None`` where it is costly or asks something else.

    Blanking runs the model once for each token.
    """
    config, adapter = session.config, session.adapter
    work = int(adapter.description.get("parameters", MOST_WORK)) * session.size * session.size
    chosen = config.query not in (None, "all") or config.heads == "each"
    top = config.resolve_layers(session.depth)[1] == session.depth
    text = adapter.kind == "text" and session.tokens.grid is None
    comparable = text and session.prediction is not None and top and not chosen
    if not comparable or work > MOST_WORK or len(session.blankable) < FEWEST:
        return None
    return session.attribution(MEMBER.name)
