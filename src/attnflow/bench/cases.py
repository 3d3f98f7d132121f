"""What is measured: each case gives rows of a table."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.api.arrays import flow, rollout
from attnflow.bench.inputs import random_attention, real_attention
from attnflow.bench.opponents import AUTHORS, LIBRARIES, Opponent, Pair
from attnflow.edges.graph import build_graph
from attnflow.edges.options import EdgeOptions
from attnflow.errors import AttnflowError
from attnflow.records import Activations, FloatArray

Say = Callable[[str], None]
AGREE = 1e-6  # whole-number capacities are rounded


@dataclass(frozen=True)
class Row:
    """One measurement: what, seconds of attnflow, and of others (or why they have none)."""

    what: str
    seconds: float
    others: dict[str, float | str]

    @property
    def ratio(self) -> float | None:
        """How many times longer the fastest other takes."""
        times = [time for time in self.others.values() if isinstance(time, float)]
        return min(times) / self.seconds if times else None


def best(run: Callable[[], Any], *, repeats: int = 5) -> float:
    """The shortest of several times, in seconds; the first, uncounted one compiles and warms up."""
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def edges(attention: FloatArray) -> FloatArray:
    """The capacities that flow uses for this attention."""
    weights: FloatArray = build_graph(Activations(tuple(attention)), EdgeOptions()).weights
    return weights


def against(
    what: str,
    attention: FloatArray,
    queries: Sequence[int],
    opponents: Sequence[Opponent],
    sample: int,
) -> Row:
    """Flow from these queries of all layers to all keys, against opponents on sampled keys.

    Opponents solve all layers and a sample of the (query, key) pairs; their time is scaled to all.
    """
    seconds = best(lambda: flow(attention, queries=queries))
    values = flow(attention, queries=queries)
    weights = edges(attention)
    depth, size = attention.shape[0], attention.shape[-1]
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(queries) * size, min(sample, len(queries) * size), replace=False)
    pairs: list[Pair] = [
        (layer, queries[place // size], int(place % size))
        for place in chosen
        for layer in range(1, depth + 1)
    ]
    others: dict[str, float | str] = {}
    for opponent in opponents:
        if not opponent.available:
            others[opponent.name] = f"not installed (pip install {opponent.package})"
            continue
        taken, found = opponent.run(weights, pairs)
        expected = [
            values[layer - 1, list(queries).index(query), key] for layer, query, key in pairs
        ]
        if not np.allclose(found, expected, rtol=0, atol=AGREE):
            msg = f"{opponent.name} disagrees with attnflow on {what}"
            raise AttnflowError(msg)
        others[opponent.name] = taken * len(queries) * size / len(chosen)
    return Row(what, seconds, others)


def libraries(say: Say) -> Iterator[Row]:
    """Against the fastest maximum-flow libraries, and against the authors' choice."""
    for kind, make in (("real", real_attention), ("random", _random_six)):
        say(f"one source, {kind} attention")
        yield against(
            f"CLS, all sinks, 6 layers, 232 tokens, {kind}", make(232), [0], LIBRARIES, sample=48
        )
        say(f"all pairs, {kind} attention")
        yield against(
            f"all pairs, 6 layers, 80 tokens, {kind}", make(80), range(80), LIBRARIES, sample=300
        )
    say("the authors' choice")
    yield against(
        "all pairs, 6 layers, 20 tokens, real", real_attention(20), range(20), [AUTHORS], 20
    )
    yield against(
        "CLS, all sinks, 6 layers, 80 tokens, real", real_attention(80), [0], [AUTHORS], 3
    )


def forward_pass(say: Say) -> Iterator[Row]:
    """Against the forward pass of a model of BERT-base's shape."""
    import torch
    from transformers import BertConfig, BertModel

    say("BERT-base's forward pass")
    torch.manual_seed(0)
    model: Any = BertModel(BertConfig())  # type: ignore[no-untyped-call]
    model.eval()
    tokens = torch.randint(1000, 30000, (1, 128))
    with torch.inference_mode():
        taken = best(lambda: model(tokens), repeats=9)
        model.set_attn_implementation("eager")
        own = torch.stack(model(tokens, output_attentions=True).attentions)[:, 0]
    for kind, attention in (
        ("its own attention, untrained", own.double().mean(1).numpy()),
        ("MiniLM's attention, twice", real_attention(128, depth=12)),
    ):
        what = f"CLS, all sinks, 12 layers, 128 tokens, {kind}"
        yield Row(what, cls_seconds(attention), {"forward pass of BERT-base": taken})


def large(say: Say) -> Iterator[Row]:
    """A long text: time, and memory beside the input."""
    say("512 tokens")
    for kind, attention in (
        ("real", real_attention(512, depth=12)),
        ("random", random_attention(12, 512)),
    ):
        seconds = cls_seconds(attention, layers=-1)
        memory = f"{_peak_mib(attention):.0f} MiB beside the input"
        yield Row(f"CLS of layer 12, all sinks, 512 tokens, {kind}", seconds, {"memory": memory})


def products(say: Say) -> Iterator[Row]:
    """Rollout against the matrix products it consists of."""
    say("rollout")
    for batch, size in ((16, 128), (4, 512)):
        attention = np.random.default_rng(0).dirichlet(np.ones(size), size=(12, batch, size))

        def multiply(layers: FloatArray = attention) -> None:
            rolled = layers[0]
            for layer in layers[1:]:
                rolled = layer @ rolled

        def roll(layers: FloatArray = attention) -> None:
            rollout(layers, lengths=[layers.shape[-1]] * layers.shape[1])

        what = f"rollout, batch of {batch}, 12 layers, {size} tokens, heads fused"
        yield Row(what, best(roll), {"the matrix products alone": best(multiply)})


def growth(say: Say) -> Iterator[tuple[str, list[int], list[float]]]:
    """Seconds for CLS, all sinks, all layers as the text and the model grow."""
    sizes, depths = [64, 128, 256, 512], [6, 12, 24, 48]
    say("growth with tokens")
    yield "tokens, 6 layers, real", sizes, [cls_seconds(real_attention(n)) for n in sizes]
    yield "tokens, 6 layers, random", sizes, [cls_seconds(random_attention(6, n)) for n in sizes]
    say("growth with layers")
    real = [cls_seconds(real_attention(64, depth=depth)) for depth in depths]
    yield "layers, 64 tokens, real", depths, real
    random = [cls_seconds(random_attention(depth, 64)) for depth in depths]
    yield "layers, 64 tokens, random", depths, random


def cls_seconds(attention: FloatArray, **options: Any) -> float:
    """The time of flow from the first position to all tokens."""
    return best(lambda: flow(attention, queries=0, **options), repeats=3)


def _random_six(size: int) -> FloatArray:
    return random_attention(6, size)


def _peak_mib(attention: FloatArray) -> float:
    """What one call allocates at most at a time."""
    tracemalloc.start()
    flow(attention, layers=-1, queries=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20
