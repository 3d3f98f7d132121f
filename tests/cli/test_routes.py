"""What `attnflow routes` prints: paths, the bottleneck, and what is missing."""

import json
import re

import pytest
from rich.cells import cell_len

import attnflow
from attnflow.views.wording.numbers import number

TEXT = "the keys to the cabinet"


def test_routes_prints_the_paths_and_the_cut(run, folder):
    said = json.loads(run("routes", TEXT, "-m", folder, "--to", "keys", "--json").out)
    expected = attnflow.explain(TEXT, folder).values[2]
    assert (said["options"]["edges"], said["method"]) == ("relevance", "flow")
    size = abs(said["value"])
    assert abs(expected) == pytest.approx(size - said["opposed"], abs=1e-6)
    assert sum(route["amount"] for route in said["routes"]) == pytest.approx(size)
    assert sum(edge["capacity"] for edge in said["cut"]) == pytest.approx(size)
    assert all(route["positions"][0] == 0 for route in said["routes"])
    assert all(route["positions"][-1] == 2 for route in said["routes"])
    shown = run("routes", TEXT, "-m", folder, "--to", "2", "--top", "3").out
    first = said["routes"][0]
    side = "for" if said["value"] > 0 else "against"
    assert f"relevance flow {number(size)} logits from “keys” {side} " in shown
    printed = " ".join(shown.split())
    assert said["summary"] in printed
    assert said["verified"][1:] in printed
    assert said["knockout"]["removed"] == len(said["cut"])
    assert f"{number(first['amount'])} " in shown
    assert re.search(r"█ keys input.* → \[CLS\] ", shown)
    assert f"bottleneck: {len(said['cut'])} edge" in shown


def test_unknown_tokens_are_named_and_shown_as_they_are_written(run):
    said = run("routes", "The music 🎵 is fine.", "--to", "🎵").out
    assert "from “🎵”" in said
    assert "🎵 input" in said
    assert said.count("[UNK]") == 1  # in the note that the model does not know it


def test_routes_merges_layers_a_path_stays_on():
    from attnflow.records import Route
    from attnflow.views.terminal.paths import _path

    parts = _path(Route((0, 1, 1, 2, 2), 0.5), ["[CLS]", "the", "keys"], 0)
    assert [part.plain for part in parts] == ["keys input–1 → ", "the L2–3 → ", "[CLS] L4"]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_routes_fits_the_terminal(run, folder, columns):
    shown = run("routes", TEXT, "-m", folder, "--to", "cabinet", columns=columns).out
    assert max(map(cell_len, shown.splitlines())) <= columns


def test_lines_break_between_things(run):
    """What rich breaks at blanks would tear names and numbers apart."""
    from rich.text import Text

    from attnflow.views.terminal.lines import wrap_parts

    parts = [Text(part) for part in ("钥匙 → 橱柜 0.5, ", "a → b 0.25, ", "and 3 more")]
    assert wrap_parts(parts, 18).plain.split("\n") == [
        "钥匙 → 橱柜 0.5, ",
        "a → b 0.25, ",
        "and 3 more",
    ]
    assert wrap_parts(parts, 30).plain.split("\n") == [
        "钥匙 → 橱柜 0.5, a → b 0.25, ",
        "and 3 more",
    ]


def test_routes_without_a_token_says_what_to_give(run):
    ran = run("routes", TEXT)
    assert ran.code == 2
    assert "--to TOKEN is missing: the input token that the score is traced back to" in ran.err
    assert 'Example: attnflow routes "The food was not good." --to not' in ran.err


def test_routes_to_an_ambiguous_token_lists_positions(run, folder):
    ran = run("routes", TEXT, "-m", folder, "--to", "the")
    assert ran.code == 2
    assert "1, 4" in ran.err
