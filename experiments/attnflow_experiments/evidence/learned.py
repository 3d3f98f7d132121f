"""Whether learned weights of heads help on relevance, as they do on attention.

`attnflow.fit` refuses relevance, whose heads add up as they are. Here its regression has the
relevance of every head: what the explained position reads, as `fit` takes it, and what all do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from attnflow.evaluation import fit
from attnflow.evaluation.agreement import spearman
from attnflow.methods import METHODS
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.records import FloatArray
from attnflow.records.arrays import round_scores, to_numpy
from attnflow_experiments.known_answers.cases import Case

HELD_OUT, RIDGE = 0.3, 1.0
Piece = Mapping[str, FloatArray]
LEARNED = {"relevance, read": "read", "relevance, all": "all", "attention, read": "attention"}
PLAIN = ("flow", "lrp", "position")


def features(case: Case, model: Any) -> dict[str, Any]:
    """What every head gave to each token, and what blanking the token out does."""
    own = fit._piece(case.text, model, "attention", "unk")
    session = open_session(
        case.text, model, Request(edges="relevance", method="flow"), all_heads=True
    )
    words = session.tokens.word_ids or [0] * session.size
    places = [at for at, word in enumerate(words) if word is not None]
    asked = list(session.forward.pooled or (session.query,))
    maps = [to_numpy(each) for each in session.config.rule.apply(session.activations).layers]
    flow = session.scores("flow", [session.depth], [session.query]).values[0, 0]
    lrp = session.measured(METHODS["lrp"]).values
    return {
        "attention": own["features"],
        "drops": own["drops"],
        "read": np.concatenate([each[:, asked].sum(1)[:, places] for each in maps]).T,
        "all": np.concatenate([each.sum(1)[:, places] for each in maps]).T,
        "flow": np.asarray(flow)[places],
        "lrp": np.asarray(lrp)[places],
        "position": np.arange(len(places), dtype=np.float64),
    }


def figures(pieces: Sequence[Piece], seed: int = 0) -> dict[str, float]:
    """Mean agreement with blanking out, on texts that nothing was learned from."""
    order = np.random.default_rng(seed).permutation(len(pieces))
    count = max(1, round(len(pieces) * HELD_OUT))
    apart, kept = ([pieces[at] for at in part] for part in (order[:count], order[count:]))
    found = {name: _agreement(apart, lambda one, name=name: one[name]) for name in PLAIN}
    for name, key in LEARNED.items():
        learned = [{"features": one[key], "drops": one["drops"]} for one in kept]
        weights = fit._learn(learned, RIDGE)
        even = np.ones_like(weights)
        for title, by in (("heads alike", even), ("heads learned", weights)):
            found[f"{name}, {title}"] = _agreement(apart, lambda one, key=key, by=by: one[key] @ by)
    return found


def _agreement(pieces: Sequence[Piece], scores: Any) -> float:
    values = [spearman(round_scores(scores(one)), one["drops"]) for one in pieces]
    return float(np.nanmean(values))


def rows(boards: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[str]:
    """Agreement with blanking out, by what ranks the tokens."""
    found, titles = [], []
    for title, cases in boards.items():
        pieces = [case["features"] for case in cases if "drops" in case["features"]]
        pieces = [one for one in pieces if len(one["drops"]) > 1]
        apart = max(1, round(len(pieces) * HELD_OUT))
        found.append(figures(pieces))
        titles.append(f"{title} ({apart}; learned from {len(pieces) - apart})")
    yield from (f"| | {' | '.join(titles)} |", "|---" * (len(titles) + 1) + "|")
    for name in found[0]:
        cells = (f"{each[name]:.2f}".replace("-", "−").replace("0.", ".", 1) for each in found)
        yield f"| {name} | {' | '.join(cells)} |"
