"""Training the verb-number model."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from attnflow.models.verbs import VerbsConfig, VerbsForSequenceClassification
from attnflow_experiments.training.batches import Batch, BatchSampler
from attnflow_experiments.training.loop import TrainingRun
from attnflow_experiments.training.recipe import Recipe


class VerbsRun(TrainingRun):
    """Trains the model and a moving average of its weights, which is what is saved."""

    recipe: Recipe

    def __init__(self, batches: BatchSampler, recipe: Recipe, device: str) -> None:
        torch.manual_seed(recipe.seed)
        config = VerbsConfig(vocab_size=len(batches.vocabulary), dropout=recipe.dropout)
        self.batches, self.recipe, self.steps = batches, recipe, recipe.steps
        self.data_digest = batches.digest
        model: Any = VerbsForSequenceClassification(config)
        self.model = model.to(device).train()
        self.average = copy.deepcopy(self.model).eval().requires_grad_(False)
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": recipe.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=recipe.learning_rate,
            betas=(0.9, 0.98),
            fused=device.startswith("cuda"),
        )

    @property
    def stateful(self) -> dict[str, Any]:
        """The model, its average and the optimizer."""
        return {**super().stateful, "average": self.average}

    def learning_rate(self) -> float:
        """The learning rate of the present step: a linear warm-up, then a cosine to zero."""
        warmup = max(1.0, self.recipe.steps / 20)
        if self.step < warmup:
            return self.recipe.learning_rate * min(1.0, (self.step + 1) / warmup)
        done = (self.step - warmup) / (self.recipe.steps - warmup)
        return self.recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def optimize(self) -> Tensor:
        """Do one optimizer step, move the average, and return the loss."""
        loss = super().optimize()
        decay = min(self.recipe.average, (self.step + 1) / (self.step + 11))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.model.parameters()), 1 - decay
            )
        return loss

    def loss(self) -> Tensor:
        """The mean loss over the rows of the present step."""
        parts = self.batches.draw(self.step)
        rows = sum(len(part.labels) for part in parts)
        losses = [self._loss(part) * (len(part.labels) / rows) for part in parts]
        return torch.stack(losses).sum()

    def _loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the number; with the recipe's second task, of masked words too."""
        inputs = {"attention_mask": batch.mask.long(), "position_ids": batch.positions}
        logits: Tensor = self.model(batch.ids, **inputs).logits
        smoothing = self.recipe.smoothing
        loss = nn.functional.cross_entropy(logits, batch.labels, label_smoothing=smoothing)
        if not self.recipe.masked:
            return loss
        ids, masked, words = self.batches.mask_words(batch)
        states = self.model.encoder(ids, **inputs).last_hidden_state
        index = masked[..., None].expand(-1, -1, states.shape[-1])
        scores = states.gather(1, index) @ self.model.encoder.words.weight.T
        word_loss = nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())
        return loss + self.recipe.masked * word_loss
