"""An interactive view that shows itself in notebooks and can be saved as one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnflow.pipeline.session import Session
from attnflow.records import Attribution
from attnflow.records.citations import Citations
from attnflow.records.generation import Generation
from attnflow.views.explorer.attribution import attribution_view
from attnflow.views.explorer.citations import citations_document
from attnflow.views.explorer.document import STANDALONE, first_method, make_document, make_view
from attnflow.views.explorer.generation import generation_document
from attnflow.views.explorer.notebook import draw_picture, to_bundle
from attnflow.views.explorer.render import AnyDocument, height_of, render, save


@dataclass(frozen=True, eq=False)
class Exploration:
    """An interactive view: it shows itself in notebooks, and `save` writes it as one HTML file.

    Attributes:
        document: The data that the page shows; plain JSON, see `attnflow.views.explorer.schema`.
        drawn: What a notebook draws where scripts do not run; ``None`` draws nothing.
    """

    document: AnyDocument = field(repr=False)
    drawn: Callable[[], Attribution | Generation] | None = field(default=None, repr=False)

    @property
    def html(self) -> str:
        """The whole page as text: self-contained, works from disk and offline."""
        return render(self.document, self._title)

    @property
    def _title(self) -> str:
        text = " ".join(_text(self.document).split())
        return f"{text[:60]} · attnflow"

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page as one HTML file."""
        return save(self.document, path, self._title, overwrite=overwrite)

    def _repr_html_(self) -> str:
        shown: str = self._repr_mimebundle_()["text/html"]
        return shown

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        picture = None if self.drawn is None else draw_picture(self.drawn())
        return to_bundle(self.html, height_of(self.document), picture)


def _text(document: AnyDocument) -> str:
    """What a document is about."""
    if "generation" in document:
        return document["generation"]["answer_text"]
    if "citations" in document:
        return "".join(each["text"] for each in document["citations"]["sentences"])
    return document["views"][0]["text"]


def exploration_of_answer(generation: Generation) -> Exploration:
    """The view of a whole answer: prompt and answer side by side."""
    return Exploration(generation_document(generation), lambda: generation)


def exploration_of_citations(citations: Citations) -> Exploration:
    """The view of citations: the answer and its sources side by side."""
    return Exploration(citations_document(citations))


def explore_sessions(sessions: Sequence[Session], images: Sequence[str | None] = ()) -> Exploration:
    """The view of one session, or of two side by side; ``images`` are data URLs of their images."""
    config = sessions[0].config
    urls = images or [None] * len(sessions)
    pairs = zip(sessions, urls, strict=True)
    views = [make_view(session, STANDALONE, image=image) for session, image in pairs]
    document = make_document(views, first_method(sessions[0]), words=config.words)
    of_text = len(sessions) == 1 and sessions[0].tokens.grid is None
    return Exploration(document, sessions[0].attribution if of_text else None)


def exploration_of(attribution: Attribution) -> Exploration:
    """The view of an attribution: its own method at its layers and positions."""
    view = attribution_view(attribution)
    document = make_document([view], view["methods"][0]["name"])
    return Exploration(document, None if attribution.grid else lambda: attribution)
