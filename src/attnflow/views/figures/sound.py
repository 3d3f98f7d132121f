"""Scores of frames over time, below the waveform that was heard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.errors import InputError
from attnflow.io.files import is_file
from attnflow.records import Attribution, FloatArray, PatchGrid
from attnflow.views.colours import ordinary_patches
from attnflow.views.figures import axes, maps
from attnflow.views.figures.axes import Theme
from attnflow.views.kinds import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STRIP = 0.6  # height of the scores; the waveform is 2 high
POINTS = 2000  # of a waveform


def draw(ax: Axes, attribution: Attribution, theme: Theme, *, sound: Any = None) -> None:
    """A strip of scores over seconds, below the waveform.

    ``sound`` is what was explained: a .wav file, or samples, or a dict of both ``array`` and
    ``sampling_rate``; by default the file that was explained, and where there is none only the
    scores are drawn. Patches of frequencies lie from low (below) to high.
    """
    grid = attribution.grid
    if grid is None or grid.seconds is None:
        msg = "this attribution is not of a sound; kind 'sound' is for models of sounds"
        raise InputError(msg)
    scores = attribution.patches()
    if scores.ndim != 2:
        msg = "a sound shows merged heads, and this attribution has single heads"
        raise InputError(msg)
    if sound is None and is_file(Path(attribution.text)):
        sound = attribution.text
    bottom = -1.1 - STRIP * min(grid.rows, 4)
    ordinary = scores.ravel()[ordinary_patches(attribution)]
    low, high = float(ordinary.min()), float(ordinary.max())
    mesh = ax.imshow(
        scores,
        cmap=theme.scale(attribution.method),
        vmin=low,
        vmax=high if high > low else low + 1.0,
        extent=(0.0, grid.box[2] / grid.image[1] * grid.seconds, bottom, -1.1),
        origin="lower",
        interpolation="nearest",
        aspect="auto",
    )
    if sound is not None:
        times, lowest, highest = envelope(sound, grid)
        ax.fill_between(times, lowest, highest, color=theme.muted, linewidth=0.4)
    ax.set(xlim=(0, grid.seconds), ylim=(bottom, 1.05 if sound is not None else -1.1), yticks=[])
    maps.colour_scale(ax, mesh, theme, axes.meaning(attribution), image_width=size(attribution)[0])
    axes.heading(ax, axes.title_of(attribution), theme, axes.colour_name(attribution))
    note = axes.source(attribution, f" at layer {attribution.layer}")
    axes.note(ax, f"seconds; {note}", theme)
    axes.remove_frame(ax, theme)
    ax.tick_params(axis="x", labelsize=7, colors=theme.muted)


def envelope(sound: Any, grid: PatchGrid) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times in seconds, and the lowest and highest sample around each, from −1 to 1."""
    from attnflow.models.audio.sounds import read_sound

    seconds = grid.seconds or 1.0
    samples = read_sound(sound, round(grid.image[1] / seconds)).samples[: grid.image[1]]
    samples = np.pad(samples, (0, grid.image[1] - len(samples)))
    count = min(POINTS, len(samples))
    starts = np.arange(count) * len(samples) // count
    loudest = float(np.abs(samples).max()) or 1.0
    lowest = np.minimum.reduceat(samples, starts) / loudest
    highest = np.maximum.reduceat(samples, starts) / loudest
    return starts / len(samples) * seconds, lowest, highest


def size(attribution: Attribution, **_: Any) -> tuple[float, float]:
    """Width and height of the drawing in inches, without title."""
    rows = attribution.grid.rows if attribution.grid else 1
    return 4.2, 1.2 + 0.2 * min(rows, 6)


MEMBER = Kind("sound", draw, size, shares_rows=False, needs="a model of sounds")
