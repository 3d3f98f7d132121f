"""Citations as the document that the page shows: the answer, and the sources beside it."""

from __future__ import annotations

from typing import final

from typing_extensions import TypedDict

from attnflow.records.citations import Citations
from attnflow.version import VERSION
from attnflow.views.explorer.parts import model_name
from attnflow.views.wording.citations import describe, legend, noted_sentences, summarize
from attnflow.views.wording.numbers import as_sentence

FORMAT = "attnflow-citations/1"


class ShownCitation(TypedDict):
    """What is said of a citation; ``quotes`` are source, start and end of each passage."""

    number: int
    about: str
    sources: list[int]
    quotes: list[tuple[int, int, int]]


class ShownSentence(TypedDict):
    """A sentence of the answer; ``flag`` says what it has in place of citations."""

    text: str
    flag: str
    citations: list[ShownCitation]


class ShownSource(TypedDict):
    """A source by its name, and its text."""

    name: str
    text: str


class Cited(TypedDict):
    """An answer with what its sentences rest on."""

    model: str
    summary: str
    stopped: str
    sentences: list[ShownSentence]
    sources: list[ShownSource]
    notes: list[str]


@final
class CitationsDocument(TypedDict):
    """The citations of one answer."""

    format: str
    library: str
    citations: Cited


def citations_document(of: Citations) -> CitationsDocument:
    """The document of citations."""
    sentences: list[ShownSentence] = [
        {
            "text": each.text,
            "flag": each.flag,
            "citations": [
                {
                    "number": number,
                    "about": describe(of, each.sentence, citation),
                    "sources": list(citation.sources),
                    "quotes": [
                        (quote.source, *span) for quote in citation.quotes for span in quote.spans
                    ],
                }
                for number, citation in zip(each.numbers, each.sentence.citations, strict=True)
            ],
        }
        for each in noted_sentences(of)
    ]
    cited: Cited = {
        "model": model_name(of.model),
        "summary": as_sentence(summarize(of)),
        "stopped": of.stopped,
        "sentences": sentences,
        "sources": [{"name": each.name, "text": each.text} for each in of.sources],
        "notes": [*filter(None, [legend(of)]), *map(as_sentence, of.warnings)],
    }
    return {"format": FORMAT, "library": VERSION, "citations": cited}
