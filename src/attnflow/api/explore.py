"""`explore`: text in, the interactive view out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError
from attnflow.options.option import takes_text
from attnflow.options.tables import ExploreOptions
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import Request
from attnflow.views.explorer.exploration import Exploration, explore_sessions
from attnflow.views.explorer.images import picture_of

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.pipeline.session import Session


@takes_text(ExploreOptions)
def explore(text: Any, model: Source = None, *, options: ExploreOptions) -> Exploration:
    """The explorer's view of a text: all methods, layers, heads, routes and blanked-out tokens.

    The method, layer, position and target that are named are those that it shows first.

    Args:
        text: The text, or a pair of texts that the model reads as one input; an image, a sound.
        model: As for `attnflow.explain`.

    Examples:
        >>> import attnflow
        >>> view = attnflow.explore("The food was not good.")  # doctest: +SKIP
        >>> view.save("food.html")  # doctest: +SKIP
    """
    if isinstance(text, list) and all(isinstance(each, str) for each in text):
        msg = f"explore shows one text, or two side by side; this is a list of {len(text)}"
        second = ": give the second as compare=" if len(text) == 2 else ": give a text"
        raise InputError(msg + second)
    request = Request.of(options, progress=False)
    from attnflow.models.loading import load_model

    adapter = load_model(model, device=options.device)
    items = [text] if options.compare is None else [text, options.compare]
    if options.sampling_rate is not None:
        from attnflow.models.audio.sounds import with_rates

        items = with_rates(items, adapter, options.sampling_rate)
    prepared = prepare(request, adapter, items, answers=options.answer)
    sessions = dict(open_sessions(prepared, all_heads=True))
    shown = [sessions[place] for place in range(len(items))]
    return explore_sessions(shown, [_picture(*each) for each in zip(items, shown, strict=True)])


def _picture(item: Any, session: Session) -> str | None:
    """What stands behind an input's patches, where it has any."""
    grid = session.tokens.grid
    return None if grid is None else picture_of(item, grid)
