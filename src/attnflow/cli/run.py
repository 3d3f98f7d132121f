"""``attnflow run``: explain every row of a data set."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from attnflow.cli import data_options, method_options, model_options, options, parsing
from attnflow.cli.streams import echo

if TYPE_CHECKING:
    from attnflow.runs.reading import Run


def run(  # noqa: PLR0913 - one argument per option
    source: data_options.Input,
    *,
    out: data_options.Out,
    file_format: data_options.Format = None,
    text_column: data_options.TextColumn = "text",
    target_column: data_options.TargetColumn = None,
    id_column: data_options.IdColumn = None,
    pair_column: data_options.PairColumn = None,
    model: options.Model = None,
    contrast: options.Contrast = None,
    start: options.Source = "position",
    truncate: options.Truncate = False,
    bos: options.Bos = False,
    strict: options.Strict = False,
    device: model_options.Device = None,
    dtype: model_options.Dtype = None,
    revision: model_options.Revision = None,
    trust_remote_code: model_options.Trust = False,
    method: method_options.Methods = None,
    edges: method_options.ManyEdges = None,
    steps: options.Steps = None,
    layer: options.Layer = None,
    layers: options.Layers = None,
    query: options.Query = None,
    heads: options.Heads = "mean",
    residual: options.Residual = None,
    correction: options.Correction = "auto",
    words: options.Words = False,
    batch_size: data_options.BatchSize = 16,
    shard_size: data_options.ShardSize = 1000,
    workers: data_options.Workers = 1,
    threads: data_options.Threads = 1,
    ray: data_options.Ray = None,
    gpus_per_worker: data_options.GpusPerWorker = 0,
    plugin: options.Plugins = None,
) -> None:
    """Explain every row of a data set, into a folder of Parquet files.

    Files appear whole or not at all: after a crash the same command goes on.

    Example: attnflow run reviews.jsonl -o explained --layers all --workers 2
    """
    from attnflow.api.run import run as explain_rows

    try:
        made = explain_rows(
            source,
            out,
            model_options.choose(model, device, dtype, revision, trust_remote_code),
            text_column=text_column,
            target_column=target_column,
            id_column=id_column,
            pair_column=pair_column,
            format=file_format,
            methods=parsing.parse_methods(method) or None,
            edges=edges or "auto",
            layer=layer,
            layers=parsing.parse_layers(layers),
            query=parsing.parse_query(query),
            heads=parsing.parse_heads(heads),
            residual=residual,
            correction=parsing.parse_correction(correction),
            words=words,
            contrast=contrast,
            source=start,
            steps=steps,
            truncate=truncate,
            bos=bos,
            strict=strict,
            batch_size=batch_size,
            shard_size=shard_size,
            workers=workers,
            threads=threads,
            ray=ray,
            gpus_per_worker=gpus_per_worker,
            plugins=plugin or (),
            progress=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        echo("what is finished is kept: the same command goes on", err=True)
        raise
    count = made.manifest["finished"]["errors"]
    kept = "all of them" if made.kept == made.rows else f"{made.kept} of them"
    before = f"; {kept} had been explained before" if made.kept else ""
    made_by = _made_by(made)
    echo(f"{made.rows} rows, {len(made)} attributions{made_by} in {made.folder}{before}")
    if count:
        first = made.errors[0]
        rows = "1 row" if count == 1 else f"{count} rows"
        told = f"{rows} could not be explained; row {first.row}: {first.error}"
        echo(told, err=True)
    if count == made.rows:
        raise typer.Exit(1)


def _made_by(made: Run) -> str:
    """The methods, the edges that they read and a correction, as the first row has them."""
    _, _, first = next(made.explained(), (0, None, []))
    named = [_name(each.method, each.options) for each in first]
    return f" ({'; '.join(dict.fromkeys(named))})" if named else ""


def _name(method: str, options: Mapping[str, Any]) -> str:
    edges, correction = options.get("edges"), options.get("correction")
    return method + (f" on {edges}" if edges else "") + (f", {correction}" if correction else "")
