"""What a conclusion depends on, in sentences: measured knockouts and deletions, never scores."""

from __future__ import annotations

import math

from attnflow.records.reasoning import NEEDED, Reasoning, StepRow
from attnflow.views.wording.answers import one_in
from attnflow.views.wording.labels import LONGEST, label
from attnflow.views.wording.numbers import join_names, percent

MOST_NAMED = 4
BESIDE = 0.25  # of the largest change: what changes less, matters much less
MANY = 3  # steps that are told in one sentence
LEAST = 0.0005  # a smaller probability is told by how many times it changes
SAME = 0.05  # a change of a log-probability that is told as none
UNMEASURED = "not measured"
TITLES = {
    "needed": "needed",
    "read": "read",
    "passed on": "passed on",
    "against": "against",
    "unclear": "unclear",
    "spared": "not needed",
}


def summarize(found: Reasoning) -> list[str]:
    """What the conclusion depends on, what only leads to that, and what it does not need."""
    rows = found.table()
    told = [*_unmeasured(found, rows), _needed(found, rows)]
    told += [_read(found, row) for row in rows if row.role == "read"]
    told += _all_passed_on(found, [row for row in rows if row.role == "passed on"])
    told += [_against(row) for row in rows if row.role == "against"]
    told += _unclear([row for row in rows if row.role == "unclear"])
    told += _spared(found)
    best = max(rows, key=lambda row: row.score)
    if best.score > 0 and best.role in ("against", "spared"):
        told.append(
            f"By its scores it came most from {step_name(best.name)}, which is no reason to think "
            "that it needs it."
        )
    return told


def step_name(name: str) -> str:
    """A step in a sentence; parts of the prompt have names of their own."""
    own = name.startswith("step ") and name[5:].isdigit()
    return name if own else f"“{label(name, LONGEST)}”"


def times(drop: float) -> str:
    """How much less likely something is.

    >>> times(math.log(40)), times(-math.log(2.5)), times(0.01), times(20)
    ('40 times less likely', '2.5 times more likely', 'as likely', 'over 1,000 times less likely')
    """
    if abs(drop) < SAME:
        return "as likely"
    return f"{_factor(drop)} times {'less' if drop > 0 else 'more'} likely"


def _factor(drop: float) -> str:
    factor = math.exp(min(abs(drop), 50.0))
    if factor > 1000:
        return "over 1,000"
    return f"{factor:.1f}" if factor < 9.95 else f"{factor:.0f}"


def _falls(found: Reasoning, *drops: tuple[float, str]) -> str:
    """What becomes of the conclusion in several cases, each with its condition."""
    before = float(found.log_probabilities[found.conclusion])
    if math.exp(before) < LEAST:
        return "it is " + join_names([f"{times(drop)} {when}" for drop, when in drops])
    after = [f"to {_percent(before - drop)} {when}" for drop, when in drops]
    if len({_percent(before - drop) for drop, _ in drops}) == 1:
        after[1:] = [when for _, when in drops[1:]]
    return f"its probability falls from {percent(math.exp(before))} {join_names(after)}"


def _percent(log_probability: float) -> str:
    share = math.exp(min(0.0, log_probability))
    return "under 0.01 %" if share < 0.0001 else percent(share)


def _needed(found: Reasoning, rows: list[StepRow]) -> str:
    needed = sorted((row for row in rows if row.role == "needed"), key=lambda row: -row.direct)
    leading = [row for row in rows if row.role == "passed on" or (row.through)]
    if not needed:
        if found.unmeasured:
            return "The conclusion depends on none of them alone."
        if leading:
            return "The conclusion reads nothing itself without which it would be unlikely."
        return "The conclusion depends on no single part of the prompt and no single thought."
    first, *others = needed
    name = step_name(first.name)
    cases = [(first.direct, f"if {name} is hidden from it")]
    if first.deleted is not None:
        cases.append((first.deleted, f"if {name} is deleted"))
    told = f"The conclusion depends on {name}: {_falls(found, *cases)}."
    before = float(found.log_probabilities[found.conclusion])
    if math.exp(before) < LEAST:
        told += f" It is unlikely in any case: its probability is {one_in(-before)}."
    beside = [row for row in others if row.direct >= BESIDE * first.direct]
    for verb, rows in (("also depends", beside), ("depends much less", others[len(beside) :])):
        more = [f"{step_name(row.name)} ({_both(row)})" for row in rows[:MOST_NAMED]]
        if len(rows) > MOST_NAMED:
            more.append(f"{len(rows) - MOST_NAMED} more")
        told += f" It {verb} on {join_names(more)}." if rows else ""
    return told


def _unmeasured(found: Reasoning, rows: list[StepRow]) -> list[str]:
    """What alone is known, where work was interrupted."""
    if not found.unmeasured:
        return []
    names = join_names([step_name(row.name) for row in rows])
    return [f"Interrupted: nothing is known but of {names}."]


def change(drop: float) -> str:
    """A change of a log-probability, in two digits.

    >>> change(4.25), change(-0.394), change(0.001)
    ('−4.25', '+0.39', '0.00')
    """
    rounded = f"{abs(drop):.2f}"
    sign = "" if float(rounded) == 0 else "−" if drop > 0 else "+"
    return sign + rounded


def _both(row: StepRow) -> str:
    if row.deleted is None or _factor(row.direct) == _factor(row.deleted):
        return times(row.direct)
    return f"{times(row.direct)} when hidden, {_factor(row.deleted)} times when deleted"


def _read(found: Reasoning, row: StepRow) -> str:
    name = step_name(row.name)
    gone = row.hidden if row.deleted is None else row.deleted
    told = (
        f"It reads {name} ({times(row.direct)} when it cannot), but can do without: it is "
        f"{times(gone)} when that is deleted."
    )
    return f"{told} {_capital(_leads(found, row))}." if row.through else told


def _all_passed_on(found: Reasoning, rows: list[StepRow]) -> list[str]:
    """What matters through later steps; where that is much, without the figures."""
    if len(rows) < MANY:
        return [_passed_on(found, row) for row in rows]
    told = []
    for row in rows:
        later = join_names([found.steps[at].name for at in row.through])
        told.append(f"{step_name(row.name)} ({f'by {later}' if later else 'hidden from all'})")
    return [f"Through later steps alone matter {join_names(told)}."]


def _passed_on(found: Reasoning, row: StepRow) -> str:
    name = step_name(row.name)
    if row.through:
        return f"{_capital(name)} matters through later steps alone: {_leads(found, row)}."
    return (
        f"{_capital(name)} matters, though the conclusion does not read it itself: the conclusion "
        f"is {times(row.hidden)} if {name} is hidden from all that follows."
    )


def _leads(found: Reasoning, row: StepRow) -> str:
    """Which later steps rest on one."""
    source, told = found.find(row.name), []
    for target in row.through[:MOST_NAMED]:
        words = [found.answer_text[start:end].strip() for start, end in found.words_read(target)]
        read = f"“{label(' … '.join(words), LONGEST)}” in " if words else ""
        drop = float(found.direct[target, source])
        told.append(f"{read}{step_name(found.steps[target].name)} is {times(drop)} without it")
    return join_names(told)


def _against(row: StepRow) -> str:
    gone = row.hidden if row.deleted is None else row.deleted
    return f"Without {step_name(row.name)} it would be {times(gone)}."


def _unclear(rows: list[StepRow]) -> list[str]:
    if not rows:
        return []
    if len(rows) > MOST_NAMED:
        names = join_names([step_name(row.name) for row in rows])
        return [f"Hiding and deleting disagree about {names}."]
    told = []
    for row in rows:
        name = step_name(row.name)
        gone = "" if row.deleted is None else f", and {times(row.deleted)} if {name} is deleted"
        hidden = f"{times(row.hidden)} if {name} is hidden from all that follows"
        unclear = f"It is unclear what {name} does"
        told.append(f"{unclear}: the conclusion is {hidden}{gone}.")
    return told


def _spared(found: Reasoning) -> list[str]:
    """What is not needed; together, too, as two steps may say the same."""
    if not found.spared:
        return []
    names = [step_name(found.steps[at].name) for at in found.spared]
    drops = [each for each in (found.spared_hidden, found.spared_deleted) if each is not None]
    worst = max(drops, key=abs)
    if len(names) == 1:
        return [f"It does not need {names[0]}: without it, it is {times(worst)}."]
    listed = join_names(names)
    if abs(worst) >= NEEDED:
        return [
            f"{_capital(listed)} can each be spared, but not all at once: without all of them it "
            f"is {times(worst)}."
        ]
    if len(names) == 2:
        return [f"It needs neither {join_names(names, 'nor')}: without both it is {times(worst)}."]
    return [f"It needs none of {listed}: without all of them it is {times(worst)}."]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
