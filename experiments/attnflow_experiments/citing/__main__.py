"""Are citations right? Forty answers of two sentences over four documents, every deletion measured.

    python -m attnflow_experiments.citing WORK --smollm FOLDER [--device cuda] [--shard 1/4]

A sentence's documents are known in two ways. By every deletion: each of the sixteen sets of
documents is kept alone, and a document counts that some smallest sufficient set has, or without
which the sentence loses what counts. And by how the case was written. Compared are the citations of
`attnflow.cite` with several numbers of checks, and ablations of ContextCite's kind (a lasso over
random deletions) at the same cost in forward passes. Writes WORK/case-*.json and WORK/tables.md of
all that is there. Run it again to continue; nothing is computed twice.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from attnflow import load_model
from attnflow.models.answers.interface import answers_of
from attnflow_experiments.citing.cases import TUNED, make_cases
from attnflow_experiments.citing.measure import measure_case
from attnflow_experiments.citing.report import report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--smollm", help="SmolLM2-135M-Instruct, folder or GGUF; else report alone")
    parser.add_argument("--device", help="where the model runs, such as cuda")
    parser.add_argument("--shard", default="1/1", help="every n-th case from the k-th on: k/n")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no new case after these")
    parser.add_argument("--no-scores", action="store_true", help="deletions alone, scores later")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    start, (first, count) = time.monotonic(), map(int, given.shard.split("/"))
    cases = list(enumerate(make_cases()))
    answers = answers_of(load_model(given.smollm, device=given.device)) if given.smollm else None
    for number, case in [*cases[TUNED:], *cases[:TUNED]][first - 1 :: count] if answers else ():
        if time.monotonic() - start > 60 * given.minutes:
            break
        path = given.work / f"case-{number:02}.json"
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        found = measure_case(case, answers, known, scores=not given.no_scores)
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        fresh.replace(path)
        print(f"{number}, {time.monotonic() - start:.0f} s", flush=True)
    files = [(given.work / f"case-{number:02}.json", case) for number, case in cases[TUNED:]]
    text = report([(case, json.loads(f.read_text("utf-8"))) for f, case in files if f.exists()])
    (given.work / "tables.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
