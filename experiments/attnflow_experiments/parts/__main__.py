"""Which document did this answer come from? Twenty questions over three documents each.

    python -m attnflow_experiments.parts WORK --smollm FOLDER [--device cuda] [--shard 1/8]

A chat model answers; the document whose deletion hurts the answer's log-probability most is what
scores should find. For every edge rule with every method, methods that read no edges, position, and
an ablation baseline of ContextCite's kind: how often they do (a hit; chance is one in three), by
how much the log-probability falls without the sentences with the highest scores (top 1 and top 3),
and the linear datamodelling score: Spearman's correlation of sums of kept sentences' scores with
the logit of the answer's probability, over random deletions. Writes WORK/case-*.json and
WORK/tables.md of all that is there. Run it again to continue, or with other --rules, --methods and
--measures to add them: nothing is computed twice. Several processes share the work by --shard.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnflow import load_model
from attnflow.edges import EDGE_RULES
from attnflow.evaluation.statistics import interval
from attnflow.models.answers.interface import answers_of
from attnflow_experiments.intervals import wilson
from attnflow_experiments.parts.cases import DOCUMENTS, make_cases
from attnflow_experiments.parts.scoring import Ways, edge_methods, score_case, usual_measures

COLUMNS = ("top_1_drop", "top_3_drop", "lds")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--smollm", required=True, help="SmolLM2-135M-Instruct, folder or GGUF")
    parser.add_argument("--device", help="where the model runs, such as cuda")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--generate", type=int, default=24, help="tokens of an answer")
    parser.add_argument("--rules", help="edge rules, by commas; all by default")
    parser.add_argument("--methods", help="methods that read edges, by commas; all by default")
    parser.add_argument("--measures", help="methods that read none, by commas; all by default")
    parser.add_argument("--shard", default="1/1", help="every n-th case from the k-th on: k/n")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no new case after these")
    given = parser.parse_args()
    rules = _names(given.rules, EDGE_RULES)
    methods = _names(given.methods, edge_methods())
    measures = _names(given.measures, usual_measures())
    ways = Ways(rules, methods, measures)
    first, count = map(int, given.shard.split("/"))
    answers = answers_of(load_model(given.smollm, device=given.device))
    given.work.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    for number, case in list(enumerate(make_cases(given.cases), 1))[first - 1 :: count]:
        if time.monotonic() - start > 60 * given.minutes:
            break
        path, began = given.work / f"case-{number:02}.json", time.monotonic()
        known = json.loads(path.read_text("utf-8")) if path.exists() else None
        found = score_case(case, answers, given.generate, ways, known)
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        fresh.replace(path)
        print(f"{number}, {time.monotonic() - began:.0f} s: {found['answer']!r}", flush=True)
    files = sorted(given.work.glob("case-*.json"))
    text = report([json.loads(file.read_text("utf-8")) for file in files])
    (given.work / "tables.md").write_text(text, encoding="utf-8")
    print(text)


def _names(given: str | None, every: Iterable[str]) -> list[str]:
    return list(every) if given is None else [name for name in given.split(",") if name]


def report(cases: Sequence[dict[str, Any]]) -> str:
    """Tables of what was found."""
    names = list(dict.fromkeys(name for case in cases for name in case["methods"]))
    rows = {name: summary(name, cases) for name in names}
    order = sorted(names, key=lambda name: (-rows[name]["hits"], -rows[name]["lds"]))
    right = sum(case["right"] for case in cases)
    agree = sum(int(np.argmax(case["drops"])) == case["fact"] for case in cases)
    lines = [
        f"{len(cases)} cases; the answer is right in {right}; deleting the document with the fact "
        f"hurts most in {agree}; chance is {len(cases) / DOCUMENTS:.1f} hits. In brackets: 95 % "
        "intervals over cases (Wilson's of hits, bootstrap of means).",
        "",
        "| scores | hits | finds the fact | top-1 drop | top-3 drop | LDS |",
        "|---|---|---|---|---|---|",
    ]
    for name in order:
        row = rows[name]
        low, high = wilson(row["hits"], row["count"])
        means = [f"{row[each]:.2f} ({_range(row[each + '_between'])})" for each in COLUMNS]
        lines.append(
            f"| {name} | {row['hits']} of {row['count']} ({low:.0%}–{high:.0%}) | {row['fact']} | "
            f"{' | '.join(means)} |"
        )
    return "\n".join(lines) + "\n"


def summary(name: str, cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How one way of scoring did, over the cases that it has scores of."""
    having = [case for case in cases if name in case["methods"]]
    best = [leading(case["methods"][name]["documents"]) for case in having]
    pairs = list(zip(best, having, strict=True))
    found: dict[str, Any] = {
        "count": len(having),
        "hits": sum(place == int(np.argmax(case["drops"])) for place, case in pairs),
        "fact": sum(place == case["fact"] for place, case in pairs),
    }
    for column in COLUMNS:
        values = np.array([case["methods"][name][column] for case in having])
        found |= {column: float(values.mean()), column + "_between": interval(values)}
    return found


def _range(between: tuple[float, float]) -> str:
    return " to ".join(f"{each:.2f}" for each in between)


def leading(scores: Sequence[float]) -> int | None:
    """The document with the highest score; ``None`` where several share it: nothing was found."""
    rounded = np.round(scores, 9)
    best = np.flatnonzero(rounded == rounded.max())
    return int(best[0]) if len(best) == 1 else None


if __name__ == "__main__":
    main()
