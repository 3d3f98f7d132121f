"""In a notebook: a widget or a frame that shows the page, and a picture where neither can."""

import sys

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import attnflow
from attnflow.views.explorer import notebook
from attnflow.views.explorer.exploration import exploration_of

TEXT = "the keys to the cabinet"
WIDGET = "application/vnd.jupyter.widget-view+json"
CODE = f"import attnflow\nfound = attnflow.explain({TEXT!r}, 'verbs')\nfound"
MOUNT = """
async ({ code, page, height }) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const { default: widget } = await import(url);
  const values = { page, height };
  widget.render({ model: { get: (name) => values[name] }, el: document.body });
}
"""


@pytest.fixture(scope="module")
def found():
    return attnflow.explain(TEXT, "verbs")


def image_size(tab):
    return tab.evaluate(
        """() => {
            const image = document.querySelector("img");
            const shown = image && image.checkVisibility();
            return shown ? [image.naturalWidth, image.naturalHeight] : null;
        }"""
    )


def test_a_notebook_has_widget_page_picture_and_text(monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CODE)])
    NotebookClient(book, timeout=300, kernel_name="python3").execute()
    shown = book.cells[0].outputs[-1].data
    assert set(shown) == {WIDGET, "text/html", "image/png", "text/plain"}
    assert shown["text/plain"].startswith("<Attribution: flow")
    (state,) = (
        each["state"]
        for each in book.metadata.widgets["application/vnd.jupyter.widget-state+json"][
            "state"
        ].values()
        if "page" in each["state"]
    )
    assert state["page"] == exploration_of(attnflow.explain(TEXT, "verbs")).html
    assert state["_esm"] == notebook.FRAME


def test_without_anywidget_the_page_is_in_a_frame(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert set(found._repr_mimebundle_()) == {"text/html", "image/png", "text/plain"}


def test_the_widget_shows_the_page(tab, found):
    page = exploration_of(found)
    tab.goto("about:blank")
    tab.evaluate(MOUNT, {"code": notebook.FRAME, "page": page.html, "height": 640})
    frame = tab.frame_locator("iframe")
    frame.locator(".token").first.wait_for()
    values = frame.locator(".token").evaluate_all("a => a.map(e => +e.dataset.value)")
    assert values == pytest.approx(list(found.values), abs=1e-6)
    assert tab.locator("iframe").bounding_box()["height"] == 640


def test_a_picture_is_left_where_frames_are_taken_out(tab, found, tmp_path):
    content = found._repr_html_()
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html>{content}", encoding="utf-8")
    tab.goto(f"file://{file}")
    tab.frame_locator("iframe").locator(".token").first.wait_for()
    image, frame = (tab.locator(name).bounding_box() for name in ("img", "iframe"))
    assert frame["x"] <= image["x"]
    assert frame["x"] + frame["width"] >= image["x"] + image["width"], "the page covers it"
    before, _, after = content.partition("<iframe")
    file.write_text(f"<!doctype html>{before}{after.partition('</iframe>')[2]}", encoding="utf-8")
    tab.goto(f"file://{file}")
    width, height = image_size(tab)
    assert width > 200 < height


def test_two_texts_have_no_picture_of_one():
    both = attnflow.explore(TEXT, "verbs", compare="the key to the cabinets", method="rollout")
    assert "image/png" not in both._repr_mimebundle_()
    assert "<img" not in both._repr_html_().partition("<iframe")[0]


def test_the_name_of_an_unknown_method_can_be_drawn():
    scores = np.array([[[0.25, 0.75]]])
    odd = attnflow.Attribution(("a", "b"), scores, (1,), (0,), 1, 0, "odd \ud800", text="a b")
    assert "image/png" in odd._repr_mimebundle_()
