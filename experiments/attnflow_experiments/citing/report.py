"""Tables of how well citations are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from attnflow.pipeline.citing import SHARE, find_supports
from attnflow.records import FloatArray
from attnflow_experiments.citing.cases import BRIDGES, DOCUMENTS, Case
from attnflow_experiments.parts.cases import FACTS
from attnflow_experiments.parts.citing import lasso, logit, random_masks

LEAST = 3.0  # the default of `attnflow.cite`
RANDOM = 32
CHECKS = (4, 2, 1)
DRAWS = 2000
# Documents that tell the fact in their second sentence.
TELLING = {document for document, _, _ in FACTS} | {each for two in BRIDGES for each in two[:2]}

Found = set[int]
Pairs = list[tuple[Found, Found]]  # of each sentence what is true, and what was cited
Known = dict[str, Any]


class Way(NamedTuple):
    """How documents are cited: what comes out of a case, and what that costs in forward passes."""

    name: str
    cite: Callable[[Known], tuple[list[Found], float]]


def values_of(known: Known) -> dict[frozenset[int], FloatArray]:
    """What was measured: the sentences' log-probabilities without some tokens."""
    return {frozenset(gone): np.array(values) for gone, values in known["runs"]}


def by_deletions(known: Known) -> list[Found]:
    """The documents of every smallest set that is enough, and those that are needed."""
    runs, places = values_of(known), [frozenset(each) for each in known["places"]]
    every = range(DOCUMENTS)

    def value(number: int, gone: Collection[int]) -> float:
        return float(runs[frozenset().union(*(places[at] for at in gone))][number])

    truths = []
    for number in range(len(runs[frozenset()])):
        whole, bare = value(number, ()), value(number, every)
        least = max(LEAST, SHARE * (whole - bare))
        if whole - bare < LEAST:
            truths.append(set())
            continue
        found = {at for at in every if whole - value(number, [at]) >= least}
        sets = [set(kept) for size in range(1, DOCUMENTS + 1) for kept in combinations(every, size)]
        enough = [kept for kept in sets if whole - value(number, set(every) - kept) < least]
        smallest = [kept for kept in enough if not any(other < kept for other in enough)]
        truths.append(found.union(*smallest))
    return truths


def cited(checks: int) -> Callable[[Known], tuple[list[Found], float]]:
    """What `attnflow.cite` cites, from what was measured, and how many passes it asks for."""

    def cite(known: Known) -> tuple[list[Found], float]:
        runs, asked = values_of(known), set[frozenset[int]]()
        places = [frozenset(each) for each in known["places"]]
        found = []
        for number in range(len(runs[frozenset()])):
            order = list(range(DOCUMENTS))
            if checks < DOCUMENTS:
                order = np.argsort(-np.array(known["scores"][0][number]), kind="stable").tolist()

            def value(gone: frozenset[int], number: int = number) -> float:
                tokens = frozenset().union(*(places[at] for at in gone))
                asked.add(tokens)
                return float(runs[tokens][number])

            supports = find_supports(value, order, checks, LEAST)
            found.append({unit for each in supports for unit in each.units})
        return found, len(asked) + (known["scoring"] if checks < DOCUMENTS else 0)

    return cite


def quoted(case: Case, known: Known) -> tuple[int, int, int]:
    """Cited documents that tell a fact; those quoted with its sentence; all sentences quoted."""
    runs, places = values_of(known), [frozenset(each) for each in known["places"]]
    passages = [[frozenset(each) for each in own] for own in known["passages"]]
    every, counts = frozenset().union(*places), np.zeros(3, int)

    def supports(number: int, units: Sequence[frozenset[int]], beside: frozenset[int]) -> Any:
        def value(gone: frozenset[int]) -> float:
            return float(runs[beside.union(*(units[at] for at in gone))][number])

        return find_supports(value, range(len(units)), len(units), LEAST)

    for number in range(len(case.said)):
        found = supports(number, places, frozenset())
        cited = frozenset().union(*(places[at] for each in found for at in each.units))
        for each, at in [(support, at) for support in found for at in support.units]:
            if case.documents[at] not in TELLING:
                continue
            others = frozenset().union(*(places[other] for other in each.units if other != at))
            inner = supports(
                number, passages[at], others | (every - cited if each.apart else set())
            )
            units = {unit for one in inner for unit in one.units}
            counts += (1, 1 in units, len(units))
    return int(counts[0]), int(counts[1]), int(counts[2])


def ablated(cost: Callable[[Known], float], units: str, least: float = LEAST) -> Any:
    """What a lasso over random deletions cites, at a cost: its weights reach what counts."""

    def cite(known: Known) -> tuple[list[Found], float]:
        runs = values_of(known)
        masks = masks_of(known, units)[: max(2, round(cost(known)) - 1)]
        passages = [frozenset(each) for own in known["passages"] for each in own]
        every = [frozenset(each) for each in known["places"]] if units == "documents" else passages
        sizes = [1] * DOCUMENTS if units == "documents" else list(map(len, known["passages"]))
        found = []
        for number in range(len(runs[frozenset()])):
            measured = [
                runs[frozenset().union(*(u for u, k in zip(every, mask, strict=True) if not k))]
                for mask in masks
            ]
            values = np.array([logit(float(each[number])) for each in measured])
            weights = lasso(masks, values)
            sums = np.add.reduceat(weights, np.cumsum([0, *sizes[:-1]]))
            found.append({at for at, weight in enumerate(sums) if weight >= least})
        return found, len(masks) + 1

    return cite


def masks_of(known: Known, units: str) -> FloatArray:
    """Random sets of sentences that are kept, or of documents."""
    if units == "documents":
        return random_masks(RANDOM, DOCUMENTS, seed=0)
    return random_masks(RANDOM, sum(map(len, known["passages"])), seed=0)


def report(cases: Sequence[tuple[Case, Known]]) -> str:
    """A table of documents, one of sentences that rest on none, and one by kinds of sentences."""
    ranked = bool(cases) and all("scores" in known for _, known in cases)
    checks = CHECKS if ranked else CHECKS[:1]  # all documents need no scores
    ways = [Way(f"`attnflow.cite`, checks={each}", cited(each)) for each in checks]

    def same(known: Known) -> float:
        return cited(DOCUMENTS)(known)[1]

    for units in ("documents", "sentences"):
        ways.append(Way(f"ablations of {units}, equal cost", ablated(same, units)))
        ways.append(Way(f"ablations of {units}, {RANDOM}", ablated(lambda _: RANDOM + 1, units)))
    kinds = [said.kind for case, _ in cases for said in case.said]
    meant = [case.meant(at) for case, _ in cases for at in range(len(case.said))]
    truth = [each for _, known in cases for each in by_deletions(known)]
    owners = [at for at, (case, _) in enumerate(cases) for _ in case.said]
    agree = sum(one == other for one, other in zip(truth, meant, strict=True))
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    lines = [
        f"{len(cases)} answers of two sentences ({counts}); by every deletion {agree} of "
        f"{len(truth)} sentences rest on the documents that they were written from.",
        "",
        "| | passes | precision | recall | exactly right | precision, as written | "
        "recall, as written |",
        "|---|---|---|---|---|---|---|",
    ]
    flags = ["", "| | flagged, rightly | resting on none, flagged |", "|---|---|---|"]
    for way in ways:
        results = [way.cite(known) for _, known in cases]
        found = [each for result, _ in results for each in result]
        columns = []
        for true in (truth, meant):
            pairs = list(zip(true, found, strict=True))
            columns += [_rate(pairs, owners, part) for part in (_precision, _recall)]
        exact = _rate(list(zip(truth, found, strict=True)), owners, _exact)
        cost = np.mean([cost for _, cost in results])
        row = [f"{cost:.1f}", *columns[:2], exact, *columns[2:]]
        lines.append(f"| {way.name} | {' | '.join(row)} |")
        empty = [
            (set() if t else {0}, set() if f else {0}) for t, f in zip(truth, found, strict=True)
        ]
        rates = [_rate(empty, owners, part) for part in (_precision, _recall)]
        flags.append(f"| {way.name} | {' | '.join(rates)} |")
    kinds_table = ["", "| written from | sentences | exactly right by deletions | as written |"]
    kinds_table.append("|---|---|---|---|")
    found = [each for _, known in cases for each in ways[0].cite(known)[0]]
    for kind in dict.fromkeys(kinds):
        at = [place for place, each in enumerate(kinds) if each == kind]
        right = [sum(found[place] == of[place] for place in at) for of in (truth, meant)]
        kinds_table.append(f"| {kind} | {len(at)} | {right[0]} | {right[1]} |")
    quotes = np.sum([quoted(case, known) for case, known in cases], axis=0)
    kinds_table += [
        "",
        f"{quotes[1]} of {quotes[0]} cited documents are quoted with the sentence that "
        f"tells the fact; {quotes[2]} sentences of them are quoted.",
    ]
    return "\n".join([*lines, *flags, *kinds_table]) + "\n"


def _precision(pairs: Pairs) -> tuple[int, int]:
    return sum(len(true & found) for true, found in pairs), sum(len(f) for _, f in pairs)


def _recall(pairs: Pairs) -> tuple[int, int]:
    return sum(len(true & found) for true, found in pairs), sum(len(t) for t, _ in pairs)


def _exact(pairs: Pairs) -> tuple[int, int]:
    return sum(true == found for true, found in pairs), len(pairs)


def _rate(pairs: Pairs, owners: Sequence[int], part: Callable[[Pairs], tuple[int, int]]) -> str:
    """A rate over sentences, and a 95 % interval by drawing cases."""
    of = [
        [pair for pair, own in zip(pairs, owners, strict=True) if own == at] for at in set(owners)
    ]
    counts = np.array([part(each) for each in of])
    drawn = np.random.default_rng(0).integers(0, len(of), (DRAWS, len(of)))
    sums = counts[drawn].sum(1)
    low, high = np.percentile(sums[:, 0] / np.maximum(sums[:, 1], 1), [2.5, 97.5])
    hits, total = counts.sum(0)
    rate = "–" if not total else f"{hits / total:.0%} ({low:.0%}–{high:.0%})"
    return f"{rate} {hits}/{total}"
