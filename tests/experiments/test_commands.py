"""The experiments are a package of their own, and their commands say so where it is missing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand

import attnflow
from attnflow.cli import experiments
from attnflow.errors import InputError

ROOT = Path(__file__).parents[2]


def test_both_packages_have_one_version():
    project = tomllib.loads((ROOT / "experiments" / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["version"] == attnflow.__version__


@pytest.mark.parametrize("given", [[], ["--data", "x", "table1"]])
@pytest.mark.parametrize("name", sorted(experiments.ABOUT))
def test_without_the_package_a_command_says_how_to_install_it(monkeypatch, name, given):
    monkeypatch.setattr(experiments, "PACKAGE", "attnflow_not_installed")
    app = typer.Typer()
    experiments.add_experiments(app, TyperCommand)
    with pytest.raises(InputError, match=rf"{name} .*pip install 'attnflow\[experiments\]'"):
        app([name, *given], standalone_mode=False)


def test_the_commands_may_be_the_first_that_is_imported():
    code = "from attnflow_experiments.commands import COMMANDS; print(len(COMMANDS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(len(experiments.ABOUT)), done.stderr


def test_the_commands_that_are_announced_are_those_of_the_package():
    from attnflow_experiments.commands import COMMANDS

    assert {command.__name__ for command in COMMANDS} == set(experiments.ABOUT)
