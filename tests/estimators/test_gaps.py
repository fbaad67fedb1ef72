"""Fits on records of which some are missing: unbiased, charged, and refused where they must be."""

import re

import numpy as np
import pytest

from estimators.settings import TRUTH, D, fit, make
from hushcov import (
    GaussianCovariance,
    ScreenedCovariance,
)
from hushcov.exceptions import DataError, TooFewCompleteError
from hushcov.ledger import Ledger
from hushcov.simulate import gaussian_records
from hushcov.tables.sources import ArrayRecords

pytestmark = pytest.mark.filterwarnings("ignore:about .* records are complete")

N, MISSING = 20_000, 0.2
# Noise this many deviations away is a false alarm in 10^7 for each entry, 10^6 for ten of them.
FAR = 5.4


def with_gaps(X):
    records = ArrayRecords(X)
    records.gaps = True
    return records


@pytest.fixture(scope="module")
def rows():
    """Records of mean zero, and the same with a value missing in a fifth of them."""
    X = gaussian_records(TRUTH, N)
    rng = np.random.default_rng(1)
    holes = X.copy()
    missing = np.flatnonzero(rng.random(N) < MISSING)
    holes[missing, rng.integers(0, D, len(missing))] = np.nan
    return X, holes


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.open_dataset("visits", 3.0, 1e-5)
    return ledger


def of_complete(X):
    """What an estimate is an estimate of: the mean square of complete records, their number."""
    complete = X[~np.isnan(X).any(axis=1)]
    return complete.T @ complete / len(complete), len(complete)


@pytest.mark.parametrize("cls", [GaussianCovariance, ScreenedCovariance])
@pytest.mark.parametrize("scale", [1.0, None])
def test_estimates_with_a_fifth_of_the_records_missing(cls, scale, rows):
    """Off by the noise alone, and without the correction by the share of incomplete records."""
    options = {"feature_scale": scale, "epsilon": 4.0, "assume_centered": True}
    if cls is GaussianCovariance:
        options |= {"threshold": None, "row_sparsity": D}
    fitted = fit(make(cls, **options), with_gaps(rows[1]))
    sample, n_complete = of_complete(rows[1])
    share = n_complete / N
    assert share == pytest.approx(1 - MISSING, abs=0.02)
    shown = fitted.support_
    # Bounding norms biases the screened mechanism by about half a percent.
    reach = FAR * fitted.noise_sd_ + 0.006 * np.abs(sample)
    assert (np.abs(fitted.covariance_ - sample) < reach)[shown].all()
    uncorrected = fitted.covariance_ * share
    assert (np.abs(uncorrected - sample) > reach)[np.eye(D, dtype=bool)].all()
    assert fitted.n_records_ == N


def test_no_complete_record_at_all_says_what_was_released_and_charged(ledger):
    """It stops after the charge: that there are too few is known from the released count alone."""
    charged = {"ledger": ledger, "dataset": "visits"}
    estimator = make(GaussianCovariance, assume_centered=True, **charged)
    with pytest.raises(TooFewCompleteError) as info:
        estimator.fit(with_gaps(np.full((40_000, 2), np.nan)))
    message = str(info.value)
    assert re.match(r"about \d+ of 40,000 records are complete, released with noise", message)
    assert "was charged epsilon 1 and delta 1e-6 before" in info.value.__notes__[0]
    assert len(ledger.history("visits")) == 1
    assert not hasattr(estimator, "release_")
    with pytest.raises(TooFewCompleteError, match="paid for"):
        fit(make(GaussianCovariance), with_gaps(np.full((40_000, 2), np.nan)), hopeless=True)


def test_few_records_are_not_counted_and_nulls_are_zeros(rows):
    """By their public number, which is all that the plan knows; no null stops the fit."""
    planned = make(GaussianCovariance, assume_centered=True)._fit_plan
    assert [planned(n, D).stages[0].cost().mu for n in (324, 325)] == [0.0, 1 / 65]
    options = {"feature_scale": 1.0, "assume_centered": True, "threshold": None, "epsilon": 10.0}
    holes = np.where(np.arange(30)[:, None] % 3 == 0, np.nan, rows[0][:30])
    released = [
        fit(make(GaussianCovariance, **options), each, hopeless=True).release_
        for each in (holes, np.nan_to_num(holes))
    ]
    assert released[0].integers.tobytes() == released[1].integers.tobytes()
    assert released[0].making.complete == {"released": 30, "of": 30, "noise_sd": 0}
    assert "too few records to count" in released[0].making.complete_words
    assert all(part.name != "number of complete records" for part in released[0].making.parts)


def test_nulls_are_an_error_where_nobody_counts(rows):
    promised = make(GaussianCovariance, drop_nulls=False)
    with pytest.raises(DataError, match="no-nulls"):
        fit(promised, with_gaps(rows[1]))


def test_infinite_values_are_missing_unless_they_are_an_error(rows):
    infinite = np.where(np.isnan(rows[1]), np.inf, rows[1])
    found = [fit(make(GaussianCovariance), X).release_.integers for X in (infinite, rows[1])]
    assert np.array_equal(*found)
    with pytest.raises(DataError, match=r"infinite.*make these values empty"):
        fit(make(GaussianCovariance).set_params(on_invalid="raise"), infinite)
