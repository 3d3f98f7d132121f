"""Run all measurements and write them as a page of Markdown."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from pathlib import Path

import numpy as np

from attnflow.bench import cases
from attnflow.io.files import check_target
from attnflow.solvers.threads import cores

PACKAGES = ("attnflow", "numpy", "numba", "torch", "scipy", "ortools", "igraph", "networkx")


def run(*, write: Path | None = None, overwrite: bool = False, report: cases.Report = print) -> str:
    """Measure everything (some minutes) and return the page; ``write`` also saves it to a file."""
    if write is not None:
        check_target(write, overwrite=overwrite)
    parts = [_introduction()]
    for title, measure in (
        ("Against maximum-flow libraries", cases.measure_libraries),
        ("Against a forward pass", cases.measure_forward_pass),
        ("Long texts", cases.measure_long_texts),
        ("Rollout", cases.measure_rollout),
    ):
        parts.append(f"## {title}\n\n{_table(list(measure(report)))}")
    parts.append(_growth(report))
    page = "\n".join(parts)
    if write is not None:
        write.write_text(page, encoding="utf-8")
    return page


def _introduction() -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return f"""# How fast attention flow is

Written by `attnflow bench -o docs/benchmarks.md` on {datetime.date.today():%Y-%m-%d}; run it
to repeat everything here. attnflow uses all {cores()} cores, the libraries one thread each. All
solve the same maximum-flow problems in the same run, and their values are compared. Only solving is
timed: the libraries' graphs are built beforehand. Where a library would take long it solves a
random sample of the pairs, and its time is scaled to all of them. *Real* is all-MiniLM-L6-v2's
attention on a text of our own, *random* a Dirichlet distribution. Times are the best of several.

Machine: {cores()} cores of {_processor()}. Python {platform.python_version()}, {versions}.
"""


def _table(rows: list[cases.Row]) -> str:
    lines = ["| | attnflow | others | times faster |", "|---|---|---|---|"]
    for row in rows:
        others = "; ".join(
            f"{name}: {_seconds(time) if isinstance(time, float) else time}"
            for name, time in row.others.items()
        )
        ratio = "" if row.ratio is None else _significant(row.ratio)
        lines.append(f"| {row.label} | {_seconds(row.seconds)} | {others} | {ratio} |")
    return "\n".join(lines) + "\n"


def _growth(report: cases.Report) -> str:
    lines = [
        "## Growth\n",
        "Seconds for CLS, all sinks, all layers, and the exponent e of the fitted power law.\n",
        "| what grows | | | | | e |",
        "|---|---|---|---|---|---|",
    ]
    for label, values, times in cases.measure_growth(report):
        exponent = np.polyfit(np.log(values), np.log(times), 1)[0]
        cells = " | ".join(f"{n}: {_seconds(t)}" for n, t in zip(values, times, strict=True))
        lines.append(f"| {label} | {cells} | {exponent:.1f} |")
    return "\n".join(lines) + "\n"


def _seconds(time: float) -> str:
    if time >= 60:
        return f"{time / 60:.0f} min" if time < 6000 else f"{time / 3600:.1f} h"
    return f"{time:.2g} s" if time >= 1 else f"{_significant(time * 1000)} ms"


def _significant(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}" if number >= 1 else f"{number:.2g}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
