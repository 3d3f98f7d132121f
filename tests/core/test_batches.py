"""Every item of a batch gets what it gets alone."""

import numpy as np
import pytest
import torch

import attention as some
import attnflow
from attnflow.errors import InputError

pytestmark = pytest.mark.usefixtures("solver")
METHODS = (attnflow.raw, attnflow.rollout, attnflow.flow)
LENGTHS = [6, 3, 6, 1]


def batch(heads=2, depth=4, left=False):
    """``[layer, batch, head, query, key]`` with padding, and its items alone."""
    width = max(LENGTHS)
    alone = [
        some.make("peaked", depth, n, seed=n + 10 * i, heads=heads) for i, n in enumerate(LENGTHS)
    ]
    whole = np.zeros((depth, len(LENGTHS), heads, width, width))
    mask = np.zeros((len(LENGTHS), width), int)
    for item, (single, count) in enumerate(zip(alone, LENGTHS, strict=True)):
        place = slice(width - count, width) if left else slice(0, count)
        whole[:, item, :, place, place] = single
        mask[item, place] = 1
    return whole, mask, alone


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("heads", ["mean", "each"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("discard", [0.0, 0.4])
def test_items_equal_themselves_alone(method, heads, left, discard):
    whole, mask, alone = batch(left=left)
    found = method(whole, mask=mask, heads=heads, discard=discard)
    assert found.shape[:2] == whole.shape[:2]
    for item, single in enumerate(alone):
        place = np.flatnonzero(mask[item])
        inner = found[:, item][..., place, :][..., place]
        np.testing.assert_array_equal(inner, method(single, heads=heads, discard=discard))
        assert found[:, item].sum() == pytest.approx(inner.sum())


@pytest.mark.parametrize("method", METHODS)
def test_lengths_say_the_same_as_a_mask(method):
    whole, mask, _ = batch()
    expected = method(whole, mask=mask)
    np.testing.assert_array_equal(method(whole, lengths=LENGTHS), expected)
    np.testing.assert_array_equal(method(list(whole), lengths=LENGTHS), expected)
    tensors = [torch.tensor(layer) for layer in whole]
    found = method(tensors, mask=torch.tensor(mask))
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", ["mean", "each", [1]])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("chosen", [{}, {"queries": [4, 1], "keys": [5, 0, 2]}])
def test_items_of_similar_length_are_solved_together_on_a_gpu(heads, left, chosen, monkeypatch):
    whole, mask, _ = batch(left=left)
    whole += (mask == 0)[:, None, :, None] / whole.shape[-1]  # padding attends to everything
    expected = attnflow.flow(whole, mask=mask, heads=heads, **chosen)
    monkeypatch.setattr("attnflow.pipeline.arrays._on_gpu", lambda *given: True)
    found = attnflow.flow(whole, mask=mask, heads=heads, **chosen)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    tensors = attnflow.flow(torch.tensor(whole), mask=mask, heads=heads, **chosen)
    np.testing.assert_allclose(tensors.numpy(), expected, rtol=0, atol=1e-12)


def test_fused_heads_in_a_batch():
    whole, mask, _ = batch()
    fused = whole.mean(axis=2)
    np.testing.assert_allclose(
        attnflow.flow(fused, mask=mask), attnflow.flow(whole, mask=mask), rtol=0, atol=1e-12
    )


def test_a_part_of_a_batch_is_cut_from_the_whole():
    whole, mask, _ = batch()
    part = attnflow.flow(whole, mask=mask, layers=[4, 2], queries=[5, 0], keys=[1, 4])
    expected = attnflow.flow(whole, mask=mask)[[3, 1]][..., [5, 0], :][..., [1, 4]]
    np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [6, 3, 6]}, "3 items"),
        ({"lengths": [6, 3, 6, 0]}, "item 3 of the batch has no token"),
        ({"lengths": [6, 3, 6, 7]}, "up to 7 positions"),
        ({"lengths": [6.0, 3, 6, 1]}, r"lengths=.* must be a list of integers, one per item"),
        ({"mask": np.ones(6)}, "mask has 1 axes"),
        ({"mask": np.ones((4, 6)), "lengths": LENGTHS}, "give one of them"),
        ({}, "mask= or lengths="),
    ],
)
def test_a_wrong_mask_is_refused(options, message):
    whole, _, _ = batch()
    with pytest.raises(InputError, match=message):
        attnflow.rollout(whole, **options)


def test_attention_to_padding_is_refused():
    whole, _, _ = batch()
    with pytest.raises(InputError, match="row sum"):
        attnflow.rollout(whole, lengths=[6, 3, 5, 1])
