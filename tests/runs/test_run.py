"""Runs: what is stored is what `explain` says, bad rows are told, other requests are refused."""

import json
import math
import re
import shutil

import numpy as np
import pytest
import transformers

import attnflow
import tiny
from attnflow.errors import InputError, ModelError
from attnflow.models import loading
from attnflow.records.files import to_json
from full_disk import disk_of

TEXTS = [
    "the keys to the cabinet are here",
    "a cat",
    "the old red keys , to the cabinet of the cat are on the mat .",
    "playing cats !",
    "here is a key",
]


@pytest.fixture(scope="module")
def folder(model):
    return model


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        {"layers": "all"},
        {"target_column": "target"},
        {"methods": "direct"},
        {"query": "all", "methods": "rollout"},
        {"heads": "each", "methods": ["raw", "flow"], "layers": [1, -1], "layer": 1},
        {"words": True, "edges": ["attention", "alti"]},
        {"edges": "gradient", "contrast": "LABEL_1", "target_column": "target"},
        {"normalize": True, "discard": 0.3, "query": -1},
        {"methods": ["gradient-norm", "integrated", "raw"], "steps": 5, "target_column": "target"},
    ],
    ids=["layers", "target", "direct", "all", "each", "words", "gradient", "others", "measures"],
)
def test_what_is_read_back_is_what_explain_gives(tmp_path, folder, options):
    targets = ["LABEL_0"] * len(TEXTS) if "target_column" in options else None
    rows = [{"text": text, "target": "LABEL_0"} for text in TEXTS]
    made = attnflow.run(rows, tmp_path / "run", folder, shard_size=2, **options)
    plain = {name: value for name, value in options.items() if name != "target_column"}
    methods = plain.pop("methods", ["raw", "rollout", "flow"] if "edges" in plain else "auto")
    methods = [methods] if isinstance(methods, str) else methods
    edges = plain.pop("edges", "auto")
    edges = [edges] if isinstance(edges, str) else edges
    cases = [(text, rule, method) for text in TEXTS for rule in edges for method in methods]
    found = list(made)
    assert len(made) == len(found) == len(cases)
    assert made.rows == len(TEXTS)
    for one, (text, rule, method) in zip(found, cases, strict=True):
        target = None if targets is None else targets[0]
        own = {"target": target} if method != "raw" or rule == "gradient" else {}
        own |= {"steps": plain["steps"]} if method == "integrated" else {}
        alone = attnflow.explain(
            text,
            folder,
            method=method,
            edges=rule,
            **{name: value for name, value in plain.items() if name != "steps"},
            **own,
        )
        assert (one.text, one.method, one.tokens) == (text, alone.method, alone.tokens)
        assert one.options == alone.options
        assert one.word_ids == alone.word_ids
        assert one.layers == alone.layers
        assert one.prediction.label == alone.prediction.label
        asked = [alone.queries.index(query) for query in one.queries]
        close = pytest.approx(alone.scores[..., asked, :], abs=2e-5)
        assert one.scores == close
        if plain.get("query") == "all":
            assert one.queries == tuple(range(len(one.tokens)))
        else:
            assert one.queries == (one.query,)


def test_what_reads_no_edges_is_computed_once(tmp_path, folder):
    options = {"methods": ["raw", "gradient-norm"], "edges": ["attention", "norms"]}
    made = attnflow.run(TEXTS[:2], tmp_path / "run", folder, **options)
    found = [(one.method, one.options.get("edges")) for one in made]
    assert found == [("raw", "attention"), ("gradient-norm", None), ("raw", "norms")] * 2
    with pytest.raises(InputError, match="edges='norms' does not apply to method='gradient-norm'"):
        attnflow.run(TEXTS, tmp_path / "b", folder, **options | {"methods": "gradient-norm"})


def test_an_attribution_is_stored_without_loss(tmp_path, folder):
    from attnflow.io.rows import Row
    from attnflow.runs.shards import encode_shard, read_records, read_shard, to_attribution

    given = attnflow.explain(TEXTS[:2], folder, layers="all", query="all")
    path = tmp_path / "part.parquet"
    rows = [Row(text) for text in TEXTS[:3]]
    path.write_bytes(encode_shard(rows, [[given[0]], [given[1]], "why"], 7, about()))
    records = list(read_records(path, read_shard(path)))
    assert [record["row"] for record in records] == [7, 8, 9]
    assert records[2]["error"] == "why"
    assert records[2]["scores"] is None
    for one, record in zip(given, records, strict=False):
        read = to_attribution(record)
        assert to_json(read) == to_json(one)
        assert read.scores.dtype == np.float64


def about():
    return {"request": "", "rows": ""}


def test_bad_rows_are_recorded_and_the_others_explained(tmp_path, folder):
    long = "cat " * 100
    rows = [TEXTS[0], "", TEXTS[1], long, {"text": 3}, TEXTS[2]]
    made = attnflow.run(rows, tmp_path / "a", folder, shard_size=4, methods="raw")
    assert [(bad.row, bad.text) for bad in made.errors] == [(1, ""), (3, long), (4, "")]
    assert made.errors[0].error == "text is empty"
    assert "102" in made.errors[1].error
    assert [one.text for one in made] == [TEXTS[0], TEXTS[1], TEXTS[2]]
    frame = made.to_pandas(["row", "error", "method"])
    assert list(frame["row"]) == [0, 1, 2, 3, 4, 5]
    assert list(frame["method"].isna()) == list(frame["error"].notna())
    assert made.table.count_rows() == 6
    assert "6 rows, 3 attributions, 3 errors" in repr(made)
    with pytest.raises(InputError, match=r"^row 1: text is empty \(refused: strict=True\)"):
        attnflow.run(rows, tmp_path / "b", folder, strict=True)
    cut = attnflow.run([long], tmp_path / "c", folder, truncate=True, methods="raw")
    assert len(next(iter(cut)).tokens) == 64


def test_one_row_that_fails_in_a_batch_fails_alone(tmp_path, folder):
    made = attnflow.run(TEXTS, tmp_path / "run", folder, query="cabinet", methods="raw")
    assert [one.text for one in made] == [TEXTS[0], TEXTS[2]]
    assert [bad.row for bad in made.errors] == [1, 3, 4]
    assert "query='cabinet'" in made.errors[0].error


def test_what_can_never_work_is_refused_before_any_work(tmp_path, folder):
    place = tmp_path / "run"

    def refused(match, **options):
        with pytest.raises(InputError, match=match):
            attnflow.run(options.pop("rows", TEXTS), place, options.pop("model", folder), **options)

    refused("layer=9 does not exist", layer=9)
    refused(
        "contrast='LABEL_1' does not apply to edges='attention'", contrast="LABEL_1", methods="flow"
    )
    rows = [{"text": "a", "y": 1}]
    refused("a target column has no effect", target_column="y", rows=rows, methods="flow")
    refused("method='fl' is unknown", methods="fl")
    refused("edges='x' is unknown", edges="x")
    refused(r"methods=\[\] must name at least one", methods=[])
    refused("must name at least one, and each once", methods=["raw", "raw"])
    refused("shard_size=0 must be an integer", shard_size=0)
    refused("workers=True must be an integer", workers=True)
    refused("has no rows; give at least one", rows=[])
    pair = (tiny.build("bert"), tiny.word_piece())
    refused("can't be given to other processes", model=pair, workers=2)
    assert not place.exists()
    assert len(attnflow.run(TEXTS[:1], place, pair)) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [("photos/cat.JPG", "an image"), ("bark.wav", "a sound"), ("cat.jpg is a cat", "")],
)
def test_the_name_of_an_image_is_no_text(tmp_path, folder, text, kind):
    made = attnflow.run([TEXTS[0], text], tmp_path / "run", folder, methods="raw")
    assert [bad.row for bad in made.errors] == ([1] if kind else [])
    if kind:
        assert f"{text!r} is the name of {kind}, and" in made.errors[0].error
    found = attnflow.evaluate([TEXTS[0], TEXTS[1], text], folder, methods="raw", metrics="deletion")
    assert [row for row, _ in found.skipped] == ([2] if kind else [])


def test_the_same_call_again_changes_nothing(tmp_path, folder):
    place = tmp_path / "run"
    attnflow.run(TEXTS, place, folder, shard_size=2)
    before = files(place)
    assert sorted(before) == ["manifest.json", *(f"part-0000{i}.parquet" for i in range(3))]
    attnflow.run(TEXTS, place, folder, shard_size=2)
    assert files(place) == before
    (place / "part-00001.parquet").unlink()
    attnflow.run(TEXTS, place, folder, shard_size=2)
    assert files(place) == before


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"layers": "all"}, 'options.layers was null, now "all"'),
        ({"methods": "raw"}, r'methods was \["auto"\], now \["raw"\]'),
        ({"shard_size": 3}, "shard_size was 2, now 3"),
        ({"data": TEXTS[:4]}, "input.rows was 5, now 4; input.sha256 was"),
        ({"data": [*TEXTS[:4], "a key"]}, "other options: input.sha256 was"),
        ({"model": "other"}, "model.sha256 was"),
    ],
    ids=str,
)
def test_another_request_in_the_same_folder_is_refused(tmp_path, folder, changes, match):
    place = tmp_path / "run"
    given = {"data": TEXTS, "shard_size": 2}
    model = tmp_path / "model"
    shutil.copytree(folder, model)
    attnflow.run(folder=place, model=str(model), **given)
    before = files(place)
    if changes.pop("model", None):
        loading._load_once.cache_clear()
        network = tiny.build("bert", head=transformers.BertForSequenceClassification)
        network.classifier.bias.data[0] += 1
        network.save_pretrained(model)
    with pytest.raises(InputError, match=match):
        attnflow.run(folder=place, model=str(model), **given | changes)
    assert files(place) == before


PLUGIN = """
import attnflow
def score(graph, selection, execution):
    found = attnflow.METHODS["raw"].score(graph, selection, execution)
    return attnflow.Scores(found.values * {factor})
member = attnflow.Method("scaled", "Scaled", score, residual=0.0)
attnflow.METHODS.register(member)
"""


def test_another_version_of_a_plugin_is_refused(tmp_path, folder):
    """Its name is the same, and so are all options: only its code tells."""
    place = tmp_path / "run"
    options = {"methods": ["scaled", "raw"], "edges": "attention", "shard_size": 2}

    def run(name, factor):
        file = tmp_path / name
        file.write_text(PLUGIN.format(factor=factor))
        try:
            return attnflow.run(TEXTS, place, folder, plugins=[str(file)], **options)
        finally:
            attnflow.METHODS.unregister("scaled")

    made = run("first.py", 2)
    found = list(made)
    for scaled, raw in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_array_equal(scaled.scores, 2 * raw.scores)
    before = files(place)
    (place / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=r'other options: plugins\.scaled was "'):
        run("second.py", 3)
    run("third.py", 2)  # the same code in another place
    assert files(place) == before


@pytest.mark.parametrize(
    "change",
    [{"hidden_act": "relu"}, {"layer_norm_eps": 0.1}, {"id2label": {"0": "good", "1": "bad"}}],
    ids=["activation", "norm", "labels"],
)
def test_other_settings_of_the_same_weights_are_refused(change, tmp_path, folder):
    model, place = tmp_path / "model", tmp_path / "run"
    shutil.copytree(folder, model)
    attnflow.run(TEXTS, place, str(model), shard_size=2)
    (place / "part-00001.parquet").unlink()
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | change))
    loading._load_once.cache_clear()
    with pytest.raises(InputError, match=r'other options: model\.settings was "'):
        attnflow.run(TEXTS, place, str(model), shard_size=2)
    (model / "config.json").write_text(json.dumps(config | {"transformers_version": "0.0"}))
    loading._load_once.cache_clear()
    assert attnflow.run(TEXTS, place, str(model), shard_size=2).kept == 3


def test_a_run_goes_on_with_the_same_adapter_only(tmp_path):
    """Which of its adapters a layer uses stands in no weight and in no configuration."""
    network, place = tiny.build("bert"), tmp_path / "run"
    layer = network.encoder.layer[1].output.dense
    layer.active_adapters, layer.disable_adapters, layer.scaling = ["first"], False, {"first": 2.0}
    model = (network, tiny.word_piece())
    attnflow.run(TEXTS, place, model, shard_size=2, methods="raw")
    (place / "part-00001.parquet").unlink()
    for name, changed in (
        ("active_adapters", ["second"]),
        ("disable_adapters", True),
        ("scaling", {"first": 1.0}),
    ):
        before = getattr(layer, name)
        setattr(layer, name, changed)
        with pytest.raises(InputError, match=r'other options: model\.settings was "'):
            attnflow.run(TEXTS, place, model, shard_size=2, methods="raw")
        setattr(layer, name, before)
    assert attnflow.run(TEXTS, place, model, shard_size=2, methods="raw").kept == 3


def test_a_generator_is_checked_as_it_is_read(tmp_path, folder):
    place = tmp_path / "run"
    attnflow.run(iter(TEXTS), place, folder, shard_size=2)
    before = files(place)
    attnflow.run(iter(TEXTS), place, folder, shard_size=2)
    assert files(place) == before
    changed = [*TEXTS[:2], "a key", *TEXTS[3:]]
    with pytest.raises(InputError, match="rows 2 to 3 of the input have changed"):
        attnflow.run(iter(changed), place, folder, shard_size=2)


def test_a_full_disk_keeps_what_is_finished(tmp_path, folder):
    """However much room there is at first, and a little more each time."""
    undisturbed, place = tmp_path / "whole", tmp_path / "run"
    attnflow.run(TEXTS, undisturbed, folder, shard_size=2)
    whole, seen, refused = files(undisturbed), [], []
    most = sum(map(len, whole.values()))
    for size in range(0, 2 * most, most // 6):
        with disk_of(place, size):
            try:
                attnflow.run(TEXTS, place, folder, shard_size=2)
            except InputError as error:
                refused.append(str(error))
        there = files(place)
        assert [there[name] for name in there if name != "manifest.json"] == [
            whole[name] for name in there if name != "manifest.json"
        ]
        seen.append(len(there))
        if there and there != whole:
            part = attnflow.read_run(place, unfinished=True)
            assert part.finished is False
            with pytest.raises(InputError, match="is not finished"):
                attnflow.read_run(place)
    assert files(place) == whole
    assert seen[0] == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 3
    told = r"(manifest\.json|part-0000\d\.parquet) can't be written: No space left on device; what"
    assert all(re.search(told, each) for each in refused)


def test_damage_is_told_by_the_name_of_the_file(tmp_path, folder):
    place = tmp_path / "run"
    attnflow.run(TEXTS, place, folder, shard_size=2)
    path = place / "part-00001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(InputError, match=r"part-00001\.parquet is damaged \(\d+ bytes instead of"):
        attnflow.read_run(place)
    with pytest.raises(InputError, match=r"part-00001\.parquet is damaged .*delete this file"):
        attnflow.run(TEXTS, place, folder, shard_size=2)
    for at in range(4, len(content) - 8, 499):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(InputError, match=r"part-00001\.parquet is damaged"):
            list(attnflow.read_run(place))
    path.unlink()
    with pytest.raises(InputError, match=r"part-00001\.parquet is damaged \(it is missing\)"):
        attnflow.read_run(place)
    saved = json.loads((place / "manifest.json").read_text())
    saved["request"]["shard_size"] = 3
    (place / "manifest.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match="its checksum does not match"):
        attnflow.read_run(place)
    (place / "manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"manifest\.json is damaged"):
        attnflow.read_run(place)
    (place / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"is not a run: it has no manifest\.json"):
        attnflow.read_run(place)
    with pytest.raises(InputError, match=r"has shards and no manifest\.json"):
        attnflow.run(TEXTS, place, folder)
    with pytest.raises(InputError, match="there is no such folder"):
        attnflow.read_run(tmp_path / "none")


def test_workers_make_the_same_bytes(tmp_path, folder):
    rows = [{"text": text, "id": number} for number, text in enumerate([*TEXTS, ""] * 3)]
    options = {"id_column": "id", "shard_size": 4, "layers": "all"}
    attnflow.run(rows, tmp_path / "one", folder, **options)
    attnflow.run(iter(rows), tmp_path / "once", folder, **options)
    made = attnflow.run(rows, tmp_path / "three", folder, workers=3, **options)
    assert files(tmp_path / "three") == files(tmp_path / "one")
    assert [one.text for one in made] == TEXTS * 3


@pytest.mark.usefixtures("quick_workers")
def test_workers_tell_their_errors(tmp_path, folder):
    with pytest.raises(ModelError, match="does not exist; give a folder"):
        attnflow.run(TEXTS, tmp_path / "four", "/nowhere/at/all", workers=2)
    with pytest.raises(InputError, match=r"row 5: text is empty \(refused"):
        attnflow.run([*TEXTS, ""], tmp_path / "five", folder, workers=2, strict=True)


def test_a_probability_that_is_no_number_is_kept(tmp_path, folder):
    from dataclasses import replace

    from attnflow.io.rows import Row
    from attnflow.runs.shards import encode_shard, read_records, read_shard, to_attribution

    given = attnflow.explain("a cat", folder)
    given = replace(given, prediction=replace(given.prediction, probability=math.nan))
    path = tmp_path / "part.parquet"
    path.write_bytes(encode_shard([Row("a cat")], [[given]], 0, about()))
    (record,) = read_records(path, read_shard(path))
    assert math.isnan(to_attribution(record).prediction.probability)


def test_a_model_that_refuses_the_default_has_attention_and_says_why(tmp_path):
    pair = (tiny.build("llama", head=transformers.LlamaModel), tiny.plain())
    made = list(attnflow.run(TEXTS[:2], tmp_path / "run", pair))
    assert [(one.options["edges"], one.method) for one in made] == [("attention", "flow")] * 2
    assert "no head that predicts" in made[0].warnings[-1]
