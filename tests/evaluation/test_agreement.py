import dataclasses

import numpy as np
import pytest
from scipy import stats

import attnflow
from attnflow.errors import InputError
from attnflow.evaluation.agreement import ranks, spearman
from attnflow.records import Attribution


@pytest.mark.parametrize("levels", [3, 1000], ids=["ties", "distinct"])
def test_same_as_scipy(levels):
    rng = np.random.default_rng(0)
    for size in (2, 3, 17, 200):
        x, y = rng.integers(0, levels, size) / 7, rng.integers(0, levels, size) / 3
        if len(set(x)) > 1 and len(set(y)) > 1:
            assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_opposite_orders():
    assert spearman([1, 2, 3], [3, 2, 1]) == -1


@pytest.mark.parametrize(
    "pair",
    [
        ([], []),
        ([1.0], [2.0]),
        ([1, 1, 1], [1, 2, 3]),
        ([1, np.nan, 3], [1, 2, 3]),
        ([1, 2, 3], [1, 2, np.nan]),
    ],
)
def test_undefined_is_nan(pair):
    assert np.isnan(spearman(*pair))


def test_ties_share_their_mean_rank():
    assert ranks(np.array([3.0, 1.0, 3.0, 3.0])).tolist() == [3, 1, 3, 3]


def test_lists_of_different_length_are_refused():
    with pytest.raises(InputError, match="same length"):
        spearman([1, 2], [1, 2, 3])


def explained(scores, layers=(1, 2), query=0, **options):
    """One position's scores, ``[layer, key]``."""
    scores = np.array(scores, dtype=float)
    return Attribution(
        tokens=tuple("abc"),
        scores=scores[:, None],
        layers=layers,
        queries=(query,),
        layer=layers[-1],
        query=query,
        method="flow",
        options=options,
    )


def test_special_tokens_count_unless_they_are_left_out():
    one, other = (
        dataclasses.replace(explained([row, row]), word_ids=(None, 0, 1), word_texts=("b", "c"))
        for row in ([3, 1, 2], [1, 2, 3])
    )
    assert attnflow.agreement(one, other) == pytest.approx(-0.5)
    assert attnflow.agreement(one, other, special=False) == pytest.approx(1)


def test_both_explanations_are_compared_at_the_layer_asked_for():
    first, second = explained([[1, 2, 3], [3, 2, 1]]), explained([[1, 2, 3], [1, 2, 3]])
    assert attnflow.agreement(first, second) == -1
    assert attnflow.agreement(first, second, layer=1) == 1
    assert attnflow.agreement(first, second, layer=-2) == 1
    assert attnflow.agreement(first.at(layer=1), second) == 1
    crossed = explained([[3, 2, 1], [1, 2, 3]])
    assert attnflow.agreement(first, crossed, layer=1) == -1


def test_what_has_one_layer_takes_part_with_it():
    first, importance = explained([[1, 2, 3], [3, 2, 1]]), explained([[1, 2, 3]], layers=(2,))
    assert attnflow.agreement(first, importance, layer=1) == 1
    assert attnflow.agreement(importance, first, layer=1) == 1
    with pytest.raises(InputError, match="layer=5 was not computed"):
        attnflow.agreement(importance, importance, layer=5)


def test_differences_by_rounding_are_ties():
    noisy = explained([[1 - 1e-16, 1, 1 - 2e-16]], layers=(2,))
    assert np.isnan(attnflow.agreement(noisy, explained([[1, 2, 3]], layers=(2,))))


def test_explanations_of_different_positions_are_refused():
    first = explained([[1, 2, 3], [3, 2, 1]], query=1)
    decided = explained([[1, 2, 3], [3, 2, 1]])
    assert attnflow.agreement(first, decided) == 1  # a label has no position
    asked = explained([[1, 2, 3], [3, 2, 1]], query=1).at(query="b")
    with pytest.raises(InputError, match=r"query=1 and query=0; .*\.at\(query="):
        attnflow.agreement(asked, decided)


def test_single_heads_are_refused():
    merged = explained([[1, 2, 3], [3, 2, 1]])
    single = dataclasses.replace(merged, scores=np.ones((2, 4, 1, 3)))
    with pytest.raises(InputError, match=r"heads='each' has one per head; .*heads='mean'"):
        attnflow.agreement(single, single)
