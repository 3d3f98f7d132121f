"""``attnflow compare``: how far methods agree, and their scores in every layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnflow.cli import method_options, model_options, options, parsing, running
from attnflow.cli.inputs import read_item
from attnflow.cli.streams import print_json

if TYPE_CHECKING:
    from attnflow.records import Attribution

Top = Annotated[
    int,
    typer.Option(
        "--top",
        metavar="N",
        min=1,
        help="How many tokens to list; those with the highest scores.",
        rich_help_panel="Output",
    ),
]


def compare(  # noqa: PLR0913 - one argument per option
    text: options.OneText = None,
    *,
    file: options.File = None,
    pair: options.Pair = None,
    model: options.Model = None,
    target: options.Target = None,
    contrast: options.Contrast = None,
    start: options.Source = "position",
    answer: options.Answer = None,
    truncate: options.Truncate = False,
    bos: options.Bos = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.Methods = None,
    edges: method_options.Edges = "auto",
    steps: options.Steps = None,
    query: options.Query = None,
    residual: options.Residual = None,
    correction: options.Correction = "auto",
    words: options.Words = False,
    top: Top = 24,
    as_json: options.Json = False,
    plugin: options.Plugins = None,
) -> None:
    """Compare methods: their rank agreement and their scores in each layer.

    Example: attnflow compare "The food was not good."
    """
    from attnflow.pipeline.choice import shown_methods
    from attnflow.pipeline.request import Request
    from attnflow.pipeline.source import LOGIT, methods_from_logit

    source = read_item(text, file, pair)
    methods = parsing.parse_methods(method)
    config = Request(
        method=methods[0] if methods else Request.method,
        edges=edges,
        layers=None if start == LOGIT else "all",
        query=parsing.parse_query(query),
        residual=residual,
        correction=parsing.parse_correction(correction),
        words=words,
        target=target,
        contrast=contrast,
        source=start,
        steps=steps,
        methods=tuple(methods),
        truncate=truncate,
        bos=bos,
        execution=model_options.execution(device),
    )
    chosen = model_options.choose(model, device, dtype, revision, trust_remote_code)
    session = running.one_session(source, chosen, config, answer=answer)
    usual = methods_from_logit() if start == LOGIT else shown_methods(session.config.method)
    results = running.attributions(session, methods or usual)
    table = agreements(results)
    if as_json:
        print_json(_data(results, table))
        return
    from rich.console import Console

    from attnflow.views.methods import method_info
    from attnflow.views.terminal.header import header
    from attnflow.views.terminal.maps import agreement_table, layer_maps
    from attnflow.views.terminal.notes import show_notes
    from attnflow.views.terminal.pieces import pieces

    console = Console(highlight=False)
    found = running.summarize(session, results, few=True)
    named = edges != "auto" or not methods
    console.print(header(*results, finding=found.main, all_layers=True, edges_named=named))
    if table:
        console.print()
        console.print(agreement_table(_layers(results), table, console))
    layered = [item for item in results if method_info(item.method).layered and start != LOGIT]
    if layered:
        console.print()
        console.print(layer_maps(layered, found.main, console, top))
    others = [item for item in results if item not in layered]
    if others:
        console.print()
        console.print(pieces(others, console))
    show_notes(found, console)


def agreements(attributions: Sequence[Attribution]) -> dict[tuple[str, str], list[float]]:
    """Spearman's rank correlation of every two methods, layer by layer, without special tokens.

    A method without layers is compared with every layer of one that has them; two such methods
    agree as far in all layers, and only the last one says so.
    """
    from attnflow.evaluation.agreement import agreement

    layers = _layers(attributions)

    def row(first: Attribution, second: Attribution) -> list[float]:
        if max(len(first.layers), len(second.layers)) < len(layers):
            return [*[math.nan] * (len(layers) - 1), agreement(first, second, special=False)]
        return [agreement(first, second, layer, special=False) for layer in layers]

    pairs = combinations(attributions, 2)
    return {(first.method, second.method): row(first, second) for first, second in pairs}


def _layers(attributions: Sequence[Attribution]) -> tuple[int, ...]:
    """The layers that are compared: those of the methods that have layers."""
    return max((item.layers for item in attributions), key=len)


def _data(
    attributions: Sequence[Attribution], table: dict[tuple[str, str], list[float]]
) -> dict[str, Any]:
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
            item.method: [item.row(layer).tolist() for layer in item.layers]
            for item in attributions
        },
    }
