"""A new kind of figure: registered once, it is drawn by its name wherever figures are.

The server and the page draw with the page's own code, so that a figure has no place there.
"""

import numpy as np
import pytest

import attnflow
from attnflow.cli.app import run
from attnflow.views.kinds import KINDS, Kind

TEXT = "the keys to the cabinet"
VERBS = ("--model", "verbs")


@pytest.fixture
def kind():
    """A dummy kind of figure, there for one test."""

    def draw(ax, attribution, theme, *, values=False):
        ax.plot(attribution.values, "o")
        ax.set_title(f"{attribution.method}, values={values}")

    KINDS.register(Kind("dummy", draw, lambda attribution, **_: (3.0, 2.0)))
    yield "dummy"
    KINDS.unregister("dummy")


def test_a_call_draws_it(kind):
    found = attnflow.explain(TEXT, "verbs", method="rollout")
    drawn = found.figure(kind, values=True)
    assert drawn.get_title() == "rollout, values=True"
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), found.values)


def test_the_command_draws_it(kind, tmp_path, capsys):
    file = tmp_path / "figure.svg"
    arguments = ["figure", kind, TEXT, *VERBS, "--method", "rollout", "--values"]
    assert run([*arguments, "-o", str(file)]) == 0
    assert file.stat().st_size
    assert run(["figure", "nothing", TEXT, *VERBS, "-o", str(file), "--force"]) == 2
    assert kind in capsys.readouterr().err


def test_it_draws_what_a_run_has_saved(kind, tmp_path):
    (made,) = attnflow.run([TEXT], tmp_path / "run", "verbs", methods="rollout")
    drawn = made.figure(kind)
    assert drawn.get_title() == "rollout, values=False"
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), made.values)
