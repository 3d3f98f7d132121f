"""How fast runs are beside the model's bare forward passes, and how much memory they take.

.venv/bin/python benchmarks/runs.py --model FOLDER --input dev.tsv --column sentence --rows 2000

Prints rows a second of bare forward passes (the same batches of similar length, nothing captured,
one process for each core) and of `attnflow run` with as many workers, and the largest memory of a
process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

BATCH = 16


def forward(model: str, texts: list[str], results: object) -> None:
    """Forward passes alone, of texts sorted by length."""
    import torch
    from transformers import AutoTokenizer

    import attnflow

    torch.set_num_threads(1)
    network = attnflow.load_model(model).network
    tokenizer = AutoTokenizer.from_pretrained(model)

    def passes(texts: list[str]) -> None:
        ids = sorted(tokenizer(texts)["input_ids"], key=len, reverse=True)
        for start in range(0, len(ids), BATCH):
            batch = tokenizer.pad({"input_ids": ids[start : start + BATCH]}, return_tensors="pt")
            with torch.no_grad():
                network(**batch)

    passes(texts[: 2 * BATCH])
    started = time.perf_counter()
    passes(texts)
    results.put(time.perf_counter() - started)


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
    given = parser.parse_args()
    import attnflow
    from attnflow.io.rows import Columns, open_rows

    rows = open_rows(given.input, Columns(given.column)).read()
    texts = [row.text for row in islice(rows, given.rows) if row.error is None] * given.times
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
