"""The page as one file: markup, style, script and data in it, nothing fetched.

For readers without JavaScript, the scores are in it as plain tables.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from attnflow.io.files import check_target, write_file
from attnflow.records import FloatArray
from attnflow.views.explorer.citations import CitationsDocument, Cited
from attnflow.views.explorer.document import to_json
from attnflow.views.explorer.generation import GenerationDocument, Written
from attnflow.views.explorer.schema import Array, Document, FindingPart, PackedScores, View
from attnflow.views.wording.labels import distinct_labels
from attnflow.views.wording.numbers import numbers, percent

AnyDocument = Document | GenerationDocument | CitationsDocument
LONGEST = 40  # cells of a label
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = '<meta name="policy" />'
_NOSCRIPT = (
    '<noscript><p class="note">This page needs JavaScript, which is turned off.</p></noscript>'
)
_LINK = '<link rel="stylesheet" href="static/style.css" />'
_SCRIPT = '<script type="module" src="static/app.js"></script>'


def read_static(name: str) -> str:
    """A file of the page."""
    return (files("attnflow.views.explorer") / "static" / name).read_text(encoding="utf-8")


@cache
def bundle_script() -> str:
    """All modules of the page as one, each after those that it imports.

    This relies on rules: modules import each other by name, one statement per line (or braces over
    several), export only declarations, and no two declare the same name.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        for needed in _IMPORT.findall(read_static(name)):
            visit(needed)
        order.append(name)

    visit("app.js")
    whole = "\n".join(_EXPORT.sub("", _IMPORT.sub("", read_static(name))) for name in order)
    if "</script" in whole or "<!--" in whole:
        msg = "the page's modules contain text that ends a script element"
        raise AssertionError(msg)
    return whole


def render(document: AnyDocument, title: str = "attnflow") -> str:
    """A self-contained HTML page that shows the document, from disk and offline.

    Its content security policy allows the page's own script and style by their hashes, and nothing
    else: no other script runs and nothing is fetched, whatever the tokens are.
    """
    style, code = read_static("style.css"), bundle_script()
    policy = (
        f"default-src 'none'; script-src '{hash_of(code)}'; style-src '{hash_of(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    page = read_static("index.html")
    for old, new in (
        (_POLICY, f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (_LINK, f"<style>{style}</style>"),
        (
            _SCRIPT,
            f'<script type="application/json" id="document">{to_json(document)}</script>\n'
            f'<script type="module">{code}</script>',
        ),
        (_NOSCRIPT, f"<noscript>{plain_page(document)}</noscript>"),
        ("<title>attnflow</title>", f"<title>{_escape_html(title)}</title>"),
    ):
        if page.count(old) != 1:
            msg = f"index.html must contain {old!r} once"
            raise AssertionError(msg)
        page = page.replace(old, new)
    return page


def save(
    document: AnyDocument,
    path: str | Path,
    title: str,
    *,
    overwrite: bool = False,
) -> Path:
    """Write the page to a file."""
    path = check_target(path, overwrite=overwrite)
    write_file(path, render(document, title).encode(errors="replace"))
    return path


def height_of(document: AnyDocument) -> int:
    """About how many pixels high the page is, in a notebook of usual width: as its content."""
    if "generation" in document:
        written = document["generation"]
        lines = max(len(written["text"]) // 60 + 34 * len(written["parts"]), 240)
        return min(420 + lines, 1200)
    if "citations" in document:
        texts = [each["text"] for each in document["citations"]["sources"]]
        return min(240 + sum(70 + 27 * (len(text) // 60) for text in texts), 1000)
    rows = max(len(view["tokens"]) for view in document["views"])
    high = 30 if rows <= 12 else 25 if rows <= 24 else 20 if rows <= 48 else 17
    ways = 300 if any(view["traces"] for view in document["views"]) else 0
    chart = min(26 + rows * high, 680)
    first = document["views"][0]
    # Toolbar and controls; what was found, the prediction, about 14 tokens in a line; the legend.
    above = 150 + 150 + 24 * len(first["said"]) + 36 * min(6, -(-rows // 14)) + 60
    table = 25 * min(rows, 12) + 130
    return above + chart + 90 + max(ways, table) + 60


def to_iframe(page: str, height: int = 760) -> str:
    """The page in a sandboxed frame, for notebooks: isolated from the notebook and from others."""
    return (
        f'<iframe srcdoc="{_escape_html(page)}" sandbox="allow-scripts allow-downloads" '
        'title="attnflow explorer" loading="lazy" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px"></iframe>'
    )


def hash_of(text: str) -> str:
    """What a content security policy calls a script or style by."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _escape_html(text: str) -> str:
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text.encode("utf-8", "replace").decode()


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
    said = "".join(
        f"<li>{_text(e['label'])} {percent(e['probability'])}</li>" for e in view["said"]
    )
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
