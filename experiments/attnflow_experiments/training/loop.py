"""The training loop: a run advances step by step and can continue from its checkpoint."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from attnflow.io.checkpoint import Checkpoint

SAVE_INTERVAL = 60.0
"""Seconds between checkpoints, the most that a crash can lose."""
STATE = "state"
"""The name of a training run's only piece in its checkpoint."""


class TrainingRun(ABC):
    """A model in training. What a step does depends only on the request and the step's number.

    Attributes:
        recipe: The hyperparameters, a data class.
        data_digest: The SHA-256 of the training rows.
        step: The number of steps done.
        steps: The number of steps of the whole run.
        model: The model in training.
        optimizer: Of its parameters.
    """

    recipe: Any
    data_digest: str
    step: int = 0
    steps: int
    model: Any
    optimizer: torch.optim.Optimizer

    @property
    def request(self) -> dict[str, Any]:
        """What must be unchanged for the run to continue from a checkpoint."""
        return {"recipe": asdict(self.recipe), "data": self.data_digest}

    @abstractmethod
    def loss(self) -> Tensor:
        """The loss of the present step."""

    @abstractmethod
    def learning_rate(self) -> float:
        """The learning rate of the present step."""

    @property
    def stateful(self) -> dict[str, Any]:
        """By name, everything that training changes; each has a ``state_dict()``."""
        return {"model": self.model, "optimizer": self.optimizer}

    def optimize(self) -> Tensor:
        """Do one optimizer step and return the loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call] # torch's annotation is missing
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def advance(self) -> Tensor:
        """Do the next step and return the loss."""
        # Dropout is seeded by the step, so that a resumed run repeats an uninterrupted one.
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)
        loss = self.optimize()
        self.step += 1
        return loss.detach()

    def save(self, checkpoint: Checkpoint) -> None:
        """Save the present state."""
        state = {name: part.state_dict() for name, part in self.stateful.items()}
        checkpoint.put(STATE, {"step": self.step, **state})

    def resume(self, checkpoint: Checkpoint) -> None:
        """Continue from the saved state, if there is one."""
        saved = checkpoint.get(STATE)
        if saved is not None:
            self.step = saved["step"]
            for name, part in self.stateful.items():
                part.load_state_dict(saved[name])


def fit(run: TrainingRun, checkpoint: Checkpoint, report: Callable[[int, float], None]) -> None:
    """Train to the end, from the checkpoint if it has a state, saving on the way.

    The first Ctrl-C stops after the present step and saves it; the second stops at once.
    """
    run.resume(checkpoint)
    last_save = time.monotonic()
    with _deferred_interrupt() as interrupted:
        while run.step < run.steps:
            loss = run.advance()
            last, stop = run.step == run.steps, interrupted()
            if run.step % 10 == 1 or last:  # reading the loss waits for the GPU
                report(run.step, float(loss))
            if last or stop or time.monotonic() - last_save >= SAVE_INTERVAL:
                run.save(checkpoint)
                last_save = time.monotonic()
            if stop:
                raise KeyboardInterrupt


@contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Defer the first Ctrl-C; yield a function that returns whether it was pressed."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield lambda: False
        return

    def handle(number: int, _: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, previous)
