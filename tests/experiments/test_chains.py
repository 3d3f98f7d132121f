"""The trial of chains: what decides is known, and what is measured of it is counted right."""

import json

import pytest
import torch

import attnflow
import talkers
import tiny
from attnflow.models.answers.interface import answers_of
from attnflow_experiments import chains
from attnflow_experiments.chains import Chain, make_chain, report, run


@pytest.mark.parametrize("number", range(20))
def test_what_decides_is_said_once_and_changes_the_answer(number):
    chain = make_chain(number)

    def of(start, thoughts):
        """The number of the thought that begins so, and its last words."""
        (at,) = [at for at, text in enumerate(thoughts) if text.startswith(start)]
        return at, thoughts[at].removeprefix(start).strip(" .")

    def follow(thoughts):
        """What follows from thoughts, and the numbers of those that say it."""
        subject = f"{chain.lead[3].upper()}{chain.lead[4:]}"
        if chain.kind == chains.TWO:
            subject = f"{subject.removesuffix(' belongs to')} is in the"
        first, said = of(subject, thoughts)
        if chain.kind == chains.ONE:
            return said, {first}
        if chain.kind == chains.TWO:
            second, owner = of(f"The {said} belongs to", thoughts)
            return owner, {first, second}
        second, price = of(f"Here {said} cost", thoughts)
        return f"{said}, and here {said} cost {price.removesuffix(' crowns')}", {first, second}

    assert follow(chain.thoughts) == (chain.right, set(chain.deciding))
    for thoughts, right in chain.others:
        assert follow(thoughts)[0] == right != chain.right
        assert right in chain.words
        changed = {at for at, text in enumerate(thoughts) if text != chain.thoughts[at]}
        assert len(changed & set(chain.deciding)) == 1, "one of the deciding ones at a time"
    assert len(chain.others) == len(chain.deciding)


def small(number):
    """A chain in the words of a small model."""
    thoughts = ("the key is red .", "the cat is old .", "the mat is here .")
    other = ("the key is old .", "the cat is red .", "the mat is here .")
    words = (("red", "old"), ("old", "red"))[number % 2]
    others = ((other, words[1]),)
    return Chain(chains.ONE, "the key is", thoughts, "the key is", words[0], words, (0,), others)


def test_work_that_was_cut_short_goes_on(tmp_path, monkeypatch, capsys):
    answers = answers_of(attnflow.load_model(talkers.llama(num_hidden_layers=2)))
    asked = []

    def follows(chain, _):
        asked.append(chain)
        return len(asked) != 2

    monkeypatch.setattr(chains, "make_chain", small)
    monkeypatch.setattr(chains, "follows", follows)
    run(tmp_path, answers, 1)
    run(tmp_path, answers, 3)
    assert len(asked) == 3, "the first one is not measured again"
    found = json.loads((tmp_path / "chain-000.json").read_text())
    assert found["thoughts"] == 3
    assert found["deciding"] == [0]
    direct = attnflow.steps(
        "the key is",
        answers.model,
        answer=small(0).answer("red"),
        by="sentences",
        conclusion="red",
    )
    rows = [row for row in direct.table() if row.name.startswith("step")]
    assert found["ways"]["hidden from the conclusion"] == pytest.approx([r.direct for r in rows])
    assert found["roles"] == [row.role for row in rows]
    assert "2 of 3 chains are followed; 3 thoughts each" in (tmp_path / "tables.md").read_text()


def test_followed_is_what_changes_with_the_deciding_step(monkeypatch):
    """A model that copies what it last read of a thing follows; one with a favourite does not."""
    pair = talkers.llama(num_hidden_layers=2)
    answers = answers_of(attnflow.load_model(pair))
    chain = small(0)
    before = len(
        tiny.plain()("the key is " + " ".join(chain.thoughts) + " the key is")["input_ids"]
    )
    ids = {word: tiny.VOCABULARY.index(word) for word in chain.words}

    def likely(favourite):
        def log_probabilities(_, batch):
            found = []
            for tokens in batch:
                read = tokens.inputs["input_ids"]
                wanted = read[6] if favourite is None else ids[favourite]
                found.append(torch.tensor([0.0 if read[before] == wanted else -1.0]))
            return found

        return log_probabilities

    monkeypatch.setattr(type(answers), "log_probabilities", likely(None))
    assert chains.follows(chain, answers)
    monkeypatch.setattr(type(answers), "log_probabilities", likely("red"))
    assert not chains.follows(chain, answers)


def test_hits_and_claims_are_counted():
    def found(deciding, roles, values):
        kind = chains.KINDS[len(deciding) - 1]
        own = {"kind": kind, "deciding": deciding, "follows": True, "thoughts": 3}
        return {**own, "roles": roles, "ways": {"deleted": values}}

    text = report(
        [
            found([1], ["spared", "needed", "read"], [0.0, 3.0, 1.0]),
            found([0], ["spared", "unclear", "spared"], [2.0, 2.0, 1.0]),
            {"follows": False, "kind": chains.ONE},
            {"follows": False, "kind": chains.SPELLED},
            found([0, 2], ["passed on", "spared", "needed"], [1.0, 0.0, 2.0]),
        ]
    )
    one, two, spelled = text.split("Two steps decide")
    assert spelled.strip() == ", spelled out: 0 of 1 chains are followed."
    assert "One step decides: 2 of 3 chains are followed" in one
    assert "| deleted | 1 of 2 (" in one
    assert "| chance | 0.7 of 2 |" in one
    assert "said to be needed, and decides: 1 of 1 (" in one
    assert "needed, read or passed on, and decides: 1 of 2 (" in one
    assert "not needed, and does not decide: 2 of 3 (" in one
    assert "decides, and is said to be needed, read or passed on: 1 of 2 (" in one
    assert "| deleted | 1 of 1 (" in two
    assert "needed, read or passed on, and decides: 2 of 2 (" in two
