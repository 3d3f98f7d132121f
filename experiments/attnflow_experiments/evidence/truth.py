"""What a rule's edges and each method say of a circuit, beside what is true of it.

Of the token: whether one that decides has the highest score of all ordinary tokens. Of edges and
layers: how many of the first k are true, where k are. Of a flow's cut: the share of its capacity
that is on true edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnflow
from attnflow.errors import AttnflowError
from attnflow.methods import METHODS
from attnflow.pipeline.request import reads
from attnflow.pipeline.session import Session
from attnflow.records import FloatArray
from attnflow.records.selection import input_positions
from attnflow_experiments.evidence import ranking
from attnflow_experiments.evidence.circuits import Built, make_circuits
from attnflow_experiments.evidence.ranking import BASELINES, BoolArray, Measured, Work
from attnflow_experiments.known_answers.report import is_first

RULES = (
    *("relevance", "removal", "gradient", "gradient-only", "alti", "value-zeroing"),
    *("norms", "norms-residual", "effective", "attention"),
)
ROUTED = ("rollout", "flow", "widest", "additive", "barrier")  # methods that compose layers
DIRECT = ("direct", "direct-all")
ALONE = ("lrp", "integrated", "gradient-norm", "gradient-input", "blank-out")
EXACT = "each edge removed"


@dataclass(frozen=True)
class Known:
    """A circuit with its model, as other trials have a text."""

    built: Built
    model: Any
    question: dict[str, Any]

    @property
    def text(self) -> str:
        """What the model reads."""
        return self.built.text


def circuits(seed: int) -> Iterator[Known]:
    """Circuits in their models; each does what it should, which is checked."""
    for built in make_circuits(seed):
        model = attnflow.load_model(built.model())
        tokens = model.tokenize(built.text)
        said = model.predict([tokens], [len(tokens) - 1])[0].label.strip()
        if said != built.circuit.answer:
            msg = f"{built.task} in {built.family} says {said!r}, not {built.circuit.answer!r}"
            raise AssertionError(msg)
        yield Known(built, model, {})


def marked(case: Known, there: BoolArray) -> BoolArray:
    """The true edges, ``[step, query, key]``."""
    true = np.zeros(there.shape, bool)
    for layer, query, key in case.built.circuit.edges:
        true[layer - 1, query, key] = True
    return true


def of_edges(values: FloatArray, there: BoolArray, true: BoolArray) -> Measured:
    """How many of the first edges, and of the first layers, are true."""
    layers = np.where(there, values.clip(0), 0.0).sum((1, 2))
    return {
        "edges": ranking.share_true(values[there], true[there]),
        "layers": ranking.share_true(layers, true.any((1, 2))),
    }


def rule(name: str) -> Work:
    """All methods on one rule's edges."""

    def work(case: Known, _: Any) -> Measured:
        there = ranking.edges_there(case, case.model)
        true = marked(case, there)
        session = ranking.opened(case, case.model, name)
        found = {"raw": of_edges(ranking.edge_values(session, "raw"), there, true)}
        for method in (*ROUTED, *DIRECT):
            if not reads(METHODS[method], session.config.rule):
                continue
            try:
                one: Measured = {"token": _token(session, method, case)}
                if method in ROUTED:
                    try:
                        one |= of_edges(ranking.edge_values(session, method), there, true)
                    except AttnflowError as error:  # what arrives over all paths has no single one
                        one["no edges"] = str(error)
                if method == "flow":
                    one["cut"] = _cut(session, true, case)
            except AttnflowError as error:
                one = {"refused": str(error)}
            found[method] = one
        return found

    return work


def _ordinary(session: Session) -> tuple[int, ...]:
    tokens = session.tokens
    found = input_positions(tokens.word_ids, tokens.segments, session.size)
    return tuple(found or range(session.size))


def _token(session: Session, method: str, case: Known) -> float:
    places = _ordinary(session)
    if METHODS[method].reads_edges:
        values = session.scores(method, [session.depth], [session.query]).values[0, 0]
    else:
        values = session.measured(METHODS[method]).values
    deciding = case.built.circuit.deciding
    return is_first(np.asarray(values)[list(places)], [at in deciding for at in places])


def _cut(session: Session, true: BoolArray, case: Known) -> float:
    """The share of the cut's capacity that is on true edges, over the tokens that decide."""
    shares = []
    for token in case.built.circuit.deciding:
        cut = session.trace("flow", session.depth, session.query, token).cut
        whole = sum(edge.capacity for edge in cut)
        on = sum(edge.capacity for edge in cut if true[edge.layer - 1, edge.query, edge.key])
        shares.append(on / whole if whole else 0.0)
    return float(np.mean(shares))


def alone(case: Known, _: Any) -> Measured:
    """Methods that read no edges, baselines, and the knockout of each edge."""
    there = ranking.edges_there(case, case.model)
    true = marked(case, there)
    session = ranking.opened(case, case.model, "attention")
    found: Measured = {method: {"token": _token(session, method, case)} for method in ALONE}
    places = _ordinary(session)
    deciding = [at in case.built.circuit.deciding for at in places]
    found["random"] = {"token": float(np.mean(deciding))}
    found["position"] = {"token": float(deciding[-2])}  # the one before the last, which asks
    for name in BASELINES:
        values = ranking.baseline(name, case, there, session.query)
        found[name] |= of_edges(values, there, true)
    each = np.flatnonzero(there)
    sets = {str(at): ranking.mask_of(each[at : at + 1], there) for at in range(len(each))}
    changes = np.zeros(there.shape)
    changes.ravel()[each] = ranking.knocked(case, case.model, sets)
    found[EXACT] = of_edges(-changes, there, true) | {
        "least of true": float(-changes[true].max()),
        "most of others": float(-changes[there & ~true].min()),
    }
    return found


def works() -> Iterator[tuple[str, Work]]:
    """The pieces of a circuit by their names."""
    yield "alone", alone
    for name in RULES:
        yield f"edges {name}", rule(name)
