"""Infidelity: how far scores are from the changes that they stand for (Yeh et al. 2019)."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import Case, Metric

SETS = 32


def measure(case: Case) -> float:
    """The mean of (b·I·scores − change)² over random sets I of tokens, removed together.

    The factor b is the best one for the text: explanations have scales of their own.
    """
    chance = np.random.default_rng(case.seed)
    drawn = chance.random((SETS, case.size)) < chance.random((SETS, 1))
    sets = [tuple(np.flatnonzero(each).tolist()) for each in drawn]
    changes = case.value - case.erase(sets)
    sums = drawn @ case.scores
    scale = float(sums @ sums)
    factor = float(sums @ changes) / scale if scale else 0.0
    return float(((factor * sums - changes) ** 2).mean())


MEMBER = Metric("infidelity", "Infidelity", measure, higher=False)
