"""Ctrl-C stops a long call promptly, and nothing keeps running."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAM = textwrap.dedent(
    """
    import signal
    import threading
    import numpy as np
    import attnflow
    from attnflow.solvers.cpu import working
    # What a shell starts in the background ignores Ctrl-C, and so does what that starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    attnflow.flow(np.full((4, 3, 3), 1 / 3))  # compiled before the clock runs
    attention = np.random.default_rng(0).dirichlet(np.full(250, 0.05), size=(12, 250))
    wait = working.wait

    def waiting(running, timeout):
        # Threads solve, and the main thread waits for them.
        if not any(each.done() for each in running):
            print("started", flush=True)
            working.wait = wait
        return wait(running, timeout=timeout)

    working.wait = waiting
    try:
        attnflow.flow(CALL)
    except KeyboardInterrupt:
        print("interrupted", threading.active_count(), flush=True)
    """
)


@pytest.mark.parametrize(
    "call", ["attention", "np.stack([attention] * 9, 1), lengths=[250] * 9"], ids=["one", "batch"]
)
def test_an_interrupt_is_heard_within_seconds(call):
    program = [sys.executable, "-c", PROGRAM.replace("CALL", call)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "started\n"
            child.send_signal(signal.SIGINT)
            began = time.monotonic()
            assert child.stdout.readline() == "interrupted 1\n"
            assert time.monotonic() - began < 10
        finally:
            child.kill()


def test_a_solve_that_was_interrupted_leaves_nothing_behind(monkeypatch):
    """Even where a thread was started and nobody knows of it yet."""
    import threading

    import numpy as np

    import attention as some
    from attnflow.solvers.cpu.solver import CpuSolver
    from attnflow.solvers.execution import Execution
    from attnflow.solvers.interface import Sources

    weights = some.make("dense", 6, 40, seed=3)
    sources = Sources(weights[-1], np.full(40, 6))
    sinks = np.arange(40)
    expected, _ = CpuSolver().prepare(weights).solve(sources, sinks, Execution(1))
    prepared = CpuSolver().prepare(weights)
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepared.solve(sources, sinks, Execution(2))
    monkeypatch.undo()
    found, _ = prepared.solve(sources, sinks, Execution(2))
    np.testing.assert_array_equal(found, expected)
