"""`attnflow knockout`: what is named on the command line is what the library removes."""

import json
from itertools import pairwise

import pytest

import attnflow
import talkers
from attnflow import Edges, Knockout

TEXT = "the keys to the cabinet"


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("talker")
    for part in talkers.llama(max_position_embeddings=128):
        part.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("given", "edges"),
    [
        (("--hide", "keys"), "keys"),
        (("--hide", "2", "--hide", "to"), Edges(keys=[2, "to"])),
        (
            ("--hide", "keys", "--from", "CLS", "--layers", "2-3"),
            Edges(keys=2, queries=0, layers=[2, 3]),
        ),
        (("--from", "[CLS]", "--layers", "1,3"), Edges(queries=0, layers=[1, 3])),
        (("--hide", "keys", "--own"), Edges(keys=2, own=True)),
        (("--head", "2.1"), Edges(layers=2, heads=1)),
        (("--head", "2.1", "--head", "3"), [Edges(layers=2, heads=1), Edges(heads=3)]),
        (
            ("--head", "1", "--layers", "2", "--hide", "keys"),
            Edges(layers=2, heads=1, keys="keys"),
        ),
        (("--layers", "2"), Edges(layers=2)),
    ],
    ids=str,
)
def test_json_is_what_the_library_says(given, edges, run, folder):
    ran = run("knockout", TEXT, "-m", folder, *given, "--json", "--random", "2", "--seed", "7")
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    expected = attnflow.knockout(TEXT, folder, edges=edges, random=2, seed=7)
    assert said.pop("summary") == expected.summary
    assert (said["removed"], said["total"]) == (expected.removed, expected.total)
    found = Knockout.from_dict(said)
    assert found.after.log_probability == pytest.approx(expected.after.log_probability, abs=1e-6)
    for one, other in zip(found.random, expected.random, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-6)


def test_cuts_and_routes_are_those_of_the_routes_command(run, folder):
    flow = ("--edges", "attention", "--method", "flow")
    said = json.loads(run("routes", TEXT, "-m", folder, "--to", "keys", *flow, "--json").out)
    cut = [edge for edge in said["cut"] if edge["query"] != edge["key"]]
    asked = ("knockout", TEXT, "-m", folder, *flow, "--json")
    found = json.loads(run(*asked, "--cut", "keys").out)
    assert (found["removed"], found["kept"]) == (len(cut), len(said["cut"]) - len(cut))
    assert found["label"] == "the cut between “keys” and “[CLS]”"
    path = said["routes"][0]["positions"]
    steps = sum(one != other for one, other in pairwise(path))
    assert json.loads(run(*asked, "--route", "keys").out)["removed"] == steps
    both = json.loads(run(*asked, "--cut", "keys", "--hide", "cabinet", "--random", "0").out)
    assert both["label"] == "“cabinet” hidden; the cut between “keys” and “[CLS]”"
    assert both["random"] == []


def test_it_is_shown_with_its_numbers(run, folder):
    ran = run(
        "knockout", TEXT, "-m", folder, "--hide", "keys", "--contrast", "LABEL_0", columns=100
    )
    found = attnflow.knockout(TEXT, folder, edges="keys", contrast="LABEL_0")
    assert ran.code == 0, ran.err
    shown = " ".join(ran.out.split())
    assert f"“keys” hidden · 18 of {found.total} edges · " in shown
    assert found.summary[1:] in shown
    assert "as it is" in shown
    assert "random edges, mean of 5" in shown


def test_an_answer_and_its_parts(run, talker, tmp_path):
    (tmp_path / "keys.txt").write_text("the keys are red")
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "cat", "content": "the cat is old"}]))
    parts = {"keys": "the keys are red", "question": "a cat is"}
    ran = run(
        *("knockout", "a cat is", "-m", talker, "--part", f"keys={tmp_path / 'keys.txt'}"),
        *("--hide", "keys", "--from", "answer", "--answer", "red", "--json"),
    )
    assert ran.code == 0, ran.err
    said = json.loads(ran.out)
    hidden = Edges(keys="keys", queries="answer")
    expected = attnflow.knockout(parts, talker, edges=hidden, answer="red")
    assert said["answer"].strip() == "red"
    assert said["after"]["log_probability"] == pytest.approx(expected.after.log_probability)
    ran = run(
        *("knockout", "-m", talker, "--chat", tmp_path / "chat.json"),
        *("--hide", "cat", "--generate", "2", "--json"),
    )
    assert ran.code == 0, ran.err
    assert len(json.loads(ran.out)["before"]["log_probabilities"]) == 2
    refused = run("knockout", "a cat is", "-m", talker, "--generate", "2", "--cut", "cat")
    assert (refused.code, refused.err[:26]) == (2, "attnflow: --cut and --rout")


def test_it_is_saved(run, folder, tmp_path):
    file = tmp_path / "found.json"
    asked = ("knockout", TEXT, "-m", folder, "--hide", "keys", "--save", file)
    ran = run(*asked)
    assert f"saved the knockout to {file}" in ran.err.replace("\n", "")
    assert Knockout.load(file).removed == 18
    refused = run(*asked)
    assert refused.code == 2
    assert "exists; choose another name" in refused.err
    assert run(*asked, "--force").code == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "no edges are named; hide a token (--hide not)"),
        (("--own",), "--own goes with --hide or --from"),
        (("--layers", "3-1"), "--layers '3-1' is unknown; give numbers such as 3-5 or 1,3"),
        (("--layers", "all"), "--layers 'all' is unknown"),
        (("--layers", "4"), "layers=4 does not exist here; allowed: 1 to 3"),
        (("--head", "a"), "--head 'a' is unknown; give 5.2"),
        (("--head", "2.1", "--layers", "3"), "--head 2.1 names its layer; leave out --layers 3"),
        (("--head", "2.9"), "heads=9 does not exist here; allowed: 0 to 3"),
        (("--hide", "dog"), "keys='dog' is not one of the tokens"),
        (("--cut", "dog"), "to='dog' is not one of the tokens"),
        (("--cut", "keys", "--method", "blank-out"), "blank-out"),
        (("--hide", "keys", "--random", "-1"), "random=-1 must be an integer from 0"),
    ],
    ids=str,
)
def test_what_can_not_be_is_refused(given, message, run, folder):
    ran = run("knockout", TEXT, "-m", folder, *given)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("columns", range(60, 100))
def test_a_number_and_its_percent_sign_are_on_one_line(run, columns):
    for command in (("knockout", "--hide", "good"), ("routes", "--to", "not")):
        name, *asked = command
        shown = run(name, "The food was not good.", *asked, columns=columns).out
        assert " %" in shown
        assert not [line for line in shown.splitlines() if line.lstrip().startswith("%")]
