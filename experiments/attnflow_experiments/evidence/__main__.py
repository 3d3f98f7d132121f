"""Is flow on relevance the one default? Everything that the page of evidence says, by one command.

    python -m attnflow_experiments.evidence WORK [--data FOLDER] [--page PAGE]… [--raw FOLDER]

Known answers (a planted, a copied or a deciding word, a document), circuits that are written by
hand, faithfulness on classifiers, and knockouts of cuts and of the first edges and heads, for flow
on relevance, layer-wise relevance, integrated gradients, what ``explain`` chose in 0.2 (rollout on
ALTI; attention × gradient on decoders), attention flow, and baselines that read nothing of the
model.
Every number of every text is kept in WORK: run it again to continue, or with other trials. --raw
keeps them in files, too, evidence.parquet and ground-truth.parquet; tables of trials that are not
in WORK are written from these. Trains the models it needs in WORK, by ``attnflow train``. On the
CPU unless told otherwise; --workers share the texts.

FOLDER has sst2/ (GLUE's), sva/full_sentences/wiki-dev.txt (Linzen et al. 2016) and
rationales/hummingbird_sentiment.tsv; without it, trials that need these are left out.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attnflow_experiments.evidence import stations
from attnflow_experiments.evidence.pages import write_page
from attnflow_experiments.evidence.raw import read_raw, write_raw
from attnflow_experiments.evidence.tables import Found, write_tables
from attnflow_experiments.evidence.trials import Trial, make_trials
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
    parser.add_argument("--raw", type=Path, help="the folder of the files with every number")
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
    settings = replace(settings, data=given.data or Path())  # what was measured needs none
    trials = make_trials(settings)
    found = {name: collect(settings, name) for name in trials}
    if given.raw is not None:
        found = with_raw(given.raw, trials, found)
    tables = write_tables({name: (trials[name], each) for name, each in found.items() if each})
    for title, table in tables.items():
        print(f"## {title}\n\n{table}\n")
    for page in given.page:
        write_page(page, tables)


def with_raw(
    folder: Path, trials: Mapping[str, Trial], found: Mapping[str, Sequence[Found]]
) -> dict[str, Sequence[Found]]:
    """What was found beside what files have of other trials; both is kept in these."""
    whole = dict(found)
    for file in dict.fromkeys(trial.file for trial in trials.values()):
        path = folder / f"{file}.parquet"
        before = read_raw(path)
        names = [name for name, trial in trials.items() if trial.file == file]
        whole |= {name: found[name] or before.get(name, ()) for name in names}
        write_raw(path, {name: whole[name] for name in names})
    return whole


if __name__ == "__main__":
    main()
