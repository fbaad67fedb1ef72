"""Private centres and scales: what they promise, and what they find wherever a column lies."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from budgets import ample, spent
from hushcov.accounting import smallest_sigma
from hushcov.exceptions import DataError, ParameterError, SeededNoiseWarning
from hushcov.noise import entropy_source
from hushcov.steps import location, octaves
from hushcov.steps.location import LocationParameters, LookUnits, find_location
from hushcov.sums.counts import SMALLEST_EXPONENT
from hushcov.tables.sources import ArrayRecords
from statistics_helpers import FALSE_ALARM, chi_square_p_value, short_and_long

MU = 0.2367  # of epsilon = 1, delta = 1e-6
N = 20_000


def find(X, seed=0, mu=MU, budget=None, **options):
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(seed)
    X = np.asarray(X, dtype=np.float64)
    parameters = LocationParameters(*X.shape, mu, **options)
    return find_location(ArrayRecords(X), parameters, budget or ample(), entropy)


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


def test_what_is_charged_before_is_at_most_35_per_cent():
    parameters = LocationParameters(1000, 5, MU)
    assert parameters.largest_mu**2 == pytest.approx(0.35 * MU**2)
    assert parameters.evidence_level == 1e-5


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"n_records": 0}, "n_records"),
        ({"n_records": 10**19}, "n_records"),
        ({"n_features": 0}, "n_features"),
        ({"total_mu": 0.0}, "total_mu"),
        ({"total_mu": math.nan}, "total_mu"),
        ({"evidence_level": 0.0}, "evidence_level"),
        ({"evidence_level": 0.5}, "evidence_level"),
    ],
)
def test_bad_parameters_are_refused(change, name):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        LocationParameters(**{"n_records": 100, "n_features": 5, "total_mu": 0.1} | change)


@pytest.mark.parametrize("shape", [(99, 5), (100, 4)])
def test_records_of_another_size_are_refused(shape):
    with pytest.raises(DataError, match="as declared"):
        find_location(
            ArrayRecords(np.ones(shape)), LocationParameters(100, 5, MU), ample(), entropy_source()
        )


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


def test_the_shares_of_looks():
    parameters = LocationParameters(30_000, 1000, MU)

    def share(look, each, spent=()):
        return parameters.look_mu(look, each, spent) ** 2 / MU**2

    assert share(0, LookUnits(octaves=1000)) == pytest.approx(0.04)
    aim = 2 * 2000 * (22 / (30_000 * MU)) ** 2
    assert share(1, LookUnits(cells=1000)) == pytest.approx(aim)
    assert share(1, LookUnits(octaves=1000)) == pytest.approx(0.08)
    assert share(2, LookUnits(refined=1000)) == pytest.approx(2 * 1000 * (40 / (30_000 * MU)) ** 2)
    nearly_all = (math.sqrt(0.33) * MU,)
    assert share(1, LookUnits(octaves=1000), nearly_all) == pytest.approx(0.02)
    assert parameters.look_mu(5, LookUnits(both=1000), (parameters.largest_mu,)) is None


# Privacy


class Spy:
    """Looks as they are made: units, queries and exact counts, noisy counts."""

    def __init__(self, monkeypatch):
        self.looks = []
        look_mu, noisy = LocationParameters.look_mu, location.Look.noisy

        def spied_mu(parameters, number, each, spent):
            mu = look_mu(parameters, number, each, spent)
            if mu is not None:
                self.looks.append((each, mu, [], []))
            return mu

        def spied_noisy(look, counts):
            found = noisy(look, counts)
            self.looks[-1][3].append((look.sigma, counts.copy(), found))
            return found

        monkeypatch.setattr(LocationParameters, "look_mu", spied_mu)
        monkeypatch.setattr(location.Look, "noisy", spied_noisy)
        for module, name in ((location, "signed_octaves"), (location, "cell_counts")):
            monkeypatch.setattr(module, name, self.spied(getattr(module, name)))

    def spied(self, function):
        def counts(records, *arguments):
            self.looks[-1][2].append((function, arguments))
            return function(records, *arguments)

        return counts


def squared_distance(queries, X, Y):
    return sum(
        int(((count(ArrayRecords(X), *asked) - count(ArrayRecords(Y), *asked)) ** 2).sum())
        for count, asked in queries
    )


def test_a_look_moves_by_at_most_its_sensitivity(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.stack([np.asarray(x, float) for x in columns(rng, N).values()], axis=1)
    spy = Spy(monkeypatch)
    find(X)
    assert len(spy.looks) >= 5
    kinds = np.sum([dataclasses.astuple(look[0]) for look in spy.looks], axis=0)
    assert (kinds > 0).all()  # columns were looked at in every way
    neighbours = [X[1:2], -X[0:1], X[0:1] * 1e9, 0 * X[:1] + 1e300, 0 * X[:1]]
    neighbours += [rng.standard_cauchy((1, X.shape[1])) * X[k : k + 1] for k in range(5)]
    largest = 0.0
    for each, mu, queries, noise in spy.looks:
        assert {sigma for sigma, *_ in noise} == {smallest_sigma(2 * each.histograms, mu)}
        for record in neighbours:
            Y = np.concatenate([record, X[1:]])
            moved = squared_distance(queries, X, Y)
            assert moved <= 2 * each.histograms
            largest = max(largest, moved / (2 * each.histograms))
    assert largest >= 0.9  # the bound is nearly attained


def test_the_worst_neighbour_attains_the_sensitivity_of_the_first_look(monkeypatch):
    X = np.random.default_rng(1).standard_normal((2000, 7))
    spy = Spy(monkeypatch)
    find(X)
    each, _, queries, _ = spy.looks[0]
    assert squared_distance(queries, X, np.concatenate([X[:1] * 1e6, X[1:]])) == 14
    assert each.histograms == 7


def noise_p_value(noise, sigma):
    edges = sigma * np.linspace(-4, 4, 41)
    edges = np.floor(edges) + 0.5
    probabilities = np.diff(stats.norm.cdf(edges / sigma), prepend=0, append=1)
    seen = np.bincount(np.searchsorted(edges, noise), minlength=len(edges) + 1)
    return chi_square_p_value(seen, probabilities)


def test_every_count_has_rounded_normal_noise_of_its_look(monkeypatch):
    """False alarms: 1e-6 for each of at most 6 looks; a tenth too much or too little is noticed."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((N, 60)) + np.repeat([0.0, 50.0, 1e6], 20)
    spy = Spy(monkeypatch)
    find(X)
    assert len(spy.looks) >= 3
    for _, _, _, noise in spy.looks:
        drawn = np.concatenate([(noisy - counts).ravel() for _, counts, noisy in noise])
        sigma = noise[0][0]
        assert noise_p_value(drawn, sigma) > FALSE_ALARM
        if drawn.size > 5000:
            assert noise_p_value(drawn, 0.9 * sigma) < FALSE_ALARM
            assert noise_p_value(drawn, 1.1 * sigma) < FALSE_ALARM


def test_events_are_what_looks_spent_and_never_more_than_was_charged(monkeypatch):
    rng = np.random.default_rng(3)
    for n, repeats in ((300, 1), (3000, 1), (N, 3)):
        kinds = [np.asarray(x, float) for _ in range(repeats) for x in columns(rng, n).values()]
        with monkeypatch.context() as patch:
            spy = Spy(patch)
            budget = ample()
            find(np.stack(kinds, axis=1), budget=budget)
        mus = [mu for _, mu, _, _ in spy.looks]
        assert list(spent(budget).values()) == pytest.approx(mus)
        largest = LocationParameters(n, len(kinds), MU).largest_mu
        assert squares(mus) <= Fraction(largest) ** 2
        assert len(mus) <= 6


def test_the_order_of_records_does_not_matter(monkeypatch):
    rng = np.random.default_rng(4)
    X = np.stack([np.asarray(x, float) for x in columns(rng, 5000).values()], axis=1)
    orders = [np.arange(5000), rng.permutation(5000), np.argsort(X[:, 0]), np.argsort(X[:, 5])]
    released, integers = [], []
    for order in orders:
        with monkeypatch.context() as patch:
            spy = Spy(patch)
            released.append(find(X[order]))
        integers.append([noisy for look in spy.looks for *_, noisy in look[3]])
    for other, numbers in zip(released[1:], integers[1:], strict=True):
        for name in ("centre", "scale", "reach", "found"):
            np.testing.assert_array_equal(getattr(released[0], name), getattr(other, name))
        for first, second in zip(integers[0], numbers, strict=True):
            np.testing.assert_array_equal(first, second)


def test_what_is_released_follows_from_the_noisy_counts(monkeypatch):
    """Records that give the same noisy counts give the same location, whatever they are."""
    X = np.random.default_rng(5).standard_normal((5000, 6)) * 3 + 40
    with monkeypatch.context() as patch:
        spy = Spy(patch)
        expected = find(X)
    replayed = iter([noisy for look in spy.looks for *_, noisy in look[3]])
    monkeypatch.setattr(location.Look, "noisy", lambda look, counts: next(replayed))
    found = find(np.zeros_like(X), seed=9)
    np.testing.assert_array_equal(found.centre, expected.centre)
    np.testing.assert_array_equal(found.scale, expected.scale)


# Evidence


def false_finds(runs, level):
    """Runs in which anything was found in columns of zeros and other constants."""
    X = np.zeros((N, 12))
    X[:, 9:] = [7.0, -1e7, 1e-3]
    return sum(find(X, seed, evidence_level=level).found.any() for seed in range(runs))


def test_noise_becomes_a_scale_no_more_often_than_the_level():
    """False-alarm rate below 1e-6: a run errs with probability 0.05 at most."""
    runs = 100
    assert false_finds(runs, 0.05) <= stats.binom.isf(FALSE_ALARM, runs, 0.05)


def test_at_the_usual_level_noise_does_not_become_a_scale():
    """False-alarm rate (40 * 1e-5)^2 / 2 < 1e-6."""
    assert false_finds(40, 1e-5) <= 1


def test_evidence_that_forgets_how_many_bins_there_are_is_noticed(monkeypatch):
    alone = octaves.deviations
    monkeypatch.setattr(octaves, "deviations", lambda tests, level: alone(1, level))
    assert false_finds(100, 0.05) > stats.binom.isf(FALSE_ALARM, 100, 0.05)


@pytest.mark.parametrize("n", [1, 2, 50, 150])
def test_too_few_records_give_nothing_and_cost_nothing(n):
    budget = ample()
    found = find(np.random.default_rng(6).standard_normal((n, 5)), budget=budget)
    assert spent(budget) == {}
    assert not found.found.any()
    assert not found.scale.any()
    assert not found.reach.any()
    assert LocationParameters(n, 5, MU).look_mu(0, LookUnits(octaves=5), ()) is None


def test_constants_have_no_scale_but_their_value_is_known():
    values = np.array([0, 1, -5.5, 1e7, 123456.789])
    found = find(np.tile(values, (N, 1)))
    assert not found.found.any()
    assert not found.scale.any()
    np.testing.assert_allclose(found.centre, values, rtol=1e-6)


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


def test_one_absurd_value_is_as_if_it_were_not_there():
    X = np.random.default_rng(8).standard_normal((N, 5))
    Y = X.copy()
    Y[0] = [1e15, -1e300, 1e-300, 1e300, 0]
    before, after = find(X), find(Y)
    np.testing.assert_allclose(after.scale, before.scale, rtol=0.02)
    np.testing.assert_allclose(after.centre, before.centre, atol=0.02)


@pytest.mark.parametrize("size", [2.0**-80, 2.0**-60, 2.0**62, 2.0**70, 1e300])
def test_columns_at_the_ends_of_the_octaves(size):
    """Smaller values are zeros, larger ones are counted as if they were below 2^64."""
    found = find(size * np.random.default_rng(9).standard_normal((N, 3)))
    assert np.isfinite(found.centre).all()
    assert np.isfinite(found.scale).all()
    assert found.found.all() == (size >= 2.0**-64)


def test_rare_values_are_found_with_more_records():
    """0.5 % ones among 150,000 records of 4 columns; 0.1 % take 1,000,000."""
    rng = np.random.default_rng(10)
    for n, share in ((150_000, 0.005), (1_000_000, 0.001)):
        X = (rng.random((n, 4)) < share).astype(float)
        found = find(X)
        assert found.found.all()
        assert (np.abs(np.log2(found.scale / X.std(axis=0))) < 1).all()


@short_and_long("tables", 25, 200)
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
        for j in np.flatnonzero(found.found):
            worst = max(worst, times_off(found.scale[j], X[:, j]))
    assert n_found > 5 * tables
    assert worst < 16


def test_the_share_of_complete_records_says_what_all_is(monkeypatch):
    """Records that count nowhere: half of them here, as counts leave out those with gaps."""
    X = np.random.default_rng(11).standard_normal((N, 4)) + 1e4

    def halved(function):
        return lambda records, *asked: function(ArrayRecords(X[: N // 2]), *asked)

    for module, name in ((location, "signed_octaves"), (location, "cell_counts")):
        monkeypatch.setattr(module, name, halved(getattr(module, name)))
    with pytest.warns(SeededNoiseWarning):
        entropy = entropy_source(0)
    parameters = LocationParameters(N, 4, MU)
    found = find_location(ArrayRecords(X), parameters, ample(), entropy, share=0.5)
    assert found.found.all()
    np.testing.assert_allclose(found.scale, 1, rtol=0.4)
    np.testing.assert_allclose(found.centre, 1e4, atol=0.5)


# Reading without noise


def exact_counts(x, centre=0.0):
    zeros = np.zeros(1)
    return location.signed_octaves(ArrayRecords(x[:, None]), zeros + centre, zeros, np.array([0]))[
        0
    ].astype(float)


def minimal_windows(counts, sigma, limits):
    """The definition, one window at a time: bins of those that hold no other of their kind."""
    mask = np.zeros((2, octaves.N_OCTAVES), bool)
    for signs, widest in (([0], 3), ([1], 3), ([0, 1], 6)):
        row, kept = counts[signs].sum(axis=0), []
        for width in range(1, widest + 1):
            z = limits.single if width == 1 and len(signs) == 1 else limits.window
            for first in range(octaves.N_OCTAVES - width + 1):
                total = row[first : first + width].sum()
                inside = any(first <= f and f + w <= first + width for f, w in kept)
                if total > z * sigma * math.sqrt(width * len(signs)) and not inside:
                    kept.append((first, width))
        for first, width in kept:
            mask[signs, first : first + width] = True
    return mask


def test_evidence_is_the_smallest_windows_that_stand_out():
    rng = np.random.default_rng(12)
    counts = rng.normal(size=(40, 2, octaves.N_OCTAVES)) * 10
    counts[:, :, 60:70] += rng.uniform(0, 40, (40, 1, 10))
    sigma = rng.uniform(8, 12, 40)
    limits = octaves.Thresholds(4.0, 4.5, 5.0)
    evidence = octaves.find_evidence(counts, sigma, limits)
    for each, deviation, mask in zip(counts, sigma, evidence.mask, strict=True):
        np.testing.assert_array_equal(mask, minimal_windows(each, deviation, limits))
    assert evidence.mask.any(axis=(1, 2)).sum() > 20


def test_popular_bins_need_less_evidence():
    counts = np.zeros((1, 2, octaves.N_OCTAVES))
    counts[0, 1, 64] = 5.0
    few, many = octaves.thresholds(100, 1e-6, {}), octaves.thresholds(100, 1e-6, {128 + 64: 3})
    assert not octaves.find_evidence(counts, np.array([0.8]), few).mask.any()
    found = octaves.find_evidence(counts, np.array([0.8]), many).mask
    assert np.flatnonzero(found).tolist() == [128 + 64]


@pytest.mark.parametrize("scale", [1e-12, 0.7, 1.0, 1.3, 1e12])
def test_moments_of_octaves_without_noise(scale):
    x = scale * np.random.default_rng(13).standard_normal(100_000)
    limits = octaves.thresholds(1, 1e-6, {})
    (reading,) = octaves.read_all(exact_counts(x)[None], np.array([10.0]), 100_000, limits)
    # Octaves are wider than the law: their moments say up to an eighth too much, pooling mends it.
    assert reading.scale == pytest.approx(1.06 * scale, rel=0.08, abs=0)
    assert abs(reading.offset) < 0.02 * scale
    assert reading.mass == pytest.approx(1, abs=0.02)
    pooled = octaves.pooled_scales(exact_counts(x)[None], 10.0, 100_000)
    assert pooled[0] == pytest.approx(scale, rel=0.03, abs=0)


def test_columns_are_read_the_same_together_and_alone(monkeypatch):
    """Whatever the others are, and whether a look sees anything; bit for bit."""
    rng, n, sigma = np.random.default_rng(14), 20_000, 150.0
    laws = [
        rng.standard_normal((30, n)),
        np.exp(3 * rng.standard_normal((30, n))),
        rng.standard_normal((30, n)) + 50,
        rng.standard_cauchy((30, n)) * 1e9,
        np.zeros((30, n)),
    ]
    counts = np.stack([exact_counts(x) for x in np.concatenate(laws)])
    counts = np.rint(counts + sigma * rng.standard_normal(counts.shape))
    limits, deviation = octaves.thresholds(len(counts), 1e-6, {}), np.full(len(counts), sigma)
    known = [octaves.ANYWHERE if i % 2 else octaves.moments(3.0, 60.0) for i in range(len(counts))]
    monkeypatch.setattr(octaves, "_AT_ONCE", 64)
    together = octaves.read_all(counts, deviation, n, limits, known)
    assert sum(reading is None for reading in together) == 30 + 15  # zeros; beyond their bounds
    for i, reading in enumerate(together):
        (alone,) = octaves.read_all(counts[i : i + 1], deviation[:1], n, limits, known[i : i + 1])
        assert (alone is None) == (reading is None)
        if alone is not None:
            np.testing.assert_array_equal(alone.shares, reading.shares)
            np.testing.assert_array_equal(alone.used, reading.used)
            numbers = ("offset", "scale", "end", "mass", "sides", "top")
            assert all(getattr(alone, name) == getattr(reading, name) for name in numbers)
            assert alone.mass == pytest.approx(alone.shares.sum())
            assert alone.sides == pytest.approx(tuple(alone.shares.sum(axis=1)))
            shown = np.flatnonzero(alone.shares.any(axis=0)).max()
            assert alone.top == SMALLEST_EXPONENT + shown + 1


def test_what_stands_out_where_no_value_can_be_is_noise():
    counts = np.zeros((1, octaves.N_SIGNED + 1))
    counts[0, octaves.N_OCTAVES + 100] = 1000.0  # far beyond the bounds
    limits = octaves.thresholds(1, 1e-6, {})
    arguments = (counts, np.array([10.0]), 2000, limits)
    assert octaves.read_all(*arguments)[0] is not None
    assert octaves.read_all(*arguments, [octaves.moments(1.0, 1.0)]) == [None]


@pytest.mark.parametrize("sd", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("n_cells", [64, 256])
def test_normal_laws_in_cells_without_noise(sd, n_cells):
    centre = n_cells / 2 + np.array([0.0, 0.3, 5.6])
    edges = np.arange(n_cells + 1)
    counts = 1e4 * np.diff(stats.norm.cdf(edges, centre[:, None], sd), axis=1)
    parents = None if n_cells == 64 else counts.reshape(3, 4, 64).sum(axis=2)
    for spread, expected in zip(
        octaves.read_spreads(counts, parents, 20.0, 10_000, 6.0), centre, strict=True
    ):
        assert spread.centre == pytest.approx(expected, abs=0.7)
        assert sd / 1.45 < spread.scale < sd * 1.45  # the laws are this far apart
        assert spread.reach is None
        assert spread.in_one_place == (sd < 0.75)


def test_two_clusters_in_cells_and_half_of_a_mixture():
    two = np.zeros((1, 64))
    two[0, [5, 6, 50, 51]] = 2500
    (spread,) = octaves.read_spreads(two, None, 20.0, 10_000, 6.0)
    assert spread.scale == pytest.approx(22.5, rel=0.01)
    assert spread.centre == pytest.approx(28.5)
    assert spread.reach == pytest.approx(23.5)
    half = 4000 * np.diff(stats.norm.cdf(np.arange(257), 120.3, 2.0))[None]
    parents = half.reshape(1, 4, 64).sum(axis=2)
    assert octaves.read_spreads(half, parents, 2.0, 10_000, 6.0) == [None]
    (whole,) = octaves.read_spreads(half, parents, 2.0, 4_000, 6.0)
    assert whole.centre == pytest.approx(120.3, abs=0.5)


@pytest.mark.parametrize("place", [0, 1, 31, 62])
def test_what_lies_in_two_cells_is_opened_with_its_neighbours(place):
    counts = np.zeros((1, 64))
    counts[0, place : place + 2] = 5000
    assert octaves.concentrated(counts, 10_000, 100.0, 5.0).all()
    first = octaves.first_opened(counts[0])
    assert first == place - 1
    assert octaves.opened_counts(counts[0], first).tolist() == [0, 5000, 5000, 0]
    wide = np.full((1, 64), 10_000 / 64)
    assert not octaves.concentrated(wide, 10_000, 100.0, 5.0).any()


def noisy_columns(mean, n_columns, *, n=30_000, sigma=212.0):
    """Counts of normal columns of deviation 50 by sign and octave, with the noise of a look."""
    edges = np.exp2(np.arange(octaves.N_OCTAVES + 1.0) + SMALLEST_EXPONENT) / 50
    above = np.diff(special.ndtr(edges - mean))
    below = np.diff(special.ndtr(edges + mean))
    expected = n * np.concatenate([below, above, [0.0]])
    noise = np.random.default_rng(5).standard_normal((n_columns, len(expected)))
    return expected + sigma * noise


def too_large(mean, n_columns=30_000):
    limits = octaves.thresholds(50, 1e-5 / 12, {})
    sigma = np.full(n_columns, 212.0)
    found = octaves.read_all(noisy_columns(mean, n_columns), sigma, 30_000, limits)
    return sum(reading is not None and reading.scale > 150 for reading in found)


def test_noise_beyond_the_last_octave_hardly_ever_makes_a_scale_three_times_too_large(monkeypatch):
    """5e-6 of such columns, so more than 4 of 30,000 once in 1e6 times; 7e-4 with any fringe."""
    assert too_large(-3.3) <= 4
    monkeypatch.setattr(octaves, "_without_fringe", lambda counts, sigma, used, *_: used)
    assert too_large(-3.3) > 4
