"""Figures of Attributions, for print.

    figure("heatmap", raw, rollout, flow)     one panel each, as a matplotlib Figure
    draw("heatmap", attribution, ax=ax)       on existing axes
    save(figure, "attention.svg")             text stays text

A new kind of figure is a file that defines a `Kind` as ``MEMBER``, listed in `views/kinds.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from attnflow.errors import InputError, shown
from attnflow.records import Attribution
from attnflow.records.checks import check_flag, check_real
from attnflow.records.generation import Generation
from attnflow.views.figures.axes import THEMES, find_theme
from attnflow.views.figures.files import check_width, save
from attnflow.views.kinds import KINDS, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["KINDS", "THEMES", "Kind", "draw", "figure", "save"]


def find_kind(name: str, options: Iterable[str] = (), more: Sequence[str] = ()) -> Kind:
    """The kind of figure of that name, if it has these options; ``more`` are others it may have."""
    if not isinstance(name, str) or name not in KINDS:
        msg = f"kind={shown(name)} is unknown; choose one of: {', '.join(KINDS)}"
        raise InputError(msg)
    known = [*KINDS[name].options, *more, "theme"]
    for option in options:
        if option not in known:
            msg = f"{option}= is not an option of kind {name!r}; allowed: {', '.join(known)}"
            raise InputError(msg)
    return KINDS[name]


def check_options(options: dict[str, Any]) -> None:
    """Refuse values of options that can't be what they are for; lists are made of generators."""
    for name in ("values", "relative", "focus"):
        if name in options:
            check_flag(name, options[name])
    for name in ("threshold", "strength"):
        if options.get(name) is not None:
            options[name] = check_real(name, options[name])
    if "candidates" in options:
        given = options["candidates"]
        if isinstance(given, str) or not isinstance(given, Iterable) or not _gone_through(given):
            msg = f"candidates={shown(given)} must be a list of tokens or their positions"
            raise InputError(msg)
        options["candidates"] = tuple(given)


def check_drawn(kind: Kind, given: Sequence[object]) -> None:
    """Refuse an answer for a kind that draws attributions."""
    if not kind.answers and any(isinstance(each, Generation) for each in given):
        msg = (
            f"kind {kind.name!r} draws attributions, and this is a whole answer: use kind "
            "'generation', or one token of it, .at(answer=0)"
        )
        raise InputError(msg)


def check_start(kind: str, source: object) -> None:
    """Refuse scores that start at a logit: they are of no layer and no position."""
    if source == "logit":
        msg = (
            f"figure {kind} draws scores of positions, layer by layer; those from the logit come "
            "through all layers at once: leave source out, or see them with explain, compare and "
            "routes"
        )
        raise InputError(msg)


def _gone_through(given: Iterable[Any]) -> bool:
    return getattr(given, "ndim", 1) == 1  # arrays of no axes call themselves iterable


def draw(
    kind: str,
    attribution: Attribution | Generation,
    ax: Axes | None = None,
    *,
    theme: str = "light",
    **options: Any,
) -> Axes:
    """Draw one attribution on ``ax``, or on a new figure of the right size, and return the axes.

    Args:
        kind: ``"graph"``, ``"heatmap"``, ``"pronouns"``, ``"heads"``, ``"image"``, ``"sound"``;
            ``"generation"`` for answers.
        attribution: What to draw.
        ax: Where; None creates a figure with pyplot.
        theme: ``"light"`` or ``"dark"``.
        options: Those of the kind, e.g. ``values=True`` for a heat map.
    """
    chosen, colours = find_kind(kind, options), find_theme(theme)
    check_drawn(chosen, [attribution])
    check_options(options)
    check_start(kind, attribution.options.get("source"))
    if ax is not None and not hasattr(ax, "add_collection"):
        msg = f"ax={shown(ax)} must be axes of matplotlib, or None for a new figure"
        raise InputError(msg)
    if ax is None:
        from matplotlib import pyplot

        wide, high = chosen.size(attribution, **options)
        _, ax = pyplot.subplots(
            figsize=(wide + 1.6, high + 0.9), layout="constrained", facecolor=colours.paper
        )
    chosen.draw(ax, attribution, colours, **options)
    return ax


def figure(
    kind: str,
    *attributions: Attribution | Generation,
    theme: str = "light",
    width: float | str | None = None,
    caption: str | None = None,
    **options: Any,
) -> Figure:
    """A figure with one panel for each attribution, side by side.

    ``kind``, ``theme`` and ``options`` are those of `draw`. For kind ``"pronouns"`` the option
    ``probabilities={"his": 0.7, "her": 0.2}`` adds bars to the left, and for kind ``"graph"`` the
    option ``trace=`` (of `attnflow.trace`) a panel with its routes and its bottleneck to the right.

    ``width`` is what the page has room for: inches, ``"single"`` or ``"double"`` (one column or
    two), ``"3.5in"``, ``"252pt"``. Type keeps its size, and panels that don't fit side by side
    stand one below the other. ``caption`` stands above all panels; by default it says what was
    found, and an empty one leaves it out.
    """
    from attnflow.views.figures.panels import compose

    panels = KINDS[kind].panels if kind in KINDS else ()
    chosen = find_kind(kind, options, panels)
    check_options(options)
    check_drawn(chosen, attributions)
    inches = check_width(width)
    for attribution in attributions:
        check_start(kind, attribution.options.get("source"))
    return compose(chosen, attributions, find_theme(theme), options, inches, caption)
