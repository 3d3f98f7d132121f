"""A server, started once, and models small enough for it and a browser."""

import pytest
import torch
import transformers as tf

import attnflow
import tiny
from attnflow.models.loading import load_model
from attnflow.views.explorer.server.app import make_app
from attnflow.views.explorer.server.limits import Limits
from seen import OTHER, TEXT
from serving import running

LABELS = {0: "singular", 1: "plural"}


@pytest.fixture(scope="session", autouse=True)
def few_threads():
    """Tests run beside each other: threads of one model would wait for the other's."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _classifier():
    config = tf.BertConfig(
        **tiny.USUAL, id2label=LABELS, label2id={v: k for k, v in LABELS.items()}
    )
    torch.manual_seed(0)
    model = tf.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_(25 if "query" in name or "key" in name else 6)
    return model


@pytest.fixture(scope="session")
def classifier():
    return load_model((_named(_classifier(), "tiny/verbs"), tiny.word_piece()))


@pytest.fixture(scope="session")
def models(classifier):
    """One model of each kind that the page shows."""
    processor = tf.ViTImageProcessor(size={"height": 32, "width": 32})
    long = tf.BertConfig(**{**tiny.USUAL, "max_position_embeddings": 600, "num_hidden_layers": 6})
    torch.manual_seed(0)
    return {
        "tiny/verbs": classifier,
        "tiny/gpt2": load_model((_named(tiny.build("gpt2"), "tiny/gpt2"), tiny.plain())),
        "tiny/pieces": load_model((_named(tiny.build("gpt2"), "tiny/pieces"), tiny.word_piece())),
        "tiny/t5": load_model((_named(tiny.build("t5"), "tiny/t5"), tiny.word_piece())),
        "tiny/vit": load_model((_named(tiny.build("vit"), "tiny/vit"), processor)),
        "tiny/long": load_model(
            (_named(tf.BertModel(long).eval(), "tiny/long"), tiny.word_piece())
        ),
    }


def _named(model, name):
    model.config._name_or_path = name
    return model


@pytest.fixture(scope="session")
def address(models):
    """Where a real server with all models answers."""
    with running(make_app(models, Limits(waiting=64))) as url:
        yield url


@pytest.fixture
def tab(browser):
    """A page of the browser; anything it complains about fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(60_000)  # of waits that end at once, unless something is wrong
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else 0)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.complaints = complaints
    yield page
    # A request that a test answers itself may still be on its way, and would fail in the next test.
    page.unroute_all(behavior="wait")
    context.close()
    assert complaints == []


@pytest.fixture(scope="module")
def file(classifier, tmp_path_factory):
    """A saved page of two texts."""
    view = attnflow.explore(TEXT, classifier, compare=OTHER, method="flow")
    return "file://" + str(view.save(tmp_path_factory.mktemp("page") / "view.html"))


@pytest.fixture
def page(tab, file):
    """The first of them in a browser."""
    tab.goto(file + "#compare=")
    tab.wait_for_selector("#view:not([hidden])")
    return tab
