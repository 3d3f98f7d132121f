"""Eight threads on one model give what each gives alone: nothing shared is changed."""

import threading

import numpy as np
import pytest
import transformers as tf

import attnflow
import heard
import tiny
from attnflow.models.loading import load_model
from attnflow.pipeline.prepare import open_session
from attnflow.pipeline.request import Request
from pictured import llava

TEXTS = [tiny.TEXT, "the cat is here", "a key to the old red cabinet"]


def jobs(adapter):
    """What a thread may do with a causal model, as numbers that can be compared."""

    def blanked(text):
        session = open_session(text, adapter, Request(), all_heads=True)
        return [said.probability for said in session.blanking.predict([[0], [1]])]

    return (
        lambda text: attnflow.explain(text, adapter).values,
        lambda text: attnflow.gradients(text, adapter).values,
        lambda text: attnflow.blank_out(text, adapter).values,
        lambda text: attnflow.routes(text, adapter, to=0).value,
        lambda text: adapter.generate(adapter.tokenize(text), 4),
        blanked,
        lambda text: attnflow.explain(text, adapter, method="rollout", heads="each").values,
        lambda text: attnflow.gradients(text, adapter, kind="integrated", steps=8).values,
    )


@pytest.mark.parametrize("training", [False, True])
def test_eight_threads_give_what_each_gives_alone(training):
    model = tiny.build("gpt2")
    model.train(training)
    adapter = load_model((model, tiny.plain()))
    work = jobs(adapter)
    expected = [[job(text) for text in TEXTS] for job in work]
    found: list = [None] * len(work)
    start = threading.Barrier(len(work))

    def run(at):
        start.wait()
        found[at] = [[work[at](text) for text in TEXTS] for _ in range(2)]

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, alone in enumerate(expected):
        for again in found[at]:
            for one, other in zip(alone, again, strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)
    assert model.training is training


def test_an_answer_is_generated_while_others_are_explained():
    tokenizer = tiny.word_piece()
    tokenizer.eos_token = "[SEP]"
    adapter = load_model((tiny.build("t5"), tokenizer))
    expected = [attnflow.explain(text, adapter, method="rollout") for text in TEXTS]
    found: dict = {}

    def run(at):
        found[at] = attnflow.explain(TEXTS[at % 3], adapter, method="rollout")

    threads = [threading.Thread(target=run, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, one in found.items():
        assert one.tokens == expected[at % 3].tokens
        np.testing.assert_allclose(one.values, expected[at % 3].values, atol=1e-7)


def noise(seed):
    return np.random.default_rng(seed).normal(0, 0.1, 9000)


def pictures(seed):
    colours = np.random.default_rng(seed).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    return {"image": colours, "text": "the <image> keys"}


@pytest.mark.parametrize(
    ("build", "item", "options"),
    [
        (lambda: heard.build("whisper"), noise, {}),
        (lambda: heard.build("whisper"), noise, {"edges": "gradient", "answer": "the cat"}),
        (lambda: heard.build("hubert"), noise, {"edges": "gradient", "query": 3}),
        (lambda: heard.build("wav2vec2-label"), noise, {"edges": "alti"}),
        (lambda: heard.build("ast"), noise, {"edges": "value-zeroing"}),
        (llava, pictures, {"edges": "attention"}),
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_eight_threads_hear_and_see_what_each_does_alone(build, item, options, training):
    """Every thread finds out anew what is remembered of a model, at the same time."""
    model, processor = build()
    items = [item(seed) for seed in range(4)]
    options = {"method": "rollout", "threads": 1, **options}
    expected = [attnflow.explain(each, build(), **options) for each in items]
    model.train(training)
    adapter = load_model((model, processor))
    found: dict = {}
    start = threading.Barrier(8)

    def run(at):
        start.wait()
        found[at] = attnflow.explain(items[at % 4], adapter, **options)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for at, one in found.items():
        alone = expected[at % 4]
        assert (one.tokens, one.pooled, one.warnings) == (
            alone.tokens, alone.pooled, alone.warnings,
        )  # fmt: skip
        np.testing.assert_allclose(one.values, alone.values, rtol=0, atol=1e-5)
    assert model.training is training


def test_the_server_blanks_while_gradients_are_taken():
    from starlette.testclient import TestClient

    from attnflow.views.explorer.server.app import make_app

    adapter = load_model(
        (tiny.build("bert", head=tf.BertForSequenceClassification), tiny.word_piece())
    )
    client = TestClient(make_app({"bert": adapter}), "http://localhost")
    request = {"model": "bert", "text": tiny.TEXT, "sets": [[1], [2, 3]]}
    alone = client.post("/api/blank", json=request)
    assert alone.status_code == 200
    gradient = attnflow.gradients(tiny.TEXT, adapter).values
    seen: list = []

    def blank():
        seen.extend(client.post("/api/blank", json=request).json() for _ in range(4))

    thread = threading.Thread(target=blank)
    thread.start()
    for _ in range(4):
        np.testing.assert_allclose(
            attnflow.gradients(tiny.TEXT, adapter).values, gradient, rtol=1e-5
        )
    thread.join()
    assert all(each == alone.json() for each in seen)
