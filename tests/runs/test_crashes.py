"""Runs that are killed go on where they were, and end as if nothing had happened."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from killing import FEWEST, ROWS

import attnflow
from attnflow.errors import ModelError
from attnflow.runs.pool import Processes

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
OPTIONS = {"shard_size": 5, "layers": "all", "batch_size": 4}


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "whole"
    made = attnflow.run(ROWS, place, model, **OPTIONS)
    assert [bad.row for bad in made.errors] == list(range(4, 80, 5))
    return files(place)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(("moment", "count"), [("any", 10), ("write", 16)])
def test_killed_at_any_moment(tmp_path, model, undisturbed, moment, count):
    place = tmp_path / "run"
    arguments = [model, place, 7, count, moment]
    done = subprocess.run(
        [sys.executable, HERE / "killing.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= FEWEST
    assert files(place) == undisturbed


def test_the_program_and_its_workers_killed(tmp_path, model, undisturbed):
    """The whole program, with two workers, killed at random moments; then left to finish."""
    place, source = tmp_path / "run", tmp_path / "rows.csv"
    lines = [f'"{text}"' for text in ROWS]
    source.write_text("\n".join(["text", *lines]) + "\n")
    command = [sys.executable, "-m", "attnflow", "run", source, "-o", place, "-m", model]
    command += ["--layers", "all", "--shard-size", 5, "--batch-size", 4, "--workers", 2]
    chance, kills, seen = random.Random(3), 0, set()
    while kills < 2:
        process = subprocess.Popen(
            list(map(str, command)), env=environment(), stderr=subprocess.DEVNULL
        )
        _wait_for(lambda before=seen: set(place.glob("part-*.parquet")) > before, process)
        time.sleep(chance.random() / 50)  # sooner than the rest of the 16 shards takes
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen, kills = set(place.glob("part-*.parquet")), kills + 1
        if attnflow.read_run(place, unfinished=True).finished:  # before the signal came
            shutil.rmtree(place)
            seen, kills = set(), 0
    done = subprocess.run(
        list(map(str, command)), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("80 rows, 64 attributions")
    found = files(place)
    for name in undisturbed:
        if name != "manifest.json":  # which names the source
            assert found[name] == undisturbed[name]
    assert sorted(found) == sorted(undisturbed)


def _heed_control_c():
    """What a shell starts in the background ignores it, and so does what that starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait_for(condition, process):
    for _ in range(6000):
        if condition() or process.poll() is not None:
            return
        time.sleep(0.05)
    process.kill()
    process.wait()
    pytest.fail("nothing was written")


@pytest.mark.usefixtures("quick_workers")
def test_a_worker_that_dies_is_replaced(tmp_path, model, undisturbed):
    killed = []

    def kill_one():
        """Kill a worker each time a shard appears, twice: a third time may hit the same shard."""
        place = tmp_path / "run"
        seen = 0
        while not done.wait(0.01):
            there = len(list(place.glob("part-*.parquet")))
            workers = multiprocessing.active_children()
            if there > seen and workers and len(killed) < 2:
                seen = there
                killed.append(workers[0].pid)
                os.kill(workers[0].pid, signal.SIGKILL)

    done = threading.Event()
    helper = threading.Thread(target=kill_one)
    helper.start()
    try:
        attnflow.run(ROWS, tmp_path / "run", model, workers=2, **OPTIONS)
    finally:
        done.set()
        helper.join()
    assert killed
    assert files(tmp_path / "run") == undisturbed


@pytest.mark.usefixtures("quick_workers")
def test_a_worker_that_dies_while_it_loads_is_replaced(tmp_path, model, undisturbed, monkeypatch):
    started = []
    start = Processes._start

    def kill_second_and_third(pool):
        worker = start(pool)
        started.append(worker)
        if len(started) == 2:  # it dies with its first shard
            monkeypatch.setattr(Processes, "_give", die_with_the_first)
        if len(started) == 3:
            worker.process.kill()
        return worker

    give = Processes._give

    def die_with_the_first(pool, worker, job, tries=1):
        if worker is started[1] and len(started) == 2:
            worker.process.kill()
        give(pool, worker, job, tries)

    monkeypatch.setattr(Processes, "_start", kill_second_and_third)
    attnflow.run(ROWS, tmp_path / "run", model, workers=2, **OPTIONS)
    assert len(started) == 4
    assert files(tmp_path / "run") == undisturbed


@pytest.mark.usefixtures("quick_workers")
def test_a_shard_that_kills_every_worker_is_given_up(tmp_path, model):
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        "import os, attnflow\n"
        "def score(graph, selection, execution):\n"
        "    if graph.weights.shape[-1] > 8: os._exit(9)\n"
        "    return attnflow.METHODS['raw'].score(graph, selection, execution)\n"
        "attnflow.METHODS.register(attnflow.Method('deadly', 'Deadly', score))\n"
    )
    from attnflow.registry import load_plugin

    load_plugin(str(plugin))
    rows = ["a cat", "here !", "the old red key is on the mat", "a key"]
    options = {"methods": "deadly", "shard_size": 1, "workers": 2, "plugins": [str(plugin)]}
    try:
        with pytest.raises(ModelError, match=r"died 3 times on rows 2 to 2 \(exit code 9\)"):
            attnflow.run(rows, tmp_path / "run", model, **options)
    finally:
        attnflow.METHODS.unregister("deadly")
    assert attnflow.read_run(tmp_path / "run", unfinished=True).rows >= 1


WAITING = """
import os, time, attnflow
def score(graph, selection, execution):
    while graph.weights.shape[-1] > 8 and not os.path.exists({!r}):
        time.sleep(0.05)
    return attnflow.METHODS["raw"].score(graph, selection, execution)
attnflow.METHODS.register(attnflow.Method("waiting", "Waiting", score))
"""


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_one_process_at_a_time_runs_into_a_folder(tmp_path, model, end):
    """The first makes two shards, and the third not before a file is there, or until it dies."""
    place, go, plugin = tmp_path / "run", tmp_path / "go", tmp_path / "waiting.py"
    plugin.write_text(WAITING.format(str(go)))
    source = tmp_path / "rows.txt"
    source.write_text("a cat\nhere !\nthe old red key is on the mat\na key\n")

    def run(folder):
        command = [sys.executable, "-m", "attnflow", "run", source, "-o", folder, "-m", model]
        command += ["--shard-size", 1, "--edges", "attention", "--method", "waiting"]
        command += ["--plugin", plugin]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(list(map(str, command)), env=environment(), **pipes)

    first = run(place)
    try:
        _wait_for(lambda: len(list(place.glob("part-*.parquet"))) == 2, first)
        second = run(place)
        _, told = second.communicate()
        assert second.returncode == 2
        assert f"{place} is being written to already; wait" in told
        assert attnflow.read_run(place, unfinished=True).rows == 2
        if end == "killed":
            first.kill()
        go.touch()
        first.communicate()
        assert (first.returncode == 0) == (end == "finished")
    finally:
        first.kill()
    for folder in (place, tmp_path / "whole"):
        again = run(folder)
        told, _ = again.communicate()
        assert again.returncode == 0
        if folder == place:
            kept = "all of them" if end == "finished" else "2 of them"
            assert f"; {kept} had been explained before" in told
    assert files(place) == files(tmp_path / "whole")


def test_control_c_keeps_what_is_finished(tmp_path, model, undisturbed):
    place = tmp_path / "run"
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(json.dumps({"text": text}) for text in ROWS * 40))
    command = [sys.executable, "-m", "attnflow", "run", source, "-o", place, "-m", model]
    command += ["--layers", "all", "--shard-size", 5, "--batch-size", 4]
    process = subprocess.Popen(
        list(map(str, command)),
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_control_c,
    )
    _wait_for(lambda: len(list(place.glob("part-*.parquet"))) > 2, process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert "finished rows are kept: run the same command again to continue" in told
    assert "Traceback" not in told
    assert not list(place.glob("*.part"))
    part = attnflow.read_run(place, unfinished=True)
    assert not part.finished
    assert part.rows == 5 * len(part.shards) > 0
