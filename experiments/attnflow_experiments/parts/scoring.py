"""One case: what every method and edge rule says of its parts, and what deleting them does."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnflow.edges import EDGE_RULES
from attnflow.errors import AttnflowError
from attnflow.methods import METHODS
from attnflow.models.answers.interface import Answers
from attnflow.models.answers.prompts import make_prompt, read_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.answers import of_pass, open_answer
from attnflow.pipeline.generation import log_probabilities_without
from attnflow.pipeline.request import Request
from attnflow.pipeline.session import Session
from attnflow.records import FloatArray
from attnflow_experiments.parts.cases import Case
from attnflow_experiments.parts.citing import lasso, logit, random_masks

Groups = tuple[tuple[int, ...], ...]
FITTED, HELD_OUT = 32, 16  # random deletions that a linear model is fitted to, and judged by


@dataclass(frozen=True)
class Trial:
    """A case, opened: the answer, its tokens, and which tokens are whose."""

    case: Case
    answers: Answers
    tokens: Any
    documents: Groups
    sentences: Groups

    @property
    def inside(self) -> FloatArray:
        """``[document, sentence]``: 1 where a sentence is a document's."""
        pairs = [[set(s) <= set(d) for s in self.sentences] for d in self.documents]
        return np.array(pairs, np.float64)

    def split(self, values: FloatArray) -> list[FloatArray]:
        """Scores of documents, then sentences, apart."""
        return [values[: len(self.documents)], values[len(self.documents) :]]


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
class Deletions:
    """The answer's log-probability where only some sentences are kept; each is run once.

    ``known`` has what was found, by a 1 for every sentence that is kept and a 0 for others.
    """

    trial: Trial
    known: dict[str, float]

    def keeping(self, mask: Sequence[float]) -> float:
        """The log-probability of the answer."""
        key = "".join(str(int(kept)) for kept in mask)
        if key not in self.known:
            pairs = zip(mask, self.trial.sentences, strict=True)
            deleted = [at for kept, part in pairs if not kept for at in part]
            trial = self.trial
            (found,) = log_probabilities_without(trial.answers, trial.tokens, [deleted])
            self.known[key] = float(found.sum())
        return self.known[key]

    def drop(self, sentences: Sequence[int]) -> float:
        """By how much it falls without these sentences."""
        every = range(len(self.trial.sentences))
        return self.keeping([1] * len(every)) - self.keeping([at not in sentences for at in every])

    def logits(self, masks: FloatArray) -> FloatArray:
        """The logit of the answer's probability, for every mask."""
        return np.array([logit(self.keeping(mask)) for mask in masks])


@dataclass(frozen=True)
class Ways:
    """How parts are scored: edge rules with methods, and methods that read no edges."""

    rules: Sequence[str]
    methods: Sequence[str]
    measures: Sequence[str]


def score_case(
    case: Case, answers: Answers, length: int, ways: Ways, known: dict[str, Any] | None = None
) -> dict[str, Any]:
    """All that is known of one case, as plain data; what is ``known`` of it is not done again."""
    known = known or {"kept": {}, "methods": {}}
    trial = open_trial(case, answers, length)
    if known.setdefault("answer", trial.tokens.answer) != trial.tokens.answer:
        msg = f"the answer is {trial.tokens.answer!r} and was {known['answer']!r}: begin anew"
        raise SystemExit(msg)
    deletions = Deletions(trial, known["kept"])
    held = random_masks(HELD_OUT, len(trial.sentences), seed=1)
    actual = deletions.logits(held)
    methods = dict(known["methods"])
    for name, documents, each, seconds in every_score(trial, deletions, ways, set(methods)):
        order = np.argsort(-each, kind="stable").tolist()
        methods[name] = {
            "documents": documents.tolist(),
            "sentences": each.tolist(),
            "top_1_drop": deletions.drop(order[:1]),
            "top_3_drop": deletions.drop(order[:3]),
            "lds": rank_correlation(held @ each, actual),
            "seconds": seconds,
        }
    return {
        "answer": trial.tokens.answer,
        "right": case.answer.lower() in (trial.tokens.answer or "").lower(),
        "fact": case.fact,
        "tokens": len(trial.tokens),
        "drops": [deletions.drop(np.flatnonzero(row).tolist()) for row in trial.inside],
        "methods": methods,
        "kept": deletions.known,
    }


Found = tuple[str, FloatArray, FloatArray, float]


def every_score(
    trial: Trial, deletions: Deletions, ways: Ways, known: Collection[str]
) -> Iterator[Found]:
    """Name, scores of documents, scores of sentences, seconds; of all that is not known."""
    count = len(trial.sentences)
    places = np.arange(float(len(trial.documents))), np.arange(float(count))
    yield "position (first)", -places[0], -places[1], 0.0
    yield "position (last)", *places, 0.0
    start = time.perf_counter()
    masks = random_masks(FITTED, count, seed=0)
    fitted = f"ablation, {FITTED} deletions"
    if fitted not in known:
        weights = lasso(masks, deletions.logits(masks))
        yield fitted, trial.inside @ weights, weights, time.perf_counter() - start
    for method in ways.measures:
        if method in known:
            continue
        start = time.perf_counter()
        opened = open_answer(trial.tokens, trial.answers, Request(method=method))
        (rows,) = opened.rows([trial.documents + trial.sentences], lambda _: None)
        yield method, *trial.split(rows.values.mean(0)), time.perf_counter() - start
    wanted: dict[Any, list[str]] = {}
    for rule in ways.rules:
        if any(_name(rule, method) not in known for method in ways.methods):
            member = EDGE_RULES[rule]
            wanted.setdefault((member.needs, member.fuses_heads), []).append(rule)
    for rules in wanted.values():
        yield from by_rules(trial, rules, ways.methods)


def by_rules(trial: Trial, rules: Sequence[str], methods: Sequence[str]) -> Iterator[Found]:
    """Every method on the edges of rules that need the same of one forward pass."""
    config = Request(edges=rules[0], method="rollout")  # whose pass has all rows
    opened = open_answer(trial.tokens, trial.answers, config)
    queries = [at - 1 for at in opened.positions]
    alone = EDGE_RULES[rules[0]].needs.gradients
    # Rules take turns at one token of the answer, whose gradients are then at hand.
    shared = replace(opened.whole, towards=lru_cache(1)(opened.whole.towards))
    sums: dict[str, list[FloatArray]] = {}
    times: dict[str, float] = {}
    for number in range(len(queries)) if alone else [0]:
        asked = [queries[number]] if alone else queries
        for rule in rules:
            config = Request(edges=rule, method=methods[0])
            session = of_pass(trial.answers, shared, config).at(number)
            for method in methods:
                start, name = time.perf_counter(), _name(rule, method)
                try:
                    scores = _both(trial, session, method, asked)
                except AttnflowError as error:
                    print(f"{name}: {error}", flush=True)
                    continue
                before = sums.get(name, [0.0, 0.0])
                sums[name] = [one + other for one, other in zip(before, scores, strict=True)]
                times[name] = times.get(name, 0.0) + time.perf_counter() - start
    for name, (documents, sentences) in sums.items():
        yield name, documents / len(queries), sentences / len(queries), times[name]


def _name(rule: str, method: str) -> str:
    return f"{rule} · {method}"


def _both(trial: Trial, opened: Session, method: str, asked: Sequence[int]) -> list[FloatArray]:
    """The scores of documents and of sentences, summed over positions."""
    groups = trial.documents, trial.sentences
    if METHODS[method].cost == "pair":  # where groups must not share tokens
        parts = [opened.scores(method, (opened.depth,), asked, groups=each) for each in groups]
        return [each.values[0].sum(0) for each in parts]
    found = opened.scores(method, (opened.depth,), asked, groups=groups[0] + groups[1])
    return trial.split(found.values[0].sum(0))


def edge_methods() -> list[str]:
    """All methods that read edges."""
    return [each.name for each in METHODS.members() if each.reads_edges]


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
    names = [each.name for each in METHODS.members() if not each.reads_edges]
    return [name for name in names if METHODS[name].cost == "pass"]
