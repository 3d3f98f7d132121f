"""What is measured on one case: scores, parts of a prompt, faithfulness, and knockouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import attnflow
from attnflow import Edges
from attnflow.evaluation.explainers import make_erase
from attnflow.evaluation.metrics import METRICS
from attnflow.evaluation.metrics.metric import Case as Explained
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import Edge, FloatArray
from attnflow.records.selection import input_positions
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.parts.cases import Case as Question

Measured = dict[str, Any]
Work = Callable[[Any, Any], Measured]

FLOW: dict[str, Any] = {"edges": "relevance", "method": "flow"}
WAYS: dict[str, dict[str, Any]] = {
    "relevance flow": FLOW,
    "relevance flow, first token kept": {**FLOW, "correction": None},
    "relevance flow, stations": {"edges": "relevance", "method": "stations"},
    "lrp": {"method": "lrp"},
    "lrp, first token left out": {"edges": "relevance", "method": "rollout"},
    "lrp, as rollout on relevance": {"edges": "relevance", "method": "rollout"},
    "attention × gradient": {"edges": "gradient", "method": "direct-all"},
    "attention × gradient, the default of 0.2": {
        "edges": "gradient",
        "method": "direct",
        "correction": "sink",
    },
    "integrated gradients": {"method": "integrated"},
    "ALTI rollout": {"edges": "alti", "method": "rollout"},
    "ALTI rollout, first token left out": {
        "edges": "alti",
        "method": "rollout",
        "correction": "sink",
    },
    "attention flow": {"edges": "attention", "method": "flow"},
}
BASELINES = ("random order", "first token first", "last token first")
MEASURED = ("comprehensiveness", "sufficiency", "aopc")
SETS = 5  # random ones
FEWEST = "the fewest of its largest edges that do nine tenths of that"
CUT, SPARED = "its cut", "as many at random, none to the first token"
BoolArray = npt.NDArray[np.bool_]


def explained(case: Case, model: Any, way: dict[str, Any]) -> Any:
    """What one way says of a text; attention and ALTI have no target to ask about."""
    asked = {} if way.get("edges") in ("attention", "alti") else case.question
    if model.kind == "pair":  # an encoder–decoder, whose first word is explained
        return attnflow.explain_answer(case.text, model, **way, generate=1).at(answer=0)
    return attnflow.explain(case.text, model, **{**asked, **way})


def scores(way: dict[str, Any]) -> Work:
    """The scores of ordinary tokens, and which of these decide."""

    def work(case: Case, model: Any) -> Measured:
        found = explained(case, model, way)
        every = range(len(found.tokens))
        places = input_positions(found.word_ids, found.segments, len(every)) or every
        return {
            "scores": [float(found.values[at]) for at in places],
            "deciding": [at in case.deciding for at in places],
        }

    return work


def words(case: Case, model: Any) -> Measured:
    """Which word each ordinary token is a piece of."""
    numbers = model.tokenize(case.text).word_ids if model.kind == "text" else None
    return {"words": [each for each in numbers or () if each is not None]}


def _prompt(case: Question, model: Any, length: int | None) -> dict[str, Any]:
    """What `attnflow.explain_answer` is called with, for a question over documents."""
    chat = [{"role": "user", "content": case.content}]
    named = {str(at): " ".join(each) for at, each in enumerate(case.documents)}
    answer = {"answer": case.answer} if length is None else {"generate": length}
    return {"prompt": chat, "model": model, "parts": named, "parts_only": True, **answer}


def documents(way: dict[str, Any], length: int | None) -> Work:
    """What each document gave to the fact, or to what the model writes, of at most some tokens."""

    def work(case: Question, model: Any) -> Measured:
        found = attnflow.explain_answer(**_prompt(case, model, length), **way)
        rows = {row.name: row.score for row in found.table()}
        return {"documents": [rows[str(at)] for at in range(len(case.documents))]}

    return work


def deletions(length: int | None) -> Work:
    """By how much the answer's log-probability falls without each document."""

    def work(case: Question, model: Any) -> Measured:
        asked = {**_prompt(case, model, length), "deletions": True}
        found = attnflow.explain_answer(**asked, edges="attention", method="raw")
        drops = {row.name: row.drop for row in found.table()}
        return {"drops": [drops[str(at)] for at in range(len(case.documents))], "fact": case.fact}

    return work


def faithful(name: str, filler: str) -> Work:
    """What removing and keeping the highest tokens does to the prediction's probability."""

    def work(case: Case, model: Any) -> Measured:
        session = open_session(case.text, model, Request(edges="attention", method="raw"))
        places = session.blanking.positions
        erase = make_erase(session, filler)
        if name in BASELINES:
            values = _baseline(name, case.text, len(places))
        else:
            values = explained(case, model, WAYS[name]).values[list(places)]
        one = Explained(values, float(erase([()])[0]), erase)
        return {metric: METRICS[metric].measure(one) for metric in MEASURED}

    return work


def _baseline(name: str, text: str, size: int) -> FloatArray:
    if name == "random order":
        return np.random.default_rng(list(text.encode())).random(size)
    sign = -1.0 if name == "first token first" else 1.0
    return np.arange(size, dtype=np.float64) * sign


def knockouts(case: Case, model: Any) -> Measured:
    """The change of log p without the cut of the word that matters, and without other sets.

    The word is the one that decides where that is known, and otherwise the one with the highest
    score; the other word is drawn by lot. Random sets have as many edges. On decoders some
    spare the first token, which takes what has nowhere else to go.
    """
    found = attnflow.explain(case.text, model, **FLOW, **case.question)
    every = range(len(found.tokens))
    ordinary = input_positions(found.word_ids, found.segments, len(every)) or every
    source = found.query
    candidates = [at for at in case.deciding or ordinary if at != source]
    word = max(candidates, key=lambda at: found.values[at])
    chance = np.random.default_rng(list(case.text.encode()))
    rest = [at for at in ordinary if at not in {*case.deciding, word, source}]
    cut, other = (
        attnflow.routes(case.text, model, to=at, **FLOW, **case.question)
        for at in (word, int(chance.choice(rest)))
    )
    sets = {
        CUT: cut,
        "nine tenths of its cut": _largest(cut.cut, 0.9),
        "all edges to the word": Edges(keys=word),
        "those from where the answer is read": Edges(keys=word, queries=source),
        **({"the cut of another word": other} if other.cut else {}),
    }
    results = attnflow.knockout(case.text, model, edges=sets, random=SETS)
    found_sets = {
        name: {"edges": one.removed, "change": one.change, "random": one.random_change}
        for name, one in results.items()
    }
    fewest = _fewest(case, model, cut.cut, found_sets[CUT]["change"])
    (alone,) = attnflow.knockout(case.text, model, edges={FEWEST: fewest}, random=SETS).values()
    found_sets[FEWEST] = {
        "edges": alone.removed,
        "change": alone.change,
        "random": alone.random_change,
    }
    if model.is_decoder(model.tokenize(case.text)):
        removed = results[CUT].removed
        spared = {
            str(number): _spared(found.depth, len(every), removed, chance) for number in range(SETS)
        }
        tried = attnflow.knockout(case.text, model, edges=spared, random=0)
        change = float(np.mean([one.change for one in tried.values()]))
        random = results[CUT].random_change
        found_sets[SPARED] = {"edges": removed, "change": change, "random": random}
    return {"sets": found_sets, "total": results[CUT].total}


def _largest(edges: Sequence[Edge], share: float) -> tuple[Edge, ...]:
    """The largest edges that together have a share of the whole."""
    order = sorted(edges, key=lambda edge: -edge.capacity)
    sums = np.cumsum([edge.capacity for edge in order])
    return tuple(order[: int(np.searchsorted(sums, share * sums[-1])) + 1])


def _fewest(case: Case, model: Any, edges: Sequence[Edge], change: float) -> tuple[Edge, ...]:
    """The largest edges, of 1, 2, 4 …, that do nine tenths of what all of them do."""
    order = tuple(sorted(edges, key=lambda edge: -edge.capacity))
    counts = [2**power for power in range(len(order).bit_length()) if 2**power < len(order)]
    sets = {str(count): order[:count] for count in counts}
    tried = attnflow.knockout(case.text, model, edges=sets, random=0) if sets else {}
    enough = [name for name, one in tried.items() if one.change <= 0.9 * change]
    return sets[enough[0]] if enough else order


def _spared(depth: int, size: int, count: int, chance: np.random.Generator) -> BoolArray:
    """Random edges of a decoder, ``[layer, query, key]``, none of them to its first token."""
    there = np.broadcast_to(np.tril(np.ones((size, size), bool), -1), (depth, size, size)).copy()
    there[:, :, 0] = False
    free = np.flatnonzero(there)
    chosen = np.zeros(there.size, bool)
    chosen[chance.choice(free, min(count, len(free)), replace=False)] = True
    return chosen.reshape(there.shape)
