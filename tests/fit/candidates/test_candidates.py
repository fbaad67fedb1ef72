"""Release of known candidates: what is released, what decides, and what is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from hushcov import GaussianCovariance, PrivateSparseCovariance
from hushcov.candidates import Candidates
from hushcov.exceptions import (
    AccuracyWarning,
    CapacityError,
    ParameterError,
    PrivacyWarning,
    SeededNoiseWarning,
)
from hushcov.fit import candidates as room
from hushcov.fit.adaptive.pairs import PairValues
from hushcov.fit.candidates import Lags, Taper, best_taper, candidate_parameters, choose
from hushcov.inputs import ReleaseInputs
from hushcov.release.estimate import estimate
from hushcov.release.view import covariance_intervals

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 1}
N, D, WIDTH = 6_000, 40, 3


def band(d, width):
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return np.maximum(0.0, 1 - distance / (width + 1))


@pytest.fixture(scope="module")
def rows():
    root = np.linalg.cholesky(band(D, WIDTH))
    return np.random.default_rng(0).standard_normal((N, D)) @ root.T + 2


def fit(X, kind=PrivateSparseCovariance, **options):
    X = X - 2 if options.get("assume_centered") else X
    with warnings.catch_warnings():
        for word in (AccuracyWarning, PrivacyWarning, SeededNoiseWarning):
            warnings.simplefilter("ignore", word)
        of_fit = {name: options.pop(name) for name in ("unit", "sample_weight") if name in options}
        return kind(**BUDGET | options).fit(X, **of_fit)


def error(estimator):
    found = estimator.covariance_
    found = found.toarray() if sparse.issparse(found) else found
    return np.linalg.norm(found - band(D, WIDTH), 2) / np.linalg.norm(band(D, WIDTH), 2)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"bandwidth": WIDTH}, 0.12),
        ({"bandwidth": "up-to:12"}, 0.12),
        ({"bandwidth": WIDTH, "neighbours": "add-remove"}, 0.12),
        ({"bandwidth": WIDTH, "assume_centered": True}, 0.16),
        ({"bandwidth": WIDTH, "unit": np.repeat(np.arange(N // 2), 2)}, 0.2),
        ({"bandwidth": "up-to:12", "unit": np.repeat(np.arange(N // 2), 2)}, 0.3),
        ({"bandwidth": WIDTH, "sample_weight": np.ones(N), "max_sample_weight": 1.0}, 0.2),
        ({"bandwidth": 20}, 0.1),  # so wide that it is asked which ones matter
    ],
    ids=["band", "width", "add-remove", "mean known", "units", "width of units", "weights", "wide"],
)
def test_a_band_is_found_whoever_is_protected(rows, options, most):
    """Errors are those of the first run, with room; seeded."""
    found = fit(rows, **options)
    assert found.release_.mechanism == "candidates"
    assert error(found) < most
    assert sparse.issparse(found.covariance_)
    assert found.error_estimate_.least <= found.error_estimate_.error <= 1
    places = found.release_.selected
    assert (places[1] - places[0]).max() <= int(str(options["bandwidth"]).removeprefix("up-to:"))


def test_all_candidates_are_released_and_nothing_else(rows):
    found = fit(rows, bandwidth=WIDTH)
    expected = Candidates.band(D, WIDTH)
    np.testing.assert_array_equal(found.release_.selected, np.stack(expected.pairs))
    assert found.release_.parameters["inputs"]["bandwidth"] == WIDTH
    listed = fit(rows, candidate_pairs=np.stack(expected.pairs, axis=1))
    np.testing.assert_array_equal(listed.covariance_.toarray(), found.covariance_.toarray())
    whole = fit(rows, bandwidth=WIDTH, sparse_output=False)
    np.testing.assert_array_equal(whole.covariance_, found.covariance_.toarray())


def test_missing_values_are_left_out(rows):
    X = rows.copy()
    X[::9, 4] = np.nan
    assert error(fit(X, bandwidth=WIDTH, drop_nulls=True)) < 0.12


def test_a_single_look_decides_nothing(rows):
    """`GaussianCovariance`: no structure, no taper; a threshold if there is to be one."""
    found = fit(rows, GaussianCovariance, bandwidth=WIDTH)
    assert found.release_.making.structure is None
    assert found.release_.making.threshold == 0
    assert found.release_.selected.shape[1] == Candidates.band(D, WIDTH).n_pairs
    some = fit(rows, GaussianCovariance, bandwidth=8, threshold="universal")
    assert 0 < some.release_.making.threshold < 0.3
    assert some.covariance_.nnz < D + 2 * some.release_.selected.shape[1]
    own = fit(rows, GaussianCovariance, bandwidth=WIDTH, threshold=0.4)
    assert own.release_.making.threshold == 0.4


def released(pairs, places, sigma):
    return PairValues(*places, pairs, np.ones(places[1].max() + 1), (sigma, 4 / 3 * sigma), 0.0)


def noisy_band(d, width, truth, sigma, seed=3):
    """Values of a band of which only the lags of `truth` are not zero."""
    places = Candidates.band(d, width).pairs
    lags = places[1] - places[0]
    noise = sigma * np.random.default_rng(seed).standard_normal(len(lags))
    return released(np.append(0.0, truth)[np.minimum(lags, len(truth))] + noise, places, sigma)


def test_the_width_is_where_energy_ends():
    truth = np.append(np.full(5, 0.4), 0.0)
    values = noisy_band(500, 20, truth, 0.05)
    taper, _, lost = best_taper(Lags.of(values, 0.05, 20), 500, np.full(21, 0.05))
    assert taper == Taper(5, 6)
    assert lost < 0.1
    every = noisy_band(500, 5, truth[:5], 0.05)
    assert best_taper(Lags.of(every, 0.05, 5), 500, np.full(6, 0.05))[0] == Taper(5, 6)
    nothing = noisy_band(500, 20, np.zeros(1), 0.05)
    assert best_taper(Lags.of(nothing, 0.05, 20), 500, np.full(21, 0.05))[0].last <= 2


def test_slow_decay_is_tapered_and_the_estimate_says_so(rows):
    """The taper is in the document; values and intervals are of the covariances themselves."""
    weak = noisy_band(500, 20, np.append(0.3 * 0.85 ** np.arange(20), 0.0), 0.15)
    chosen = choose(weak, 0.15, 500, 20)
    assert chosen.taper is not None
    found = fit(rows, bandwidth=WIDTH)
    made = found.release_.parameters | {"taper": [1, 3]}
    tapered = replace(found.release_, parameters=made)
    before, after = (estimate(each).toarray() for each in (found.release_, tapered))
    for lag, weight in enumerate((1.0, 1.0, 0.5, 0.0)):
        np.testing.assert_allclose(np.diag(after, lag), weight * np.diag(before, lag))
    for one, other in zip(
        covariance_intervals(found.release_, 0.9), covariance_intervals(tapered, 0.9), strict=True
    ):
        kept = after != 0  # intervals of zeros include zero
        np.testing.assert_array_equal(one.toarray()[kept], other.toarray()[kept])
    for odd in ([3, 1], "1, 3", [1], None, [0.5, 2]):
        whole = replace(tapered, parameters=made | {"taper": odd})
        np.testing.assert_array_equal(estimate(whole).toarray(), before)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bandwidth": "up-to:"}, "bandwidth must be an integer"),
        ({"bandwidth": "up-to:2", "candidate_pairs": [(0, 1)]}, "must not be given both"),
        ({"bandwidth": "up-to:2", "mechanism": "gaussian"}, "leave mechanism out to find"),
        ({"mechanism": "adaptive", "bandwidth": 2}, "which looks at all pairs"),
        ({"positive_semidefinite": True, "bandwidth": 2}, "sparse_output=False"),
    ],
)
def test_what_cannot_be_is_refused_before_a_record_is_read(options, words):
    with pytest.raises(ParameterError, match=words):
        PrivateSparseCovariance(**BUDGET | options)._fit_plan(N, D)


def test_parameters_need_candidates_that_fit():
    inputs = ReleaseInputs(100, 5, 2, 1.0, 1e-6)
    with pytest.raises(ParameterError, match="pass bandwidth or"):
        candidate_parameters(inputs)
    listed = Candidates.of_pairs(5, np.array([0]), np.array([4]))
    known = ReleaseInputs(100, 5, 2, 1.0, 1e-6, candidates=listed)
    with pytest.raises(ParameterError, match="no bandwidth"):
        candidate_parameters(known, adaptive_width=True)


def test_too_many_candidates_of_units_are_refused(monkeypatch, rows):
    monkeypatch.setattr(room, "MOST_PRODUCTS", 50)
    with pytest.raises(CapacityError, match="use fewer candidates"):
        fit(rows, bandwidth=WIDTH, unit=np.repeat(np.arange(N // 2), 2))
