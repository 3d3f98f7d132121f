"""Messages as an API has them, through chat templates of five families."""

import json

import numpy as np
import pytest

import attnflow
import talkers
from attnflow.errors import InputError
from attnflow.models.answers.interface import answers_of
from attnflow.models.answers.logged import written_elsewhere
from attnflow.models.answers.prompts import make_prompt, read_prompt

FAMILIES = {
    "llama": "[CLS]{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "chatml": "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n'
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
    "mistral": "[CLS]{% for m in messages %}{% if m['role'] == 'assistant' %} {{ m['content'] }}"
    "[SEP]{% else %}[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}",
    "gemma": "[CLS]{% for m in messages %}<start_of_turn>"
    "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}"
    "<end_of_turn>\n{% endfor %}<start_of_turn>model\n",
    "phi": "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "<|assistant|>\n",
}
CALL = {"name": "cabinet", "arguments": '{"keys": "red"}'}
CHAT = [
    {"role": "system", "content": "you are here"},
    {"role": "user", "content": [{"type": "text", "text": "the cat is old"}, {"text": "play"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": CALL}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "the keys are red"},
]
ROLES = {
    "system": "instructions",
    "user": "question",
    "call cabinet": "source",
    "tool cabinet": "source",
    "rest": "template",
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("units", [None, "sentences"])
def test_messages_calls_and_results_are_parts(family, units):
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = FAMILIES[family]
    model = attnflow.load_model((network, tokenizer))
    prompt = make_prompt(CHAT, tokenizer, "", units=units)
    tokens, parts = read_prompt(answers_of(model), prompt, truncate=False)
    # Every token is in one part.
    places = sorted(at for part in parts for at in part.positions)
    assert places == list(range(len(tokens)))
    ends = {part.name.split(",")[0]: part.role for part in parts}
    assert ends == ROLES
    texts = {piece.name.split(",")[0]: prompt.text[slice(*piece.span)] for piece in prompt.pieces}
    assert texts["tool cabinet"] == "the keys are red"
    assert texts["system"] == "you are here"
    if units is None:
        assert texts["user"] == "the cat is old\nplay"
        native = '<tool_call>\n{"name": "cabinet", "arguments": {"keys": "red"}}\n</tool_call>'
        called = native if family == "chatml" else 'cabinet({"keys": "red"})'
        assert texts["call cabinet"] == called


def test_what_is_no_text_is_refused():
    tokenizer = talkers.chatting()
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": "a.png"}]}]
    with pytest.raises(InputError, match=r"content of the types \['image_url'\]; only texts"):
        make_prompt(picture, tokenizer, "")
    nameless = [{"role": "assistant", "tool_calls": [{"function": {}}]}]
    with pytest.raises(InputError, match="each needs a function with its name"):
        make_prompt(json.loads(json.dumps(nameless)), tokenizer, "")


def test_a_chat_that_ends_with_an_answer_was_written_elsewhere(llama):
    chat = [{"role": "key", "content": "the cat is old"}]
    logged = [*chat, {"role": "assistant", "content": [{"type": "text", "text": "a red mat"}]}]
    found = attnflow.explain_answer(logged, llama)
    same = attnflow.explain_answer(chat, llama, answer="a red mat")
    assert found.answer_text == same.answer_text
    assert np.array_equal(found.matrix(), same.matrix())
    more = attnflow.explain_answer(logged, llama, generate=2)
    assert [part.name for part in more.named] == ["key", "assistant"]
    calling = [*chat, {**logged[-1], "tool_calls": CHAT[2]["tool_calls"]}]
    with pytest.raises(InputError, match="message 2 has tool_calls beside its content, which the"):
        attnflow.explain_answer(calling, llama)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("thoughts", ["", "the cat is here"])
def test_calls_beside_a_content_are_part_of_the_answer(family, thoughts):
    """As the template writes them, who has the whole turn; other templates know no calls."""
    network, tokenizer = talkers.llama()
    tokenizer.chat_template = FAMILIES[family]
    message = {"role": "assistant", "content": " a red mat", "tool_calls": CHAT[2]["tool_calls"]}
    logged = [*CHAT[:2], {**message, "reasoning_content": thoughts}]
    if family != "chatml":
        with pytest.raises(InputError, match="message 3 has tool_calls beside its content, which"):
            attnflow.explain_answer(logged, (network, tokenizer))
        return
    found = attnflow.explain_answer(logged, (network, tokenizer))
    said = f"<think>\n{thoughts}\n</think>\n\na red mat" if thoughts else "a red mat"
    called = '<tool_call>\n{"name": "cabinet", "arguments": {"keys": "red"}}\n</tool_call>'
    answers = answers_of(attnflow.load_model((network, tokenizer)))
    assert written_elsewhere([logged], answers) == ([CHAT[:2]], [said + called])
    assert [part.name for part in found.named] == ["system", "user"]
    same = attnflow.explain_answer(CHAT[:2], (network, tokenizer), answer=said + called)
    assert np.array_equal(found.matrix(), same.matrix())


def test_an_answer_written_elsewhere_is_cited_and_cut_into_steps(llama):
    """All that read an answer take the one that a chat ends with; none writes another behind it."""
    chat = [{"role": "system", "content": "play"}, {"role": "user", "content": "the cat is old"}]
    logged = [*chat, {"role": "assistant", "content": "a red mat ! the keys are here ."}]
    parts = {"cat": "the cat"}
    for explain in (attnflow.cite, attnflow.steps):
        found = explain(logged, llama, parts=parts)
        given = explain(chat, llama, parts=parts, answer="a red mat ! the keys are here .")
        assert found.text == given.text
        assert json.dumps(found.to_dict()) == json.dumps(given.to_dict())
