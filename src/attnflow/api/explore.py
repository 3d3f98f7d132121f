"""`explore`: text in, the interactive view out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnflow.io.keywords import known_keywords
from attnflow.pipeline.amounts import check_layered
from attnflow.pipeline.prepare import open_sessions, prepare
from attnflow.pipeline.request import Query, Request, TargetSpec
from attnflow.views.explorer.exploration import Exploration, explore_sessions
from attnflow.views.explorer.images import picture_of

if TYPE_CHECKING:
    from attnflow.models.loading import Source


@known_keywords()
def explore(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    text: Any,
    model: Source = None,
    *,
    compare: Any = None,
    method: str = "auto",
    edges: str = "auto",
    layer: int | None = None,
    query: Query = None,
    words: bool = False,
    residual: float | None = None,
    discard: float = 0.0,
    correction: str | None = "auto",
    target: TargetSpec = None,
    contrast: TargetSpec = None,
    answer: str | None = None,
    truncate: bool = False,
    bos: bool = False,
    sampling_rate: int | None = None,
) -> Exploration:
    """The explorer's view of a text: all methods, layers, heads, routes and blanked-out tokens.

    Args:
        text: A text, or a pair that the model reads as one input; for vision models an image (a
            path, a PIL image or an array), for models that hear a sound (a .wav file or an array).
        model: As for `attnflow.explain`; so are ``edges``, ``query``, ``residual``, ``discard``,
            ``correction``, ``target``, ``contrast``,
            ``answer`` and ``truncate``.
        compare: A second text to show beside the first.
        method: The method that is shown first; ``"auto"`` is as for `explain`.
        edges: What the edges of the graph are made of; ``"auto"`` is as for `explain`.
        layer: The layer that is shown first.
        query: The position that is explained first.
        words: Show words at first instead of tokens.
        residual: The share of the identity.
        discard: The ratio of smallest attention weights set to zero.
        correction: For causal decoders, how to correct for the receptive field.
        target: For edges that are seen by a target, a label or token.
        contrast: The label or token that the target is compared with.
        answer: For encoder–decoder models the answer.
        truncate: Cut a text that is too long.
        bos: Put BOS in front, as for `explain`; both predictions are shown.
        sampling_rate: Of a sound given as an array, the samples per second.

    Examples:
        >>> import attnflow
        >>> view = attnflow.explore("The food was not good.")  # doctest: +SKIP
        >>> view.save("food.html")  # doctest: +SKIP
    """
    config = Request(
        method=method,
        edges=edges,
        layer=layer,
        query=query,
        words=words,
        residual=residual,
        discard=discard,
        correction=correction,
        target=target,
        contrast=contrast,
        truncate=truncate,
        bos=bos,
    )
    check_layered(edges)
    from attnflow.models.audio.sounds import with_rates
    from attnflow.models.loading import load_model

    adapter = load_model(model)
    items = with_rates([text] if compare is None else [text, compare], adapter, sampling_rate)
    prepared = prepare(config, adapter, items, answers=answer)
    sessions = dict(open_sessions(prepared, all_heads=True))
    images = [picture_of(item, sessions[at].tokens.grid) for at, item in enumerate(items)]
    return explore_sessions([sessions[place] for place in range(len(items))], images)
