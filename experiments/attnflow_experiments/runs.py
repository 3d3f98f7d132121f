"""How fast runs are beside the model's bare forward passes, and how much memory they take.

python -m attnflow_experiments.runs --model FOLDER --input dev.tsv --column sentence --rows 2000

Prints rows a second of bare forward passes (the same batches of similar length, nothing captured,
one process for each core) and of `attnflow run` with as many workers, and the largest memory of a
process. ``--processor-time`` is for machines that others use, too: it prints rows a second of
processor time in one process with one thread, shard by shard in turns.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

BATCH = 16


def forward(model: str, texts: list[str], results: object) -> None:
    """Forward passes alone, of texts sorted by length."""
    import torch
    from transformers import AutoTokenizer

    import attnflow

    torch.set_num_threads(1)
    network = attnflow.load_model(model).network
    tokenizer = AutoTokenizer.from_pretrained(model)
    passes(network, tokenizer, texts[: 2 * BATCH])
    started = time.perf_counter()
    passes(network, tokenizer, texts)
    results.put(time.perf_counter() - started)


def passes(network: Any, tokenizer: Any, texts: list[str]) -> None:
    """The model on all texts, in batches of similar length."""
    import torch

    ids = sorted(tokenizer(texts)["input_ids"], key=len, reverse=True)
    for start in range(0, len(ids), BATCH):
        batch = tokenizer.pad({"input_ids": ids[start : start + BATCH]}, return_tensors="pt")
        with torch.no_grad():
            network(**batch)


def in_turns(model: str, texts: list[str], size: int) -> None:
    """Processor time of forward passes and of shards, of the same rows one after the other."""
    from attnflow.io.rows import Row
    from attnflow.pipeline.choice import usual_methods
    from attnflow.pipeline.request import Request
    from attnflow.runs.work import ShardJob, ShardWorker, Work, fixed_threads

    names = tuple(usual_methods())
    config = Request(
        method=names[0],
        methods=names,
        edges="attention",
        layers="all",
        batch_size=BATCH,
        threads=1,
    )
    worker = ShardWorker(model, Work((config,), 1), [Row(text) for text in texts[:2]])
    spent = {"bare": 0.0, "run": 0.0}

    def shard(texts: list[str]) -> None:
        worker.compute(ShardJob(0, 0, tuple(map(Row, texts)), "", ""), lambda _: None)

    def bare(texts: list[str]) -> None:
        with fixed_threads(1):
            passes(worker.adapter.network, worker.adapter.tokenizer, texts)

    for work in (bare, shard):
        work(texts[: 2 * BATCH])
    for start in range(0, len(texts), size):
        for name, work in (("bare", bare), ("run", shard)):
            before = time.process_time()
            work(texts[start : start + size])
            spent[name] += time.process_time() - before
    for name, seconds in spent.items():
        print(f"{name:5} {len(texts) / seconds:8.1f} rows/s of processor time")
    print(f"share of bare {spent['bare'] / spent['run']:.2f}")


def bare(model: str, texts: list[str], workers: int) -> float:
    """Rows a second of forward passes alone, the slowest process's time."""
    context = get_context("spawn")
    results = context.Queue()
    parts = [texts[each::workers] for each in range(workers)]
    processes = [context.Process(target=forward, args=(model, part, results)) for part in parts]
    for process in processes:
        process.start()
    seconds = max(results.get() for _ in processes)
    for process in processes:
        process.join()
    return len(texts) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shard-size", type=int, default=250)
    parser.add_argument("--times", type=int, default=1, help="go over the input so many times")
    parser.add_argument("--no-bare", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    import attnflow
    from attnflow.io.rows import Columns, open_rows

    rows = open_rows(given.input, Columns(given.column)).read()
    texts = [row.text for row in islice(rows, given.rows) if row.error is None] * given.times
    if given.processor_time:
        in_turns(given.model, texts, given.shard_size)
        return
    if not given.no_bare:
        speed = bare(given.model, texts, given.workers)
        print(f"bare forward passes  {speed:8.1f} rows/s")
    with tempfile.TemporaryDirectory() as folder:
        options = {"layers": "all", "workers": given.workers, "shard_size": given.shard_size}
        options |= {"edges": "attention"}  # with raw, rollout and flow
        # One row for each worker: what starting costs, models loaded and kernels compiled.
        started = time.perf_counter()
        attnflow.run(texts[:2], Path(folder) / "warm", given.model, **options)
        start = time.perf_counter() - started
        started = time.perf_counter()
        run = attnflow.run(texts, Path(folder) / "run", given.model, **options)
        seconds = time.perf_counter() - started
        size = sum(path.stat().st_size for path in run.shards) / len(texts)
    print(f"attnflow run         {len(texts) / (seconds - start):8.1f} rows/s after the start")
    print(f"                     {len(texts) / seconds:8.1f} rows/s with it ({start:.1f} s)")
    if not given.no_bare:
        print(f"share of bare        {len(texts) / (seconds - start) / speed:8.2f}")
    print(f"bytes a row          {size:8.0f}")
    for who, what in ((resource.RUSAGE_SELF, "this process"), (resource.RUSAGE_CHILDREN, "worker")):
        print(f"largest memory       {resource.getrusage(who).ru_maxrss >> 10:8d} MiB, {what}")


if __name__ == "__main__":
    main()
