"""From what was measured to tables, each with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.statistics import all_paired_p, holm, interval
from attnflow.evaluation.tables import SURE
from attnflow.records import FloatArray
from attnflow_experiments.evidence import edge_tables, learned, stability
from attnflow_experiments.evidence.measure import MEASURED
from attnflow_experiments.intervals import wilson
from attnflow_experiments.known_answers.report import is_first

if TYPE_CHECKING:
    from attnflow_experiments.evidence.trials import Trial

Found = dict[str, dict[str, Any]]
FIXED = (0, 1, 2, 3, -4, -3, -2, -1)  # positions that a baseline may always name
FIXED_BEST, CHANCE = "best fixed position", "random"
DELETED, FIXED_LAST = "deleting each document", "the last document"
UNEXPLAINED = (DELETED, FIXED_LAST, FIXED_BEST, CHANCE)
Hits = dict[str, list[float]]


def write_tables(trials: Mapping[str, tuple[Trial, Sequence[Found]]]) -> dict[str, str]:
    """All tables by their titles, as Markdown; what has no whole case is left out."""
    boards: dict[str, dict[str, Sequence[Found]]] = {}
    for trial, cases in trials.values():
        boards.setdefault(trial.kind, {})[trial.title] = cases
    found = {title: rate_table(each) for title, each in _known(trials).items()}
    for title, cases in boards.get("faithful", {}).items():
        found[title] = faithful_table(cases)
    for cases in boards.get("circuits", {}).values():
        found["Circuits"] = edge_tables.task_table(cases)
        found["Circuits, every rule and method"] = edge_tables.circuit_table(cases)
    removed = {**boards.get("edges", {}), **boards.get("heads", {})}
    for title, cases in removed.items():
        found[f"Edges: {title}"] = edge_tables.edge_table(cases, with_marks)
    for title, cases in boards.get("heads", {}).items():
        found[f"Heads: {title}"] = edge_tables.edge_table(cases, with_marks, "heads")
    if removed:
        found["First edges removed"] = edge_tables.overview(removed)
    for kind, title, table in TOGETHER:
        if kind in boards:
            found[title] = table(boards[kind])
    joined = {title: "\n".join(rows) for title, rows in found.items()}
    return {title: table for title, table in joined.items() if table}


def _known(trials: Mapping[str, tuple[Trial, Sequence[Found]]]) -> dict[str, dict[str, Hits]]:
    """The columns of each table of known answers."""
    known: dict[str, dict[str, Hits]] = {}
    for trial, cases in trials.values():
        if trial.kind == "first" and any(map(_answered, cases)):
            boards = known.setdefault(trial.table, {})
            boards[trial.title] = first_hits(cases)
            if any(_in_pieces(case) for case in cases):
                boards[f"{trial.title}, whole words"] = first_hits(list(map(_joined, cases)))
        elif trial.kind == "documents" and any(map(_deleted, cases)):
            boards = known.setdefault(trial.table, {})
            hurts, has = document_hits(cases)
            boards[f"{trial.title}: deleted, it hurts most"] = hurts
            boards[f"{trial.title}: it has the fact"] = has
    return known


def first_hits(cases: Sequence[Found]) -> Hits:
    """For each way and baseline, on each case, whether a deciding token is first."""
    hits: Hits = {}
    for case in cases:
        for way, one in case.items():
            if "scores" in one:
                hits.setdefault(way, []).append(is_first(np.array(one["scores"]), one["deciding"]))
    marks = [next(iter(_answered(case).values()))["deciding"] for case in cases if _answered(case)]
    fixed = {
        at: [float(-len(each) <= at < len(each) and each[at]) for each in marks] for at in FIXED
    }
    best = max(fixed.values(), key=sum)
    return {**hits, FIXED_BEST: best, CHANCE: [float(np.mean(each)) for each in marks]}


def _in_pieces(case: Found) -> bool:
    """Whether a word that decides is several tokens."""
    words, one = _words(case), next(iter(_answered(case).values()), None)
    if one is None or not words:
        return False
    deciding = [word for word, decides in zip(words, one["deciding"], strict=True) if decides]
    return len(set(deciding)) < len(deciding)


def _joined(case: Found) -> Found:
    """The same case with one score for each word, the sum of its tokens' scores."""
    words = _words(case)
    if not words:
        return case
    order = {word: at for at, word in enumerate(dict.fromkeys(words))}
    places = np.array([order[word] for word in words])
    return {
        way: {
            "scores": np.bincount(places, one["scores"]).tolist(),
            "deciding": (np.bincount(places, one["deciding"]) > 0).tolist(),
        }
        for way, one in _answered(case).items()
    }


def _words(case: Found) -> list[int]:
    found: list[int] = case.get("words", {}).get("words", [])
    return found


def _answered(case: Found) -> Found:
    return {way: one for way, one in case.items() if "scores" in one}


def _deleted(case: Found) -> bool:
    return "drops" in case.get("deletions", {})


def document_hits(cases: Sequence[Found]) -> tuple[Hits, Hits]:
    """Whether the highest document is that whose deletion hurts most, and that of the fact."""
    found: tuple[Hits, Hits] = {}, {}
    for case in filter(_deleted, cases):
        drops = np.array(case["deletions"]["drops"])
        fact = np.arange(len(drops)) == case["deletions"]["fact"]
        given = {way: one["documents"] for way, one in case.items() if "documents" in one}
        for hits, truth in zip(found, (drops == drops.max(), fact), strict=True):
            scored = {**given, DELETED: drops, FIXED_LAST: np.arange(len(drops))}
            for way, scores in scored.items():
                hits.setdefault(way, []).append(is_first(np.array(scores, float), truth))
            hits.setdefault(CHANCE, []).append(1 / len(drops))
    return found


def rate_table(boards: Mapping[str, Hits]) -> Iterator[str]:
    """How often each way is right on each board, with Wilson's interval."""
    sizes = {title: max(map(len, hits.values())) for title, hits in boards.items()}
    titles = [f"{title} ({size})" for title, size in sizes.items()]
    yield from (f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|")
    ways = dict.fromkeys(way for hits in boards.values() for way in hits)
    for way in sorted(ways, key=lambda way: way in UNEXPLAINED):
        cells = [_rate(way, hits.get(way), sizes[title]) for title, hits in boards.items()]
        yield f"| {way} | {' | '.join(cells)} |"


def _rate(way: str, hits: Sequence[float] | None, size: int) -> str:
    if hits is None:
        return "–"
    mean = _short(float(np.mean(hits)))
    if way == CHANCE:
        return mean
    low, high = wilson(sum(hits), len(hits))
    fewer = f" of {len(hits)}" if len(hits) < size else ""
    return f"{mean} [{_short(low)}, {_short(high)}]{fewer}"


def faithful_table(cases: Sequence[Found]) -> Iterator[str]:
    """Means over texts; in bold the best, † what does not differ from it significantly."""
    ways = list(dict.fromkeys(way for case in cases for way in case if "refused" not in case[way]))
    full = [case for case in cases if edge_tables.whole(case, ways)]
    titles = [
        f"{name if name != 'aopc' else 'AOPC'} {'↑' if METRICS[name].higher else '↓'}"
        for name in MEASURED
    ]
    if not (ways and full):
        return
    yield f"{len(full)} texts.\n"
    yield from (f"| | {' | '.join(titles)} |", "|---" * (len(MEASURED) + 1) + "|")
    cells: dict[str, list[str]] = {way: [] for way in ways}
    for metric in MEASURED:
        values = np.array([[case[way][metric] for case in full] for way in ways])
        for way, cell in zip(ways, with_marks(values, METRICS[metric].higher, 3), strict=True):
            cells[way].append(cell)
    for way, each in cells.items():
        yield f"| {way} | {' | '.join(each)} |"


def with_marks(values: FloatArray, higher: bool, digits: int = 2) -> list[str]:
    """The mean of each row with its interval; in bold the best, † what does not differ from it."""
    best = int(np.argmax((1 if higher else -1) * np.nanmean(values, 1)))
    others = [at for at in range(len(values)) if at != best]
    p = dict(zip(others, holm(all_paired_p(values[best] - values[others])), strict=True))
    cells = []
    for at, row in enumerate(values):
        low, high = interval(row)
        mean = f"{np.nanmean(row):.{digits}f}".replace("-", "−").replace("0.", ".", 1)
        mark = f"**{mean}**" if at == best else f"{mean}{' †' if p[at] >= SURE else ''}"
        cells.append(f"{mark} [{_short(low)}, {_short(high)}]")
    return cells


def knockout_table(boards: Mapping[str, Sequence[Found]]) -> Iterator[str]:
    """The mean change of log p without some edges, beside as many random ones."""
    titles = ("", "removed", "edges", "change of log p", "random edges, as many", "times random")
    measured = {
        title: [case["knockouts"] for case in cases if "sets" in case.get("knockouts", {})]
        for title, cases in boards.items()
    }
    if any(measured.values()):
        yield from (f"| {' | '.join(titles)} |", "|---" * len(titles) + "|")
    for title, found in filter(itemgetter(1), measured.items()):
        total = np.mean([one["total"] for one in found])
        for name in dict.fromkeys(name for one in found for name in one["sets"]):
            having = [one["sets"][name] for one in found if name in one["sets"]]
            edges, change, random = (
                np.array([one[key] for one in having]) for key in ("edges", "change", "random")
            )
            span = f"{_minus(change.mean())} [{', '.join(map(_minus, interval(change)))}]"
            cells = [f"{title} ({len(having)})", name, f"{edges.mean():.0f} of {total:.0f}", span]
            times = change.mean() / random.mean()
            ratio = f"{times:.1f}".replace("-", "−") if random.mean() < 0 else "–"
            yield f"| {' | '.join(cells)} | {_minus(random.mean())} | {ratio} |"


def _minus(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")


def _short(number: float) -> str:
    return f"{number:.2f}".replace("-", "−").replace("0.", ".", 1)


TOGETHER: tuple[tuple[str, str, Callable[[Any], Iterator[str]]], ...] = (
    ("knockouts", "Knockouts", knockout_table),
    ("stable", "Stability", stability.rows),
    ("learned", "Learned heads", learned.rows),
)
"""Kinds whose boards make one table each."""
