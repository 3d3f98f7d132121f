"""Flows of deep graphs that are spread over all edges: what they close is the searches' value."""

import numpy as np
import pytest
import torch

import attention as some
import oracle
from attnflow.solvers import spreading
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.cuda import device
from attnflow.solvers.cuda import solver as cuda
from attnflow.solvers.cuda.solver import CudaSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources
from emulated import Emulated, available

ENDLESS = 1e9
NO_GPU = device.why_not()
GPUS = [
    pytest.param(
        (Emulated, "cpu"), id="emulated", marks=pytest.mark.skipif(not available(), reason="no g++")
    ),
    pytest.param(
        (lambda: device.cuda_device(0), "cuda"),
        id="cuda",
        marks=pytest.mark.skipif(NO_GPU is not None, reason=str(NO_GPU)),
    ),
]


@pytest.fixture(params=GPUS)
def gpu(request):
    make, tensors = request.param
    made = make()
    made.tensors = tensors
    return made


def searched(weights, edges, layer, sinks):
    prepared = CpuSolver().prepare(weights)
    sources = Sources(edges[None], np.array([layer]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnflow.solvers.cpu.solver.FEW", 0)
        return prepared.solve(sources, sinks, Execution(1))[0][0]


@pytest.mark.parametrize("kind", some.KINDS)
@pytest.mark.parametrize(("depth", "size", "query"), [(20, 30, 29), (17, 40, 3), (6, 12, 5)])
def test_what_is_closed_is_the_maximum(kind, depth, size, query):
    weights = oracle.edges(some.make(kind, depth, size, seed=depth))
    edges, sinks = weights[-1, query].copy(), np.arange(size)[::-1]
    causal = not np.triu(weights, 1).any()
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(edges))
    values, gaps = spreading.spread(*tensors, sinks, causal=causal, effort=spreading.Effort(12))
    expected = searched(weights, edges, depth, sinks)
    closed = np.isfinite(gaps)
    np.testing.assert_allclose(values[closed], expected[closed], rtol=0, atol=2e-12)
    assert (np.abs(gaps[closed]) <= spreading.MET).all()
    if kind in ("dense", "tied", "uniform") and depth == 20:
        assert closed.mean() > 0.9


def some_layers(seed, depth=5, size=6):
    torch.manual_seed(seed)
    return [torch.rand(size, size, dtype=torch.float64) / size for _ in range(depth)]


def bridge_of(layers, start, end):
    span = spreading.Span(layers, causal=False)
    pairs = spreading.new_pairs(torch.arange(len(end)), start, end, span)
    return spreading.Bridge(span, pairs, spreading.InTorch())


def test_what_arrives_is_a_flow():
    """Every amount within its capacity, nothing lost on the way: written out edge by edge."""
    layers = some_layers(3)
    start, end = torch.rand(1, 6, dtype=torch.float64), torch.full((1, 6), ENDLESS).double()
    bridge = bridge_of(layers, 0.2 * start, end)
    weights, products = bridge.pairs.nodes[:2]
    weights[:] = torch.rand(weights.shape, dtype=torch.float64) ** 6
    products[:] = weights @ torch.stack(layers).transpose(1, 2)
    arrived = bridge._send(0.5)
    held, clipped = 0.2 * start[0], 0
    for layer, (weight,) in zip(layers, weights, strict=True):
        sent = torch.zeros(6, 6, dtype=torch.float64)
        for node in range(6):
            low, high = 0.0, 1e12
            for _ in range(200):
                middle = (low + high) / 2
                total = (layer[node] * (middle * weight).clamp(max=1)).sum()
                low, high = (middle, high) if total < held[node] else (low, middle)
            sent[node] = layer[node] * (high * weight).clamp(max=1)
            clipped += int((high * weight > 1).sum())
        assert (sent <= layer * (1 + 1e-12)).all()
        held = sent.sum(0)
    assert clipped > 0
    np.testing.assert_allclose(arrived[0], held, rtol=1e-9)


@pytest.mark.parametrize("kind", ["causal", "dense"])
def test_what_pieces_leave_goes_on_together(kind, monkeypatch):
    monkeypatch.setattr(spreading, "TRIAL", 4)
    monkeypatch.setattr(spreading, "TOGETHER", 1)
    monkeypatch.setattr(spreading, "WORTH", 0.0)
    joins = []

    def joined(begun, steps, before=spreading.joined):
        joins.append([each.span.low for each in begun])
        return before(begun, steps)

    monkeypatch.setattr(spreading, "joined", joined)
    weights = oracle.edges(some.make(kind, 20, 26, 3))
    edges, sinks = weights[-1, 22].copy(), np.arange(26)[::-1]
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(edges))
    effort = spreading.Effort(20, 20, most_sinks=5)
    values, gaps = spreading.spread(*tensors, sinks, causal=kind == "causal", effort=effort)
    closed, expected = np.isfinite(gaps), searched(weights, edges, 20, sinks)
    assert closed.mean() > 0.8
    np.testing.assert_allclose(values[closed], expected[closed], rtol=0, atol=2e-12)
    (lows,) = joins
    assert len(lows) > 3
    assert (len(set(lows)) > 3) == (kind == "causal")


def test_pairs_of_a_piece_go_the_same_way_among_all_positions():
    weights = torch.from_numpy(oracle.edges(some.make("causal", 6, 14, 2)))
    layers, low = weights[1:-1].flip(0).unbind(), 5
    span = spreading.Span([layer[low:, low:] for layer in layers], True, low)
    numbers, start = torch.arange(3), weights[-1, -1, low:].expand(3, -1).clone()
    end = weights[0, low:][:, low : low + 3].T
    bridge = spreading.Bridge(
        span, spreading.new_pairs(numbers, start, end, span), spreading.InTorch()
    )
    bridge._steer()
    whole = spreading.Bridge(
        spreading.Span(layers, True), bridge.pairs.shifted(low), spreading.InTorch()
    )
    for forget in (0.5, 0.2):
        among = whole._send(forget)
        np.testing.assert_allclose(among[:, low:], bridge._send(forget), rtol=1e-12)
        assert not among[:, :low].any()
        whole._steer()
        bridge._steer()


@pytest.mark.parametrize("most_full", [1000, 2])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("sinks", "size"), [(3, 7), (2, 300), (1, 33)])
def test_kernels_take_the_same_steps(gpu, sinks, size, causal, most_full, monkeypatch):
    """Rates, limits and weights as by torch; one node holds more than it can pass on."""
    monkeypatch.setattr(spreading, "MOST_FULL", most_full)
    monkeypatch.setattr(cuda, "MOST_FULL", most_full)
    torch.manual_seed(size)
    layer = torch.rand(size, size, dtype=torch.float64)
    layer = layer.tril() if causal else layer
    layer = layer / layer.sum(1, keepdim=True)
    held = torch.rand(sinks, size, dtype=torch.float64)
    held[0, -1] = 3.0
    held[:, size // 2] = 0.0
    weights = torch.rand(sinks, size, dtype=torch.float64) ** 8
    weights[:, 1] = 0.0
    given = spreading.Nodes(
        weights, weights @ layer.T, torch.rand(sinks, size).double(), weights + 0.1
    )
    found = []
    wide = torch.cat([layer, layer], 1)
    for way, where in ((spreading.InTorch(), "cpu"), (cuda.ByKernels(gpu), gpu.tensors)):
        nodes = spreading.Nodes(*(each.to(where, copy=True) for each in given))
        into = torch.empty_like(nodes.weights)
        # As in a piece that begins at a later position: rows that do not follow one another.
        rows = wide.to(where)[:, :size]
        rate, extra = way.limit(rows, held.to(where), nodes, spreading.Sweep(causal, 0.3))
        way.weigh(nodes, into)
        found.append([each.cpu() for each in (rate, extra, nodes.sums, nodes.factors, into)])
    for expected, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-300)
    rate, extra, sums, _, _ = found[0]
    assert (rate == 0).any()
    assert (rate > 0).any()
    assert (extra > 0).any()
    assert most_full == 2 or (sums > given.sums).any()


def test_a_sink_that_nothing_reaches():
    weights = oracle.edges(some.make("causal", 18, 20, 1))
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(weights[-1, 4].copy()))
    values, gaps = spreading.spread(
        *tensors, np.array([12, 5, 19]), causal=True, effort=spreading.Effort(3)
    )
    assert values.tolist() == gaps.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("size", [4, 7, 13])
@pytest.mark.parametrize("order", [1, 0, -1])
def test_products_with_causal_layers(order, size, monkeypatch):
    monkeypatch.setitem(spreading.WORTH_PARTS, "cpu", 0)
    left, layer = torch.rand(3, size).double(), torch.rand(size, size).double()
    layer = {1: layer.tril(), 0: layer, -1: layer.triu()}[order]
    into = torch.full_like(left, torch.nan)
    np.testing.assert_allclose(spreading.times(left, layer, order), left @ layer, rtol=1e-13)
    np.testing.assert_allclose(spreading.times(left, layer, order, into), left @ layer, rtol=1e-13)
    np.testing.assert_array_equal(into, spreading.times(left, layer, order))


@pytest.mark.parametrize("causal", [True, False])
def test_a_source_without_edges_sends_nothing(causal):
    weights = oracle.edges(some.make("causal", 18, 9, 1))
    tensors = (torch.from_numpy(weights), torch.zeros(9, dtype=torch.float64))
    values, gaps = spreading.spread(
        *tensors, np.arange(9), causal=causal, effort=spreading.Effort(3)
    )
    assert values.tolist() == gaps.tolist() == [0.0] * 9


def test_what_overflows_proves_nothing():
    ends = torch.rand(2, 3, 6, dtype=torch.float64)
    bridge = bridge_of(some_layers(1), *ends)
    bridge._send = lambda forget: torch.full((3, 6), torch.inf, dtype=torch.float64)
    bridge.build(range(1), 1)
    assert (bridge.pairs.gap == bridge.pairs.bound).all()
    assert bridge.pairs.numbers.tolist() == [0, 1, 2]


def test_bounds_are_no_less_than_the_flow():
    """Of pairs that lose something on the way: by what is received and by what can be passed on."""
    weights = oracle.edges(some.make("causal", 18, 24, 4))
    weights[7, 20:, 20:] *= 0.1
    edges, sinks = weights[-1, 23].copy(), np.arange(12, 24)
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(edges))
    tightened = []
    with pytest.MonkeyPatch.context() as patch:
        before = spreading.Bridge._tighten

        def tighten(self, arrived):
            bounds = self.pairs.bound.clone()
            before(self, arrived)
            tightened.append(int((self.pairs.bound < bounds).sum()))

        patch.setattr(spreading.Bridge, "_tighten", tighten)
        patch.setattr(spreading, "WORTH", 0.0)
        values, gaps = spreading.spread(
            *tensors, sinks, causal=True, effort=spreading.Effort(20, 20)
        )
    expected = searched(weights, edges, 18, sinks)
    assert sum(tightened) > 0
    assert np.isfinite(gaps).mean() > 0.5
    closed = np.isfinite(gaps)
    np.testing.assert_allclose(values[closed], expected[closed], rtol=0, atol=2e-12)


@pytest.mark.parametrize("scale", [1e-320, 1e-200])
def test_weights_beyond_all_digits(scale):
    """Capacities next to nothing everywhere but in one column, over many layers."""
    weights = np.full((20, 8, 8), scale)
    weights[:, np.arange(8), np.arange(8)] = 0.5
    weights[:, :, 3] += 0.5
    edges = weights[-1, 6].copy()
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(edges))
    values, gaps = spreading.spread(
        *tensors, np.arange(8), causal=False, effort=spreading.Effort(6)
    )
    closed, expected = np.isfinite(gaps), searched(weights, edges, 20, np.arange(8))
    assert closed.any()
    np.testing.assert_allclose(values[closed], expected[closed], rtol=0, atol=2e-12)


def test_kernels_refuse_what_is_not_laid_out_by_rows():
    plain, turned = torch.ones(4, 4), torch.ones(4, 4).T[:3]
    given = (
        (spreading.Nodes(*4 * [turned]), plain[:3]),
        (spreading.Nodes(*4 * [plain]), plain[:, :3]),
    )
    for nodes, held in given:
        with pytest.raises(ValueError, match="not laid out row by row"):
            cuda.ByKernels(None).limit(plain, held, nodes, spreading.Sweep(True, 0.5))


@pytest.mark.parametrize("kind", ["causal", "dense", "sparse"])
def test_kernels_close_the_same_pairs(gpu, kind):
    weights = oracle.edges(some.make(kind, 18, 20, 6))
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(weights[-1, 17].copy()))
    found = []
    for way, where in ((spreading.InTorch(), "cpu"), (cuda.ByKernels(gpu), gpu.tensors)):
        there = [each.to(where) for each in tensors]
        effort, causal = spreading.Effort(9, steps=way), kind == "causal"
        found.append(spreading.spread(*there, np.arange(20), causal=causal, effort=effort))
    closed = np.isfinite(found[0][1])
    assert closed.mean() > 0.7
    np.testing.assert_array_equal(np.isfinite(found[1][1]), closed)
    np.testing.assert_allclose(found[1][0][closed], found[0][0][closed], rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["causal", "dense", "peaked"])
def test_the_gpu_searches_only_what_is_open(gpu, kind, monkeypatch):
    monkeypatch.setattr(cuda, "LEAST_SIZE", 8)
    monkeypatch.setattr(cuda, "LEAST_LAYERS", 9)
    items = [oracle.edges(some.make(kind, 12, 14, seed)) for seed in (1, 2)]
    layers = np.array([3, 9, 12])
    edges = np.stack([item[layers - 1, [13, 4, 13]] for item in items])
    launched = []

    def launch(name, *given, before=gpu.launch, **options):
        launched.append(name)
        before(name, *given, **options)

    monkeypatch.setattr(gpu, "launch", launch)
    prepared = CudaSolver(gpu).prepare(np.stack(items, axis=1))
    sinks = np.array([2, 13, 0, 7])
    found, statistics = prepared.solve(Sources(edges, layers), sinks, Execution(1))
    assert "limit_rates" in launched
    assert sum(statistics[way] for way in cuda.WAYS) == statistics["pairs"] == found.size
    assert statistics["largest_gap"] < 2e-12
    for item, weights in enumerate(items):
        for source, layer in enumerate(layers):
            expected = searched(weights, edges[item, source], layer, sinks)
            np.testing.assert_allclose(found[item, source], expected, rtol=0, atol=2e-12)


@pytest.mark.skipif(not available(), reason="needs g++")
@pytest.mark.parametrize("lacking", ["memory", "torch"])
def test_a_gpu_that_can_not_spread_searches(lacking, monkeypatch):
    def full(*given, **options):
        raise torch.cuda.OutOfMemoryError

    gpu = Emulated()
    monkeypatch.setattr(cuda, "LEAST_SIZE", 8)
    monkeypatch.setattr(cuda, "spread", full)
    if lacking == "torch":
        monkeypatch.setattr(gpu, "tensor", lambda array: None)
    weights = oracle.edges(some.make("causal", 17, 9, 3))
    sources, sinks = Sources(weights[-1, 8:], np.array([17])), np.arange(9)
    found, statistics = CudaSolver(gpu).prepare(weights).solve(sources, sinks, Execution(1))
    expected = searched(weights, weights[-1, 8], 17, sinks)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-12)
    assert statistics["pairs"] == found.size


@pytest.mark.parametrize(("depth", "size", "seed"), [(4, 5, 141), (6, 8, 255), (8, 8, 246)])
def test_bounds_of_pairs_that_begin_at_any_position(depth, size, seed, monkeypatch):
    """With few edges the way to an earlier sink may begin at a later position."""
    monkeypatch.setattr(spreading, "WORTH", 0.0)
    rng = np.random.default_rng(seed)
    weights = np.tril(rng.random((depth, size, size)) * (rng.random((depth, size, size)) < 0.4))
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-9)
    edges, sinks = weights[-1, -1].copy(), np.arange(size)
    tensors = (torch.from_numpy(weights[:-1]), torch.from_numpy(edges))
    values, gaps = spreading.spread(*tensors, sinks, causal=True, effort=spreading.Effort(12))
    closed = np.isfinite(gaps)
    assert closed.any()
    expected = [oracle.max_flow(weights, depth, size - 1, sink) for sink in sinks]
    np.testing.assert_allclose(values[closed], np.array(expected)[closed], rtol=0, atol=2e-12)


def test_a_cpu_without_the_memory_to_spread_searches(monkeypatch):
    def full(*given, **options):
        torch.empty(1 << 45, dtype=torch.float64)

    def broken(*given, **options):
        msg = "something else"
        raise RuntimeError(msg)

    monkeypatch.setattr("attnflow.solvers.cpu.solver.LEAST_SIZE", 8)
    monkeypatch.setattr(spreading, "spread", full)
    weights = oracle.edges(some.make("causal", 17, 9, 3))
    sources, sinks = Sources(weights[-1, 8:], np.array([17])), np.arange(9)
    found, statistics = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    expected = searched(weights, weights[-1, 8], 17, sinks)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-12)
    ways = [statistics[way] for way in ("closed_form", "bound_met", "cut_found")]
    assert sum(ways) == statistics["pairs"] == found.size
    monkeypatch.setattr(spreading, "spread", broken)
    with pytest.raises(RuntimeError, match="something else"):
        CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
