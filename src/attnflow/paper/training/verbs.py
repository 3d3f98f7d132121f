"""Training of the verb-number model."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from attnflow.paper.training.batches import Batch, Batches
from attnflow.paper.training.loop import Run
from attnflow.paper.training.recipe import Recipe
from attnflow.paper.verbs.architecture import VerbsConfig, VerbsForSequenceClassification


class VerbsRun(Run):
    """The model, and the moving average of its weights, which is what is kept."""

    recipe: Recipe

    def __init__(self, batches: Batches, recipe: Recipe, device: str) -> None:
        torch.manual_seed(recipe.seed)
        config = VerbsConfig(vocab_size=len(batches.vocabulary), dropout=recipe.dropout)
        self.batches, self.recipe, self.steps = batches, recipe, recipe.steps
        model: Any = VerbsForSequenceClassification(config)
        self.model = model.to(device).train()
        self.average = copy.deepcopy(self.model).eval().requires_grad_(False)
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": recipe.weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=recipe.learning_rate,
            betas=(0.9, 0.98),
            fused=device.startswith("cuda"),
        )

    @property
    def parts(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"model": self.model, "average": self.average, "optimizer": self.optimizer}

    def rate(self) -> float:
        """The learning rate of the present step."""
        warm = max(1.0, self.recipe.steps / 20)
        if self.step < warm:
            return self.recipe.learning_rate * min(1.0, (self.step + 1) / warm)
        done = (self.step - warm) / (self.recipe.steps - warm)
        return self.recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def learn(self) -> Tensor:
        """One step; the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        loss = self.loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch's annotation is missing
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        decay = min(self.recipe.average, (self.step + 1) / (self.step + 11))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.model.parameters()), 1 - decay
            )
        return loss

    def loss(self) -> Tensor:
        """The mean loss of the step's rows."""
        parts = self.batches.draw(self.step)
        rows = sum(len(part.labels) for part in parts)
        losses = [self._loss(part) * (len(part.labels) / rows) for part in parts]
        return torch.stack(losses).sum()

    def _loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the number; with the recipe's second task, of masked words too."""
        places = {"attention_mask": batch.mask.long(), "position_ids": batch.positions}
        logits: Tensor = self.model(batch.ids, **places).logits
        smooth = self.recipe.smoothing
        loss = nn.functional.cross_entropy(logits, batch.labels, label_smoothing=smooth)
        if not self.recipe.masked:
            return loss
        ids, where, words = self.batches.hide(batch)
        states = self.model.encoder(ids, **places).last_hidden_state
        at = where[..., None].expand(-1, -1, states.shape[-1])
        scores = states.gather(1, at) @ self.model.encoder.words.weight.T
        named = nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())
        return loss + self.recipe.masked * named
