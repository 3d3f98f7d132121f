"""Which edges and methods find what decided: all trials, by one command.

    python -m attnflow_experiments.known_answers WORK [--data FOLDER] [--only TRIAL,…]

Trains the models of the trials in WORK (by ``attnflow train``), measures every edge rule with every
method (on decoders plain and without the sink, too, and from the logit), learned heads, methods
that read no edges and what ``explain`` chooses, and writes WORK/results: tables.md has how often a
deciding token has the highest score among ordinary tokens, and where that is not known the
agreement with blanking tokens out, with and without position held fixed; results.json has the
number of every text. Intervals are 95 %, bootstrapped over texts. Run it again to continue where it
stopped; a rule that is new is measured alone.

FOLDER has sst2/ (GLUE's), sva/full_sentences/wiki-dev.txt (Linzen et al. 2016) and
corpora/ud_english_ewt.conllu.gz; without it only the trials that make their own texts are run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnflow_experiments.known_answers import measure
from attnflow_experiments.known_answers.report import write_results
from attnflow_experiments.known_answers.steps import Step, do_all
from attnflow_experiments.known_answers.trials import Settings, make_trials

PAGE = """# Known answers: all tables

Every edge rule (rows) with every method (columns), and methods that read no edges, where it is
known which token decided or where blanking tokens out says so. Written by

```
python -m attnflow_experiments.known_answers WORK --data FOLDER --page tables.md
```

A row such as `alti` has the correction that a method gets by default on that model; `alti.plain`
has none, `alti.sink` leaves the first token out, `alti.logit` starts at the prediction's logit, and
`gradient.learned` weighs heads as `attnflow fit` learned them. *Second first* is what naming the
second token whatever it is would reach: a correction that leaves the first token out must beat it.

"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--only", metavar="TRIAL,…", help="trials by name or by how their names begin: planted"
    )
    parser.add_argument("--count", type=int, help="texts a trial, fewer than usual")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="where models are trained and run, such as cuda")
    parser.add_argument("--minilm", type=Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--smollm", type=Path, help="SmolLM2-135M-Instruct, a folder or GGUF file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing new after these")
    parser.add_argument("--results", type=Path, help="where to write them; WORK/results by default")
    parser.add_argument("--page", type=Path, help="write the tables to a page of Markdown, too")
    given = parser.parse_args()
    settings = Settings(
        given.work, given.data, given.seed, given.device, given.minilm, given.smollm
    )
    trials = make_trials(settings)
    begins = tuple((given.only or "").split(","))
    chosen = {name: trial for name, trial in trials.items() if name.startswith(begins)}
    for begin in begins:
        if not any(name.startswith(begin) for name in trials):
            parser.error(f"--only {begin} is unknown; there are {', '.join(trials)}")
    counts = {
        name: trial.count if given.count is None else min(given.count, trial.count)
        for name, trial in chosen.items()
    }
    given.work.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    missing = do_all(list(make_steps(settings, counts)), given.jobs, given.minutes)
    seconds = time.monotonic() - start
    folder = given.results or given.work / "results"
    write_results(folder, settings, counts, seconds, missing)
    tables = (folder / "tables.md").read_text(encoding="utf-8")
    print(tables)
    if given.page is not None:
        given.page.write_text(PAGE + tables, encoding="utf-8")
    if missing:
        sys.exit(f"{len(missing)} steps are missing, such as {missing[0]}; run it again")


def make_steps(settings: Settings, counts: Mapping[str, int]) -> Iterator[Step]:
    """All that has to be done for some trials, in an order that keeps all processes busy."""
    trials = make_trials(settings)
    for name in dict.fromkeys(trials[each].model for each in counts):
        yield Step(f"model {name}", frozenset(), measure.make_model, (settings, name))
    learned = dict.fromkeys(trials[name].learned for name in counts if trials[name].learned)
    for name in learned:
        needs = frozenset([f"model {trials[name].model}"])
        for rule in measure.LEARNED_ON:
            yield Step(f"heads {name} {rule}", needs, measure.learn, (settings, name, rule))
    for name, count in counts.items():
        needs = frozenset([f"model {trials[name].model}"])
        yield Step(f"cases {name}", needs, measure.make_cases, (settings, name, count))
    for with_heads in (False, True):
        for name, count in counts.items():
            heads = {f"heads {trials[name].learned} {rule}" for rule in measure.LEARNED_ON}
            if with_heads and not trials[name].learned:
                continue
            needs = frozenset([f"cases {name}", *(heads if with_heads else ())])
            for number in range(count):
                yield Step(
                    f"{name} {number}{' learned' * with_heads}",
                    needs,
                    measure.measure,
                    (settings, name, count, number),
                    (("learned", with_heads),),
                )


if __name__ == "__main__":
    main()
