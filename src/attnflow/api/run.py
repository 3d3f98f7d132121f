"""`run`: a data set in, a folder of attributions out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from attnflow.errors import InputError, shown
from attnflow.io.files import as_path
from attnflow.io.inputs import several
from attnflow.io.rows import Columns, open_rows
from attnflow.methods import METHODS
from attnflow.models.loading import ModelReference
from attnflow.options.option import takes
from attnflow.options.tables import RunOptions
from attnflow.pipeline.choice import usual_methods
from attnflow.pipeline.request import AUTO, LOGIT, Request, methods_from_logit
from attnflow.records.checks import check_number
from attnflow.registry import load_plugin

if TYPE_CHECKING:
    from attnflow.edges.graph import Heads
    from attnflow.models.loading import Source
    from attnflow.runs.cluster import Cluster
    from attnflow.runs.reading import Run

    Rows = str | PathLike[str] | Iterable[str | tuple[str, str] | Mapping[str, Any]]

P = ParamSpec("P")


class FromRows(Protocol[P]):
    """How `run` is called."""

    def __call__(
        self,
        data: Rows,
        folder: str | Path,
        model: Source = None,
        *args: P.args,
        **options: P.kwargs,
    ) -> Run:
        """Call it."""


def _takes(table: Callable[P, Any]) -> Callable[[Callable[..., Run]], FromRows[P]]:
    return takes(table)


@_takes(RunOptions)
def run(data: Rows, folder: str | Path, model: Source = None, *, options: RunOptions) -> Run:
    """Explain every row of a data set, into a folder; after a crash the same call goes on.

    Args:
        data: A JSONL, CSV, TSV, Parquet or text file (the first three and text also ``.gz``), the
            folder of a Hugging Face data set, or an iterable of texts or of mappings.
        folder: Where shards and the manifest are written. A folder with a run of other options,
            another model or another input is refused; one of the same is continued.
        model: As for `attnflow.explain`; with several workers a name or a folder.

    Returns:
        What `attnflow.read_run` returns.

    Examples:
        >>> import tempfile, attnflow
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     texts = ["the key to the cabinets", "the keys to the cabinet"]
        ...     done = attnflow.run(texts, f"{folder}/run", "verbs", methods="rollout")
        ...     [of.prediction.label for _, _, (of,) in done.explained()]
        ['singular', 'plural']
    """
    for name in ("shard_size", "workers", "threads"):
        check_number(name, getattr(options, name), 1)
    workers, device = options.workers, options.device
    cluster = _cluster(options.ray, options.gpus_per_worker)
    for plugin in options.plugins:
        load_plugin(plugin)  # workers do, too; here, so that methods and edges are known
    rules = several("edges", options.edges)
    requests = tuple(
        Request.of(options, method=own[0], methods=own, edges=rule, progress=False)
        for rule, own in _split(rules, _methods(options, rules))
    )
    others = workers > 1 or cluster is not None
    if others and not (model is None or isinstance(model, str | Path | ModelReference)):
        msg = (
            f"model={type(model).__name__} can't be given to other processes; with workers="
            f"{workers} give a name or a folder, or save the model first"
        )
        raise InputError(msg)
    if isinstance(model, ModelReference) and device is None:
        device = model.options.device
    if cluster is not None and device is not None:
        msg = (
            f"device={device!r} is of this machine; on a Ray cluster, gpus_per_worker says where "
            "models run"
        )
        raise InputError(msg)
    columns = Columns(
        options.text_column, options.target_column, options.id_column, pair=options.pair_column
    )
    rows = open_rows(data, columns, options.format)
    from attnflow.runs.engine import Plan, execute
    from attnflow.runs.reading import read_run
    from attnflow.runs.work import Work

    work = Work(
        requests,
        options.threads,
        targets=options.target_column is not None,
        strict=options.strict,
        plugins=tuple(options.plugins),
        device="cuda" if options.gpus_per_worker else options.device,
    )
    place = as_path(folder)
    kept = execute(
        Plan(rows, columns, place, options.shard_size, work),
        model,
        workers=workers,
        progress=options.progress,
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
        msg = f"gpus_per_worker={gpus} is for workers of a Ray cluster; name the cluster with ray="
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


def _methods(options: RunOptions, rules: Sequence[str]) -> tuple[str, ...]:
    given = options.methods
    if given is None or given == AUTO:
        from_logit = options.source == LOGIT
        single: Heads = "each" if options.heads == "each" else "mean"
        usual = methods_from_logit() if from_logit else usual_methods(single)
        return (AUTO,) if given or list(rules) == [AUTO] else tuple(usual)
    return tuple(METHODS[name].name for name in several("methods", given))
