"""`explore`: text in, the interactive view out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.pipeline.session import Choices, study
from attnflow.records import Attribution
from attnflow.views.explorer.document import ALONE, attribution_view, document, view_of
from attnflow.views.explorer.images import picture
from attnflow.views.explorer.render import framed, render, save
from attnflow.views.explorer.schema import Document

if TYPE_CHECKING:
    from attnflow.models.adapter import Query
    from attnflow.models.loading import Source


@dataclass(frozen=True, eq=False)
class Exploration:
    """An interactive view: it shows itself in notebooks, and `save` writes it as one HTML file.

    Attributes:
        document: The data that the page shows; plain JSON, see `attnflow.views.explorer.schema`.
    """

    document: Document

    @property
    def html(self) -> str:
        """The whole page as text: self-contained, works from disk and offline."""
        return render(self.document, self._title)

    @property
    def _title(self) -> str:
        text = " ".join(self.document["views"][0]["text"].split())
        return f"{text[:60]} · attnflow"

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page as one HTML file."""
        return save(self.document, path, self._title, overwrite=overwrite)

    def _repr_html_(self) -> str:
        return framed(self.html)


def explore(  # noqa: PLR0913 - one keyword an option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    compare: Any = None,
    method: str = "flow",
    layer: int = -1,
    query: Query = None,
    words: bool = False,
    residual: float | None = None,
    discard: float = 0.0,
    correction: str | None = "auto",
    target: str | None = None,
    truncate: bool = False,
) -> Exploration:
    """The explorer's view of a text: all methods, layers, heads, routes and blanked-out tokens.

    Args:
        text: A text; for vision models an image (a path, a PIL image or an array).
        model: As for `attnflow.explain`; so are ``query``, ``residual``, ``discard``,
            ``correction``, ``target`` and ``truncate``.
        compare: A second text to show beside the first.
        method: The method that is shown first.
        layer: The layer that is shown first.
        query: The position asked about at first.
        words: Show words at first instead of tokens.
        residual: The share of the identity.
        discard: The ratio of smallest attention weights set to zero.
        correction: For causal decoders, how to correct for the receptive field.
        target: For encoder–decoder models the target text.
        truncate: Cut a text that is too long.

    Example:
        >>> import attnflow
        >>> view = attnflow.explore("the keys to the cabinet")  # doctest: +SKIP
        >>> view.save("keys.html")  # doctest: +SKIP
    """
    choices = Choices(residual, discard, correction)
    plan = replace(choices.plan(method), layer=layer)  # checks options before a model is loaded
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    views = []
    for item in [text] if compare is None else [text, compare]:
        found = study(item, adapter, query=query, target=target, truncate=truncate, choices=choices)
        image = picture(item) if found.reading.tokens.grid is not None else None
        view = view_of(found, ALONE, image=image)
        view["layer"] = plan.layer_in(found.depth)
        views.append(view)
    return Exploration(document(views, method, words=words))


def exploration_of(attribution: Attribution) -> Exploration:
    """What an attribution alone can show: its own method at its layers and positions."""
    return Exploration(document([attribution_view(attribution)], attribution.method))
