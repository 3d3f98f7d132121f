"""A worker keeps to its share of the threads."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from attnflow.runs.work import fixed_threads


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
