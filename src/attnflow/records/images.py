"""The scores of an image's patches as they lie on it, and of its pixels."""

from __future__ import annotations

import numpy as np

from attnflow.errors import InputError
from attnflow.records.attribution import Attribution, PatchGrid
from attnflow.records.kinds import FloatArray


def patches(of: Attribution, row: FloatArray) -> FloatArray:
    """``[row, column]``."""
    grid = _grid(of)
    is_patch = np.array([segment == "patch" for segment in of.segments or ()])
    scores = row[..., is_patch]
    return scores.reshape(*scores.shape[:-1], grid.rows, grid.columns)


def over_image(of: Attribution, row: FloatArray) -> FloatArray:
    """``[height, width]``: the score of each pixel's patch, 0 where the model saw nothing."""
    grid = _grid(of)
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
        msg = "this attribution is not of an image; patches are for vision models"
        raise InputError(msg)
    return of.grid
