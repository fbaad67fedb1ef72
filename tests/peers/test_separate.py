"""Eigenvectors and eigenvalues apart: sensitivities, noise, and what is computed from them."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import astuple, replace
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from hushcov.exceptions import CapacityError, DataError, ParameterError, PrivacyConditionError
from hushcov.mechanisms.gaussian.mechanism import squared_sensitivity
from hushcov.peers.separate import (
    MatrixNoise,
    SeparateChoice,
    SeparateTranscript,
    choose,
    draw_transcript,
    eigenvalue_sensitivity,
    histogram_mu,
    matrix_noise,
    predict,
    recombine,
    release_separate,
    rounded_eigenvalues,
    separate_parameters,
    squared_edges,
)
from hushcov.release import Release
from hushcov.sums.counts import norm_histogram
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import open_records
from peers.separate_settings import METHODS, inputs_for, seeded
from statistics_helpers import FALSE_ALARM, normal_p_value

# Sensitivity


def all_rows(d, h, norm_bound):
    rows = np.array(list(itertools.product(range(-h, h + 1), repeat=d)))
    return rows[(rows**2).sum(axis=1) <= norm_bound**2]


@pytest.mark.parametrize(("d", "h", "norm_bound"), [(1, 3, 3), (2, 3, 3), (3, 1, 1), (3, 2, 2)])
def test_no_pair_of_small_rows_moves_eigenvalues_further(d, h, norm_bound):
    """All pairs of rows, among others that are zero, ordinary or far apart."""
    rows = all_rows(d, h, norm_bound)
    outer = rows[:, :, None] * rows[:, None, :]
    random = np.random.default_rng(0).integers(-h, h + 1, (5, d))
    largest = 0.0
    for rest in (np.zeros((d, d)), random.T @ random, 50 * np.diag(np.arange(d))):
        values = np.linalg.eigvalsh(rest + outer)
        distance = np.linalg.norm(values[:, None] - values, axis=2)
        frobenius = np.linalg.norm(outer[:, None] - outer, axis=(2, 3))
        assert (distance <= frobenius * (1 + 1e-12) + 1e-9).all()  # Hoffman and Wielandt
        largest = max(largest, distance.max())
    exact = math.sqrt(2 if d > 1 else 1) * norm_bound**2  # one feature: B^2 against 0
    assert largest == pytest.approx(exact, rel=1e-6, abs=0)
    assert largest <= eigenvalue_sensitivity(5, d, norm_bound)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    half_width=st.integers(1, 2**19),
    ratio=st.floats(0.2, 2.0),
)
def test_replacing_a_record_never_exceeds_the_sensitivity(seed, d, half_width, ratio):
    """Computed, rounded eigenvalues, through the records layer."""
    rng = np.random.default_rng(seed)
    norm_bound = max(1, int(ratio * half_width))
    grid = FeatureGrid(np.ones(d), 1.0, half_width)
    rest = rng.standard_normal((7, d)) * 10.0 ** rng.integers(-3, 2, (7, 1))
    pair = rng.standard_normal((2, d)) * 10.0 ** rng.integers(-2, 3, (2, 1))
    first, second = (
        rounded_eigenvalues(
            row_bounded_gram(open_records(np.vstack([rest, record])), grid, norm_bound)
        )
        for record in pair
    )
    square = sum(int(change) ** 2 for change in first - second)
    assert square <= eigenvalue_sensitivity(8, d, norm_bound) ** 2


def test_the_sensitivity_counts_rounding_and_the_solver():
    """sqrt(2) B^2 + 2 sqrt(d) (16 d n B^2 2^-53 + 1/2), rounded up."""
    for n, d, B in ((1, 1, 1), (50_000, 200, 348_943), (10**12, 1000, 10**3)):
        error = mpmath.mpf(16 * d * n * B**2) / 2**53 + mpmath.mpf(1) / 2
        with mpmath.workdps(60):
            least = mpmath.sqrt(2) * B**2 + 2 * mpmath.sqrt(d) * error
            assert least <= eigenvalue_sensitivity(n, d, B) <= least + 3
    # negligible at ordinary sizes
    assert eigenvalue_sensitivity(50_000, 200, 348_943) < 1.00001 * math.sqrt(2) * 348_943**2


def gram_matrices():
    rng = np.random.default_rng(3)
    for d, size in ((2, 2**20), (9, 2**19), (12, 3), (14, 2**20)):
        for spread in (0, 2):
            rows = rng.integers(-size, size + 1, (4 * d, d)) // 10 ** rng.integers(
                0, spread + 1, (4 * d, 1)
            )
            yield rows.T @ rows
            yield rows[: d // 2].T @ rows[: d // 2]  # singular
            yield np.outer(rows[0], rows[0]) * 2**18  # beyond 2^53: not exact in doubles
    yield np.diag([2**61, 1, 1, 0])


def test_the_eigenvalue_solver_is_far_better_than_is_trusted():
    """Against 50 digits: within a quarter of 16 d 2^-53 times the norm, and rounding."""
    for gram in gram_matrices():
        d = len(gram)
        with mpmath.workdps(50):
            exact = sorted(mpmath.eigsy(mpmath.matrix(gram.tolist()), eigvals_only=True))
            norm = exact[-1]
            allowed = 4 * d * norm * mpmath.mpf(2) ** -53 + mpmath.mpf("0.5")
            for computed, value in zip(rounded_eigenvalues(gram), exact, strict=True):
                assert abs(int(computed) - value) <= allowed


@pytest.mark.parametrize("spread", [0, 2, 10])
def test_the_eigenvalue_solver_on_many_features(spread):
    """Hadamard's matrix has integer eigenvectors, so spectra can be known exactly."""
    d = 256
    rng = np.random.default_rng(spread)
    values = 2**34 // 10 ** rng.integers(0, spread + 1, d) + rng.integers(0, 100, d)
    vectors = linalg.hadamard(d).astype(np.int64)
    gram = (vectors * values) @ vectors.T
    error = np.abs(rounded_eigenvalues(gram) - np.sort(values) * d)
    assert error.max() <= d * 2.0**-53 * (values.max() * d) + 0.5


@pytest.mark.parametrize(("d", "h", "norm_bound"), [(1, 3, 3), (2, 3, 3), (3, 2, 3), (4, 1, 2)])
def test_equal_noise_for_all_entries_covers_every_pair_of_rows(d, h, norm_bound):
    """The paper's noise: the upper triangle with its diagonal moves by sqrt(2) B^2 at most."""
    rows = all_rows(d, h, norm_bound)
    i, j = np.triu_indices(d)
    products = rows[:, i] * rows[:, j]
    square = (products**2).sum(axis=1)
    largest = np.max(square[:, None] + square - 2 * products @ products.T)
    assert largest <= 2 * norm_bound**4
    if d > 1 and h >= norm_bound:
        assert largest == 2 * norm_bound**4  # two axes


# Noise


@pytest.mark.parametrize("method", ["gauss", "separate"])
@pytest.mark.parametrize("d", [1, 2, 50, 1000])
def test_every_choice_costs_what_is_charged_and_no_more(d, method):
    """In exact arithmetic, at each of the norm bounds that may be chosen."""
    inputs = inputs_for(n_features=d, row_sparsity=1)
    p = separate_parameters(inputs, method="adaptive")
    charged = Fraction(p.release_mu) ** 2
    for square in (*squared_edges(p.norm_bound), p.norm_bound**2):
        bound = math.isqrt(square)
        noise = matrix_noise(p, method, bound)
        spent = squared_sensitivity(d, p.half_width, bound, noise.sigma, noise.diagonal_sigma)
        if method == "separate":
            sensitivity = eigenvalue_sensitivity(inputs.n_records, d, bound)
            values = Fraction(sensitivity**2, noise.eigenvalue_sigma**2)
            spent += values
            if bound > 1000:
                assert float(values / charged) == pytest.approx(1 / 8, rel=1e-3, abs=0)
        else:
            assert noise.eigenvalue_sigma is None
        assert spent <= charged
        assert bound <= 1000 or spent >= charged * Fraction(998, 1000)  # noise is a whole number


def test_noise_of_a_bound_that_was_not_declared_is_refused():
    p = separate_parameters(inputs_for())
    with pytest.raises(ParameterError, match="norm_bound"):
        matrix_noise(p, "gauss", p.norm_bound + 1)
    with pytest.raises(ParameterError, match="method"):
        matrix_noise(p, "adaptive", p.norm_bound)


# Parameters


@pytest.mark.parametrize("d", [1, 5, 1000])
@pytest.mark.parametrize("n_records", [3, 10**4, 10**12])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (10.0, 0.01)])
def test_parameters_spend_the_budget_and_no_more(d, n_records, method, epsilon, delta):
    inputs = inputs_for(
        n_records=n_records, n_features=d, row_sparsity=1, epsilon=epsilon, delta=delta
    )
    p = separate_parameters(inputs, method=method)
    mu = math.hypot(*p.mus)
    spent = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert epsilon * (1 - 1e-6) < spent <= epsilon * (1 + 1e-9)
    assert len(p.mus) == 1 + (method == "adaptive")
    assert p.budget().certificate.transcript_epsilon == pytest.approx(spent, rel=1e-5, abs=0)
    assert p.half_width >= 2 or n_records == 10**12
    for chosen in ("gauss", "separate"):
        noise = matrix_noise(p, chosen, p.norm_bound)
        assert max(noise.diagonal_sigma, noise.eigenvalue_sigma or 1) <= 2**40


@pytest.mark.parametrize("method", METHODS)
def test_what_steps_before_take_comes_off_the_budget(method):
    p = separate_parameters(inputs_for(before=0.1), method=method)
    assert p.release_mu < separate_parameters(inputs_for(), method=method).release_mu
    assert math.hypot(0.1, *p.mus) == pytest.approx(p.budget().mu)


class Untouchable:
    n_records, n_features = 10_000, 6

    def map_sum(self, *_, **__):
        raise AssertionError("records were read")


@pytest.mark.parametrize("method", METHODS)
def test_too_little_noise_is_refused_before_records_are_read(method):
    p = separate_parameters(inputs_for(), method=method)
    weak = [replace(p, release_mu=p.release_mu * (1 + 1e-6))]
    if method == "adaptive":
        weak.append(replace(p, histogram_sigma=p.histogram_sigma - 1))
    for wrong in weak:
        with pytest.raises(PrivacyConditionError, match="no room left"):
            release_separate(Untouchable(), np.ones(6), wrong, seeded())


def test_the_certificate_says_what_is_trusted():
    trusting = {
        method: separate_parameters(inputs_for(), method=method).budget().certificate
        for method in METHODS
    }
    told = {m: any("solver" in line for line in g.preconditions) for m, g in trusting.items()}
    assert told == {"gauss": False, "separate": True, "adaptive": True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "laplace"}, "method must be one of"),
        ({"method": None}, "method must be one of"),
        ({"row_norm": 0.0}, "row_norm must be above 0"),
        ({"row_norm": -1}, "row_norm must be above 0"),
        ({"row_norm": math.inf}, "row_norm must be above 0"),
        ({"row_norm": "1"}, "row_norm must be a real number"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        separate_parameters(inputs_for(), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "best"}, "method"),
        ({"histogram_sigma": None}, "histogram_sigma"),
        ({"method": "gauss"}, "histogram_sigma"),
        ({"histogram_sigma": 0}, "histogram_sigma"),
        ({"radius": 0.0}, "radius"),
        ({"half_width": 0}, "half_width"),
        ({"norm_bound": 0}, "norm_bound"),
        ({"norm_bound": 2**40}, "norm_bound"),
        ({"release_mu": 0.0}, "release_mu"),
    ],
)
def test_inconsistent_parameters_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        replace(separate_parameters(inputs_for()), **change)


def test_more_noise_than_integers_hold_is_refused():
    with pytest.raises(CapacityError, match="fewer features"):
        separate_parameters(inputs_for(epsilon=1e-12, delta=1e-14), method="gauss")


@pytest.mark.parametrize("row_norm", [1e-9, 1e-3, 1.0, 30.0, 1e9])
def test_any_row_norm_works(row_norm):
    p = separate_parameters(inputs_for(), row_norm=row_norm)
    X = np.random.default_rng(0).standard_normal((10_000, 6))
    release = release_separate(open_records(X), np.ones(6), p, seeded())
    most = max(min(row_norm, 2.0**19), p.step)
    assert most - p.step <= p.row_norm <= most * (1 + 1e-12)
    assert np.trace(release.covariance()) <= 6 * most**2


# Choosing


def test_edges_are_quarter_octaves_with_a_margin():
    for bound in (348_943, 2**19, 1000):
        edges = squared_edges(bound)
        assert len(edges) == len(set(edges))
        assert list(edges) == sorted(edges)
        for i, edge in enumerate(reversed(edges), start=1):
            exact = bound**2 * (1 + 2**-10) * 2 ** (-i / 2)
            if exact > 1000:
                assert edge == pytest.approx(exact, abs=1.001)
    assert squared_edges(1) == ()
    assert squared_edges(2) == (1, 2)  # 2.83 and 2, 1.41 and 1 rounded down
    assert len(squared_edges(2**19)) == 64


def counts_for(parameters, norms):
    """Exact counts of records along one axis with these norms, in units of the row norm."""
    d = parameters.inputs.n_features
    X = np.zeros((len(norms), d))
    X[:, 0] = np.asarray(norms) * parameters.row_norm
    grid = FeatureGrid(np.ones(d), parameters.radius, parameters.half_width)
    return norm_histogram(open_records(X), grid, squared_edges(parameters.norm_bound))


@pytest.mark.parametrize("octave", range(6))
def test_records_of_one_norm_are_bounded_there(octave):
    """A thousandth above halves, quarters and so on of the row norm; never beyond it."""
    p = separate_parameters(inputs_for(n_features=50), row_norm=1.0)
    choice = choose(p, counts_for(p, np.full(10_000, 2.0**-octave)))
    margin = 1 + (2**-11 if octave else 0)
    assert choice.norm_bound * p.step == pytest.approx(2.0**-octave * margin, rel=1e-4, abs=0)


def test_the_method_follows_the_signal():
    """The more features, the worse are entries in comparison with eigenvectors."""
    p = separate_parameters(inputs_for(n_features=200), row_norm=1.0)
    assert choose(p, counts_for(p, np.ones(10_000))).method == "separate"
    p = separate_parameters(inputs_for(n_features=5), row_norm=1.0)
    assert choose(p, counts_for(p, np.ones(10_000))).method == "gauss"


def test_a_few_long_records_do_not_set_the_bound():
    p = separate_parameters(inputs_for(n_features=50), row_norm=1.0)
    norms = np.full(10_000, 1 / 8)
    norms[:3] = 1.0
    assert choose(p, counts_for(p, norms)).norm_bound * p.step < 0.13
    norms[:2000] = 1.0
    assert choose(p, counts_for(p, norms)).norm_bound == p.norm_bound


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 10**3, 10**9, 10**15]))
def test_any_counts_lead_to_a_choice(seed, size):
    p = separate_parameters(inputs_for())
    n_bins = len(squared_edges(p.norm_bound)) + 1
    counts = np.random.default_rng(seed).integers(-size, size + 1, n_bins)
    choice = choose(p, counts)
    assert 1 <= choice.norm_bound <= p.norm_bound
    assert choice.method in ("gauss", "separate")
    for errors in astuple(predict(p, counts)):
        assert (errors >= 0).all()
        assert np.isfinite(errors).all()


# Release


@pytest.mark.parametrize("method", METHODS)
def test_released_matrices_are_near_the_truth(method):
    """Among many records; symmetric, without negative eigenvalues, and told apart by the seed."""
    rng = np.random.default_rng(0)
    scale = np.array([1.0, 10, 0.1, 1, 1, 1])
    X = rng.standard_normal((100_000, 6)) @ np.diag([1.0, 1.5, 0.5, 1, 1, 1]) * scale
    inputs = inputs_for(n_records=100_000, epsilon=8.0)
    p = separate_parameters(inputs, method=method, row_norm=8.0)
    release = release_separate(open_records(X), scale, p, seeded())
    truth = X.T @ X / len(X) / np.multiply.outer(scale, scale)
    found = release.covariance() / np.multiply.outer(scale, scale)
    assert np.linalg.norm(found - truth) < 0.03
    assert np.array_equal(release.integers, release.integers.T)
    assert np.linalg.eigvalsh(release.integers)[0] > -10
    assert release.noise_sd is None
    assert release.mechanism == "separate"
    other = release_separate(open_records(X), scale, p, seeded(1))
    assert not np.array_equal(other.integers, release.integers)


@pytest.mark.parametrize("method", METHODS)
def test_one_feature_and_what_is_written(tmp_path, method):
    inputs = inputs_for(n_features=1, row_sparsity=1)
    p = separate_parameters(inputs, method=method)
    X = np.random.default_rng(0).standard_normal((10_000, 1))
    release = release_separate(open_records(X), np.ones(1), p, seeded())
    assert abs(release.covariance()[0, 0] - 1) < 0.1
    assert not release.guarantee.private
    folder = release.write(tmp_path)
    written = json.loads((folder / "release.json").read_text())["parameters"]
    assert written["method"] == method
    assert written["release_mu"] == p.release_mu
    assert (written["noisy_counts"] is None) == (method != "adaptive")
    assert Release.read(folder) == release


def test_the_size_of_the_records_is_checked():
    p = separate_parameters(inputs_for())
    with pytest.raises(DataError, match="as declared"):
        release_separate(open_records(np.ones((9, 6))), np.ones(6), p, seeded())


def variance_p_value(draws, deviation):
    """P-value of the mean square of normal draws, whose relative deviation is sqrt(2/number)."""
    square = float(np.mean((draws / deviation) ** 2))
    return normal_p_value((square - 1) * math.sqrt(draws.size / 2))


def noisy_parts(runs=150, d=30):
    """Noise of the three parts of a transcript, whose exact integers are known."""
    noise = MatrixNoise(1000, 1500, 700)
    gram, values = np.full((d, d), 12345), np.arange(d) * 10**6
    generator = np.random.default_rng(7)
    drawn = [draw_transcript(generator, gram, values, noise) for _ in range(runs)]
    matrices = np.stack([transcript.gram - gram for transcript in drawn])
    return {
        1000: matrices[:, *np.triu_indices(d, 1)].ravel(),
        1500: np.diagonal(matrices, axis1=1, axis2=2).ravel(),
        700: np.stack([transcript.eigenvalues - values for transcript in drawn]).ravel(),
    }


def test_the_noise_has_the_declared_law():
    """The same test rejects deviations that are 10 % wrong; parts are independent."""
    parts = noisy_parts()
    for sigma, draws in parts.items():
        assert variance_p_value(draws, sigma) > FALSE_ALARM
        assert normal_p_value(draws.mean() / sigma * math.sqrt(draws.size)) > FALSE_ALARM
        for wrong in (0.9, 1.1):
            assert variance_p_value(draws, sigma * wrong) < FALSE_ALARM
    products = parts[1500] / 1500 * (parts[700] / 700)
    assert normal_p_value(products.mean() * math.sqrt(products.size)) > FALSE_ALARM


def test_the_release_has_the_declared_noise():
    """Far from the ends of their range eigenvalues are not clipped: Gram matrix and noise."""
    d, n = 20, 4000
    X = np.repeat(np.eye(d), n // d, axis=0)
    p = separate_parameters(
        inputs_for(n_records=n, n_features=d, epsilon=4.0), method="gauss", row_norm=1.0
    )
    noise = matrix_noise(p, "gauss", p.norm_bound)
    exact = np.eye(d, dtype=np.int64) * (n // d) * p.norm_bound**2
    entropy = seeded(3)
    drawn = np.stack(
        [
            release_separate(open_records(X), np.ones(d), p, entropy).integers - exact
            for _ in range(40)
        ]
    )
    off = drawn[:, *np.triu_indices(d, 1)].ravel()
    diagonal = np.diagonal(drawn, axis1=1, axis2=2).ravel()
    for draws, sigma in ((off, noise.sigma), (diagonal, noise.diagonal_sigma)):
        assert variance_p_value(draws, sigma) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        assert variance_p_value(off, noise.sigma * wrong) < FALSE_ALARM


# What is computed from the noisy integers


def parameters_for(n, d):
    inputs = inputs_for(n_records=n, n_features=d, row_sparsity=1)
    return separate_parameters(inputs, method="separate", row_norm=1.0)


def test_without_noise_the_gram_matrix_comes_back():
    rng = np.random.default_rng(0)
    p = parameters_for(100, 5)
    rows = rng.integers(-(10**4), 10**4, (100, 5))
    gram = rows.T @ rows
    choice = SeparateChoice("separate", p.norm_bound)
    for values in (None, rounded_eigenvalues(gram)):
        found = recombine(SeparateTranscript(gram, values), p, choice)
        assert np.abs(found - gram).max() <= 2


def test_released_eigenvalues_go_to_eigenvectors_in_signed_order():
    """A large negative noisy eigenvalue is the last in line, not the first."""
    p = parameters_for(100, 3)
    noisy = np.diag([-(10**9), 10**6, 10**8])
    values = np.array([10, 20, 30]) * 10**6
    found = recombine(
        SeparateTranscript(noisy, values), p, SeparateChoice("separate", p.norm_bound)
    )
    np.testing.assert_array_equal(found, np.diag(values))


def test_eigenvalues_are_kept_in_their_range():
    p = parameters_for(10, 3)
    largest = 10 * 1000**2
    choice = SeparateChoice("separate", 1000)
    values = np.array([-5, 3 * 10**6, 10**9])
    expected = np.diag([0, 3 * 10**6, largest])
    for transcript in (
        SeparateTranscript(np.diag(values), None),
        SeparateTranscript(np.diag([1, 2, 3]), values),
    ):
        np.testing.assert_array_equal(recombine(transcript, p, choice), expected)


def test_noise_that_breaks_the_order_is_averaged():
    transcript = SeparateTranscript(np.diag([1, 2, 3]), np.array([5, 9, 7]) * 10**6)
    found = recombine(transcript, parameters_for(100, 3), SeparateChoice("separate", 10**5))
    np.testing.assert_array_equal(np.diag(found), np.array([5, 8, 8]) * 10**6)


@pytest.mark.parametrize("sigma", [1, 7, 2**40])
def test_counts_are_charged_with_both_bins_that_a_record_moves(sigma):
    mu = histogram_mu(sigma)
    assert mu == pytest.approx(math.sqrt(2) / sigma, rel=1e-14, abs=0)
    assert Fraction(mu) ** 2 * sigma**2 >= 2
