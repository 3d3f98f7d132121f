"""Options for methods and edges, with what each command uses where none are named."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_SELECTION = "Selection"
_OWN_OR_BEST = (
    "those that the named method was published with, mostly attention; without one, what answers "
    "best for the model"
)


def _method_names() -> list[str]:
    from attnflow.methods import METHODS

    return list(METHODS)


def _rule_names() -> list[str]:
    from attnflow.edges import EDGE_RULES

    return list(EDGE_RULES)


def _method(default: str | bool = True) -> Any:
    return typer.Option(
        "--method",
        metavar="METHOD",
        help="The method: {methods}.",
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


Methods = Annotated[list[str] | None, _method("what answers best for the model")]
ComparedMethods = Annotated[
    list[str] | None,
    _method("the paper's three, and with its edges what answers best for the model"),
]
RoutesMethod = Annotated[str, _method("flow, on the edges that answer best")]
Method = Annotated[str, _method()]
Edges = Annotated[str, _edges(_OWN_OR_BEST)]
ManyEdges = Annotated[list[str] | None, _edges(f"{_OWN_OR_BEST}; repeat for several")]
ComparedEdges = Annotated[
    list[str] | None,
    _edges(
        "attention for all methods, to compare them on the same; what answers best, too, where no "
        "method is named; repeat for several"
    ),
]
SimilarityEdges = Annotated[str, _edges("alti, or attention where a model refuses that")]
FittedEdges = Annotated[str, _edges()]
