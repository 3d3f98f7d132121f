"""Figures as files: their format, and how wide they are printed."""

from __future__ import annotations

import io
import re
import warnings
from numbers import Real
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path, check_target, write_file
from attnflow.views.figures.fonts import replace_missing_emoji

NAMED = {"single": 3.35, "double": 6.9}  # inches: the columns of most journals and conferences
LEAST, MOST = 2.0, 40.0
POINTS = 72.0
_FORM = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>in|pt)?")

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


def check_width(given: object) -> float | None:
    """A width in inches; ``None`` where the figure may be as wide as it needs.

    >>> check_width("single"), check_width("252pt"), check_width(5)
    (3.35, 3.5, 5.0)
    """
    if given is None:
        return None
    inches = None
    if isinstance(given, str):
        form = _FORM.fullmatch(given.strip())
        if given in NAMED:
            inches = NAMED[given]
        elif form:
            inches = float(form["number"]) / (POINTS if form["unit"] == "pt" else 1)
    elif isinstance(given, Real) and not isinstance(given, bool):
        inches = float(given)
    if inches is None or not LEAST <= inches <= MOST:
        msg = (
            f"width={shown(given)} must be single, double, or {LEAST:g} to {MOST:g} inches, such "
            "as 3.5in or 252pt"
        )
        raise InputError(msg)
    return inches
