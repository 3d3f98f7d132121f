"""What explaining an answer of a large model takes on a GPU, in its own forward passes.

    python -m attnflow_experiments.large_models [--output FOLDER] [--only 8B:2048,…]
        [--seconds 120] [--small]

Llamas of the shapes of a 1B and an 8B model, with random weights in bfloat16, read four documents
and a question and have said sixteen tokens. A *forward pass* is a bare call of the network on the
same tokens in the same process. Seconds are the best of several runs after one that compiles; GPU
memory is the most that was allocated, weights included, host memory how far the process grew.

Beside it: the same answer explained on the CPU, with the exact solver there; how near flow that is
solved where the relevance is comes to that solver; and what bfloat16 changes. Each row is written
to the folder when it is there, as JSON and as Markdown; one that takes longer than it may is given
up, and the others go on. `--small` has small shapes, to try it out anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import attnflow
from attnflow.methods import relevance_flow
from attnflow.models.capture import backward, run, towards
from attnflow.models.capture.backward import EdgeReading
from attnflow.pipeline import generation
from attnflow.solvers import temporal
from attnflow.solvers.bounded import BoundedNetwork

GIB = 2**30
ANSWER = 16
QUESTION = 24
WORDS = 4000
SHAPES = {  # width, layers, heads, heads of keys, width within
    "0.1B": (768, 12, 12, 4, 2048),
    "1B": (2048, 16, 32, 8, 8192),
    "8B": (4096, 32, 32, 8, 14336),
}
SMALL = {"0.1B": (32, 3, 4, 2, 64), "1B": (64, 4, 4, 2, 128), "8B": (128, 6, 4, 2, 256)}


@dataclass(frozen=True)
class Row:
    """One measurement."""

    shape: str
    tokens: int
    what: str = "default"
    goal: float | None = None  # in forward passes

    @property
    def options(self) -> dict[str, Any]:
        """Those of `explain_answer`."""
        found: dict[str, Any] = {"deletions": False}
        if self.what == "four documents":
            found["parts_only"] = True
        if self.what == "with deletions":
            found.pop("deletions")
        return found


ROWS = (  # what is short and matters first
    Row("0.1B", 512, "beside the CPU"),
    Row("8B", 2048, goal=4),
    Row("8B", 8192, goal=5),
    Row("8B", 8192, "four documents", goal=10),
    Row("8B", 2048, "four documents"),
    Row("8B", 2048, "with deletions"),
    Row("1B", 2048),
    Row("1B", 8192),
    Row("1B", 2048, "bfloat16"),
    Row("1B", 32768),
    Row("1B", 32768, "four documents"),
    Row("8B", 16384),
    Row("1B", 2048, "agreement"),
)


def name_of(number: int) -> str:
    """A word of letters alone."""
    letters = "abcdefghijklmnopqrst"
    return "".join(letters[number // 20**place % 20] for place in range(4))


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word."""
    words = {"<unknown>": 0, "<padding>": 1, "<end>": 2}  # in no other word
    words |= {name_of(number): number + 3 for number in range(WORDS)}
    core = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unknown>",
        pad_token="<padding>",
        eos_token="<end>",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def make_network(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> Any:
    """A Llama with random weights, made where it runs."""
    hidden, layers, heads, groups, inner = shape
    config = LlamaConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        intermediate_size=inner,
        vocab_size=128256 if hidden > 1000 else 4003,
        max_position_embeddings=65536,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            network = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return network.eval().requires_grad_(False)


def text_of(tokens: int) -> tuple[dict[str, str], str]:
    """Four documents and a question, and an answer; all of them have so many tokens."""
    drawn = iter(np.random.default_rng(tokens).integers(0, WORDS, tokens))

    def words(count: int) -> str:
        return " ".join(name_of(int(next(drawn))) for _ in range(count))

    left = tokens - ANSWER - QUESTION
    sizes = [left // 4] * 3 + [left - left // 4 * 3]
    prompt = {f"document {number}": words(size) for number, size in enumerate(sizes, 1)}
    prompt["question"] = words(QUESTION)
    return prompt, " " + words(ANSWER)


class Measured:
    """What a piece of work took at most."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds: list[float] = []
        self.gpu = 0.0
        self.host = 0.0

    def run(self, work: Callable[[], Any], times: int) -> Any:
        """Run it once, and then so many times with a clock."""
        found = work()
        wait_for(self.device)
        if self.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        with self._growth():
            for _ in range(times):
                wait_for(self.device)
                start = time.perf_counter()
                found = None  # what it holds is not needed any more
                found = work()
                wait_for(self.device)
                self.seconds.append(time.perf_counter() - start)
        if self.device == "cuda":
            self.gpu = torch.cuda.max_memory_allocated() / GIB
        return found

    @contextmanager
    def _growth(self) -> Iterator[None]:
        """Watch how much memory the process has."""
        before, most, over = resident(), [0.0], threading.Event()

        def watch() -> None:
            while not over.wait(0.005):
                most[0] = max(most[0], resident())

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            self.host = max(most[0], resident()) - before


def resident() -> float:
    """The process's memory, GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / GIB


STAGES = (
    (generation, "read_parts", "reading the prompt"),
    (generation, "write_behind", "reading the answer"),
    (generation, "open_answer", "passes"),
    (towards, "run_backward", "passes: forward"),
    (run, "called", "passes: in the model"),
    (EdgeReading, "backward", "passes: backward"),
    (relevance_flow, "score", "flow"),
    (BoundedNetwork, "__init__", "flow: what can arrive"),
    (BoundedNetwork, "_bounds_of_tokens", "flow: all tokens"),
    (BoundedNetwork, "_bounds_by_pulling", "flow: pulling"),
    (BoundedNetwork, "_search", "flow: searching"),
)


@contextmanager
def stages_timed(device: str, into: dict[str, float]) -> Iterator[None]:
    """Add up what each stage takes."""

    def timed(work: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            wait_for(device)
            start = time.perf_counter()
            found = work(*args, **kwargs)
            wait_for(device)
            into[name] = into.get(name, 0.0) + time.perf_counter() - start
            return found

        return run

    before = [getattr(owner, function) for owner, function, _ in STAGES]
    for (owner, function, name), work in zip(STAGES, before, strict=True):
        setattr(owner, function, timed(work, name))
    try:
        yield
    finally:
        for (owner, function, _), work in zip(STAGES, before, strict=True):
            setattr(owner, function, work)


def wait_for(device: str) -> None:
    """Until all that was started is done."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Give up what takes longer."""

    def give_up(*_: Any) -> None:
        msg = f"it took more than {seconds} s"
        raise TimeoutError(msg)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Bench:
    """A network at a time, and what is measured with it."""

    def __init__(self, device: str, small: bool) -> None:
        self.device = device
        self.shapes = SMALL if small else SHAPES
        self.small = small
        self.tokenizer = make_tokenizer()
        self.shape = ""
        self.network: Any = None
        self.forwards: dict[tuple[str, int], float] = {}

    def measure(self, row: Row) -> dict[str, Any]:
        """One row."""
        if row.shape != self.shape:
            self.network, self.shape = None, ""
            if self.device == "cuda":
                torch.cuda.empty_cache()
            shape = self.shapes[row.shape]
            self.network = make_network(shape, self.device, torch.bfloat16)
            self.shape = row.shape
        if row.what == "beside the CPU":
            return self.beside(row)
        if row.what == "agreement":
            return self.agreement(row)
        if row.what == "bfloat16":
            return self.half(row)
        prompt, answer = text_of(row.tokens)
        model = attnflow.load_model((self.network, self.tokenizer))
        weights = sum(each.nbytes for each in self.network.parameters()) / GIB
        forward = self.forward(row)
        measured, stages = Measured(self.device), dict[str, float]()

        def explain() -> Any:
            return attnflow.explain_answer(prompt, model, answer=answer, **row.options)

        found = measured.run(explain, 2 if row.tokens > 10000 else 4)
        with stages_timed(self.device, stages):
            explain()
        statistics = {
            name: each for name, each in found.statistics.items() if isinstance(each, int | float)
        }
        return {
            "read": len(found.tokens),
            "forward_s": forward,
            "seconds": measured.seconds,
            "passes": min(measured.seconds) / forward,
            "goal": row.goal,
            "stages": {name: each / forward for name, each in stages.items()},
            "weights_gib": weights,
            "gpu_gib": measured.gpu,
            "gpu_by_weights": measured.gpu / weights,
            "host_gib": measured.host,
            "statistics": statistics,
        }

    def forward(self, row: Row) -> float:
        """Seconds of a forward pass."""
        key = row.shape, row.tokens
        if key not in self.forwards:
            prompt, answer = text_of(row.tokens)
            text = "\n\n".join(prompt.values()) + answer
            ids = self.tokenizer(text, return_tensors="pt")["input_ids"].to(self.device)
            measured = Measured(self.device)
            with torch.inference_mode():
                measured.run(lambda: self.network(ids, use_cache=False, logits_to_keep=1), 5)
            self.forwards[key] = min(measured.seconds)
        return self.forwards[key]

    def agreement(self, row: Row) -> dict[str, Any]:
        """Flow where the relevance is, beside the CPU's exact solver, for tokens and documents."""
        prompt, answer = text_of(row.tokens)
        model = attnflow.load_model((self.network, self.tokenizer))
        graphs: list[Any] = []
        score = relevance_flow.score

        def kept(graph: Any, relevance: Any, selection: Any, execution: Any) -> Any:
            graphs.append((graph.weights, relevance_flow.read_at(relevance, selection.queries)))
            return score(graph, relevance, selection, execution)

        relevance_flow.score = kept  # type: ignore[assignment]
        try:
            attnflow.explain_answer(prompt, model, answer=answer, deletions=False)
        finally:
            relevance_flow.score = score
        weights, sources = graphs[0]
        weights = getattr(weights, "given", weights)
        size = int(weights[0].shape[-1])
        rest = [(at,) for at in range(size) if at not in sources]
        quarter = len(rest) // 4
        parts = [
            tuple(at for (at,) in rest[start : start + quarter])
            for start in range(0, 4 * quarter, quarter)
        ]
        found: dict[str, Any] = {}
        for sign, name in ((1.0, "for"), (-1.0, "against")):
            amounts = np.maximum([sign * each.double().cpu().numpy() for each in weights], 0.0)
            network = temporal.prepare(amounts, sources)
            near = BoundedNetwork(weights, sources, sign)
            for kind, sinks in (("tokens", rest), ("parts", parts)):
                start = time.perf_counter()
                flows = near.solve(sinks)
                seconds = time.perf_counter() - start
                exact = network.solve(sinks).values
                largest = float(exact.max())
                found[f"{name}, {kind}"] = {
                    "largest": largest,
                    "off": float(np.abs(flows.upper - exact).max() / largest),
                    "flow_off": float(np.abs(flows.values - exact).max() / largest),
                    "outside_bounds": float(
                        np.maximum(flows.values - exact, exact - flows.upper).max() / largest
                    ),
                    "seconds": seconds,
                    **flows.statistics,
                }
        return found

    def beside(self, row: Row) -> dict[str, Any]:
        """An answer explained here, also in bfloat16, and on the CPU, which solves flow exactly."""
        prompt, answer = text_of(row.tokens)

        def explained() -> tuple[Any, Any]:
            model = attnflow.load_model((self.network, self.tokenizer))
            found = attnflow.explain_answer(prompt, model, answer=answer, deletions=False)
            assert found.scores is not None
            return found.scores, found.part_scores

        limits = backward.LARGE, relevance_flow.LARGE
        backward.LARGE = relevance_flow.LARGE = 0  # as for long prompts
        try:
            half = explained()
            self.network.float()
            here = explained()
        finally:
            backward.LARGE, relevance_flow.LARGE = limits
        self.network.cpu()
        there = explained()
        self.network, self.shape = None, ""
        return {
            f"{dtype}: {what}": float(np.abs(one - other).max() / np.abs(other).max())
            for dtype, found in (("float32", here), ("bfloat16", half))
            for what, one, other in zip(("tokens", "parts"), found, there, strict=True)
        }

    def half(self, row: Row) -> dict[str, Any]:
        """What bfloat16 changes, beside the same weights in float32."""
        prompt, answer = text_of(row.tokens)
        scores = []
        for dtype in (torch.bfloat16, torch.float32):
            self.network.to(dtype)
            model = attnflow.load_model((self.network, self.tokenizer))
            found = attnflow.explain_answer(prompt, model, answer=answer, deletions=False)
            assert found.scores is not None
            scores.append((found.scores.ravel(), found.part_scores.ravel()))
        self.network, self.shape = None, ""
        (half, half_parts), (full, full_parts) = scores
        ranks = [each.argsort().argsort() for each in (half, full)]
        return {
            "tokens_off": float(np.abs(half - full).max() / np.abs(full).max()),
            "parts_off": float(np.abs(half_parts - full_parts).max() / np.abs(full_parts).max()),
            "rank_correlation": float(np.corrcoef(*ranks)[0, 1]),
        }


def page(results: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| shape | tokens | what | forward pass | passes | of which flow | seconds | GPU GiB "
        "| × weights | host GiB | searched | gap |",
        "|---" * 12 + "|",
    ]
    rest = []
    for row in results:
        head = f"| {row['shape']} | {row['tokens']:,} | {row['what']} |"
        if "passes" not in row:
            rest.append(f"{head}\n\n```\n{row.get('error') or json.dumps(row, indent=1)}\n```\n")
            continue
        known = row["statistics"]
        lines.append(
            f"{head} {row['forward_s']:.3f} s | {row['passes']:.2f} | "
            f"{row['stages'].get('flow', 0):.2f} | "
            f"{min(row['seconds']):.3f} | {row['gpu_gib']:.1f} | {row['gpu_by_weights']:.2f} | "
            f"{row['host_gib']:.2f} | {known.get('searched', '')} | "
            f"{known.get('largest_gap', 0):.1e} |"
        )
    return "\n".join([*lines, "", *rest])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", help="shape:tokens, by commas")
    parser.add_argument("--seconds", type=int, default=120, help="that a row may take")
    parser.add_argument("--small", action="store_true", help="small shapes and short texts")
    given = parser.parse_args()
    rows = list(ROWS)
    if given.only:
        chosen = given.only.split(",")
        rows = [row for row in rows if f"{row.shape}:{row.tokens}" in chosen]
    if given.small:
        rows = [Row(row.shape, row.tokens // 16, row.what, row.goal) for row in rows]
        rows = [row for row in rows if row.tokens < 600]
    results: list[dict[str, Any]] = []
    bench, began = Bench(given.device, given.small), time.perf_counter()
    given.output.mkdir(parents=True, exist_ok=True)
    for row in rows:
        start = time.perf_counter()
        found: dict[str, Any] = {"shape": row.shape, "tokens": row.tokens, "what": row.what}
        try:
            with at_most(given.seconds):
                found |= bench.measure(row)
        except Exception as error:  # noqa: BLE001 - the other rows are measured all the same
            # The traceback holds tensors, which the next row needs the room of.
            found["error"] = f"{type(error).__name__}: {error}"[:2000]
            found["traceback"] = traceback.format_exc()[-4000:]
        if given.device == "cuda":
            torch.cuda.empty_cache()
        found["took_s"] = time.perf_counter() - start
        results.append(found)
        (given.output / "large-models.json").write_text(json.dumps(results, indent=1))
        (given.output / "large-models.md").write_text(page(results))
        known = {name: each for name, each in found.items() if name != "traceback"}
        print(json.dumps(known), flush=True)
        print(found.get("traceback", ""), flush=True)
    print(f"{time.perf_counter() - began:.0f} s\n{page(results)}")


if __name__ == "__main__":
    main()
