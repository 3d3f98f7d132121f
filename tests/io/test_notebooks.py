"""In a notebook, progress is a bar of plain HTML, and nobody complains of missing widgets."""

import os

import nbformat
import pytest
from nbclient import NotebookClient

from attnflow.io import progress
from attnflow.io.progress import NotebookBar, progress_bar

SLOW = """
import itertools
from attnflow.io import progress
from attnflow.io.progress import progress_bar
progress.monotonic = itertools.count().__next__  # every look at the clock is a second later
with progress_bar("counting <b>", 4, shown=True, unit="rows") as show:
    for done in range(4):
        show(done + 1)
"""
CELLS = [
    "import attnflow\nmodel = attnflow.load_model('verbs')\ntext = 'the keys to the cabinet'",
    "found = attnflow.explain(text, model)\nfound",
    "methods = ('raw', 'rollout', 'flow')\n"
    "all_of_them = [attnflow.explain(text, model, method=name) for name in methods]\n"
    "attnflow.agreement(all_of_them[0], all_of_them[1])",
    "attnflow.explore(text, model)",
    SLOW,
]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A notebook that explains, compares and explores, executed."""
    folder = tmp_path_factory.mktemp("jupyter")
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(made, timeout=300, kernel_name="python3", resources={}).execute(cwd=str(folder))
    return made


def test_nothing_is_written_beside_results(book):
    kinds = [[output.output_type for output in cell.outputs] for cell in book.cells]
    result = ["execute_result"]
    assert kinds == [[], result, result, result, ["display_data"]]


def test_results_show_themselves(book):
    for cell in (book.cells[1], book.cells[3]):
        assert "<iframe" in cell.outputs[0].data["text/html"]


def test_a_bar_disappears_when_the_work_is_done(book):
    (last,) = book.cells[-1].outputs
    assert last.data == {"text/plain": "", "text/html": ""}


class Shown(list):
    """What a display was given, one after the other."""

    def update(self, what):
        self.append(what)


@pytest.fixture
def shown(monkeypatch):
    given = Shown()

    def display(what, display_id):
        assert display_id
        given.append(what)
        return given

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress, "PAUSE", 0)
    return given


def test_a_bar_tells_amount_rate_and_time(shown, monkeypatch):
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    bar = NotebookBar("a <b>", 8, "rows", share=False)
    bar.show(2, delay=0.7)
    bar.show(8, delay=0.7)
    bar.close()
    first, second, end = (each._repr_html_() for each in shown)
    assert 'value="2" max="8"' in first
    assert "a &lt;b&gt;" in first
    assert "2/8, 0.2 rows/s, 0:30 left" in first
    assert "8/8, 0.4 rows/s, 0:00 left" in second
    assert end == ""


def test_a_share_is_in_percent_and_an_unknown_end_has_no_time(shown, monkeypatch):
    clock = iter([0.0, 1.0, 0.0, 1.0])
    monkeypatch.setattr(progress, "monotonic", lambda: next(clock))
    NotebookBar("one", 1, None, share=True).show(0.25, delay=0.7)
    NotebookBar("some", None, None, share=False).show(3, delay=0.7)
    assert [repr(each) for each in shown] == ["one 25%, 0:03 left", "some 3"]
    assert "value" not in shown[1]._repr_html_()


def test_work_that_is_done_at_once_shows_no_bar(shown, monkeypatch):
    monkeypatch.setattr("attnflow.io.progress.in_notebook", lambda: True)
    with progress_bar("quick", 2, shown=True) as show:
        show(1)
    assert shown == []
