"""A chain of thought as one page: its steps from above to below, with arrows beside them.

Nothing moves on it, and it has no script: arrows are boxes in the columns of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from attnflow.io.files import check_target, write_file
from attnflow.records.reasoning import Reasoning, StepRow
from attnflow.views.explorer.parts import model_name
from attnflow.views.explorer.render import hash_of, read_static, to_iframe
from attnflow.views.lanes import Lane, lanes_of
from attnflow.views.wording.labels import printable
from attnflow.views.wording.names import describe_edges, name_of
from attnflow.views.wording.numbers import as_sentence, join_names, listed, share
from attnflow.views.wording.steps import TITLES, UNMEASURED, change, step_name, summarize, times

LANE = 16  # pixels
HEIGHT = 78  # of a step, about
CLASSES = {"passed on": "passed"}
LEGEND = (
    "An arrow leads from a step to one that reads it. Underlined are the words of a step that are "
    "read further on; where the step before the arrow is hidden, those of the step after it (of "
    "the conclusion, all words) are at most half as likely. Coloured arrows end in the conclusion. "
    "Hidden: the conclusion cannot read the step; deleted: the step is taken out of the text. Both "
    "are changes of the conclusion’s log-probability; −0.69 is half as likely. Score: the step’s "
    "share of what the conclusion came from, which claims nothing by itself."
)


@dataclass(frozen=True, eq=False)
class StepPage:
    """A page of one chain of thought: it shows itself in notebooks, and `save` writes it.

    Attributes:
        found: What it shows.
    """

    found: Reasoning = field(repr=False)

    @property
    def html(self) -> str:
        """The whole page as text: self-contained, without scripts."""
        found, lanes = self.found, _lanes(self.found)
        style = (
            read_static("style.css") + read_static("steps.css") + "\n".join(_places(found, lanes))
        )
        policy = f"default-src 'none'; style-src '{hash_of(style)}'; base-uri 'none'"
        title = " ".join(found.answer_text.split())[:60]
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{_text(title)} · attnflow</title>\n<style>{style}</style>\n</head>",
                '<body class="steps-page">\n<main>\n<h1>Which steps the conclusion needs</h1>',
                '<section class="said">',
                *(f"<p>{_text(each)}</p>" for each in summarize(found)),
                '</section>\n<section class="graph" aria-label="Steps">',
                *_rows(found),
                *_arrows(lanes, len(_shown(found)) - 1),
                f'</section>\n<p class="note">{_text(LEGEND)}</p>',
                f'<p class="note">{_text(_about(found))}</p>',
                *(f'<p class="note">{_text(as_sentence(each))}</p>' for each in found.warnings),
                "</main>\n</body>\n</html>\n",
            ]
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page as one HTML file."""
        path = check_target(path, overwrite=overwrite)
        write_file(path, self.html.encode(errors="replace"))
        return path

    def _repr_html_(self) -> str:
        return to_iframe(self.html, min(1200, 300 + HEIGHT * len(self.found.steps)))


def _shown(found: Reasoning) -> list[int]:
    return [*found.sources, found.conclusion]


def _lanes(found: Reasoning) -> list[Lane]:
    shown = _shown(found)
    return lanes_of([(shown.index(each.source), shown.index(each.target)) for each in found.edges])


def _places(found: Reasoning, lanes: list[Lane]) -> Iterator[str]:
    """Where in the grid steps, arcs and arrows stand; a policy forbids styles of elements."""
    count = 1 + max((lane.column for lane in lanes), default=-1)
    yield f".graph{{grid-template-columns:repeat({count},{LANE}px) 14px minmax(0,1fr)}}"
    for row in range(len(_shown(found))):
        yield f"#row-{row}{{grid-area:{row + 1}/{count + 2}}}"
    for source, targets, column in lanes:
        above = source
        for target in targets:
            area = f"{above + 1}/{column + 1}/{target + 1}/{count + 2}"
            yield f"#arc-{source}-{target}{{grid-area:{area}}}"
            yield f"#arrow-{source}-{target}{{grid-area:{target + 1}/{count + 1}}}"
            above = source


def _arrows(lanes: list[Lane], last: int) -> Iterator[str]:
    """Those to the conclusion last, so that they are in front."""
    every = [(lane.source, target) for lane in lanes for target in lane.targets]
    for source, target in sorted(every, key=lambda edge: edge[1] == last):
        ends = " ends" if target == last else ""
        place = f"{source}-{target}"
        yield f'<div class="arc{ends}" id="arc-{place}" aria-hidden="true"></div>'
        yield f'<div class="arrow{ends}" id="arrow-{place}" aria-hidden="true"></div>'


def _rows(found: Reasoning) -> Iterator[str]:
    known = {found.find(row.name): row for row in found.table()}
    for place, number in enumerate(_shown(found)):
        row = known.get(number)
        role = row.role if row else "unclear" if number in found.unmeasured else "conclusion"
        kind = CLASSES.get(role, role)
        name = found.steps[number].name
        yield f'<article class="step {kind}" id="row-{place}">'
        title = f"<b dir='auto'>{_text(name)}</b>"
        told = TITLES[row.role] if row else UNMEASURED if number in found.unmeasured else ""
        said = f'<span class="role">{told}</span>' if told else ""
        numbers = "" if number in found.unmeasured else _numbers(found, row)
        yield f'<header>{title}{said}<span class="number">{numbers}</span></header>'
        yield f'<p dir="auto">{_words(found, number)}</p>'
        reads = [
            f"{step_name(found.steps[edge.source].name)} ({times(edge.drop)} without it)"
            for edge in found.edges
            if edge.target == number
        ]
        if reads:
            yield f'<p class="reads">reads {_text(join_names(reads))}</p>'
        yield "</article>"


def _numbers(found: Reasoning, row: StepRow | None) -> str:
    if row is None:
        likely = math.exp(float(found.log_probabilities[found.conclusion]))
        return f"log-probability {listed(math.log(likely))}" if likely else ""
    told = [f"hidden {change(row.direct)}"]
    if row.deleted is not None:
        told.append(f"deleted {change(row.deleted)}")
    if row.share is not None:
        told.append(f"score {share(row.share)}")
    return _text(" · ".join(told))


def _words(found: Reasoning, number: int) -> str:
    """The text of a step, with the words that are read further on marked."""
    step = found.steps[number]
    if step.kind not in ("thought", "conclusion"):
        return _text(step.text.strip())
    before = [each.text for each in found.steps[:number] if each.in_answer]
    start = sum(map(len, before))
    at, pieces = 0, []
    for first, last in found.words_read(number):
        first, last = max(0, first - start), min(len(step.text), last - start)
        word = step.text[first:last]
        first, last = first + len(word) - len(word.lstrip()), first + len(word.rstrip())
        pieces += [_text(step.text[at:first]), f"<mark>{_text(step.text[first:last])}</mark>"]
        at = last
    return "".join([*pieces, _text(step.text[at:])]).strip()


def _about(found: Reasoning) -> str:
    return f"{name_of(found)}{describe_edges(found.options)} · {model_name(found.model)}"


def _text(text: str) -> str:
    return escape("\n".join("" if not line else printable_line(line) for line in text.split("\n")))


def printable_line(line: str) -> str:
    """A line without characters that break a layout; its blanks stay."""
    bare = line.strip()
    return line.replace(bare, printable(bare)) if bare else line
