"""How explainers stand on one board: their order, and what differs significantly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from attnflow.evaluation.result import Column, Evaluation, Line
from attnflow.evaluation.statistics import all_paired_p, holm
from attnflow.evaluation.tables import SURE
from attnflow.pipeline.choice import DEFAULT, PAPER_WITH_TARGET, SHARES, Choice

FILLER = "unk"
MAIN = Column("comprehensiveness", FILLER)
REFERENCE = "blank-out"
SHOWN = (
    MAIN,
    Column("sufficiency", FILLER),
    Column("log-odds", FILLER),
    Column("comprehensiveness", "delete"),
    Column("spearman", REFERENCE),
    Column("partial", REFERENCE),
    Column("auprc", "rationale"),
    Column("token-f1", "rationale"),
)
BEFORE = "default of 0.2"
CHOICES = {
    "default": DEFAULT,
    BEFORE: SHARES,
    "default of 0.2 with a target": PAPER_WITH_TARGET,
}
DECODERS = {"default": DEFAULT, BEFORE: Choice("gradient", "direct")}


class Table:
    """One board without the reference, which is kept apart."""

    def __init__(self, of: Evaluation) -> None:
        own = [at for at, each in enumerate(of.explainers) if each.method != REFERENCE]
        kept = [at for at, column in enumerate(of.columns) if column in SHOWN]
        main = of.columns.index(MAIN)
        found = [of.values[at, main] for at in range(len(of.explainers)) if at not in own]
        self.reference = float(np.nanmean(found[0])) if found else None
        self.of = replace(
            of,
            explainers=tuple(of.explainers[at] for at in own),
            columns=tuple(of.columns[at] for at in kept),
            values=of.values[np.ix_(own, kept)],
            tied=tuple(of.tied[at] for at in own),
        )
        self.lines = {(line.explainer, line.column): line for line in self._lines()}
        main_lines = [line for line in self.lines.values() if line.column == MAIN]
        self.order = sorted(main_lines, key=lambda line: -line.mean)

    def _lines(self) -> Iterator[Line]:
        """All lines, with p-values that are corrected for the comparisons with the best.

        What is best of all is among those that are not significantly worse with 95 % certainty:
        that takes one comparison with each of the others, not one of each pair.
        """
        for at, column in enumerate(self.of.columns):
            lines = [line for line in self.of.lines if line.column == column]
            best = next(place for place, line in enumerate(lines) if line.best)
            values = self.of.values[:, at]
            others = [place for place in range(len(lines)) if place != best]
            adjusted = holm(all_paired_p(values[best] - values[others]))
            found = dict(zip(others, adjusted, strict=True))
            for place, line in enumerate(lines):
                yield replace(line, p=found.get(place, math.nan))

    @property
    def best(self) -> Line:
        """The most faithful of all."""
        return self.order[0]

    def find(self, method: str, edges: str | None = None) -> Line | None:
        """The main line of a method on edges, or of a baseline."""
        for line in self.order:
            if (line.explainer.method, line.explainer.edges) == (method, edges):
                return line
        return None

    def place(self, line: Line) -> int:
        """Which place it has, counted from 1."""
        return self.order.index(line) + 1

    def chosen(self) -> dict[str, Line]:
        """What attnflow uses by itself, by what that is called."""
        causal = self.of.about["causal"]
        found = {
            name: self.find(choice.method, choice.edges)
            for name, choice in (DECODERS if causal else CHOICES).items()
        }
        return {name: line for name, line in found.items() if line is not None}

    def differ(self, line: Line, others: Sequence[Line]) -> list[float]:
        """The p-values of one line beside others, corrected for these."""
        values = self.of.values[:, self.of.columns.index(MAIN)]
        at = [self.of.explainers.index(each.explainer) for each in others]
        return holm(all_paired_p(values[self.of.explainers.index(line.explainer)] - values[at]))

    @property
    def too_few(self) -> bool:
        """Whether there are too few texts for any difference to the best to be significant."""
        return 2.0 ** (1 - self.of.texts) * (len(self.order) - 1) >= SURE
