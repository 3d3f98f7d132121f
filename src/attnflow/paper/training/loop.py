"""The training loop: a run advances step by step and continues from its checkpoint."""

from __future__ import annotations

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnflow.errors import InputError

SAVE_EVERY = 60.0
"""Seconds between checkpoints: what an interruption loses at most, on fast and slow machines."""


class Run(ABC):
    """A model in training. What a step does depends on the recipe and the step's number alone.

    Attributes:
        recipe: Every number of the run, a data class.
        step: How many steps are done.
        steps: How many there are.
    """

    recipe: Any
    step: int = 0
    steps: int

    @abstractmethod
    def learn(self) -> Tensor:
        """One step of the optimiser; the loss."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """By name, everything that changes in training and has a ``state_dict``."""

    def advance(self) -> Tensor:
        """The next step."""
        # Dropout is seeded by the step, so that a resumed run repeats an uninterrupted one.
        torch.manual_seed(self.recipe.seed * 1_000_003 + self.step)
        loss = self.learn()
        self.step += 1
        return loss.detach()

    def save(self, path: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        state = {name: part.state_dict() for name, part in self.parts.items()}
        part = path.with_suffix(".part")
        torch.save({"recipe": asdict(self.recipe), "step": self.step, **state}, part)
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
        for name, part in self.parts.items():
            part.load_state_dict(saved[name])


def fit(run: Run, checkpoint: Path, report: Callable[[int, float], None]) -> None:
    """Train to the end, from the checkpoint where there is one, and saving on the way.

    Ctrl-C is heard between two steps, and nothing that was learnt is lost; pressed again, at once.
    """
    if checkpoint.exists():
        run.resume(checkpoint)
    saved = time.monotonic()
    with _interrupts() as interrupted:
        while run.step < run.steps:
            loss = run.advance()
            last, stop = run.step == run.steps, interrupted()
            if run.step % 10 == 1 or last:  # reading the loss waits for a GPU
                report(run.step, float(loss))
            if last or stop or time.monotonic() - saved >= SAVE_EVERY:
                run.save(checkpoint)
                saved = time.monotonic()
            if stop:
                raise KeyboardInterrupt


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield lambda: False
        return

    def note(number: int, _: object) -> None:
        pressed.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
