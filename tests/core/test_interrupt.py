"""Ctrl-C stops a long call promptly, nothing keeps running, and the next call is right."""

import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import attention as some
from attnflow.records.sparse import SparseLayer, SparseLayers
from attnflow.solvers import execution
from attnflow.solvers.cpu import solver, sparse
from attnflow.solvers.cpu.solver import CpuSolver
from attnflow.solvers.execution import Execution
from attnflow.solvers.interface import Sources

SECONDS = 120  # far more than anything here takes, also on a busy machine
PROGRAM = textwrap.dedent(
    """
    import signal
    import threading
    from time import process_time
    import numpy as np
    import attnflow
    from attnflow.solvers import execution
    attnflow.flow(np.full((4, 3, 3), 1 / 3))  # compiled before the clock runs
    attention = np.random.default_rng(0).dirichlet(np.full(250, 0.05), size=(12, 250))
    wait = execution.wait

    def waiting(running, timeout):
        # Threads solve, and the main thread waits for them.
        if not any(each.done() for each in running):
            print("started", process_time(), flush=True)
            execution.wait = wait
        return wait(running, timeout=timeout)

    execution.wait = waiting
    try:
        attnflow.flow(CALL, device="cpu")  # on a GPU it is over before it can be stopped
    except KeyboardInterrupt:
        print("interrupted", process_time(), threading.active_count(), flush=True)
    """
)


@pytest.mark.parametrize(
    "call", ["attention", "np.stack([attention] * 9, 1), lengths=[250] * 9"], ids=["one", "batch"]
)
def test_an_interrupt_is_heard_within_seconds(call):
    """The whole call would take minutes of the processor's time."""
    program = [sys.executable, "-c", PROGRAM.replace("CALL", call)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        try:
            started, begin = child.stdout.readline().split()
            child.send_signal(signal.SIGINT)
            ended, end, threads = child.stdout.readline().split()
            assert (started, ended, threads) == ("started", "interrupted", "1")
            assert float(end) - float(begin) < 10
        finally:
            child.kill()


SIZE, DEPTH = 40, 6
WEIGHTS = some.make("dense", DEPTH, SIZE, seed=3)
SOURCES = Sources(WEIGHTS[-1], np.full(SIZE, DEPTH))
SINKS = np.arange(SIZE)


class Interrupted:
    """A thread is started, and an interrupt comes before anybody knows of it.

    It takes its first part of the work only when it is released, long after the call has ended.
    """

    def __init__(self, monkeypatch):
        self.released, self.seen, self.thread = threading.Event(), threading.Event(), None
        start = threading.Thread.start

        def interrupted(thread):
            monkeypatch.setattr(threading.Thread, "start", start)
            self.thread = thread
            start(thread)
            raise KeyboardInterrupt

        def take_part(parts, following=execution.SharedParts.__next__):
            part = following(parts)
            if threading.current_thread() is self.thread:
                assert self.released.wait(SECONDS)
            return part

        monkeypatch.setattr(threading.Thread, "start", interrupted)
        monkeypatch.setattr(execution.SharedParts, "__next__", take_part)

    def end(self):
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()


def arrays_of(network):
    """What a thread may write."""
    own = [network.residuals.left, network.residuals.counts, *network[2:-1]]
    return [each for each in own if isinstance(each, np.ndarray) and each.size]


@pytest.mark.parametrize("solves_before", [0, 2], ids=["first", "with bounds"])
def test_a_thread_that_outlives_its_solve_has_nothing_of_the_next(solves_before, monkeypatch):
    expected, _ = CpuSolver().prepare(WEIGHTS).solve(SOURCES, SINKS, Execution(1))
    prepared = CpuSolver().prepare(WEIGHTS)
    for _ in range(solves_before):
        prepared.solve(SOURCES, SINKS, Execution(2))
    late = Interrupted(monkeypatch)
    used, of_late = [], []
    solve_sinks = solver.solve_sinks

    def recorded(network, bounds, *given):
        if threading.current_thread() is late.thread:
            held = [*arrays_of(network), *bounds]
            before = [each.copy() for each in held]
            solve_sinks(network, bounds, *given)
            of_late.append((held, before))
            late.seen.set()
            return
        used.append([*arrays_of(network), *bounds])
        # In the middle of the next solve the thread of the one before goes on.
        late.released.set()
        assert late.seen.wait(SECONDS)
        solve_sinks(network, bounds, *given)

    monkeypatch.setattr(solver, "solve_sinks", recorded)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(SOURCES, SINKS, Execution(2))
    found, _ = prepared.solve(SOURCES, SINKS, Execution(2))
    late.end()
    np.testing.assert_array_equal(found, expected)
    ((held, before),) = of_late[:1]
    assert not any(np.shares_memory(old, new) for old in held for each in used for new in each)
    for old, unchanged in zip(held, before, strict=True):
        np.testing.assert_array_equal(old, unchanged)  # it was told to stop before it began


def test_a_batch_that_was_interrupted_writes_nothing(monkeypatch):
    late, made = Interrupted(monkeypatch), []
    monkeypatch.setattr(solver, "make_network", made.append)
    items = np.stack([WEIGHTS] * 3, axis=1)
    with pytest.raises(KeyboardInterrupt):
        CpuSolver().prepare(items).solve(Sources(items[-1], SOURCES.layers), SINKS, Execution(2))
    late.released.set()
    late.end()
    assert not made


def test_a_sparse_solve_that_was_interrupted_writes_nothing(monkeypatch):
    late, written = Interrupted(monkeypatch), []
    monkeypatch.setattr(sparse, "bound_reach", lambda *given: written.append(given))
    layers = SparseLayers(tuple(map(SparseLayer.of, WEIGHTS)))
    with pytest.raises(KeyboardInterrupt):
        sparse.solve(layers, [(6, 3), (6, 4)], [(1,), (2,)], Execution(2))
    late.released.set()
    late.end()
    assert not written


def test_an_interrupt_while_threads_are_waited_for(monkeypatch):
    """The second Ctrl-C of somebody who is in a hurry: threads are left alone, and do no harm."""
    expected, _ = CpuSolver().prepare(WEIGHTS).solve(SOURCES, SINKS, Execution(1))
    prepared = CpuSolver().prepare(WEIGHTS)
    begun, goes_on, solve_sinks = threading.Event(), threading.Event(), solver.solve_sinks
    left = []

    def slow(*given):
        left.append(threading.current_thread())
        begun.set()
        assert goes_on.wait(SECONDS)
        solve_sinks(*given)

    def interrupted(*given, **options):
        assert begun.wait(SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "solve_sinks", slow)
    monkeypatch.setattr(execution, "wait", interrupted)
    monkeypatch.setattr(execution.ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(SOURCES, SINKS, Execution(2))
    monkeypatch.undo()
    assert any(thread.is_alive() for thread in left)
    goes_on.set()
    found, _ = prepared.solve(SOURCES, SINKS, Execution(2))
    np.testing.assert_array_equal(found, expected)


def test_a_solve_that_was_interrupted_leaves_nothing_behind(monkeypatch):
    """Even where a thread was started and nobody knows of it yet: again and again, unrehearsed."""
    expected, _ = CpuSolver().prepare(WEIGHTS).solve(SOURCES, SINKS, Execution(1))
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    for _ in range(40):
        prepared = CpuSolver().prepare(WEIGHTS)
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepared.solve(SOURCES, SINKS, Execution(2))
        monkeypatch.undo()
        found, _ = prepared.solve(SOURCES, SINKS, Execution(2))
        np.testing.assert_array_equal(found, expected)
