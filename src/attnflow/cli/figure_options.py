"""Options of figures: what is drawn, and how it looks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file: .svg, .pdf or .png.",
        rich_help_panel="Output",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        "-t",
        metavar="TOKEN",
        help="For graph: add the routes and the bottleneck of the flow from this token.",
        rich_help_panel="Selection",
    ),
]
Candidates = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        metavar="TOKEN",
        help="For pronouns: a token of the text to show; repeat for each.",
        rich_help_panel="Selection",
    ),
]
Pronouns = Annotated[
    list[str] | None,
    typer.Option(
        "--pronoun",
        metavar="WORD",
        help="For pronouns: a word whose probability is shown; repeat for each.",
        rich_help_panel="Selection",
        show_default="his, her",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        metavar="WEIGHT",
        help="For graph: leave out edges below this.",
        rich_help_panel=_LOOK,
        show_default="the strongest edges of each position",
    ),
]
Values = Annotated[
    bool, typer.Option("--values", help="Write the numbers into cells.", rich_help_panel=_LOOK)
]
Relative = Annotated[
    bool,
    typer.Option(
        "--relative",
        help="Stretch colours over each layer (heatmap) or each row (generation).",
        rich_help_panel=_LOOK,
    ),
]
Theme = Annotated[
    ThemeName,
    typer.Option("--theme", metavar="light|dark", help="The colours.", rich_help_panel=_LOOK),
]
Width = Annotated[
    str | None,
    typer.Option(
        "--width",
        metavar="WIDTH",
        help="The width: single or double (columns), 3.5in or 252pt. The font size stays the same.",
        rich_help_panel=_LOOK,
        show_default="as wide as it needs",
    ),
]
Dpi = Annotated[
    int,
    typer.Option(
        "--dpi",
        min=20,
        max=1200,
        metavar="N",
        help="The resolution of PNG files.",
        rich_help_panel=_LOOK,
    ),
]
