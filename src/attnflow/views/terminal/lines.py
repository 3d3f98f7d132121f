"""Lines that several views of the terminal share: the text, the prediction, sentences, warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from attnflow.records import Prediction
from attnflow.views.wording.findings import Finding
from attnflow.views.wording.labels import LONGEST, clip, isolate, label, printable
from attnflow.views.wording.numbers import as_sentence, percent

ALTERNATIVES = 3  # predictions that are named beside the first
LEAST = 0.0005  # of probability that is worth a name
_WORD = re.compile(r"\S+(?: %\S*)?\s*")  # a number and its percent sign stay on one line


def title(text: str) -> Text:
    """The text, on one line."""
    return Text(isolate(printable(text)), style="bold", overflow="ellipsis", no_wrap=True)


def sentence(finding: Finding, width: int) -> Text:
    """What was found, with the words that it is about set apart."""
    line = Text()
    for part in finding.parts:
        text = f"“{part.text}”" if part.position is not None else part.text
        line.append(text, "bold" if part.role else "")
    return paragraph(line, width)


def paragraph(text: str | Text, width: int, style: str = "") -> Text:
    """A text in lines of that many cells; a number and its percent sign stay together."""
    line = Text(text, style) if isinstance(text, str) else text.copy()
    line.append(" ")
    ends = [match.end() for match in _WORD.finditer(line.plain)]
    # Every word ends in a space now, which takes no room at the end of a line.
    lines = wrap_parts(list(line.divide(ends[:-1])), width + 1)
    lines.rstrip()
    return lines


def wrap_parts(parts: Sequence[Text], width: int) -> Text:
    """The parts one after the other, in as many lines of that many cells as they need."""
    return Text("\n").join(Text.assemble(*line) for line in _lines(parts, width))


def _lines(parts: Sequence[Text], width: int) -> Iterator[list[Text]]:
    line: list[Text] = []
    left = width
    for part in parts:
        if line and cell_len(part.plain) > left:
            yield line
            line, left = [], width
        line.append(part)
        left -= cell_len(part.plain)
    yield line


def prediction_lines(prediction: Prediction | None, about: str = "") -> list[Text]:
    """The prediction with its alternatives: one line, or none without a prediction.

    ``about`` says what is predicted, where no sentence before it does.
    """
    if prediction is None:
        return []
    line = Text(about or "→ ", style="dim")
    line.append(label(prediction.label, LONGEST), style="bold")
    line.append(f" {percent(prediction.probability)}")
    others = [
        f"{label(name, 20)} {percent(probability)}"
        for name, probability in prediction.alternatives[1 : 1 + ALTERNATIVES]
        if probability >= LEAST
    ]
    if others:
        line.append("   " + ", ".join(others), style="dim")
    return [line]


def warning_lines(warnings: Sequence[str]) -> list[Text]:
    """What a reader must know."""
    return [Text(f"! {as_sentence(each)}", style="yellow") for each in warnings]


def model_name(model: str) -> str:
    """A model's name; of a folder or file, the end of its path."""
    path = Path(model)
    return clip(f"…/{'/'.join(path.parts[-2:])}" if path.is_absolute() else model, 40)
