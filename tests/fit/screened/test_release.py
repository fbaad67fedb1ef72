"""The screened release: the law of what it selects, and the errors of its estimate."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from exact_sums import sign_gram
from fit.screened.settings import parameters_of, released, seeded
from hushcov.exceptions import DataError
from hushcov.fit.screened.mechanism import (
    ScreenLevel,
    select_pairs,
)
from hushcov.kernel import session
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import ArrayRecords
from sessions import unlimited
from statistics_helpers import FALSE_ALARM, chi_square_p_value

# Refusals


@pytest.mark.parametrize("shape", [(49, 6), (51, 6), (50, 5), (50, 7)])
def test_records_of_another_size_are_refused(shape):
    with pytest.raises(DataError, match="as declared"):
        released(np.ones(shape), parameters_of(50, 6, 2))


# Accuracy of the assembled estimate, against errors stated beforehand.


SIX_DEVIATIONS = 6  # passed by chance less than once in 1e8


def correlated(model, d, k):
    covariance = sparse_covariance(model, d, k)
    return covariance / covariance[0, 0]


def slope(covariance, truth, found):
    return covariance[found] @ truth[found] / (truth[found] @ truth[found])


@pytest.mark.parametrize(
    ("model", "norm_factor", "bias"),
    [("block", 3.0, 0.0), ("random", 3.0, 0.0), ("block", 0.8, 0.025), ("banded", 0.8, 0.025)],
)
def test_gaussian_records_are_estimated_without_bias(model, norm_factor, bias):
    """No bias where no record is shrunk; 5 parts in d, uncorrected, where most of them are.

    The error of the slope over all pairs and of the trace: noise and sampling, 6 deviations.
    """
    n, d = 40_000, 200
    truth = correlated(model, d, 5)
    X = gaussian_records(truth, n, random_state=1)
    parameters = parameters_of(n, d, 5, epsilon=2.0, norm_factor=norm_factor)
    release = released(X, parameters)
    covariance = release.covariance()
    present = np.triu(truth != 0, 1)
    found = present & release.released
    assert found.sum() >= 0.98 * present.sum()
    pair_sd, diagonal_sd = release.noise_sd
    sampling = math.sqrt(2 * np.sum(truth**2) / d / n)  # of the mean variance, for Gaussian records
    noise = pair_sd / math.sqrt(np.sum(truth[found] ** 2))
    assert abs(slope(covariance, truth, found) - 1) <= bias + SIX_DEVIATIONS * (noise + sampling)
    noise = diagonal_sd / math.sqrt(d)
    assert abs(np.trace(covariance) / d - 1) <= bias + SIX_DEVIATIONS * (noise + sampling)
    assert (0.5 < release.parameters["shrinkage"] < 0.9) == (norm_factor < 1)


@pytest.mark.parametrize("norm_factor", [0.6, 1.0, 2.0])
def test_dividing_by_the_mean_shrinkage_restores_the_values(monkeypatch, norm_factor):
    """Without noise, and with so much of it announced that nothing else corrects the estimate."""
    monkeypatch.setattr(session, "rounded_normal", lambda _, sigma, size: np.zeros(size, int))
    n, d = 20_000, 100
    truth = correlated("block", d, 5)
    X = gaussian_records(truth, n, random_state=8)
    parameters = parameters_of(n, d, d, epsilon=1e-3, n_levels=0, norm_factor=norm_factor)
    release = released(X, parameters)
    covariance, shrinkage = release.covariance(), release.parameters["shrinkage"]
    assert 0.9 * min(1.0, norm_factor) < shrinkage <= 1
    pairs = np.triu(truth != 0, 1)
    assert abs(slope(covariance, truth, pairs) - 1) < 0.03
    assert abs(np.trace(covariance) / d - 1) < 0.03


# `select_pairs` against a literal peeled exponential mechanism, and no sensitivity is exceeded.


D = 4
PAIRS = list(itertools.combinations(range(D), 2))
LEVELS = (ScreenLevel(2, 0.25), ScreenLevel(1, 0.6))


def with_levels(n, levels, d=D):
    """Parameters that select by the given levels; what they cost is not the question here."""
    parameters = parameters_of(n, d, 2)
    return dataclasses.replace(parameters, levels=levels, n_pairs=sum(lv.size for lv in levels))


def records_with(agreements, n=16, d=D):
    """Records of signs: feature i disagrees with feature 0 in the first `agreements[i]` of them."""
    X = np.ones((n, d))
    for feature, disagreeing in enumerate(agreements):
        X[:disagreeing, feature] = -1.0
    return X


def scores_of(X):
    gram = np.abs(sign_gram(ArrayRecords(X)))
    return np.array([gram[pair] for pair in PAIRS])


def peel(law, scores, level, *, skip_selected=True):
    """One level, applied to a law of selected sets: exponential mechanisms in every order."""
    following: dict[frozenset, float] = {}
    for chosen, probability in law.items():
        left = [item for item in range(len(scores)) if not (skip_selected and item in chosen)]
        for order in itertools.permutations(left, level.size):
            rest, logarithm = list(left), 0.0
            for pick in order:
                weights = level.rate * scores[rest]
                logarithm += level.rate * scores[pick] - np.logaddexp.reduce(weights)
                rest.remove(pick)
            together = chosen | frozenset(order)
            following[together] = following.get(together, 0.0) + probability * math.exp(logarithm)
    return following


def literal_law(scores, levels, **options):
    law = {frozenset(): 1.0}
    for level in levels:
        law = peel(law, scores.astype(float), level, **options)
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-9)
    return law


def draw(X, parameters, runs, seed=1):
    """Selected sets, as positions among all pairs."""
    records, entropy = ArrayRecords(X), seeded(seed)
    drawn = []
    for _ in range(runs):
        rows, columns = select_pairs(unlimited(records, entropy), parameters)
        assert (rows < columns).all()
        chosen = list(zip(rows.tolist(), columns.tolist(), strict=True))
        assert chosen == sorted(chosen)
        drawn.append(frozenset(map(PAIRS.index, chosen)))
    return drawn


def draw_from(law, runs, seed=2):
    sets = list(law)
    random = np.random.default_rng(seed)
    picks = random.choice(len(sets), size=runs, p=np.array(list(law.values())) / sum(law.values()))
    return [sets[pick] for pick in picks]


def p_value(drawn, law):
    """Sets that cannot occur must not; the others are compared by chi-square."""
    if not set(drawn) <= set(law):
        return 0.0
    sets = sorted(law, key=law.get)
    counts = [drawn.count(chosen) for chosen in sets]
    return chi_square_p_value(counts, [law[chosen] for chosen in sets])


@pytest.mark.parametrize(
    ("agreements", "runs", "times"),
    [
        ((0, 1, 3, 6), 2_000, 1.25),
        pytest.param((0, 1, 3, 6), 10_000, 1.1, marks=pytest.mark.slow),
        pytest.param((0, 0, 5, 7), 10_000, 1.1, marks=pytest.mark.slow),
    ],
)
def test_levels_have_the_law_of_the_peeled_exponential_mechanism(agreements, runs, times):
    """False-alarm rate 1e-6; wrong rates, levels that forget and a single level are noticed."""
    X = records_with(agreements)
    scores = scores_of(X)
    law = literal_law(scores, LEVELS)
    drawn = draw(X, with_levels(len(X), LEVELS), runs)
    assert p_value(drawn, law) > FALSE_ALARM
    assert p_value(draw_from(law, runs), law) > FALSE_ALARM
    faster = tuple(ScreenLevel(level.size, times * level.rate) for level in LEVELS)
    wrong = {
        "rates too large": literal_law(scores, faster),
        "second rate only": literal_law(scores, (LEVELS[0], ScreenLevel(1, 2 * LEVELS[1].rate))),
        "selected pairs stay": literal_law(scores, LEVELS, skip_selected=False),
        "one level": literal_law(scores, (ScreenLevel(3, LEVELS[0].rate),)),
        "levels swapped": literal_law(scores, LEVELS[::-1]),
    }
    if runs >= 10_000:  # fewer do not tell
        wrong["one level at the mean rate"] = literal_law(scores, (ScreenLevel(3, 1.1 / 3),))
    for name, other in wrong.items():
        assert p_value(draw_from(other, runs), law) < FALSE_ALARM, name


@pytest.mark.parametrize("d", [3, 5, 11])
def test_positions_become_the_right_pairs(d):
    """With all but one pair selected, every pair has its turn to be the one left out."""
    every = list(itertools.combinations(range(d), 2))
    parameters = with_levels(40, (ScreenLevel(len(every) - 1, 1e6),), d=d)
    for i, j in every:
        X = np.ones((40, d))
        X[:10, i] = X[8:22, j] = -1.0  # they differ in 20 records: the only score of 0
        rows, columns = select_pairs(unlimited(X, seeded(0)), parameters)
        chosen = set(zip(rows.tolist(), columns.tolist(), strict=True))
        assert set(every) - chosen == {(i, j)}


@pytest.mark.parametrize(
    ("d", "k", "pairs"),
    [(1, 1, []), (2, 1, []), (2, 2, [(0, 1)]), (3, 3, [(0, 1), (0, 2), (1, 2)])],
)
def test_no_pairs_and_all_pairs_use_no_data_and_no_noise(d, k, pairs):
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(name)

    parameters = parameters_of(5, d, k)
    rows, columns = select_pairs(Untouchable(), parameters)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == pairs
    assert rows.dtype == columns.dtype == np.int64
