"""Fine-tune a pretrained encoder on SST-2, for Table 3."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnflow.errors import InputError

LABELS = {0: "negative", 1: "positive"}


@dataclass(frozen=True)
class SentimentRecipe:
    """Every number of the fine-tuning; word embeddings stay as pretrained."""

    seed: int = 0
    epochs: int = 3
    batch: int = 64
    learning_rate: float = 5e-5
    weight_decay: float = 0.01


def read_sentiment(path: Path) -> list[tuple[str, int]]:
    """Sentences and labels of one of GLUE's SST-2 files, plain or gzipped."""
    if not path.is_file():
        msg = f"{path} is missing: give GLUE's SST-2 folder, with train.tsv(.gz) and dev.tsv"
        raise InputError(msg)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()[1:]
    pairs = (line.rpartition("\t") for line in lines)
    return [(sentence.strip(), int(label)) for sentence, _, label in pairs]


def fine_tune(
    base: str | Path,
    rows: list[tuple[str, int]],
    recipe: SentimentRecipe,
    device: str,
    report: Callable[[int, int, float], None],
) -> tuple[Any, Any]:
    """The fine-tuned classifier and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(recipe.seed)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=2, id2label=LABELS, label2id={v: k for k, v in LABELS.items()},
        dtype=torch.float32,
    ).to(device)  # fmt: skip
    model.get_input_embeddings().weight.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    total = recipe.epochs * -(-len(rows) // recipe.batch)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.06 * total), 1 - step / total)
    )
    model.train()
    for step, (texts, labels) in enumerate(_batches(rows, recipe)):
        inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(device)
        with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=device != "cpu"):
            loss = model(**inputs, labels=torch.tensor(labels, device=device)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        rate.step()
        if step % 100 == 0:
            report(step, total, float(loss.detach()))
    return model.eval(), tokenizer


def _batches(
    rows: list[tuple[str, int]], recipe: SentimentRecipe
) -> Iterator[tuple[list[str], list[int]]]:
    draw = random.Random(recipe.seed)
    for _ in range(recipe.epochs):
        order = draw.sample(rows, len(rows))
        for start in range(0, len(order), recipe.batch):
            texts, labels = zip(*order[start : start + recipe.batch], strict=True)
            yield list(texts), list(labels)


def accuracy(model: Any, tokenizer: Any, rows: list[tuple[str, int]], device: str) -> float:
    """The share of rows that the model labels as given."""
    right = 0
    for start in range(0, len(rows), 64):
        texts, labels = zip(*rows[start : start + 64], strict=True)
        inputs = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            guess = model(**inputs.to(device)).logits.argmax(-1).tolist()
        right += sum(g == label for g, label in zip(guess, labels, strict=True))
    return right / len(rows)
