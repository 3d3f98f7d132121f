"""The texts of a run in the order of how far methods disagree on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean

import numpy as np

from attnflow.evaluation.agreement import spearman
from attnflow.options.option import options_of
from attnflow.options.tables import ExplainOptions
from attnflow.records import Attribution, FloatArray
from attnflow.records.arrays import round_scores
from attnflow.runs.reading import BadRow, Run
from attnflow.views.wording.findings import rank
from attnflow.views.wording.labels import label
from attnflow.views.wording.names import method_id, name_with_edges
from attnflow.views.wording.numbers import percent

MOST_TEXT = 2000  # characters of a text: longer ones are cut, and can't be opened
WIDEST = 24  # cells of a word
EXPLAIN = options_of(ExplainOptions)


@dataclass(frozen=True)
class Entry:
    """One row of a run.

    Attributes:
        row: Its number.
        id: Its own name, where it has one.
        text: Its text, or its beginning.
        whole: Whether that is all of it.
        prediction: What the model says, with its probability.
        disagreement: 1 less the mean rank correlation of all pairs of methods, over ordinary
            tokens: 0 where all agree, 1 where they have nothing in common, NaN where undefined.
        highest: For each explainer the word with the highest score.
        target: What a link must name for the same scores: the target and what it is compared with.
    """

    row: int
    id: str | None
    text: str
    whole: bool
    prediction: str
    disagreement: float
    highest: tuple[str, ...]
    target: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Listing:
    """The rows of a run, the one with the largest disagreement first.

    Attributes:
        name: The run's folder.
        explainers: The method and the edges of each column, as titles.
        shown: What a link asks for: the edges, and the first method as documents call it, where all
            have the same edges; and what else the run was asked for that the page can show.
        linked: Whether a link can open a row's text: one that is half of a pair can't be.
    """

    name: str
    explainers: tuple[str, ...]
    shown: Mapping[str, str]
    linked: bool
    entries: tuple[Entry, ...]
    errors: tuple[BadRow, ...]

    def in_order(self, order: str) -> Sequence[Entry]:
        """The entries by ``"disagreement"``, or by ``"row"``."""
        return self.entries if order != "row" else sorted(self.entries, key=lambda each: each.row)


def make_listing(run: Run, advance: Callable[[float], None] = lambda _: None) -> Listing:
    """Read a run once, and keep what is listed; ``advance`` is told how many rows are read."""
    entries: list[Entry] = []
    first: list[Attribution] = []
    for done, (row, name, attributions) in enumerate(run.explained(), start=1):
        first = first or attributions
        entries.append(_entry(row, name, attributions))
        advance(done)
    edges = {of.options["edges"] for of in first if of.options.get("edges")}
    asked = run.manifest["request"]
    flags = [name for name, value in asked["options"].items() if value is True]
    served = {name: "true" for name in flags if name in EXPLAIN and EXPLAIN[name][1].served}
    shown = {**served, **({"words": "1"} if "words" in flags else {})}
    if len(edges) == 1:
        (rule,) = edges
        shown |= {"edges": rule, "method": method_id(first[0].method, rule)}
    return Listing(
        run.folder.name,
        tuple(name_with_edges(of) for of in first),
        shown,
        asked["input"]["columns"]["pair"] is None,
        tuple(sorted(entries, key=_largest_first)),
        tuple(run.errors),
    )


def _largest_first(entry: Entry) -> tuple[bool, float, int]:
    undefined = math.isnan(entry.disagreement)
    return undefined, 0.0 if undefined else -entry.disagreement, entry.row


def _entry(row: int, name: str | None, attributions: Sequence[Attribution]) -> Entry:
    one = attributions[0]
    said = one.prediction
    likely = ""
    if said is not None and not math.isnan(said.probability):
        likely = f" {percent(said.probability)}"
    return Entry(
        row,
        name,
        one.text[:MOST_TEXT],
        len(one.text) <= MOST_TEXT,
        "" if said is None else f"{said.label}{likely}",
        disagreement(attributions),
        tuple(_highest(of) for of in attributions),
        _target(one),
    )


def _highest(of: Attribution) -> str:
    """The word with the highest score, whole where its piece has it."""
    at = rank(of)[0]
    word = None if of.word_ids is None else of.word_ids[at]
    return label(of.tokens[at] if word is None else of.word_texts[word], WIDEST)


def _target(of: Attribution) -> dict[str, str]:
    """The target and the contrast, where the scores are of another than what is predicted."""
    target, contrast = of.options.get("target"), of.options.get("contrast")
    predicted = None if of.prediction is None else of.prediction.label
    named = {} if target in (None, predicted) and contrast is None else {"target": target}
    return {
        name: str(each)
        for name, each in {**named, "contrast": contrast}.items()
        if each is not None
    }


def disagreement(attributions: Sequence[Attribution]) -> float:
    """1 less the mean of the defined rank correlations of all pairs, by the size of scores.

    Special tokens are left out: they are sinks, on which methods differ whatever the text.
    """
    rows = [_sizes(of) for of in attributions]
    found = [spearman(*pair) for pair in combinations(rows, 2)]
    defined = [each for each in found if not math.isnan(each)]
    return 1 - fmean(defined) if defined else math.nan


def _sizes(of: Attribution) -> FloatArray:
    values = of.values if of.values.ndim == 1 else of.values.mean(0)
    found: FloatArray = round_scores(np.abs(values))[of.ordinary]
    return found
