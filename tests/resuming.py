"""A training run that is stopped and made anew ends like one that was not."""

import os
import signal

import pytest
import torch

from attnflow.paper.training import loop


def _press_ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)


def check_resuming(make, folder, monkeypatch):
    """``make()`` gives the run anew; it must be of some steps more than two."""
    whole = make()
    loop.fit(whole, folder / "whole.pt", lambda *_: None)
    stopped = make()
    with pytest.raises(KeyboardInterrupt):
        loop.fit(stopped, folder / "stopped.pt", _press_ctrl_c)
    assert stopped.step < whole.steps
    assert torch.load(folder / "stopped.pt")["step"] == stopped.step  # nothing learnt is lost
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    again = make()
    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    loop.fit(again, folder / "stopped.pt", lambda *_: None)
    for name in set(whole.parts) - {"optimizer"}:
        for key, tensor in whole.parts[name].state_dict().items():
            assert torch.equal(tensor, again.parts[name].state_dict()[key]), key
