"""Options for methods and edges, with what each command uses where none are named."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_SELECTION = "Selection"
_PUBLISHED = (
    "Where no --edges are named, a named method reads those it was published with, mostly "
    "attention."
)
_TOGETHER = "Where no --edges are named, all of them read attention, to be compared on the same."
_OWN_OR_BEST = "those of the named method, else what answers best for the model"


def _method_names() -> list[str]:
    from attnflow.aggregation import AGGREGATORS

    return list(AGGREGATORS)


def _rule_names() -> list[str]:
    from attnflow.edges import EDGE_RULES

    return list(EDGE_RULES)


def _method(about: str = "", default: str | bool = True) -> Any:
    return typer.Option(
        "--method",
        metavar="METHOD",
        help=f"The method: {{methods}}. {about}".strip(),
        autocompletion=_method_names,
        rich_help_panel=_SELECTION,
        show_default=default,
    )


def _edges(default: str | bool = True) -> Any:
    return typer.Option(
        "--edges",
        metavar="RULE",
        help="What the edges are made of: {edges}.",
        autocompletion=_rule_names,
        rich_help_panel=_SELECTION,
        show_default=default,
    )


Methods = Annotated[list[str] | None, _method(_PUBLISHED, "what answers best for the model")]
ComparedMethods = Annotated[
    list[str] | None,
    _method(_TOGETHER, "the paper's three, and with its edges what answers best for the model"),
]
RoutesMethod = Annotated[str, _method(_PUBLISHED, "flow, on the edges that answer best")]
Method = Annotated[str, _method()]
Edges = Annotated[str, _edges(_OWN_OR_BEST)]
ManyEdges = Annotated[list[str] | None, _edges(f"{_OWN_OR_BEST}; repeat for several")]
ComparedEdges = Annotated[
    list[str] | None,
    _edges("attention, and what answers best where no method is named; repeat for several"),
]
SimilarityEdges = Annotated[str, _edges("alti, or attention where a model refuses that")]
FittedEdges = Annotated[str, _edges()]
