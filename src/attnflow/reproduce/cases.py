"""Beyond the tables: subjects found, answers flipped, errors and what they are blamed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnflow.api import explain
from attnflow.models import verbs
from attnflow.models.reading import Adapter
from attnflow.records import Attribution
from attnflow.reproduce.tables import explanations
from attnflow.training.corpora import Row
from attnflow.training.data import Sentence

PAIRS = (
    ("the key to the cabinets", "the keys to the cabinets"),
    ("the key to the cabinet", "the keys to the cabinet"),
    ("the article on NNP large systems", "the articles on NNP large systems"),
    ("the author of the books", "the authors of the books"),
    ("the man with the cats", "the men with the cats"),
)


def nouns() -> dict[str, int]:
    """The nouns that the shipped model knows: 0 singular, 1 plural."""
    lines = (verbs.FOLDER / "nouns.tsv").read_text(encoding="utf-8").splitlines()
    return {word: int(number) for word, number in (line.split("\t") for line in lines)}


def subjects(sentences: Sequence[Sentence], model: Adapter, *, progress: bool) -> dict[str, Any]:
    """How often the subject has the highest score of all nouns, by attractors, method and layer.

    Sentences whose prefix has one noun only are left out: there is nothing to choose from.
    """
    number = nouns()
    chosen = [(s, _nouns(s, number)) for s in sentences if len(_nouns(s, number)) > 1]
    explained = explanations([s.prefix for s, _ in chosen], model, progress=progress)
    groups: dict[str, list[int]] = {"0": [], "1": [], "2 or more": []}
    for place, (sentence, places) in enumerate(chosen):
        later = [p for p in places if p > sentence.subject]
        count = sum(number.get(sentence.words[p]) == 1 - sentence.label for p in later)
        groups[("0", "1", "2 or more")[min(count, 2)]].append(place)
    return {
        group: {
            "sentences": len(members),
            "chance": float(np.mean([1 / len(chosen[i][1]) for i in members])) if members else None,
            "found": {
                method: [
                    float(np.mean([_found(found[i], *chosen[i], layer) for i in members]))
                    for layer in found[0].layers
                ]
                for method, found in explained.items()
                if members
            },
        }
        for group, members in groups.items()
    }


def _nouns(sentence: Sentence, number: Mapping[str, int]) -> list[int]:
    words = sentence.words[: sentence.verb]
    return [p for p, word in enumerate(words) if word in number or p == sentence.subject]


def _found(one: Attribution, sentence: Sentence, places: Sequence[int], layer: int) -> float:
    """1 where the subject alone is highest; a share where it ties with others."""
    scores = one.row(layer)[[place + 1 for place in places]]  # after CLS
    best = np.flatnonzero(scores >= scores.max() - 1e-9)
    at = list(places).index(sentence.subject)
    return 1 / len(best) if at in best else 0.0


def flips(model: Adapter) -> list[dict[str, Any]]:
    """Sentences whose subject's number was changed, and what the model says of both."""
    found = []
    for pair in PAIRS:
        said = [one.prediction for one in explain(list(pair), model, method="raw")]
        found.append(
            {
                "texts": list(pair),
                "answers": [p.label for p in said if p],
                "probabilities": [p.probability for p in said if p],
            }
        )
    return found


def errors(rows: Sequence[Row], model: Adapter, *, shown: int = 12) -> dict[str, Any]:
    """Where the model errs, and the nouns that flow and rollout score highest there."""
    names = ("singular", "plural")
    said = explain([text for text, _ in rows], model, method="rollout", batch_size=64)
    wrong = [
        (row, one)
        for row, one in zip(rows, said, strict=True)
        if one.prediction is not None and one.prediction.label != names[row[1]]
    ]
    number = nouns()
    blamed = explain([row[0] for row, _ in wrong], model, method="flow", batch_size=64)
    cases: list[dict[str, Any]] = [
        {
            "text": text,
            "right": names[label],
            "said": one.prediction.label if one.prediction else "",
            "probability": one.prediction.probability if one.prediction else None,
            "flow": _top_nouns(flow, number),
            "rollout": _top_nouns(one, number),
        }
        for ((text, label), one), flow in zip(wrong, blamed, strict=True)
    ]
    with_nouns = [case for case in cases if case["flow"]]
    misled = [
        any(number[noun] != names.index(case["right"]) for noun in case["flow"])
        for case in with_nouns
    ]
    return {
        "rows": len(rows),
        "errors": len(wrong),
        "with_nouns": len(with_nouns),
        "flow_blames_other_number": sum(misled),
        "cases": cases[:shown],
    }


def _top_nouns(one: Attribution, number: Mapping[str, int]) -> list[str]:
    """The noun of the highest score; several where they tie."""
    places = [i for i, token in enumerate(one.tokens) if token in number]
    if not places:
        return []
    best = max(one.values[i] for i in places)
    return list(dict.fromkeys(one.tokens[i] for i in places if one.values[i] >= best - 1e-9))
