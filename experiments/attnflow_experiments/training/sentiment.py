"""Fine-tuning a pretrained model on labelled texts: SST-2 for Table 3, or one's own."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnflow.io.files import digest
from attnflow.models.locating import locate
from attnflow_experiments.training.corpora import Row
from attnflow_experiments.training.labelled import number, read_lines
from attnflow_experiments.training.loop import TrainingRun

SST2 = ("negative", "positive")
"""The names of SST-2's labels, which its files have as 0 and 1."""


@dataclass(frozen=True)
class SentimentRecipe:
    """The hyperparameters of the fine-tuning."""

    seed: int = 0
    epochs: int = 3
    batch: int = 64
    learning_rate: float = 5e-5
    weight_decay: float = 0.01


def read_sentiment(path: Path) -> list[Row]:
    """Read sentences and labels from one of GLUE's SST-2 files, plain or gzipped."""
    lines = read_lines(path)
    return number(lines, SST2, lines)


class SentimentRun(TrainingRun):
    """Trains a classifier on a pretrained encoder or decoder."""

    recipe: SentimentRecipe

    def __init__(
        self, base: str | Path, rows: list[Row], labels: Sequence[str], recipe: SentimentRecipe,
        device: str,
    ) -> None:  # fmt: skip
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        torch.manual_seed(recipe.seed)
        self.base, self.rows, self.recipe, self.device = str(base), rows, recipe, device
        self.labels = list(labels)
        self.data_digest = digest(rows)
        self.steps = recipe.epochs * -(-len(rows) // recipe.batch)
        where, options = locate(str(base))
        self.tokenizer = AutoTokenizer.from_pretrained(where, **options)
        log = logging.getLogger("transformers")
        level = log.level
        log.setLevel(logging.ERROR)  # no warning that the classifier is new
        model = AutoModelForSequenceClassification.from_pretrained(
            where, num_labels=len(labels), id2label=dict(enumerate(labels)),
            label2id={name: at for at, name in enumerate(labels)}, dtype=torch.float32,
            ignore_mismatched_sizes=True,  # the base may be a classifier with other labels
            **options,
        )  # fmt: skip
        log.setLevel(level)
        if options:  # a GGUF file's weights were unpacked; this mark would forbid to save them
            model.hf_quantizer, model.is_quantized = None, False
            vars(model.config).pop("quantization_config", None)
        if self.tokenizer.pad_token is None:  # decoders often have none, and batches need one
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if model.config.pad_token_id is None:
            model.config.pad_token_id = self.tokenizer.pad_token_id
        self.model = model.to(device).train()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), weight_decay=recipe.weight_decay
        )
        self.batches: Iterator[list[Row]] | None = None

    @property
    def request(self) -> dict[str, Any]:
        """The recipe, the data with its labels and the pretrained encoder."""
        return {**super().request, "base": self.base, "labels": self.labels}

    def learning_rate(self) -> float:
        """The learning rate of the present step: up for 6 % of the run, then down to zero."""
        up, down = (self.step + 1) / (0.06 * self.steps), 1 - self.step / self.steps
        return self.recipe.learning_rate * min(up, down)

    def loss(self) -> Tensor:
        """The classifier's loss on the batch of the present step."""
        if self.batches is None:
            self.batches = islice(_batches(self.rows, self.recipe), self.step, None)
        texts, labels = zip(*next(self.batches), strict=True)
        inputs = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt").to(
            self.device
        )
        targets = torch.tensor(labels, device=self.device)
        device_type = self.device.split(":")[0]
        with torch.autocast(device_type, torch.bfloat16, enabled=device_type != "cpu"):
            loss: Tensor = self.model(**inputs, labels=targets).loss
        return loss


def _batches(rows: list[Row], recipe: SentimentRecipe) -> Iterator[list[Row]]:
    """All batches of the run, shuffled by the seed in every epoch."""
    rng = random.Random(recipe.seed)
    for _ in range(recipe.epochs):
        order = rng.sample(rows, len(rows))
        for start in range(0, len(order), recipe.batch):
            yield order[start : start + recipe.batch]
