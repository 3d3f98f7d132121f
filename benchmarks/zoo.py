"""Build every model type of transformers small, and sort it: `python benchmarks/zoo.py`.

Writes docs/zoo.md. Each batch of classes runs in a process of its own, with a time limit: a class
that crashes or hangs ends in no class of its own.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
BATCH, SECONDS = 60, 60 * 30
EACH = 60  # seconds for one class


def work() -> None:
    """Sort the classes that standard input names, a line of JSON each."""
    logging.disable(logging.WARNING)
    import torch

    from zoo.sorting import as_data, sort

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # no error that anything catches
    for line in sys.stdin:
        signal.alarm(EACH)
        print(json.dumps(as_data(sort(*json.loads(line)))), flush=True)


def run(batch: list[tuple[str, str, str]]) -> list[dict[str, str]]:
    """Sort a batch; what does not come back is tried alone."""
    lines = "\n".join(json.dumps(each) for each in batch)
    command = [sys.executable, __file__, "--work"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        out, _ = process.communicate(lines, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    print(".", end="", flush=True, file=sys.stderr)
    rest = batch[len(found) :]
    if not rest:
        return found
    if len(batch) == 1:
        task, kind, name = batch[0]
        why = f"no result within {EACH} seconds (exit {process.returncode})"
        return [
            {
                "task": task,
                "kind": kind,
                "name": name,
                "found": "unbuilt",
                "why": why,
                "warnings": [],
            }
        ]
    return found + run(rest[:1]) + (run(rest[1:]) if rest[1:] else [])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="tasks, types or classes, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where to write all verdicts")
    options = parser.parse_args()
    if options.work:
        work()
        return
    from zoo.kinds import classes

    every = list(classes())
    if options.only:
        wanted = set(options.only.split(","))
        every = [each for each in every if wanted & set(each)]
    batches = [every[at : at + BATCH] for at in range(0, len(every), BATCH)]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = [verdict for part in pool.map(run, batches) for verdict in part]
    print(Counter(each["found"] for each in found), file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
