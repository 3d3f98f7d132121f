"""Integrated gradients: gradient × input along the line from embeddings of zero."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attnflow.methods import Method, Scores
from attnflow.methods.gradients import EmbeddingGradient, products, sum_groups
from attnflow.methods.question import Question, Target, no_progress, rows_that_fit
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

log = logging.getLogger("attnflow")
FIRST_STEPS, MOST_STEPS = 32, 128
TOLERANCE = 1e-3


def integrate(
    model: ModelAdapter,
    tokens: Tokens,
    target: Target,
    steps: int | None,
    batch_size: int,
    advance: Callable[[float], None] = no_progress,
) -> tuple[Tensor, dict[str, Any]]:
    """The scores of one input's tokens, and how far they add up to the change of the value.

    Gauss–Legendre points on the line: ``steps`` of them, or 32 doubled until it is exact enough.
    """
    size = rows_that_fit(model, [tokens] * 2, batch_size, gradients=True)
    gradient = EmbeddingGradient(model, [tokens], [target])
    after, words, _ = gradient.at()
    change = float(after[0] - gradient.at(0.0)[0][0])
    count = FIRST_STEPS if steps is None else steps
    most, done = (2 * MOST_STEPS - FIRST_STEPS if steps is None else steps), 0
    while True:
        points, weights = np.polynomial.legendre.leggauss(count)
        mean = torch.zeros_like(words[0])
        for start in range(0, count, size):
            scales = torch.tensor((points[start : start + size] + 1) / 2)
            many = [tokens] * len(scales), [target] * len(scales)
            found = EmbeddingGradient(model, *many).at(scales[:, None, None])[2]
            share = torch.tensor(weights[start : start + size] / 2, device=found.device)
            mean += (found * share[:, None, None]).sum(0)
            done += len(scales)
            advance(done / most)
        scores = products(mean, words[0])
        gap = abs(float(scores.sum()) - change)
        if steps is not None or gap <= TOLERANCE or count >= MOST_STEPS:
            break
        count *= 2
    if not gap <= TOLERANCE:  # or NaN
        log.warning("integrated gradients miss the change of %.4f by %.4f", change, gap)
    return scores, {"steps": count, "change": change, "completeness_gap": gap}


def measure(question: Question) -> Scores:
    """The integrated gradients of groups of tokens, which add up to the change of the value."""
    scores, statistics = integrate(
        question.model,
        question.tokens,
        question.target,
        question.steps,
        question.batch_size,
        question.advance,
    )
    return Scores(to_numpy(sum_groups(scores, question.groups)), statistics)


MEMBER = Method(
    "integrated",
    "Integrated gradients",
    measure=measure,
    summary="Gradients summed on the way from a blank input: parts that add up to the answer.",
    cost="passes",
    uses_steps=True,
    signed=True,
    shown_by_default=False,
    slot=6,
)
