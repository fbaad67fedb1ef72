"""`select_pairs` against a literal peeled exponential mechanism, and no sensitivity is exceeded."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from exact_sums import sign_gram
from fit.screened.settings import parameters_of, seeded
from hushcov.candidates import Candidates
from hushcov.fit.screened.mechanism import (
    ScreenLevel,
    release_screened,
    select_pairs,
)
from hushcov.kernel.queries import PairSigns
from hushcov.tables.sources import ArrayRecords
from sessions import certified, unlimited
from statistics_helpers import FALSE_ALARM, chi_square_p_value

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


def test_parameters_as_certified_have_that_law_too():
    """Levels, rates and scores as they come, at a budget where a few records matter."""
    X = records_with((0, 1, 3, 4), n=10)
    parameters = parameters_of(
        10, D, 2, epsilon=5.0, delta=1e-2, selection_factor=1.5, noise_ratio=0.5, screen_share=0.8
    )
    assert [level.size for level in parameters.levels] == [2, 1]
    law = literal_law(scores_of(X), parameters.levels)
    assert p_value(draw(X, parameters, 1_200), law) > FALSE_ALARM


def test_scores_hundreds_of_noise_scales_apart():
    """The strong pair wins the first level for certain; the others compete among themselves."""
    n = 4_000
    X = records_with((0, 0, n // 2 - 20, n // 2 + 10), n)
    scores = scores_of(X)
    assert scores.tolist() == [4000, 40, 20, 40, 20, 3940]
    levels = (ScreenLevel(1, 0.25), ScreenLevel(2, 0.05))
    law = literal_law(scores, levels)
    drawn = draw(X, with_levels(n, levels), 800)
    assert {0, 5} <= set.intersection(*(set(chosen) for chosen in drawn))
    likely = {chosen: p for chosen, p in law.items() if p > 1e-30}
    assert p_value(drawn, likely) > FALSE_ALARM
    other = literal_law(scores, (levels[0], ScreenLevel(2, 0.1)))
    assert p_value(drawn, {chosen: other[chosen] for chosen in likely}) < FALSE_ALARM


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


# Neighbouring datasets through the maps of certified parameters, in integers.


# Zeros, the two clips, what lies beyond them, and everything else a double can be.
# Screening inside candidates that are known: the same scores, picks and noise, of them alone.


def every_pair(d):
    return Candidates.of_pairs(d, *np.triu_indices(d, 1))


def told(parameters, candidates):
    return dataclasses.replace(
        parameters, inputs=dataclasses.replace(parameters.inputs, candidates=candidates)
    )


def test_candidates_that_are_all_pairs_change_no_bit():
    d = 12
    X = np.random.default_rng(1).standard_normal((400, d))
    parameters = parameters_of(400, d, 3)
    assert parameters.levels
    first, second = (
        release_screened(certified(X, each, seeded(5)), np.ones(d), each, sparse=True)
        for each in (parameters, told(parameters, every_pair(d)))
    )
    np.testing.assert_array_equal(first.selected, second.selected)
    np.testing.assert_array_equal(first.integers.toarray(), second.integers.toarray())
    assert first.guarantee == second.guarantee


def test_the_law_of_a_selection_among_candidates():
    """False-alarm rate 1e-6; a selection among all pairs, and other rates, are noticed."""
    X, levels = records_with((0, 1, 3, 6)), (ScreenLevel(1, 0.25), ScreenLevel(1, 0.6))
    band = Candidates.band(4, 1)
    inside = [0, 3, 5]  # places of these pairs among all
    scores = np.abs(PairSigns(4).exact(ArrayRecords(X)))[inside]
    law = {
        frozenset(inside[each] for each in chosen): p
        for chosen, p in literal_law(scores, levels).items()
    }
    drawn = draw(X, told(with_levels(16, levels), band), 500)
    assert p_value(drawn, law) > FALSE_ALARM
    assert p_value(draw(X, with_levels(16, levels), 100), law) < FALSE_ALARM
    faster = tuple(ScreenLevel(each.size, 3 * each.rate) for each in levels)
    other = told(with_levels(16, faster), band)
    assert p_value(draw(X, other, 500), law) < FALSE_ALARM
