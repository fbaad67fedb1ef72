"""Eigenvectors and eigenvalues apart: sensitivities, noise, and what is computed from them."""

from __future__ import annotations

import math
from dataclasses import astuple
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_sums import norm_histogram
from fit.settings import inputs_for, small_rows
from hushcov.exceptions import ParameterError
from hushcov.fit.gaussian.mechanism import squared_sensitivity
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import Gram
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.tables.sources import open_records
from hushcov_lab.peers import eigen_sampling
from hushcov_lab.peers.queries import RoundedEigenvalues, eigenvalue_sensitivity
from hushcov_lab.peers.separate import (
    SeparateChoice,
    SeparateTranscript,
    choose,
    histogram_mu,
    matrix_noise,
    predict,
    recombine,
    separate_parameters,
    squared_edges,
)


def rounded_eigenvalues(gram):
    grid = FeatureGrid(np.ones(len(gram)), 1.0, 1)
    return RoundedEigenvalues(Gram(grid, 1), 1).derived(gram)


METHODS = ("gauss", "separate", "adaptive")

# Sensitivity


@pytest.mark.parametrize(("d", "h", "norm_bound"), [(1, 3, 3), (2, 3, 3), (3, 1, 1), (3, 2, 2)])
def test_no_pair_of_small_rows_moves_eigenvalues_further(d, h, norm_bound):
    """All pairs of rows, among others that are zero, ordinary or far apart."""
    rows = small_rows(d, h, norm_bound)
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


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("d", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("n", [10, 10**4, 2**33])
def test_rows_that_were_not_planned_for_cost_a_share_however_few_were_released(relation, d, n):
    to_whom, released = Neighbours(relation, 16, "patient"), 1
    most = 1 + Fraction(d * d * (n - 2 * released), 2**48)
    for bound in (1, 1000, 2**15):
        # Public numbers have no room for more: so much is moved by those that are there.
        moved = eigenvalue_sensitivity(-(-n // 2), d, bound, to_whom)
        assert moved <= most * eigenvalue_sensitivity(released, d, bound, to_whom) + 1
        for sensitivity in (eigen_sampling.eigenvalue_sensitivity, eigen_sampling.score_range):
            moved = sensitivity(n, d, bound, to_whom)
            assert moved <= most * sensitivity(2 * released, d, bound, to_whom) + 1


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


def test_the_certificate_says_what_is_trusted():
    trusting = {
        method: separate_parameters(inputs_for(), method=method).budget().certificate
        for method in METHODS
    }
    told = {m: any("solver" in line for line in g.preconditions) for m, g in trusting.items()}
    assert told == {"gauss": False, "separate": True, "adaptive": True}


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
        found = recombine(SeparateTranscript(choice, gram, values), p)
        assert np.abs(found - gram).max() <= 2


def test_released_eigenvalues_go_to_eigenvectors_in_signed_order():
    """A large negative noisy eigenvalue is the last in line, not the first."""
    p = parameters_for(100, 3)
    noisy = np.diag([-(10**9), 10**6, 10**8])
    values = np.array([10, 20, 30]) * 10**6
    choice = SeparateChoice("separate", p.norm_bound)
    found = recombine(SeparateTranscript(choice, noisy, values), p)
    np.testing.assert_array_equal(found, np.diag(values))


def test_eigenvalues_are_kept_in_their_range():
    p = parameters_for(10, 3)
    largest = 10 * 1000**2
    choice = SeparateChoice("separate", 1000)
    values = np.array([-5, 3 * 10**6, 10**9])
    expected = np.diag([0, 3 * 10**6, largest])
    for transcript in (
        SeparateTranscript(choice, np.diag(values), None),
        SeparateTranscript(choice, np.diag([1, 2, 3]), values),
    ):
        np.testing.assert_array_equal(recombine(transcript, p), expected)


def test_noise_that_breaks_the_order_is_averaged():
    choice, values = SeparateChoice("separate", 10**5), np.array([5, 9, 7]) * 10**6
    transcript = SeparateTranscript(choice, np.diag([1, 2, 3]), values)
    found = recombine(transcript, parameters_for(100, 3))
    np.testing.assert_array_equal(np.diag(found), np.array([5, 8, 8]) * 10**6)


@pytest.mark.parametrize("sigma", [1, 7, 2**40])
def test_counts_are_charged_with_both_bins_that_a_record_moves(sigma):
    mu = histogram_mu(sigma)
    assert mu == pytest.approx(math.sqrt(2) / sigma, rel=1e-14, abs=0)
    assert Fraction(mu) ** 2 * sigma**2 >= 2
