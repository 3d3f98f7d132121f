"""One case: what every method and edge rule says of its parts, and what deleting them does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.parts.cases import Case
from benchmarks.parts.citing import lasso, logits_of, random_masks

from attnflow.aggregation import AGGREGATORS, Aggregator, Measure
from attnflow.edges import EDGE_RULES
from attnflow.errors import AttnflowError
from attnflow.models.answers.interface import Answers
from attnflow.models.answers.prompts import make_prompt, read_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.answer_session import AnswerSession, open_answer
from attnflow.pipeline.config import ExplainConfig
from attnflow.pipeline.deletions import without
from attnflow.pipeline.session import Session
from attnflow.records import FloatArray

Groups = tuple[tuple[int, ...], ...]
FITTED, HELD_OUT = 64, 32  # random deletions that a linear model is fitted to, and judged by


@dataclass(frozen=True)
class Trial:
    """A case, opened: the answer, its tokens, and which tokens are whose."""

    case: Case
    answers: Answers
    tokens: Any
    documents: Groups
    sentences: Groups


def open_trial(case: Case, answers: Answers, length: int) -> Trial:
    """The model's own answer to a case's question."""
    named = {
        f"{d}.{s}": sentence
        for d, document in enumerate(case.documents)
        for s, sentence in enumerate(document)
    }
    chat = [{"role": "user", "content": case.content}]
    prompt = make_prompt(chat, answers.tokenizer, answers.model.name, named)
    read, parts = read_prompt(answers, prompt, truncate=False)
    place = {part.name: part.positions for part in parts}
    sentences = tuple(place[name] for name in named)
    documents = tuple(
        tuple(at for name in named if name.startswith(f"{d}.") for at in place[name])
        for d in range(len(case.documents))
    )
    tokens = answers.write(read, Writing(length))
    return Trial(case, answers, tokens, documents, sentences)


@dataclass(frozen=True)
class Ways:
    """How parts are scored: edge rules with methods, and methods that read no edges."""

    rules: Sequence[str]
    methods: Sequence[str]
    measures: Sequence[str]


def score_case(case: Case, answers: Answers, length: int, ways: Ways) -> dict[str, Any]:
    """All that is known of one case, as plain data."""
    trial = open_trial(case, answers, length)
    sources = trial.sentences
    whole = float(without(answers, trial.tokens, []).sum())

    def drop(positions: Sequence[int]) -> float:
        return whole - float(without(answers, trial.tokens, positions).sum())

    drops = [drop(part) for part in trial.documents]
    held = random_masks(HELD_OUT, len(sources), seed=1)
    actual = logits_of(answers, trial.tokens, sources, held)
    found: dict[str, Any] = {
        "answer": trial.tokens.answer,
        "right": case.answer.lower() in (trial.tokens.answer or "").lower(),
        "fact": case.fact,
        "tokens": len(trial.tokens),
        "drops": drops,
        "methods": {},
    }
    for name, documents, each, seconds in every_score(trial, ways):
        order = np.argsort(-each, kind="stable")
        top = {k: drop([at for s in order[:k] for at in sources[s]]) for k in (1, 3)}
        found["methods"][name] = {
            "documents": documents.tolist(),
            "top_1_drop": top[1],
            "top_3_drop": top[3],
            "lds": rank_correlation(held @ each, actual),
            "seconds": seconds,
        }
    return found


def every_score(trial: Trial, ways: Ways) -> Iterator[tuple[str, FloatArray, FloatArray, float]]:
    """Name, scores of documents, scores of sentences, seconds."""
    groups = trial.documents, trial.sentences
    count = len(trial.sentences)
    yield "position (first)", -np.arange(float(len(groups[0]))), -np.arange(float(count)), 0.0
    yield "position (last)", np.arange(float(len(groups[0]))), np.arange(float(count)), 0.0
    start = time.perf_counter()
    masks = random_masks(FITTED, count, seed=0)
    weights = lasso(masks, logits_of(trial.answers, trial.tokens, trial.sentences, masks))
    inside = [[set(s) <= set(d) for s in groups[1]] for d in groups[0]]
    seconds = time.perf_counter() - start
    yield f"ablation, {FITTED} deletions", np.array(inside) @ weights, weights, seconds
    for method in ways.measures:
        config = ExplainConfig(method=method)
        start = time.perf_counter()
        rows = open_answer(trial.tokens, trial.answers, config).rows(groups, lambda _: None)
        seconds = time.perf_counter() - start
        yield method, *(each.values.mean(0) for each in rows), seconds
    for rule in ways.rules:
        yield from by_rule(trial, rule, ways.methods)


def by_rule(
    trial: Trial, rule: str, methods: Sequence[str]
) -> Iterator[tuple[str, FloatArray, FloatArray, float]]:
    """Every method on the edges of one rule, of one forward pass."""
    session = AnswerSession(
        trial.answers, trial.tokens, ExplainConfig(edges=rule, method=methods[0])
    )
    sums: dict[str, list[FloatArray]] = {}
    times = dict.fromkeys(methods, 0.0)
    queries = [at - 1 for at in session.positions]
    alone = EDGE_RULES[rule].needs.gradients
    for number in range(len(queries)) if alone else [0]:
        opened = session.session(number)
        asked = [queries[number]] if alone else queries
        for method in methods:
            start = time.perf_counter()
            try:
                scores = _both(trial, opened, method, asked)
            except AttnflowError as error:
                print(f"{rule} {method}: {error}", flush=True)
                continue
            before = sums.get(method, [0.0, 0.0])
            sums[method] = [one + other for one, other in zip(before, scores, strict=True)]
            times[method] += time.perf_counter() - start
    for method, (documents, sentences) in sums.items():
        size = len(queries)
        yield f"{rule} · {method}", documents / size, sentences / size, times[method]


def _both(trial: Trial, opened: Session, method: str, asked: Sequence[int]) -> list[FloatArray]:
    """The scores of documents and of sentences, summed over positions."""
    groups = trial.documents, trial.sentences
    if AGGREGATORS[method].cost == "pair":  # where groups must not share tokens
        parts = [opened.scores(method, (opened.depth,), asked, groups=each) for each in groups]
        return [each.values[0].sum(0) for each in parts]
    found = opened.scores(method, (opened.depth,), asked, groups=groups[0] + groups[1])
    summed = found.values[0].sum(0)
    return [summed[: len(groups[0])], summed[len(groups[0]) :]]


def edge_methods() -> list[str]:
    """All methods that read edges."""
    return [each.name for each in AGGREGATORS.members() if isinstance(each, Aggregator)]


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's; 0 where one of them is constant. Ties have the mean of their ranks."""

    def ranks(values: FloatArray) -> FloatArray:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        middle = ends - (counts - 1) / 2
        return middle[place]

    a, b = ranks(np.round(first, 12)), ranks(second)
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def usual_measures() -> list[str]:
    """Methods that read no edges and take a pass or some, not hundreds for every token."""
    names = [each.name for each in AGGREGATORS.members() if isinstance(each, Measure)]
    return [name for name in names if AGGREGATORS[name].cost == "pass"]
