"""What people try first: things that are shown, and plausible mistakes that are named."""

import importlib
import inspect

import pytest
import torch

import attnflow
import tiny
from attnflow.errors import InputError

TEXT = "the keys to the cabinet"


def test_routes_are_shown_in_one_line():
    found = attnflow.routes(TEXT, "verbs", to="keys")
    start = f"<FlowTrace: flow {found.value:.4g} from keys to [CLS] at layer 6"
    assert repr(found).startswith(start)
    assert len(repr(found)) < 100


@pytest.fixture(scope="module")
def output():
    inputs = tiny.word_piece()(TEXT, return_tensors="pt")
    with torch.no_grad():
        return tiny.build("bert", "eager")(**inputs, output_attentions=True)


@pytest.mark.parametrize("function", [attnflow.flow, lambda of: attnflow.trace(of, key=1)])
def test_what_a_model_returns_leads_to_its_attention(function, output):
    with pytest.raises(InputError, match=r"WithPooling\w*; pass its \.attentions"):
        function(output)
    with pytest.raises(InputError, match=r"take one item, \[layer\[0\] for layer in attention\]"):
        function(output.attentions)
    function([layer[0] for layer in output.attentions])


@pytest.mark.parametrize(
    ("name", "options"), [("blank_out", "BlankOutOptions"), ("gradients", "GradientsOptions")]
)
def test_type_checkers_know_every_keyword(name, options):
    function = getattr(attnflow, name)
    options = getattr(importlib.import_module(function.__module__), options)
    parameters = inspect.signature(function).parameters.values()
    keywords = {one.name: one.annotation for one in parameters if one.kind is one.KEYWORD_ONLY}
    known = {name: kind.__forward_arg__ for name, kind in options.__annotations__.items()}
    assert known == keywords


def test_the_explorer_shows_one_method_first():
    with pytest.raises(InputError, match=r"method=\['raw'\] is unknown; allowed: raw"):
        attnflow.explore(TEXT, method=["raw"])
