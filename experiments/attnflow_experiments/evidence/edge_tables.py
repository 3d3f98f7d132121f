"""Tables of circuits, and of edges and heads that were removed or kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.records import FloatArray
from attnflow_experiments.evidence.circuits import TASKS
from attnflow_experiments.evidence.ranking import (
    BASELINES,
    HEAD_RULES,
    HEAD_SHARES,
    RANKINGS,
    SHARES,
)
from attnflow_experiments.evidence.truth import ALONE, EXACT, RULES

Found = dict[str, dict[str, Any]]
Marks = Callable[[FloatArray, bool], list[str]]  # the best of rows in bold, and what is alike
WANTED = ("token", "edges", "layers", "cut")
SHOWN = {  # in the table of tasks: whose edges are shown
    "relevance": ("edges relevance", "raw"),
    "flow on relevance": ("edges relevance", "flow"),
    "removal": ("edges removal", "raw"),
    "attention × gradient": ("edges gradient", "raw"),
    "ALTI, rollout": ("edges alti", "rollout"),
    "attention, rollout": ("edges attention", "rollout"),
    "attention, flow": ("edges attention", "flow"),
}


def circuit_table(cases: Sequence[Found]) -> Iterator[str]:
    """For every rule and method, how often tokens, edges, layers and cuts are right."""
    yield from ("| edges | method | token | edges | layers | cut |", "|---|---|---|---|---|---|")
    pieces = [*((f"edges {name}", name) for name in RULES), ("alone", "–")]
    for piece, rule in pieces:
        having = [
            case[piece] for case in cases if "refused" not in case.get(piece, {"refused": ""})
        ]
        names = (
            [EXACT, *ALONE, *BASELINES]
            if piece == "alone"
            else dict.fromkeys(method for one in having for method in one)
        )
        for method in names:
            found = [one[method] for one in having if method in one]
            cells = [_mean([one[what] for one in found if what in one]) for what in WANTED]
            fewer = "" if len(found) == len(cases) else f" ({len(found)})"
            name = "the edges themselves" if method == "raw" else method
            yield f"| {rule} | {name}{fewer} | {' | '.join(cells)} |"


def task_table(cases: Sequence[Found]) -> Iterator[str]:
    """By task, how many edges are right, whether the cut is, and what knockouts say."""
    tasks = [task for task, (_, _, families) in TASKS.items() for _ in families]
    by_task: dict[str, list[Found]] = {}
    for task, case in zip(cycle(tasks), cases, strict=False):
        by_task.setdefault(task, []).append(case)
    titles = ("", *SHOWN, "cut of flow on relevance", "log p without a true edge, another")
    yield from (f"| {' | '.join(titles)} |", "|---" * len(titles) + "|")
    for task, some in by_task.items():
        cells = [
            _mean([case[piece][method]["edges"] for case in some])
            for piece, method in SHOWN.values()
        ]
        cells.append(_mean([case["edges relevance"]["flow"]["cut"] for case in some]))
        ends = [
            max(sign * case["alone"][EXACT][what] for case in some)
            for sign, what in ((-1, "least of true"), (1, "most of others"))
        ]
        cells.append(f"≤ {_signed(ends[0])}, ≥ {_signed(-ends[1])}")
        yield f"| {task} ({len(some)}) | {' | '.join(cells)} |"


def edge_table(cases: Sequence[Found], marks: Marks, kind: str = "edges") -> Iterator[str]:
    """The change of log p without, and with only, the first edges or heads of each ranking."""
    shares = SHARES if kind == "edges" else HEAD_SHARES
    names = (*(RANKINGS if kind == "edges" else HEAD_RULES), *BASELINES)
    truth = f"single {kind}"
    full = [case for case in cases if whole(case, [truth, *(f"{kind} by {n}" for n in names)])]
    if not full:
        return
    yield f"{len(full)} texts.\n"
    heads = [f"{100 * share:g} %" for share in shares]
    titles = (f"first {kind} by", *heads, "p left ↓", *(f"only {each}" for each in heads))
    yield f"| {' | '.join(titles)} | p left ↑ | single {kind} ↑ |"
    yield "|---" * (len(titles) + 2) + "|"
    rows: dict[str, FloatArray] = {}
    for what in ("remove", "keep"):
        rows[what] = np.array([[case[f"{kind} by {n}"][what] for case in full] for n in names])
    left = {what: np.exp(values).mean(-1) for what, values in rows.items()}
    ranks = np.array([[_rank(case, truth, f"{kind} by {n}") for case in full] for n in names])
    marked = [
        marks(left["remove"], False),
        marks(left["keep"], True),
        marks(np.nan_to_num(ranks), True),
    ]
    for at, name in enumerate(names):
        removed, kept = (
            " | ".join(map(_signed, rows[what][at].mean(0))) for what in ("remove", "keep")
        )
        cells = (name, removed, marked[0][at], kept, marked[1][at], marked[2][at])
        yield f"| {' | '.join(cells)} |"


def whole(case: Found, pieces: Sequence[str]) -> bool:
    """Whether a case has all these pieces, none of them refused."""
    return all(piece in case and "refused" not in case[piece] for piece in pieces)


def _rank(case: Found, truth: str, piece: str) -> float:
    """How an estimate's order of single edges agrees with that of the log p that they cost."""
    changes = np.array(case[truth]["changes"])
    return spearman(np.array(case[piece]["estimates"]), -changes)


def overview(boards: Mapping[str, Sequence[Found]]) -> Iterator[str]:
    """Over boards, what is left of p where the first edges of each ranking are removed."""
    names = (*RANKINGS, *BASELINES)
    full = {
        title: [case for case in cases if whole(case, [f"edges by {n}" for n in names])]
        for title, cases in boards.items()
    }
    full = {title: cases for title, cases in full.items() if cases}
    if not full:
        return
    titles = [f"{title} ({len(cases)})" for title, cases in full.items()]
    yield from (f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|")
    left = {
        (name, title): np.mean([np.exp(case[f"edges by {name}"]["remove"]) for case in cases])
        for title, cases in full.items()
        for name in names
    }
    for name in names:
        yield f"| {name} | {' | '.join(_short(float(left[name, title])) for title in full)} |"


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    array = np.array(values, float)
    return _short(float(array.mean()))


def _signed(number: float) -> str:
    return f"{number:.2f}".replace("-", "−")


def _short(number: float) -> str:
    return f"{number:.2f}".replace("-", "−").replace("0.", ".", 1)
