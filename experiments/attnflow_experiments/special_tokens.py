"""What special tokens do to Tables 1 and 3, and what is left of the summed gradient.

python -m attnflow_experiments.special_tokens AGREEMENT-DATA [SST-2 SENTIMENT-MODEL]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import attnflow
from attnflow import Attribution
from attnflow.evaluation.agreement import spearman
from attnflow.records.arrays import round_scores
from attnflow_experiments.training.data import held_out_rows
from attnflow_experiments.training.sentiment import read_sentiment


def mean_agreement(
    found: Sequence[Attribution], wanted: Sequence[Attribution], layer: int, kept: slice
) -> float:
    """Spearman's correlation over the tokens kept, the mean over texts."""
    values = [
        spearman(round_scores(one.row(layer)[kept]), round_scores(other.values[kept]))
        for one, other in zip(found, wanted, strict=True)
    ]
    return float(np.nanmean(values))


def verbs(data: Path) -> None:
    model = attnflow.load_model("verbs")
    texts, labels = zip(*held_out_rows(data, 2_000), strict=True)
    options = {"target": list(labels), "progress": True}
    blanked = attnflow.blank_out(list(texts), model, **options)
    own = np.array([one.values[0] for one in blanked])
    rest = np.concatenate([one.values[1:] for one in blanked])
    least = np.mean([one.values[0] <= one.values.min() for one in blanked])
    print(f"blank-out of CLS {own.mean():.3f}, of others {rest.mean():.3f}; CLS least: {least:.0%}")
    for method in ("rollout", "flow"):
        found = attnflow.explain(list(texts), model, method=method, batch_size=64, progress=True)
        cells = [mean_agreement(found, blanked, layer, slice(1, None)) for layer in range(1, 7)]
        print(f"{method} without CLS:", *(f"{cell:.2f}" for cell in cells))
    summed = attnflow.gradients(list(texts), model, kind="sum", **options)
    norms = attnflow.gradients(list(texts), model, kind="norm", **options)
    left = max((a.values / b.values).max() for a, b in zip(summed, norms, strict=True))
    print(f"|sum of the gradient| is at most {left:.0e} of its norm")


def sentiment(data: Path, name: str) -> None:
    model = attnflow.load_model(name)
    texts, labels = zip(*read_sentiment(data / "dev.tsv"), strict=True)
    slopes = attnflow.gradients(list(texts), model, kind="norm", target=list(labels))
    for method in ("raw", "rollout", "flow"):
        found = attnflow.explain(list(texts), model, method=method, batch_size=64, progress=True)
        print(f"{method} without CLS and SEP: {mean_agreement(found, slopes, 6, slice(1, -1)):.2f}")


if __name__ == "__main__":
    verbs(Path(sys.argv[1]))
    if sys.argv[2:]:
        sentiment(Path(sys.argv[2]), sys.argv[3])
