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
from attnflow.bench.baselines import AUTHORS, LIBRARIES, Baseline, Pair
from attnflow.bench.inputs import random_attention, real_attention
from attnflow.edges.graph import build_graph
from attnflow.edges.options import EdgeOptions
from attnflow.errors import AttnflowError
from attnflow.records import Activations, FloatArray

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


def best_time(function: Callable[[], Any], *, repeats: int = 5) -> float:
    """The shortest of several times, in seconds, after a first call that compiles and warms up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
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
) -> Row:
    """Measure flow from these queries, at all layers and to all keys, against baselines.

    Baselines solve a sample of the (query, key) pairs at all layers; their time is scaled to all.

    Raises:
        AttnflowError: A baseline's values differ from attnflow's.
    """
    seconds = best_time(lambda: flow(attention, queries=queries))
    values = flow(attention, queries=queries)
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


def measure_libraries(report: Report) -> Iterator[Row]:
    """Against the fastest maximum-flow libraries, and against the paper authors' choice."""
    for kind, make in (("real", real_attention), ("random", partial(random_attention, 6))):
        report(f"one source, {kind} attention")
        yield compare(
            f"CLS, all sinks, 6 layers, 232 tokens, {kind}", make(232), [0], LIBRARIES, sample=48
        )
        report(f"all pairs, {kind} attention")
        yield compare(
            f"all pairs, 6 layers, 80 tokens, {kind}", make(80), range(80), LIBRARIES, sample=300
        )
    report("the authors' choice")
    yield compare(
        "all pairs, 6 layers, 20 tokens, real", real_attention(20), range(20), [AUTHORS], 20
    )
    yield compare(
        "CLS, all sinks, 6 layers, 80 tokens, real", real_attention(80), [0], [AUTHORS], 3
    )


def measure_forward_pass(report: Report) -> Iterator[Row]:
    """Against the forward pass of a model of BERT-base's size."""
    import torch
    from transformers import BertConfig, BertModel

    report("BERT-base's forward pass")
    torch.manual_seed(0)
    model: Any = BertModel(BertConfig())  # type: ignore[no-untyped-call]
    model.eval()
    tokens = torch.randint(1000, 30000, (1, 128))
    with torch.inference_mode():
        forward = best_time(lambda: model(tokens), repeats=9)
        model.set_attn_implementation("eager")
        own = torch.stack(model(tokens, output_attentions=True).attentions)[:, 0]
    for kind, attention in (
        ("its own attention, untrained", own.double().mean(1).numpy()),
        ("MiniLM's attention, twice", real_attention(128, depth=12)),
    ):
        label = f"CLS, all sinks, 12 layers, 128 tokens, {kind}"
        yield Row(label, cls_time(attention), {"forward pass of BERT-base": forward})


def measure_long_texts(report: Report) -> Iterator[Row]:
    """A long text: time, and memory besides the input."""
    report("512 tokens")
    for kind, attention in (
        ("real", real_attention(512, depth=12)),
        ("random", random_attention(12, 512)),
    ):
        seconds = cls_time(attention, layers=-1)
        memory = f"{_peak_mib(attention):.0f} MiB beside the input"
        yield Row(f"CLS of layer 12, all sinks, 512 tokens, {kind}", seconds, {"memory": memory})


def measure_rollout(report: Report) -> Iterator[Row]:
    """Rollout against the matrix products that it consists of."""
    report("rollout")
    for batch, size in ((16, 128), (4, 512)):
        attention = np.random.default_rng(0).dirichlet(np.ones(size), size=(12, batch, size))

        def multiply(layers: FloatArray = attention) -> None:
            rolled = layers[0]
            for layer in layers[1:]:
                rolled = layer @ rolled

        def roll(layers: FloatArray = attention) -> None:
            rollout(layers, lengths=[layers.shape[-1]] * layers.shape[1])

        label = f"rollout, batch of {batch}, 12 layers, {size} tokens, heads fused"
        yield Row(label, best_time(roll), {"the matrix products alone": best_time(multiply)})


def measure_growth(report: Report) -> Iterator[tuple[str, list[int], list[float]]]:
    """Seconds for CLS, all sinks, all layers as the text and the model grow."""
    sizes, depths = [64, 128, 256, 512], [6, 12, 24, 48]
    report("growth with tokens")
    yield "tokens, 6 layers, real", sizes, [cls_time(real_attention(n)) for n in sizes]
    yield "tokens, 6 layers, random", sizes, [cls_time(random_attention(6, n)) for n in sizes]
    report("growth with layers")
    real = [cls_time(real_attention(64, depth=depth)) for depth in depths]
    yield "layers, 64 tokens, real", depths, real
    random = [cls_time(random_attention(depth, 64)) for depth in depths]
    yield "layers, 64 tokens, random", depths, random


def cls_time(attention: FloatArray, **options: Any) -> float:
    """Seconds for flow from the first position to all tokens."""
    return best_time(lambda: flow(attention, queries=0, **options), repeats=3)


def _peak_mib(attention: FloatArray) -> float:
    """The peak of memory allocated by one call."""
    tracemalloc.start()
    flow(attention, layers=-1, queries=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20
