"""Flow on a GPU: the seconds of docs/flow.md, from attention on the device to scores.

python -m attnflow_experiments.gpu [--device cpu] [--tokens N] [--sentences N] [--smollm FOLDER]

FOLDER has SmolLM2-135M's weights; it reads the pages of docs/.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import attnflow
from attnflow_experiments.bench.inputs import decoder_attention, random_attention, real_attention


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """The time of a second call, after one that compiles and takes memory."""
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def all_pairs(device: str, size: int) -> None:
    for kind, attention in (
        ("real", real_attention(size, depth=12)),
        ("random", random_attention(12, size)),
    ):
        given = torch.tensor(attention, device=device)
        taken, (_, known) = seconds(lambda: attnflow.flow(given, device=device, statistics=True))  # noqa: B023
        print(f"all pairs, {size} tokens, 12 layers, {kind}: {taken:.2f} s, {known}", flush=True)


def last_position(device: str, size: int, folder: str | None) -> None:
    options = {"layers": -1, "queries": -1, "device": device, "statistics": True}
    given = torch.tensor(decoder_attention(30, size), device=device)
    taken, (_, known) = seconds(lambda: attnflow.flow(given, **options))
    print(f"last position, {size} tokens, 30 layers, made up: {taken:.2f} s, {known}", flush=True)
    if folder is not None:
        own = own_attention(folder, device, size)
        taken, (_, known) = seconds(lambda: attnflow.flow(own, **options))
        print(f"last position, {size} tokens, SmolLM2: {taken:.2f} s, {known}", flush=True)


def own_attention(folder: str, device: str, size: int) -> list[torch.Tensor]:
    """A language model's attention on the pages of docs/, ``[head, query, key]`` a layer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    pages = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    tokens = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt").input_ids[:, :size]
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").to(device)
    with torch.inference_mode():
        output = model.eval()(tokens.to(device), output_attentions=True)
    return [layer[0] for layer in output.attentions]


def sentences(device: str, count: int) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig(attn_implementation="eager")).eval().to(device)
    lengths = np.random.default_rng(0).gamma(3.2, 7.8, size=count).round().clip(4, 66).astype(int)
    tokens = torch.randint(1000, 30000, (count, int(lengths.max())), device=device)
    mask = torch.tensor(np.arange(lengths.max()) < lengths[:, None], device=device).long()
    with torch.inference_mode():
        forward, output = seconds(lambda: model(tokens, mask, output_attentions=True))
        options = {"mask": mask, "queries": 0, "device": device}
        taken, _ = seconds(lambda: attnflow.flow(output.attentions, **options))
    print(f"CLS of {count} sentences: flow {taken:.2f} s, forward pass {forward:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--smollm", metavar="FOLDER", help="SmolLM2-135M's weights")
    asked = parser.parse_args()
    all_pairs(asked.device, asked.tokens)
    for size in (asked.tokens, 2 * asked.tokens, 4 * asked.tokens):
        last_position(asked.device, size, asked.smollm)
    sentences(asked.device, asked.sentences)


if __name__ == "__main__":
    main()
