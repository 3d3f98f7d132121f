"""How often 95 % intervals hold what they should, and tests find a difference where there is none.

    python -m attnflow_experiments.coverage docs/results/leaderboard.parquet [--page PAGE]

The texts of a board stand for all texts there are: samples of them are drawn, and it is counted how
often the interval of a sample holds the mean of all. For tests, the differences of two methods are
moved so that their mean is zero.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from attnflow.evaluation.statistics import all_paired_p, interval
from attnflow.evaluation.tables import SURE
from attnflow.records import FloatArray
from attnflow_experiments.evidence.pages import write_page
from attnflow_experiments.intervals import wilson

SIZES = (20, 60, 300)
SAMPLES = 2000
SHARES = (0.5, 0.9, 0.97)
TITLE = "Coverage"
COMPARED = ("flow on relevance", "lrp")  # as the file names them


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    text = "\n".join(table(read(given.raw), given.samples))
    print(text)
    if given.page is not None:
        write_page(given.page, {TITLE: text})


def read(path: Path) -> dict[str, tuple[FloatArray, FloatArray]]:
    """By board, comprehensiveness of two methods on each text."""
    import pyarrow.parquet as pq

    rows = pq.read_table(
        path, filters=[("metric", "=", "comprehensiveness"), ("against", "=", "unk")]
    )
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows.to_pylist():
        if row["explainer"] in COMPARED:
            one = found.setdefault(row["board"], {}).setdefault(row["explainer"], {})
            one[row["text"]] = row["value"]
    return {
        board: (np.array(list(a.values())), np.array([b[text] for text in a]))
        for board, (a, b) in ((board, map(ways.get, COMPARED)) for board, ways in found.items())
    }


def table(boards: dict[str, tuple[FloatArray, FloatArray]], samples: int) -> Iterator[str]:
    """A row for each kind of interval and test, a column for each number of texts."""
    yield f"| | {' | '.join(f'{size} texts' for size in SIZES)} |"
    yield "|---" * (len(SIZES) + 1) + "|"
    for share in SHARES:
        yield _row(f"a share of {share:g}", [held_share(share, size, samples) for size in SIZES])
    for board, (values, others) in boards.items():
        means = [held_mean(values, size, samples) for size in SIZES]
        alarms = [false_alarms(values - others, size, samples) for size in SIZES]
        yield _row(f"mean comprehensiveness, {board}", means)
        yield _row(f"no difference called significant, {board}", alarms)


def _row(name: str, shares: Sequence[float]) -> str:
    return f"| {name} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |"


def held_share(share: float, size: int, samples: int) -> float:
    """How often Wilson's interval of a sample holds the share."""
    hits = np.random.default_rng(size).binomial(size, share, samples)
    spans = [wilson(float(each), size) for each in hits]
    return float(np.mean([low <= share <= high for low, high in spans]))


def held_mean(values: FloatArray, size: int, samples: int) -> float:
    """How often the interval of a sample holds the mean of all."""
    mean = values.mean()
    spans = [interval(each, seed=at) for at, each in enumerate(_drawn(values, size, samples))]
    return float(np.mean([low <= mean <= high for low, high in spans]))


def false_alarms(differences: FloatArray, size: int, samples: int) -> float:
    """How often samples differ significantly where the mean difference is zero."""
    drawn = _drawn(differences - differences.mean(), size, samples)
    return float(np.mean(np.array(all_paired_p(drawn)) < SURE))


def _drawn(values: FloatArray, size: int, samples: int) -> FloatArray:
    found: FloatArray = np.random.default_rng(size).choice(values, (samples, size))
    return found


if __name__ == "__main__":
    main()
