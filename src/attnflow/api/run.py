"""`run`: a data set in, a folder of attributions out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path
from attnflow.io.inputs import several
from attnflow.io.keywords import known_keywords
from attnflow.io.rows import Columns, open_rows
from attnflow.methods import METHODS
from attnflow.models.fetching import ModelReference
from attnflow.pipeline.choice import usual_methods
from attnflow.pipeline.request import AUTO, Request
from attnflow.pipeline.source import LOGIT, POSITION, methods_from_logit
from attnflow.records.checks import check_flag, check_number
from attnflow.registry import load_plugin
from attnflow.runs.options import OPTIONS, RowOptions
from attnflow.solvers.execution import Execution

if TYPE_CHECKING:
    from attnflow.models.loading import Source
    from attnflow.runs.cluster import Cluster
    from attnflow.runs.reading import Run

    Given = str | PathLike[str] | Iterable[str | tuple[str, str] | Mapping[str, Any]]


@known_keywords(*OPTIONS)
def run(  # noqa: PLR0913 - one keyword per option, the same words as everywhere
    data: Given,
    folder: str | Path,
    model: Source = None,
    *,
    text_column: str = "text",
    target_column: str | None = None,
    id_column: str | None = None,
    pair_column: str | None = None,
    format: str | None = None,
    methods: str | Sequence[str] | None = None,
    edges: str | Sequence[str] = "auto",
    strict: bool = False,
    shard_size: int = 1000,
    workers: int = 1,
    threads: int = 1,
    ray: str | None = None,
    gpus_per_worker: float = 0,
    plugins: Sequence[str] = (),
    progress: bool = False,
    **options: Unpack[RowOptions],
) -> Run:
    """Explain every row of a data set, into a folder; after a crash the same call goes on.

    Args:
        data: A JSONL, CSV, TSV, Parquet or text file (the first three and text also ``.gz``), the
            folder of a Hugging Face data set, or an iterable of texts or of mappings.
        folder: Where shards and the manifest are written. A folder with a run of other options,
            another model or another input is refused; one of the same is continued.
        model: As for `attnflow.explain`; with several workers a name or a folder.
        text_column: The column of the text.
        target_column: The column of the target, for edges that are seen by one.
        id_column: A column that names each row, kept with the results.
        pair_column: The column of the second text, where the model reads two texts as one input;
            rows of an iterable may then be tuples of two texts.
        format: ``"jsonl"``, ``"csv"``, ``"tsv"``, ``"parquet"``, ``"text"`` or ``"dataset"``; by
            default what the file's name tells.
        methods: One or several; ``None`` is what `attnflow.explain` uses, and where edges are named
            the methods that are shown by default.
        edges: One or several edge rules; each is one more pass through the model. ``"auto"`` as for
            `attnflow.explain`: what answers best for the kind of model, or of the first method.
        strict: Stop at the first row that can't be explained, and refuse models that mix tokens
            outside attention too. Otherwise a bad row is recorded with its reason.
        shard_size: How many rows a file has; a crash loses what is done of one file.
        workers: How many processes work; each loads the model.
        threads: How many threads torch and flow use in each; it may change the last bits.
        ray: The address of a Ray cluster on which the workers run, such as ``"auto"`` or
            ``"host:6379"``; ``"local"`` starts one here (docs/datasets.md).
        gpus_per_worker: On a cluster, how many GPUs each worker has, such as 1 or 0.5; models run
            on them.
        plugins: Modules or files that register methods or edges, for every worker.
        progress: Show a progress bar with the rate and the time left.
        **options: Options of `attnflow.explain` for all rows: ``layer``, ``layers``, ``query``,
            ``heads``, ``residual``, ``discard``, ``correction``, ``normalize``, ``words``,
            ``contrast``, ``source``, ``steps``, ``truncate``, ``bos`` and ``batch_size``. Scores
            are kept for the position that is explained only; ``query="all"`` keeps all.

    Returns:
        What `attnflow.read_run` returns.
    """
    for name, value in (("progress", progress), ("strict", strict)):
        check_flag(name, value)
    sizes = {"shard_size": shard_size, "workers": workers, "threads": threads}
    for name, size in sizes.items():
        check_number(name, size, 1)
    cluster = _cluster(ray, gpus_per_worker)
    for plugin in plugins:
        load_plugin(plugin)  # workers do, too; here, so that methods and edges are known
    rules = several("edges", edges)
    names = _methods(methods, rules, options)
    configs = tuple(
        Request(
            method=own[0],
            methods=own,
            edges=rule,
            strict=strict,
            execution=Execution(threads),
            **options,
        )
        for rule, own in _split(rules, names)
    )
    others = workers > 1 or cluster is not None
    if others and not (model is None or isinstance(model, str | Path | ModelReference)):
        msg = (
            f"model={type(model).__name__} can't be given to other processes; with workers="
            f"{workers} give a name or a folder, or save the model first"
        )
        raise InputError(msg)
    if cluster is not None and isinstance(model, ModelReference) and model.options.device:
        msg = (
            f"device={model.options.device!r} is of this machine; on a Ray cluster, "
            "gpus_per_worker says where models run"
        )
        raise InputError(msg)
    columns = Columns(text_column, target_column, id_column, pair=pair_column)
    rows = open_rows(data, columns, format)
    from attnflow.runs.engine import Plan, execute
    from attnflow.runs.reading import read_run
    from attnflow.runs.work import Work

    work = Work(
        configs,
        threads,
        targets=target_column is not None,
        strict=bool(strict),
        plugins=tuple(plugins),
        device="cuda" if gpus_per_worker else None,
    )
    place = as_path(folder)
    kept = execute(
        Plan(rows, columns, place, shard_size, work),
        model,
        workers=workers,
        progress=bool(progress),
        cluster=cluster,
    )
    return replace(read_run(place), kept=kept)


def _cluster(address: Any, gpus: Any) -> Cluster | None:
    """The cluster to work on, if one is named."""
    from attnflow.runs.cluster import Cluster

    if isinstance(gpus, bool) or not isinstance(gpus, int | float) or not 0 <= gpus < math.inf:
        msg = f"gpus_per_worker={shown(gpus)} must be 0 or more, such as 1 or 0.5"
        raise InputError(msg)
    if address is None and gpus:
        msg = f"gpus_per_worker={gpus} is for workers of a Ray cluster; name one by ray="
        raise InputError(msg)
    if address is not None and not (isinstance(address, str) and address):
        msg = f"ray={shown(address)} must be an address, such as 'auto' or 'local'"
        raise InputError(msg)
    return None if address is None else Cluster(address, float(gpus))


def _split(rules: Sequence[str], names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each kind of edges the methods that are computed with it.

    Those that read no edges are computed once; where there are no others, all are named again, and
    refused.
    """
    on_edges = tuple(name for name in names if name == AUTO or METHODS[name].reads_edges)
    for number, rule in enumerate(rules):
        yield rule, (on_edges or names) if number else names


def _methods(
    given: str | Sequence[str] | None, rules: Sequence[str], options: RowOptions
) -> tuple[str, ...]:
    if given is None or given == AUTO:
        from_logit = options.get("source", POSITION) == LOGIT
        usual = methods_from_logit() if from_logit else usual_methods(options.get("heads", "mean"))
        return (AUTO,) if given or list(rules) == [AUTO] else tuple(usual)
    return tuple(METHODS[name].name for name in several("methods", given))
