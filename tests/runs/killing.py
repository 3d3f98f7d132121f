"""Starts runs and kills them: a program of its own, so that forks start with the model loaded.

python killing.py MODEL FOLDER SEED COUNT MOMENT

Prints how many runs were killed before one ended by itself. MOMENT is ``any`` (after a random time)
or ``write`` (just before or after a file is flushed or renamed).
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import attnflow

TEXTS = ["the keys to the cabinet are here", "a cat", "the old red key is on the mat", "here !", ""]
ROWS = TEXTS * 16
FEWEST = 3  # kills of a run that ends after all


def run(model, folder):
    attnflow.run(ROWS, folder, model, shard_size=5, layers="all", batch_size=4)


def in_a_fork(work):
    """Start work in a copy of this process, and return its number."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def ended(pid):
    """Wait for a process; whether it ended by itself."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, status
    return True


def killed_at_write(model, folder, number):
    """A run that dies at its n-th step of writing."""
    left = number

    def counted(step):
        def call(*arguments):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments)

        return call

    os.fsync = counted(os.fsync)
    Path.replace = counted(Path.replace)
    run(model, folder)


def main(model, folder, seed, count, moment):
    chance, kills = random.Random(int(seed)), 0
    model = attnflow.load_model(model)
    started = time.monotonic()
    assert ended(in_a_fork(lambda: run(model, f"{folder}-timed")))
    whole = time.monotonic() - started
    while kills < int(count):
        if moment == "write":
            step = chance.randint(1, 8)
            pid = in_a_fork(lambda step=step: killed_at_write(model, folder, step))
        else:
            pid = in_a_fork(lambda: run(model, folder))
            time.sleep(chance.random() * whole / 2)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not ended(pid):
            kills += 1
        elif kills >= FEWEST:
            break
        else:  # it was quicker than the run that was timed: from the start again
            shutil.rmtree(folder)
            kills = 0
    run(model, folder)
    print(kills)


if __name__ == "__main__":
    main(*sys.argv[1:])
