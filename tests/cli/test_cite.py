"""``attnflow cite``: the same as in Python, in every form of the output."""

import json

import pytest

import attnflow
import talkers
from attnflow.pipeline.citing import Citing

CHAT = [{"role": "user", "content": "the old keys are here ! a red cat is here ! is the cat red ?"}]
PARTS = {"keys": "the old keys are here !", "cat": "a red cat is here !"}
ANSWER = "is the cat old ! the keys !"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cited")
    for part in talkers.llama():
        part.save_pretrained(folder / "model")
    (folder / "chat.json").write_text(json.dumps(CHAT))
    for name, text in PARTS.items():
        (folder / f"{name}.txt").write_text(text + "\n")
    parts = [each for name in PARTS for each in ("--part", f"{name}={folder / name}.txt")]
    model = str(folder / "model")
    options = ["-m", model, "--answer", ANSWER, "--least", "0.05"]
    return model, ["cite", "--chat", folder / "chat.json", *parts, *options]


def test_every_form_has_what_python_finds(run, asked, tmp_path):
    model, given = asked
    found = attnflow.cite(CHAT, model, parts=PARTS, answer=ANSWER, least=0.05)
    assert found.sentences[0].citations
    ran = run(*given, "--json", "--save", tmp_path / "c.json", "--html", tmp_path / "c.html")
    printed = json.loads(ran.out)
    assert printed.pop("summary") == found.summary
    assert printed == found.to_dict()
    assert attnflow.Citations.load(tmp_path / "c.json").to_dict() == found.to_dict()
    assert found.summary in (tmp_path / "c.html").read_text().replace("\\u0027", "'")
    assert run(*given, "--markdown").out.strip() == found.markdown
    shown = " ".join(run(*given).out.split())
    assert shown.startswith(f"{found.summary[0].upper()}{found.summary[1:]}.")
    for line in str(found).splitlines():
        assert " ".join(line.split()) in shown


def test_an_interrupted_command_prints_what_was_finished(run, asked, monkeypatch):
    sentence = Citing.sentence

    def stops(citing, number):
        if number:
            raise KeyboardInterrupt
        return sentence(citing, number)

    monkeypatch.setattr(Citing, "sentence", stops)
    ran = run(*asked[1], "--json")
    assert ran.code == 130
    printed = json.loads(ran.out)
    assert len(printed["sentences"]) == 1
    assert printed["warnings"][0].startswith("interrupted: 1 of 2 sentences")


def test_two_forms_at_once_are_refused(run, asked):
    ran = run(*asked[1], "--json", "--markdown")
    assert ran.code == 2
    assert "give --json or --markdown, not both" in ran.err
