"""Attention on a GPU gives what it gives on the CPU, and the result stays on the GPU."""

import numpy as np
import pytest
import torch

import attention as some
import attnflow
from attnflow.errors import InputError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BATCH = torch.tensor(np.stack([some.make("dense", 3, 6, seed=s, heads=2) for s in (0, 1)], axis=1))


@pytest.mark.parametrize("precision", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", ["mean", "each", [1], [0.3, 0.7]])
@pytest.mark.parametrize("method", [attnflow.raw, attnflow.rollout, attnflow.flow])
def test_arrays(method, heads, precision):
    batch = BATCH.to(precision)
    padding = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    batch[:, 1, :, :, 5] = 0
    batch[:, 1] = batch[:, 1] / batch[:, 1].sum(-1, keepdim=True)
    expected = method(batch, heads=heads, mask=padding)
    found = method(batch.cuda(), heads=heads, mask=padding.cuda())
    assert (found.device.type, found.dtype) == ("cuda", precision)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2}[precision]
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=tolerance)


def test_discarding():
    found = attnflow.rollout(BATCH[:, 0].cuda(), discard=0.5)
    torch.testing.assert_close(found.cpu(), attnflow.rollout(BATCH[:, 0], discard=0.5))


def test_one_pair_in_full():
    found = attnflow.trace(BATCH[:, 0].cuda(), key=2)
    assert found.value == pytest.approx(attnflow.trace(BATCH[:, 0], key=2).value, abs=1e-12)


@pytest.mark.parametrize("value", [-0.1, float("nan"), 0.9])
def test_bad_values_are_named(value):
    attention = BATCH[:, 0].cuda()
    attention[1, 0, 3, 4] = value
    with pytest.raises(InputError, match=r"attention\[1\] at \[0, 3(, 4)?\] is"):
        attnflow.rollout(attention)
