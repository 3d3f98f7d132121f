"""How work is done: options that never change a result."""

from __future__ import annotations

from dataclasses import dataclass

from attnflow.errors import InputError, shown, unknown
from attnflow.records.checks import check_flag
from attnflow.records.selection import is_integer

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Execution:
    """How to work: threads (``None`` is one per core), a progress bar, and the device of solvers.

    ``device`` is ``"auto"`` or the name of a solver. One that can't work here is refused at once.
    """

    threads: int | None = None
    progress: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise InputError(unknown("device", self.device, DEVICES))
        if self.threads is not None and not (is_integer(self.threads) and self.threads >= 1):
            msg = (
                f"threads={shown(self.threads)} must be an integer from 1, or None for one per core"
            )
            raise InputError(msg)
        check_flag("progress", self.progress)
        if self.device == "cuda":
            from attnflow.solvers.cuda.device import require_cuda

            require_cuda()
