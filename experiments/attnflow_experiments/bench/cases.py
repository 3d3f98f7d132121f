"""The measurements: each function yields the rows of a table."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from attnflow.api.arrays import flow, rollout
from attnflow.edges.graph import EdgeOptions, build_graph
from attnflow.errors import AttnflowError
from attnflow.records import Activations, FloatArray
from attnflow.records.arrays import empty, namespace, to_numpy
from attnflow_experiments.bench.baselines import AUTHORS, LIBRARIES, Baseline, Pair
from attnflow_experiments.bench.inputs import (
    decoder_attention,
    placed,
    random_attention,
    real_attention,
)

Report = Callable[[str], None]
"""Called with the name of what is measured next."""
TOLERANCE = 1e-6
"""How far values may differ: integer capacities are rounded."""


@dataclass(frozen=True)
class Row:
    """One measurement: its label, attnflow's seconds, and others' (or why there are none)."""

    label: str
    seconds: float
    others: dict[str, float | str]

    @property
    def ratio(self) -> float | None:
        """The time of the fastest other, divided by attnflow's."""
        times = [time for time in self.others.values() if isinstance(time, float)]
        return min(times) / self.seconds if times else None


def best_time(function: Callable[[], Any], *, device: str = "cpu", repeats: int = 5) -> float:
    """The shortest of several times, in seconds, after a first call that compiles and warms up."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def edge_weights(attention: FloatArray) -> FloatArray:
    """The capacities that flow uses for this attention."""
    weights: FloatArray = build_graph(Activations(tuple(attention)), EdgeOptions()).weights
    return weights


def compare(
    label: str,
    attention: FloatArray,
    queries: Sequence[int],
    baselines: Sequence[Baseline],
    sample: int,
    device: str = "cpu",
) -> Row:
    """Measure flow from these queries, at all layers and to all keys, against baselines.

    Baselines solve a sample of the (query, key) pairs at all layers; their time is scaled to all.

    Raises:
        AttnflowError: A baseline's values differ from attnflow's.
    """
    given = placed(attention, device)
    seconds = best_time(lambda: flow(given, queries=queries, device=device), device=device)
    values = to_numpy(flow(given, queries=queries, device=device))
    weights = edge_weights(attention)
    depth, size = attention.shape[0], attention.shape[-1]
    count = len(queries) * size
    sampled = np.random.default_rng(0).choice(count, min(sample, count), replace=False)
    pairs: list[Pair] = [
        (layer, queries[pair // size], int(pair % size))
        for pair in sampled
        for layer in range(1, depth + 1)
    ]
    expected = [values[layer - 1, list(queries).index(query), key] for layer, query, key in pairs]
    others: dict[str, float | str] = {}
    for baseline in baselines:
        if not baseline.available:
            others[baseline.name] = f"not installed (pip install {baseline.package})"
            continue
        taken, found = baseline.run(weights, pairs)
        if not np.allclose(found, expected, rtol=0, atol=TOLERANCE):
            msg = f"{baseline.name} disagrees with attnflow on {label}; please report this"
            raise AttnflowError(msg)
        others[baseline.name] = taken * count / len(sampled)
    return Row(label, seconds, others)


def measure_libraries(report: Report, device: str) -> Iterator[Row]:
    """Against the fastest maximum-flow libraries, and against the paper authors' choice."""
    against = partial(compare, device=device)
    for kind, make in (("real", real_attention), ("random", partial(random_attention, 6))):
        report(f"one source, {kind} attention")
        yield against(
            f"CLS, all sinks, 6 layers, 232 tokens, {kind}", make(232), [0], LIBRARIES, sample=48
        )
        report(f"all pairs, {kind} attention")
        yield against(
            f"all pairs, 6 layers, 80 tokens, {kind}", make(80), range(80), LIBRARIES, sample=300
        )
    report("the authors' choice")
    yield against(
        "all pairs, 6 layers, 20 tokens, real", real_attention(20), range(20), [AUTHORS], 20
    )
    yield against(
        "CLS, all sinks, 6 layers, 80 tokens, real", real_attention(80), [0], [AUTHORS], 3
    )


def measure_forward_pass(report: Report, device: str) -> Iterator[Row]:
    """Against the forward pass of a model of BERT-base's size."""
    import torch
    from transformers import BertConfig, BertModel

    report("BERT-base's forward pass")
    torch.manual_seed(0)
    model: Any = BertModel(BertConfig())  # type: ignore[no-untyped-call]
    model.eval().to(device)
    tokens = torch.randint(1000, 30000, (1, 128), device=device)
    with torch.inference_mode():
        forward = best_time(lambda: _finished(model(tokens), device), device=device, repeats=9)
        model.set_attn_implementation("eager")
        own = torch.stack(model(tokens, output_attentions=True).attentions)[:, 0]
    for kind, attention in (
        ("its own attention, untrained", to_numpy(own.mean(1))),
        ("MiniLM's attention, twice", real_attention(128, depth=12)),
    ):
        label = f"CLS, all sinks, 12 layers, 128 tokens, {kind}"
        yield Row(label, cls_time(attention, device), {"forward pass of BERT-base": forward})


def measure_long_texts(report: Report, device: str) -> Iterator[Row]:
    """A long text: time, and memory besides the input."""
    report("512 tokens")
    for kind, attention in (
        ("real", real_attention(512, depth=12)),
        ("random", random_attention(12, 512)),
    ):
        seconds = cls_time(attention, device, layers=-1)
        label = f"CLS of layer 12, all sinks, 512 tokens, {kind}"
        others: dict[str, float | str] = {}
        if device == "cpu":
            others["memory"] = f"{_peak_mib(attention):.0f} MiB beside the input"
        yield Row(label, seconds, others)


def measure_rollout(report: Report, device: str) -> Iterator[Row]:
    """Rollout against the matrix products that it consists of."""
    report("rollout")
    for batch, size in ((16, 128), (4, 512)):
        attention = np.random.default_rng(0).dirichlet(np.ones(size), size=(12, batch, size))
        given = placed(attention, device)

        def multiply(layers: Any = given) -> None:
            # All layers are kept, as rollout returns them.
            rolled = empty(layers.shape, layers)
            rolled[0] = layers[0]
            for step in range(1, len(layers)):
                namespace(layers).matmul(layers[step], rolled[step - 1], out=rolled[step])
            _finished(rolled, device)

        def roll(layers: Any = given) -> None:
            found = rollout(layers, lengths=[layers.shape[-1]] * layers.shape[1])
            _finished(found, device)

        label = f"rollout, batch of {batch}, 12 layers, {size} tokens, heads fused"
        alone: dict[str, float | str] = {
            "the matrix products alone": best_time(multiply, device=device)
        }
        yield Row(label, best_time(roll, device=device), alone)


def measure_growth(report: Report, device: str) -> Iterator[tuple[str, Sequence[int], list[float]]]:
    """Seconds as the text and the model grow: from CLS, and from the last position of a decoder."""
    sizes, depths = (64, 128, 256, 512), (6, 12, 24, 48)
    # One core is busy for minutes with the longest.
    long = (*sizes, 1024, 2048, 4096) if device == "cuda" else (*sizes, 1024)
    report("growth with tokens")
    real = [cls_time(real_attention(size), device) for size in sizes]
    yield "tokens, 6 layers, real", sizes, real
    random = [cls_time(random_attention(6, size), device) for size in long]
    yield "tokens, 6 layers, random", long, random
    report("growth with tokens, decoder")
    last = [last_time(decoder_attention(30, size), device) for size in long[2:]]
    yield "tokens, last position of layer 30, decoder", long[2:], last
    report("growth with layers")
    real = [cls_time(real_attention(64, depth=depth), device) for depth in depths]
    yield "layers, 64 tokens, real", depths, real
    random = [cls_time(random_attention(depth, 64), device) for depth in depths]
    yield "layers, 64 tokens, random", depths, random


def cls_time(attention: FloatArray, device: str, **options: Any) -> float:
    """Seconds for flow from the first position to all tokens."""
    given = placed(attention, device)
    return best_time(
        lambda: flow(given, queries=0, device=device, **options), device=device, repeats=3
    )


def last_time(attention: FloatArray, device: str) -> float:
    """Seconds for flow from the last position of the top layer to all tokens."""
    given = placed(attention, device)
    return best_time(
        lambda: flow(given, layers=-1, queries=-1, device=device), device=device, repeats=1
    )


def _finished(result: Any, device: str) -> Any:
    """The result, when a GPU has computed it."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()
    return result


def _peak_mib(attention: FloatArray) -> float:
    """The peak of memory allocated by one call."""
    tracemalloc.start()
    flow(attention, layers=-1, queries=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20
