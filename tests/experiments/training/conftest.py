"""Checks that both models' training runs share."""

import os
import signal

import pytest
import torch

from attnflow.io.checkpoint import Checkpoint
from attnflow_experiments.training import loop


def _press_ctrl_c(*_):
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def check_resuming(tmp_path, monkeypatch):
    """A function that takes ``make``, which returns the same new run of more than two steps."""

    def check(make):
        whole, stopped, resumed = make(), make(), make()
        loop.fit(whole, Checkpoint(tmp_path / "whole", whole.request), lambda *_: None)
        saved = Checkpoint(tmp_path / "stopped", stopped.request)
        with pytest.raises(KeyboardInterrupt):
            loop.fit(stopped, saved, _press_ctrl_c)
        assert stopped.step < whole.steps
        assert saved.get(loop.STATE)["step"] == stopped.step  # no step is lost
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        monkeypatch.setattr(loop, "SAVE_INTERVAL", 0.0)
        loop.fit(resumed, Checkpoint(tmp_path / "stopped", resumed.request), lambda *_: None)
        for name in set(whole.stateful) - {"optimizer"}:
            for key, tensor in whole.stateful[name].state_dict().items():
                assert torch.equal(tensor, resumed.stateful[name].state_dict()[key]), key

    return check
