"""Token ids, and what a tokenizer returned, are inputs as they are."""

import numpy as np
import pytest

import attnflow
import talkers
import tiny
from attnflow.errors import InputError

TEXT = "the keys to the cabinet"


@pytest.fixture(scope="module", params=["bert", "gpt2", "t5"])
def model(request):
    return talkers.t5() if request.param == "t5" else (tiny.build(request.param), tiny.plain())


def forms(tokenizer):
    padded = tokenizer(TEXT, padding="max_length", max_length=12, return_tensors="pt")
    plain = tokenizer(TEXT)
    return [plain["input_ids"], plain, dict(plain), tokenizer([TEXT], return_tensors="pt"), padded]


def test_ids_give_what_their_text_gives(model):
    expected = attnflow.explain(TEXT, model, method="rollout")
    for given in forms(getattr(model, "tokenizer", None) or model[1]):
        found = attnflow.explain(given, model, method="rollout")
        assert found.tokens == expected.tokens
        assert np.array_equal(found.scores, expected.scores)


def test_lists_of_ids_are_many_inputs():
    tokenizer = tiny.plain()
    model = tiny.build("bert"), tokenizer
    texts = [TEXT, "a cat"]
    found = attnflow.explain([tokenizer(text)["input_ids"] for text in texts], model)
    expected = attnflow.explain(texts, model)
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.scores, other.scores)


def test_what_are_no_ids_is_refused():
    tokenizer = tiny.plain()
    model = tiny.build("bert"), tokenizer
    with pytest.raises(InputError, match=r"token id 100000 does not exist; allowed: 0 to "):
        attnflow.explain([1, 100000], model)
    with pytest.raises(InputError, match="input_ids has 2 rows"):
        attnflow.explain(tokenizer([TEXT, TEXT]), model)
    with pytest.raises(InputError, match="takes at most"):
        attnflow.explain([1] * 1000, model)
    assert len(attnflow.explain([1] * 1000, model, truncate=True, method="raw").tokens) < 1000
