"""Run all measurements and write them as a page of Markdown."""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from pathlib import Path

import numpy as np

from attnflow.io.files import check_target, write_file
from attnflow.solvers.execution import Execution, cores
from attnflow_experiments.bench import cases

PACKAGES = ("attnflow", "numpy", "numba", "torch", "scipy", "ortools", "igraph", "networkx")

NEXT = "**Next**: [how flow is solved](flow.md), [what an explanation costs](costs.md).\n"


def run(
    *,
    device: str = "cpu",
    write: Path | None = None,
    overwrite: bool = False,
    report: cases.Report = print,
) -> str:
    """Measure everything (some minutes) and return the page; ``write`` also saves it to a file.

    ``device`` is where attnflow solves, ``"cpu"`` or ``"cuda"``; the libraries are on the CPU.

    Raises:
        MissingExtra: The device can't be used here.
    """
    Execution(device=device)  # which refuses it before anything is measured
    if write is not None:
        check_target(write, overwrite=overwrite)
    parts = [_introduction(device)]
    for title, measure in (
        ("Against maximum-flow libraries", cases.measure_libraries),
        ("Against a forward pass", cases.measure_forward_pass),
        ("Long texts", cases.measure_long_texts),
        ("Rollout", cases.measure_rollout),
    ):
        parts.append(f"## {title}\n\n{_table(list(measure(report, device)))}")
    parts += [_growth(report, device), NEXT]
    page = "\n".join(parts)
    if write is not None:
        write_file(write, page.encode())
    return page


def _introduction(device: str) -> str:
    on_gpu = device == "cuda"
    command = "attnflow bench --device cuda" if on_gpu else "attnflow bench"
    times = "Times are processor seconds, those of all threads added up."
    if on_gpu:
        times = f"attnflow runs on the GPU, {_gpu()}; the libraries' times are processor seconds."
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return f"""# How fast attention flow is

Written by `{command} -o docs/benchmarks.md` on {datetime.date.today():%Y-%m-%d}; run it to repeat
all measurements. This is flow on *attention*, as in the paper, because its graphs are those that
other libraries can solve, too; [how flow is solved](flow.md#speed) has flow on relevance.

All solvers get the same problems in the same run, and their values are compared. Libraries
build their graphs beforehand, and only solving is timed. Where a library would take long, it solves
a random sample of the pairs, and its time is scaled to all of them. *Real* is all-MiniLM-L6-v2's
attention on a text that comes with the benchmark, *random* is drawn from a Dirichlet distribution,
and *decoder* is made-up attention to the first token, to neighbours and at random.

{times} The best of several runs counts.

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


def _growth(report: cases.Report, device: str) -> str:
    rows = list(cases.measure_growth(report, device))
    most = max(len(values) for _, values, _ in rows)
    lines = [
        "## Growth\n",
        "Times for CLS, all sinks and all layers, unless another source is named, and the exponent",
        "e of the fitted power law.\n",
        f"| what grows |{' |' * most} e |",
        f"|---|{'---|' * most}---|",
    ]
    for label, values, times in rows:
        exponent = np.polyfit(np.log(values), np.log(times), 1)[0]
        cells = [f"{n}: {_seconds(t)}" for n, t in zip(values, times, strict=True)]
        cells += [""] * (most - len(cells))
        lines.append(f"| {label} | {' | '.join(cells)} | {exponent:.1f} |")
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


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
