"""Prompt and answer side by side, in a real browser: file, notebook and server."""

import json
from dataclasses import replace

import numpy as np
import pytest

import attnflow
import talkers
from attnflow.models.loading import load_model
from attnflow.views.explorer.generation import FORMAT, generation_document
from attnflow.views.explorer.render import plain_page
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits
from attnflow.views.wording.answers import conclude
from seen import settle, violations
from serving import running

PARTS = {"first": "the keys to the cabinet", "second": "a red cat", "question": "here is the key"}
ANSWER = "the old cat is on the mat"
NAMED = (("one", "red"), ("two", "old"), ("three", "cat"))


@pytest.fixture(scope="module")
def model():
    network, tokenizer = talkers.llama()
    network.config._name_or_path = "tiny/talker"
    return load_model((network, tokenizer))


@pytest.fixture(scope="module")
def found(model):
    options = {"edges": "attention", "method": "rollout", "correction": None, "deletions": True}
    options["each"] = "tokens"
    return attnflow.explain_answer(PARTS, model, answer=ANSWER, **options)


@pytest.fixture(scope="module")
def file(found, tmp_path_factory):
    return found.explore().save(tmp_path_factory.mktemp("page") / "answer.html").as_uri()


def shares(page):
    rows = page.eval_on_selector_all(
        ".part-section", "all => all.map((e) => [e.querySelector('.name').textContent, e.dataset])"
    )
    return {name: float(data["share"]) for name, data in rows}


def scores(page):
    rows = page.eval_on_selector_all(
        ".part-section", "all => all.map((e) => [e.querySelector('.name').textContent, e.dataset])"
    )
    return {name: float(data["score"]) for name, data in rows}


def pieces(page):
    values = page.eval_on_selector_all(".piece", "all => all.map((e) => Number(e.dataset.value))")
    return np.array(values)


def found_text(page):
    below = page.text_content("#span-found")  # of some words; above stands that of the whole answer
    return (below or page.text_content("#answer-found")).replace("\u00a0", " ")


def expected_shares(found, span):
    return {row.name: row.share for row in found.table(span)}


def test_the_document_has_every_number(found):
    document = generation_document(found)
    written = document["generation"]
    assert document["format"] == FORMAT
    assert "".join(written["tokens"][at] for at in written["answer"]).strip() == ANSWER
    prompt = [at for part in found.parts if part.role != "answer" for at in part.positions]
    assert "".join(written["tokens"][at] for at in prompt) == found.text
    assert [row for rows in written["words"] for row in rows] == list(range(len(found.answer)))
    np.testing.assert_allclose(written["probabilities"], found.probabilities)
    assert json.loads(json.dumps(document)) == document
    assert written["found"] == conclude(found)
    assert written["found_each"][3] == conclude(found, 3)
    told = [(part["role"], part["drop"]) for part in written["parts"]]
    assert told == [("source", 0), ("source", 1), ("question", 2), ("answer", None)]


def test_an_answer_that_was_cut_says_so(tab, model, tmp_path):
    found = attnflow.explain_answer(PARTS, model, generate=4, edges="alti", method="direct")
    document = generation_document(found)
    assert "stopped at 4 tokens" in plain_page(document)
    tab.goto(found.explore().save(tmp_path / "cut.html").as_uri())
    tab.wait_for_selector(".word")
    assert tab.inner_text("#answer-words").endswith("… (stopped at 4 tokens)")
    assert "; scores are sums over layers of how much a token adds" in tab.inner_text(
        "#answer-method"
    )


def test_without_javascript_parts_and_words_are_a_table(found):
    page = plain_page(generation_document(found))
    assert page.count("<tr>") == 1 + len(ANSWER.split())
    assert "second" in page


def test_the_whole_answer_is_shown_at_first(tab, file, found):
    tab.goto(file)
    tab.wait_for_selector(".word")
    assert tab.locator(".word").count() == len(ANSWER.split())
    for name, share in shares(tab).items():
        assert share == pytest.approx(expected_shares(found, None)[name], abs=1e-6)
    assert sum(shares(tab).values()) == pytest.approx(1)
    assert found_text(tab).startswith(conclude(found))
    drops = [row.drop for row in found.table() if row.drop is not None]
    assert tab.locator(".drop:visible").count() == len(drops) == 3
    assert tab.is_disabled("#whole-answer")


def strongest(page):
    rows = page.eval_on_selector_all(
        "#strongest tbody tr", "all => all.map((e) => [...e.children].map((c) => c.textContent))"
    )
    return [(name, float(score)) for name, part, score in rows if part != "answer"]


def test_the_sentence_names_the_tokens_of_the_table_in_its_order(tab, model, tmp_path):
    """Also those of no named part, and pieces of words as what they are."""
    chat = [{"role": "user", "content": "here is unseen cabinets"}]
    options = {"edges": "attention", "method": "rollout", "correction": None, "each": "tokens"}
    found = attnflow.explain_answer(chat, model, answer=ANSWER, **options)
    # The conclusion is about this one part's tokens; no second sentence says it otherwise.
    tab.goto(found.explore().save(tmp_path / "one.html").as_uri())
    assert found_text(tab) == conclude(found)
    chat = [{"role": "system", "content": "a red cat"}, *chat]
    found = attnflow.explain_answer(chat, model, answer=ANSWER, **options)
    tab.goto(found.explore().save(tmp_path / "chat.html").as_uri())
    listed = strongest(tab)
    assert [score for _, score in listed] == sorted((s for _, s in listed), reverse=True)
    names = [f"“\u2068{name}\u2069”" for name in dict.fromkeys(name for name, _ in listed)][:3]
    said = tab.text_content("#answer-found")
    assert f"{', '.join(names[:2])} and {names[2]} have the highest scores." in said


def test_pieces_of_a_word_are_called_what_they_are(found):
    split = replace(
        found,
        tokens=("M", "ire", *found.tokens[2:]),
        word_ids=(0, 0, *found.word_ids[2:]),
        word_texts=("Mire", *found.word_texts[1:]),
    )
    labels = generation_document(split)["generation"]["labels"]
    assert labels[:2] == ["M (Mire)", "ire (Mire)"]
    assert generation_document(found)["generation"]["labels"][1] == found.tokens[1]


def test_an_interrupted_answer_is_shown_whole_and_told_in_part(tab, found, tmp_path):
    begun = replace(
        found,
        scores=found.scores[:1],
        part_scores=found.part_scores[:1],
        pieces=((0, 3),),
        options={**found.options, "each": "sentences"},
        statistics={"all_pieces": 2},
    )
    tab.goto(begun.explore().save(tmp_path / "begun.html").as_uri())
    assert found_text(tab).startswith("Of the first sentence (1 of 2; interrupted): this part of")
    assert tab.locator(".word").all_inner_texts() == ["the old cat"]
    assert tab.inner_text(".stopped").strip() == "is on the mat"
    assert tab.inner_text("#answer-words").split() == ANSWER.split()
    # One piece is nothing to point at.
    assert not tab.is_visible("#answer-hint")
    assert "each word" in tab.inner_text("#answer-alone")
    assert violations(tab) == []


def test_shares_and_probabilities_say_what_they_are(tab, file, found):
    from attnflow.views.wording.answers import odds_of
    from attnflow.views.wording.numbers import percent

    tab.goto(file)
    said = tab.inner_text("#part-list")
    odds = odds_of(found)
    size = odds.count if odds.by_token else 1
    before = percent(np.exp(odds.log_probability / size))
    for row in found.table():
        assert f"{percent(row.share)} of scores" in said
        if row.drop is not None:
            after = percent(np.exp((odds.log_probability - row.drop) / size))
            assert f"{before} → {after} without it" in said
    assert tab.inner_text("#answer-hint").startswith("Point at a word")
    assert not tab.is_visible("#answer-alone")


def test_of_a_long_prompt_the_source_that_matters_most_is_open(tab, tmp_path):
    model = load_model(talkers.llama(max_position_embeddings=256))
    parts = {name: f"the old keys are {word} here . " * 7 for name, word in NAMED}
    found = attnflow.explain_answer({**parts, "question": "is it ?"}, model, answer=ANSWER)
    rows = {row.name: row.drop for row in found.table()}
    tab.goto(found.explore().save(tmp_path / "long.html").as_uri())
    tab.wait_for_selector(".word")
    shown = tab.eval_on_selector_all(
        ".part-section[open]", "all => all.map((e) => e.querySelector('.name').textContent)"
    )
    assert shown == [max(parts, key=lambda name: rows[name])]
    roles = tab.eval_on_selector_all(".role", "all => all.map((e) => e.textContent)")
    assert roles == ["source", "source", "source", "", ""]


def test_ratios_to_chance_have_no_shares(tab, model, tmp_path):
    options = {"edges": "attention", "method": "rollout", "correction": "uniform"}
    found = attnflow.explain_answer(PARTS, model, answer=ANSWER, **options)
    assert all(row.share is None for row in found.table())
    tab.goto(found.explore().save(tmp_path / "ratios.html").as_uri())
    assert found_text(tab).startswith(conclude(found))
    assert tab.locator("#part-bar").is_hidden()


def test_pointing_shows_a_word_and_leaving_what_was_there(tab, file, found):
    tab.goto(file)
    before = shares(tab)
    tab.hover(".word >> nth=3")
    assert shares(tab)["second"] == pytest.approx(expected_shares(found, 3)["second"], abs=1e-6)
    parts = [at for part in found.parts if part.role != "answer" for at in part.positions]
    np.testing.assert_allclose(pieces(tab), found.matrix()[3, parts], atol=1e-6)
    assert found_text(tab).startswith(conclude(found, 3))
    assert "#" not in tab.url
    tab.mouse.move(5, 5)
    assert shares(tab) == before


def test_a_span_is_dragged_and_kept(tab, file, found):
    tab.goto(file)
    for at, act in ((2, "down"), (3, None), (4, "up")):
        box = tab.locator(".word").nth(at).bounding_box()
        tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if act:
            getattr(tab.mouse, act)()
    tab.mouse.move(5, 5)
    expected = expected_shares(found, slice(2, 5))
    for name, share in shares(tab).items():
        assert share == pytest.approx(expected[name], abs=1e-6)
    assert tab.locator(".word.chosen").count() == 3
    assert tab.locator(".word[aria-pressed=true]").count() == 3
    assert tab.url.endswith("#span=2-4")
    tab.reload()
    assert tab.locator(".word.chosen").count() == 3
    tab.click("#whole-answer")
    assert tab.locator(".word.chosen").count() == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_the_conclusion_comes_first_and_words_stay_where_they_are(tab, file, found, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(file)
    top = "e => e.getBoundingClientRect().top"
    first = tab.eval_on_selector("#answer-found", top)
    for below in ("#whole-answer", "#answer-words", "#part-bar"):
        assert first < tab.eval_on_selector(below, top)
    before = tab.eval_on_selector("#answer-words", top)
    tab.hover(".word >> nth=2")
    assert tab.inner_text("#span-found").startswith("“cat”")
    assert tab.text_content("#answer-found").startswith(conclude(found).replace(" %", "\u00a0%"))
    assert tab.eval_on_selector("#answer-words", top) == before


def test_the_keyboard_does_what_the_mouse_does(tab, file, found):
    tab.goto(file)
    tab.focus(".word >> nth=0")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text(":focus") == "old"
    assert shares(tab)["first"] == pytest.approx(expected_shares(found, 1)["first"], abs=1e-6)
    tab.keyboard.press("Shift+ArrowRight")
    tab.keyboard.press("Shift+End")
    assert tab.locator(".word.chosen").count() == len(ANSWER.split()) - 1
    said = tab.inner_text("#answer-said")
    assert said == tab.inner_text("#span-found")
    tab.keyboard.press("Escape")
    assert tab.locator(".word.chosen").count() == 0
    assert tab.locator(".word[tabindex='0']").count() == 1
    for key in ("1", "t", "[", "]", "b"):
        tab.keyboard.press(key)


def test_a_click_on_the_bar_opens_the_tokens_of_a_part(tab, file):
    tab.goto(file)
    tab.eval_on_selector_all(".part-section", "all => all.forEach((e) => { e.open = false; })")
    assert not tab.is_visible(".piece >> nth=0")
    tab.locator(".share[title^='first:']").click()
    assert tab.is_visible(".piece >> nth=0")
    assert tab.eval_on_selector_all(".part-section[open]", "all => all.length") == 1
    tab.keyboard.press("Enter")
    assert tab.eval_on_selector_all(".part-section[open]", "all => all.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_violated_and_nothing_overflows(tab, file, scheme, width):
    tab.set_viewport_size({"width": width, "height": 844})
    tab.emulate_media(color_scheme=scheme)
    for state in ("", "#span=2-4"):
        tab.goto("about:blank")
        tab.goto(file + state)
        tab.wait_for_selector(".word")
        assert violations(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_signs_have_two_colours_and_no_bar(tab, model, tmp_path):
    found = attnflow.explain_answer(PARTS, model, answer=ANSWER, method="gradient-input")
    tab.goto(found.explore().save(tmp_path / "signs.html").as_uri())
    tab.wait_for_selector(".word")
    assert not tab.is_visible("#part-bar")
    scores = tab.eval_on_selector_all(".part-section", "all => all.map((e) => e.dataset.score)")
    expected = [row.score for row in found.table()]
    np.testing.assert_allclose(list(map(float, scores)), expected, rtol=1e-5)
    assert violations(tab) == []


def test_parts_alone_have_no_token_scores(tab, model, tmp_path):
    options = {"method": "flow", "correction": None, "parts_only": True}
    found = attnflow.explain_answer(PARTS, model, answer=ANSWER, **options)
    tab.goto(found.explore().save(tmp_path / "parts.html").as_uri())
    tab.wait_for_selector(".word")
    assert shares(tab)["first"] == pytest.approx(expected_shares(found, None)["first"], abs=1e-6)
    assert not tab.is_visible("#strongest-card")


def test_tokens_are_text_and_never_markup(tab, tmp_path, found):
    evil = "<img src=x onerror=alert(1)></script>"
    tokens = (*found.tokens[:-1], evil)
    changed = replace(found, tokens=tokens, spans=None, answer_text=evil)
    tab.goto(changed.explore().save(tmp_path / "evil.html").as_uri())
    tab.wait_for_selector(".word")
    assert tab.locator("img").count() == 0
    assert evil in tab.inner_text("#answer-words")


def test_a_notebook_shows_the_same(tab, found, tmp_path):
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><title>x</title>{found._repr_html_()}", encoding="utf-8")
    tab.goto(page.as_uri())
    frame = tab.frame_locator("iframe")
    frame.locator(".word >> nth=2").click()
    assert "cat" in frame.locator("#span-found").inner_text()


@pytest.fixture(scope="module")
def served(model, classifier):
    with running(make_app({"tiny/talker": model, "tiny/verbs": classifier}, Limits())) as url:
        yield url


def test_a_server_writes_and_explains_an_answer(tab, served, model):
    tab.goto(served)
    tab.wait_for_selector(".token.traced")
    text = "the keys are here\n\na red cat is old"
    tab.fill("#text", text)
    tab.fill("#length", "5")
    tab.click("#explain")
    tab.wait_for_selector(".word")
    assert not tab.is_visible("#view")
    parts = {"1: the keys are here": (0, 17), "2: a red cat is": (19, 35)}
    expected = attnflow.explain_answer(text, model, generate=5, parts=parts)
    wanted = {row.name: row.score for row in expected.table(None)}
    for name, score in scores(tab).items():  # which have signs, and are no shares of a whole
        assert score == pytest.approx(wanted[name], abs=1e-5)
    settle(tab)
    assert violations(tab) == []
    assert tab.locator(".word").count() == len(expected.pieces) == 1
    tab.click(".word")
    tab.reload()
    tab.wait_for_selector(".word")
    tab.fill("#length", "")
    tab.click("#explain")
    tab.wait_for_selector(".token.traced")
    assert not tab.is_visible("#generation")


def test_a_pair_has_a_field_and_both_texts_are_named(tab, served):
    tab.goto(f"{served}#model=tiny/verbs&text=the+keys&pair=a+red+cat")
    tab.wait_for_selector(".token.traced")
    assert tab.is_visible("#pair-field")
    assert not tab.is_visible("#length-field")
    assert tab.locator(".segment").all_inner_texts() == ["first", "second"]
    tab.fill("#pair", "")
    tab.click("#explain")
    tab.wait_for_selector(".segment", state="detached")


def test_a_server_refuses_what_it_can_not_answer(served):
    import urllib.error
    import urllib.request

    def ask(**body):
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{served}/api/answer", data, headers)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    status, said = ask(text="the keys", generate=3, answer=None)
    assert status == 200
    assert said["format"] == FORMAT
    assert ask(text="the keys", model="tiny/verbs")[0] == 422
    assert ask(text="the keys", model="none")[0] == 404
    assert ask(text="the keys", generate=1000)[0] == 422
    assert ask(text="the keys", parts={"a": [0, 99]})[0] == 422
    assert ask(text="the keys " * 500, generate=3)[0] in (413, 422)
    assert ask(text="the keys", method="none")[0] == 422
    pair = {"text": "the keys", "pair": "a cat", "model": "tiny/verbs"}
    request = urllib.request.Request(
        f"{served}/api/explain", json.dumps(pair).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        assert "second" in json.load(response)["views"][0]["segments"]
