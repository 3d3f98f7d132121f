"""Saving figures."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from attnflow.errors import InputError
from attnflow.io.files import as_path, check_target, write_file
from attnflow.views.figures.fonts import replace_missing_emoji

FORMATS = ("svg", "pdf", "png")
_TEXT_STAYS_TEXT: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "attnflow",
}
_WITHOUT_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


class PageFigure(Figure):
    """A figure as wide as a page: nothing is trimmed when it is saved."""


def check_file(file: str | Path, *, overwrite: bool = False) -> Path:
    """The file's path, if a figure may be written there."""
    path = as_path(file)
    if path.suffix.lower().lstrip(".") not in FORMATS:
        endings = ", ".join(f".{name}" for name in FORMATS)
        msg = f"can't tell the format of {path.name!r}; let it end in one of: {endings}"
        raise InputError(msg)
    return check_target(path, overwrite=overwrite)


def save(figure: Figure, file: str | Path, *, overwrite: bool = False, dpi: int = 200) -> Path:
    """Write a figure as SVG, PDF or PNG, by the file's ending.

    In SVG and PDF text stays text: it can be searched, copied and edited. The same figure gives the
    same bytes. In SVG the viewer's fonts are used; in PDF and PNG, emoji and flags are the pictures
    of an installed colour font, or else named.
    """
    from matplotlib import rc_context

    path = check_file(file, overwrite=overwrite)
    kind = path.suffix.lower().lstrip(".")
    content = io.BytesIO()
    with warnings.catch_warnings(), rc_context(_TEXT_STAYS_TEXT):
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        box = None if isinstance(figure, PageFigure) else "tight"
        look: dict[str, Any] = {"format": kind, "metadata": _WITHOUT_DATE[kind], "bbox_inches": box}
        if kind == "svg":
            figure.savefig(content, **look)
        else:
            with replace_missing_emoji(figure):
                figure.savefig(content, dpi=dpi, **look)
    write_file(path, content.getvalue())
    return path
