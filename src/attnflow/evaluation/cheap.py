"""Blanking as a check of other methods, where it costs little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnflow.evaluation.blank_out import REPLACEMENTS, blank_out

if TYPE_CHECKING:
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution

MOST_WORK = 3 * 10**10  # multiplications: about a second on two cores


def check_by_blanking(session: Session) -> Attribution | None:
    """The blank-out of a session's input; ``None`` where it is costly or asks something else.

    Blanking runs the model once for each token.
    """
    config, adapter = session.config, session.adapter
    work = int(adapter.description.get("parameters", MOST_WORK)) * session.size * session.size
    asked = config.query not in (None, "all") or config.words or config.heads == "each"
    top = config.resolve_layers(session.depth)[1] == session.depth
    comparable = adapter.kind == "text" and session.prediction is not None and top and not asked
    if not comparable or work > MOST_WORK or len(session.blankable) < 3:
        return None
    usual = adapter.filler().name
    found = blank_out(
        session.tokens.text,
        adapter,
        replacement=usual if usual in REPLACEMENTS else "pad",
        target=config.target,
        contrast=config.contrast,
    )
    return found if found.tokens == session.tokens.names else None
