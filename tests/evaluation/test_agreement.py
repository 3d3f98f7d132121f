import numpy as np
import pytest
from scipy import stats

from attnflow.errors import InputError
from attnflow.evaluation.agreement import ranks, spearman


@pytest.mark.parametrize("levels", [3, 1000], ids=["ties", "distinct"])
def test_same_as_scipy(levels):
    rng = np.random.default_rng(0)
    for size in (2, 3, 17, 200):
        x, y = rng.integers(0, levels, size) / 7, rng.integers(0, levels, size) / 3
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_opposite_orders():
    assert spearman([1, 2, 3], [3, 2, 1]) == -1


@pytest.mark.parametrize("pair", [([], []), ([1.0], [2.0]), ([1, 1, 1], [1, 2, 3])])
def test_undefined_is_nan(pair):
    assert np.isnan(spearman(*pair))


def test_ties_share_their_mean_rank():
    assert ranks(np.array([3.0, 1.0, 3.0, 3.0])).tolist() == [3, 1, 3, 3]


def test_lists_of_different_length_are_refused():
    with pytest.raises(InputError, match="same length"):
        spearman([1, 2], [1, 2, 3])
