"""The texts of a run: listed where methods disagree, each opens in the usual view."""

import math
import re
from html import unescape
from itertools import combinations
from urllib.parse import parse_qs

import httpx
import numpy as np
import pytest
from scipy import stats

import attnflow
from attnflow.cli.app import run as program
from attnflow.views.explorer.listing import Entry, Listing, make_listing
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.texts import render_texts
from attnflow.views.wording.numbers import percent
from seen import violations
from serving import running

TEXTS = [
    "the keys to the cabinet are here",
    "a cat on the old mat",
    "",
    "<script>alert(1)</script> & the old keys",
    "playing cats , here is a key !",
    "cat",
]


@pytest.fixture(scope="module")
def made(classifier, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "texts"
    rows = [{"text": text, "name": f"n{at}"} for at, text in enumerate(TEXTS)]
    return attnflow.run(rows, place, classifier, edges="attention", id_column="name")


@pytest.fixture(scope="module")
def listing(made):
    return make_listing(made)


@pytest.fixture(scope="module")
def listed(listing, classifier):
    with running(make_app({"tiny/verbs": classifier}, listing=listing)) as url:
        yield url


def test_rows_are_read_with_their_names(made):
    rows = [(row, name, [one.method for one in all_]) for row, name, all_ in made.explained()]
    methods = ["raw", "rollout", "flow"]
    assert rows == [(at, f"n{at}", methods) for at in (0, 1, 3, 4, 5)]


def test_predictions_are_written_as_everywhere(listing, classifier):
    said = attnflow.explain(TEXTS[0], classifier, edges="attention", method="raw").prediction
    (entry,) = (each for each in listing.entries if each.row == 0)
    assert entry.prediction == f"{said.label} {percent(said.probability)}"


def test_disagreement_is_its_definition(listing, classifier):
    expected = {}
    for at, text in enumerate(TEXTS):
        if at in (2, 5):
            continue
        scores = [
            attnflow.explain(text, classifier, method=method, edges="attention").values[1:-1]
            for method in ("raw", "rollout", "flow")
        ]
        pairs = [stats.spearmanr(one, other)[0] for one, other in combinations(scores, 2)]
        expected[at] = 1 - np.nanmean(pairs)
    found = {entry.row: entry.disagreement for entry in listing.entries}
    assert math.isnan(found.pop(5))
    assert found == pytest.approx(expected, abs=1e-6)
    values = [entry.disagreement for entry in listing.entries[:-1]]
    assert values == sorted(values, reverse=True)
    assert listing.entries[-1].text == "cat"
    assert [entry.row for entry in listing.in_order("row")] == [0, 1, 3, 4, 5]
    assert [bad.row for bad in listing.errors] == [2]


def test_the_page_lists_them(listed, listing):
    page = httpx.get(f"{listed}/run").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    rows = re.findall(r'<td class="number">(\d+) \(n\d\)</td>', page)
    assert rows == [str(entry.row) for entry in listing.entries]
    by_row = httpx.get(f"{listed}/run?order=row").text
    assert re.findall(r"(\d) \(n\d\)", by_row) == ["0", "1", "3", "4", "5"]
    assert "Row 2: text is empty" in page
    assert httpx.get(f"{listed}/run?page=99").status_code == 200
    for bad in ("order=size", "page=0", "page=x"):
        assert httpx.get(f"{listed}/run?{bad}").status_code == 422
    assert httpx.get(f"{listed}/api/models").json()["run"] is True
    policy = httpx.get(f"{listed}/run").headers["content-security-policy"]
    assert "default-src 'none'" in policy


def test_methods_are_called_as_everywhere_else(classifier, tmp_path):
    for name, asked, called in [
        ("default", {}, "relevance flow"),
        ("other", {"methods": "flow", "edges": "attention"}, "flow on attention"),
    ]:
        made = attnflow.run([{"text": TEXTS[0]}], tmp_path / name, classifier, **asked)
        page = render_texts(make_listing(made), "m", "row", 1)
        assert f'<th scope="col">{called}</th>' in page


def test_without_a_run_there_is_no_list(address):
    assert httpx.get(f"{address}/run").status_code == 404
    assert httpx.get(f"{address}/api/models").json()["run"] is False


def test_many_texts_have_pages():
    entries = tuple(Entry(at, None, f"t{at}", True, "", 1 - at / 500, ("a",)) for at in range(120))
    listing = Listing("big", ("raw",), {}, False, entries, ())
    page = render_texts(listing, "m", "disagreement", 2)
    assert re.findall(r">(t\d+)<", page) == [f"t{at}" for at in range(50, 100)]
    assert re.findall(r"page=(\d)", page) == ["1", "2", "3"]
    assert "One method was run" in page
    assert "Disagreement" not in page
    assert "by row" not in page
    assert '<a href="./#' not in page


@pytest.mark.browser
def test_a_text_opens_in_the_usual_view(tab, listed, listing):
    tab.goto(f"{listed}/run")
    second = listing.entries[1]
    tab.click(f"tbody tr:nth-child(2) a >> text={second.text}")
    tab.wait_for_selector(".token.traced")
    assert tab.input_value("#text") == second.text
    assert tab.input_value("#edges") == "attention"
    tab.click("#run-link")
    tab.wait_for_selector(".texts table")
    assert tab.locator("tbody tr").count() == 5


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_violated_on_the_list(tab, listed, scheme):
    tab.emulate_media(color_scheme=scheme)
    tab.goto(f"{listed}/run")
    tab.click("summary")
    assert violations(tab) == []


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    sentiment = attnflow.load_model("sentiment")
    folder = tmp_path_factory.mktemp("runs") / "sentences"
    texts = ["The ending ruined everything.", "Great, another delay."]
    made = make_listing(attnflow.run([{"text": text} for text in texts], folder, sentiment))
    with running(make_app({"attnflow/sentiment": sentiment}, listing=made)) as url:
        yield url


@pytest.mark.browser
def test_a_text_opens_as_its_row_shows_it(tab, sentences):
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{sentences}/run")
    cell = tab.locator("tbody tr:first-child td:last-child")
    assert cell.text_content() == "ruined"  # the word, of which “ru” is a piece
    box, card = cell.bounding_box(), tab.locator(".texts .card").bounding_box()
    assert box["x"] + box["width"] <= card["x"] + card["width"]
    tab.click("tbody tr:first-child a")
    tab.wait_for_selector(".token.traced")
    assert "edges: relevance" in tab.text_content("#model-name")
    assert tab.input_value("#edges") == "relevance"
    assert tab.is_checked("input[name=method][value=relevance-flow]")
    assert "because of “ruined”" in tab.text_content(".finding")


def test_a_link_names_what_a_run_was_asked_for(classifier, tmp_path):
    asked = {"target_column": "of", "contrast": "singular", "edges": "relevance", "words": True}
    row = {"text": TEXTS[0], "of": "plural"}
    made = attnflow.run([row], tmp_path / "run", classifier, methods="flow", **asked)
    page = render_texts(make_listing(made), "m", "row", 1)
    link = parse_qs(unescape(re.search(r'href="./#([^"]*)"', page).group(1)))
    named = {"target": "plural", "contrast": "singular", "words": "1", "edges": "relevance"}
    assert {name: link[name][0] for name in named} == named
    assert link["method"] == ["relevance-flow"]


def test_a_run_of_another_model_is_refused(made, capsys):
    assert program(["serve", "--run", str(made.folder), "--model", "a", "--model", "b"]) == 2
    assert "is of one model; give --model once" in capsys.readouterr().err
    shipped = attnflow.load_model("verbs").network.name_or_path
    assert program(["serve", "--run", str(made.folder), "--model", shipped]) == 2
    assert "with other weights, settings or another tokenizer" in capsys.readouterr().err
    assert program(["serve", "--run", str(made.folder.parent)]) == 2
    assert "is not a run" in capsys.readouterr().err
