"""A new metric: registered once, it works by its name wherever methods are compared.

Runs, the server and the page explain inputs and compare no methods, so that a metric has no place
there.
"""

import numpy as np
import pytest

import attnflow
from attnflow import METRICS, Metric
from attnflow.cli.app import run

TEXT = "the keys to the cabinet"
WORDS = 5  # that can be removed


@pytest.fixture
def metric():
    """A dummy metric, there for one test."""
    METRICS.register(Metric("dummy", "Dummy metric", lambda case: float(case.size), higher=True))
    yield "dummy"
    METRICS.unregister("dummy")


@pytest.fixture
def found(metric):
    return attnflow.evaluate([TEXT], "verbs", methods="rollout", metrics=metric)


def test_a_call_measures_it(found, metric):
    (column,) = found.columns
    assert column.metric == metric
    np.testing.assert_array_equal(found.values, WORDS)


def test_the_command_measures_it_and_saves_it(found, metric, tmp_path, capsys):
    rows, saved = tmp_path / "texts.txt", tmp_path / "result.json"
    rows.write_text(f"{TEXT}\n")
    options = ["--model", "verbs", "--method", "rollout", "--metric", metric]
    assert run(["evaluate", str(rows), *options, "--result", str(saved)]) == 0
    assert "Dummy metric" in capsys.readouterr().out
    again = attnflow.Evaluation.load(saved)
    np.testing.assert_array_equal(again.values, found.values)
    assert run(["evaluate", str(rows), "--model", "verbs", "--metric", "nothing"]) == 2
    assert metric in capsys.readouterr().err


def test_the_table_and_the_figure_of_an_evaluation_have_it(found, metric):
    assert "Dummy metric" in found._repr_markdown_()
    drawn = found.figure("ranks", metric=metric)
    assert any("Dummy metric" in each.get_text() for each in drawn.findobj(match=_is_text))


def _is_text(artist):
    return hasattr(artist, "get_text")
