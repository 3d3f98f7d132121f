"""Prompts with named parts: which tokens are whose, their scores, and what deleting them does."""

import networkx as nx
import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

import attnflow
import talkers
from attnflow.errors import InputError, ModelError
from attnflow.models.answers.interface import answers_of
from attnflow.models.answers.prompts import make_prompt, read_prompt

CHAT = [
    {"role": "key", "content": "the cat is old"},
    {"role": "cat", "content": "play on the red mat"},
    {"role": "key", "content": "of keys"},
]
DOCUMENTS = {"first": "the old keys", "second": "a red cat is here", "question": "keys to"}


def names(found):
    return [part.name for part in found.parts]


def tokens_of(found, name):
    (part,) = [part for part in found.parts if part.name == name]
    return [found.tokens[at] for at in part.positions]


def test_messages_are_parts_by_their_roles(llama):
    found = attnflow.explain_answer(CHAT, llama, generate=2)
    assert names(found) == ["key", "cat", "key 2", "rest", "answer"]
    assert tokens_of(found, "key") == ["the", "cat", "is", "old"]
    assert tokens_of(found, "cat") == ["play", "on", "the", "red", "mat"]
    assert tokens_of(found, "key 2") == ["of", "keys"]
    assert tokens_of(found, "rest")[:3] == ["[CLS]", "key", ","]
    rendered = llama.tokenizer.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    expected = llama.tokenizer.apply_chat_template(CHAT, add_generation_prompt=True)
    read, _ = read_prompt(answers_of(llama), make_prompt(CHAT, llama.tokenizer, ""), truncate=False)
    assert read.inputs["input_ids"] == list(expected["input_ids"])
    assert read.text == rendered


def roles_of(prompt, llama, **options):
    made = make_prompt(prompt, llama.tokenizer, "", **options)
    _, parts = read_prompt(answers_of(llama), made, truncate=False)
    return {part.name: part.role for part in parts}


def test_roles_are_those_of_messages_and_names(llama):
    chat = [
        {"role": "system", "content": "you are here"},
        {"role": "user", "content": "the cat is old"},
        {"role": "assistant", "content": "the mat is red"},
        {"role": "user", "content": "play on the red mat of keys"},
        {"role": "tool", "content": "old keys"},
    ]
    assert roles_of(chat, llama, parts={"rules": "play on", "keys": "mat of keys"}) == {
        "system": "instructions",
        "user": "source",
        "assistant": "source",
        "user 2": "question",
        "tool": "source",
        "rules": "instructions",
        "keys": "source",
        "rest": "template",
    }
    named = {"system": "you are here", "question 2": "the cat", "document": "the old keys"}
    told = roles_of(named, llama, roles={"document": "instructions"})
    assert list(told.values()) == ["instructions", "question", "instructions"]
    text = "the red cat is old"
    assert roles_of(text, llama) == {"prompt": "question"}
    assert roles_of(text, llama, parts={"who": "cat"}) == {"prompt": "question", "who": "source"}
    inside = roles_of(text, llama, parts={"prompt": "cat"})
    assert inside == {"other text": "question", "prompt": "question"}


def test_parts_of_older_files_have_roles(llama):
    found = attnflow.explain_answer(DOCUMENTS, llama, generate=1)
    data = found.to_dict()
    olds = {"template": "rest", "answer": "answer"}
    data["parts"] = [{"kind": olds.get(part.pop("role"), "part"), **part} for part in data["parts"]]
    read = attnflow.Generation.from_dict(data)
    assert [part.role for part in read.parts] == ["source", "source", "source", "answer"]


def test_parts_come_out_of_messages(llama):
    found = attnflow.explain_answer(
        CHAT, llama, generate=1, parts={"place": "red mat", "who": "the cat"}
    )
    assert names(found) == ["key", "cat", "key 2", "place", "who", "rest", "answer"]
    assert tokens_of(found, "key") == ["is", "old"]
    assert tokens_of(found, "place") == ["red", "mat"]
    whole = attnflow.explain_answer(CHAT, llama, generate=1, parts={"all": "play on the red mat"})
    assert names(whole) == ["key", "key 2", "all", "rest", "answer"]


def test_named_parts_are_one_prompt(llama):
    found = attnflow.explain_answer(DOCUMENTS, llama, generate=2)
    assert names(found) == ["first", "second", "question", "answer"]
    assert tokens_of(found, "second") == ["a", "red", "cat", "is", "here"]
    text = "\n\n".join(DOCUMENTS.values())
    spans = {
        name: (text.index(each), text.index(each) + len(each)) for name, each in DOCUMENTS.items()
    }
    same = attnflow.explain_answer(text, llama, generate=2, parts=spans)
    assert same.parts == found.parts
    assert np.array_equal(same.matrix("parts"), found.matrix("parts"))


@pytest.mark.parametrize("method", ["flow", "rollout", "blank-out"])
def test_a_prompt_of_one_part_is_the_plain_explanation(method, llama):
    text = "the keys to the old cabinet"
    plain = attnflow.explain_answer(text, llama, generate=3, method=method)
    one = attnflow.explain_answer({"all": text}, llama, generate=3, method=method)
    assert names(plain) == ["prompt", "answer"]
    assert np.array_equal(plain.matrix(), one.matrix())
    assert np.array_equal(plain.matrix("parts"), one.matrix("parts"))


@pytest.mark.parametrize("model", ["llama", "t5"])
def test_scores_of_parts_are_sums_and_ratios_to_chance_of_sums(model, request):
    adapter = request.getfixturevalue(model)
    options = {"generate": 3, "edges": "attention", "method": "rollout", "correction": None}
    found = attnflow.explain_answer(DOCUMENTS, adapter, **options)
    for number, part in enumerate(found.parts):
        sums = found.matrix()[:, list(part.positions)].sum(-1)
        np.testing.assert_allclose(found.matrix("parts")[:, number], sums, atol=1e-12)
    np.testing.assert_allclose(found.matrix("parts").sum(-1), 1)
    assert sum(row.share for row in found.table()) == pytest.approx(1)


@pytest.mark.parametrize("model", ["llama", "t5"])
def test_flow_to_a_part_is_the_maximum_flow_to_all_of_it(model, request):
    adapter = request.getfixturevalue(model)
    options = {"generate": 2, "edges": "attention", "method": "flow", "correction": None}
    options["each"] = "tokens"
    found = attnflow.explain_answer(DOCUMENTS, adapter, **options)
    only = attnflow.explain_answer(DOCUMENTS, adapter, **options, parts_only=True)
    assert np.array_equal(found.matrix("parts"), only.matrix("parts"))
    with pytest.raises(InputError, match="parts alone were scored"):
        only.matrix()
    weights = weights_of(adapter, found)
    for row, at in enumerate(found.answer):
        for number, part in enumerate(found.parts):
            expected = max_flow(weights, at - 1, part.positions)
            assert found.matrix("parts")[row, number] == pytest.approx(expected, abs=1e-9)


def weights_of(adapter, found):
    from attnflow.models.text.writing import Writing
    from attnflow.pipeline.answers import open_answer
    from attnflow.pipeline.request import Request

    answers = answers_of(adapter)
    prompt, _ = read_prompt(answers, make_prompt(found.text, adapter.tokenizer, ""), truncate=False)
    tokens = answers.write(prompt, Writing(len(found.answer)))
    assert tokens.names == found.tokens
    config = Request(edges="attention", method="flow", correction=None)
    return np.asarray(open_answer(tokens, answers, config).graph("flow").weights)


def max_flow(weights, query, sinks):
    graph = nx.DiGraph()
    for step, layer in enumerate(weights, 1):
        for i, j in zip(*np.nonzero(layer), strict=True):
            graph.add_edge((step, int(i)), (step - 1, int(j)), capacity=float(layer[i, j]))
    for sink in sinks:
        graph.add_edge((0, sink), "end")
    source = (len(weights), query)
    return nx.maximum_flow_value(graph, source, "end") if graph.has_node(source) else 0.0


@pytest.mark.parametrize("model", ["llama", "gpt2", "t5"])
def test_drops_are_those_of_a_prompt_without_the_part(model, request):
    adapter = request.getfixturevalue(model)
    found = attnflow.explain_answer(DOCUMENTS, adapter, generate=3, deletions=True)
    ids = [adapter.tokenizer.convert_tokens_to_ids(token) for token in found.tokens]
    size = len(found.tokens) - len(found.answer)
    size -= model == "t5"  # the token that starts an answer
    for number, part in enumerate(found.named):
        kept = [each for at, each in enumerate(ids[:size]) if at not in part.positions]
        after = talkers.answer_log_probabilities(adapter, kept, ids[size:])
        np.testing.assert_allclose(
            found.drops[:, number], found.log_probabilities - after, atol=1e-4
        )
    sources = {at for part in found.parts if part.role == "source" for at in part.positions}
    kept = [each for at, each in enumerate(ids[:size]) if at not in sources]
    after = talkers.answer_log_probabilities(adapter, kept, ids[size:])
    np.testing.assert_allclose(found.without_sources, found.log_probabilities - after, atol=1e-4)
    rows = found.table()
    assert rows[1].drop == pytest.approx(found.drops[:, 1].sum())
    assert rows[-1].drop is None


def test_nothing_is_deleted_where_nothing_would_be_left(llama):
    with pytest.raises(InputError, match="nothing is left of the prompt"):
        attnflow.explain_answer("the keys", llama, generate=1, deletions=True)


@pytest.mark.parametrize(
    ("prompt", "parts", "message"),
    [
        ("the cat", {"who": "dog"}, "part 'who' is not in the prompt"),
        ("the cat the", {"who": "the"}, "is in the prompt 2 times: 'the'; give its"),
        ("the cat", {"a": "the", "b": " the"}, "is in the prompt once, and 2 parts have its text"),
        ("the cat", {"who": (3, 99)}, "0 ≤ start < end ≤ 7"),
        ("the cat", {"a": "the cat", "b": (1, 2)}, "parts 'a' and 'b' overlap"),
        ("the cat", {"rest": "cat"}, "a part's name is 'rest'"),
        ("the cat", ["cat"], r"parts=\['cat'\] must be a dict"),
        ("the cat", {"gap": (3, 4)}, "part 'gap' has no tokens"),
        ({"a": ""}, None, "part 'a' is ''"),
        ([{"role": "key"}], None, "message 1 has content None"),
        ({"role": "key", "content": "the cat"}, None, "is one message of a chat"),
        (
            [{"role": "key", "content": "the cat"}, {"content": "the"}],
            None,
            "each has a role",
        ),
    ],
)
def test_parts_that_are_none_are_refused(prompt, parts, message, llama):
    with pytest.raises(InputError, match=message):
        attnflow.explain_answer(prompt, llama, generate=1, parts=parts)


def test_documents_that_are_the_same_are_found_one_after_the_other(llama):
    parts = {"first": "a red cat", "keys": "the keys", "copy": "a red cat "}
    chat = [{"role": "user", "content": "a red cat , the keys , a red cat is here ?"}]
    found = attnflow.explain_answer(chat, llama, answer="the mat", parts=parts)
    places = {part.name: part.positions for part in found.named}
    assert places["copy"] == tuple(at + 7 for at in places["first"])
    spans = {name: (found.spans[at[0]][0], found.spans[at[-1]][1]) for name, at in places.items()}
    by_place = attnflow.explain_answer(
        chat, llama, answer="the mat", parts={name: spans[name] for name in parts}
    )
    np.testing.assert_array_equal(found.matrix("parts"), by_place.matrix("parts"))
    np.testing.assert_array_equal(found.drops, by_place.drops)


def test_a_chat_needs_a_template():
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = None
    with pytest.raises(ModelError, match="has no chat template"):
        attnflow.explain_answer(CHAT, (network, tokenizer), generate=1)


def test_a_template_that_changes_messages_is_refused():
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] | upper }} {% endfor %}"
    with pytest.raises(InputError, match="changes message 1"):
        attnflow.explain_answer(CHAT, (network, tokenizer), generate=1)


def test_bos_is_part_of_no_message(llama):
    network, tokenizer = talkers.llama()
    tokenizer.bos_token = "[MASK]"
    found = attnflow.explain_answer(DOCUMENTS, (network, tokenizer), generate=1, bos=True)
    assert names(found) == ["first", "second", "question", "rest", "answer"]
    assert tokens_of(found, "rest") == ["[MASK]"]
    assert tokens_of(found, "first") == ["the", "old", "keys"]


def test_what_bos_does_to_an_answer_is_told():
    network, tokenizer = talkers.llama()
    tokenizer.bos_token = "[MASK]"
    found = attnflow.explain_answer(DOCUMENTS, (network, tokenizer), generate=3, bos=True)
    ids = tokenizer.convert_tokens_to_ids(list(found.tokens))
    with torch.no_grad():
        rows = network(torch.tensor([ids[1:]])).logits[0].double().log_softmax(-1)
    without = sum(float(rows[at - 2, ids[at]]) for at in found.answer)
    total = found.log_probabilities.sum()
    assert found.warnings[1:] == (
        f"BOS was put in front: the answer's log-probability is {total:.3f}; without BOS it is "
        f"{without:.3f}",
    )


def test_what_a_tokenizer_adds_is_left_where_the_prompt_is_deleted():
    network, tokenizer = talkers.llama()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", tokenizer.cls_token_id)]
    )
    found = attnflow.explain_answer("the keys", (network, tokenizer), generate=2, deletions=True)
    assert names(found) == ["prompt", "rest", "answer"]
    assert tokens_of(found, "rest") == ["[CLS]"]
    ids = tokenizer.convert_tokens_to_ids(list(found.tokens))
    left = [ids[0], *(ids[at] for at in found.answer)]
    with torch.no_grad():
        rows = network(torch.tensor([left])).logits[0].double().log_softmax(-1)
    after = [float(rows[at, left[at + 1]]) for at in range(2)]
    np.testing.assert_allclose(found.drops[:, 0], found.log_probabilities - after, atol=1e-5)


def test_what_is_too_large_to_be_kept_is_made_anew(llama, monkeypatch):
    options = {"generate": 2, "method": "flow", "threads": 4}
    kept = attnflow.explain_answer(DOCUMENTS, llama, **options)
    monkeypatch.setattr("attnflow.methods.flow.KEPT_BYTES", 0)
    monkeypatch.setattr("attnflow.solvers.cpu.solver.NETWORK_BYTES", 1)
    anew = attnflow.explain_answer(DOCUMENTS, llama, **options)
    assert anew.statistics["threads"] == 1 < kept.statistics["threads"]
    assert np.array_equal(anew.matrix(), kept.matrix())
    assert np.array_equal(anew.matrix("parts"), kept.matrix("parts"))
