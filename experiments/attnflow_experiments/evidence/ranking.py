"""Edges and heads by their weight, and what the model says without, or with only, the first ones.

What a method says of edges is what it carries over each on its way to all tokens; ``raw`` says what
the rule itself says. Own edges, from a token to itself, are not ranked: a knockout leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import attnflow
from attnflow import Edges
from attnflow.models.knockout import survey
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores, to_numpy
from attnflow_experiments.known_answers.cases import Case

Measured = dict[str, Any]
Work = Callable[[Any, Any], Measured]
BoolArray = npt.NDArray[np.bool_]

SHARES = (0.003, 0.01, 0.03, 0.1)  # of all edges
HEAD_SHARES = (0.03, 0.1, 0.3)  # of all heads
SAMPLED = 500  # single edges
RANKINGS: dict[str, tuple[str, str]] = {
    "relevance": ("relevance", "raw"),
    "relevance, flow": ("relevance", "flow"),
    "removal": ("removal", "raw"),
    "attention × gradient": ("gradient", "raw"),
    "attention × gradient, rollout": ("gradient", "rollout"),
    "ALTI": ("alti", "raw"),
    "ALTI, rollout": ("alti", "rollout"),
    "ALTI, flow": ("alti", "flow"),
    "value zeroing": ("value-zeroing", "raw"),
    "norms": ("norms", "raw"),
    "attention": ("attention", "raw"),
    "attention, rollout": ("attention", "rollout"),
    "attention, flow": ("attention", "flow"),
}
BASELINES = ("random", "position")
HEAD_RULES = ("relevance", "removal", "gradient", "attention")


def opened(case: Any, model: Any, edges: str, *, all_heads: bool = False) -> Session:
    """A session of a case on some edges, towards what the model predicts."""
    asked = {} if edges in ("attention", "alti", "norms", "value-zeroing") else case.question
    config = Request(edges=edges, method="raw", **asked)
    # Of an encoder–decoder's answer, the first word is explained.
    answer = "" if model.kind == "pair" else None
    return open_session(case.text, model, config, answer=answer, all_heads=all_heads)


def edges_there(case: Any, model: Any) -> BoolArray:
    """The edges that the model has, ``[step, query, key]``, without own ones."""
    # Not the session's own pass: where edges are read off a backward pass, nobody counts the calls.
    session = opened(case, model, "attention")
    tokens, query = session.forward.tokens, session.query
    edges, _ = survey(model, session.forward, lambda: model.logits([tokens], [query]))
    there = np.stack(edges.seen(per_head=False))
    there[:, range(there.shape[1]), range(there.shape[1])] = False
    return there


def edge_values(session: Session, method: str) -> FloatArray:
    """What a method says of every edge, ``[step, query, key]``."""
    if method == "raw":
        return np.stack([to_numpy(each) for each in session.maps])
    sources = sources_of(session)
    keys = [at for at in range(session.size) if at not in sources]
    parts = [session.trace(method, session.depth, session.query, at).edges for at in keys]
    return np.sum(parts, axis=0)


def sources_of(session: Session) -> tuple[int, ...]:
    """The positions that the answer is read at, to which no routes lead."""
    return session.forward.pooled or (session.query,)


def in_order(values: FloatArray, there: BoolArray) -> npt.NDArray[np.int64]:
    """The places of edges, the highest first, in the flattened array."""
    places = np.flatnonzero(there)
    return places[np.argsort(-round_scores(values.ravel()[places]), kind="stable")]


def share_true(values: FloatArray, true: BoolArray) -> float:
    """How many of the first k are true, of k that are; of equal ones, as often as by lot."""
    values, number = round_scores(values), int(true.sum())
    least = np.sort(values)[-number]
    above, level = values > least, values == least
    drawn = (number - above.sum()) * true[level].mean()
    return float(true[above].sum() + drawn) / number


def baseline(name: str, case: Any, there: BoolArray, query: int) -> FloatArray:
    """Edges by lot, or by position: what the reader reads first, upper layers and near tokens."""
    if name == "random":
        return chance_of(case).random(there.shape)
    steps, queries, keys = np.indices(there.shape)
    near = -np.abs(queries - keys) / there.shape[1]
    found: FloatArray = 2.0 * len(there) * (queries == query) + steps + near
    return found


def chance_of(case: Any) -> np.random.Generator:
    """Always the same for a text, and another for others."""
    text = case.text
    return np.random.default_rng(list((text if isinstance(text, str) else str(text)).encode()))


def knocked(case: Any, model: Any, sets: dict[str, Any]) -> list[float]:
    """The change of log p without each of these sets."""
    asked = case.question
    if model.kind == "pair":  # the word itself is one more position, which nothing reads
        said = opened(case, model, "attention").prediction
        asked = {"answer": said.label}
        sets = {name: np.pad(one, ((0, 0), (0, 1), (0, 1))) for name, one in sets.items()}
    found = attnflow.knockout(case.text, model, edges=sets, random=0, **asked)
    return [one.change for one in found.values()]


def edges(name: str) -> Work:
    """What removing, and keeping, the first edges of a ranking does to log p.

    And what it says of single edges that are drawn, which `singles` removes one by one.
    """

    def work(case: Case, model: Any) -> Measured:
        there = edges_there(case, model)
        if name in BASELINES:
            session = opened(case, model, "attention")
            values = baseline(name, case, there, session.query)
        else:
            rule, method = RANKINGS[name]
            values = edge_values(opened(case, model, rule), method)
        order, sets = in_order(values, there), {}
        counts = [max(1, round(share * len(order))) for share in SHARES]
        for kind in ("remove", "keep"):
            for count in counts:
                chosen = order[:count] if kind == "remove" else order[count:]
                sets[f"{kind} {count} {len(sets)}"] = mask_of(chosen, there)
        changes = knocked(case, model, sets)
        drawn = [float(f"{values.ravel()[at]:.5g}") for at in _drawn(case, there)]
        size = len(SHARES)
        return {"remove": changes[:size], "keep": changes[size:], "estimates": drawn}

    return work


def singles(case: Case, model: Any) -> Measured:
    """The change of log p without single edges, drawn by lot."""
    there = edges_there(case, model)
    drawn = _drawn(case, there)
    sets = {str(at): mask_of(drawn[at : at + 1], there) for at in range(len(drawn))}
    return {"changes": [float(f"{each:.5g}") for each in knocked(case, model, sets)]}


def _drawn(case: Case, there: BoolArray) -> npt.NDArray[np.int64]:
    places = np.flatnonzero(there)
    return np.sort(chance_of(case).choice(places, min(SAMPLED, len(places)), replace=False))


def mask_of(chosen: npt.NDArray[np.int64], there: BoolArray) -> BoolArray:
    """These places of a flattened array of edges."""
    mask = np.zeros(there.shape, bool)
    mask.ravel()[chosen] = True
    return mask


def heads(name: str) -> Work:
    """The same for heads: those with the highest sums over their edges are removed, or kept."""

    def work(case: Case, model: Any) -> Measured:
        there = edges_there(case, model)
        rule = name if name in HEAD_RULES else "attention"
        session = opened(case, model, rule, all_heads=True)
        made = session.config.rule.apply(session.activations).layers
        counts = [int(each.shape[0]) for each in made]
        values = [
            to_numpy(each)[:, seen].clip(0).sum(-1) for each, seen in zip(made, there, strict=True)
        ]
        if name == "random":
            values = [
                chance_of(case).random((len(counts), max(counts)))[at, :count]
                for at, count in enumerate(counts)
            ]
        if name == "position":
            values = [np.full(count, float(at)) for at, count in enumerate(counts)]
        places = [(at + 1, head) for at, count in enumerate(counts) for head in range(count)]
        flat = np.concatenate(values)
        order = np.argsort(-round_scores(flat), kind="stable")
        sets: dict[str, list[Edges]] = {}
        for kind in ("remove", "keep"):
            for share in HEAD_SHARES:
                count = max(1, round(share * len(order)))
                chosen = order[:count] if kind == "remove" else order[count:]
                sets[f"{kind} {share}"] = [Edges(*places[at]) for at in chosen]
        changes, size = knocked(case, model, sets), len(HEAD_SHARES)
        return {"remove": changes[:size], "keep": changes[size:], "estimates": flat.tolist()}

    return work


def single_heads(case: Case, model: Any) -> Measured:
    """The change of log p without each head."""
    session = opened(case, model, "attention", all_heads=True)
    sets = {
        f"{layer}.{head}": Edges(layer + 1, head)
        for layer, each in enumerate(session.activations.attention)
        for head in range(each.shape[0])
    }
    return {"changes": knocked(case, model, sets)}


def works() -> Iterator[tuple[str, Work]]:
    """All pieces of a board by their names."""
    yield "single edges", singles
    for name in (*RANKINGS, *BASELINES):
        yield f"edges by {name}", edges(name)


def head_works() -> Iterator[tuple[str, Work]]:
    """The pieces that rank heads, of models of one sequence."""
    yield "single heads", single_heads
    for name in (*HEAD_RULES, *BASELINES):
        yield f"heads by {name}", heads(name)
