"""Rollout and raw attention against their definitions written out."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attention as some
import attnflow
import oracle

METHODS = (attnflow.raw, attnflow.rollout, attnflow.flow)


@settings(max_examples=60, deadline=None)
@given(some.attentions, st.sampled_from([0.5, 0.0, 0.3]), st.data())
def test_rollout_is_the_product_of_the_layers(attention, residual, data):
    to_layer = data.draw(st.integers(0, len(attention) - 1))
    found = attnflow.rollout(attention, residual=residual, to_layer=to_layer)
    weights = oracle.edges(attention, residual)
    assert len(found) == len(attention) - to_layer
    for at, rolled in enumerate(found):
        expected = oracle.rollout(weights, to_layer + at + 1, to_layer)
        np.testing.assert_allclose(rolled, expected, rtol=0, atol=1e-13)


def test_rollout_counts_every_path():
    """Summed over all paths of a small graph, one by one."""
    weights = oracle.edges(some.make("dense", 3, 3, seed=3))
    found = attnflow.rollout(some.make("dense", 3, 3, seed=3))[-1]
    paths = sum(
        weights[2, 1, a] * weights[1, a, b] * weights[0, b, 2] for a in range(3) for b in range(3)
    )
    assert found[1, 2] == pytest.approx(paths, abs=1e-14)


def test_rollout_of_single_heads_stands_on_the_merged_layers_below():
    attention = some.make("dense", 3, 5, seed=4, heads=2)
    found = attnflow.rollout(attention, heads="each")
    below = oracle.rollout(oracle.edges(attention), 2)
    for head in range(2):
        expected = oracle.edges(attention[:, head])[2] @ below
        np.testing.assert_allclose(found[2, head], expected, rtol=0, atol=1e-14)


def test_raw_is_the_mean_attention_of_each_layer():
    attention = some.make("dense", 3, 5, seed=5, heads=4)
    np.testing.assert_allclose(attnflow.raw(attention), attention.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(attnflow.raw(attention, heads="each"), attention, rtol=1e-12)


@pytest.mark.parametrize(
    ("heads", "fuse"),
    [
        ([2], lambda a: a[:, 2]),
        ([0, -1], lambda a: (a[:, 0] + a[:, 2]) / 2),
        ([0.2, 0.5, 0.3], lambda a: 0.2 * a[:, 0] + 0.5 * a[:, 1] + 0.3 * a[:, 2]),
    ],
)
def test_heads_are_fused_as_asked(heads, fuse):
    attention = some.make("peaked", 2, 5, seed=6, heads=3)
    fused = 0.5 * fuse(attention) + 0.5 * np.eye(5)
    expected = fused / fused.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(attnflow.rollout(attention, heads=heads)[0], expected[0], rtol=1e-12)


def test_discard_zeroes_the_smallest_but_never_the_first_to_itself():
    attention = some.make("dense", 1, 4, seed=7)
    attention[0, 0] = [1e-6, 0.4, 0.3, 0.3 - 1e-6]
    smallest = np.sort(attention[0].ravel())[: int(16 * 0.5)]
    kept = np.where(np.isin(attention[0], smallest), 0, attention[0])
    kept[0, 0] = 1e-6
    mixed = 0.5 * kept + 0.5 * np.eye(4)
    expected = mixed / mixed.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(attnflow.rollout(attention, discard=0.5)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_give_tensors_of_their_precision(method, kind):
    attention = some.make("dense", 3, 6, seed=8, heads=2)
    tensor = torch.tensor(attention).to(getattr(torch, kind)).requires_grad_()
    found = method(tensor)
    assert found.dtype == tensor.dtype
    assert found.device == tensor.device
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-12}[kind]
    np.testing.assert_allclose(found.double().numpy(), method(attention), rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_arrays_give_arrays_of_their_precision(method, kind):
    attention = some.make("dense", 3, 6, seed=9).astype(kind)
    found = method(attention)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.dtype(kind)


@pytest.mark.parametrize("method", METHODS)
def test_a_sequence_of_layers_is_their_stack(method):
    attention = some.make("dense", 3, 6, seed=10, heads=2)
    np.testing.assert_array_equal(method(tuple(attention)), method(attention))
    fused = list(attention.mean(axis=1))
    np.testing.assert_allclose(method(fused), method(attention), rtol=0, atol=1e-14)
