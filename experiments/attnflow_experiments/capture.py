"""What reading attention costs: time beside eager attention, and memory beside the model.

    python -m attnflow_experiments.capture

Models are built from configurations with random weights: their shape decides the cost.
"""

import ctypes
import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

import attnflow
from attnflow.models.capture.mode import Capture
from attnflow.models.capture.spec import CaptureSpec

MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
SHAPES = {
    "MiniLM, 16 × 32": (MINILM, 16, 32),
    "MiniLM, 4 × 128": (MINILM, 4, 128),
    "MiniLM, 1 × 512": (MINILM, 1, 512),
    "BERT-base, 8 × 128": ({}, 8, 128),
    "BERT-base, 1 × 512": ({}, 1, 512),
}
ROUNDS = 9


def build(options: dict[str, int], attention: str) -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(**options, num_attention_heads=12)
    return BertModel._from_config(config, attn_implementation=attention).eval()


def mean_heads(attention: torch.Tensor) -> torch.Tensor:
    return attention.mean(1)


def overhead(options: dict[str, int], batch: int, length: int) -> dict[str, float]:
    """CPU seconds of each way on one thread: the quickest of interleaved rounds."""
    fused, eager = build(options, "sdpa"), build(options, "eager")
    ids = torch.randint(1000, 30000, (batch, length))
    mask = torch.ones_like(ids)

    def captured(spec: CaptureSpec) -> None:
        with Capture(spec):
            fused(ids, attention_mask=mask)

    ways = {
        "sdpa, nothing read": lambda: fused(ids, attention_mask=mask),
        "eager, output_attentions": lambda: eager(ids, attention_mask=mask, output_attentions=True),
        "captured, heads fused": lambda: captured(CaptureSpec(fuse=mean_heads)),
        "captured, every head": lambda: captured(CaptureSpec()),
    }
    seconds = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                start = time.process_time()
                way()
                seconds[name].append(time.process_time() - start)
    return {name: min(times) for name, times in seconds.items()}


def resident(name: str) -> float:
    """A line of Linux' account of this process's memory, in GiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 2**20


def memory_of(work: Callable[[], object]) -> float:
    """How far the process grows while it works, in GiB."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # or what was freed before would be used without growing
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def memory() -> None:
    """What explaining 512 tokens at MiniLM's shape needs."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({"[UNK]": 0, "word": 1}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, unk_token="[UNK]")
    model = build(MINILM, "sdpa")
    attnflow.explain("word word", (model, tokenizer))  # compile before measuring
    for method in ("rollout", "flow"):
        work = partial(attnflow.explain, "word " * 512, (model, tokenizer), method=method)
        print(f"512 tokens, {method}: {memory_of(work):.2f} GiB beside the model")


def main() -> None:
    memory()
    torch.set_num_threads(1)  # CPU seconds of one thread are the same beside other work
    print(f"{'shape':20} {'way':26} {'CPU s':>8} {'of eager':>9}")
    for name, shape in SHAPES.items():
        seconds = overhead(*shape)
        eager = seconds["eager, output_attentions"]
        for way, value in seconds.items():
            print(f"{name:20} {way:26} {value:8.3f} {value / eager:8.2f}×")


if __name__ == "__main__":
    main()
