"""``attnflow bench``: attention flow against other libraries, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from attnflow.cli import options

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Save the page to a file.",
        show_default=False,
        rich_help_panel="Output",
    ),
]

Device = Annotated[
    Literal["cpu", "cuda"],
    typer.Option("--device", help="Where flow is solved: cuda is a GPU, with attnflow[cuda]."),
]


def bench(*, device: Device = "cpu", output: Output = None, force: options.Force = False) -> None:
    """Measure attention flow against maximum-flow libraries; this takes minutes.

    Example: attnflow bench -o benchmark.md
    """
    from rich.console import Console

    from attnflow_experiments.bench import run
    from attnflow_experiments.pages import show_page

    console = Console(stderr=True)
    with console.status("measuring") as status:
        page = run(
            device=device,
            write=output,
            overwrite=force,
            report=lambda label: status.update(f"measuring: {label}"),
        )
    show_page(page)
