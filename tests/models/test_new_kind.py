"""A kind of model that attnflow does not know: one file and one line, and it works everywhere."""

import json
import re

import numpy as np
import pytest
import torch

import attnflow
import oracle
from attnflow.cli.app import run
from attnflow.errors import InputError, ModelError
from attnflow.models.kinds import MODEL_KINDS, ModelKind
from attnflow.models.loading import load_model
from plugged import PLUGIN, numbers, save_numbers

SERIES = "3 1 4 1 5"


@pytest.fixture
def plugin():
    with numbers() as module:
        yield module


@pytest.fixture
def folder(plugin, tmp_path):
    return save_numbers(plugin, tmp_path / "numbers")


def own_attention(folder, text=SERIES):
    """What the model itself says its attention is, ``[layer, head, query, key]``."""
    values = torch.tensor([[float(number) for number in text.split()]])
    with torch.no_grad():
        maps = load_model(folder).network(values, output_attentions=True).attentions
    return np.stack([each[0].numpy() for each in maps])


def test_a_call_explains_it_by_its_own_attention(folder):
    found = attnflow.explain(SERIES, folder, edges="attention", method="rollout")
    assert found.tokens == tuple(SERIES.split())
    assert found.prediction.label in ("falling", "rising")
    weights = 0.5 * own_attention(folder).astype(np.float64).mean(1) + 0.5 * np.eye(5)
    np.testing.assert_allclose(found.values, oracle.rollout(weights, 3)[-1], rtol=0, atol=1e-6)


def test_methods_that_run_the_model_again_work(folder):
    found = attnflow.explain(SERIES, folder, method="blank-out")
    model = load_model(folder)

    def probability(values):
        with torch.no_grad():
            logits = model.network(torch.tensor([values])).logits[0].double()
        return float(logits.softmax(-1)[model.output_indices(found.prediction.label)[0]])

    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    without = [probability([*values[:at], 0.0, *values[at + 1 :]]) for at in range(5)]
    np.testing.assert_allclose(
        found.values, np.abs(np.subtract(probability(values), without)), atol=1e-6
    )


def test_edges_towards_a_target_work(folder):
    rising = attnflow.explain(SERIES, folder, edges="gradient", target="rising")
    falling = attnflow.explain(SERIES, folder, edges="gradient", target="falling")
    assert not np.allclose(rising.values, falling.values)
    with pytest.raises(InputError, match=r"target='steady' is not a label.*falling, rising"):
        attnflow.explain(SERIES, folder, edges="gradient", target="steady")


def test_what_it_does_not_read_is_its_own_error(folder):
    with pytest.raises(InputError, match="reads numbers, such as '3 1 4'; this is 'a word'"):
        attnflow.explain("a word", folder)


def test_commands_take_it(folder, tmp_path, capsys):
    assert run(["explain", SERIES, "-m", folder, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    expected = attnflow.explain(SERIES, folder)
    np.testing.assert_allclose(shown["scores"][expected.method], expected.values, atol=1e-6)
    assert run(["routes", SERIES, "-m", folder, "--to", "4", "--edges", "attention"]) == 0
    assert run(["knockout", SERIES, "-m", folder, "--hide", "4"]) == 0
    assert run(["explain", "a word", "-m", folder]) == 2
    assert "reads numbers" in capsys.readouterr().err


def test_a_run_takes_it_in_workers_that_load_the_file(folder, tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_text(f"{SERIES}\n2 7 1\n")
    made = attnflow.run(rows, tmp_path / "run", folder, plugins=[PLUGIN], workers=2)
    saved = {each.text: each for each in made}
    assert set(saved) == {SERIES, "2 7 1"}
    for text, each in saved.items():
        np.testing.assert_allclose(each.values, attnflow.explain(text, folder).values, atol=1e-6)


def test_a_server_takes_it(folder):
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    client = TestClient(make_app({"numbers": load_model(folder)}), "http://localhost")
    (model,) = client.get("/api/models").json()["models"]
    assert (model["kind"], model["reads_text"], model["writes"]) == ("numbers", True, False)
    request = {"text": SERIES, "edges": "attention", "method": "rollout", "query": 4}
    answer = client.post("/api/scores", json={**request, "layers": [3]})
    assert answer.status_code == 200, answer.json()
    opened = client.post("/api/explain", json={"text": SERIES})
    assert opened.status_code == 200, opened.json()
    refused = client.post("/api/explain", json={"text": "a word"})
    assert refused.status_code == 422
    assert "reads numbers" in refused.json()["error"]["message"]


def test_a_page_shows_it(folder, tmp_path):
    page = attnflow.explore(SERIES, folder)
    (view,) = page.document["views"]
    assert view["text"] == SERIES
    assert view["head"] == "classifier of series"
    page.save(tmp_path / "page.html")
    assert re.search(r"3 1 4 1 5", (tmp_path / "page.html").read_text())


def test_objects_need_no_folder(plugin):
    torch.manual_seed(1)
    net = plugin.NumbersModel(plugin.NumbersConfig()).eval()
    found = attnflow.explain(SERIES, load_model((net, str)))
    assert found.tokens == tuple(SERIES.split())


def test_without_the_file_such_a_model_is_refused(plugin):
    net = plugin.NumbersModel(plugin.NumbersConfig()).eval()
    MODEL_KINDS.unregister("numbers")
    try:
        with pytest.raises(ModelError, match="NumbersModel reads 'values'; models that read text"):
            load_model((net, str))
    finally:
        MODEL_KINDS.register(
            ModelKind("numbers", lambda net, processor: False, plugin.NumbersAdapter)
        )
