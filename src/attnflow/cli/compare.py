"""``attnflow compare``: how far methods agree, and their scores in every layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

from attnflow.cli import options as own
from attnflow.cli import running
from attnflow.cli.command import Given, command, make_request
from attnflow.cli.inputs import read_item
from attnflow.cli.streams import print_json
from attnflow.options.tables import ExplainOptions

if TYPE_CHECKING:
    from attnflow.records import Attribution

Top = Annotated[
    int, own.flag("--top N", "How many tokens to list, from the highest score down.", min=1)
]


@command(ExplainOptions, several=["method"], without=["layer", "layers", "heads"])
def compare(  # noqa: PLR0913 - one argument per option of its own
    text: own.OneText = None,
    *,
    options: Given,
    model: Any,
    file: own.File = None,
    pair: own.Pair = None,
    top: Top = 24,
    verbose: own.Verbose = False,
    as_json: own.Json = False,
    plugin: own.Plugins = None,
) -> None:
    """Compare methods: their rank agreement and their scores in each layer.

    Example: attnflow compare "The food was not good."
    """
    from attnflow.pipeline.choice import shown_together
    from attnflow.pipeline.request import LOGIT, methods_from_logit

    item = read_item(text, file, pair)
    start, edges = options.get("source"), options.get("edges", "auto")
    request = make_request(options, layers=None if start == LOGIT else "all")
    methods = list(request.methods)
    session = running.one_session(item, model, request, answer=options.get("answer"))
    named = methods or (methods_from_logit() if start == LOGIT else [])
    shown = [(session, each) for each in named] or shown_together(session)
    results = running.together(shown)
    table = agreements(results)
    if as_json:
        print_json(_data(results, table))
        return
    from rich.console import Console

    from attnflow.views.terminal.attribution import show_comparison

    console = Console(highlight=False)
    found = running.summarize(session, results, few=True)
    edges_named = edges != "auto" or not methods
    show_comparison(results, found, table, console, top, verbose=verbose, edges_named=edges_named)


def agreements(attributions: Sequence[Attribution]) -> dict[tuple[str, str], list[float]]:
    """Spearman's rank correlation of every two methods, layer by layer, without special tokens.

    A method without layers is compared with every layer of one that has them; two such methods
    agree as far in all layers, and only the last one says so.
    """
    from attnflow.evaluation.agreement import agreement
    from attnflow.views.wording.names import name_of

    layers = _layers(attributions)

    def row(first: Attribution, second: Attribution) -> list[float]:
        if max(len(first.layers), len(second.layers)) < len(layers):
            return [*[math.nan] * (len(layers) - 1), agreement(first, second, special=False)]
        return [agreement(first, second, layer, special=False) for layer in layers]

    pairs = combinations(attributions, 2)
    return {(name_of(first), name_of(second)): row(first, second) for first, second in pairs}


def _layers(attributions: Sequence[Attribution]) -> tuple[int, ...]:
    """The layers that are compared: those of the methods that have layers."""
    return max((item.layers for item in attributions), key=len)


def _data(
    attributions: Sequence[Attribution], table: dict[tuple[str, str], list[float]]
) -> dict[str, Any]:
    from attnflow.views.wording.names import name_of

    first = attributions[0]
    return {
        "text": first.text,
        "model": first.model,
        "tokens": list(first.tokens),
        "layers": list(_layers(attributions)),
        "query": first.query,
        "agreement": [
            {"methods": list(pair), "spearman": [None if v != v else v for v in values]}
            for pair, values in table.items()
        ],
        "scores": {
            name_of(item): [item.row(layer).tolist() for layer in item.layers]
            for item in attributions
        },
    }
