"""The page as one file: markup, style, script and data in it, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from attnflow.io.files import check_target, write_file
from attnflow.views.explorer.document import to_json
from attnflow.views.explorer.plain import AnyDocument, plain_page

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
