"""The page offers registered rules and methods, and draws what they give."""

import pytest

import attnflow
from attnflow import EDGE_RULES, METHODS
from attnflow.models.loading import load_model
from attnflow.views.colours import colour_of
from attnflow.views.explorer.server.app import make_app
from plugged import numbers, save_numbers
from seen import drawn, strip
from serving import free_port, running, wait_until_it_answers
from test_new_edge_rule import rule  # noqa: F401 - a fixture
from test_new_method import method as new_method  # noqa: F401 - a fixture
from test_new_option import HERE, start

pytestmark = pytest.mark.browser
TEXT = "the keys to the cabinet"


@pytest.fixture
def page(rule, new_method, tab, classifier):  # noqa: F811 - the fixtures
    with running(make_app({"tiny/verbs": classifier})) as url:
        tab.goto(url)
        tab.wait_for_selector(".token.traced")
        yield tab


def test_the_served_page_walks_a_dummy_rule_and_method(page, classifier):
    titles = [EDGE_RULES[name].title for name in EDGE_RULES]
    assert page.locator("#edges option").all_text_contents() == ["Best for the model", *titles]
    assert titles[-1] == "Dummy edges"
    page.fill("#text", TEXT)
    page.select_option("#edges", "dummy-edges")
    page.wait_for_selector("#model-name:has-text('dummy edges')")
    page.check("[name=method][value=dummy]")
    page.wait_for_selector(".graph [data-carried]")
    found = attnflow.explain(TEXT, classifier, edges="dummy-edges", method="dummy")
    assert strip(page) == pytest.approx(found.values, rel=1e-6)
    key = int(page.get_attribute(".graph [data-sink]", "data-sink"))
    assert drawn(page, "carried") == {(3, 0, key): pytest.approx(found.values[key], rel=1e-6)}
    assert page.get_attribute(".graph [data-source]", "stroke") == colour_of("dummy")
    assert "edges=dummy-edges" in page.url
    page.reload()
    page.wait_for_selector("[name=method][value=dummy]:checked", state="attached")
    assert page.input_value("#edges") == "dummy-edges"


def test_every_method_is_offered_and_computed_when_it_is_chosen(tab, address, classifier):
    tab.goto(f"{address}/#text={TEXT.replace(' ', '+')}&edges=alti")
    tab.wait_for_selector(".token.traced")
    offered = tab.eval_on_selector_all("[name=method]", "all => all.map(e => e.value)")
    assert sorted(offered) == sorted(METHODS)
    assert offered[:3] == ["rollout", "raw", "flow"]
    assert not tab.is_visible("[name=method][value=barrier]")
    tab.click("#more-methods summary")
    assert "narrowest edge" in tab.inner_text("#more-methods")
    tab.check("[name=method][value=barrier]")
    assert not tab.is_visible("[name=method][value=barrier]")  # the menu closes
    assert tab.inner_text("#more-methods summary") == "Barrier flow"
    tab.wait_for_function(
        "() => [...document.querySelectorAll('.token')].every(t => t.dataset.value)"
    )
    found = attnflow.explain(TEXT, classifier, edges="alti", method="barrier")
    assert strip(tab) == pytest.approx(found.values, abs=1e-6)


@pytest.mark.parametrize("method", ["gradient-input", "blank-out"])
def test_a_method_without_edges_shows_what_it_has(tab, address, classifier, method):
    tab.goto(f"{address}/#text={TEXT.replace(' ', '+')}&layer=1")
    tab.wait_for_selector(".token.traced")
    tab.click("#more-methods summary")
    tab.check(f"[name=method][value={method}]")
    tab.wait_for_function(
        "() => [...document.querySelectorAll('.token')].every(t => t.dataset.value)"
    )
    found = attnflow.explain(TEXT, classifier, method=method)
    assert strip(tab) == pytest.approx(found.values, abs=1e-6)
    for hidden in ("#layer", "#map-card", ".graph-card", ".way-card"):
        assert not tab.is_visible(hidden)
    assert tab.inner_text(".finding").startswith("plural")
    assert tab.inner_text(".evidence").startswith("Without “")
    assert "trace" not in tab.inner_text("#view")
    assert tab.locator(".token.traced").count() == 0
    signed = method == "gradient-input"
    assert ("blue against it" in tab.inner_text(".legend")) == signed
    if signed:
        fills = tab.eval_on_selector_all(
            ".token", "all => all.map(e => e.style.getPropertyValue('--fill'))"
        )
        reds, _, blues = zip(*[map(int, fill[4:-1].split(",")) for fill in fills], strict=True)
        assert reds[found.values.argmax()] > blues[found.values.argmax()]
        assert reds[found.values.argmin()] < blues[found.values.argmin()]
        assert tab.locator("#table th", has_text="Share").count() == 0
    tab.check("[name=method][value=flow]")
    tab.wait_for_selector(".graph-card")
    assert tab.is_visible("#map-card")
    assert tab.input_value("#layer") == "1"  # as it was


def test_the_served_page_explains_a_kind_of_model_that_is_registered(tab, tmp_path):
    with numbers() as plugin:
        model = load_model(save_numbers(plugin, tmp_path / "numbers"))
    with running(make_app({"numbers": model})) as url:
        tab.goto(f"{url}/#text=3+1+4+1+5&edges=attention")
        tab.wait_for_selector(".token.traced")
        assert not tab.is_visible("#answer-field")
        tab.check("[name=method][value=rollout]")
        found = attnflow.explain("3 1 4 1 5", model, edges="attention", method="rollout")
        tab.wait_for_function(
            "() => [...document.querySelectorAll('.token')].every(t => t.dataset.value)"
        )
        assert strip(tab) == pytest.approx(found.values, abs=1e-6)


def test_an_option_that_the_server_describes_is_in_the_form(tab, address):
    """With its help and its default; requests and links have it where it differs."""
    volume = {
        "name": "volume",
        "kind": "number",
        "default": 3,
        "help": "How loud.",
        "answers": False,
    }

    def describe(route):
        known = route.fetch().json()
        route.fulfill(json={**known, "options": [*known["options"], volume]})

    sent = []

    def take(route):
        sent.append(route.request.post_data_json)
        body = {name: value for name, value in sent[-1].items() if name != "volume"}
        route.fulfill(response=route.fetch(post_data=body))

    tab.route("**/api/models", describe)
    tab.route("**/api/explain", take)
    tab.goto(f"{address}/#text=the+key")
    tab.wait_for_selector(".token.traced")
    assert "volume" not in sent[-1]
    tab.click("#options summary")
    assert "How loud." in tab.inner_text("#options")
    assert "Put BOS in front" in tab.inner_text("#options")  # as the library's table has it
    tab.fill("#option-volume", "5")
    tab.keyboard.press("Tab")
    tab.wait_for_function("() => location.hash.includes('volume=5')")
    assert sent[-1]["volume"] == 5
    tab.fill("#option-volume", "3")
    tab.keyboard.press("Tab")
    tab.wait_for_function("() => !location.hash.includes('volume')")
    assert "volume" not in sent[-1]
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('#option-volume').value === '5'")


def test_an_option_that_is_declared_in_the_table_is_in_the_form(tab, tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "errors").open("w") as errors:
        serving = start([str(HERE / "loud.py"), "serve", "--port", str(port)], stderr=errors)
        try:
            wait_until_it_answers(url)
            tab.goto(f"{url}/#text=the+key&edges=attention")
            tab.wait_for_selector(".token.traced")
            tab.click("#options summary")
            assert "How loud the result is." in tab.inner_text("#options")
            with tab.expect_response("**/api/explain") as answered:
                tab.fill("#option-volume", "5")
                tab.keyboard.press("Tab")
            assert answered.value.request.post_data_json["volume"] == 5
            assert answered.value.status == 200
            tab.wait_for_function("() => location.hash.includes('volume=5')")
        finally:
            serving.terminate()
            serving.wait(timeout=60)
