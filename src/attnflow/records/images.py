"""The scores of an image's patches as they lie on it, and of its pixels."""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.records.attribution import Attribution
from attnflow.records.grid import PatchGrid
from attnflow.records.types import FloatArray

MOST_PIXELS = 1 << 30


def patches(of: Attribution, row: FloatArray) -> FloatArray:
    """``[row, column]``."""
    grid = _grid(of)
    keep = np.array([segment == "patch" for segment in of.segments or ()])
    if keep.sum() != grid.rows * grid.columns:
        expected = f"a grid of {grid.rows} × {grid.columns} has {grid.rows * grid.columns}"
        msg = f"this attribution has {keep.sum()} patches; {expected}"
        raise InputError(msg)
    kept = row[..., keep]
    return kept.reshape(*kept.shape[:-1], grid.rows, grid.columns)


def over_image(of: Attribution, row: FloatArray) -> FloatArray:
    """``[height, width]``: the score of each pixel's patch, 0 where the model saw nothing."""
    grid = _grid(of)
    if grid.image[0] * grid.image[1] > MOST_PIXELS:
        msg = f"the image has {grid.image[0]} × {grid.image[1]} pixels, too many for the memory"
        raise InputError(msg)
    left, top, right, bottom = grid.box
    y = (np.arange(grid.image[0]) + 0.5 - top) / (bottom - top) * grid.rows
    x = (np.arange(grid.image[1]) + 0.5 - left) / (right - left) * grid.columns
    inside = np.outer((y >= 0) & (y < grid.rows), (x >= 0) & (x < grid.columns))
    rows = np.clip(y.astype(int), 0, grid.rows - 1)
    columns = np.clip(x.astype(int), 0, grid.columns - 1)
    pixels: FloatArray = patches(of, row)[..., rows[:, None], columns] * inside
    return pixels


def _grid(of: Attribution) -> PatchGrid:
    if of.grid is None or of.segments is None:
        msg = "this attribution is not of an image; patches are for models of images and sounds"
        raise InputError(msg)
    return of.grid
