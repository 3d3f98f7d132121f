"""On a real Ray cluster: the same bytes, whichever workers and drivers are killed."""

import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import ROWS

import attnflow
from attnflow.errors import InputError

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
OPTIONS = {"shard_size": 5, "layers": "all", "batch_size": 4}
COMMAND = ("--layers", "all", "--shard-size", "5", "--batch-size", "4", "--workers", "2")
SHARDS = 16
CLUSTER = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    # Workers are polite by default, and starve beside the other tests of this machine.
    "RAY_worker_niceness": "0",
}


def environment():
    return {**os.environ, **CLUSTER, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}


def start_cluster(program="holding.py"):
    """The process that holds a cluster of two processors, and its address."""
    holder = subprocess.Popen(
        [sys.executable, HERE / program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    address = holder.stdout.readline().strip()
    assert address, "the cluster did not start"
    return holder, address


@pytest.fixture(scope="module")
def cluster():
    holder, address = start_cluster()
    yield holder.pid, address
    holder.communicate()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    place = tmp_path_factory.mktemp("rows") / "rows.csv"
    place.write_text("\n".join(["text", *(f'"{text}"' for text in ROWS)]) + "\n")
    return str(place)


@pytest.fixture(scope="module")
def undisturbed(model, source, tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "whole"
    attnflow.run(source, place, model, **OPTIONS)
    return files(place)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def start(address, source, place, model, extra=()):
    command = [sys.executable, "-m", "attnflow", "run", source, "-o", place, "-m", model]
    return subprocess.Popen(
        [*map(str, command), *COMMAND, "--ray", address, *map(str, extra)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def parents():
    """The parent of every process of this machine, and its command line."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            after = (place / "stat").read_text().rpartition(")")[2].split()
            found[int(place.name)] = (int(after[1]), (place / "cmdline").read_bytes())
        except (OSError, IndexError):
            continue  # it has just ended
    return found


def actors(holder):
    """The processes in which the actors of this cluster live."""
    known = parents()
    return [
        pid
        for pid, (parent, command) in known.items()
        if b"ray::RemoteWorker" in command and known.get(parent, (0, b""))[0] == holder
    ]


def shards(place):
    return set(place.glob("part-*.parquet"))


def wait_for_more(place, before, process):
    for _ in range(6000):
        if len(shards(place)) > before or process.poll() is not None:
            return
        time.sleep(0.05)
    process.kill()
    _, said = process.communicate()
    pytest.fail(f"nothing was written: {said}")


def finished(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "80 rows, 64 attributions" in out  # below what Ray tells of workers that died


def test_workers_are_killed_at_random_moments(cluster, source, model, undisturbed, tmp_path):
    holder, address = cluster
    place, chance, killed = tmp_path / "run", random.Random(5), []
    for _ in range(10):
        process = start(address, source, place, model)
        for _ in range(2):
            wait_for_more(place, len(shards(place)), process)
            time.sleep(chance.random() / 50)  # sooner than the rest of the shards takes
            found = sorted(actors(holder))
            if found and process.poll() is None:
                killed.append(chance.choice(found))
                os.kill(killed[-1], signal.SIGKILL)
        finished(process)
        assert files(place) == undisturbed
        if killed:
            break
        shutil.rmtree(place)  # all was done before a worker was found: once more
    assert killed


def test_the_driver_is_killed_at_random_moments(cluster, source, model, undisturbed, tmp_path):
    _, address = cluster
    place, chance = tmp_path / "run", random.Random(6)
    for _ in range(10):
        process = start(address, source, place, model)
        wait_for_more(place, 0, process)
        time.sleep(chance.random() / 50)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if len(shards(place)) < SHARDS:
            break
        shutil.rmtree(place)  # all was done before the signal came: once more
    else:
        pytest.fail("the driver always finished before it was killed")
    finished(start(address, source, place, model))
    assert files(place) == undisturbed


def test_what_a_cluster_cannot_do_is_told(cluster, source, model, tmp_path, monkeypatch):
    _, address = cluster
    command = [sys.executable, "-m", "attnflow", "run", source, "-o", tmp_path / "run"]

    def refused(*options):
        given = [*map(str, command), *map(str, options)]
        done = subprocess.run(given, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        return done.stderr

    told = refused("--ray", address, "--gpus-per-worker", 1)
    assert "a worker needs 1 GPU, and the cluster has 0" in told
    told = refused("--ray", address, "-m", tmp_path / "none")
    assert "does not exist" in told
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="gpus_per_worker=1 is for workers of a Ray cluster"):
        attnflow.run(ROWS, tmp_path / "run", model, gpus_per_worker=1)
    with pytest.raises(InputError, match="gpus_per_worker=-1 must be 0 or more"):
        attnflow.run(ROWS, tmp_path / "run", model, ray="auto", gpus_per_worker=-1)
    with pytest.raises(InputError, match="ray=3 must be an address"):
        attnflow.run(ROWS, tmp_path / "run", model, ray=3)
    with pytest.raises(InputError, match="can't be given to other processes"):
        attnflow.run(ROWS, tmp_path / "run", attnflow.load_model(model), ray="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'attnflow\[ray\]'"):
        attnflow.run(ROWS, tmp_path / "run", model, ray="auto")


WAITING = """
import os, time, attnflow
def score(graph, selection, execution):
    while graph.weights.shape[-1] > 8 and not os.path.exists({!r}):
        time.sleep(0.05)
    return attnflow.METHODS["raw"].score(graph, selection, execution)
attnflow.METHODS.register(attnflow.Method("waiting", "Waiting", score))
"""


def test_a_machine_that_dies_is_told_and_the_run_goes_on_elsewhere(model, tmp_path):
    """Two shards are made at once, and the third not before a file is there."""
    place, go, plugin = tmp_path / "run", tmp_path / "go", tmp_path / "waiting.py"
    plugin.write_text(WAITING.format(str(go)))
    source = tmp_path / "rows.txt"
    source.write_text("a cat\nhere !\nthe old red key is on the mat\na key\n")
    extra = ["--shard-size", "1", "--edges", "attention", "--method", "waiting", "--plugin", plugin]
    holder, address = start_cluster()
    try:
        process = start(address, source, place, model, extra)
        wait_for_more(place, 1, process)
        (node,) = [
            pid
            for pid, (parent, command) in parents().items()
            if parent == holder.pid and b"/raylet/raylet" in command
        ]
        os.kill(node, signal.SIGKILL)
        _, told = process.communicate()
    finally:
        holder.communicate()
    assert process.returncode == 2, told
    line = told.strip().splitlines()[-1]
    assert f"attnflow: the Ray cluster {address} is gone: this machine is no longer part" in line
    assert "What is finished is kept" in line
    assert "give the same command again" in line
    assert "memory" not in line
    kept = len(shards(place))
    assert kept in (2, 3)
    go.touch()
    options = {"shard_size": 1, "edges": "attention", "methods": "waiting", "layers": "all"}
    options |= {"batch_size": 4, "plugins": [str(plugin)]}
    try:  # as the message says: on this machine
        assert attnflow.run(source, place, model, **options).kept == kept
        attnflow.run(source, tmp_path / "whole", model, **options)
    finally:
        attnflow.METHODS.unregister("waiting")
    assert files(place) == files(tmp_path / "whole")


def test_a_machine_that_dies_is_replaced_by_another(model, tmp_path):
    """Its workers start again there, and the shards that it had are made again."""
    place, go, plugin = tmp_path / "run", tmp_path / "go", tmp_path / "waiting.py"
    plugin.write_text(WAITING.format(str(go)))
    source = tmp_path / "rows.txt"
    source.write_text("a cat\nhere !\nthe old red key is on the mat\na key\n")
    extra = ["--shard-size", "1", "--edges", "attention", "--method", "waiting", "--plugin", plugin]
    holder, address = start_cluster("holding_two.py")

    def tell(what):
        holder.stdin.write(f"{what}\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "done\n"

    try:
        process = start(address, source, place, model, extra)
        wait_for_more(place, 1, process)
        tell("die")
        tell("come")
        go.touch()
        out, told = process.communicate()
    finally:
        holder.communicate()
    assert process.returncode == 0, told
    assert "4 rows, 4 attributions" in out
    assert len(shards(place)) == 4


def test_rows_that_end_every_worker_are_given_up_and_named(cluster, model, tmp_path):
    _, address = cluster
    plugin = tmp_path / "deadly.py"
    plugin.write_text(
        WAITING.replace("time.sleep(0.05)", "os._exit(9)").format(str(tmp_path / "x"))
    )
    source = tmp_path / "rows.txt"
    source.write_text("a cat\nhere !\nthe old red key is on the mat\na key\n")
    extra = ["--shard-size", "1", "--edges", "attention", "--method", "waiting", "--plugin", plugin]
    process = start(address, source, tmp_path / "run", model, extra)
    _, told = process.communicate()
    assert process.returncode == 2
    assert "a worker died 3 times on rows 2 to 2" in told
    assert "What is finished is kept" in told
    assert shards(tmp_path / "run")


def test_a_head_that_does_not_answer_is_told(monkeypatch):
    """Ray itself would end the program, without a word of the run."""
    from attnflow.errors import ModelError
    from attnflow.runs import cluster as module

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        free = listening.getsockname()
    pool = module.RayActors(None, None, (), 1, module.Cluster("a:6379"), _head=free)
    pool._look()  # it may come back
    monkeypatch.setattr(module, "LOOK", 0)
    pool._seen -= module.PATIENCE
    with pytest.raises(ModelError, match=r"a:6379 is gone: its head has not answered for 30 sec"):
        pool._look()
    assert pool._gone
