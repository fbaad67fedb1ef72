"""The Gaussian mechanism: its sensitivity is a bound and attained, its noise has its law."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from hushcov.exceptions import (
    CapacityError,
    DataError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian.mechanism import (
    GaussianParameters,
    balanced_row_norm,
    gaussian_parameters,
    release_gaussian,
    squared_sensitivity,
)
from hushcov.noise import Entropy
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import open_records
from statistics_helpers import FALSE_ALARM, normal_p_value


def inputs_for(**changes):
    declared = {"n_records": 10_000, "n_features": 6, "row_sparsity": 3}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**{**declared, **budget, **changes})


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


def squared_change(x, y, sigma, diagonal_sigma):
    """The squared norm of the change of the upper triangle over its noise, from the definition."""
    total = Fraction(0)
    for i, j in itertools.combinations_with_replacement(range(len(x)), 2):
        change = int(x[i]) * int(x[j]) - int(y[i]) * int(y[j])
        total += Fraction(change, diagonal_sigma if i == j else sigma) ** 2
    return total


# Sensitivity


def largest_change(d, h, norm_bound, sigma, diagonal_sigma):
    """The largest squared change over all pairs of integer rows."""
    rows = np.array(list(itertools.product(range(-h, h + 1), repeat=d)))
    if norm_bound is not None:
        rows = rows[(rows**2).sum(axis=1) <= norm_bound**2]
    i, j = np.triu_indices(d)
    products = rows[:, i] * rows[:, j] / np.where(i == j, diagonal_sigma, sigma)
    square = (products**2).sum(axis=1)
    return float(np.max(square[:, None] + square - 2 * products @ products.T))


SMALL = [(1, 3), (2, 3), (3, 2), (4, 1), (5, 1), (6, 1)]


@pytest.mark.parametrize(("d", "h"), SMALL)
@pytest.mark.parametrize("sigmas", [(1, 1), (5, 6), (5, 8)])
def test_no_pair_of_small_rows_exceeds_the_sensitivity(d, h, sigmas):
    for norm_bound in (None, *range(1, 7)):
        bound = float(squared_sensitivity(d, h, norm_bound, *sigmas))
        assert largest_change(d, h, norm_bound, *sigmas) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("d", "h"), SMALL)
def test_the_coordinate_bound_is_the_maximum(d, h):
    bound = squared_sensitivity(d, h, None, 1, 1)
    assert bound == h**4 * (d**2 - (d in (3, 5)))
    assert largest_change(d, h, None, 1, 1) == bound


@pytest.mark.parametrize("d", range(2, 12))
@pytest.mark.parametrize("sigmas", [(7, 7), (7, 10)])
def test_flipped_signs_attain_the_coordinate_bound(d, sigmas):
    x = np.full(d, 9)
    y = np.where(np.arange(d) < d // 2, -x, x)
    assert squared_change(x, y, *sigmas) == squared_sensitivity(d, 9, None, *sigmas)


@pytest.mark.parametrize(
    ("h", "norm_bound", "d"), [(2, 4, 8), (3, 6, 11), (5, 5, 2), (20, 6, 3), (1, 3, 18)]
)
@pytest.mark.parametrize("sigmas", [(3, 3), (5, 6), (5, 7)])
def test_disjoint_rows_attain_the_norm_bound(h, norm_bound, d, sigmas):
    """`norm_bound`^2 / m^2 coordinates of m = min(h, norm_bound) on either side."""
    m = min(h, norm_bound)
    number = norm_bound**2 // m**2
    x, y = np.zeros((2, d), dtype=int)
    x[:number], y[number : 2 * number] = m, -m
    assert squared_change(x, y, *sigmas) == squared_sensitivity(d, h, norm_bound, *sigmas)


@pytest.mark.parametrize(("h", "norm_bound", "d"), [(2, 4, 4), (3, 6, 9), (1, 4, 16)])
def test_orthogonal_rows_attain_the_norm_bound_with_more_noise_on_the_diagonal(h, norm_bound, d):
    number = norm_bound**2 // h**2
    x = np.where(np.arange(d) < number, h, 0)
    y = np.where(np.arange(d) < number // 2, -x, x)
    assert squared_change(x, y, 5, 8) == squared_sensitivity(d, h, norm_bound, 5, 8)


def test_equal_noise_costs_the_diagonal_and_the_natural_ratio_does_not():
    assert squared_sensitivity(100, 6, 20, 1, 1) == 20**4 + 6**2 * 20**2
    assert squared_sensitivity(100, 6, 20, 1, 2) == 20**4
    assert squared_sensitivity(1, 6, 6, 1, 1) == 6**4
    assert squared_sensitivity(1, 60, 6, 1, 1) == 6**4


@st.composite
def neighbouring_records(draw):
    """Two records with ordinary and extreme coordinates, many of them equal up to the sign."""
    d = draw(st.integers(1, 8))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 6.0, -6.0, 1e300]) | st.floats(-20, 20)
    x = draw(st.lists(numbers, min_size=d, max_size=d))
    signs = draw(st.lists(st.sampled_from([1.0, -1.0, 0.0]), min_size=d, max_size=d))
    other = draw(st.lists(numbers, min_size=d, max_size=d))
    y = [a * s for a, s in zip(x, signs, strict=True)] if draw(st.booleans()) else other
    return np.array(x), np.array(y)


@settings(deadline=None, max_examples=120)
@given(
    pair=neighbouring_records(),
    half_width=st.integers(1, 200),
    norm_bound=st.none() | st.integers(1, 700),
    ratio=st.sampled_from([10, 12, 15]),
)
def test_replacing_a_record_never_exceeds_the_sensitivity(pair, half_width, norm_bound, ratio):
    """Through the records layer, with other records around, in exact arithmetic."""
    d = len(pair[0])
    grid = FeatureGrid(np.ones(d), 6.0, half_width)
    rest = np.random.default_rng(0).standard_normal((5, d))
    first, second = (
        row_bounded_gram(open_records(np.vstack([rest, record])), grid, norm_bound)
        for record in pair
    )
    total = Fraction(0)
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        change = int(first[i, j]) - int(second[i, j])
        total += Fraction(change, ratio if i == j else 10) ** 2
    assert total <= squared_sensitivity(d, half_width, norm_bound, 10, ratio)


# Parameters


@pytest.mark.parametrize("d", [1, 2, 5, 50, 1000])
@pytest.mark.parametrize("n_records", [3, 10**4, 10**9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 0.01)])
def test_parameters_spend_the_budget_and_no_more(d, n_records, epsilon, delta):
    inputs = inputs_for(
        n_records=n_records, n_features=d, row_sparsity=min(d, 5), epsilon=epsilon, delta=delta
    )
    parameters = gaussian_parameters(inputs)
    spent = dp_accounting.get_epsilon_gaussian(1 / parameters.mu, delta)
    assert epsilon * (1 - 1e-6) < spent <= epsilon * (1 + 1e-9)
    guarantee = parameters.budget().certificate
    assert guarantee.transcript_epsilon == pytest.approx(spent, rel=1e-6, abs=0)
    assert guarantee.events[0].mu == pytest.approx(parameters.mu, rel=1e-6)
    assert guarantee.private
    assert guarantee.numerical_delta == 0


def test_what_steps_before_take_comes_off_the_budget():
    """dp-accounting's optimistic answer is below the truth, and the truth below the promise."""
    parameters = gaussian_parameters(inputs_for(before=0.1))
    assert parameters.mu < gaussian_parameters(inputs_for()).mu
    composed = library.from_gaussian_mechanism(1 / parameters.mu, pessimistic_estimate=False)
    before = library.from_gaussian_mechanism(1 / 0.1, pessimistic_estimate=False)
    assert 0.999 < composed.compose(before).get_epsilon_for_delta(1e-6) <= 1.0
    budget = parameters.budget()
    budget.gaussian(0.1, "before")
    budget.gaussian(parameters.mu, parameters.part)
    with pytest.raises(PrivacyConditionError):
        budget.gaussian(1e-3, "after")


def test_too_little_noise_is_refused():
    parameters = gaussian_parameters(inputs_for())
    parameters.budget().gaussian(parameters.mu, parameters.part)
    weak = replace(parameters, sigma=int(parameters.sigma * (1 - 1e-6)))
    with pytest.raises(PrivacyConditionError):
        release_gaussian(open_records(np.ones((10_000, 6))), np.ones(6), weak, UNTOUCHABLE)


def test_the_row_norm_balances_noise_and_bias():
    """Few records: near the typical norm. Many: beyond almost all. Never past the radius."""
    norms = [
        balanced_row_norm(inputs_for(n_records=n, n_features=200), 0.2) for n in (10, 10**4, 10**8)
    ]
    assert norms == sorted(norms)
    assert norms[0] == pytest.approx(math.sqrt(200), rel=0.02, abs=0)
    assert 1.2 < (norms[2] / norms[0]) ** 2 < 2
    for d in (1, 2, 5):
        p = gaussian_parameters(inputs_for(n_records=10**12, n_features=d, row_sparsity=1))
        assert 4 < p.norm_bound * p.step <= 6.0 * math.sqrt(d)


@pytest.mark.parametrize(
    ("d", "ratio"), [(1, 1), (2, math.sqrt(2)), (200, math.sqrt(2)), (2000, 1)]
)
def test_the_diagonal_gets_its_natural_ratio_where_that_pays(d, ratio):
    p = gaussian_parameters(inputs_for(n_features=d, row_sparsity=1))
    assert p.diagonal_sigma / p.sigma == pytest.approx(ratio, rel=1e-6, abs=0)


def test_chosen_bounds_are_used():
    p = gaussian_parameters(inputs_for(), radius=5.0, row_norm=3.0)
    assert p.radius == 5.0
    assert p.norm_bound * p.step == pytest.approx(3.0, rel=1e-3, abs=0)
    assert p.noise_sd == pytest.approx(9 / 10_000 / p.mu, rel=1e-3, abs=0)
    json.dumps(p.to_dict())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"radius": 0.0}, "radius"),
        ({"radius": math.inf}, "radius"),
        ({"row_norm": -1.0}, "row_norm"),
    ],
)
def test_bad_choices_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        gaussian_parameters(inputs_for(), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_bound": None},
        {"norm_bound": 0},
        {"sigma": 0},
        {"sigma": 2**41, "diagonal_sigma": 2**41},
        {"diagonal_sigma": 1},
        {"half_width": 0},
    ],
)
def test_inconsistent_parameters_are_refused(changes):
    with pytest.raises(ParameterError):
        replace(gaussian_parameters(inputs_for()), **changes)


def test_more_noise_than_integers_hold_is_refused():
    with pytest.raises(CapacityError, match="larger budget"):
        gaussian_parameters(inputs_for(n_features=10**7, epsilon=1e-6, delta=1e-9))


# Release


class Untouchable:
    """Stands for a generator, or for records, and fails the test on any use."""

    n_records, n_features = 10_000, 7

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used although the release must be refused")


UNTOUCHABLE = Entropy(Untouchable(), private=False)


def test_records_of_another_size_are_refused_untouched():
    parameters = gaussian_parameters(inputs_for())
    with pytest.raises(DataError, match="7: declare"):
        release_gaussian(Untouchable(), np.ones(7), parameters, UNTOUCHABLE)
    with pytest.raises(DataError, match="got 9,999"):
        release_gaussian(open_records(np.ones((9_999, 6))), np.ones(6), parameters, UNTOUCHABLE)


def test_bad_scales_are_refused_before_noise_is_drawn():
    parameters = gaussian_parameters(inputs_for())
    records = open_records(np.ones((10_000, 6)))
    for scale in (np.ones(6) * np.nan, -np.ones(6), np.full(6, 1e-200)):
        with pytest.raises(ParameterError, match="feature_scale"):
            release_gaussian(records, scale, parameters, UNTOUCHABLE)
    with pytest.raises(DataError, match="features"):
        release_gaussian(records, np.ones(5), parameters, UNTOUCHABLE)


@pytest.fixture(scope="module")
def sample():
    return np.random.default_rng(5).standard_normal((10_000, 6)) * [1, 2, 3, 0.5, 1, 1]


SCALE = np.array([1, 2, 3, 0.5, 1, 1])


def test_the_release_is_the_gram_matrix_and_noise(sample):
    p = gaussian_parameters(inputs_for())
    release = release_gaussian(open_records(sample), SCALE, p, seeded())
    gram = row_bounded_gram(
        open_records(sample), FeatureGrid(SCALE, 6.0, p.half_width), p.norm_bound
    )
    noise = release.integers - gram
    np.testing.assert_array_equal(release.integers, release.integers.T)
    assert len(np.unique(noise[np.triu_indices(6)])) == 21
    assert np.abs(noise).max() < 7 * p.diagonal_sigma
    assert (release.mechanism, release.unit) == ("gaussian", p.step**2 / 10_000)
    assert release.noise_sd == (p.noise_sd, p.diagonal_noise_sd)
    truth = sample.T @ sample / 10_000
    allowed = 0.02 + 6 * p.diagonal_noise_sd
    assert np.all(np.abs(release.covariance() - truth) < allowed * np.multiply.outer(SCALE, SCALE))


def test_same_bits_for_any_block_size_and_row_order(sample):
    p = gaussian_parameters(inputs_for())
    expected = release_gaussian(open_records(sample), SCALE, p, seeded()).integers
    for block_rows, seed in ((1, 1), (999, 2), (10_000, 3)):
        shuffled = np.random.default_rng(seed).permutation(sample)
        records = open_records(shuffled, block_rows=block_rows)
        np.testing.assert_array_equal(
            release_gaussian(records, SCALE, p, seeded()).integers, expected
        )


def test_units_of_the_features_do_not_matter(sample):
    p = gaussian_parameters(inputs_for())
    unit = 2.0 ** np.array([3, -7, 0, 20, -1, 5])
    plain = release_gaussian(open_records(sample), SCALE, p, seeded())
    other = release_gaussian(open_records(sample * unit), SCALE * unit, p, seeded())
    np.testing.assert_array_equal(plain.integers, other.integers)
    np.testing.assert_array_equal(
        plain.covariance() * np.multiply.outer(unit, unit), other.covariance()
    )


def test_a_constant_feature_is_released_as_zero(sample):
    scale = SCALE * [1, 1, 0, 1, 1, 1]
    release = release_gaussian(
        open_records(sample), scale, gaussian_parameters(inputs_for()), seeded()
    )
    assert not release.covariance()[2].any()


def test_one_feature_and_what_is_written(tmp_path):
    p = gaussian_parameters(inputs_for(n_features=1, row_sparsity=1))
    X = np.random.default_rng(0).standard_normal((10_000, 1))
    release = release_gaussian(open_records(X), np.ones(1), p, seeded())
    assert abs(release.covariance()[0, 0] - 1) < 0.1
    assert not release.guarantee.private
    written = json.loads((release.write(tmp_path) / "release.json").read_text())
    assert written["noise_sd"] == [p.noise_sd, p.diagonal_noise_sd]


def variance_p_value(draws, deviation):
    """P-value of the mean square of normal draws, whose relative deviation is sqrt(2/number)."""
    square = float(np.mean((draws / deviation) ** 2))
    return normal_p_value((square - 1) * math.sqrt(draws.size / 2))


def test_the_noise_has_the_declared_law():
    """On records that are all zero; the same test rejects deviations that are 10 % wrong."""
    p = gaussian_parameters(inputs_for(n_records=4, n_features=40))
    records, entropy = open_records(np.zeros((4, 40))), seeded(11)
    noise = np.stack(
        [release_gaussian(records, np.ones(40), p, entropy).integers for _ in range(100)]
    )
    off = noise[:, *np.triu_indices(40, 1)].ravel()
    diagonal = np.diagonal(noise, axis1=1, axis2=2).ravel()
    for draws, sigma in ((off, p.sigma), (diagonal, p.diagonal_sigma)):
        assert variance_p_value(draws, sigma) > FALSE_ALARM
        assert normal_p_value(draws.mean() / sigma * math.sqrt(draws.size)) > FALSE_ALARM
        for wrong in (0.9, 1.1):
            assert variance_p_value(draws, sigma * wrong) < FALSE_ALARM
        # the share within one deviation, so that not any law with this variance will do
        inside = special.erf(math.sqrt(0.5))
        seen = np.mean(np.abs(draws) < sigma)
        z = (seen - inside) / math.sqrt(inside * (1 - inside) / draws.size)
        assert normal_p_value(z) > FALSE_ALARM
    # neighbouring entries, the two triangles aside, have nothing to do with each other
    pairs = off[:-1] / p.sigma * (off[1:] / p.sigma)
    assert normal_p_value(pairs.mean() * math.sqrt(len(pairs))) > FALSE_ALARM


def test_operating_system_entropy_is_private_and_never_the_same():
    from hushcov.noise import entropy_source

    p = gaussian_parameters(inputs_for(n_records=4))
    first, second = (
        release_gaussian(open_records(np.ones((4, 6))), np.ones(6), p, entropy_source())
        for _ in range(2)
    )
    assert first.guarantee.private
    assert not np.array_equal(first.integers, second.integers)


def test_parameters_are_plain_data():
    p = gaussian_parameters(inputs_for())
    assert isinstance(p, GaussianParameters)
    assert p == gaussian_parameters(inputs_for())
    assert hash(p) == hash(gaussian_parameters(inputs_for()))
    assert p.to_dict()["mu"] == p.mu
