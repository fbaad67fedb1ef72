"""The eigenvector-sampling mechanism: its sensitivities are bounds, its draws have their laws."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hushcov.accounting import Pure
from hushcov.exceptions import (
    CapacityError,
    DataError,
    ParameterError,
    PrivacyConditionError,
)
from hushcov.noise import Entropy
from hushcov.peers import eigen_sampling
from hushcov.peers.eigen_sampling import (
    SHARES,
    Bingham,
    EigenSamplingParameters,
    assembled,
    contraction,
    eigen_sampling_parameters,
    eigenvalue_sensitivity,
    noisy_eigenvalues,
    projected,
    pure_inputs,
    release_eigen_sampling,
    rounded_eigenvalues,
    sample_directions,
    sample_spectrum,
    score_sensitivity,
    shares,
)
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import open_records
from statistics_helpers import FALSE_ALARM, chi_square_p_value, normal_p_value


def inputs_for(n_records=10_000, n_features=6, row_sparsity=None, epsilon=1.0):
    return pure_inputs(n_records, n_features, row_sparsity or min(n_features, 3), epsilon)


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


def spectrum(matrix):
    return np.linalg.eigvalsh(matrix)[::-1]


# Sensitivities


def small_rows(d, norm_bound):
    """All integer rows of at most this norm."""
    h = math.isqrt(norm_bound**2)
    rows = np.array(list(itertools.product(range(-h, h + 1), repeat=d)))
    return rows[(rows**2).sum(axis=1) <= norm_bound**2]


@pytest.mark.parametrize(("d", "norm_bound"), [(1, 5), (2, 3), (3, 2)])
def test_no_pair_of_small_rows_exceeds_the_sensitivities(d, norm_bound):
    """Over all rows in front of several other Gram matrices; both bounds are attained."""
    rows = small_rows(d, norm_bound)
    outer = rows[:, :, None] * rows[:, None, :]
    others = np.random.default_rng(0).integers(-2, 3, (4, d, d))
    backgrounds = [np.zeros((d, d)), *(a @ a.T for a in others), 100 * np.diag(np.arange(d) < 1)]
    largest, largest_score = 0.0, 0.0
    for background in backgrounds:
        values = np.linalg.eigvalsh(background + outer)
        moves = np.abs(values[:, None] - values).sum(axis=2)
        largest = max(largest, moves.max())
    for x in outer:
        largest_score = max(largest_score, np.abs(np.linalg.eigvalsh(outer - x)).max())
    exact = norm_bound**2 * (1 if d == 1 else 2)
    assert largest == pytest.approx(exact, rel=1e-9, abs=0)
    assert largest <= eigenvalue_sensitivity(10, d, norm_bound) + 1e-9
    assert largest_score == pytest.approx(norm_bound**2, rel=1e-9, abs=0)
    assert largest_score < score_sensitivity(10, d, norm_bound)


@st.composite
def neighbouring_records(draw):
    """Two records with ordinary and extreme coordinates, many of them equal up to the sign."""
    d = draw(st.integers(1, 6))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 6.0, -6.0, 1e300]) | st.floats(-20, 20)
    x, y = (np.array(draw(st.lists(numbers, min_size=d, max_size=d))) for _ in range(2))
    return x, y


@settings(deadline=None, max_examples=150)
@given(
    pair=neighbouring_records(),
    half_width=st.integers(1, 200),
    norm_bound=st.integers(1, 500),
    weight=st.sampled_from([1, 1_000]),
)
def test_replacing_a_record_never_exceeds_the_sensitivities(pair, half_width, norm_bound, weight):
    """Through the records layer, with other records around: rounded eigenvalues and scores."""
    d = len(pair[0])
    grid = FeatureGrid(np.ones(d), 6.0, half_width)
    rest = np.tile(np.random.default_rng(0).standard_normal((5, d)), (weight, 1))
    first, second = (
        row_bounded_gram(open_records(np.vstack([rest, record])), grid, norm_bound)
        for record in pair
    )
    n = 5 * weight + 1
    moved = np.subtract(rounded_eigenvalues(first), rounded_eigenvalues(second))
    assert np.abs(moved).sum() <= eigenvalue_sensitivity(n, d, norm_bound)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0][:, : (d + 1) // 2]
    scores = [projected(gram.astype(float), contraction(basis)) for gram in (first, second)]
    change = np.abs(np.linalg.eigvalsh((scores[1] - scores[0]).astype(float))).max()
    assert change * (1 - 1e-12) <= score_sensitivity(n, d, norm_bound)


@pytest.mark.parametrize(("d", "n"), [(2, 10), (8, 10**6), (25, 10**9)])
def test_eigenvalues_are_as_accurate_as_is_charged(d, n):
    """Against 50-digit arithmetic; the bound is wide."""
    generator = np.random.default_rng(d)
    rows = generator.integers(-2_000, 2_000, (d + 3, d))
    gram = rows.T @ rows * (n // 100 + 1)
    charged = 16 * d * 2.0**-53 * np.trace(gram)
    with mpmath.workdps(50):
        exact = mpmath.eigsy(mpmath.matrix(gram.tolist()), eigvals_only=True)
        computed = np.linalg.eigvalsh(gram.astype(float))
        errors = [abs(a - mpmath.mpf(float(b))) for a, b in zip(exact, computed, strict=True)]
    assert max(errors) < charged / 4


@pytest.mark.parametrize(("d", "m"), [(3, 3), (6, 2), (12, 7)])
def test_projections_are_contracted_and_as_accurate_as_is_charged(d, m):
    """In rational arithmetic: P'GP against its integers, and the norm of P."""
    generator = np.random.default_rng(d)
    rows = generator.integers(-1_000, 1_000, (50, d))
    gram = rows.T @ rows * 12_345
    basis = contraction(np.linalg.qr(generator.standard_normal((d, d)))[0][:, :m])
    exact_basis = [[Fraction(float(entry)) for entry in row] for row in basis]
    scores = projected(gram.astype(float), basis)
    np.testing.assert_array_equal(scores, scores.T)
    square, error = Fraction(0), np.zeros((m, m))
    inner = [[Fraction(0)] * m for _ in range(m)]
    for i, j in itertools.product(range(m), repeat=2):
        inner[i][j] = sum(exact_basis[a][i] * exact_basis[a][j] for a in range(d))
        value = sum(
            exact_basis[a][i] * int(gram[a, b]) * exact_basis[b][j]
            for a, b in itertools.product(range(d), repeat=2)
        )
        error[i, j] = float(value - int(scores[i, j]))
        square += (inner[i][j] - (i == j)) ** 2
    total = int(np.trace(gram))
    assert np.linalg.norm(error) <= (3 * d + 6) * d * 2.0**-53 * total + m / 2
    # I - P'P is positive semidefinite: its diagonal outweighs the rest.
    for i in range(m):
        rest = sum(abs(inner[i][j]) for j in range(m) if j != i)
        assert inner[i][i] + rest <= 1
    assert float(square) < 1e-20


def density_of_angles(matrix, rate, angles):
    """The density of the direction in the plane, normalised by quadrature."""
    u = np.stack([np.cos(angles), np.sin(angles)])
    exponent = rate * np.einsum("ia,ij,ja->a", u, matrix, u)
    weights = np.exp(exponent - exponent.max())
    return weights / weights.mean()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("copies", [0, 1, 20])
def test_the_densities_of_neighbours_are_within_the_budget(epsilon, copies):
    """In the plane, for all small rows x and y, and close to the bound for the worst of them."""
    norm_bound, angles = 2, np.linspace(0, np.pi, 400, endpoint=False)
    sensitivity = score_sensitivity(copies + 1, 2, norm_bound)
    rate = float(Fraction(epsilon) / (2 * sensitivity))
    rows, largest = small_rows(2, norm_bound), 0.0
    others = copies * np.diag([norm_bound**2, 0])
    densities = np.array([density_of_angles(others + np.outer(x, x), rate, angles) for x in rows])
    for density in densities:
        largest = max(largest, float(np.log(densities / density).max()))
    assert largest <= epsilon
    # Half of the budget is for the normalising constant, which needs a concentrated law.
    attained = norm_bound**2 / float(sensitivity)
    assert largest > epsilon * attained * (0.95 if copies * epsilon >= 100 else 0.45)


# Parameters


@pytest.mark.parametrize("d", [1, 2, 6, 50, 300])
@pytest.mark.parametrize("n_records", [3, 10**4, 10**8])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 10.0])
def test_parameters_spend_the_budget_and_no_more(d, n_records, epsilon):
    inputs = inputs_for(n_records, d, epsilon=epsilon)
    parameters = eigen_sampling_parameters(inputs)
    assert epsilon * (1 - 1e-6) < parameters.epsilon <= epsilon
    guarantee = parameters.budget().certificate
    assert guarantee.events == (Pure(parameters.epsilon),)
    assert guarantee.transcript_epsilon == parameters.epsilon
    assert (guarantee.delta, guarantee.transcript_delta, guarantee.numerical_delta) == (0, 0, 0)
    assert guarantee.private


def test_rates_are_those_of_the_proof():
    p = eigen_sampling_parameters(inputs_for(1_000, 5, epsilon=2.0), row_norm=2.0)
    square = p.norm_bound**2
    assert p.norm_bound * p.step == pytest.approx(2.0, rel=1e-3, abs=0)
    assert p.eigenvalue_scale == pytest.approx(2 * square / 1.0, rel=1e-6, abs=0)
    assert p.direction_rate * square == pytest.approx(1.0 / 2, rel=1e-6, abs=0)


def test_finite_precision_costs_little():
    """At the sizes people have: 1 part in 10^5 at 50 features and a million records."""
    for d, n in ((50, 10**6), (100, 10**5)):
        p = eigen_sampling_parameters(inputs_for(n, d))
        square = p.norm_bound**2
        assert eigenvalue_sensitivity(n, d, p.norm_bound) < 2 * square * (1 + 1e-5)
        assert score_sensitivity(n, d, p.norm_bound) < square * (1 + 1e-5)


def test_shares_are_whole_and_fixed_in_total():
    p = eigen_sampling_parameters(inputs_for(1_000, 4))
    total = p.largest_sum
    for values in np.array([[total] * 4, [0] * 4, [total, total // 3, 7, 0], [0, 0, 0, total]]):
        for allocation in ("adaptive", "uniform"):
            found = shares(values, replace(p, allocation=allocation))
            assert len(found) == 3
            assert all(type(share) is int and share >= 0 for share in found)
            assert SHARES - 4 < sum(found) <= SHARES
            if allocation == "uniform":
                assert set(found) == {SHARES // 3}
    noise = p.eigenvalue_scale * math.log(2 * 4 / 0.05)
    roots = np.sqrt([total + noise, total // 3 + noise, 7 + noise])
    found = shares(np.array([total, total // 3, 7, 0]), p)
    np.testing.assert_allclose(np.array(found) / SHARES, roots / roots.sum(), rtol=1e-6)
    assert shares(np.array([5]), eigen_sampling_parameters(inputs_for(10, 1))) == []


def test_too_little_noise_is_refused():
    parameters = eigen_sampling_parameters(inputs_for())
    for weak in (
        replace(parameters, eigenvalue_scale=int(parameters.eigenvalue_scale * 0.9999)),
        replace(parameters, direction_rate=parameters.direction_rate * 1.0001),
    ):
        with pytest.raises(PrivacyConditionError, match="epsilon"):
            weak.budget()
        with pytest.raises(PrivacyConditionError):
            release_eigen_sampling(
                open_records(np.ones((10_000, 6))), np.ones(6), weak, UNTOUCHABLE
            )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"allocation": "greedy"}, "allocation"),
        ({"allocation": None}, "allocation"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"row_norm": math.nan}, "row_norm"),
        ({"row_norm": "2"}, "row_norm"),
    ],
)
def test_bad_choices_are_refused(changes, words):
    with pytest.raises(ParameterError, match=words):
        eigen_sampling_parameters(inputs_for(), **changes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"radius": 0.0}, ParameterError),
        ({"half_width": 0}, ParameterError),
        ({"norm_bound": 0}, ParameterError),
        ({"norm_bound": None}, ParameterError),
        ({"norm_bound": 10**7}, CapacityError),
        ({"eigenvalue_scale": 0}, ParameterError),
        ({"direction_rate": 0.0}, ParameterError),
        ({"direction_rate": math.inf}, ParameterError),
        ({"direction_rate": 1.0}, CapacityError),
        ({"inputs": replace(inputs_for(), before=0.1)}, ParameterError),
    ],
)
def test_inconsistent_parameters_are_refused(changes, error):
    with pytest.raises(error):
        replace(eigen_sampling_parameters(inputs_for()), **changes)


def test_sizes_beyond_doubles_are_refused():
    with pytest.raises(CapacityError, match=r"n_features must .* 1,000"):
        eigen_sampling_parameters(inputs_for(n_features=1_001))
    with pytest.raises(CapacityError, match="fewer records"):
        eigen_sampling_parameters(inputs_for(n_records=10**17))
    with pytest.raises(CapacityError, match="fewer records"):
        eigen_sampling_parameters(inputs_for(n_records=10**13, n_features=50, epsilon=10.0))


# Release


class Untouchable:
    """Stands for a generator, or for records, and fails the test on any use."""

    n_records, n_features = 10_000, 7

    def __getattr__(self, name):
        raise AssertionError(f"{name} was used although the release must be refused")


UNTOUCHABLE = Entropy(Untouchable(), private=False)


def test_records_of_another_size_are_refused_untouched():
    parameters = eigen_sampling_parameters(inputs_for())
    with pytest.raises(DataError, match="7: declare"):
        release_eigen_sampling(Untouchable(), np.ones(7), parameters, UNTOUCHABLE)
    with pytest.raises(ParameterError, match="entropy"):
        release_eigen_sampling(
            open_records(np.ones((10_000, 6))), np.ones(6), parameters, np.random.default_rng(0)
        )


def test_bad_scales_are_refused_before_noise_is_drawn():
    parameters = eigen_sampling_parameters(inputs_for())
    records = open_records(np.ones((10_000, 6)))
    for scale in (np.ones(6) * np.nan, -np.ones(6), np.full(6, 1e-200)):
        with pytest.raises(ParameterError, match="feature_scale"):
            release_eigen_sampling(records, scale, parameters, UNTOUCHABLE)


SCALE = np.array([1, 2, 3, 0.5, 1, 1])


@pytest.fixture(scope="module")
def sample():
    return np.random.default_rng(5).standard_normal((10_000, 6)) * SCALE


def test_the_release_is_symmetric_and_semidefinite(sample, tmp_path):
    p = eigen_sampling_parameters(inputs_for())
    release = release_eigen_sampling(open_records(sample), SCALE, p, seeded())
    np.testing.assert_array_equal(release.integers, release.integers.T)
    values = spectrum(release.integers.astype(float))
    assert values[-1] >= -6
    assert values[0] <= p.largest_sum
    assert (release.mechanism, release.unit) == ("eigen-sampling", p.step**2 / 10_000)
    assert release.noise_sd is None
    assert not release.guarantee.private
    written = json.loads((release.write(tmp_path) / "release.json").read_text())
    assert written["parameters"]["inputs"]["delta"] == 0
    assert written["guarantee"]["delta"] == 0
    assert type(release).read(tmp_path) == release


def test_same_bits_for_any_block_size_row_order_and_unit(sample):
    p = eigen_sampling_parameters(inputs_for())
    expected = release_eigen_sampling(open_records(sample), SCALE, p, seeded()).integers
    unit = 2.0 ** np.array([3, -7, 0, 20, -1, 5])
    for block_rows, seed in ((1, 1), (999, 2)):
        shuffled = np.random.default_rng(seed).permutation(sample) * unit
        records = open_records(shuffled, block_rows=block_rows)
        np.testing.assert_array_equal(
            release_eigen_sampling(records, SCALE * unit, p, seeded()).integers, expected
        )


def test_without_privacy_the_release_is_the_matrix():
    """As the budget grows in proportion to the records, what is released tends to the truth."""
    d, truth = 4, np.array([[2.0, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0.5]])
    factor = np.linalg.cholesky(truth)
    errors = []
    for n in (10**3, 10**5):
        X = np.random.default_rng(0).standard_normal((n, d)) @ factor.T
        p = eigen_sampling_parameters(inputs_for(n, d, epsilon=10.0), row_norm=8.0)
        release = release_eigen_sampling(open_records(X), np.ones(d), p, seeded())
        errors.append(np.linalg.norm(release.covariance() - X.T @ X / n, 2))
    assert errors[1] < 0.03
    assert errors[1] < errors[0] / 5


def test_directions_are_orthonormal_whatever_is_drawn():
    p = eigen_sampling_parameters(inputs_for(50, 30))
    gram = np.diag(np.arange(30)) * p.norm_bound**2 // 30
    eigenvalues = np.array([p.largest_sum] + [0] * 29)
    directions = sample_directions(np.random.default_rng(0), gram, eigenvalues, p)
    np.testing.assert_allclose(directions.T @ directions, np.eye(30), atol=1e-12)


def test_one_feature_is_a_noisy_sum():
    X = np.random.default_rng(0).standard_normal((10_000, 1))
    p = eigen_sampling_parameters(inputs_for(n_features=1))
    release = release_eigen_sampling(open_records(X), np.ones(1), p, seeded())
    assert abs(release.covariance()[0, 0] - 1) < 0.1
    np.testing.assert_array_equal(assembled(np.array([7]), np.array([[-1.0]])), [[7]])


def test_a_constant_feature_and_constant_records():
    p = eigen_sampling_parameters(inputs_for(200, 3))
    X = np.random.default_rng(0).standard_normal((200, 3))
    release = release_eigen_sampling(open_records(X), np.array([1.0, 0.0, 1.0]), p, seeded())
    assert not release.covariance()[1].any()
    for rows in (np.zeros((200, 3)), np.full((200, 3), 1e300)):
        integers = release_eigen_sampling(open_records(rows), np.ones(3), p, seeded()).integers
        assert np.abs(integers).max() <= p.largest_sum


@pytest.mark.parametrize("epsilon", [1e-290, 1e-6, 10.0])
@pytest.mark.parametrize("n", [1, 2, 10**9])
def test_extreme_budgets_and_sizes(epsilon, n):
    """Any direction, and eigenvalues of 0 or the most there is, if that is what it takes."""
    p = eigen_sampling_parameters(inputs_for(n, 3, epsilon=epsilon))
    gram = np.diag([p.largest_sum, 0, 0])
    for seed in range(5):
        eigenvalues, directions = sample_spectrum(
            np.random.default_rng(seed), gram, rounded_eigenvalues(gram), p
        )
        assert np.all((eigenvalues >= 0) & (eigenvalues <= p.largest_sum))
        np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-13)
        if n * epsilon > 1e9:
            error = np.linalg.norm(assembled(eigenvalues, directions) - gram)
            assert error < 1e-3 * p.largest_sum


def test_eigenvalues_have_laplace_noise_and_are_clipped():
    """False-alarm rate 1e-6; a scale wrong by a tenth is noticed."""
    p = eigen_sampling_parameters(inputs_for(20, 2, epsilon=4.0))
    middle, size = 10 * p.norm_bound**2, 12_000
    noisy = noisy_eigenvalues(np.random.default_rng(0), [middle] * size, p)
    edges = np.linspace(-4, 4, 25)
    masses = np.diff(np.concatenate([[0.0], stats.laplace.cdf(edges), [1.0]]))

    def p_value(scale):
        bins = np.searchsorted(edges, (noisy - middle) / scale)
        return chi_square_p_value(np.bincount(bins, minlength=26), masses)

    assert p_value(p.eigenvalue_scale) > FALSE_ALARM
    assert p_value(p.eigenvalue_scale * 1.1) < FALSE_ALARM
    assert p_value(p.eigenvalue_scale / 1.1) < FALSE_ALARM
    for exact, end in ((0, 0), (p.largest_sum, p.largest_sum)):
        clipped = noisy_eigenvalues(np.random.default_rng(1), [exact] * 2_000, p)
        assert clipped.min() >= 0
        assert clipped.max() <= p.largest_sum
        share = np.mean(clipped == end)
        assert normal_p_value((share - 0.5) / math.sqrt(0.25 / 2_000)) > FALSE_ALARM


@pytest.fixture
def laws(monkeypatch):
    """The laws that directions are drawn from, in the order in which they are."""
    found = []

    def recorded(matrix, rate):
        found.append((matrix, rate, Bingham(matrix, rate)))
        return found[-1][2]

    monkeypatch.setattr("hushcov.peers.eigen_sampling.Bingham", recorded)
    return found


def test_a_direction_has_the_law_of_the_proof(laws):
    """In the plane the doubled angle is von Mises. False-alarm rate 1e-6; a tenth is noticed."""
    p = eigen_sampling_parameters(inputs_for(30, 2, epsilon=4.0))
    gram = np.array([[20, 3], [3, 10]]) * p.norm_bound**2 // 2
    sample_directions(np.random.default_rng(0), gram, np.array([1, 1]), p)
    ((_, _, law),) = laws
    drawn = law.draw(np.random.default_rng(1), 20_000)
    cosines = np.cos(2 * np.arctan2(drawn[:, 1], drawn[:, 0]) - math.atan2(3, 5))

    def p_value(rate):
        kappa = rate * math.hypot(5, 3) * p.norm_bound**2 / 2
        mean = special.ive(1, kappa) / special.ive(0, kappa)
        spread = 1 - mean / kappa - mean**2
        return normal_p_value((cosines.mean() - mean) / math.sqrt(spread / len(cosines)))

    assert p_value(p.direction_rate) > FALSE_ALARM
    assert p_value(p.direction_rate * 1.1) < FALSE_ALARM
    assert p_value(p.direction_rate / 1.1) < FALSE_ALARM


@pytest.mark.parametrize("allocation", ["adaptive", "uniform"])
def test_directions_are_drawn_from_what_is_left(laws, allocation):
    """Every law is that of the projected matrix, at rates that add up to no more than declared."""
    d = 6
    p = eigen_sampling_parameters(inputs_for(1_000, d), allocation=allocation)
    rows = np.random.default_rng(0).integers(-p.norm_bound // d, p.norm_bound // d, (100, d))
    gram = rows.T @ rows
    eigenvalues = np.array(rounded_eigenvalues(gram))
    directions = sample_directions(np.random.default_rng(1), gram, eigenvalues, p)
    assert len(laws) == d - 1
    assert math.fsum(rate for _, rate, _ in laws) <= p.direction_rate * (1 + 1e-12)
    for place, (matrix, rate, _) in enumerate(laws):
        left = directions[:, place:]
        assert matrix.shape == (d - place, d - place)
        np.testing.assert_allclose(
            np.linalg.eigvalsh(matrix.astype(float)),
            np.linalg.eigvalsh(left.T @ gram @ left),
            rtol=1e-6,
        )
        assert rate == pytest.approx(
            shares(eigenvalues, p)[place] / SHARES * p.direction_rate, rel=1e-6, abs=0
        )


def test_the_budget_is_divided_by_released_eigenvalues(monkeypatch):
    """Exact ones would tell of records through the directions."""
    d, seen = 4, []
    p = eigen_sampling_parameters(inputs_for(1_000, d))
    original = eigen_sampling.shares
    monkeypatch.setattr(
        eigen_sampling, "shares", lambda values, q: seen.append(values) or original(values, q)
    )
    gram = 10 * np.diag(np.arange(d))
    exact = rounded_eigenvalues(gram)
    released, _ = eigen_sampling.sample_spectrum(np.random.default_rng(0), gram, exact, p)
    np.testing.assert_array_equal(seen, [released])
    assert released.tolist() != exact


@pytest.mark.parametrize(("n", "d", "norm_bound"), [(10, 2, 3), (10_000, 6, 1_000), (9, 1_000, 7)])
def test_the_score_moves_by_two_errors_of_projecting(n, d, norm_bound):
    """One on each dataset, by hand: step 4 of the proof."""
    error = Fraction((3 * d + 6) * d * n * norm_bound**2, 2**53) + Fraction(d, 2)
    assert score_sensitivity(n, d, norm_bound) == norm_bound**2 + 2 * error


def test_it_is_accurate_where_it_should_be():
    """Five features, 100,000 records, epsilon 1: the relative error is a few percent."""
    d, n = 5, 100_000
    truth = 0.5 * (np.ones((d, d)) + np.eye(d))
    X = np.random.default_rng(0).standard_normal((n, d)) @ np.linalg.cholesky(truth).T
    p = eigen_sampling_parameters(inputs_for(n, d, 5))
    grid = FeatureGrid(np.ones(d), p.radius, p.half_width)
    gram = row_bounded_gram(open_records(X), grid, p.norm_bound)
    found = [
        assembled(*sample_spectrum(np.random.default_rng(s), gram, rounded_eigenvalues(gram), p))
        for s in range(20)
    ]
    norms = [np.linalg.norm(one * p.unit - truth, 2) / np.linalg.norm(truth, 2) for one in found]
    assert np.mean(norms) < 0.1


def test_operating_system_entropy_is_private_and_never_the_same():
    from hushcov.noise import entropy_source

    p = eigen_sampling_parameters(inputs_for(n_records=4))
    first, second = (
        release_eigen_sampling(open_records(np.ones((4, 6))), np.ones(6), p, entropy_source())
        for _ in range(2)
    )
    assert first.guarantee.private
    assert not np.array_equal(first.integers, second.integers)


def test_parameters_are_plain_data():
    p = eigen_sampling_parameters(inputs_for())
    assert isinstance(p, EigenSamplingParameters)
    assert p == eigen_sampling_parameters(inputs_for())
    assert hash(p) == hash(eigen_sampling_parameters(inputs_for()))
    assert json.loads(json.dumps(p.to_dict()))["epsilon"] == p.epsilon
