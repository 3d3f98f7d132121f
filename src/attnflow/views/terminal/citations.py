"""Citations in a terminal: the answer with its markers, and what each of them stands for."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnflow.records.citations import Citations
from attnflow.views.terminal.lines import model_name, paragraph, warning_lines
from attnflow.views.wording.citations import describe, legend, noted_sentences, summarize
from attnflow.views.wording.labels import isolate
from attnflow.views.wording.numbers import as_sentence

MARK = "bold cyan"


def citations_view(found: Citations, console: Console) -> Group:
    """What may be concluded, the answer, and a note for each citation."""
    answer = Text()
    notes = Table.grid(padding=(0, 1, 0, 0))
    for each in noted_sentences(found):
        bare = each.text.rstrip()
        answer.append(isolate(bare if answer else bare.lstrip()))
        for number, citation in zip(each.numbers, each.sentence.citations, strict=True):
            answer.append(f" [{number}]", MARK)
            about = describe(found, each.sentence, citation)
            notes.add_row(Text(f"[{number}]", MARK), Text(isolate(about)))
        if each.flag:
            answer.append(f" [{each.flag}]", "yellow")
        answer.append(each.text[len(bare) :])
    answer.append(found.stopped, "dim")
    runs = f"{found.runs} runs of the model without some of the prompt · {model_name(found.model)}"
    lines: list[RenderableType] = [
        paragraph(as_sentence(summarize(found)), console.width),
        Text(runs, style="dim"),
        *warning_lines(found.warnings),
        Text(""),
        paragraph(answer, console.width),
    ]
    if notes.row_count:
        lines += [Text(""), notes]
    if legend(found):
        lines.append(paragraph(legend(found), console.width, "dim"))
    return Group(*lines)
