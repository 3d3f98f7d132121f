"""Beyond the tables: subjects found, predictions flipped, errors and the nouns behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attnflow.api.explain import explain
from attnflow.errors import InputError
from attnflow.models.adapter import ModelAdapter
from attnflow.records import Attribution
from attnflow_experiments.reproduce.tables import explanations
from attnflow_experiments.training.corpora import Row
from attnflow_experiments.training.data import Sentence

PAIRS = (
    ("the key to the cabinets", "the keys to the cabinets"),
    ("the key to the cabinet", "the keys to the cabinet"),
    ("the article on NNP large systems", "the articles on NNP large systems"),
    ("the author of the books", "the authors of the books"),
    ("the man with the cats", "the men with the cats"),
)
NUMBERS = ("singular", "plural")


def read_nouns(folder: Path) -> dict[str, int]:
    """Read the nouns that a verb-number model knows: 0 singular, 1 plural."""
    path = folder / "nouns.tsv"
    if not path.is_file():
        msg = f"{path} is missing: give a folder that 'attnflow train verbs' wrote"
        raise InputError(msg)
    lines = path.read_text(encoding="utf-8").splitlines()
    return {word: int(number) for word, number in (line.split("\t") for line in lines)}


def find_subjects(
    sentences: Sequence[Sentence], model: ModelAdapter, number: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Whether each sentence's subject has the highest score of its nouns, by method and layer.

    Sentences whose prefix has only one noun are skipped.
    """
    nouns = [(sentence, _noun_positions(sentence, number)) for sentence in sentences]
    selected = [(sentence, positions) for sentence, positions in nouns if len(positions) > 1]
    if not selected:
        return []
    explained = explanations([sentence.prefix for sentence, _ in selected], model)
    return [
        {
            "attractors": _count_attractors(sentence, positions, number),
            "nouns": len(positions),
            "found": {
                method: [
                    _subject_share(found[index], sentence, positions, layer)
                    for layer in found[index].layers
                ]
                for method, found in explained.items()
            },
        }
        for index, (sentence, positions) in enumerate(selected)
    ]


def summarize_subjects(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fraction of sentences whose subject is found, by number of attractors."""
    groups = {"0": (0,), "1": (1,), "2 or more": range(2, 100)}
    table = {}
    for name, counts in groups.items():
        members = [row for row in rows if row["attractors"] in counts]
        if members:
            found = [row["found"] for row in members]
            table[name] = {
                "sentences": len(members),
                "chance": float(np.mean([1 / row["nouns"] for row in members])),
                "found": {
                    method: np.mean([one[method] for one in found], axis=0).tolist()
                    for method in found[0]
                },
            }
    return table


def _count_attractors(
    sentence: Sentence, positions: Sequence[int], number: Mapping[str, int]
) -> int:
    later = [sentence.words[position] for position in positions if position > sentence.subject]
    return sum(number.get(word) == 1 - sentence.label for word in later)


def _noun_positions(sentence: Sentence, number: Mapping[str, int]) -> list[int]:
    words = sentence.words[: sentence.verb]
    return [i for i, word in enumerate(words) if word in number or i == sentence.subject]


def _subject_share(
    one: Attribution, sentence: Sentence, positions: Sequence[int], layer: int
) -> float:
    """1 if the subject alone has the highest score, 1/n if it ties with others, otherwise 0."""
    scores = one.row(layer)[[position + 1 for position in positions]]  # after CLS
    best = np.flatnonzero(scores >= scores.max() - 1e-9)
    subject = list(positions).index(sentence.subject)
    return 1 / len(best) if subject in best else 0.0


def predict_pairs(model: ModelAdapter) -> list[dict[str, Any]]:
    """Predictions for pairs of sentences that differ in their subject's number."""
    found = []
    for pair in PAIRS:
        predictions = [
            one.prediction for one in explain(list(pair), model, method="raw", edges="attention")
        ]
        found.append(
            {
                "texts": list(pair),
                "answers": [p.label for p in predictions if p],
                "probabilities": [p.probability for p in predictions if p],
            }
        )
    return found


def find_errors(
    rows: Sequence[Row], model: ModelAdapter, number: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The model's errors, and the nouns with the highest flow and rollout scores there."""
    explained = explain(
        [text for text, _ in rows], model, method="rollout", edges="attention", batch_size=64
    )
    wrong = [
        (row, one)
        for row, one in zip(rows, explained, strict=True)
        if one.prediction is not None and one.prediction.label != NUMBERS[row[1]]
    ]
    flows = explain(
        [row[0] for row, _ in wrong], model, method="flow", edges="attention", batch_size=64
    )
    return [
        {
            "text": text,
            "right": NUMBERS[label],
            "said": one.prediction.label if one.prediction else "",
            "probability": one.prediction.probability if one.prediction else None,
            "flow": _top_nouns(flow, number),
            "rollout": _top_nouns(one, number),
        }
        for ((text, label), one), flow in zip(wrong, flows, strict=True)
    ]


def summarize_errors(
    errors: Sequence[Mapping[str, Any]], rows: int, number: Mapping[str, int], *, shown: int = 12
) -> dict[str, Any]:
    """Counts of the errors in ``rows`` sentences, and the first ones."""
    with_nouns = [error for error in errors if error["flow"]]
    misled = [
        any(number[noun] != NUMBERS.index(error["right"]) for noun in error["flow"])
        for error in with_nouns
    ]
    return {
        "rows": rows,
        "errors": len(errors),
        "with_nouns": len(with_nouns),
        "flow_blames_other_number": sum(misled),
        "cases": list(errors[:shown]),
    }


def _top_nouns(one: Attribution, number: Mapping[str, int]) -> list[str]:
    """The noun with the highest score; several if they tie."""
    positions = [i for i, token in enumerate(one.tokens) if token in number]
    if not positions:
        return []
    best = max(one.values[i] for i in positions)
    return list(dict.fromkeys(one.tokens[i] for i in positions if one.values[i] >= best - 1e-9))
