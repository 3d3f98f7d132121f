"""A document as plain tables, for readers without JavaScript."""

from __future__ import annotations

import base64
from html import escape

import numpy as np

from attnflow.records import FloatArray
from attnflow.views.explorer.citations import CitationsDocument, Cited
from attnflow.views.explorer.generation import GenerationDocument, Written
from attnflow.views.explorer.schema import Array, Document, FindingPart, PackedScores, View
from attnflow.views.wording.labels import distinct_labels
from attnflow.views.wording.numbers import numbers

AnyDocument = Document | GenerationDocument | CitationsDocument
LONGEST = 40  # cells of a label


def plain_page(document: AnyDocument) -> str:
    """What was found and the scores of every method, as HTML without style or script."""
    intro = "<p>JavaScript is turned off: these are the scores, as plain tables.</p>"
    if "generation" in document:
        return intro + _answer_section(document["generation"])
    if "citations" in document:
        return intro + _cited_section(document["citations"])
    return intro + "".join(_section(view) for view in document["views"])


def _section(view: View) -> str:
    shown = view["scores"]
    titles = {method["name"]: method["title"] for method in view["methods"]}
    head = "".join(f'<th scope="col">{_text(titles[part["method"]])}</th>' for part in shown)
    names = distinct_labels(view["tokens"], LONGEST)
    columns = [numbers(_row(part, view)) for part in shown]
    lines = []
    for at, name in enumerate(names):
        cells = "".join(f'<td class="number">{column[at]}</td>' for column in columns)
        lines.append(f'<tr><th scope="row" dir="auto">{_text(name)}</th>{cells}</tr>')
    found = "".join(
        f"<li>{_text(titles[each['method']])}: {_text(_sentence(each['parts']))} "
        f"{_text(each['evidence'])}</li>"
        for each in view["findings"]
    )
    said = "".join(f"<li>{_text(e['label'])} {e['probability']:.1%}</li>" for e in view["said"])
    notes = [each for each in (view["agreement"], *view["notes"]) if each]
    about = "".join(f"<p>{_text(each)}</p>" for each in notes)
    return (
        f"<h2>{_text(view['text'])}</h2><ul>{found}</ul>{about}<ul>{said}</ul>"
        f"<table><caption>Scores at layer {view['layer']}, for {_text(names[view['query']])}"
        f'</caption><thead><tr><th scope="col">Token</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _answer_section(written: Written) -> str:
    """What each part gave to each word or sentence of the answer."""
    values = _unpack(written["part_scores"])
    head = "".join(f'<th scope="col">{_text(part["name"])}</th>' for part in written["parts"])
    lines = []
    row_of = [row for row, piece in enumerate(written["pieces"]) for _ in range(*piece)]
    for tokens in written["words"]:
        name = "".join(written["tokens"][written["answer"][token]] for token in tokens).strip()
        mean = values[[row_of[token] for token in tokens]].mean(0)
        cells = "".join(f'<td class="number">{each}</td>' for each in numbers(mean))
        lines.append(f'<tr><th scope="row" dir="auto">{_text(name)}</th>{cells}</tr>')
    return (
        f"<h2>{_text(written['answer_text'] + written['stopped'])}</h2>"
        f"<p>{_text(written['text'])}</p>"
        f"<table><caption>What each part gave, {_text(written['method']['title'])}</caption>"
        f'<thead><tr><th scope="col">Answer</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _cited_section(cited: Cited) -> str:
    """The answer with its markers, what they stand for, and the sources."""
    answer, notes = "", ""
    for each in cited["sentences"]:
        marks = [str(citation["number"]) for citation in each["citations"]] or [each["flag"]]
        answer += f"{_text(each['text'])} {''.join(f'[{_text(mark)}]' for mark in marks)} "
        for citation in each["citations"]:
            notes += f'<li value="{citation["number"]}">{_text(citation["about"])}</li>'
    sources = "".join(
        f"<h3>{_text(each['name'])}</h3><p>{_text(each['text'])}</p>" for each in cited["sources"]
    )
    return f"<h2>{_text(cited['summary'])}</h2><p>{answer}</p><ol>{notes}</ol>{sources}"


def _sentence(parts: list[FindingPart]) -> str:
    return "".join(
        f"“{part['text']}”" if part["role"] in ("token", "for", "against") else part["text"]
        for part in parts
    )


def _row(part: PackedScores, view: View) -> FloatArray:
    """The scores that are shown at first; a method without layers has those of the output."""
    layers, queries = part["layers"], part["queries"]
    layer = view["layer"] if view["layer"] in layers else layers[-1]
    query = view["query"] if view["query"] in queries else queries[0]
    values = _unpack(part["values"])
    row: FloatArray = values[layers.index(layer), queries.index(query)]
    return row


def _unpack(array: Array) -> FloatArray:
    values: FloatArray = np.frombuffer(
        base64.b64decode(array["data"]), "<" + array["dtype"]
    ).reshape(array["shape"])
    return values


def _text(text: str) -> str:
    return escape(text.encode("utf-8", "replace").decode())
