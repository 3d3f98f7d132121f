"""A target that is written in digits means the same everywhere: a name first, then a number."""

import csv
import json

import numpy as np
import pyarrow
import pytest
import torch
import transformers as tf
from pyarrow import parquet
from starlette.testclient import TestClient

import attnflow
import talkers
import tiny
from attnflow.errors import InputError
from attnflow.views.explorer.server.app import make_app

TEXTS = ["the keys to the cabinet are here", "a cat on the mat", "the old cat is here ."]
NAMED = {0: "1", 1: "2", 2: "3"}  # as a scale of one to three
PLAIN = {0: "bad", 1: "fair", 2: "good"}
TOWARDS = {"edges": "gradient", "method": "direct-all"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of the same weights, with labels that are named by digits and by words."""
    torch.manual_seed(0)
    config = tf.BertConfig(**tiny.USUAL, num_labels=3)
    network = talkers.seeded(tf.BertForSequenceClassification(config))
    found = {}
    for name, labels in (("named", NAMED), ("plain", PLAIN)):
        tokenizer = tiny.word_piece()
        network.config.id2label = labels
        found[name] = tmp_path_factory.mktemp("model") / name
        network.save_pretrained(found[name])
        tokenizer.save_pretrained(found[name])
    return found


def written(folder, targets):
    """The same rows in every format, with targets as texts and, where there are such, numbers."""
    rows = [{"text": text, "y": target} for text, target in zip(TEXTS, targets, strict=True)]
    spelled = [{**row, "y": str(row["y"])} for row in rows]
    files = {"csv": folder / "rows.csv", "tsv": folder / "rows.tsv"}
    for name, path in files.items():
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["text", "y"], delimiter="," if name == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    for name, kind in (("texts", spelled), ("numbers", rows)):
        lines = folder / f"{name}.jsonl"
        lines.write_text("".join(json.dumps(row) + "\n" for row in kind))
        table = folder / f"{name}.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(kind), table)
        files |= {f"jsonl {name}": lines, f"parquet {name}": table, f"python {name}": kind}
    return files


@pytest.mark.parametrize("name", ["named", "plain"])
def test_the_same_rows_have_the_same_numbers_in_every_format(name, models, tmp_path):
    targets = [1, 2, 1]
    labels = ["1", "2", "1"] if name == "named" else [PLAIN[each] for each in targets]
    own = attnflow.explain(TEXTS, models[name], target=labels, **TOWARDS)
    wrong = attnflow.explain(TEXTS, models[name], target=["3"] * 3 if name == "named" else "bad")
    assert not np.allclose(own[0].scores, wrong[0].scores)
    options = {"target_column": "y", "edges": "gradient", "methods": "direct-all"}
    measured = {}
    for kind, rows in written(tmp_path, targets).items():
        made = attnflow.run(rows, tmp_path / f"run {kind}", models[name], **options)
        assert not made.errors, kind
        for one, expected in zip(made, own, strict=True):
            assert one.options["target"] == expected.options["target"]
            np.testing.assert_allclose(one.values, expected.values, rtol=1e-5, atol=1e-8)
        measured[kind] = attnflow.evaluate(rows, models[name], **options)
        np.testing.assert_array_equal(measured[kind].values, measured["csv"].values)


def test_numbers_and_names_in_python(models):
    named, plain = models["named"], models["plain"]
    for label, number in (("1", 0), ("2", 1), ("3", 2)):
        found = attnflow.explain(TEXTS[0], named, target=label, **TOWARDS)
        same = attnflow.explain(TEXTS[0], plain, target=PLAIN[number], **TOWARDS)
        digits = attnflow.explain(TEXTS[0], plain, target=str(number), **TOWARDS)
        counted = attnflow.explain(TEXTS[0], plain, target=number, **TOWARDS)
        assert found.options["target"] == label
        assert digits.options["target"] == PLAIN[number]
        for other in (same, digits, counted):
            np.testing.assert_array_equal(found.scores, other.scores)
    for ask in (attnflow.blank_out, attnflow.gradients):
        found, same = ask(TEXTS[0], named, target="2"), ask(TEXTS[0], plain, target=1)
        np.testing.assert_array_equal(found.scores, same.scores)
        assert (found.options["target"], same.options["target"]) == ("2", "fair")
    zero = attnflow.explain(TEXTS[0], named, target=0, **TOWARDS)  # no label has this name
    assert zero.options["target"] == "1"


def test_a_number_that_is_the_name_of_another_label_is_refused(models):
    with pytest.raises(InputError, match="target=1 may be the label named '1', which is number 0"):
        attnflow.explain(TEXTS[0], models["named"], target=1, **TOWARDS)
    with pytest.raises(InputError, match="give the name as text"):
        attnflow.explain(TEXTS[0], models["named"], target="3", contrast=2, **TOWARDS)
    with pytest.raises(InputError, match=r"'7' is not a label .* or a label's number, 0 to 2"):
        attnflow.explain(TEXTS[0], models["plain"], target="7", **TOWARDS)


def test_commands_read_digits_as_python_does(run, models, tmp_path):
    named, plain = str(models["named"]), str(models["plain"])
    ways = ("--edges", "gradient", "--json", "--contrast", "3")
    ran = run("explain", TEXTS[0], "-m", named, "--target", "1", *ways)
    assert ran.code == 0, ran.err
    own = attnflow.explain(TEXTS[0], named, edges="gradient", target="1", contrast="3")
    said = json.loads(ran.out)
    np.testing.assert_allclose(said["scores"][own.method], own.values, rtol=1e-6)
    assert (own.options["target"], own.options["contrast"]) == ("1", "3")
    for command in (["routes", "--to", "1"], ["compare"]):
        outputs = [
            run(*command, TEXTS[0], "-m", model, "--edges", "gradient", "--target", target).out
            for model, target in ((named, "1"), (plain, "0"), (plain, "bad"), (named, "2"))
        ]
        alike = [each.replace(named, "M").replace(plain, "M") for each in outputs]
        numbers = ["".join(c for c in each if c.isdigit() or c == ".") for each in alike]
        assert numbers[1] == numbers[2]
        assert outputs[1] == outputs[2]
        assert numbers[0] != numbers[3]
    pictures = []
    for model, target in ((plain, "0"), (plain, "bad")):
        path = tmp_path / f"{target}.svg"
        asked = ("--edges", "gradient", "--target", target, "-o", path)
        assert run("figure", "heatmap", TEXTS[0], "-m", model, *asked).code == 0
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1]


def test_a_server_reads_digits_as_python_does(models):
    app = make_app({name: attnflow.load_model(path) for name, path in models.items()})
    asked = {"text": TEXTS[0], "edges": "gradient", "method": "direct-all", "query": 0}
    layers = {"layers": [3]}
    with TestClient(app, "http://localhost") as client:

        def scores(model, target):
            body = {**asked, **layers, "model": model, "target": target}
            found = client.post("/api/scores", json=body).json()
            found.pop("findings")  # which name labels
            return found

        found = scores("named", "1")
        assert found == scores("plain", "0") == scores("plain", "bad")
        assert found == scores("plain", 0) != scores("named", "2")
        body = {**asked, **layers, "model": "named", "target": 1}
        refused = client.post("/api/scores", json=body)
        assert refused.status_code == 422
        assert "give the name as text" in refused.json()["error"]["message"]
        page = {"text": TEXTS[0], "model": "plain", "edges": "gradient", "target": "0"}
        assert '"target": "bad"' in json.dumps(client.post("/api/explain", json=page).json())


def test_a_token_of_digits_is_a_name_and_other_digits_a_number():
    network, tokenizer = talkers.llama()
    tokenizer.add_tokens(["7"])
    network.resize_token_embeddings(len(tokenizer))
    seven = tokenizer.convert_tokens_to_ids("7")
    options = {"edges": "gradient", "method": "direct"}
    found = attnflow.explain("the cat is", (network, tokenizer), target="7", **options)
    by_id = attnflow.explain("the cat is", (network, tokenizer), target=seven, **options)
    np.testing.assert_array_equal(found.scores, by_id.scores)
    number = attnflow.explain("the cat is", (network, tokenizer), target=7, **options)
    assert number.options["target"] == tokenizer.convert_ids_to_tokens(7)
    eight = attnflow.explain("the cat is", (network, tokenizer), target="8", **options)
    assert eight.options["target"] == tokenizer.convert_ids_to_tokens(8)
    with pytest.raises(InputError, match="'9999' is not a single token"):
        attnflow.explain("the cat is", (network, tokenizer), target="9999", **options)
