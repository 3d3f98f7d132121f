"""Numbers as people read them: the same form in the terminal, figures and pages."""

from __future__ import annotations

import math

SMALLEST = 1e-4


def number(value: float, *, ratio: bool = False) -> str:
    """Three significant digits, never an exponent; a ratio to chance with its sign.

    >>> number(1), number(0.00037), number(1234.5), number(5.721, ratio=True)
    ('1.00', '0.000370', '1234', '5.72×')
    """
    return _plain(value) + ("×" if ratio else "")


def _plain(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size == 0:
        return "0"
    sign = "−" if value < 0 else ""
    if size < SMALLEST:
        return f"{sign}<{SMALLEST}" if not sign else f">{sign}{SMALLEST}"
    digits = max(0, 2 - math.floor(math.log10(float(f"{size:.2e}"))))
    return f"{sign}{size:.{digits}f}"


def correlation(value: float) -> str:
    """A correlation in two digits, without the zero that all of them begin with.

    >>> correlation(0.812), correlation(-0.03), correlation(1)
    ('.81', '−.03', '1')
    """
    if math.isnan(value):
        return "undefined"
    rounded = round(value, 2)
    if abs(rounded) == 1:
        return "1" if rounded > 0 else "−1"
    return f"{'−' if rounded < 0 else ''}{abs(rounded):.2f}".replace("0.", ".", 1)


def join_names(names: list[str], last: str = "and") -> str:
    """Names as in a sentence: one, two and three.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
