"""A worker keeps to its share of the threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from attnflow.edges import rows
from attnflow.runs.work import fixed_threads
from attnflow.solvers import execution


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.mark.parametrize("count", [1, 2])
def test_torch_and_blas_have_as_many_threads_as_a_worker(count):
    np.ones((8, 8)) @ np.ones((8, 8))  # its library is loaded
    before = torch.get_num_threads(), blas_threads()
    assert before[1]
    with fixed_threads(count):
        assert torch.get_num_threads() == count
        assert all(each <= count for each in blas_threads())
    assert (torch.get_num_threads(), blas_threads()) == before


def test_compiled_loops_have_as_many_threads_as_a_worker(monkeypatch):
    monkeypatch.setattr(execution.os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    asked = []
    monkeypatch.setattr(
        rows, "ThreadPoolExecutor", lambda count: asked.append(count) or ThreadPoolExecutor(count)
    )
    for count in (1, 3):
        with fixed_threads(count):
            assert rows.in_threads(8, str, work=rows.WORTH_THREADS) == list("01234567")
    rows.in_threads(8, str, work=rows.WORTH_THREADS)
    assert asked == [3, 4]
