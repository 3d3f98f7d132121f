"""Knockouts in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from attnflow.records.knockout import Knockout, Outcome
from attnflow.views.wording.labels import isolate
from attnflow.views.wording.numbers import number, percent, points
from attnflow.views.wording.verdicts import REASON, SLIGHT

LEAST = 0.0005  # a smaller probability is told by its logarithm


def summarize(found: Knockout) -> str:
    """One sentence: the target with the edges, without them, and without random ones."""
    value = _value_of(found)
    after = f"without {_these(found)}: {subject(found)} {value([found.before])}"
    after += f" → {value([found.after])}"
    after += _turn(found)
    if not found.random:
        return after
    one = "edge" if found.removed == 1 else "edges"
    return f"{after}; without {found.removed:,} random {one}: {value(found.random)}"


def _turn(found: Knockout) -> str:
    """That the answer is another one without the edges; nothing where it is the same."""
    if found.independent:  # the likeliest of such labels is no answer: an input has all or none
        from attnflow.models.outputs import has_label

        has = [has_label(each.probability) for each in (found.before, found.after)]
        if has[0] == has[1]:
            return ""
        return f", and the label {'no longer' if has[0] else 'now'} applies"
    before, after = found.before.prediction, found.after.prediction
    if before is None or after is None or before.label == after.label:
        return ""
    return f", and the prediction becomes “{isolate(after.label)}”"


def beside_blanking(found: Knockout, word: str, change: float) -> str:
    """Why removing edges does not do what blanking their word does; empty where it does.

    ``change`` is that of the probability without the word.
    """
    edges = math.exp(found.after.log_probability) - math.exp(found.before.log_probability)
    small, large = sorted((edges, change), key=abs)
    if found.contrast is not None or abs(large) < SLIGHT or small / large >= REASON:
        return ""
    blanking = f"Blanking “{word}” changes it by {points(change)}: "
    if large == change:
        return f"{blanking}the word does more than passes over these edges."
    return (
        f"{blanking}the model then reads the other words in another way, and these edges carry "
        "what came from those, too."
    )


def subject(found: Knockout) -> str:
    """What the numbers are about."""
    if found.answer is not None:
        about = f"the answer “{_shortened(found.answer)}”"
    else:
        about = f"“{found.target}”" if _is_odd(found.target) else isolate(found.target)
    if found.contrast is not None:
        return f"{about} rather than {found.contrast}, difference of logits"
    return about if found.before.probability >= LEAST else f"log-probability of {about}"


def count_edges(found: Knockout) -> str:
    """How many edges, and of what."""
    heads = " of single heads" if found.per_head else ""
    return f"{found.removed:,} of {found.total:,} edges{heads}"


def _these(found: Knockout) -> str:
    one = found.removed == 1
    heads = (" of one head" if one else " of single heads") if found.per_head else ""
    return f"this edge{heads}" if one else f"these {found.removed:,} edges{heads}"


def _value_of(found: Knockout) -> Callable[[Sequence[Outcome]], str]:
    """How the mean of outcomes is written."""
    if found.contrast is not None:
        return lambda outcomes: number(fmean(each.margin or 0.0 for each in outcomes))
    if found.before.probability < LEAST:
        return lambda outcomes: number(fmean(each.log_probability for each in outcomes))
    return lambda outcomes: percent(fmean(each.probability for each in outcomes))


def _is_odd(name: str) -> bool:
    """Whether a token would be lost in a sentence without quotation marks."""
    return not name.replace("_", "").isalnum()


def _shortened(text: str, most: int = 40) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= most else f"{one_line[: most - 1]}…"
