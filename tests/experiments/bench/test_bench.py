"""The benchmark compares the same pairs and values, and names baselines that are missing."""

import dataclasses

import numpy as np
import pytest

import attention as some
from attnflow.errors import AttnflowError, InputError, MissingExtra
from attnflow.solvers.cuda.device import why_not
from attnflow_experiments.bench import cases, inputs, report
from attnflow_experiments.bench.baselines import AUTHORS, LIBRARIES
from attnflow_experiments.bench.inputs import decoder_attention, random_attention, real_attention

BASELINES = (*LIBRARIES, AUTHORS)


def test_every_baseline_solves_the_same_pairs():
    row = cases.compare("small", some.make("peaked", 4, 9, seed=1), range(9), BASELINES, sample=20)
    assert set(row.others) == {baseline.name for baseline in BASELINES}
    assert all(isinstance(seconds, float) for seconds in row.others.values())
    assert row.ratio == min(row.others.values()) / row.seconds


def test_wrong_values_are_detected():
    wrong = dataclasses.replace(AUTHORS, prepare=lambda weights: lambda source, sink: 0.5)
    with pytest.raises(AttnflowError, match="networkx Edmonds–Karp disagrees"):
        cases.compare("small", some.make("dense", 3, 5, seed=1), [0], [wrong], sample=5)


def test_a_missing_baseline_is_named():
    missing = dataclasses.replace(AUTHORS, package="no_such_package")
    row = cases.compare("small", some.make("dense", 3, 5, seed=1), [0], [missing], sample=5)
    assert row.ratio is None
    assert "not installed (pip install no_such_package)" in report._table([row])


def test_real_attention_is_attention():
    for attention in (real_attention(20), real_attention(20, depth=8), random_attention(3, 20)):
        assert attention.shape[1:] == (20, 20)
        assert attention.sum(axis=-1) == pytest.approx(1, abs=1e-6)
    assert len(real_attention(20, depth=8)) == 8


def test_growth_is_shown_with_its_exponent(monkeypatch):
    rows = [("tokens", [10, 100], [0.001, 0.1]), ("layers", [1, 2, 4], [0.1, 0.1, 0.1])]
    monkeypatch.setattr(cases, "measure_growth", lambda report, device: iter(rows))
    lines = report._growth(print, "cpu").splitlines()
    assert "| tokens | 10: 1.0 ms | 100: 100 ms |  | 2.0 |" in lines
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_growth_has_every_size_that_it_names(monkeypatch):
    """All measured functions run, with the sizes cut to what takes no time."""
    monkeypatch.setattr(cases, "best_time", lambda function, device, repeats: 1.0)
    for name in ("real_attention", "random_attention", "decoder_attention"):
        monkeypatch.setattr(cases, name, lambda *given, **options: some.make("dense", 2, 3, 1))
    for where, longest in (("cpu", 1024), ("cuda", 4096)):
        monkeypatch.setattr(cases, "placed", lambda attention, device: attention)
        found = list(cases.measure_growth(lambda label: None, where))
        assert all(len(values) == len(times) for _, values, times in found)
        assert max(values[-1] for _, values, _ in found) == longest


def test_a_device_that_is_not_there_is_refused_at_once():
    if why_not() is None:
        pytest.skip("there is a GPU")
    with pytest.raises(MissingExtra, match="device='cuda'"):
        report.run(device="cuda")


def test_decoder_attention_is_causal():
    made = decoder_attention(2, 30)
    assert made.sum(axis=-1) == pytest.approx(1, abs=1e-6)
    assert not np.triu(made, 1).any()


def test_a_page_is_not_overwritten(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("mine")
    with pytest.raises(InputError, match=r"page\.md exists"):
        report.run(write=page)
    assert page.read_text() == "mine"


def test_loading_the_model_prints_nothing(capsys):
    inputs._minilm.cache_clear()
    inputs.real_attention(16)
    assert capsys.readouterr() == ("", "")
