"""Runs the code of docs/coming-from.md, that of the other tools too, and measures each statement.

    pip install captum inseq shap bertviz context-cite transformer-lens
    OMP_NUM_THREADS=1 python -m attnflow_experiments.peers docs/coming-from.md SMOLLM [SECTION …]

SMOLLM is a folder with SmolLM2-135M-Instruct. Printed are processor seconds of every statement
that takes a millisecond or more: the median of five runs after one that is not counted, or of those
that begin within 30 seconds.

ContextCite cuts sentences with data of NLTK's that are downloaded. Nothing is downloaded here:
where they are missing, sentences end at full stops.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import attnflow

RUNS = 5
LEAST = 0.001  # seconds
PATIENCE = 30  # seconds


def sections(page: str) -> dict[str, list[str]]:
    """By heading, the blocks of Python below it."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", "Start\n" + page, flags=re.MULTILINE):
        heading, _, text = part.partition("\n")
        found[heading] = re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return found


def measure(code: str, names: dict[str, Any]) -> None:
    """Run the code several times over, and print what its statements take."""
    statements = ast.parse(code).body
    taken: list[list[float]] = [[] for _ in statements]
    begun = time.process_time()
    while len(taken[0]) <= RUNS and time.process_time() < begun + PATIENCE:
        for statement, seconds in zip(statements, taken, strict=True):
            compiled = compile(ast.Module([statement], []), "page", "exec")
            start = time.process_time()
            exec(compiled, names)
            seconds.append(time.process_time() - start)
    for statement, (first, *later) in zip(statements, taken, strict=True):
        if (median := statistics.median(later or [first])) >= LEAST:
            print(f"{median:7.3f} s  {ast.unparse(statement)[:100]}", flush=True)


def without_downloads() -> None:
    """Keep NLTK, which ContextCite asks for its data, from downloading them."""
    import nltk

    nltk.download = lambda *_, **__: False
    try:
        nltk.sent_tokenize("It is. It was.")
    except LookupError:
        nltk.sent_tokenize = lambda text: re.split(r"(?<=\.)\s+", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("smollm", help="a folder with SmolLM2-135M-Instruct")
    parser.add_argument("section", nargs="*", help="only these")
    given = parser.parse_args()
    start, *rest = sections(given.page.read_text(encoding="utf-8")).items()
    names: dict[str, Any] = {"name": given.smollm}
    for code in start[1]:
        exec(code, names)
    names["writer"] = attnflow.load_model(given.smollm)
    for heading, blocks in rest:
        if blocks and (not given.section or heading in given.section):
            print(f"\n{heading}", file=sys.stdout)
            if heading == "ContextCite":
                without_downloads()
            for code in blocks:
                measure(code, names)


if __name__ == "__main__":
    main()
