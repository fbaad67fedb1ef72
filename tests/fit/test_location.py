"""Private centres and scales wherever a column lies, and with public bounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from budgets import ample, spent, squared
from fit.settings import seeded
from hushcov.bounds import check_bounds
from hushcov.exceptions import SeededNoiseWarning
from hushcov.fit import scales
from hushcov.fit.location import LocationParameters, LookUnits, find_location
from hushcov.fit.mechanism import Prepared
from hushcov.fit.preparation import Preparation
from hushcov.inputs import Found
from hushcov.kernel.accounting import smallest_sigma
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.queries import CellCounts, SignedOctaves
from hushcov.kernel.session import Session
from hushcov.kernel.sums.counts import SMALLEST_EXPONENT
from hushcov.tables.sources import ArrayRecords
from statistics_helpers import FALSE_ALARM, short_and_long

MU = 0.2367  # of epsilon = 1, delta = 1e-6
N = 20_000


def find(X, seed=0, mu=MU, budget=None, **options):
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(seed)
    X = np.asarray(X, dtype=np.float64)
    parameters = LocationParameters(*X.shape, mu, **options)
    session = Session(ArrayRecords(X), budget or ample(), entropy)
    return find_location(session, parameters)


def squares(mus):
    return sum(Fraction(mu) ** 2 for mu in mus)


# Columns


def mixture(first, second, share, rng, n):
    return np.where(rng.random(n) < share, first, second)


def columns(rng, n):
    """Columns of many kinds in their own units; see `scaled` for those whose unit is free."""
    z = rng.standard_normal(n)
    absurd = z.copy()
    absurd[rng.integers(n)] = 1e15
    scaled = {
        "normal": z,
        "offset 3": z + 3,
        "offset -8": z - 8,
        "offset 10": z + 10,
        "offset 1e3": z + 1e3 * rng.uniform(0.5, 2),
        "offset 1e6": z - 1e6 * rng.uniform(0.5, 2),
        "zero-inflated": mixture(0, z, 0.7, rng, n),
        "lognormal": np.exp(rng.uniform(0.5, 2) * z),
        "cauchy": rng.standard_cauchy(n),
        "t3": rng.standard_t(3, n),
        "one absurd value": absurd,
        "two clusters": mixture(z, 1000 + z, 0.5, rng, n),
        "two scales": mixture(z, 100 * z, 0.9, rng, n),
        "censored": np.clip(z, -0.5, 1.5),
        "exponential": rng.exponential(size=n),
    }
    scaled = {name: x * 10 ** rng.uniform(-6, 6) for name, x in scaled.items()}
    return scaled | {
        "year": rng.integers(1990, 2022, n),
        "timestamp": 1.7e9 + 1e7 * z,
        "id": rng.integers(4_000_000_000, 4_001_000_000, n),
        "0/1 of 0.1 %": rng.random(n) < 0.001,
        "0/1 of 2 %": rng.random(n) < 0.02,
        "0/1 of 98 %": rng.random(n) < 0.98,
        "0/1 of 50 %": rng.random(n) < 0.5,
        "3 % lognormal": mixture(0, np.exp(z), 0.97, rng, n),
        "poisson": rng.poisson(3, n),
        "constant": np.full(n, rng.choice([0, 1, -5.5, 1e7])),
        "bounded": rng.beta(0.3, 0.3, n),
        "per cent": np.round(100 * rng.beta(8, 2, n)),
        "gaps of -9999": mixture(-9999, z, 0.1, rng, n),
    }


ALWAYS_FOUND = {
    *("normal", "offset 3", "offset -8", "offset 10", "offset 1e3", "offset 1e6", "lognormal"),
    *("zero-inflated", "cauchy", "t3", "one absurd value", "two clusters", "two scales"),
    *("censored", "exponential", "year", "timestamp", "id", "0/1 of 50 %", "poisson", "bounded"),
    *("per cent", "gaps of -9999"),
}
NEVER_FOUND = {"constant", "0/1 of 0.1 %"}


def times_off(scale, x):
    """By which factor a scale is off the nearest robust one: quartiles, or without the ends."""
    low, lower, first, third, higher, high = np.quantile(x, [0.005, 0.02, 0.25, 0.75, 0.98, 0.995])
    robust = ((third - first) / 1.349, np.clip(x, low, high).std(), np.clip(x, lower, higher).std())
    return min((max(scale / r, r / scale) for r in robust if r > 0), default=math.inf)


# Parameters


units = st.builds(LookUnits, *[st.integers(0, 2000)] * 4).filter(lambda u: u.histograms)


@given(
    n=st.integers(1, 10**9),
    mu=st.floats(1e-6, 1e3),
    d=st.integers(1, 5000),
    later=st.lists(units, max_size=5),
)
def test_no_path_spends_more_than_was_charged(n, mu, d, later):
    parameters = LocationParameters(n, d, mu)
    spent = ()
    for look, each in enumerate([LookUnits(octaves=d), *later]):
        spends = parameters.look_mu(look, each, spent)
        if spends is None:
            continue
        assert n >= 12 * smallest_sigma(2 * each.histograms, spends)
        spent += (spends,)
    assert squares(spent) <= Fraction(parameters.largest_mu) ** 2


# Evidence


def false_finds(runs, level):
    """Runs in which anything was found in columns of zeros and other constants."""
    X = np.zeros((N, 12))
    X[:, 9:] = [7.0, -1e7, 1e-3]
    return sum(find(X, seed, evidence_level=level).found.any() for seed in range(runs))


@short_and_long("runs", 20, 40)
def test_noise_becomes_a_scale_no_more_often_than_the_level(monkeypatch, runs):
    """False-alarm rate below 1e-6; evidence that forgets how many bins there are is noticed."""
    assert false_finds(runs, 1e-5) <= 1  # (40 * 1e-5)^2 / 2
    assert false_finds(runs, 0.05) <= stats.binom.isf(FALSE_ALARM, runs, 0.05)
    alone = scales.deviations
    monkeypatch.setattr(scales, "deviations", lambda tests, level: alone(1, level))
    assert false_finds(runs, 0.05) > stats.binom.isf(FALSE_ALARM, runs, 0.05)


@pytest.mark.parametrize("n", [1, 2, 50, 150])
def test_too_few_records_give_nothing_and_cost_nothing(n):
    budget = ample()
    found = find(np.random.default_rng(6).standard_normal((n, 5)), budget=budget)
    assert spent(budget) == {}
    assert not found.found.any()
    assert not found.scale.any()
    assert not found.reach.any()
    assert LocationParameters(n, 5, MU).look_mu(0, LookUnits(octaves=5), ()) is None


# Accuracy, in runs with fixed seeds


@pytest.mark.parametrize("offset", [0, 3, 10, -1e3, 1e6])
@pytest.mark.parametrize("n", [3000, 100_000])
def test_normal_columns_at_any_offset_and_over_12_decades(offset, n):
    rng = np.random.default_rng(7)
    unit = 10.0 ** np.linspace(-6, 6, 13)
    X = (rng.standard_normal((n, 13)) + offset * rng.uniform(0.5, 1, 13)) * unit
    found = find(X)
    assert found.found.all()
    ratio = found.scale / X.std(axis=0)
    assert (ratio > 0.6).all()
    assert (ratio < 1.7).all()
    assert (np.abs(found.centre - X.mean(axis=0)) < unit).all()
    low, high = found.reach / found.scale, 64 * (1 + 1e-12)
    assert (low >= 6 * (1 - 1e-12)).all()
    assert (low <= high).all()


@pytest.mark.parametrize("seed", range(3))
def test_columns_of_many_kinds(seed):
    rng = np.random.default_rng(seed)
    table = {name: np.asarray(x, float) for name, x in columns(rng, N).items()}
    found = find(np.stack(list(table.values()), axis=1), seed)
    seen = {name for name, is_found in zip(table, found.found, strict=True) if is_found}
    assert seen >= ALWAYS_FOUND
    assert not seen & NEVER_FOUND
    for name, centre, scale in zip(table, found.centre, found.scale, strict=True):
        if name not in seen:
            assert scale == 0
            continue
        x = table[name]
        assert times_off(scale, x) < 12, name
        assert np.quantile(x, 0.005) - scale < centre < np.quantile(x, 0.995) + scale, name


@pytest.mark.parametrize("share", [0.6, 0.7, 0.78, 0.8, 0.82, 0.9])
@pytest.mark.parametrize("n", [5000, 50_000])
def test_a_value_that_most_records_have_does_not_set_the_scale(share, n):
    """0/1 columns of 80 % and the like once got scales 200 times too small."""
    rng = np.random.default_rng(14)
    X = np.where(rng.random((n, 40)) < share, [[1.0, 12.3] * 20], [[0.0, 13.0] * 20])
    found = find(X)
    if n == 50_000 and share < 0.9:
        assert found.found.mean() > 0.9
    for j in np.flatnonzero(found.found):
        assert times_off(found.scale[j], X[:, j]) < 4


@short_and_long("tables", 12, 200)
def test_no_scale_is_off_by_16_on_tables_of_odd_columns(tables):
    worst = 1.0
    n_found = 0
    for seed in range(tables):
        rng = np.random.default_rng([41, seed])
        n, d = round(10 ** rng.uniform(math.log10(50), math.log10(20_000))), rng.integers(2, 41)
        kinds = [list(columns(rng, n).values())[rng.integers(28)] for _ in range(d)]
        X = np.stack([np.asarray(x, float) for x in kinds], axis=1)
        found = find(X, seed)
        n_found += found.found.sum()
        # Columns of nearly one value have no robust scale; some are found with others like them.
        common = [np.unique(x, return_counts=True)[1].max() for x in X.T]
        for j in np.flatnonzero(found.found & (np.array(common) < 0.995 * n)):
            worst = max(worst, times_off(found.scale[j], X[:, j]))
    assert n_found > 5 * tables
    assert worst < 16


def test_the_share_of_complete_records_says_what_all_is(monkeypatch):
    """Records that count nowhere: half of them here, as counts leave out those with gaps."""
    X = np.random.default_rng(11).standard_normal((N, 4)) + 1e4

    def halved(function):
        return lambda query, records: function(query, ArrayRecords(X[: N // 2]))

    for kind in (SignedOctaves, CellCounts):
        monkeypatch.setattr(kind, "exact", halved(kind.exact))
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(0)
    parameters = LocationParameters(N, 4, MU)
    session = Session(ArrayRecords(X), ample(), entropy)
    found = find_location(session, parameters, share=0.5)
    assert found.found.all()
    np.testing.assert_allclose(found.scale, 1, rtol=0.4)
    np.testing.assert_allclose(found.centre, 1e4, atol=0.5)


# Reading without noise


def noisy_columns(mean, n_columns, *, n=30_000, sigma=212.0):
    """Counts of normal columns of deviation 50 by sign and octave, with the noise of a look."""
    edges = np.exp2(np.arange(scales.N_OCTAVES + 1.0) + SMALLEST_EXPONENT) / 50
    above = np.diff(special.ndtr(edges - mean))
    below = np.diff(special.ndtr(edges + mean))
    expected = n * np.concatenate([below, above, [0.0]])
    noise = np.random.default_rng(5).standard_normal((n_columns, len(expected)))
    return expected + sigma * noise


def too_large(mean, n_columns=30_000):
    limits = scales.thresholds(50, 1e-5 / 12, {})
    sigma = np.full(n_columns, 212.0)
    found = scales.read_all(noisy_columns(mean, n_columns), sigma, 30_000, limits)
    return sum(reading is not None and reading.scale > 150 for reading in found)


@pytest.mark.slow
def test_noise_beyond_the_last_octave_hardly_ever_makes_a_scale_three_times_too_large(monkeypatch):
    """5e-6 of such columns, so more than 4 of 30,000 once in 1e6 times; 7e-4 with any fringe."""
    assert too_large(-3.3) <= 4
    monkeypatch.setattr(scales, "_without_fringe", lambda counts, sigma, used, *_: used)
    assert too_large(-3.3) > 4


# Public bounds.


KNOWN_N, KNOWN_MU = 20_000, 0.24


def located(X, bounds, seed=0, budget=None):
    given = None if bounds is None else check_bounds(bounds, X.shape[1])
    parameters = LocationParameters(len(X), X.shape[1], KNOWN_MU)
    session = Session(ArrayRecords(X), budget or ample(), seeded(seed))
    return find_location(session, parameters, bounds=given)


def rare(shares, n=KNOWN_N, seed=0):
    return (np.random.default_rng(seed).random((n, len(shares))) < shares).astype(float)


def test_rare_columns_are_found_with_bounds_and_not_without():
    X = rare(np.full(100, 0.003))
    assert not located(X[:, :2], None).found.any()
    found = located(X, np.tile([0.0, 1.0], (100, 1)))
    assert found.found.all()
    # The standard deviation is 0.055 and half the width 0.5: noisy counts say that it is small.
    assert 0.05 < np.median(found.scale) < 0.2
    assert (found.scale <= 0.5).all()
    assert (found.reach <= 1).all()


def standardised_flags(n=KNOWN_N):
    """Flags of 1 to 10 %, of which noise hides most by themselves, and as many normal columns."""
    X = np.column_stack(
        [rare(np.geomspace(0.01, 0.1, 20), n), np.random.default_rng(1).normal(size=(n, 20))]
    )
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("seed", range(3))
def test_rare_flags_are_found_by_what_they_show_together(seed):
    """In any unit: a flag of 1 % that is not found adds its whole variance to the error."""
    X = standardised_flags()
    found = located(X, None, seed)
    assert found.found[3:].all()
    assert found.found[:3].sum() >= 2
    assert found.scale[found.found].min() > 0.25
    assert found.scale.max() < 3


@pytest.mark.parametrize("seed", range(3))
def test_zeros_are_not_found_together(seed):
    X = np.column_stack(
        [np.zeros((KNOWN_N, 40)), np.random.default_rng(1).normal(size=(KNOWN_N, 20))]
    )
    assert located(X, None, seed).found.tolist() == [False] * 40 + [True] * 20


def test_without_a_look_bounds_are_what_is_known():
    X = rare(np.full(6, 0.5), n=40)
    known, budget = {0: (0, 1), 1: (-4, 10), 2: (7, 7), 3: (0, None), 4: (None, 2)}, ample()
    found = located(X, known, budget=budget)
    assert spent(budget) == {}
    assert found.found.tolist() == [True, True, True, False, False, False]
    assert found.centre.tolist() == [0.5, 3.0, 7.0, 0.0, 0.0, 0.0]
    assert found.scale.tolist() == [0.5, 7.0, 0.0, 0.0, 0.0, 0.0]
    assert found.reach[:3].tolist() == [0.5, 7.0, 0.0]


@pytest.mark.parametrize("seed", range(4))
def test_any_bounds_give_numbers(seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.choice([0.0, 1e-90, -1e89, 1e89, 1e90, -1e90, 5.0, 1e9], (12, 2)))
    X = rng.normal(size=(KNOWN_N, 12)) * 10.0 ** rng.integers(-20, 20, 12)
    X = np.clip(X, ends[:, 0], ends[:, 1])
    found = located(X, ends)
    assert found.found.all()
    for each in (found.centre, found.scale, found.reach):
        assert np.isfinite(each).all()


def test_the_stage_finds_every_bounded_column():
    X = np.column_stack([rare(np.full(3, 0.001)), np.full(KNOWN_N, 2.0)])
    bounds = check_bounds({0: (0, 1), 1: (0, 1), 2: (0, 1)}, 4)
    stage, budget = Preparation(KNOWN_N, 4, KNOWN_MU, bounds=bounds), ample(KNOWN_MU)
    made = stage.run(Prepared(Session(ArrayRecords(X), budget, seeded()), np.ones(4)))
    assert made.making["unresolved"] == (3,)
    assert (made.feature_scale[:3] > 0).all()
    assert ((made.location[:3] >= 0) & (made.location[:3] <= 1)).all()
    assert 0 < squared(budget) < 0.5 * KNOWN_MU**2


def test_only_constants_leave_nothing_to_do():
    bounds = check_bounds({0: (2, 2), 1: (3, 3)}, 2)
    stage, budget = Preparation(KNOWN_N, 2, KNOWN_MU, bounds=bounds), ample(KNOWN_MU)
    records = ArrayRecords(np.tile([2.0, 3.0], (KNOWN_N, 1)))
    made = stage.run(Prepared(Session(records, budget, seeded()), np.ones(2)))
    assert made.making["unresolved"] == ()
    assert spent(budget) == {}
    assert made.location.tolist() == [2.0, 3.0]


def test_bounds_make_a_stage_possible_for_few_records():
    def expected(bounds):
        return Preparation(50, 2, KNOWN_MU, bounds=bounds).cost().found

    assert expected(None).share == 0
    assert expected(check_bounds({0: (0, 1)}, 2)) == Found(0.5, 0.0, expected(None).strain)
    assert expected(check_bounds({0: (0, 1), 1: (0, 1)}, 2)) == Found()
    assert expected(check_bounds({0: (1, 1), 1: (0, 1)}, 2)) == Found()
    assert expected(check_bounds({0: (1, 1)}, 2)).share == 0
