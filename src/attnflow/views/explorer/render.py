"""The page as one file: markup, style, script and data inside, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from attnflow.io.files import check_target, writing
from attnflow.views.explorer.document import to_json
from attnflow.views.explorer.schema import Document

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = '<meta name="policy" />'
_LINK = '<link rel="stylesheet" href="static/style.css" />'
_SCRIPT = '<script type="module" src="static/app.js"></script>'


def static(name: str) -> str:
    """A file of the page."""
    return (files("attnflow.views.explorer") / "static" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """All modules of the page as one, each after those that it imports.

    The rule that makes this possible: modules import each other by name with one statement a line
    (or braces over several), export only declarations, and no two declare the same name.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        for needed in _IMPORT.findall(static(name)):
            visit(needed)
        order.append(name)

    visit("app.js")
    whole = "\n".join(_EXPORT.sub("", _IMPORT.sub("", static(name))) for name in order)
    if "</script" in whole or "<!--" in whole:
        msg = "the page's modules hold what ends a script element"
        raise AssertionError(msg)
    return whole


def render(document: Document, title: str = "attnflow") -> str:
    """A self-contained HTML page that shows the document, from disk and offline.

    Its content security policy allows the page's own script and style by their hashes, and nothing
    else: no other script runs and nothing is fetched, whatever the tokens are.
    """
    style, code = static("style.css"), script()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    page = static("index.html")
    for old, new in (
        (_POLICY, f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (_LINK, f"<style>{style}</style>"),
        (
            _SCRIPT,
            f'<script type="application/json" id="document">{to_json(document)}</script>\n'
            f'<script type="module">{code}</script>',
        ),
        ("<title>attnflow</title>", f"<title>{_escaped(title)}</title>"),
    ):
        if page.count(old) != 1:
            msg = f"index.html must hold {old!r} once"
            raise AssertionError(msg)
        page = page.replace(old, new)
    return page


def save(document: Document, path: str | Path, title: str, *, overwrite: bool = False) -> Path:
    """Write the page to a file."""
    path = check_target(path, overwrite=overwrite)
    with writing(path):
        path.write_bytes(render(document, title).encode(errors="replace"))
    return path


def framed(page: str, height: int = 760) -> str:
    """The page in a frame of its own, for notebooks: several never meet, and reach nothing."""
    return (
        f'<iframe srcdoc="{_escaped(page)}" sandbox="allow-scripts allow-downloads" '
        'title="attnflow explorer" loading="lazy" '
        f'style="width:100%;height:{height}px;border:0;border-radius:8px"></iframe>'
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _escaped(text: str) -> str:
    for character, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot")):
        text = text.replace(character, f"&{name};")
    return text.encode("utf-8", "replace").decode()
