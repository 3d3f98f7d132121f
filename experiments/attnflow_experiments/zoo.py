"""Build every model type of transformers small, and sort it: `python -m attnflow_experiments.zoo`.

Writes docs/zoo.md, and fails where a class is neither exact nor refused nor broken, or was not
built. Batches run in processes of their own: a class that crashes or hangs does not end the others.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
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


def run(batch: list[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Sort a batch; what does not come back is tried alone."""
    lines = "\n".join(json.dumps(each) for each in batch)
    command = [sys.executable, "-m", "attnflow_experiments.zoo", "--work"]
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


TITLES = {
    "exact": "Exact: captured attention, rollout and flow are those of eager attention to 1e-5",
    "refused": "Refused by name, with the reason",
    "broken": "Their own forward pass fails on a text, an image or a sound, or contradicts itself",
}


def page(found: list[dict[str, Any]], made: str) -> str:
    """The table as Markdown; ``made`` says when."""
    import torch
    import transformers

    counts = Counter(each["found"] for each in found)
    lines = [
        "# The zoo: every model type of transformers",
        "",
        "`python -m attnflow_experiments.zoo` wrote this with transformers "
        f"{transformers.__version__} and torch {torch.__version__}: {len(found)} "
        "classes, built small from their configurations with random weights. Every class is in one "
        "of three groups, and none is left out.",
        "",
        made,
        "",
        "For every exact one, an input in a list and in a thread gives what it gives alone, and an "
        "encoder–decoder's own answer is explained as it was generated. Of models of two towers "
        "both are exact. A class that needs a package which is not here is refused, as loading it "
        "is. A class marked ~ mixes "
        "tokens outside attention too, or could not be checked for that: its results carry a "
        "warning, and `strict=True` refuses it. "
        "Classes that are refused, or whose forward pass fails, end in an error of attnflow that "
        "names them.",
        "",
        "| | classes |",
        "|---|---|",
        *(f"| {kind} | {counts[kind]} |" for kind in TITLES),
    ]
    for kind, title in TITLES.items():
        lines += ["", f"## {title}", "", "| task | class | |", "|---|---|---|"]
        lines += [
            f"| {each['task']} | {each['name']}{' ~' if each['warnings'] else ''} | "
            f"{each['why'].replace('|', '/').replace('[', '(').replace(']', ')')[:160]} |"
            for each in sorted(found, key=lambda v: (v["task"], v["name"]))
            if each["found"] == kind
        ]
    lines += ["", "**Next**: [models and inputs](models.md)."]
    return "\n".join(lines) + "\n"


def read(text: str) -> list[dict[str, Any]]:
    """The verdicts of a table, without the types."""
    found = []
    for kind, part in zip(TITLES, text.split("\n## ")[1:], strict=bool(text)):
        for row in re.findall(r"^\| (\w+) \| (\w+)( ~)? \| (.*) \|$", part, re.M):
            task, name, mark, why = row
            if name != "class":
                warned = [mark] if mark else []
                found.append(
                    {"task": task, "name": name, "found": kind, "why": why, "warnings": warned}
                )
    return found


LATER = re.compile(r"of them made anew later: (.*)\.$", re.M)


def when(count: int, anew: list[str], before: str) -> str:
    """The sentence that says which rows are of one run and which were made anew after it."""
    if not before:
        return f"All {count} rows were made in one run, on {date.today().isoformat()}."
    first = re.search(r"^All .* on ([\d-]+)", before, re.M)
    earlier = LATER.search(before)
    names = sorted({*anew, *(earlier[1].split(", ") if earlier else ())})
    return (
        f"All {count} rows were made in one run, on {first[1] if first else 'an earlier day'}, "
        f"and {len(names)} of them made anew later: {', '.join(names)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--only", help="tasks, types or classes, separated by commas: these rows are made anew"
    )
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
    wrong = [each for each in found if each["found"] not in TITLES]
    for each in wrong:
        print(each, file=sys.stderr)
    if not wrong:
        table = ROOT / "docs" / "zoo.md"
        before = table.read_text(encoding="utf-8") if options.only else ""
        anew = {each["name"] for each in found}
        found += [each for each in read(before) if each["name"] not in anew]
        made = when(len(found), sorted(anew), before)
        table.write_text(page(found, made), encoding="utf-8")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
