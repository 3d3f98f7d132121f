"""What type checkers know of the public functions: mypy checks this file, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import attnflow
from attnflow import (
    Attribution,
    Evaluation,
    Exploration,
    FlowTrace,
    Generation,
    Knockout,
    LearnedHeads,
    Run,
    Similarity,
)


def one_input_gives_one_attribution() -> None:
    assert_type(attnflow.explain("a text"), Attribution)
    assert_type(attnflow.explain(("a premise", "a hypothesis"), "model"), Attribution)
    assert_type(attnflow.explain(Path("cat.png"), "model"), Attribution)
    assert_type(attnflow.explain([101, 1996, 102], "model"), Attribution)
    assert_type(attnflow.explain("a text", "model", answer="what follows"), Attribution)


def what_the_examples_use_needs_no_check_for_none() -> None:
    found = attnflow.explain({"image": "cat.jpg", "text": "What is this?"}, "model")
    assert_type(found, Attribution)
    print(found.prediction.label, found.grid.rows)
    print(attnflow.knockout("a text", edges="text").after.prediction.label)
    print(attnflow.routes("a text", to="text").prediction.label)
    answer = attnflow.explain_answer("a prompt", "model", answer="this", contrast="that")
    print(answer.contrast.shared)
    model = attnflow.load_model("verbs")
    print(model.tokenizer("a text"), model.network.config)


def many_inputs_give_a_list() -> None:
    assert_type(attnflow.explain(["a text", "another"]), list[Attribution])
    assert_type(attnflow.explain(text for text in ("a", "b")), list[Attribution])
    assert_type(attnflow.explain_answer(["a prompt", "another"], "model"), list[Generation])


def answers_are_generations_whatever_the_model() -> None:
    assert_type(attnflow.explain_answer("a prompt", "model", generate=8), Generation)
    chat = [{"role": "user", "content": "a question"}]
    assert_type(attnflow.explain_answer(chat, "model", answer="an answer"), Generation)
    assert_type(attnflow.explain_answer({"letter": "its text"}, "model"), Generation)
    assert_type(attnflow.explain_answer([5, 10], "model", answer=[6, 4]), Generation)
    both = attnflow.explain_answer([[5, 10], [9]], "model", answer=[[6, 4], [7]])
    assert_type(both, list[Generation])


def every_function_has_one_type_of_result() -> None:
    assert_type(attnflow.routes("a text", to="text"), FlowTrace)
    assert_type(attnflow.explore("a text", compare="another"), Exploration)
    assert_type(attnflow.run(["a text"], "folder", workers=2), Run)
    assert_type(attnflow.evaluate(["a text"], limit=3), Evaluation)
    assert_type(attnflow.fit(["a text"], "model"), LearnedHeads)
    assert_type(attnflow.similarity("a", "b", "model"), Similarity)
    assert_type(attnflow.similarity(["a"], ["b"], "model"), list[Similarity])
    assert_type(attnflow.knockout("a text", edges="text"), Knockout)
    assert_type(attnflow.knockout("a text", edges={"one": "text"}), dict[str, Knockout])


def wrong_keywords_and_values_are_errors() -> None:
    attnflow.explain("a text", layr=3)  # type: ignore[call-overload]
    attnflow.explain("a text", layer="3")  # type: ignore[call-overload]
    attnflow.explain("a text", generate=3)  # type: ignore[call-overload]
    attnflow.explain("a text", "model", 3)  # type: ignore[call-overload]
    attnflow.routes("a text")  # type: ignore[call-arg]
    attnflow.routes("a text", to=1.5)  # type: ignore[arg-type]
    attnflow.run(["a text"], "folder", target="a label")  # type: ignore[call-arg]
    attnflow.explain("a text", method="a-method-of-mine", heads=[0.5, 0.5], layers=[1, 2])
