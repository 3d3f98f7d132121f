"""How wide a figure is printed."""

from __future__ import annotations

import re
from numbers import Real

from attnflow.errors import InputError, shown

NAMED = {"single": 3.35, "double": 6.9}  # inches: the columns of most journals and conferences
LEAST, MOST = 2.0, 40.0
POINTS = 72.0
_FORM = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>in|pt)?")


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
