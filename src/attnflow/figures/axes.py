"""What the kinds of figures share: tokens down an axis, titles, a scale of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.figures.fonts import families_for
from attnflow.figures.style import LABEL_WIDTH, Scale, Theme
from attnflow.labels import clip
from attnflow.records import Attribution, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

TITLES = {"raw": "Raw attention", "rollout": "Attention rollout", "flow": "Attention flow"}


def title_of(attribution: Attribution) -> str:
    """The method's name as a title."""
    return TITLES.get(attribution.method, attribution.method)


def label(token: str) -> str:
    """A token as it stands beside an axis."""
    return clip(token, LABEL_WIDTH)


def token_rows(ax: Axes, tokens: Sequence[str], theme: Theme, bold: int | None = None) -> None:
    """Tokens from top to bottom along the y axis, one in bold."""
    names = [label(token) for token in tokens]
    ax.set_yticks(range(len(names)))
    ax.set_yticklabels(
        names,
        parse_math=False,  # a token may be a dollar sign
        fontsize=Scale(len(names)).font,
        color=theme.ink,
        fontfamily=families_for(names),
    )
    if bold is not None:
        ax.get_yticklabels()[bold].set_fontweight("bold")


def columns(ax: Axes, names: Sequence[str], theme: Theme, every: int = 1) -> None:
    """Names along the x axis, above the columns; with many of them only every n-th."""
    ax.set_xticks(range(0, len(names), every))
    ax.set_xticklabels(names[::every], fontsize=8, color=theme.muted, parse_math=False)


def layer_names(attribution: Attribution) -> list[str]:
    """L1, L2 … for the layers of an attribution."""
    return [f"L{layer}" for layer in attribution.layers]


def thinning(count: int, most: int = 16) -> int:
    """Every which column gets a name, so that at most ``most`` do."""
    return -(-count // most)


def heading(ax: Axes, text: str, theme: Theme, method: str = "") -> None:
    """The title of a panel, in the colour of its method."""
    ax.set_title(
        text, fontsize=10, color=theme.method(method), fontweight="bold", loc="left", pad=6
    )


def note(ax: Axes, text: str, theme: Theme) -> None:
    """A line below a panel that says what is drawn."""
    ax.set_xlabel(
        text, fontsize=7.5, color=theme.muted, fontfamily=families_for([text]), parse_math=False
    )


def bare(ax: Axes, theme: Theme) -> None:
    """No frame, no tick marks."""
    ax.set_facecolor(theme.paper)
    ax.tick_params(length=0, pad=3)
    for spine in ax.spines.values():
        spine.set_visible(False)


def cells(ax: Axes, values: FloatArray, theme: Theme, *, show: bool) -> AxesImage:
    """A map of values ``[row, column]`` from zero to the largest, with its scale beside it."""
    largest = float(np.nanmax(values, initial=0.0)) or 1.0
    mesh = ax.imshow(
        values, cmap=theme.cmap, vmin=0.0, vmax=largest, aspect="auto", interpolation="nearest"
    )
    ax.set_xticks(np.arange(values.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(values.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=theme.paper, linewidth=0.8)
    ax.tick_params(which="minor", length=0)
    if show:
        _write_values(ax, values, largest, theme)
    return mesh


def colour_scale(ax: Axes, mesh: AxesImage, theme: Theme) -> None:
    """What the colours of a map mean."""
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.06, pad=0.03, aspect=24)
    bar.outline.set_visible(False)  # type: ignore[operator]  # a spine, whatever its stub says
    bar.ax.tick_params(length=2, labelsize=7, colors=theme.muted, pad=2)
    bar.locator = _few_ticks()
    bar.update_ticks()


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10])


def _write_values(ax: Axes, values: FloatArray, largest: float, theme: Theme) -> None:
    size = Scale(values.shape[0]).font * 0.72
    for (row, column), value in np.ndenumerate(values):
        ax.text(
            column,
            row,
            f"{value:.2f}".removeprefix("0") if value < 1 else f"{value:.1f}",
            ha="center",
            va="center",
            fontsize=size,
            color=theme.paper if value > 0.45 * largest else theme.ink,
        )


def place_of(attribution: Attribution, token: str | int) -> int:
    """The position of a token given by its text or its number."""
    if isinstance(token, int):
        if not -len(attribution.tokens) <= token < len(attribution.tokens):
            msg = f"there is no position {token}; the text has {len(attribution.tokens)} tokens"
            raise InputError(msg)
        return token % len(attribution.tokens)
    places = [at for at, text in enumerate(attribution.tokens) if text.strip() == token.strip()]
    if len(places) != 1:
        listed = " ".join(f"{at}:{text}" for at, text in enumerate(attribution.tokens))
        what = "is not there" if not places else f"is there {len(places)} times"
        msg = f"token {token!r} {what}; give one of these tokens or numbers: {listed}"
        raise InputError(msg)
    return places[0]
