"""The program: its commands, and how it ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from attnflow import __version__
from attnflow.cli import (
    cite,
    compare,
    doctor,
    evaluate,
    explain,
    figure,
    fit,
    knockout,
    routes,
    serve,
    similarity,
    steps,
    tour,
)
from attnflow.cli import run as dataset
from attnflow.cli.errors import print_error, usage_message
from attnflow.cli.experiments import add_experiments
from attnflow.cli.help import HELP, Command, Program, find_page
from attnflow.cli.streams import OutputError, discard_output, echo, prepare_streams, prepare_width
from attnflow.errors import AttnflowError, InputError, ModelError

app = typer.Typer(
    name="attnflow",
    help="Which words did a Transformer's output come from, and by which way?",
    context_settings={"help_option_names": list(HELP)},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=Program,
)

app.command(cls=Command, rich_help_panel="Start")(tour.tour)
app.command(cls=Command, rich_help_panel="Start")(doctor.doctor)
EXPLAIN = "Explain a text"
for command in (
    *(explain.explain, cite.cite, compare.compare, routes.routes, knockout.knockout),
    *(steps.steps, similarity.similarity, figure.figure, serve.serve),
):
    app.command(cls=Command, rich_help_panel=EXPLAIN)(command)
app.command(cls=Command, rich_help_panel="Explain a data set")(dataset.run)
MEASURE = "Measure"
app.command(cls=Command, rich_help_panel=MEASURE)(evaluate.evaluate)
app.command(cls=Command, rich_help_panel=MEASURE)(fit.fit)
add_experiments(app, Command)

FAILED = 1
BAD_INPUT = 2
STOPPED = 130


def _show_version(requested: bool) -> None:
    if requested:
        echo(f"attnflow {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if debug:
        os.environ["ATTNFLOW_DEBUG"] = "1"


def main() -> None:
    """Run the program and exit with its code."""
    prepare_streams()
    prepare_width()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the program: 0 when all went well, 2 for bad input, 1 for other failures."""
    try:
        if (page := find_page(app, arguments)) is not None:
            echo(page)
            code = 0
        else:
            given = list(arguments) or ["--help"]
            code = app(given, prog_name="attnflow", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, perhaps `head`, has closed the pipe
        discard_output()
        return FAILED
    except OutputError as error:
        discard_output()
        return _end(str(error), FAILED)
    except KeyboardInterrupt:
        return _end("stopped", STOPPED)
    except (InputError, ModelError) as error:
        return _end(str(error), BAD_INPUT)
    except AttnflowError as error:
        return _end(str(error), FAILED)
    except Exception as error:  # noqa: BLE001 - the program's outermost layer
        return _end_unexpected(error, arguments)
    if code == STOPPED:  # how typer reports Ctrl-C
        print_error("stopped")
    return code if isinstance(code, int) else 0


def _end_unexpected(error: Exception, arguments: Sequence[str]) -> int:
    # typer's own errors, whose classes move between modules from version to version
    if hasattr(error, "format_message"):
        return _end(usage_message(error, arguments), BAD_INPUT)
    if isinstance(error, OSError) and error.filename is not None:
        return _end(f"{error.strerror}: {error.filename}", FAILED)
    what = f"{type(error).__name__}: {error}"
    return _end(
        f"{what} (this is a bug or a broken install: attnflow --debug … shows more)", FAILED
    )


def _end(message: str, code: int) -> int:
    if os.environ.get("ATTNFLOW_DEBUG"):
        traceback.print_exc()
    print_error(message)
    return code
