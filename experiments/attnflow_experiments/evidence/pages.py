"""Tables between the marks of a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write_page(page: Path, tables: Mapping[str, str]) -> None:
    """Put the tables between the marks of a page, and leave the rest of it as it is."""
    text = page.read_text(encoding="utf-8")
    for title, table in tables.items():
        before, mark, rest = text.partition(f"<!-- {title} -->\n")
        if mark:
            text = f"{before}{mark}\n{table}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    page.write_text(text, encoding="utf-8")
