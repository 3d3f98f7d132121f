"""Flow where the relevance is: its bounds hold the exact flow, and are as near as was asked."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import temporal_oracle as oracle
from attnflow.errors import InputError
from attnflow.solvers import bounded, temporal
from attnflow.solvers.bounded import SHARE, BoundedNetwork

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]
ROUNDING = 1e-6  # of float32, beside the largest flow


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def amounts(seed, depth, size, *, heavy=3.0, causal=True):
    """Signed and concentrated, as relevance is."""
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(depth, size, size)) ** heavy * np.exp(
        rng.normal(0, 1, (depth, 1, size))
    )
    return (np.tril(made) if causal else made).astype(np.float32)


def check(relevance, sources, sinks, device, **options):
    """Both signs against the exact solver; returns how many sinks were searched."""
    searched = 0
    for sign in (1.0, -1.0):
        exact = temporal.solve(np.maximum(sign * relevance, 0), sources, sinks).values
        given = torch.tensor(relevance, device=device)
        found = BoundedNetwork(given, sources, sign, **options).solve(sinks)
        largest = max(exact.max(), 1e-30)
        share = options.get("share", SHARE) + ROUNDING
        assert (found.values <= exact + ROUNDING * largest).all()
        assert (exact <= found.upper + ROUNDING * largest).all()
        assert (found.upper - found.values).max() <= share * largest
        assert found.statistics["largest_gap"] <= share
        searched += found.statistics["searched"]
    return searched


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_all_tokens(device, depth, causal):
    relevance = amounts(depth, depth, 60, causal=causal)
    sources = (57, 58) if causal else (3, 40)
    sinks = [(at,) for at in range(60) if at not in sources]
    check(relevance, sources, sinks, device)


def test_sets_of_tokens(device):
    relevance = amounts(1, 6, 80)
    sinks = [tuple(range(20)), tuple(range(20, 70)), (3, 30, 77), (5,)]
    check(relevance, (78, 79), sinks, device)


def test_what_bounds_leave_open_is_searched(device):
    """Narrow ways: nothing that is added up layer by layer shows how much passes them."""
    relevance = amounts(2, 8, 40, heavy=7.0, causal=False)
    sinks = [(at,) for at in range(1, 40)] + [tuple(range(1, 20))]
    assert check(relevance, (0,), sinks, device, share=1e-6) > 0


def test_the_strongest_edges_are_enough_or_more_are_taken(device, monkeypatch):
    relevance = amounts(2, 8, 40, heavy=7.0, causal=False)
    sinks = [(at,) for at in range(1, 40)]
    monkeypatch.setattr(bounded, "STRONGEST", (20, 200, 1 << 20))
    monkeypatch.setattr(bounded, "SEARCHED", 4)
    assert check(relevance, (0,), sinks, device, share=1e-6) > 0


def test_where_edges_are_too_many_the_strongest_are_tried_once(monkeypatch):
    relevance = amounts(2, 8, 40, heavy=7.0, causal=False)
    tried = []
    kept = BoundedNetwork._strongest
    monkeypatch.setattr(
        BoundedNetwork, "_strongest", lambda self, count: tried.append(count) or kept(self, count)
    )
    monkeypatch.setattr(bounded, "STRONGEST", (20, 200, 2000))
    sinks = [tuple(range(1, 20)), tuple(range(20, 40))]
    found = BoundedNetwork(torch.tensor(relevance), (0,), share=1e-7).solve(sinks)
    exact = temporal.solve(np.maximum(relevance, 0), (0,), sinks).values
    assert tried == [20]
    assert found.statistics["largest_gap"] > 1e-7  # which is told, and holds
    assert (found.values <= exact * (1 + ROUNDING)).all()
    assert (exact <= found.upper * (1 + ROUNDING)).all()


def test_of_too_many_edges_none_are_tried_where_bounds_are_near(monkeypatch):
    relevance = amounts(2, 8, 40, heavy=7.0, causal=False)
    sinks = [tuple(range(1, 20)), tuple(range(20, 40))]
    monkeypatch.setattr(bounded, "STRONGEST", (20, 200, 2000))
    monkeypatch.setattr(BoundedNetwork, "_strongest", None)
    network = BoundedNetwork(torch.tensor(relevance), (0,), share=1e-7)
    with pytest.raises(TypeError):
        network.solve(sinks)
    monkeypatch.setattr(bounded, "GROSS", 1.0)
    found = network.solve(sinks)
    exact = temporal.solve(np.maximum(relevance, 0), (0,), sinks).values
    assert found.statistics["searched"] == 0
    assert found.statistics["largest_gap"] > 1e-7
    assert (found.values <= exact * (1 + ROUNDING)).all()
    assert (exact <= found.upper * (1 + ROUNDING)).all()


def test_blocks_of_rows_change_nothing(device, monkeypatch):
    relevance = torch.tensor(amounts(3, 6, 50), device=device)
    sinks = [(at,) for at in range(48)]
    whole = BoundedNetwork(relevance, (49,)).solve(sinks)
    monkeypatch.setattr(bounded, "BLOCK", 7 * 50)
    monkeypatch.setattr(bounded, "SINKS", 5)
    parts = BoundedNetwork(relevance, (49,)).solve(sinks)
    np.testing.assert_allclose(parts.upper, whole.upper, rtol=1e-5)
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-3, atol=1e-4 * whole.upper.max())


def test_nothing_passes_through_the_first_position_where_it_is_left_out(device):
    relevance = amounts(4, 5, 30)
    without = relevance.copy()
    without[:, 1:, 0] = 0
    sinks = [(at,) for at in range(29)]
    found = BoundedNetwork(torch.tensor(relevance, device=device), (29,), without_first=True)
    exact = temporal.solve(np.maximum(without, 0), (29,), sinks).values
    np.testing.assert_allclose(found.solve(sinks).upper, exact, atol=2e-4 * exact.max())


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_bounds_hold_the_flow_of_the_explicit_graph(seed, size, depth):
    rng = np.random.default_rng(seed)
    relevance = rng.normal(size=(depth, size, size)) ** 5 * (rng.random((depth, size, size)) < 0.7)
    order = [int(at) for at in rng.permutation(size)]
    first = int(rng.integers(1, size))
    sources, sinks = order[:first], order[first:]
    exact = oracle.max_flow(np.maximum(relevance, 0), sources, sinks)
    found = BoundedNetwork(torch.tensor(relevance), sources, share=1e-9).solve([sinks])
    assert found.values[0] == pytest.approx(exact, rel=1e-8, abs=1e-12)
    assert found.upper[0] == pytest.approx(exact, rel=1e-8, abs=1e-12)


def test_products_are_exact_whatever_was_chosen_for_models():
    torch.set_float32_matmul_precision("medium")
    try:
        BoundedNetwork(torch.tensor(amounts(0, 3, 20)), (19,)).solve([(0, 1)])
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("value", "query"), [(torch.nan, 5), (torch.inf, 19)])
def test_what_is_not_finite_is_refused(device, value, query):
    relevance = torch.tensor(amounts(0, 3, 20), device=device)
    relevance[1, query, 2] = value
    with pytest.raises(InputError, match="infinite or NaN"):
        BoundedNetwork(relevance, (19,))
