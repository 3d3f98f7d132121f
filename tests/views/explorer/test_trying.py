"""What a reader tries out: other words, less attention, another address, a server that is gone."""

import json
import urllib.error
import urllib.request
from urllib.parse import urlencode

import pytest
import torch

import attnflow
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from attnflow.views.explorer.parts import label_tokens
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits
from seen import drawn, settle, violations
from serving import running

pytestmark = pytest.mark.browser
TEXT = "the old keys to the cabinets are here"


def start(tab, address, **state):
    tab.goto(f"{address}/#{urlencode({'edges': 'attention', 'text': TEXT, **state})}")
    tab.wait_for_selector(".token.traced")


def said(tab):
    """What the model says without the attention that was taken out."""
    tab.wait_for_function(
        "() => document.querySelector('.knockout-card .verified').textContent.includes('random')"
    )
    return tab.inner_text(".knockout-card .verified")


def sentence(found):
    return f"{found.summary[0].upper()}{found.summary[1:]}".rstrip(".")


def test_words_layers_and_heads_are_knocked_out(tab, address, classifier):
    start(tab, address, mode="knockout")
    tab.locator(".token").nth(3).click()
    word = attnflow.knockout(TEXT, classifier, edges=attnflow.Edges(keys=[3]), random=5)
    assert said(tab).startswith(sentence(word))
    assert tab.locator(".token.traced").text_content() != "keys"  # a click traces nothing now
    settle(tab)
    tab.locator('.graph text[data-column="2"]').click()
    both = [attnflow.Edges(keys=[3]), attnflow.Edges(layers=2)]
    found = attnflow.knockout(TEXT, classifier, edges=both, random=5)
    tab.wait_for_function(
        "n => document.querySelector('.knockout-card .verified').textContent.includes(n)",
        arg=f"{found.removed} edges",
    )
    assert said(tab).startswith(sentence(found))
    tab.click("text=Keep to compare")
    assert "keys, layer 2" in tab.inner_text(".kept")
    assert tab.locator(".chips li").count() == 0
    tab.select_option(".knockout-card [aria-label=Layer]", "3")  # by the keyboard alone
    tab.select_option(".knockout-card [aria-label=Head]", "1")
    tab.click(".knockout-card button:text-is('Add layer or head')")
    head = attnflow.knockout(TEXT, classifier, edges=attnflow.Edges(layers=3, heads=1), random=5)
    assert said(tab).startswith(sentence(head))
    tab.click(".knockout-card button:text-is('Add layer or head')")  # takes nothing out again
    assert tab.locator(".chips li").count() == 1
    tab.click(".chips button")
    assert tab.locator(".chips li").count() == 0


def in_group(tab, count):
    """Wait until the model has run without so many things."""
    tab.wait_for_function(
        """n => document.querySelectorAll('.chips li').length === n
            && document.querySelector('.knockout-card .verified').textContent.includes('random')""",
        arg=count,
    )


def test_words_are_grouped_and_kept_with_the_keyboard_alone(tab, address, classifier):
    start(tab, address, mode="trace")
    tab.focus(".token.traced")
    tab.keyboard.press("Home")
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    tab.keyboard.press("k")
    in_group(tab, 1)
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("k")
    in_group(tab, 2)
    each = [attnflow.Edges(keys=[at]) for at in (3, 4)]
    both = attnflow.knockout(TEXT, classifier, edges=each, random=5)
    assert said(tab).startswith(sentence(both))
    tab.focus(".knockout-card button:has-text('Keep to compare')")
    tab.keyboard.press("Enter")
    assert tab.inner_text(".kept").startswith("keys, to ")
    assert tab.evaluate("() => document.activeElement.ariaLabel") == "Layer"  # the button is gone
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    in_group(tab, 1)
    layer = attnflow.knockout(TEXT, classifier, edges=attnflow.Edges(layers=1), random=5)
    assert said(tab).startswith(sentence(layer))


@pytest.mark.parametrize("width", [1440, 390])
def test_what_a_knockout_does_is_in_sight(tab, address, classifier, width):
    """A word above and two layers of the graph below, grouped by clicks, and left out again."""
    tab.set_viewport_size({"width": width, "height": 844})
    start(tab, address, mode="knockout", method="flow")
    tab.wait_for_selector(".graph [data-carried]", state="attached")
    tab.locator(".token").nth(3).click()
    in_group(tab, 1)
    box = tab.locator(".knockout-card .verified").bounding_box()
    assert 0 <= box["y"] < box["y"] + box["height"] <= 844
    assert violations(tab) == []
    tab.evaluate("() => document.querySelector('.graph').scrollIntoView()")
    settle(tab)
    for count, column in ((2, 1), (3, 2)):
        tab.locator(f'.graph text[data-column="{column}"]').click()
        in_group(tab, count)
    edges = [attnflow.Edges(keys=[3]), attnflow.Edges(layers=1), attnflow.Edges(layers=2)]
    found = attnflow.knockout(TEXT, classifier, edges=edges, random=5)
    assert said(tab).startswith(sentence(found))
    box = tab.locator(".knockout-card .verified").bounding_box()
    assert 0 <= box["y"] < box["y"] + box["height"] <= 844
    tab.locator(".graph text[data-column='2']").click()  # and in again
    in_group(tab, 2)
    tab.click(".knockout-card button:text-is('Clear')")
    assert tab.locator(".chips li").count() == 0


def test_an_edge_of_the_graph_is_knocked_out(tab, address, classifier):
    start(tab, address, mode="knockout", method="flow")
    tab.wait_for_selector(".graph [data-carried]", state="attached")
    moving = {edge: amount for edge, amount in drawn(tab, "carried").items() if edge[1] != edge[2]}
    step, query, key = max(moving, key=moving.get)
    place = tab.eval_on_selector(
        f'[data-carried="{step}/{query}/{key}"]',
        """e => { const p = e.getPointAtLength(e.getTotalLength() / 2), m = e.getScreenCTM();
            return [p.x * m.a + m.e, p.y * m.d + m.f]; }""",
    )
    tab.mouse.click(*place)
    name = tab.inner_text(".chips button")
    assert name.endswith(f"layer {step} ×")
    edge = attnflow.Edges(layers=step, queries=[query], keys=[key])
    found = attnflow.knockout(TEXT, classifier, edges=edge, random=5)
    assert said(tab).startswith(sentence(found))


def ask(address, path, **body):
    request = urllib.request.Request(
        f"{address}/api/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_knockout_over_http_is_the_librarys_and_what_is_not_there_is_refused(address, classifier):
    blocks = [{"layers": [2, 3], "keys": [3]}, {"heads": [1]}]
    status, found = ask(address, "knockout", text=TEXT, without=blocks, random=2)
    assert status == 200
    edges = [attnflow.Edges(layers=(2, 3), keys=3), attnflow.Edges(heads=1)]
    expected = attnflow.knockout(TEXT, classifier, edges=edges, random=2)
    assert (found["removed"], found["total"]) == (expected.removed, expected.total)
    assert found["after"] == pytest.approx(expected.after.probability, abs=1e-6)
    assert found["random"] == pytest.approx([o.probability for o in expected.random], abs=1e-6)
    for wrong, named in (
        ([{"layers": [4]}], "layers=4"),
        ([{"heads": [4]}], "heads=4"),
        ([{"keys": [11]}], "keys=11"),
        ([{"queries": [3], "keys": [3]}], "nothing to remove"),
        ([{"colour": [1]}], "colour"),
        ([], "without"),
    ):
        status, answer = ask(address, "knockout", text=TEXT, without=wrong)
        assert status == 422, wrong
        assert named in answer["error"]["message"]
    assert ask(address, "knockout", text=TEXT, without=[{}] * 65)[0] == 413
    assert ask(address, "knockout", text=TEXT, without=[{}], random=21)[0] == 422
    status, answer = ask(address, "knockout", model="tiny/long", text=TEXT, without=[{}])
    assert (status, "predicts nothing" in answer["error"]["message"]) == (422, True)


def test_a_word_is_changed_in_place_and_both_texts_compared(tab, address, classifier):
    start(tab, address, mode="change")
    tab.locator(".token", has_text="keys").click()
    tab.keyboard.press("Escape")
    assert tab.locator(".pane").count() == 1
    tab.locator(".token", has_text="keys").click()
    tab.fill(".editing", "key")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelectorAll('.pane').length === 2")
    assert tab.input_value("#other") == "the old key to the cabinets are here"
    conclusion = tab.text_content("#conclusion")
    assert conclusion.startswith("The texts differ in “\u2068keys\u2069” → “\u2068key\u2069”.")
    one, two = (
        attnflow.explain(text, classifier, edges="attention", method="flow").prediction
        for text in (TEXT, "the old key to the cabinets are here")
    )
    same = one.label == two.label
    assert ("The answer stays " in conclusion) == same
    assert f"{one.label}" in conclusion
    tab.go_back()
    tab.wait_for_function("() => document.querySelectorAll('.pane').length === 1")
    tab.go_forward()
    tab.wait_for_function("() => document.querySelectorAll('.pane').length === 2")


def test_back_and_a_pasted_link_are_followed(tab, address):
    start(tab, address)
    first = tab.url
    tab.locator(".token").nth(5).click()
    tab.check("[name=method][value=rollout]")
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('[name=method][value=flow]').checked")
    assert tab.locator(".token.traced").text_content() == "the"
    tab.go_back()
    tab.wait_for_function("u => location.href === u", arg=first)
    assert tab.locator(".token.traced").count() == 1
    tab.evaluate("() => { location.hash = 'text=a+red+cat&edges=attention&method=raw&pane=0.2'; }")
    tab.wait_for_function("() => document.querySelectorAll('.token').length === 5")
    assert tab.is_checked("[name=method][value=raw]")
    assert tab.locator(".token.traced").text_content() == "red"
    tab.go_back()
    tab.wait_for_function("() => document.querySelectorAll('.token').length === 11")


def test_what_went_wrong_is_said_in_plain_words_until_it_is_over(tab, address):
    start(tab, address)

    def fails(act, words):
        tab.click("#explain")
        tab.wait_for_selector("#status.bad")
        assert words in tab.inner_text("#status")

    tab.route("**/api/explain", lambda route: route.abort())
    fails("the server is gone", "The server does not answer")
    tab.unroute("**/api/explain")
    html = {"status": 502, "content_type": "text/html", "body": "<h1>Bad gateway</h1>"}
    tab.route("**/api/explain", lambda route: route.fulfill(**html))
    fails("a proxy answers", "502")
    assert "JSON" not in tab.inner_text("#status")
    assert "<" not in tab.inner_text("#status")
    tab.fill("#text", "the key is here")
    assert tab.inner_text("#status") == ""  # what was wrong is not what is asked now
    tab.unroute("**/api/explain")
    tab.click("#explain")
    tab.wait_for_function("() => document.querySelectorAll('.token').length === 6")
    assert tab.inner_text("#status") == ""
    tab.complaints.clear()  # the browser reports what failed by itself


def test_the_page_goes_on_when_the_server_was_started_again(tab, classifier):
    with running(make_app({"tiny/verbs": classifier}, Limits())) as url:
        start(tab, url)
    port = int(url.rsplit(":", 1)[1])
    tab.fill("#text", "the key is here")
    tab.click("#explain")
    tab.wait_for_selector("#status.bad")
    assert "Start it again with attnflow serve" in tab.inner_text("#status")
    with running(make_app({"tiny/verbs": classifier}, Limits()), port=port):
        tab.click("#explain")
        tab.wait_for_function("() => document.querySelectorAll('.token').length === 6")
        assert tab.inner_text("#status") == ""
    tab.complaints.clear()


def test_every_word_has_its_removal_on_a_server(tab, address, classifier):
    """Also where the document has none, as for a model that takes long."""

    def without_removals(route):
        document = route.fetch().json()
        document["views"][0]["blanked"] = []
        route.fulfill(json=document)

    tab.route("**/api/explain", without_removals)
    start(tab, address)
    tab.wait_for_function(
        "() => [...document.querySelectorAll('.token')].filter(t => t.dataset.change).length === 9"
    )
    changes = tab.eval_on_selector_all(".token", "all => all.map(t => t.dataset.change)")
    read = classifier.tokenizer(TEXT, return_tensors="pt")
    words = read.word_ids()
    assert len(set(words)) < len(words) - 1  # one word is split, and blanked as a whole
    without = [[word is not None and word == other for other in words] for word in words]
    sets = read["input_ids"].masked_fill(torch.tensor(without), classifier.tokenizer.unk_token_id)
    with torch.no_grad():
        chances = classifier.network(sets).logits.softmax(-1)
    expected = chances - chances[0]  # nothing is blanked in the first row, which is [CLS]'s
    target = chances[0].argmax()
    for at in range(1, 10):
        assert float(changes[at]) == pytest.approx(float(expected[at, target]), abs=1e-5)


def test_sentences_of_a_long_text_open_to_their_words(tab, models, tmp_path):
    text = " ".join([*["The keys to the old cabinet are here on the red mat."] * 4, "A cat plays."])
    view = attnflow.explore(text, models["tiny/long"], edges="attention", method="rollout")
    (first,) = view.document["views"]
    assert len(first["sentences"]) == 5
    tab.goto(view.save(tmp_path / "long.html").as_uri())
    tab.wait_for_selector(".unit")
    assert tab.locator(".unit").count() == 5
    traced = tab.locator(".token.traced")
    assert traced.is_visible()
    assert tab.eval_on_selector_all(".unit[open]", "a => a.length") < 5
    closed = tab.locator(".unit:not([open])").first
    assert closed.locator(".token").first.is_hidden()
    closed.locator("summary").click()
    assert tab.locator(".token").count() == len(first["tokens"])
    assert "Folded sentences: the same colours, up to " in tab.inner_text(".legend")
    assert tab.inner_text(".unit-head") == "Score of a sentence: sum"
    assert tab.locator(".more-text").is_hidden()
    last = tab.locator("#table tbody button").last
    last.click()
    assert tab.locator(".token.traced").is_visible()
    tab.set_viewport_size({"width": 390, "height": 300})
    tab.eval_on_selector_all(".unit", "a => a.forEach((each) => { each.open = true; })")
    tab.eval_on_selector(".strip", "each => { each.scrollTop = 0; }")
    below = "The text goes on below: scroll it to read on."
    tab.wait_for_selector(f".more-text:text-is('{below}')")
    tab.eval_on_selector(".strip", "each => { each.scrollTop = 9e9; }")
    tab.wait_for_selector(f".more-text:text-is('{below.replace('below', 'above')}')")


def test_words_stand_as_they_were_written(classifier):
    """Unknown ones, too; and a text that is split into letters is shown in words."""
    session = open_session("a ☂ cat plays. A red", classifier, Request(edges="attention"))
    tokens = session.tokens
    assert "[UNK]" in tokens.names
    labelled = label_tokens(tokens.names, tokens)
    at = tokens.names.index("[UNK]")
    assert labelled["labels"][at] == "☂"
    assert labelled["tokens"][at] == "[UNK]"
    pieces = ["".join(tokens.text[a:b] for a, b in labelled["spans"])]
    assert pieces == ["a☂catplays.Ared"]
    words = [" ".join(tokens.names[at] for at in group) for group in labelled["sentences"]]
    assert [each.split()[0] for each in words] == ["a", "a"]
