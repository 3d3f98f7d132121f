"""Which edges and methods find what decided: all trials, by one command.

    python -m benchmarks.known_answers WORK [--data FOLDER] [--only TRIAL …]

Trains the models of the trials in WORK (by ``attnflow train``), measures every edge rule with every
method and the importances, and writes WORK/tables.md: how often a deciding token has the highest
score among ordinary tokens, and where that is not known the agreement with blanking tokens out,
with and without position held fixed. Intervals are 95 %, bootstrapped over texts. Run it again to
continue where it stopped; a rule that is new is measured alone.

FOLDER has sst2/ (GLUE's), sva/full_sentences/wiki-dev.txt (Linzen et al. 2016) and
corpora/ud_english_ewt.conllu.gz; without it only the trials that make their own texts are run.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from benchmarks.known_answers.measure import measure
from benchmarks.known_answers.report import table
from benchmarks.known_answers.trials import make_trials

from attnflow.io.checkpoint import Checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", action="append", metavar="TRIAL")
    parser.add_argument("--count", type=int, help="texts a trial, fewer than usual")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="where models run, such as cuda")
    parser.add_argument(
        "--part", default="1/1", help="2/3: every third text from the second on, and no tables"
    )
    given = parser.parse_args()
    trials = make_trials(given.work, given.data, given.seed)
    unknown = sorted(set(given.only or ()) - set(trials))
    if unknown:
        parser.error(f"--only {unknown[0]} is unknown; there are {', '.join(trials)}")
    logging.getLogger("attnflow").setLevel(logging.ERROR)
    part, parts = map(int, given.part.split("/"))
    lines: list[str] = []
    for name in given.only or trials:
        trial = trials[name]
        count = trial.count if given.count is None else min(given.count, trial.count)
        checkpoint = Checkpoint(given.work / "scores" / name, {"trial": name, "seed": given.seed})
        numbers = range(part - 1, count, parts)
        cases = measure(name, trial, numbers, checkpoint, given.device)
        if parts > 1:
            continue
        lines += table(trial.title, cases)
        (given.work / "tables.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
