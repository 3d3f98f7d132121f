"""A training run that is stopped and made anew ends like one that was not."""

import pytest
import torch

from attnflow.training import loop


class InterruptedRunError(Exception):
    """Stands for Ctrl-C."""


def _interrupt(step, _):
    if step >= 10:
        raise InterruptedRunError


def check_resuming(make, folder, monkeypatch):
    """``make()`` gives the run anew; it must be of more than ten steps."""
    whole = make()
    loop.fit(whole, folder / "whole.pt", lambda *_: None)
    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    with pytest.raises(InterruptedRunError):
        loop.fit(make(), folder / "stopped.pt", _interrupt)
    assert 0 < torch.load(folder / "stopped.pt")["step"] < whole.steps
    again = make()
    loop.fit(again, folder / "stopped.pt", lambda *_: None)
    for name in set(whole.parts) - {"optimizer"}:
        for key, tensor in whole.parts[name].state_dict().items():
            assert torch.equal(tensor, again.parts[name].state_dict()[key]), key
