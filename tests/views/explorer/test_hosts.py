"""The same view from a server, in a notebook, and of every kind of model."""

import numpy as np
import pytest

import attnflow
import heard
from attnflow.errors import InputError
from attnflow.records import Attribution
from attnflow.views.explorer.exploration import exploration_of
from attnflow.views.wording.labels import printable
from attnflow.views.wording.numbers import number
from seen import drawn, found_token, settle, slide, strip

pytestmark = pytest.mark.browser
TEXT = "the old keys to the cabinets are here"


def open_at(tab, address, **state):
    from urllib.parse import urlencode

    tab.goto(f"{address}/#{urlencode({'edges': 'attention', **state})}")
    tab.wait_for_selector(".token.traced, .patch.traced")
    tab.wait_for_function("() => document.querySelector('#explain').disabled === false")


def test_the_server_explains_what_is_typed(tab, address, classifier):
    open_at(tab, address)
    assert tab.input_value("#text") == "the keys to the cabinet"
    tab.fill("#text", TEXT)
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelectorAll('.token').length === 11")
    np.testing.assert_allclose(
        strip(tab), attnflow.explain(TEXT, classifier, method="flow").values, atol=1e-6
    )
    assert "cabinets" in tab.url.replace("+", " ")


def test_what_the_document_lacks_is_fetched(tab, address, classifier):
    open_at(tab, address, text=TEXT)
    found = attnflow.routes(TEXT, classifier, to=6, layer=2, query=4, method="flow")
    slide(tab, "layer", 2)
    tab.check("[name=mode][value=explain]")
    tab.locator(".token").nth(4).click()
    tab.check("[name=mode][value=trace]")
    tab.locator(".token").nth(6).click()
    tab.wait_for_function(
        "() => document.querySelector('.graph-card h2').textContent.includes('routes')"
    )
    assert f"{number(found.value)}" in tab.inner_text(".graph-card h2")
    cut = {(e.layer, e.query, e.key): e.capacity for e in found.cut}
    assert drawn(tab, "cut", "capacity") == pytest.approx(cut, abs=1e-6)
    tab.check("[name=columns][value=heads]")
    tab.wait_for_function("() => document.querySelectorAll('[data-cell]').length === 4 * 11")


def test_several_tokens_are_blanked_by_the_server(tab, address, classifier):
    open_at(tab, address, text="the keys to the cabinet", mode="blank")
    for at in (1, 2):
        tab.locator(".token").nth(at).click()
    expected = attnflow.explain("zebra zebra to the cabinet", classifier, method="flow").prediction
    row = tab.locator(f'.prediction li[data-label="{expected.label}"][data-now]')
    row.wait_for()
    tab.wait_for_function(
        "() => !document.querySelector('.prediction .note').textContent.endsWith('…')"
    )
    assert float(row.get_attribute("data-now")) == pytest.approx(expected.probability, abs=1e-5)
    tab.locator(".token").nth(0).click()
    assert "cannot be blanked" in tab.inner_text("#status")


def test_two_texts_are_compared_by_the_server(tab, address, classifier):
    open_at(tab, address, text=TEXT)
    tab.select_option("#compare", "text")
    tab.fill("#other", "the key is here")
    tab.click("#explain")
    tab.wait_for_function("() => document.querySelectorAll('.pane').length === 2")
    both = [*attnflow.explain(TEXT, classifier, method="flow").values]
    both += [*attnflow.explain("the key is here", classifier, method="flow").values]
    np.testing.assert_allclose(strip(tab), both, atol=1e-6)
    link = tab.url
    tab.goto("about:blank")
    tab.goto(link)
    tab.wait_for_function("() => document.querySelectorAll('.pane').length === 2")


def test_errors_are_shown_and_the_view_stays(tab, address):
    open_at(tab, address, text=TEXT)
    tab.fill("#text", "the " * 100)
    tab.click("#explain")
    tab.wait_for_selector("#status.bad")
    assert "102 tokens" in tab.inner_text("#status")
    assert "truncate" not in tab.inner_text("#status")
    assert tab.locator(".token").count() == 11
    tab.complaints.clear()  # the browser reports the refused request by itself


def test_a_causal_model_says_what_its_scores_mean(tab, address, models):
    open_at(tab, address, model="tiny/gpt2", text="the keys to the cabinet")
    of = attnflow.explain("the keys to the cabinet", models["tiny/gpt2"], method="flow")
    np.testing.assert_allclose(strip(tab), of.values, atol=1e-6)
    tab.wait_for_function(
        "() => document.querySelector('.graph-card .note').textContent.includes('chance')"
    )
    assert tab.locator(".token.explained").text_content() == "cabinet"


def test_a_causal_models_words(tab, address, models):
    open_at(tab, address, model="tiny/pieces", text="the old cats playing")
    words = attnflow.explain(
        "the old cats playing", models["tiny/pieces"], words=True, method="flow"
    )
    assert words.tokens == ("[CLS]", "the", "old", "cats", "playing", "[SEP]")
    tab.check("#words")
    np.testing.assert_allclose(strip(tab), words.values, atol=1e-6)


def test_an_encoder_decoder_shows_both_sides(tab, address, models):
    open_at(tab, address, model="tiny/t5", text="the keys to the cabinet", answer="the key")
    of = attnflow.explain(
        "the keys to the cabinet", models["tiny/t5"], answer="the key", method="flow"
    )
    np.testing.assert_allclose(strip(tab), of.values, atol=1e-6)
    assert tab.eval_on_selector_all(".segment", "a => a.map(e => e.textContent)") == [
        "source",
        "target",
    ]
    settle(tab)
    names = tab.eval_on_selector_all(".graph [data-column]", "a => a.map(e => e.textContent)")
    assert names[-1] == "L5 cross"


def test_an_image_is_coloured_by_its_patches(tab, address, models, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    path = tmp_path / "picture.png"
    Image.fromarray(rng.integers(0, 255, (64, 96, 3), dtype=np.uint8)).save(path)
    tab.goto(f"{address}/#edges=attention")
    tab.select_option("#model", "tiny/vit")
    tab.set_input_files("#image", str(path))
    tab.wait_for_selector(".patch.traced")
    of = attnflow.explain(str(path), models["tiny/vit"], method="flow")
    values = tab.eval_on_selector_all(".patch", "a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(list(of.patches().ravel()), abs=1e-6)
    places = tab.eval_on_selector_all(
        ".patch", "a => a.map(e => [e.style.left, e.style.top].map(parseFloat))"
    )
    assert places[5] == [25, 25]
    tab.check("[name=mode][value=blank]")
    tab.locator(".patch").nth(5).click()
    tab.wait_for_selector(".prediction li[data-now]")


@pytest.mark.parametrize("width", [320, 390])
def test_the_page_of_a_sound_fits_a_phone(tab, tmp_path, width):
    page = attnflow.explore(heard.sound(), heard.build("wav2vec2-ctc"))
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto("file://" + str(page.save(tmp_path / "sound.html")))
    tab.wait_for_selector(".patch.traced")
    beyond = tab.evaluate(
        """width => [...document.querySelectorAll("#panes *")].filter(e => e.checkVisibility()
            && e.getBoundingClientRect().right > width).map(e => e.className)""",
        width,
    )
    assert beyond == []


HOSTILE = (
    "[CLS]",
    "</script><script>document.title='broken'</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "\"'`&amp;",
    "\u202eright-to-left",
    "\x00",
    "\u2028",
    "\ud800",
    "${alert(1)}",
    "مرحبا",
    "👩‍👩‍👧",
)


def test_tokens_are_never_markup(tab, tmp_path):
    size = len(HOSTILE)
    scores = np.random.default_rng(0).dirichlet(np.ones(size), size=(2, size))
    of = Attribution(HOSTILE, scores, (1, 2), tuple(range(size)), 2, 0, "flow", text=HOSTILE[1])
    tab.goto("file://" + str(exploration_of(of).save(tmp_path / "hostile.html")))
    tab.wait_for_selector(".token.traced")
    labels = tab.eval_on_selector_all(".token", "a => a.map(e => e.textContent)")
    assert labels == [printable(token) for token in HOSTILE]
    settle(tab)
    assert tab.title().startswith("</script>")
    assert tab.locator("img").count() == 0
    tab.click("#downloads summary")
    with tab.expect_download() as waiting:
        tab.click("#save-svg")
    import xml.etree.ElementTree as ET

    ET.parse(waiting.value.path())


def test_an_attribution_alone_can_be_explored(tab, classifier, tmp_path):
    of = attnflow.explain(TEXT, classifier, method="rollout", layer=2, layers="all")
    tab.goto("file://" + str(exploration_of(of).save(tmp_path / "alone.html")))
    tab.wait_for_selector(".token.traced")
    np.testing.assert_allclose(strip(tab), of.values, atol=1e-6)
    switch = tab.eval_on_selector_all("[name=method]", "a => a.map(e => [e.value, e.disabled])")
    assert switch == [["rollout", False]]
    slide(tab, "carried", 100)
    edges = drawn(tab, "carried")
    assert edges[(2, 0, 3)] == pytest.approx(of.row(2)[3], abs=1e-6)
    assert edges[(1, 0, 3)] == pytest.approx(of.row(1)[3], abs=1e-6)


def test_importance_by_other_means_can_be_explored(tab, classifier, tmp_path):
    of = attnflow.blank_out(TEXT, classifier, signed=True)
    tab.goto("file://" + str(exploration_of(of).save(tmp_path / "blank.html")))
    tab.wait_for_selector(".token")
    np.testing.assert_allclose(strip(tab), of.values, atol=1e-6)
    assert tab.is_checked(f'[name=method][value="{of.method}"]')
    assert tab.locator(".graph-card").is_hidden()
    assert tab.inner_text("#layer-shown") == "3 of 3"


COUNTED = """async (tops) => {
    const prototype = CanvasRenderingContext2D.prototype;
    let counts;
    for (const name of ["arc", "fillText"]) {
      const usual = prototype[name];
      prototype[name] = function (...given) {
        counts[name] += 1;
        return usual.apply(this, given);
      };
    }
    new MutationObserver((records) => {
      for (const each of records) counts.added += each.addedNodes.length;
    }).observe(document.body, { subtree: true, childList: true });
    const frame = () => new Promise(requestAnimationFrame);
    const counted = async (change) => {
      counts = { arc: 0, fillText: 0, added: 0 };
      change();
      await frame();
      await frame();
      return counts;
    };
    const scroller = document.querySelector(".graph .scroller");
    const layer = document.querySelector("#layer");
    const found = { scrolled: [], layers: [] };
    for (const top of tops)
      found.scrolled.push(await counted(() => { scroller.scrollTop = top; }));
    for (const value of [1, 2, 3, 4, 5, 6])
      found.layers.push(await counted(() => {
        layer.value = value;
        layer.dispatchEvent(new Event("input"));
      }));
    return found;
}"""


def test_a_text_of_512_tokens_stays_smooth(tab, models, tmp_path):
    """Scrolling, sliding and pointing draw only what is in sight."""
    from attnflow.views.explorer.document import SERVED, make_document, make_view
    from opened import opened

    text = " ".join(["the keys to the cabinet are here"] * 73)
    made = opened(text[: text.rindex(" ")], models["tiny/long"])
    assert made.size == 512
    view = attnflow.Exploration(make_document([make_view(made, SERVED)], "rollout"))
    tab.goto("file://" + str(view.save(tmp_path / "long.html")))
    tab.wait_for_selector(".graph svg")
    rows = tab.locator(".graph text[data-row]").count()
    assert 12 <= rows <= 40  # those that carry most
    assert f"The {rows} of 512 rows" in tab.inner_text(".graph .fold")
    tab.click(".graph .fold button")
    tab.wait_for_selector(".graph canvas")
    assert tab.locator(".graph svg").count() == 0
    slide(tab, "carried", 100)
    settle(tab)
    steps = tab.evaluate(COUNTED, [*range(0, 7800, 130)])
    marks = [step["arc"] for step in steps["scrolled"]]
    assert min(marks) > 7 * 20
    assert max(marks) < 7 * 60  # of 7 · 512
    assert max(step["fillText"] for step in steps["scrolled"]) < 60
    assert [step["arc"] for step in steps["layers"]] == [marks[-1]] * 6  # drawn once each
    assert max(step["added"] for step in steps["layers"]) < 100  # the 512 tokens stay, and change
    assert found_token(tab, 511) == "[SEP]"


def test_a_notebook_shows_several_views_that_do_not_meet(tab, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    from nbclient import NotebookClient

    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    code = [
        "import attnflow\nattnflow.explain('the keys to the cabinet', 'verbs', method='flow')",
        "attnflow.explore('the key to the cabinets', 'verbs', method='flow')",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line) for line in code])
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    shown = [cell.outputs[-1].data["text/html"] for cell in book.cells]
    page = tmp_path / "notebook.html"
    page.write_text("<!doctype html>" + "".join(shown), encoding="utf-8")
    tab.goto(f"file://{page}")
    one, two = (tab.frame_locator("iframe").nth(i) for i in range(2))
    for page in (one, two):  # which start one after the other
        page.locator(".token.traced").first.wait_for()
    of = attnflow.explain("the keys to the cabinet", "verbs", method="flow")
    values = one.locator(".token").evaluate_all("a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(list(of.values), abs=1e-6)
    two.locator("[name=method][value=raw]").check()
    raw = attnflow.explain("the key to the cabinets", "verbs", method="raw")
    values = two.locator(".token").evaluate_all("a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(list(raw.values), abs=1e-6)
    assert one.locator("[name=method][value=flow]").is_checked()
    two.locator(".token").nth(3).click()
    assert two.locator(".token.traced").text_content() == "to"


def test_a_list_of_texts_is_refused_with_what_shows_two():
    with pytest.raises(InputError, match="a list of 2: give the second as compare="):
        attnflow.explore(["A good film.", "A bad film."])
    with pytest.raises(InputError, match="a list of 3: give a text"):
        attnflow.explore(["A", "B", "C"])
