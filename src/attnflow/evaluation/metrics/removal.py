"""Metrics that take tokens away: whether the probability changes as the scores say."""

from __future__ import annotations

import numpy as np

from attnflow.evaluation.metrics.metric import SHARES, Case, Metric
from attnflow.records import FloatArray

SMALLEST = 1e-12  # a probability of 0 or 1 has no odds
SETS = 32


def _comprehensiveness(case: Case) -> float:
    """The mean of p − p(without the highest share), over the shares of ERASER."""
    return float(case.value - case.erase([case.top(share) for share in SHARES]).mean())


def _sufficiency(case: Case) -> float:
    """The mean of p − p(the highest share alone), over the shares of ERASER."""
    removed = [case.without(case.top(share)) for share in SHARES]
    return float(case.value - case.erase(removed).mean())


def _aopc(case: Case) -> float:
    """The mean of p − p(without the highest), over the steps of the curve, the first included.

    The area over the perturbation curve (Samek et al. 2017).
    """
    return float((case.value - case.removing()).mean())


def _deletion(case: Case) -> float:
    """The area under the probability over the share of tokens removed, from none to all."""
    return case.area(case.removing())


def _insertion(case: Case) -> float:
    """The area under the probability over the share of tokens that are there, from none to all."""
    return case.area(case.adding())


def _log_odds(case: Case) -> float:
    """The mean of log-odds without the highest share less those with it, over ERASER's shares."""
    after = _odds(case.erase([case.top(share) for share in SHARES]))
    return float((after - _odds(np.array(case.value))).mean())


def _odds(probability: FloatArray) -> FloatArray:
    """Log p / (1 − p)."""
    inside = np.clip(probability, SMALLEST, 1 - SMALLEST)
    odds: FloatArray = np.log(inside) - np.log1p(-inside)
    return odds


def _infidelity(case: Case) -> float:
    """The mean of (b·I·scores − change)² over random sets I of tokens, removed together.

    The factor b is the best one for the text: explanations have scales of their own (Yeh et al.
    2019).
    """
    chance = np.random.default_rng(case.seed)
    drawn = chance.random((SETS, case.size)) < chance.random((SETS, 1))
    sets = [tuple(np.flatnonzero(each).tolist()) for each in drawn]
    changes = case.value - case.erase(sets)
    sums = drawn @ case.scores
    scale = float(sums @ sums)
    factor = float(sums @ changes) / scale if scale else 0.0
    return float(((factor * sums - changes) ** 2).mean())


COMPREHENSIVENESS = Metric(
    "comprehensiveness", "Comprehensiveness", _comprehensiveness, higher=True
)
SUFFICIENCY = Metric("sufficiency", "Sufficiency", _sufficiency, higher=False)
AOPC = Metric("aopc", "AOPC", _aopc, higher=True)
DELETION = Metric("deletion", "Deletion", _deletion, higher=False)
INSERTION = Metric("insertion", "Insertion", _insertion, higher=True)
LOG_ODDS = Metric("log-odds", "Log-odds", _log_odds, higher=False)
INFIDELITY = Metric("infidelity", "Infidelity", _infidelity, higher=False)
