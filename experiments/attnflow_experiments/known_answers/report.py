"""From scores to tables: how often the deciding token is first, and how far scores agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.evaluation.fit import partial_spearman
from attnflow.io.files import write_atomically
from attnflow.records.arrays import round_scores
from attnflow.version import VERSION
from attnflow_experiments.known_answers.measure import IMPORTANCES, collect
from attnflow_experiments.known_answers.trials import Settings, make_trials

TIED = "flow, ties by rollout"
Key = tuple[str, str]


def with_baselines(case: dict[str, Any], chance: np.random.Generator) -> dict[Key, np.ndarray]:
    """The scores of ordinary tokens by (edges, method), those of the baselines among them."""
    places = case["ordinary"]
    found = {key: np.array(each)[places] for key, each in case["scores"].items()}
    for edges, method in list(found):
        if method == "flow":
            found[edges, TIED] = by_rollout(found[edges, "flow"], found[edges, "rollout"])
    found["", "random"] = chance.random(len(places))
    found["", "last first"] = np.array(places, dtype=float)
    found["", "first first"] = -np.array(places, dtype=float)
    # What is left of "first first" where a correction leaves the first token out.
    found["", "second first"] = -np.abs(np.arange(len(places)) - 1.0)
    return found


def by_rollout(flow: np.ndarray, rollout: np.ndarray) -> np.ndarray:
    """Flow's order, tokens of equal flow in the order of rollout, as ranks."""
    order = np.lexsort((round_scores(rollout), round_scores(flow)))
    ranks = np.empty(len(flow))
    ranks[order] = np.arange(len(flow))
    return ranks


def is_first(scores: np.ndarray, deciding: Sequence[bool]) -> float:
    """Whether a deciding token has the highest score; a tie of k tokens counts 1/k."""
    rounded = round_scores(scores)
    best = rounded == rounded.max()
    return float(np.asarray(deciding)[best].mean())


def measures(cases: Sequence[dict[str, Any]]) -> dict[Key, dict[str, list[float]]]:
    """For every combination and measure, one number a case."""
    chance = np.random.default_rng(0)
    sizes = {("", name) for name in IMPORTANCES}  # a planted word may speak against
    found: dict[Key, dict[str, list[float]]] = {}
    for case in cases:
        about = case["about"]
        scores = with_baselines({**about, "scores": case["scores"]}, chance)
        reference = None
        deciding = [at in about["deciding"] for at in about["ordinary"]]
        if "reference" in case:
            reference = np.array(case["reference"]["values"])[about["ordinary"]]
            deciding = [bool(each) for each in reference == reference.max()]
        for key, values in scores.items():
            if key in sizes and reference is None:
                values = np.abs(values)
            mine = found.setdefault(key, {})
            mine.setdefault("first", []).append(is_first(values, deciding))
            if reference is not None:
                rounded = round_scores(values)
                mine.setdefault("agreement", []).append(spearman(rounded, reference))
                mine.setdefault("given position", []).append(
                    partial_spearman(rounded, reference, np.arange(len(rounded)) + 0.0)
                )
    return found


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """The mean, and the 95 % of means nearest to it when cases are drawn again."""
    given = np.array(values)
    given = given[~np.isnan(given)]
    if not len(given):
        return (float("nan"),) * 3
    means = np.random.default_rng(seed).choice(given, size=(2000, len(given))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(given.mean()), float(low), float(high)


def write_results(
    folder: Path,
    settings: Settings,
    counts: Mapping[str, int],
    seconds: float,
    missing: Sequence[str],
) -> None:
    """The tables, and the numbers that they are made of, as one file each."""
    lines: list[str] = []
    trials: dict[str, Any] = {}
    for name, count in counts.items():
        cases = list(collect(settings, name, count))
        if cases:
            found = measures(cases)
            lines += table(make_trials(settings)[name].title, cases, found)
            trials[name] = _numbers(cases, found)
    made = sorted(settings.work.glob("*/scores.json"))
    learned = sorted(settings.work.glob("learned-*.json"))
    results = {
        "version": VERSION,
        "seed": settings.seed,
        "device": settings.device or "cpu",
        "seconds": round(seconds, 1),
        "missing": list(missing),
        "models": {path.parent.name: json.loads(path.read_text()) for path in made},
        "learned": {path.stem: json.loads(path.read_text())["figures"] for path in learned},
        "trials": trials,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "results.json", json.dumps(results).encode())
    write_atomically(folder / "tables.md", "\n".join(lines).encode())


def _numbers(
    cases: Sequence[dict[str, Any]], found: Mapping[Key, Mapping[str, Sequence[float]]]
) -> dict[str, Any]:
    """Every combination's number for every text, what the default is, and what was refused."""
    return {
        "texts": len(cases),
        "default": _defaults(cases),
        "refused": dict(item for case in cases for item in case["refused"].items()),
        "numbers": [
            {
                "edges": edges,
                "method": method,
                **{each: [_rounded(number) for number in values] for each, values in kinds.items()},
            }
            for (edges, method), kinds in found.items()
        ],
    }


def _rounded(number: float) -> float | None:
    return None if np.isnan(number) else round(number, 5)


def _defaults(cases: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How often which combination was chosen."""
    chosen = Counter(
        f"{name}: {each['edges']}, {each['method']}, correction {each['correction']}"
        for case in cases
        for name, each in case["default"].items()
    )
    return dict(chosen)


def table(
    title: str,
    cases: Sequence[dict[str, Any]],
    found: Mapping[Key, Mapping[str, Sequence[float]]],
) -> Iterator[str]:
    """The table of a trial: for each measure rules by methods, then what has no edges."""
    sizes = [len(case["about"]["ordinary"]) for case in cases]
    yield f"## {title}"
    yield ""
    yield f"{len(cases)} texts of {min(sizes)} to {max(sizes)} ordinary tokens."
    yield from ("", *(f"- {each}: {count}" for each, count in _defaults(cases).items()))
    refused = dict(item for case in cases for item in case["refused"].items())
    yield from (f"- {piece} is refused: {why}" for piece, why in refused.items())
    rules = list(dict.fromkeys(edges for edges, _ in found if edges))
    methods = list(dict.fromkeys(method for edges, method in found if edges))
    others = [method for edges, method in found if not edges]
    for measure in next(iter(found.values())):
        yield from ("", f"| {measure} | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|")
        for rule in rules:
            cells = [found.get((rule, method), {}).get(measure) for method in methods]
            yield f"| {rule} | {' | '.join(map(cell, cells))} |"
        yield from ("", f"| {measure} | |", "|---|---|")
        for method in others:
            yield f"| {method} | {cell(found['', method][measure])} |"
    yield ""


def cell(values: Sequence[float] | None) -> str:
    """A mean with its interval."""
    if values is None:
        return "–"
    mean, low, high = interval(values)
    return f"{_short(mean)} ({_short(low)} – {_short(high)})"


def _short(number: float) -> str:
    if np.isnan(number):
        return "–"
    return f"{number:.2f}".replace("-", "−").replace("0.", ".", 1)
