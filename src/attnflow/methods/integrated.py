"""Integrated gradients: gradient × input along the line from embeddings of zero."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attnflow.methods import Method, Scores
from attnflow.methods.gradients import EmbeddingGradient, sum_groups
from attnflow.methods.question import Question, Target, no_progress, rows_that_fit
from attnflow.records import FloatArray
from attnflow.records.arrays import to_numpy

if TYPE_CHECKING:
    from attnflow.models.adapter import ModelAdapter, Tokens

log = logging.getLogger("attnflow")
PIECES, EACH = 2, 8  # of the line at first, and points in each
MOST_STEPS = 256
TOLERANCE = 1e-3
OF_PIECE = TOLERANCE / 8  # a change that jumps somewhere fails in few of the pieces


def integrate(
    model: ModelAdapter,
    tokens: Tokens,
    target: Target,
    steps: int | None,
    batch_size: int,
    advance: Callable[[float], None] = no_progress,
) -> tuple[Tensor, dict[str, Any]]:
    """The scores of one input's tokens, and how far they add up to the change of the value.

    Gauss–Legendre points on the line: ``steps`` of them; or 8 in each half, of which a piece that
    misses its own change is halved until none does.
    """
    line = _Line(model, tokens, target, batch_size)
    count = EACH if steps is None else steps
    most = MOST_STEPS if steps is None else steps
    nodes, weights = np.polynomial.legendre.leggauss(count)
    pieces = list(pairwise(np.linspace(0, 1, 1 + (PIECES if steps is None else 1)).tolist()))
    total, done = torch.zeros(len(tokens), dtype=torch.float64), 0
    while pieces:
        line.run_at([end for piece in pieces for end in piece])
        points = [(low + high + (high - low) * nodes) / 2 for low, high in pieces]
        found = torch.split(line.products(np.concatenate(points)), count)
        done += len(pieces) * count
        advance(done / most)
        halves: list[tuple[float, float]] = []
        for (low, high), products in zip(pieces, found, strict=True):
            scores = torch.tensor(weights * (high - low) / 2) @ products
            missed = abs(float(scores.sum()) - (line.known[high] - line.known[low]))
            if missed > OF_PIECE and done + (len(halves) + 2) * count <= most:
                halves += pairwise((low, (low + high) / 2, high))
            else:
                total += scores
        pieces = halves
    advance(1.0)
    change = line.known[1.0] - line.known[0.0]
    gap = abs(float(total.sum()) - change)
    if not gap <= TOLERANCE:  # or NaN
        log.warning("integrated gradients miss the change of %.4f by %.4f", change, gap)
    return total, {"steps": done, "change": change, "completeness_gap": gap}


@dataclass
class _Line:
    """The line from embeddings of zero to those of an input."""

    model: ModelAdapter
    tokens: Tokens
    target: Target
    batch_size: int
    known: dict[float, float] = field(default_factory=dict)

    def run_at(self, ends: Sequence[float]) -> None:
        """Run the model where the value is not known yet."""
        new = [end for end in dict.fromkeys(ends) if end not in self.known]
        for part in self._parts(new, gradients=False):
            found = self._gradient(part).values(_column(part)).tolist()
            self.known.update(zip(part, found, strict=True))

    def products(self, points: FloatArray) -> Tensor:
        """Gradient × the input's embedding at points, ``[point, token]``."""
        found = []
        for part in self._parts(points.tolist(), gradients=True):
            _, scaled, gradients = self._gradient(part).at(_column(part))
            found.append((gradients * scaled).sum(-1) / _column(part)[..., 0].to(scaled.device))
        return torch.cat(found).cpu()

    def _gradient(self, part: Sequence[float]) -> EmbeddingGradient:
        count = len(part)
        return EmbeddingGradient(self.model, [self.tokens] * count, [self.target] * count)

    def _parts(self, points: Sequence[float], *, gradients: bool) -> Iterator[list[float]]:
        size = rows_that_fit(self.model, [self.tokens] * 2, self.batch_size, gradients=gradients)
        for start in range(0, len(points), size):
            yield list(points[start : start + size])


def _column(points: Sequence[float]) -> Tensor:
    return torch.tensor(points, dtype=torch.float64)[:, None, None]


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
