"""One case: every deletion of documents, random ones of sentences, and scores."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np

from attnflow.models.answers.interface import Answers
from attnflow.models.answers.prompts import make_prompt
from attnflow.models.text.writing import Writing
from attnflow.pipeline.citing import Citing, CitingConfig, open_citing
from attnflow.pipeline.request import Request
from attnflow.records import FloatArray
from attnflow_experiments.citing.cases import DOCUMENTS, Case
from attnflow_experiments.parts.citing import random_masks

ALL = 99  # checks: as many as there are
RANDOM = 32  # ablations of the baseline, ContextCite's usual number


def open_case(case: Case, answers: Answers, known: dict[str, Any], checks: int = ALL) -> Citing:
    """A case, with what is known of it."""
    prompt = make_prompt(case.messages, answers.tokenizer, answers.model.name, case.parts)
    asked = CitingConfig(Writing(text=case.answer), checks)
    found = open_citing(prompt, answers, Request(), asked)
    runs = known.get("runs", ())
    found.runs.known.update((frozenset(gone), np.array(values)) for gone, values in runs)
    if "scores" in known:
        found.__dict__["scores"] = tuple(map(np.array, known["scores"]))
    return found


def measure_case(
    case: Case, answers: Answers, known: dict[str, Any], *, scores: bool
) -> dict[str, Any]:
    """All that is measured of one case, as plain data; what is ``known`` is not done again."""
    found = open_case(case, answers, known)
    start, before = time.process_time(), len(found.runs.known)
    for number in range(len(case.said)):
        found.sentence(number)
    found.runs.without(subsets(found))
    for units, count in (("places", DOCUMENTS), ("passages", sum(map(len, found.passages)))):
        found.runs.without(deleted(found, random_masks(RANDOM, count, seed=0), units))
    new = len(found.runs.known) - before
    seconds = (time.process_time() - start) / new if new else known["seconds"]
    measured: dict[str, Any] = {
        "places": [sorted(each) for each in found.places],
        "passages": [[sorted(each) for each in own] for own in found.passages],
        "runs": [[sorted(gone), each.tolist()] for gone, each in found.runs.known.items()],
        "seconds": seconds,  # of a forward pass
    }
    if scores or "scores" in known:
        start = time.process_time()
        measured["scores"] = [each.tolist() for each in found.scores]
        passed = time.process_time() - start
        measured["scoring"] = known.get("scoring", passed / seconds)  # in forward passes
    return measured


def subsets(found: Citing) -> list[frozenset[int]]:
    """What is deleted where each set of documents is kept alone, the whole set first."""
    masks = np.array(list(product((1, 0), repeat=DOCUMENTS)), np.float64)
    return deleted(found, masks, "places")


def deleted(found: Citing, masks: FloatArray, units: str) -> list[frozenset[int]]:
    """The tokens that are gone where masks, ``[run, unit]``, are 0."""
    every = found.places if units == "places" else [e for own in found.passages for e in own]
    return [
        frozenset().union(*(each for each, kept in zip(every, mask, strict=True) if not kept))
        for mask in masks
    ]
