"""Pages of Markdown: unchanged in files and pipes, formatted in a terminal."""

from __future__ import annotations

import re
import sys

_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)\n?")


def show_page(page: str) -> None:
    """Print a page; in a terminal, pictures are shown as their paths."""
    if not sys.stdout.isatty():
        sys.stdout.write(f"{page}\n")
        return
    from rich.console import Console, Group, RenderableType
    from rich.markdown import Markdown
    from rich.theme import Theme

    plain = Theme(
        {"markdown.code": "none", "markdown.table.header": "bold", "markdown.table.border": "dim"}
    )
    parts: list[RenderableType] = []
    text = _PICTURE.sub(r"- `\1`\n", page)
    for block in filter(str.strip, re.split(r"(?m)^(?=#)", text)):
        title, _, rest = block.partition("\n") if block.startswith("#") else ("", "", block)
        if title:
            parts.append(f"[bold]{title.lstrip('# ')}[/]")
        if rest.strip():
            parts.append(Markdown(rest.strip()))
        if not rest.rstrip().endswith("|"):  # a table brings its own empty line
            parts.append("")
    Console(highlight=False, theme=plain).print(Group(*parts))
