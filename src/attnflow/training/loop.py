"""The training loop: seeded, resumed from its checkpoint, averaged."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnflow.errors import InputError
from attnflow.models.verbs.architecture import VerbsConfig, VerbsForSequenceClassification
from attnflow.training.batches import Batch, Batches
from attnflow.training.recipe import Recipe

SAVE_EVERY = 500


class Trainer:
    """A model in training, with everything that a checkpoint must hold."""

    def __init__(self, batches: Batches, recipe: Recipe, device: str) -> None:
        torch.manual_seed(recipe.seed)
        config = VerbsConfig(vocab_size=len(batches.vocabulary), dropout=recipe.dropout)
        self.batches, self.recipe, self.step = batches, recipe, 0
        model: Any = VerbsForSequenceClassification(config)
        self.model = model.to(device)
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

    def rate(self) -> float:
        """The learning rate of the present step."""
        warm = self.recipe.steps / 20
        if self.step < warm:
            return self.recipe.learning_rate * (self.step + 1) / warm
        done = (self.step - warm) / (self.recipe.steps - warm)
        return self.recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def advance(self) -> Tensor:
        """One step; the loss."""
        # Dropout is seeded by the step, so that a resumed run repeats an uninterrupted one.
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        loss = self.loss()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call] # torch's annotation is missing
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        decay = min(self.recipe.average, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.model.parameters()), 1 - decay
            )
        return loss.detach()

    def loss(self) -> Tensor:
        """The mean loss of the step's rows."""
        parts = self.batches.draw(self.step)
        rows = sum(len(part.labels) for part in parts)
        losses = [self._loss(part) * (len(part.labels) / rows) for part in parts]
        return torch.stack(losses).sum()

    def _loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the number; with the recipe's second task, of masked words too."""
        places = {"attention_mask": batch.mask.long(), "position_ids": batch.positions}
        logits = self.model(batch.ids, **places).logits
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

    def save(self, path: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        part = path.with_suffix(".part")
        torch.save({"recipe": asdict(self.recipe), "step": self.step, **self._state()}, part)
        part.replace(path)

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint of the same recipe."""
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if saved["recipe"] != asdict(self.recipe):
            msg = (
                f"{path} belongs to another recipe ({saved['recipe']}): choose another folder, "
                "or delete the checkpoint to start over"
            )
            raise InputError(msg)
        self.step = saved["step"]
        for name, part in self._parts().items():
            part.load_state_dict(saved[name])

    def _parts(self) -> dict[str, Any]:
        return {"model": self.model, "average": self.average, "optimizer": self.optimizer}

    def _state(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self._parts().items()}


def fit(trainer: Trainer, checkpoint: Path | None, report: Callable[[int, float], None]) -> Any:
    """Train to the recipe's end, saving on the way; the averaged model."""
    if checkpoint and checkpoint.exists():
        trainer.resume(checkpoint)
    trainer.model.train()
    while trainer.step < trainer.recipe.steps:
        loss = trainer.advance()
        if trainer.step % 50 == 0 or trainer.step == trainer.recipe.steps:
            report(trainer.step, float(loss))
        if checkpoint and trainer.step % SAVE_EVERY == 0:
            trainer.save(checkpoint)
    return trainer.average
