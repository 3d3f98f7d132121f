"""How often a model is right: by set and, for verbs, by number of attractors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from attnflow.paper.training.corpora import Row
from attnflow.paper.training.data import HeldOut, Sentence
from attnflow.paper.training.lexicon import Lexicon

Scores = dict[str, dict[str, float | None]]


def is_right(model: Any, tokenizer: Any, rows: Sequence[Row]) -> list[bool]:
    """For each row whether a model gives its label."""
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0].split()))
    right = [False] * len(rows)
    for start in range(0, len(order), 256):
        places = order[start : start + 256]
        texts = [rows[i][0] for i in places]
        inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            guesses = model(**inputs.to(device)).logits.argmax(-1).tolist()
        for place, guess in zip(places, guesses, strict=True):
            right[place] = guess == rows[place][1]
    return right


def attractors_of(sentence: Sentence, lexicon: Lexicon) -> int:
    """Nouns between subject and verb whose number is not the verb's."""
    between = sentence.words[sentence.subject + 1 : sentence.verb]
    return sum(lexicon.number.get(word) == 1 - sentence.label for word in between)


def score(model: Any, tokenizer: Any, held: HeldOut, lexicon: Lexicon) -> Scores:
    """Accuracy and size of every held-out set."""
    model.eval()
    rows = [(s.prefix, s.label) for s in held.sentences]
    right = is_right(model, tokenizer, rows)
    counts = [min(attractors_of(s, lexicon), 2) for s in held.sentences]
    scores = {
        "numpred.val": _share(is_right(model, tokenizer, held.natural)),
        "wiki-dev.txt": _share(right),
    }
    for count, name in enumerate(("no attractor", "1 attractor", "2 or more attractors")):
        chosen = [ok for ok, found in zip(right, counts, strict=True) if found == count]
        scores[f"wiki-dev.txt, {name}"] = _share(chosen)
    for count, found in held.attractors.items():
        scores[f"numpred.test.{count}"] = _share(is_right(model, tokenizer, found))
    return scores


def _share(right: Iterable[bool]) -> dict[str, float | None]:
    values = list(right)
    return {"accuracy": sum(values) / len(values) if values else None, "rows": len(values)}
