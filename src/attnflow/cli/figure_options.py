"""Options of figures: what is drawn, and how it looks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from attnflow.cli import options as own

_LOOK = "Look"


class ThemeName(StrEnum):
    """The themes of a figure."""

    LIGHT = "light"
    DARK = "dark"


def _kind_names() -> list[str]:
    from attnflow.views.kinds import KINDS

    return list(KINDS)


FigureKind = Annotated[
    str,
    typer.Argument(metavar="KIND", help="{kinds}.", autocompletion=_kind_names, show_default=False),
]
Output = Annotated[Path, own.flag("--output -o FILE", "The file: .svg, .pdf or .png.")]
To = Annotated[
    str | None,
    own.flag(
        "--to -t TOKEN",
        "For graph: add the routes and the bottleneck of the flow from this token.",
        panel="Selection",
    ),
]
Candidates = Annotated[
    list[str] | None,
    own.flag(
        "--candidate TOKEN",
        "For pronouns: a token of the text to show; repeat for each.",
        panel="Selection",
    ),
]
Pronouns = Annotated[
    list[str] | None,
    own.flag(
        "--pronoun WORD",
        "For pronouns: a word whose probability is shown; repeat for each.",
        panel="Selection",
        show_default="his, her",
    ),
]
Threshold = Annotated[
    float | None,
    own.flag(
        "--threshold WEIGHT",
        "For graph: leave out edges below this.",
        panel=_LOOK,
        show_default="the strongest edges of each position",
    ),
]
Values = Annotated[bool, own.flag("--values", "Write the numbers into cells.", panel=_LOOK)]
Relative = Annotated[
    bool,
    own.flag(
        "--relative",
        "Stretch colours over each layer (heatmap) or each row (generation).",
        panel=_LOOK,
    ),
]
Theme = Annotated[ThemeName, own.flag("--theme light|dark", "The colours.", panel=_LOOK)]
Width = Annotated[
    str | None,
    own.flag(
        "--width WIDTH",
        "The width: single or double (columns), 3.5in or 252pt. The font size stays the same.",
        panel=_LOOK,
        show_default="as wide as it needs",
    ),
]
Dpi = Annotated[
    int, own.flag("--dpi N", "The resolution of PNG files.", panel=_LOOK, min=20, max=1200)
]
