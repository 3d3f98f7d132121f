"""The compiled passes over rows against the formula, for every kind and layout of memory."""

import numpy as np
import pytest
import torch

import attention as some
import attnflow
import oracle
from attnflow.edges import checks, graph, rows
from attnflow.edges.graph import EdgeOptions, build_graph
from attnflow.errors import InputError
from attnflow.records import Activations
from attnflow.records.arrays import to_numpy

WEIGHTS = some.make("sparse", 3, 7, seed=1, heads=4)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS = {
    "rows": lambda a: a,
    "read only": read_only,
    "columns": np.asfortranarray,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "tensor": torch.tensor,
    "tensor on a tape": lambda a: torch.tensor(a, requires_grad=True),
    "tensor in columns": lambda a: torch.tensor(a).transpose(-1, -2).contiguous().transpose(-1, -2),
    "bfloat16": lambda a: torch.tensor(a).bfloat16(),
}


@pytest.mark.parametrize("residual", [0.0, 0.3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_are_those_of_the_formula(layout, residual):
    layers = LAYOUTS[layout](WEIGHTS)
    seen = layers if isinstance(layers, np.ndarray) else layers.detach().double().numpy()
    options = EdgeOptions(residual, [0.1, 0.4, 0.2, 0.3])
    found = build_graph(Activations(tuple(layers)), options).weights
    fused = np.einsum("h,lhqk->lqk", options.heads, seen.astype(np.float64))
    np.testing.assert_allclose(found, oracle.edges(fused, residual), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_the_way_of_other_devices_gives_the_same(kind, monkeypatch):
    activations = Activations(tuple(kind(WEIGHTS)))
    expected = build_graph(activations, EdgeOptions()).weights
    monkeypatch.setattr(graph, "on_cpu", lambda _: False)
    found = build_graph(activations, EdgeOptions()).weights
    assert isinstance(found, type(activations.attention[0]))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_a_row_of_zeros_stays_one():
    layer = some.make("dense", 1, 3, seed=0)
    layer[0, 1] = 0
    found = build_graph(Activations(tuple(layer)), EdgeOptions(residual=0.0)).weights
    np.testing.assert_array_equal(found[0, 1], np.zeros(3))


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
def test_layers_on_demand_are_those_of_a_graph(batch):
    layers = np.broadcast_to(WEIGHTS[:, None] if batch else WEIGHTS, (3, *batch, 4, 7, 7))
    activations = Activations(tuple(layers.copy()))
    expected = build_graph(activations, EdgeOptions()).weights
    found = build_graph(activations, EdgeOptions(), read_once=True).weights
    assert isinstance(found, rows.LayersOnDemand)
    assert found.shape == expected.shape
    assert found.nbytes == expected.nbytes // 3
    for step in (0, 2, 1):
        np.testing.assert_array_equal(found[step], expected[step])
    # All at once they are layers, too, and not the last one several times.
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(to_numpy(found), expected)
    first, part = found[0], found[1][..., 2:, :3]
    np.testing.assert_array_equal(found[2], expected[2])
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(part, expected[1][..., 2:, :3])
    places = {found[step].ctypes.data for step in (0, 1, 2)}
    assert len(places) == 1  # what nobody holds is used again


@pytest.mark.parametrize("to_layer", [0, 1])
def test_rollout_on_demand_is_that_of_a_graph(to_layer):
    """A batch with padding, whose items are cut out."""
    lengths, layers = [7, 5], np.zeros((3, 2, 7, 7))
    for item, size in enumerate(lengths):
        layers[:, item, :size, :size] = some.make("peaked", 3, size, seed=item)
    found = attnflow.rollout(layers, lengths=lengths, to_layer=to_layer)
    for item, size in enumerate(lengths):
        edges = oracle.edges(layers[:, item, :size, :size])
        for layer in range(to_layer + 1, 4):
            expected = oracle.rollout(edges, layer, to_layer)
            own = found[layer - to_layer - 1, item, :size, :size]
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-14)


def test_threads_change_nothing(monkeypatch):
    def both():
        checked = rows.are_sound([layer.reshape(-1, 7) for layer in WEIGHTS], 1e-9)
        return checked, rows.fuse_rows(
            [layer[None] for layer in WEIGHTS], [np.full(4, 0.25)] * 3, 0.5
        )

    alone = both()
    monkeypatch.setattr(rows, "WORTH_THREADS", 0)
    together = both()
    assert alone[0] == together[0] == [True] * 3
    np.testing.assert_array_equal(alone[1], together[1])


@pytest.mark.parametrize("here", [True, False])
def test_negative_weights_are_refused_where_rows_sum_to_one(here, monkeypatch):
    monkeypatch.setattr(checks, "on_cpu", lambda _: here)
    layers = WEIGHTS.copy()
    layers[2, 1, 6, 4] += layers[2, 1, 6, 5] + 1e-3
    layers[2, 1, 6, 5] = -1e-3
    with pytest.raises(InputError, match="no weight may be negative"):
        checks.check_probabilities(layers)


@pytest.mark.parametrize("value", [-1e-3, float("nan"), float("inf"), 0.9])
@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("here", [True, False])
def test_unsound_rows_are_refused_everywhere(value, kind, here, monkeypatch):
    monkeypatch.setattr(checks, "on_cpu", lambda _: here)
    layers = WEIGHTS.copy()
    checks.check_probabilities(kind(layers))
    layers[2, 1, 6, 5] = value
    with pytest.raises(InputError, match=r"attention\[2\] at \[1, 6(, 5)?\] is"):
        checks.check_probabilities(kind(layers))
