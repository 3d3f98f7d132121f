"""Numbers as people read them: the same form in the terminal, figures and pages."""

from __future__ import annotations

import math
from collections.abc import Iterable

SMALLEST = 1e-6  # a number that stands alone is written out down to this
SMALLEST_LISTED = 1e-4  # one among others, in their unit
ONES = 0.01  # numbers whose largest is smaller have a unit: 10⁻³, 10⁻⁶ …
THOUSANDS = 1e4  # and so have those whose largest is this or more: 10³, 10⁶ …
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, *, ratio: bool = False) -> str:
    """Three significant digits; a ratio to chance with its sign.

    >>> number(1), number(0.00037), number(1234.5), number(5.721, ratio=True), number(2e-8)
    ('1.00', '0.000370', '1234', '5.72×', '20.0 × 10⁻⁹')
    >>> number(64761.2)
    '64.8 × 10³'
    """
    times = "×" if ratio else ""
    if 0 < abs(value) < SMALLEST or THOUSANDS <= abs(value) < math.inf:
        power = power_for(abs(value))
        return f"{_plain(value / 10.0**power)}{times} {unit(power)}"
    return _plain(value) + times


def numbers(values: Iterable[float]) -> list[str]:
    """Several, each as one that stands alone."""
    return [number(value) for value in values]


def listed(value: float, power: int = 0, *, ratio: bool = False) -> str:
    """A number among others that share a unit, a power of ten.

    >>> listed(0.0042, -3), listed(2e-9), listed(-2e-9)
    ('4.20', '<0.0001', '>−0.0001')
    """
    scaled = value / 10.0**power
    times = "×" if ratio else ""
    if 0 < abs(scaled) < SMALLEST_LISTED:
        return f"{'<' if scaled > 0 else '>−'}{SMALLEST_LISTED}{times}"
    return _plain(scaled) + times


def power_for(largest: float) -> int:
    """The unit of numbers up to this one: they read better as 4.20 × 10⁻³ than as 0.00420.

    >>> power_for(0.7), power_for(0.0042), power_for(2e-8), power_for(0), power_for(64761)
    (0, -3, -9, 0, 3)
    """
    if not 0 < largest < math.inf or ONES <= largest < THOUSANDS:
        return 0
    return 3 * math.floor(math.log10(float(f"{largest:.2e}")) / 3)


def unit(power: int) -> str:
    """A power of ten as a unit; empty where it is 1.

    >>> unit(-3), unit(0), unit(3)
    ('× 10⁻³', '', '× 10³')
    """
    return f"× 10{str(power).translate(_RAISED)}" if power else ""


def _plain(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(float(f"{size:.2e}"))))
    return f"{'−' if value < 0 else ''}{size:.{digits}f}"


def percent(share: float, digits: int = 1) -> str:
    """A probability, with one digit more where it is nearly 0 or 1.

    >>> percent(0.947), percent(0.9998), percent(0.0001)
    ('94.7 %', '99.98 %', '0.01 %')
    """
    digits = 2 if share > 0.9995 or share < 0.0005 else digits
    return f"{100 * share:.{digits}f} %"


def digits_for(before: float, afters: Iterable[float]) -> int:
    """How many digits probabilities need, so that their differences are the ones that are shown.

    >>> digits_for(0.9, [0.5]), digits_for(0.7885, [0.6021])
    (1, 2)
    """
    for after in afters:
        shown = [float(percent(each)[:-2]) for each in (before, after)]
        if f"{abs(shown[1] - shown[0]):.1f}" != f"{abs(100 * (after - before)):.1f}":
            return 2
    return 1


def share(part: float) -> str:
    """A part of a whole, without a digit after the point.

    >>> share(0.42), share(0.004), share(0.0)
    ('42 %', '<1 %', '0 %')
    """
    return "<1 %" if 0 < part < 0.005 else f"{100 * part:.0f} %"


def points(change: float) -> str:
    """A difference of probabilities, with its sign.

    >>> points(-0.783), points(0.0401), points(0.0002)
    ('−78.3 points', '+4.0 points', '±0.0 points')
    """
    size = f"{abs(100 * change):.1f}"
    sign = "±" if size == "0.0" else "−" if change < 0 else "+"
    return f"{sign}{size} points"


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


def as_sentence(text: str) -> str:
    """A note with a capital and a full stop.

    >>> as_sentence("equal scores are in the order of rollout"), as_sentence("Done!")
    ('Equal scores are in the order of rollout.', 'Done!')
    """
    end = "" if not text or text[-1] in ".!?…" else "."
    return f"{text[:1].upper()}{text[1:]}{end}"
