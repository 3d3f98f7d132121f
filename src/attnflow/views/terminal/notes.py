"""What is said below the scores: on ties and ratios, and which methods agree."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group
from rich.text import Text

from attnflow.records import Attribution
from attnflow.views.methods import info_of, name_of
from attnflow.views.numbers import as_sentence
from attnflow.views.summary import BLANK_OUT, Summary


def show_notes(found: Summary, console: Console) -> None:
    """One line each; a line that all methods share is written once."""
    notes = [note for finding in found.each for note in finding.notes]
    apart = {each.alternative: None for each in found.each if each.alternative}
    notes += [f"--method {name} tells them apart" for name in apart]
    if found.unchecked:
        does_it = f"; --method {BLANK_OUT} does it" if found.checkable else ""
        notes.append(f"{found.unchecked}{does_it}")
    lines = list(dict.fromkeys(notes))
    if lines or found.agreement:
        console.print()
    for line in lines:
        console.print(Text(as_sentence(line), style="dim"))
    if found.agreement:
        console.print(Text(found.agreement))


def method_lines(attributions: Sequence[Attribution]) -> Group:
    """What each method does, where that is known."""
    lines = []
    for item in attributions:
        summary = info_of(item).summary
        if summary:
            line = f"{name_of(item)}: {summary[:1].lower()}{summary[1:]}"
            lines.append(Text(line, style="dim"))
    return Group(*lines)
