"""Time and peak memory of explaining texts in windows, with sparse layers and with dense ones.

    python -m attnflow_experiments.windows [--tokens 2048,4096] [--models mistral,…] [--ways …]

The models have random weights, 12 layers, windows of 512 and small states: what grows with the text
is attention alone. A text is explained at its last position, or at its first for Longformer: by
rollout, and by flow to each of four parts of the text. Every row is a process of its own, whose
peak memory is told beside that of the forward pass alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

FORWARD = "forward pass"
WAYS = (FORWARD, "sparse:rollout", "dense:rollout", "sparse:flow", "dense:flow")
WINDOW, LAYERS, PARTS = 512, 12, 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", default="2048,4096")
    parser.add_argument("--models", default="mistral,longformer")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        name, tokens, way = given.one.split("/")
        print(json.dumps(measure(name, int(tokens), way)))
        return
    print("| model | tokens | | seconds | peak GiB |\n|---|---|---|---|---|", flush=True)
    for name in given.models.split(","):
        for tokens in given.tokens.split(","):
            for way in given.ways.split(","):
                command = [
                    sys.executable,
                    "-m",
                    "attnflow_experiments.windows",
                    "--one",
                    f"{name}/{tokens}/{way}",
                ]
                ran = subprocess.run(command, capture_output=True, text=True, check=False)
                if ran.returncode:
                    last = ran.stderr.strip().splitlines()[-1:] or [f"killed ({ran.returncode})"]
                    print(f"| {name} | {tokens} | {way} | failed: {last[0]} | |", flush=True)
                    continue
                found = json.loads(ran.stdout.splitlines()[-1])
                row = f"{way} | {found['seconds']:.1f} | {found['gib']:.2f}"
                print(f"| {name} | {tokens} | {row} |", flush=True)


def build(name: str, tokens: int) -> Any:
    """A network with random weights."""
    import torch
    import transformers as tf

    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": LAYERS}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 128, "pad_token_id": 0}
    sizes |= {"max_position_embeddings": tokens + 8}
    if name == "mistral":
        own = {"num_key_value_heads": 4, "sliding_window": WINDOW}
        return tf.MistralForCausalLM(tf.MistralConfig(**sizes, **own)).eval()
    config = tf.LongformerConfig(**sizes, attention_window=WINDOW)
    return tf.LongformerForSequenceClassification(config).eval()


def measure(name: str, size: int, way: str) -> dict[str, float]:
    """One way, in this process."""
    import torch

    from attnflow.models.capture import windows
    from attnflow.models.capture.run import run, square_activations
    from attnflow.pipeline.request import Request
    from attnflow.pipeline.session import Graphs
    from attnflow.records import Selection

    network, ids = build(name, size), torch.arange(size)[None] % 90 + 5
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    start = time.perf_counter()
    if way == FORWARD:
        with torch.no_grad():
            network(**inputs)
    else:
        layers, method = way.split(":")
        if layers == "dense":
            windows.LEAST_TOKENS = 10**9
        config = Request(edges="attention", method=method)
        _, capture = run(network, inputs, config.capture())
        seen = square_activations(capture, 0, size)
        graph = Graphs(seen, config).find(method, None, each_head=False, chance=False)
        step = size // PARTS
        groups = tuple(tuple(range(at * step, (at + 1) * step)) for at in range(PARTS))
        query = size - 1 if name == "mistral" else 0
        asked = Selection((LAYERS,), (query,), tuple(range(PARTS)), groups=groups)
        print(config.edge_method.apply(graph, asked, config.execution).values, file=sys.stderr)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "gib": peak}


if __name__ == "__main__":
    main()
