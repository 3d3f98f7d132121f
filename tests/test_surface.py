"""What people try first: things that are shown, and plausible mistakes that are named."""

import pytest
import torch

import attnflow
import tiny
from attnflow.errors import InputError

TEXT = "the keys to the cabinet"


def test_routes_are_shown_in_one_line():
    found = attnflow.routes(TEXT, to="keys")
    assert repr(found).startswith(f"<Routes: {found.trace.value:.4g} from [CLS] of layer 6 to keys")
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
