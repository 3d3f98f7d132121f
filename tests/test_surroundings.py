"""What a caller has set for torch changes no result, and is as it was afterwards."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import transformers as tf

import attnflow
import talkers
import tiny
from attnflow.errors import InputError, ModelError

TEXT = "the keys to the old cabinet"


@contextmanager
def default_device():
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


SURROUNDINGS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "device": lambda: torch.device("meta"),
    "default device": default_device,
}


@pytest.fixture(scope="module")
def llama():
    return attnflow.load_model(talkers.llama())


@pytest.fixture(scope="module")
def t5():
    return attnflow.load_model(talkers.t5())


@pytest.fixture(scope="module")
def bert():
    network = tiny.build("bert", head=tf.BertForSequenceClassification)
    return attnflow.load_model((network, tiny.word_piece()))


WAYS = {
    "the default of decoders": lambda models: attnflow.explain(TEXT, models["llama"]).scores,
    "an answer": lambda models: attnflow.explain_answer(TEXT, models["llama"], generate=3).matrix(),
    "a target": lambda models: attnflow.explain(TEXT, models["bert"], target=0).scores,
    "a list": lambda models: attnflow.explain([TEXT, "a cat"], models["llama"])[1].scores,
    "lrp": lambda models: attnflow.explain(TEXT, models["bert"], method="lrp").scores,
    "integrated": lambda models: attnflow.gradients(TEXT, models["bert"], kind="integrated").scores,
    "blank-out": lambda models: attnflow.blank_out(TEXT, models["bert"]).scores,
    "a pair": lambda models: attnflow.explain(TEXT, models["t5"], edges="gradient").scores,
    "routes": lambda models: attnflow.routes(TEXT, models["llama"], to=0, edges="gradient").edges,
    "zeroing": lambda models: attnflow.explain(TEXT, models["bert"], edges="value-zeroing").scores,
    "a name": lambda _: attnflow.explain(TEXT, "verbs", edges="gradient").scores,
    "arrays": lambda _: attnflow.flow(np.full((2, 2, 4, 4), 0.25)),
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_results_are_the_same_in_any_surroundings(surroundings, llama, t5, bert):
    models = {"llama": llama, "t5": t5, "bert": bert}
    for name, ask in WAYS.items():
        expected = ask(models)
        with SURROUNDINGS[surroundings]():
            before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
            where = torch.empty(0).device
            found = ask(models)
            assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
            assert torch.empty(0).device == where
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_surroundings_come_back_after_an_error(llama):
    with torch.no_grad(), torch.device("meta"):
        with pytest.raises(InputError):
            attnflow.explain(TEXT, llama, target="nothing at all")
        assert not torch.is_grad_enabled()
        assert torch.empty(0).device.type == "meta"


def test_threads_in_different_surroundings(llama):
    expected = attnflow.explain(TEXT, llama).scores
    found = {}

    def work(name):
        with SURROUNDINGS[name]():
            found[name] = attnflow.explain(TEXT, llama).scores

    names = ("no_grad", "inference_mode", "device")
    workers = [threading.Thread(target=work, args=(name,)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for name in names:
        np.testing.assert_array_equal(found[name], expected)


def test_a_model_that_was_made_in_inference_mode_has_no_gradients():
    with torch.inference_mode():
        model = talkers.llama()
    with pytest.raises(ModelError, match=r"loaded inside torch\.inference_mode"):
        attnflow.explain(TEXT, model, edges="gradient")
    with pytest.raises(ModelError, match=r"loaded inside torch\.inference_mode"):
        attnflow.explain(TEXT, model, method="lrp")
    found = attnflow.explain(TEXT, model)
    assert found.options["edges"] == "attention"
    assert any("torch.inference_mode()" in each for each in found.warnings)
    rollout = {"edges": "attention", "method": "rollout"}
    np.testing.assert_array_equal(
        attnflow.explain(TEXT, model, **rollout).scores,
        attnflow.explain(TEXT, talkers.llama(), **rollout).scores,
    )
