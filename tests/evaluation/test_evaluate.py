"""Evaluation from texts to tables: numbers are those of the model, baselines are always there."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import transformers

import attnflow
import tiny
from attnflow.errors import InputError
from attnflow.evaluation.explainers import Text, mark_tokens, name_default
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow.evaluation.statistics import all_paired_p, holm, smallest_p
from attnflow.evaluation.tables import cell, describe, save_table
from attnflow.pipeline.request import AUTO
from attnflow.views.figures import evaluation as figures

TEXTS = [
    "the keys to the cabinet are here",
    "a cat on the old mat",
    "",
    "playing cats , here is a key !",
    "cat",
]


@pytest.fixture(scope="module")
def model():
    pair = tiny.build("bert", head=transformers.BertForSequenceClassification), tiny.word_piece()
    return attnflow.load_model(pair)


@pytest.fixture(scope="module")
def found(model):
    return attnflow.evaluate(
        TEXTS, model, replacement=["unk", "mask", "delete", "mean"], layers="all"
    )


def probabilities(model, tokens, positions, filler):
    """What the model says without tokens, by its own means alone."""
    import torch

    ids, index = list(tokens.inputs["input_ids"]), None
    network, tokenizer = model.network, model.tokenizer
    with torch.no_grad():
        whole = network(input_ids=torch.tensor([ids])).logits.double().softmax(-1)[0]
        index = int(whole.argmax())
        if filler == "delete":
            ids = [each for at, each in enumerate(ids) if at not in positions]
        words = network.get_input_embeddings()(torch.tensor([ids]))
        for at in positions if filler != "delete" else ():
            words[0, at] = {
                "unk": network.get_input_embeddings().weight[tokenizer.unk_token_id],
                "mask": network.get_input_embeddings().weight[tokenizer.mask_token_id],
                "mean": network.get_input_embeddings().weight.mean(0),
            }[filler]
        return float(network(inputs_embeds=words).logits.double().softmax(-1)[0, index])


@pytest.mark.parametrize("filler", ["unk", "mask", "delete", "mean"])
def test_comprehensiveness_is_measured_on_the_model(model, found, filler):
    at = [(c.metric, c.against) for c in found.columns].index(("comprehensiveness", filler))
    for method in ("rollout", "flow"):
        key = [(e.method, e.layer) for e in found.explainers].index((method, 2))
        for place, row in enumerate([0, 1, 3]):
            scores = attnflow.explain(TEXTS[row], model, method=method, layer=2).row()
            tokens = model.tokenize(TEXTS[row])
            inner = list(range(1, len(scores) - 1))
            order = sorted(inner, key=lambda token: -round(scores[token] / scores.max(), 9))
            whole = probabilities(model, tokens, [], "unk")
            drops = [
                whole - probabilities(model, tokens, order[: max(1, round(s * len(inner)))], filler)
                for s in (0.01, 0.05, 0.1, 0.2, 0.5)
            ]
            assert found.values[key, at, place] == pytest.approx(np.mean(drops), abs=1e-5)


def test_baselines_and_fillers_are_in_the_table(found):
    names = {each.method for each in found.explainers if each.baseline}
    drawn = {"random", "first", "last"}
    # The attention of the last layer, a baseline too, is the row of raw at layer 3.
    assert names == drawn | {"gradient-input", "integrated"}
    layers = {(e.method, e.layer) for e in found.explainers if not e.baseline and e.layer}
    assert layers == {(m, n) for m in ("raw", "rollout", "flow") for n in (1, 2, 3)}
    assert {column.against for column in found.columns} == {
        *("unk", "mask", "delete", "mean"),
        *("blank-out", "gradient-norm"),
    }
    assert found.texts == 3
    assert [row for row, _ in found.skipped] == [2, 4]
    assert "fewer than two" in found.skipped[1][1]


def test_it_is_saved_without_loss_and_every_table_says_the_same(found, tmp_path):
    path = found.save(tmp_path / "result.json")
    again = Evaluation.load(path)
    np.testing.assert_array_equal(again.values, found.values)
    assert (again.explainers, again.columns) == (found.explainers, found.columns)
    np.testing.assert_array_equal(again.curves["unk"], found.curves["unk"])
    assert [cell(line) for line in again.lines] == [cell(line) for line in found.lines]
    for name in ("a.csv", "a.json", "a.md", "a.tex"):
        save_table(again, tmp_path / name)
    records = json.loads((tmp_path / "a.json").read_text())
    assert len(records) == len(found.lines) == len(found.explainers) * len(found.columns)
    line = found.lines[0]
    assert records[0]["mean"] == line.mean == pytest.approx(np.nanmean(found.values[0, 0]))
    assert f"{line.mean:.3f}" in (tmp_path / "a.md").read_text()
    assert r"\toprule" in (tmp_path / "a.tex").read_text()
    for column in found.columns:
        lines = [each for each in found.lines if each.column == column]
        if any(not math.isnan(each.mean) for each in lines):
            assert sum(each.best for each in lines) == 1
    with pytest.raises(InputError, match="let it end in one of"):
        save_table(found, tmp_path / "a.doc")
    path.write_text("{}")
    with pytest.raises(InputError, match="is not a saved evaluation"):
        Evaluation.load(path)


def test_figures_are_drawn_from_the_result(found, tmp_path):
    drawn = figures.curves(found, "mask")
    assert len(drawn.axes) == 2
    assert len(drawn.axes[0].lines) == len(found.explainers)
    means = figures.mean_ranks(found, 0)
    count = len(found.explainers)
    assert means.sum() == pytest.approx(count * (count + 1) / 2)
    assert len(figures.ranks(found, "aopc", "delete").axes[0].texts) == count
    with pytest.raises(InputError, match="was not evaluated"):
        figures.ranks(found, "none")
    order, pairs = [2, 0, 1, 3], dict.fromkeys([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)], 0.5)
    groups = figures.joined(order, pairs | {(0, 3): 0.01})
    assert groups == [(0, 2), (2, 3)]
    # The first and the last of the order can't be joined: one between them differs from the last.
    said = figures.told_apart(order, pairs | {(0, 3): 0.01}, groups)
    assert said == "bars join what can't be told apart\n1 more pair can't be told apart either"
    assert "all of them" in figures.told_apart(order, dict.fromkeys(pairs, 0.01), [])


def test_areas_in_the_figure_are_those_of_the_table(found, model):
    def legend(axes):
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        return {label.split("  ", 1)[1]: label.split("  ", 1)[0] for label in texts}

    drawn = found.figure("curves", replacement="delete")
    for metric, axes in zip(("deletion", "insertion"), drawn.axes, strict=True):
        lines = [each for each in found.lines if each.column.against == "delete"]
        means = {
            each.explainer.label: f"{each.mean:.3f}"
            for each in lines
            if each.column.metric == metric
        }
        assert legend(axes) == means
    # Where the table has no areas, they are those of what is drawn.
    other = attnflow.evaluate(TEXTS, model, methods="rollout", metrics="aopc")
    area = np.trapezoid(np.nanmean(other.curves["unk"][0], 1), np.linspace(0, 1, 11), axis=1)
    assert legend(other.figure().axes[0]) == {
        each.label: f"{one:.3f}" for each, one in zip(other.explainers, area, strict=True)
    }


def test_a_result_gives_its_table_and_its_figures(found, tmp_path):
    for ending in ("md", "tex", "csv", "json"):
        path = found.save_table(tmp_path / f"table.{ending}")
        assert path.read_text() == found.table(ending) == found.table(f".{ending}")
    assert found._repr_markdown_() == found.table()
    assert len(found.figure("ranks").axes[0].texts) == len(found.explainers)
    for options, message in (
        ({"kind": "bars"}, "kind='bars' is unknown; allowed: curves, ranks"),
        ({"metric": "aopc"}, "metric= is not for curves; allowed: replacement"),
        ({"replacement": "none"}, "replacement='none' was not evaluated"),
    ):
        with pytest.raises(InputError, match=message):
            found.figure(**options)
    with pytest.raises(InputError, match="format='doc' is unknown; allowed: csv, json, md, tex"):
        found.table("doc")


def test_ties_are_told_in_every_table(found):
    tied = tuple(3 * (each.method == "flow") for each in found.explainers)
    some, none = replace(found, tied=tied), replace(found, tied=(0,) * len(tied))
    told = "‡ Equal scores, taken in the order of the text: flow, layer 1 on 3"
    assert told in some.table()
    assert "| flow, layer 1 ‡ |" in some.table()
    assert "| rollout, layer 1 |" in some.table()
    assert r"flow, layer 1 $\ddagger$ &" in some.table("tex")
    assert "‡" not in none.table() + none.table("tex")


def test_few_texts_are_said_to_tell_nothing_apart(found):
    """The least p is reached where all differences have one sign."""
    for texts in (3, 6, 10):
        (same,) = all_paired_p(np.ones((1, texts)))
        pairs = [same] * 4
        assert smallest_p(texts, 4) == pytest.approx(min(holm(pairs)))
    many = replace(found, values=np.tile(found.values, (1, 1, 20)))
    few = replace(found, values=found.values[..., :3])
    count = len(found.explainers) * (len(found.explainers) - 1) // 2
    assert f"with 3 of them and {count} pairs of methods no p can be below" in describe(few)
    assert "Too few" not in describe(many)


def test_the_last_sentence_is_what_the_numbers_say():
    chance = np.random.default_rng(0)
    rows = (Explainer("flow", "relevance", 3), Explainer("lrp"), Explainer("random", baseline=True))
    columns = (Column("comprehensiveness", "unk"), Column("sufficiency", "unk"))
    values = np.array([[[0.5], [0.3]], [[0.5], [0.1]], [[0.1], [0.6]]]) + np.zeros((3, 2, 30))
    values[0, 0] += chance.normal(0.001, 0.05, 30)
    result = Evaluation(rows, columns, values, {}, (0, 0, 0), (), {})
    higher, other = ("flow on relevance, layer 3", "lrp")
    if values[0, 0].mean() < values[1, 0].mean():
        higher, other = other, higher
    assert describe(result).endswith(
        f"By Comprehensiveness (unk) {higher} is best; not told apart from it: {other}; 1 of 3 are "
        "worse. Best or not told apart from the best in most columns, 2 of 2: lrp."
    )
    even = values.copy()
    even[2, 0] = values[0, 0] + chance.normal(0, 0.01, 30)
    assert describe(replace(result, values=even)).endswith(
        "An order that reads nothing does as well, so that this column ranks none."
    )
    assert "is best" not in describe(replace(result, values=values[..., :3]))


def test_rationales_follow_words_to_tokens(model, tmp_path):
    text = "playing cats , the mat!"
    tokens = model.tokenize(text)
    assert tokens.names[1:-1] == ("play", "##ing", "cat", "##s", ",", "the", "mat", "!")
    inner = range(1, len(tokens) - 1)
    marks = mark_tokens([0.0, -1.0, 0.2, 0.0, 0.6], tokens, inner)
    assert marks.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    source = tmp_path / "rows.tsv"
    source.write_text(f"text\tmarks\n{text}\t0 -1 0.2 0 0.6\na cat\t0 1\nthe mat\t1 0 0\n")
    found = attnflow.evaluate(source, model, rationale_column="marks", metrics=["auprc"])
    assert found.texts == 2
    assert "has 2 words and 3 marks" in found.skipped[0][1]
    assert not np.isnan(found.values).any()


def test_one_name_is_as_good_as_a_list(model):
    names = {"methods": "rollout", "edges": "norms", "metrics": "aopc", "replacement": "mask"}
    alone = attnflow.evaluate(TEXTS[:2], model, **names)
    lists = attnflow.evaluate(TEXTS[:2], model, **{name: [one] for name, one in names.items()})
    assert alone.explainers == lists.explainers
    assert [(e.method, e.edges) for e in alone.explainers if not e.baseline] == [
        ("rollout", "norms")
    ]
    np.testing.assert_array_equal(alone.values, lists.values)
    with pytest.raises(InputError, match="must name at least one, and each once"):
        attnflow.evaluate(TEXTS, model, replacement=[])


def test_what_cannot_be_evaluated_is_refused(model):
    def refused(match, **options):
        with pytest.raises(InputError, match=match):
            attnflow.evaluate(options.pop("rows", TEXTS), model, **options)

    refused("replacement='x' is unknown; allowed: unk, mask, delete, mean", replacement=["x"])
    refused("metric='x' is unknown", metrics=["x"])
    refused("needs rationale_column", metrics=["auprc"])
    refused("no text can be evaluated; row 0: text is empty", rows=[""])
    refused("method='x' is unknown", methods=["x"])


@pytest.mark.parametrize(
    ("name", "head", "default"),
    [
        ("bert", transformers.BertForSequenceClassification, ("flow", "relevance")),
        ("gpt2", None, ("flow", "relevance")),
    ],
)
def test_by_default_the_papers_methods_stand_beside_what_explain_uses(name, head, default):
    tokenizer = tiny.word_piece() if name == "bert" else tiny.plain()
    model = attnflow.load_model((tiny.build(name, head=head), tokenizer))
    texts = [TEXTS[0], TEXTS[1]]
    found = attnflow.evaluate(texts, model, metrics="spearman")
    compared = {(each.method, each.edges) for each in found.explainers if not each.baseline}
    paper = {(method, "attention") for method in ("raw", "rollout", "flow")}
    assert compared == paper | {default, ("lrp", None)}
    assert "last-layer attention" not in {each.method for each in found.explainers}
    assert len(set(found.explainers)) == len(found.explainers)
    named = attnflow.evaluate(
        texts, model, methods=default[0], edges=default[1], metrics="spearman"
    )
    at = [each.edges for each in found.explainers].index(default[1])
    other = [each.edges for each in named.explainers].index(default[1])
    np.testing.assert_allclose(found.values[at], named.values[other])
    with pytest.raises(InputError, match="leave methods out"):
        attnflow.evaluate(texts, model, methods="rollout", edges="auto")


def test_what_explain_would_choose_has_a_name_only_where_it_is_the_same_for_all_texts():
    auto = Explainer(AUTO, AUTO, 3)
    one, other = ("alti", "rollout", None), ("attention", "flow", None)

    def named(*chosen):
        texts = [Text(row, {auto: np.ones(2)}, chosen=each) for row, each in enumerate(chosen)]
        name_default(texts)
        return [(key.method, key.edges) for text in texts for key in text.scores]

    assert named(one, one) == [("rollout", "alti")] * 2
    assert named(one, other) == [(AUTO, AUTO)] * 2
    assert named(("", "", None)) == [(AUTO, AUTO)]
