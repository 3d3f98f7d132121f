"""Loading a model and opening sessions, with a status line or a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from attnflow.cli.inputs import Item, check_texts
from attnflow.cli.streams import show_status, show_work

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.pipeline.request import Request
    from attnflow.pipeline.session import Session
    from attnflow.records import Attribution
    from attnflow.views.wording.summaries import Summary

MANY = 20  # from this many texts on, a progress bar is shown


def sessions(
    texts: Sequence[Item],
    model: Source,
    config: Request,
    *,
    answer: str | None = None,
    all_heads: bool = False,
) -> Iterator[tuple[int, Session]]:
    """The sessions of texts, each with its place among them, as they are computed."""
    from attnflow.io.progress import progress_bar
    from attnflow.models.loading import load_model

    with show_status("loading the model"):
        loaded = load_model(model)
    # These are heavy: not before the model is found.
    from attnflow.methods.question import no_progress
    from attnflow.pipeline.prepare import open_sessions, prepare

    check_texts(texts, loaded)
    terminal = sys.stderr.isatty()
    with_bar = terminal and len(texts) >= MANY
    # One bar at a time: of the texts where there are many, of the work on one where there are few.
    config = replace(config, progress=terminal > with_bar)
    inside: Callable[[float], None] = no_progress
    with progress_bar("explaining", len(texts), shown=with_bar) as advance:
        pairs = open_sessions(
            prepare(config, loaded, texts, answers=answer),
            all_heads=all_heads,
            progress=lambda share: inside(share),
        )
        for done in count(1):
            with nullcontext(no_progress) if with_bar else show_work("explaining") as inside:
                pair = next(pairs, None)
            if pair is None:
                return
            yield pair
            advance(done)


def one_session(
    text: Item,
    model: Source,
    config: Request,
    *,
    answer: str | None = None,
    all_heads: bool = False,
) -> Session:
    """The session of one text."""
    ((_, session),) = sessions([text], model, config, answer=answer, all_heads=all_heads)
    return session


def attributions(session: Session, methods: Sequence[str]) -> list[Attribution]:
    """The attributions of several methods from one forward pass."""
    return together([(session, method) for method in methods])


def together(pairs: Sequence[tuple[Session, str]]) -> list[Attribution]:
    """The attributions of methods, each of its session; a bar where one takes long."""
    from attnflow.io.progress import progress_bar

    found = []
    for session, method in pairs:
        shown = session.config.progress
        with progress_bar(method, 1, shown=shown, share=True) as advance:
            found.append(session.attribution(method, advance))
    return found


def summarize(
    session: Session, attributions: Sequence[Attribution], *, few: bool, page: bool = False
) -> Summary:
    """What the methods found; for a few texts, checked by blanking where that is cheap.

    A ``page`` that is made, too, has predictions without each token of longer texts.
    """
    from attnflow.views.explorer.document import STANDALONE
    from attnflow.views.wording import summaries

    tokens = STANDALONE.blanks if page else 0
    return summaries.summarize(session, attributions, blank=few, tokens=tokens)


def caption(session: Session, attributions: Sequence[Attribution]) -> str:
    """What a figure's main method found, with its evidence."""
    from attnflow.views.figures.axes import describe

    found = summarize(session, attributions, few=True)
    return describe(found.main, attributions[found.each.index(found.main)])
