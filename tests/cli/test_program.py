"""The program as a whole: help, version, errors, exit codes, how quickly it starts."""

import os
import re
import runpy
import subprocess
import sys

import pytest
from rich.cells import cell_len

import attnflow
from attnflow.cli import app
from attnflow.models import loading

COMMANDS = ["explain", "compare", "routes", "figure", "serve", "bench", "reproduce", "train"]


def test_help_lists_the_commands_in_order(run):
    ran = run("--help")
    assert ran.code == 0
    places = [ran.out.index(f"\n  {command} ") for command in COMMANDS]
    assert places == sorted(places)


def test_no_arguments_show_help(run):
    assert run().out == run("--help").out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_of_each_command_fits_the_terminal(command, columns, run):
    ran = run(command, "-h", columns=columns)
    assert ran.code == 0
    assert "Example: attnflow" in " ".join(ran.out.split())
    assert "<str>" not in ran.out
    assert not re.search(r"x[<>]=|\{[A-Z]", ran.out)
    assert "[default: (" not in " ".join(ran.out.split())
    assert columns < 80 or max(map(cell_len, ran.out.splitlines())) <= columns


def test_version(run):
    assert run("--version").out == f"attnflow {attnflow.__version__}\n"


def test_help_loads_nothing_heavy():
    """Pydantic is typer's own; it would double the time until a page is there."""
    heavy = ["torch", "numba", "matplotlib", "transformers", "numpy", "rich.console", "fastapi"]
    heavy += ["pydantic", "pyarrow", "huggingface_hub", "tqdm"]
    code = f"""
import sys, typer
from attnflow.cli.app import app, run
commands = list(typer.main.get_command(app).commands)
for asked in (["--help"], *([name, flag] for name in commands for flag in ("--help", "-h"))):
    assert run(asked) == 0
print(len(commands), [name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{len(app.app.registered_commands)} []"


@pytest.mark.parametrize("arguments", [["--help"], *([name, "-h"] for name in COMMANDS)])
def test_help_is_the_page_that_parsing_gives(arguments, run):
    written = run(*arguments).out
    # A second flag is parsed, by typer itself.
    assert run(*arguments, "--help").out == written
    assert written.startswith("Usage: attnflow")


DIFFERENT = (
    *("--top", "--to", "--heads", "--output", "--steps", "--workers", "--device", "--data"),
    "--replacement",  # of fit and evaluate, which have others
    *("--answer", "--generate", "--layers", "--save"),  # of knockout: what is measured, or removed
    "--html",  # of steps, whose page is another one
)


def test_same_option_has_the_same_help_everywhere():
    import typer

    program = typer.main.get_command(app.app)
    seen = {}
    for command in program.commands.values():
        for parameter in command.params:
            for name in parameter.opts:
                if name.startswith("--") and name not in DIFFERENT:
                    assert seen.setdefault(name, parameter.help) == parameter.help, name
    assert {"--model", "--json", "--layer", "--force"} <= set(seen)


def test_same_letter_is_the_same_option_everywhere():
    import typer

    names = {}
    for command in typer.main.get_command(app.app).commands.values():
        for parameter in command.params:
            short = [name for name in parameter.opts if len(name) == 2]
            for name in short:
                assert names.setdefault(name, parameter.opts) == parameter.opts
    assert names["-o"] == ["--output", "-o"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explian"], "Did you mean 'explain'? See attnflow --help"),
        (["explain", "x", "--top", "-1"], "not '-1'"),
        (["explain", "x", "--zzzz"], "No such option: --zzzz. See"),
        (["explain", "x", "--modle", "y"], "No such option: --modle. Did you mean --model? See"),
        (["explain", "x", "--residual", "a"], "not 'a'"),
        (["compare", "the", "keys"], "in quotes"),
        (["explain", "x", "--save", "."], ". is a folder; name a file in it"),
        (["explain", "x", "-m", "no-such-model"], "'no-such-model' is not a folder here; the hub"),
        (["figure", "image", "x.png", "-o", "x.svg"], "needs a vision model"),
        (["serve", "--host", "no host"], "choose another --host"),
        (["serve", "--host", "192.0.2.1"], "choose another --host"),
        (["explain", "x", "--layer", "top"], "'top'"),
        (
            ["explain", "x", "--method", "magic"],
            "method='magic' is unknown; allowed: raw, rollout, flow",
        ),
        (["explain", "x", "--heads", "all"], "mean, each, numbers"),
        (["explain", "x", "--model", "/no/such/folder"], "/no/such/folder"),
        (["explain", "x", "--file", "y"], "not both"),
        (["explain", "--file", "/no/such/file"], "/no/such/file"),
        (["explain", " "], "no text"),
        (["explain", "x", "--save", "x.html", "--html", "x.html"], "a file of its own"),
        (["routes", "x"], "--to"),
        (["routes", "x", "--to", "x", "--heads", "each"], "heads are merged"),
        (["figure", "heads", "x", "-o", "x.svg", "--to", "x"], "--to is not for heads"),
        (["figure", "heatmap", "x", "-o", "x.svg", "--pronoun", "his"], "it is for pronouns"),
        (["figure", "pronouns", "x", "-o", "x.svg", "--candidate", "x"], "at least twice"),
        (["figure", "graph", "x", "-o", "x.svg", "--to", "x", "--words"], "leave out --words"),
        (["figure", "heatmap", "x", "-o", "x.svg", "--threshold", "0"], "it is for graph"),
        (["figure", "map", "x", "-o", "x.svg"], "heatmap"),
        (["figure", "heatmap", "x", "-o", "x.gif"], ".svg"),
        (["figure", "heatmap", "x", "-o", "x.svg", "--threshold", "0.1"], "--threshold"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, run):
    ran = run(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("attnflow: ")
    assert said in ran.err


def test_unforeseen_failure_is_one_line_and_exit_code_1(run, monkeypatch):
    monkeypatch.setattr(loading, "load_model", lambda _: 1 / 0)
    ran = run("explain", "x")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "division by zero" in ran.err
    assert "--debug" in ran.err


def test_debug_adds_the_traceback(run, monkeypatch):
    monkeypatch.setenv("ATTNFLOW_DEBUG", "")  # so that what the program sets is taken back
    ran = run("--debug", "explain", " ")
    assert ran.code == 2
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("attnflow: no text")


def test_interrupt_is_exit_code_130(run, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "load_model", interrupted)
    ran = run("explain", "x")
    assert (ran.code, ran.err) == (130, "attnflow: stopped\n")


def test_completion_knows_commands_and_options(process):
    for typed, offered in (("attnflow ro", "routes"), ("attnflow explain --mo", "--model")):
        ran = process(
            _ATTNFLOW_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=str(typed.count(" "))
        )
        assert offered in ran.out.split()


def test_reader_that_stops_early_causes_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "attnflow", "explain", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "is not UTF-8 text (byte 0)"),
        (b" \n\n", "holds no text"),
        (b"", "holds no text"),
    ],
)
def test_a_file_and_standard_input_that_hold_no_text_are_named(content, said, run, stdin, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_bytes(content)
    ran = run("explain", "--file", file)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"{file} {said}" in ran.err
    stdin(content)
    ran = run("explain")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"standard input {said}" in ran.err


def test_docs_page_is_what_the_program_says(pytestconfig):
    script = pytestconfig.rootpath / "scripts" / "write-cli-docs"
    page = pytestconfig.rootpath / "docs" / "cli.md"
    current = runpy.run_path(str(script))["reference"]()
    assert page.read_text(encoding="utf-8") == current, "run scripts/write-cli-docs"
