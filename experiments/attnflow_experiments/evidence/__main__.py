"""Is flow on relevance the one default? Everything that the page of evidence says, by one command.

    python -m attnflow_experiments.evidence WORK [--data FOLDER] [--page PAGE]… [--raw FILE]

Known answers (a planted, a copied or a deciding word, a document), circuits that are written by
hand, faithfulness on classifiers, and knockouts of cuts and of the first edges and heads, for flow
on relevance, layer-wise relevance, integrated gradients, what ``explain`` chose in 0.2 (rollout on
ALTI; attention × gradient on decoders), attention flow, and baselines that read nothing of the
model.
Every number of every text is kept in WORK: run it again to continue, or with other trials. Trains
the models it needs in WORK, by ``attnflow train``. On the CPU unless told otherwise; --workers
share the texts.

FOLDER has sst2/ (GLUE's), sva/full_sentences/wiki-dev.txt (Linzen et al. 2016) and
rationales/hummingbird_sentiment.tsv; without it, trials that need these are left out.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnflow_experiments.evidence import stations
from attnflow_experiments.evidence.pages import write_page
from attnflow_experiments.evidence.tables import Found, write_tables
from attnflow_experiments.evidence.trials import make_trials
from attnflow_experiments.evidence.work import collect, fill
from attnflow_experiments.known_answers.trials import Settings


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", metavar="TRIAL,…", help="trials, in this order; empty for none")
    parser.add_argument("--count", type=int, help="texts a trial, fewer than usual")
    parser.add_argument(
        "--without", metavar="WAY", action="append", default=[], help="leave a way out for now"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--device", help="where models are trained and run, such as cuda")
    parser.add_argument("--minilm", type=Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--smollm", type=Path, help="SmolLM2-135M-Instruct, a folder or GGUF file")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no case after these")
    parser.add_argument(
        "--page",
        type=Path,
        action="append",
        default=[],
        help="write the tables into this page, between marks",
    )
    parser.add_argument("--raw", type=Path, help="write every number into this file of Parquet")
    given = parser.parse_args()
    logging.getLogger("attnflow").setLevel(logging.ERROR)
    stations.register()
    settings = Settings(
        given.work, given.data, given.seed, given.device, given.minilm, given.smollm
    )
    trials = make_trials(settings)
    names = list(trials) if given.only is None else given.only.split(",") if given.only else []
    for name in names:
        if name not in trials:
            parser.error(f"--only {name} is unknown; there are {', '.join(trials)}")
    given.work.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    fill(settings, names, given.count, given.without, end, given.workers)
    found = {name: (trial, collect(settings, name)) for name, trial in trials.items()}
    tables = write_tables({name: each for name, each in found.items() if each[1]})
    for title, table in tables.items():
        print(f"## {title}\n\n{table}\n")
    for page in given.page:
        write_page(page, tables)
    if given.raw is not None:
        write_raw(given.raw, {name: each for name, (_, each) in found.items()})


def write_raw(path: Path, found: Mapping[str, Sequence[Found]]) -> None:
    """Every number as a row of its own; lists have a row for each entry."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (name, at, piece, key, value)
        for name, cases in found.items()
        for at, case in enumerate(cases)
        for piece, values in case.items()
        for key, value in _numbers(values)
    ]
    names = ("trial", "case", "piece", "measure", "value")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else {}
    text = pa.dictionary(pa.int32(), pa.string())
    types = (text, pa.int16(), text, text, pa.float32())
    table = pa.table(
        {n: pa.array(columns.get(n, ()), t) for n, t in zip(names, types, strict=True)}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", compression_level=12)


def _numbers(values: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of nested values, each with its place in them."""
    if isinstance(values, Mapping):
        for key, each in values.items():
            yield from _numbers(each, f"{name}.{key}".lstrip("."))
    elif isinstance(values, list):
        for at, each in enumerate(values):
            yield from _numbers(each, f"{name}.{at}".lstrip("."))
    elif isinstance(values, int | float):
        yield name, float(values)


if __name__ == "__main__":
    main()
