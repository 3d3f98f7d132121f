"""Every metric is its definition, written out; the truth is first and chance is at chance."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from attnflow.evaluation.metrics import METRICS, Case
from attnflow.evaluation.result import Column, Evaluation, Explainer
from attnflow.evaluation.statistics import _tail, all_paired_p, holm, interval

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


def model(weights):
    """The probability without tokens: tokens help or harm, and two of them work together."""

    def erase(sets):
        found = []
        for each in sets:
            there = np.array([token not in each for token in range(len(weights))], float)
            pair = 0.7 * there[0] * there[-1]
            found.append(1 / (1 + math.exp(-(there @ weights) - pair)))
        return np.array(found)

    return erase


@pytest.fixture(params=[2, 3, 7, 12])
def case(request):
    chance = np.random.default_rng(request.param)
    size = request.param
    erase = model(chance.normal(size=size))
    marks = np.zeros(size)
    marks[: (size + 1) // 2] = 1
    return Case(
        chance.normal(size=size),
        float(erase([()])[0]),
        erase,
        reference=chance.normal(size=size),
        rationale=chance.permutation(marks),
        seed=5,
    )


def ordered(case):
    return sorted(range(case.size), key=lambda token: -case.scores[token])


def erased(case, tokens):
    return float(case.erase([tuple(tokens)])[0])


def curve(case, keep):
    order, size = ordered(case), case.size
    counts = sorted({round(size * step / 10) for step in range(11)})
    parts = [(n / size, order[n:] if keep else order[:n]) for n in counts]
    return [(share, erased(case, gone)) for share, gone in parts]


def area(points):
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def odds(p):
    return math.log(p / (1 - p))


def highest(case, share):
    return ordered(case)[: max(1, round(share * case.size))]


def test_erasure_metrics_are_their_definitions(case):
    def value(name):
        return METRICS[name].measure(case)

    drops = [case.value - erased(case, highest(case, share)) for share in SHARES]
    assert value("comprehensiveness") == pytest.approx(np.mean(drops))
    kept = [set(range(case.size)) - set(highest(case, share)) for share in SHARES]
    assert value("sufficiency") == pytest.approx(
        np.mean([case.value - erased(case, gone) for gone in kept])
    )
    changes = [odds(erased(case, highest(case, s))) - odds(case.value) for s in SHARES]
    assert value("log-odds") == pytest.approx(np.mean(changes))
    removed = curve(case, keep=False)
    assert value("aopc") == pytest.approx(np.mean([case.value - p for _, p in removed]))
    assert value("deletion") == pytest.approx(area(removed))
    assert value("insertion") == pytest.approx(area(curve(case, keep=True)))


def test_infidelity_is_the_best_fit_of_sums(case):
    chance = np.random.default_rng(case.seed)
    sets = chance.random((32, case.size)) < chance.random((32, 1))
    sums = [sum(case.scores[each]) for each in sets]
    changes = [case.value - erased(case, np.flatnonzero(each)) for each in sets]
    best = np.linalg.lstsq(np.array(sums)[:, None], np.array(changes), rcond=None)[0][0]
    expected = np.mean([(best * a - b) ** 2 for a, b in zip(sums, changes, strict=True)])
    assert METRICS["infidelity"].measure(case) == pytest.approx(expected)
    other = Case(-3 * case.scores, case.value, case.erase, seed=case.seed)
    assert METRICS["infidelity"].measure(other) == pytest.approx(expected)


def test_agreement_is_scipys(case):
    own, other = np.abs(case.scores), np.abs(case.reference)
    if case.size > 2:
        own[-1] = own[0]
    tied = Case(own, case.value, case.erase, reference=other)
    spearman, kendall = stats.spearmanr(own, other)[0], stats.kendalltau(own, other)[0]
    assert METRICS["spearman"].measure(tied) == pytest.approx(spearman, nan_ok=True)
    assert METRICS["kendall"].measure(tied) == pytest.approx(kendall, nan_ok=True)
    if case.size > 3:
        ranks = [stats.rankdata(each) for each in (own, other, np.arange(case.size))]
        left = [each - np.polyval(np.polyfit(ranks[2], each, 1), ranks[2]) for each in ranks[:2]]
        expected = np.corrcoef(*left)[0, 1]
        assert METRICS["partial"].measure(tied) == pytest.approx(expected)
    count = max(1, round(case.size / 5))
    both = [set(sorted(range(case.size), key=lambda t: -s[t])[:count]) for s in (own, other)]
    assert METRICS["top-k"].measure(tied) == len(both[0] & both[1]) / count


def test_the_highest_tokens_are_compared_and_not_the_lowest():
    """The share of a fifth of twenty tokens, by size, that two explanations have in common."""
    own, other = np.arange(20.0), np.arange(20.0)
    other[[17, 3]] = other[[3, 17]]
    other[18] *= -1  # sizes count, not signs
    found = Case(own, 0.5, lambda _: np.zeros(0), reference=other)
    assert METRICS["top-k"].measure(found) == 3 / 4


def test_plausibility_is_its_definition(case):
    sizes, marked = np.abs(case.scores), case.rationale
    order = sorted(range(case.size), key=lambda token: -sizes[token])
    count = int(marked.sum())
    assert METRICS["token-f1"].measure(case) == sum(marked[order[:count]]) / count
    precision = [sum(marked[order[: n + 1]]) / (n + 1) for n in range(case.size)]
    gains = [marked[token] / count for token in order]
    expected = sum(p * gain for p, gain in zip(precision, gains, strict=True))
    assert METRICS["auprc"].measure(case) == pytest.approx(expected)
    even = Case(np.ones(case.size), case.value, case.erase, rationale=marked)
    assert METRICS["auprc"].measure(even) == pytest.approx(count / case.size)


def test_undefined_is_no_number(case):
    even = Case(np.ones(case.size), case.value, case.erase, reference=case.reference)
    for name in ("spearman", "kendall", "partial"):
        assert math.isnan(METRICS[name].measure(even))
    none = Case(case.scores, case.value, case.erase, rationale=np.zeros(case.size))
    assert math.isnan(METRICS["token-f1"].measure(none))
    assert math.isnan(METRICS["auprc"].measure(none))


@pytest.mark.parametrize("name", list(METRICS))
def test_where_one_token_is_read_the_truth_is_first_and_random_at_chance(name):
    """Twenty texts of ten tokens; the model reads one, elsewhere in each."""
    metric, chance = METRICS[name], np.random.default_rng(0)
    size, truths, randoms, others = 10, [], [], []
    for text in range(20):
        read = int(chance.integers(size))

        def erase(sets, read=read):
            return np.array([0.1 if read in each else 0.9 for each in sets])

        truth = np.zeros(size)
        truth[read] = 1
        ranked = truth + 1e-3 * chance.random(size)  # without ties, which are undefined for some

        def measured(scores, truth=truth, ranked=ranked, erase=erase, text=text):
            return metric.measure(
                Case(scores, 0.9, erase, reference=ranked, rationale=truth, seed=text)
            )

        truths.append(measured(ranked))
        randoms.append([measured(chance.random(size)) for _ in range(40)])
        wrong = np.zeros(size)
        wrong[(read + 1) % size] = 1
        others.append(measured(wrong + 1e-3 * chance.random(size)))
    sign = 1 if metric.higher else -1
    truth, random = sign * np.array(truths), sign * np.array(randoms)
    assert (truth[:, None] >= random - 1e-12).all()
    assert truth.mean() > random.mean()
    assert truth.mean() > (sign * np.array(others)).mean()
    at_chance = {"top-k": 0.2, "token-f1": 0.1, "spearman": 0.0, "kendall": 0.0, "partial": 0.0}
    if name in at_chance:
        assert np.mean(randoms) == pytest.approx(at_chance[name], abs=0.04)
    if name == "comprehensiveness":  # of ten tokens one, one, one, two and five are removed
        assert np.mean(randoms) == pytest.approx(0.8 * np.mean([0.1, 0.1, 0.1, 0.2, 0.5]), abs=0.04)


def paired_p(first, second, **seed):
    return all_paired_p((first - second)[None], **seed)[0]


def test_holm_and_permutations():
    assert holm([0.01, 0.04, 0.03, math.nan])[:3] == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    a = np.array([0.3, 0.5, 0.9, 0.4, math.nan])
    b = np.array([0.1, 0.2, 0.5, 0.5, 0.3])
    differences = (a - b)[:4]
    means = [abs(np.dot(s, differences)) for s in itertools.product([1, -1], repeat=4)]
    expected = np.mean([each >= abs(differences.sum()) - 1e-12 for each in means])
    assert paired_p(a, b) == expected
    assert paired_p(a, a) == 1.0
    chance = np.random.default_rng(1)
    noise = chance.normal(size=(200, 30))
    small = np.mean([paired_p(row, np.zeros(30), seed=n) < 0.05 for n, row in enumerate(noise)])
    assert 0.005 < small < 0.12
    assert paired_p(noise[0] + 2, noise[1]) < 0.001
    pairs = noise[:8] - noise[8:16]
    pairs[3, 4] = math.nan
    alone = [paired_p(row, np.zeros(30)) for row in pairs]
    assert all_paired_p(pairs) == pytest.approx(alone)


def test_a_clear_difference_is_found_among_very_many_pairs():
    """Of 80 explainers one is better; one in all signs that are drawn would be no discovery."""
    chance = np.random.default_rng(3)
    values = chance.normal(size=(80, 1, 100))
    values[5] += 2
    explainers = tuple(Explainer(f"m{number}") for number in range(80))
    found = Evaluation(explainers, (Column("aopc", "unk"),), values, {}, (0,) * 80, (), {})
    lines = found.lines
    assert lines[5].best
    assert max(line.p for line in lines if not line.best) < 0.05
    small = chance.normal(0.4, 1, (30, 12))
    exact = np.array(all_paired_p(small))
    bounds = 2 * np.exp(-(small.sum(1) ** 2) / (2 * (small**2).sum(1)))
    assert (bounds >= exact).all()


@pytest.mark.parametrize(
    ("kind", "texts"), [("even", 20), ("skewed", 20), ("skewed", 60), ("skewed", 300)]
)
def test_intervals_hold_the_mean_as_often_as_they_say(kind, texts):
    """Of 500 simulated evaluations 95 %, with a standard error of 1 point, whatever their size."""
    chance = np.random.default_rng(texts)
    draw, mean = {
        "even": (lambda: chance.normal(1.0, 1.0, texts), 1.0),
        "skewed": (lambda: chance.beta(0.5, 2.0, texts), 0.2),
    }[kind]
    ends = [interval(draw(), seed=n) for n in range(500)]
    assert 0.925 < np.mean([low <= mean <= high for low, high in ends]) < 0.975


@pytest.mark.parametrize("texts", [3, 5, 20, 300])
def test_intervals_end_where_those_of_t_do(texts):
    """Resampled means are nearly normal, with the spread of the values themselves."""
    z = -stats.norm.ppf(_tail(texts, 0.025)) / math.sqrt(texts / (texts - 1))
    assert z == pytest.approx(stats.t.ppf(0.975, texts - 1), rel=0.04)


def test_one_value_has_no_interval():
    assert all(math.isnan(end) for end in interval(np.array([1.0, math.nan])))
