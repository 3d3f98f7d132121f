"""Options are declared once: a new one is a keyword, a flag, a field of requests and recorded."""

import inspect
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

import attnflow
from attnflow.cli.command import Given, command, make_request
from attnflow.errors import InputError
from attnflow.options import tables
from attnflow.options.option import has_use, option, options_of, takes, values_of
from attnflow.pipeline import request as requests
from attnflow.views.explorer.server.requests import body_of, form_options

FUNCTIONS = {
    "explain": tables.ExplainOptions,
    "explain_answer": tables.AnswerOptions,
    "routes": tables.RoutesOptions,
    "explore": tables.ExploreOptions,
    "knockout": tables.KnockoutOptions,
    "cite": tables.CiteOptions,
    "similarity": tables.SimilarityOptions,
    "steps": tables.StepsOptions,
    "run": tables.RunOptions,
    "evaluate": tables.EvaluateOptions,
    "fit": tables.FitOptions,
}


@dataclass(frozen=True, kw_only=True)
class Loud:
    """A new option, in this file alone."""

    volume: int = option(
        3,
        "How loud the result is.",
        "--volume N",
        served=True,
        least=1,
        not_for={"whisper": "it is quiet"},
    )


@dataclass(frozen=True, kw_only=True)
class LoudOptions(Loud, tables.ExplainOptions):
    """The options of `explain`, and the new one."""


@dataclass(frozen=True, kw_only=True)
class LoudRun(Loud, tables.RunOptions):
    """The options of `run`, and the new one."""


@dataclass(frozen=True, kw_only=True)
class LoudRequest(Loud, requests.Request):
    """A request with the new option."""


@takes(LoudOptions)
def shout(text, model=None, *, options):
    """What is said, loudly.

    Args:
        text: The text.
        model: The model.

    Examples:
        >>> shout("a")
    """
    return text, options.volume


@takes(LoudOptions)
def whisper(text, model=None, *, options):
    """What is said, quietly."""
    return text


def test_a_new_option_is_a_keyword():
    assert shout("a", volume=5) == ("a", 5)
    assert shout("a") == ("a", 3)
    assert inspect.signature(shout).parameters["volume"].default == 3
    with pytest.raises(InputError, match=r"shout has no argument 'volum'; did you mean volume=\?"):
        shout("a", volum=5)


def test_a_new_option_is_documented_among_the_arguments():
    before, _, after = shout.__doc__.partition("    volume: How loud the result is.\n")
    assert "    model: The model.\n" in before
    assert after.rstrip().endswith('Examples:\n    >>> shout("a")')


def test_a_new_option_is_refused_where_it_does_not_apply():
    assert "volume" not in inspect.signature(whisper).parameters
    assert whisper("a") == "a"
    with pytest.raises(InputError, match="volume=5 does not apply to whisper: it is quiet"):
        whisper("a", volume=5)


def test_a_new_option_is_a_flag():
    found = []
    app = typer.Typer()

    @app.command()
    @command(LoudOptions)
    def say(text: str, *, options: Given, model: Any) -> None:
        found.append((text, options, model))

    run = CliRunner()
    assert run.invoke(app, ["a", "--volume", "5", "-q", "2", "-m", "verbs"]).exit_code == 0
    assert found == [("a", {"volume": 5, "query": 2}, "verbs")]
    shown = run.invoke(app, ["--help"], terminal_width=200).output
    assert "--volume" in shown
    assert "How loud the result is." in shown
    assert run.invoke(app, ["a", "--volume", "0"]).exit_code == 2


def test_a_new_option_is_a_field_of_requests():
    body = body_of(LoudOptions, "shout")
    assert body(volume=5).options["volume"] == 5
    described = body.model_json_schema()["properties"]["volume"]
    assert (described["default"], described["type"]) == (3, "integer")
    assert described["description"] == "How loud the result is."
    for wrong in ("5", True, 1.5):
        with pytest.raises(ValidationError):
            body(volume=wrong)
    assert "volume" not in body_of(LoudOptions, "whisper").model_fields


def test_a_new_option_is_described_to_the_pages_form():
    found = {each.name: each for each in form_options(LoudOptions, body_of(LoudOptions, "shout"))}
    volume = found["volume"]
    assert (volume.kind, volume.default, volume.answers) == ("number", 3, False)
    assert volume.help == "How loud the result is."
    assert "edges" not in found  # which the page lets choose in its own way
    assert found["bos"].answers


def test_a_new_option_reaches_the_request_and_is_recorded_by_runs(monkeypatch, tmp_path):
    from attnflow.io.rows import Columns, open_rows
    from attnflow.runs import engine
    from attnflow.runs.work import Work

    made = LoudRequest.of(LoudRun(volume=5), method="flow", methods=("flow",), edges="attention")
    assert made.volume == 5
    assert replace(made, layer=2).volume == 5
    monkeypatch.setattr(engine, "RunOptions", LoudRun)
    rows = open_rows(["a text"], Columns("text"), None)
    plan = engine.Plan(rows, Columns("text"), tmp_path, 10, Work((made,), 1))
    assert plan.request({})["options"]["volume"] == 5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_show_and_explain_their_options(name):
    function = getattr(attnflow, name)
    parameters = inspect.signature(function).parameters
    for option_name, (declared, known) in options_of(FUNCTIONS[name]).items():
        assert (option_name in parameters) == has_use(known, name)
        if option_name in parameters:
            assert parameters[option_name].annotation == declared.type
            assert f"    {option_name}: " in function.__doc__


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("routes", {"to": 1, "layers": "all"}, "layers='all' does not apply to routes: they are"),
        ("routes", {"to": 1, "words": True}, "words=True does not apply to routes"),
        ("routes", {"to": 1, "query": "all"}, "query='all' does not apply to routes: they end at"),
        ("routes", {"to": 1, "heads": "each"}, "heads='each' does not apply to routes: heads are"),
        ("explain_answer", {"heads": "each"}, "heads='each' does not apply to explain_answer"),
        ("explore", {"heads": "each"}, "heads='each' does not apply to explore: the view shows"),
        ("explore", {"source": "logit"}, "source='logit' does not apply to explore"),
        ("explain_answer", {"target": "a"}, "target='a' does not apply to explain_answer: every"),
        ("explain_answer", {"words": True}, r"and a part may be a word \(parts=\)"),
    ],
)
def test_what_does_not_apply_is_refused_before_any_work(name, options, message):
    with pytest.raises(InputError, match=message):
        getattr(attnflow, name)("a text", "no/such-model", **options)


def test_options_of_answers_lead_to_their_function():
    own = options_of(tables.AnswerOptions).keys() - options_of(tables.ExplainOptions).keys()
    assert {"generate", "parts", "through", "deletions"} <= own
    for name in own:
        message = f"explain has no argument '{name}': it is for attnflow.explain_answer"
        with pytest.raises(InputError, match=message):
            attnflow.explain("a text", **{name: None})


def test_prompts_lead_to_the_function_of_answers():
    import talkers

    llama = talkers.llama()
    chat = [{"role": "user", "content": "the keys"}]
    for given, options in ((chat, {}), ({"a": "the keys"}, {}), ("the keys", {"answer": " a"})):
        with pytest.raises(InputError, match=r"use attnflow\.explain_answer"):
            attnflow.explain(given, llama, **options)


def test_requests_of_commands_keep_what_was_given():
    made = make_request({"method": ["flow", "raw"], "layer": 2, "seed": 3}, routes=True)
    assert (made.method, made.methods, made.layer, made.routes) == (
        "flow",
        ("flow", "raw"),
        2,
        True,
    )
    left_out = {each.name for each in fields(made)} - {"method", "methods", "layer", "routes"}
    plain = requests.Request()
    assert values_of(made, left_out) == values_of(plain, left_out)
