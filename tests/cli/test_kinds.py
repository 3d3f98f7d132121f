"""Causal and encoder–decoder models on the command line, and the page that it saves."""

import json
import re

import pytest

import attnflow
import tiny

TEXT = "the keys to the cabinet"


def saved(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    import transformers as tf

    tf.set_seed(0)
    model = tf.GPT2LMHeadModel(tf.GPT2Config(n_embd=32, n_layer=3, n_head=4, vocab_size=100))
    return saved(model, tiny.plain(), tmp_path_factory.mktemp("causal"))


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    return saved(tiny.build("t5"), tokenizer, tmp_path_factory.mktemp("t5"))


@pytest.mark.parametrize(
    ("given", "correction"), [((), "uniform"), (("none",), None), (("sink",), "sink")]
)
def test_corrections(run, causal, given, correction):
    asked = [part for name in given for part in ("--correction", name)]
    said = json.loads(run("explain", TEXT, "-m", causal, "--method", "flow", "--json", *asked).out)
    expected = attnflow.explain(TEXT, causal, method="flow", correction=correction)
    assert said["scores"]["flow"] == pytest.approx(expected.values.tolist())
    assert said["options"]["flow"]["correction"] == correction


def test_routes_of_a_causal_model(run, causal):
    plain = ("routes", TEXT, "-m", causal, "--to", "keys", "--no-verify")
    assert "corrected (sink)" in run(*plain).out  # as explain does
    assert "not corrected" in run(*plain, "--correction", "none").out
    assert "not corrected" in run(*plain, "--method", "flow").out  # which divides, and cuts nothing
    flow = ("routes", TEXT, "-m", causal, "-t", "keys", "--method", "flow")
    said = json.loads(run(*flow, "--correction", "sink", "--json").out)
    assert said["options"]["correction"] == "sink"
    shown = run("routes", TEXT, "-m", causal, "--to", "keys", "--correction", "sink").out
    assert "corrected (sink)" in shown
    refused = run("routes", TEXT, "-m", causal, "--to", "keys", "--correction", "magic")
    assert (refused.code, "uniform, sink, or none" in refused.err) == (2, True)
    assert said["value"] == pytest.approx(
        attnflow.explain(TEXT, causal, method="flow", correction="sink").values[1], abs=1e-9
    )


def test_targets(run, answering, tmp_path):
    asked = ["-m", answering, "--answer", "the cat is"]
    said = json.loads(run("explain", TEXT, *asked, "--method", "rollout", "--json").out)
    expected = attnflow.explain(TEXT, answering, method="rollout", answer="the cat is")
    assert said["scores"]["rollout"] == pytest.approx(expected.values.tolist())
    path = json.loads(run("routes", TEXT, *asked, "--to", "1", "--json").out)
    assert path["tokens"] == list(expected.tokens)
    assert run("compare", TEXT, *asked).code == 0
    assert run("figure", "heatmap", TEXT, *asked, "-o", str(tmp_path / "x.svg")).code == 0


def test_a_target_is_for_encoder_decoders(run):
    refused = run("explain", TEXT, "--answer", "x")
    assert (refused.code, refused.out) == (2, "")
    assert "causal language models and encoder–decoders" in refused.err


def test_the_saved_page_begins_with_what_was_chosen(run, folder, tmp_path):
    file = tmp_path / "view.html"
    asked = ["--method", "rollout", "--layer", "1", "--query", "cabinet", "--words"]
    assert run("explain", TEXT, "-m", folder, *asked, "--html", str(file)).code == 0
    page = re.search(r'id="document"[^>]*>(.*?)</script>', file.read_text("utf-8"), re.S)
    content = json.loads(page[1])
    (view,) = content["views"]
    assert (content["method"], content["words"], view["layer"]) == ("rollout", True, 1)
    assert view["tokens"][view["query"]] == "cabinet"


def test_of_several_methods_the_routes_are_those_of_flow(run, folder, tmp_path):
    methods = [part for name in ("raw", "rollout", "flow") for part in ("--method", name)]
    file = tmp_path / "routes.svg"
    done = run(
        "figure",
        "graph",
        "the keys to the cabinet",
        "-m",
        folder,
        *methods,
        "--to",
        "2",
        "-o",
        file,
    )
    assert done.code == 0, done.err
    assert re.search(r"flow \d\.\d+ to \[CLS\]", file.read_text())
