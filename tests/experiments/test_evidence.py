"""The trials behind the choice of the default: a small form of them, and what tables say."""

import math
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest

import attnflow
import talkers
from attnflow.methods import METHODS
from attnflow.records import LayeredGraph, Relevances, Selection
from attnflow.solvers.execution import Execution
from attnflow_experiments.evidence import __main__ as command
from attnflow_experiments.evidence import made, measure, stations, tables, work
from attnflow_experiments.evidence.trials import make_trials
from attnflow_experiments.known_answers.cases import Case
from attnflow_experiments.known_answers.trials import Settings
from attnflow_experiments.parts.cases import DOCUMENTS, make_cases

TEXT = "the story is slow , but the music is wonderful ."


@pytest.fixture(autouse=True)
def _stations():
    stations.register()
    yield
    METHODS.unregister(stations.MEMBER.name)


@pytest.fixture(scope="module")
def llama():
    return attnflow.load_model(talkers.llama(max_position_embeddings=512, num_hidden_layers=2))


def run(monkeypatch, *given):
    monkeypatch.setattr(sys, "argv", ["evidence", *map(str, given)])
    command.main()


def test_the_command_measures_a_few_texts_and_continues(monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    title = "Known answers: encoders"
    page.write_text(f"before\n<!-- {title} -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    only = ("--only", "planted-sentiment,faithful-planted", "--page", page)
    run(monkeypatch, tmp_path, "--count", 1, *only, "--without", "integrated gradients")
    run(monkeypatch, tmp_path, "--count", 2, *only)
    first = capsys.readouterr().out
    assert "| relevance flow | 1.00 [.34, 1.00] |" in first
    assert "| integrated gradients |" in first
    assert "2 texts." in first
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| relevance flow |" in text
    monkeypatch.setattr(attnflow, "load_model", None)  # all is there
    work._model.cache_clear()
    run(monkeypatch, tmp_path, "--count", 2, *only)
    assert capsys.readouterr().out.endswith(first[first.rindex("## Known answers") :])


def in_threads(monkeypatch):
    def threads(workers, _context, begin):
        return ThreadPoolExecutor(workers, initializer=begin)

    monkeypatch.setattr(work, "ProcessPoolExecutor", threads)
    monkeypatch.setattr(work, "_begin", stations.register)


def test_several_processes_measure_what_one_does(monkeypatch, tmp_path):
    in_threads(monkeypatch)
    names, ways = ["planted-sentiment"], {"relevance flow", "words"}
    left_out = set(make_trials(Settings(tmp_path))[names[0]].works) - ways
    found = []
    for workers in (1, 2):
        settings = Settings(tmp_path / str(workers))
        work.fill(settings, names, 3, left_out, math.inf, workers)
        found.append(work.collect(settings, names[0]))
    assert [set(case) for case in found[0]] == [ways] * 3
    assert found[0] == found[1]


def test_what_fails_in_one_process_stops_nothing_else_and_is_raised(monkeypatch, tmp_path):
    def measured(settings, name, number, at, pieces):
        if at == 0:
            msg = "broken"
            raise RuntimeError(msg)
        done.append(at)

    done = []
    in_threads(monkeypatch)
    monkeypatch.setattr(work, "measure_case", measured)
    monkeypatch.setattr(work, "draw_cases", lambda *_: None)
    with pytest.raises(RuntimeError, match="broken"):
        work.fill(Settings(tmp_path), ["planted-sentiment"], 5, (), math.inf, 2)
    assert sorted(done) == [1, 2, 3, 4]


def test_a_word_is_knocked_out_in_encoders_and_decoders(llama):
    found = measure.knockouts(Case(TEXT), attnflow.load_model("sentiment"))
    cut, most, isolated = list(found["sets"].values())[:3]
    assert cut["change"] < -10 * abs(cut["random"])
    assert most["edges"] < cut["edges"] <= isolated["edges"] < found["total"]
    assert measure.SPARED not in found["sets"]
    fewest = found["sets"][measure.FEWEST]
    assert fewest["edges"] <= cut["edges"]
    assert fewest["change"] <= 0.9 * cut["change"]
    found = measure.knockouts(Case("the keys to the cabinet are here"), llama)
    assert all(np.isfinite(one["change"]) for one in found["sets"].values())
    assert measure.SPARED in found["sets"]


def test_random_edges_that_spare_the_first_token_are_edges_of_a_decoder():
    drawn = measure._spared(3, 6, 20, np.random.default_rng(0))
    layers, queries, keys = np.nonzero(drawn)
    assert len(layers) == 20
    assert (queries > keys).all()
    assert (keys > 0).all()


def test_every_document_has_a_score_and_a_deletion(llama):
    (case,) = make_cases(1)
    for way in ("relevance flow", "relevance flow, stations", "lrp"):
        for length in (None, 2):
            found = measure.documents(measure.WAYS[way], length)(case, llama)
            assert len(found["documents"]) == DOCUMENTS
    drops = measure.deletions(None)(case, llama)
    assert len(drops["drops"]) == DOCUMENTS
    assert drops["fact"] == case.fact


def test_made_of_other_kinds_are_trained_and_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(made, "STEPS", 2)
    monkeypatch.setattr(made, "SEEN_STEPS", 2)
    model = attnflow.load_model(made.watcher(tmp_path / "watcher", 0))
    (case,) = islice(made.pictures(model, 0), 1)
    found = measure.scores(measure.WAYS["relevance flow"])(case, model)
    assert (len(found["scores"]), sum(found["deciding"])) == (made.GRID**2, 1)
    model = attnflow.load_model(made.copier(tmp_path / "copier", 0))
    text, word, at = made.list_with_sign(made.random.Random(0))
    assert text.split()[at] == word
    found = measure.scores(measure.WAYS["relevance flow"])(Case(text, frozenset([at])), model)
    assert found["deciding"].index(True) == at


def test_stations_that_limit_nothing_give_flow():
    rng = np.random.default_rng(0)
    maps = rng.random((3, 5, 5)) ** 3
    streams = np.full((4, 5), 1e6)
    streams[-1] = [0, 0, 0, 0, 1]
    relevance = Relevances(maps, rng.random(5), 1.0, 0.0, streams)
    graph = LayeredGraph(maps, relevance=relevance)
    selection = Selection((3,), (4,), tuple(range(5)))
    free = METHODS["flow"].apply(graph, selection, Execution(1)).values
    limited = stations.score(graph, selection, Execution(1)).values
    assert limited == pytest.approx(free)
    streams[1:-1] = 0.01
    few = stations.score(graph, selection, Execution(1)).values
    assert (few[..., :4] < free[..., :4]).all()


def test_tables_say_how_often_and_how_much():
    right = {"scores": [0.1, 0.9, 0.2], "deciding": [False, True, False]}
    tied = {"scores": [0.9, 0.9, 0.2], "deciding": [False, True, False]}
    hits = tables.first_hits([{"lrp": right}, {"lrp": tied}])
    assert hits["lrp"] == [1.0, 0.5]
    assert hits[tables.FIXED_BEST] == [1.0, 1.0]
    assert hits[tables.CHANCE] == pytest.approx([1 / 3, 1 / 3])
    pieces = {"scores": [0.4, 0.3, 0.3], "deciding": [False, True, True]}
    case = {"words": {"words": [0, 1, 1]}, "lrp": pieces}
    assert tables._in_pieces(case)
    assert not tables._in_pieces({"lrp": right})
    assert tables.first_hits([case])["lrp"] == [0.0]
    assert tables.first_hits([tables._joined(case)])["lrp"] == [1.0]
    document = {"deletions": {"drops": [0.1, 5.0, 0.2], "fact": 0}}
    hurts, has = tables.document_hits([{**document, "lrp": {"documents": [1.0, 3.0, 2.0]}}])
    assert hurts["lrp"] == hurts[tables.DELETED] == [1.0]
    assert has["lrp"] == has[tables.FIXED_LAST] == [0.0]
    cut = {"edges": 7, "change": -2.0, "random": -0.1}
    one = {"knockouts": {"sets": {"its cut": cut}, "total": 90}}
    rows = list(tables.knockout_table({"a board": [one, one]}))
    assert (
        rows[2] == "| a board (2) | its cut | 7 of 90 | −2.000 [−2.000, −2.000] | −0.100 | 20.0 |"
    )


def test_the_best_and_what_does_not_differ_from_it_are_marked():
    chance = np.random.default_rng(0)
    values = {"one": 0.9, "other": 0.9, "random order": 0.2}
    noise = {way: chance.normal(0, 0.05, 40) for way in values}
    cases = [
        {
            way: dict.fromkeys(measure.MEASURED, mean + noise[way][at])
            for way, mean in values.items()
        }
        for at in range(40)
    ]
    rows = {row.split(" | ")[0]: row for row in tables.faithful_table(cases)}
    best, next_one = sorted(("one", "other"), key=lambda way: -noise[way].mean())
    assert rows[f"| {best}"].split(" | ")[1].startswith("**")
    assert "†" in rows[f"| {next_one}"].split(" | ")[1]
    assert "†" not in rows["| random order"].split(" | ")[1]
