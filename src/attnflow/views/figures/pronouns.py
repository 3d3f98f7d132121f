"""Figure 4 of the paper: to which of a few tokens does a position attend, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from attnflow.errors import InputError
from attnflow.records import Attribution
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Theme
from attnflow.views.kinds import Kind
from attnflow.views.wording.names import is_signed
from attnflow.views.wording.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS_WIDTH, TALLEST = 1.3, 2.2  # inches
ACROSS = 26  # cells of names that fit below a panel side by side


def draw(
    ax: Axes,
    attribution: Attribution,
    theme: Theme,
    *,
    candidates: Sequence[str | int] = (),
    values: bool = True,
) -> None:
    """Layers × candidates, the top layer first, for the position that is explained.

    ``candidates`` are tokens of the text or their positions; ``values`` writes the numbers.
    """
    if attribution.scores.ndim == 4:
        msg = "this figure shows layers, and this attribution has single heads"
        raise InputError(msg)
    if len(candidates) < 2:
        msg = "candidates must name at least two tokens of the text, e.g. ('author', 'Sara')"
        raise InputError(msg)
    places = [attribution.position(token, "candidate") for token in candidates]
    scores = attribution.of_layers()[::-1][:, places]
    mesh = maps.cells(ax, scores, theme, method=attribution.method, signed=is_signed(attribution))
    if values:
        maps.write_values(ax, scores, mesh, theme)
    names = axes.layer_names(attribution)[::-1]
    axes.name_ticks(ax.yaxis, names, theme.muted, 8)
    labels = [axes.label(attribution.tokens[place]) for place in places]
    axes.name_ticks(ax.xaxis, labels, theme.ink, 8)
    if max(map(cell_len, labels)) * len(labels) > ACROSS:
        ax.tick_params(axis="x", labelrotation=35)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    axes.note(ax, axes.source(attribution), theme)
    axes.remove_frame(ax, theme)


def bars(ax: Axes, probabilities: Mapping[str, float], theme: Theme, height: float) -> None:
    """The probabilities of a few words, relative to one another.

    ``height``, in inches, is that of the panels beside it, which may be too tall for bars.
    """
    names = list(probabilities)
    total = sum(probabilities.values())
    if total <= 0:
        msg = f"probabilities of {', '.join(names)} must not all be zero"
        raise InputError(msg)
    shares = np.array([probabilities[name] for name in names]) / total
    ax.bar(range(len(names)), shares, width=0.62, color=theme.muted)
    for place, share in enumerate(shares):
        ax.annotate(
            percent(share),
            (place, share),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=theme.ink,
        )
    axes.name_ticks(ax.xaxis, names, theme.ink, 8)
    if height > TALLEST:
        ax.set_box_aspect(TALLEST / BARS_WIDTH)
        ax.set_anchor("N")
    ax.set_yticks([])
    ax.set_ylim(0, 1.1)
    ax.set_xlim(-0.6, len(names) - 0.4)
    axes.heading(ax, "Prediction", theme)
    axes.note(ax, "relative probability", theme)
    axes.remove_frame(ax, theme)


def size(attribution: Attribution, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without title."""
    return 1.5, 0.27 * len(attribution.layers)


MEMBER = Kind(
    "pronouns",
    draw,
    size,
    panels=("probabilities",),
    selection={"layers": "all"},
    required={"candidates": "tokens of the text, at least two"},
)
