"""Accuracy of a trained model on held-out sets and, for verbs, by number of attractors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from attnflow_experiments.training.corpora import Row
from attnflow_experiments.training.data import HeldOut, Sentence
from attnflow_experiments.training.lexicon import Lexicon

Score = dict[str, float | None]
"""``accuracy`` (``None`` for an empty set) and ``rows``."""
Scores = dict[str, Score]
"""Held-out set → its score."""
BATCH_SIZE = 256


def score_verbs(model: Any, tokenizer: Any, held_out: HeldOut, lexicon: Lexicon) -> Scores:
    """Score a verb-number model on every held-out set."""
    model.eval()
    rows = [(sentence.prefix, sentence.label) for sentence in held_out.sentences]
    correct = _correct(model, tokenizer, rows)
    counts = [min(_count_attractors(s, lexicon), 2) for s in held_out.sentences]
    scores = {
        "numpred.val": score_rows(model, tokenizer, held_out.natural),
        "wiki-dev.txt": _score(correct),
    }
    for count, name in enumerate(("no attractor", "1 attractor", "2 or more attractors")):
        group = [ok for ok, found in zip(correct, counts, strict=True) if found == count]
        scores[f"wiki-dev.txt, {name}"] = _score(group)
    for count, attractor_rows in held_out.attractors.items():
        scores[f"numpred.test.{count}"] = score_rows(model, tokenizer, attractor_rows)
    return scores


def score_rows(model: Any, tokenizer: Any, rows: Sequence[Row]) -> Score:
    """Score a classifier on labelled texts."""
    return _score(_correct(model, tokenizer, rows))


def _correct(model: Any, tokenizer: Any, rows: Sequence[Row]) -> list[bool]:
    """For each row, whether the model predicts its label."""
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0].split()))
    correct = [False] * len(rows)
    for start in range(0, len(order), BATCH_SIZE):
        indices = order[start : start + BATCH_SIZE]
        texts = [rows[i][0] for i in indices]
        inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            predictions = model(**inputs.to(device)).logits.argmax(-1).tolist()
        for i, prediction in zip(indices, predictions, strict=True):
            correct[i] = prediction == rows[i][1]
    return correct


def _count_attractors(sentence: Sentence, lexicon: Lexicon) -> int:
    """Nouns between subject and verb whose number is not the verb's."""
    between = sentence.words[sentence.subject + 1 : sentence.verb]
    return sum(lexicon.number.get(word) == 1 - sentence.label for word in between)


def _score(correct: Sequence[bool]) -> Score:
    rows = len(correct)
    return {"accuracy": sum(correct) / rows if rows else None, "rows": rows}
