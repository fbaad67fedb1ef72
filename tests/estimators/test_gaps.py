"""Fits on records of which some are missing: unbiased, charged, and refused where they must be."""

import math
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.base import clone

from estimators.settings import BUDGET, ESTIMATORS, TRUTH, D, fit, make
from hushcov import (
    GaussianCovariance,
    MultiscaleCovariance,
    PrivateSparseCovariance,
    ScreenedCovariance,
    load,
)
from hushcov.exceptions import DataError, SeededNoiseWarning, TooFewCompleteError
from hushcov.fit.complete import CompleteParameters, complete_parameters, read_count
from hushcov.kernel.accounting import Gaussian
from hushcov.ledger import Ledger
from hushcov.postprocess import sampling_sd
from hushcov.release.document import Making, complete_words
from hushcov.simulate import gaussian_records
from hushcov.tables.files import FileRecords
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


def test_scales_intervals_and_noise_are_those_of_complete_records(rows):
    estimator = make(GaussianCovariance, epsilon=4.0, assume_centered=True)
    halved = rows[0].copy()
    halved[::2, 0] = np.nan
    scale = fit(estimator, with_gaps(halved)).feature_scale_
    # 0.71 if zeros were counted; the laws that scales are fitted to have half their values zero.
    np.testing.assert_allclose(scale, 1.0, atol=0.15)
    fitted = fit(make(GaussianCovariance, epsilon=10.0, assume_centered=True), with_gaps(rows[1]))
    lower, upper = fitted.covariance_interval(0.95)
    width = np.diag(upper - lower) / 2
    variance = np.diag(fitted.release_.covariance())
    sampling = sampling_sd(variance, (variance, variance), of_complete(rows[1])[1])
    expected = 1.959964 * np.hypot(sampling, np.diag(fitted.noise_sd_))
    np.testing.assert_allclose(width, expected, rtol=0.01)
    ratios = [
        fit(make(ScreenedCovariance), data).release_.noise_sd
        for data in (*rows[:1], with_gaps(rows[1]))
    ]
    # The count has noise of its own, which is that of variances as well.
    pair, diagonal = ratios[1]
    without = math.sqrt(diagonal**2 - (65 / of_complete(rows[1])[1]) ** 2)
    found = [ratios[0][0] / ratios[0][1], pair / without]
    assert found == pytest.approx([0.75] * 2, rel=0.01)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("scale", [1.0, None])
def test_the_count_is_part_of_the_guarantee(cls, scale, rows, monkeypatch):
    estimator = make(cls, feature_scale=scale, assume_centered=True)
    plain = fit(clone(estimator).set_params(drop_nulls=False), rows[0]).release_.guarantee
    runs, planned = [], cls._planned
    monkeypatch.setattr(cls, "_planned", lambda *a: runs.append(planned(*a)) or runs[-1])
    guarantee = fit(clone(estimator), with_gaps(rows[0])).release_.guarantee
    inputs = estimator._public_inputs(N, D)
    event = Gaussian(complete_parameters(inputs).cost().mu)
    # All of it: the count, then what was spent on scales, then the mechanism's own events.
    scales = [event.mu for event in plain.events[: scale is None]]
    assert inputs.before == pytest.approx(math.hypot(event.mu, *scales))
    assert [each.mu for each in guarantee.events[: len(scales) + 1]] == [event.mu, *scales]
    (run,) = runs
    assert run.parameters.inputs.before == inputs.before
    assert event not in plain.events
    assert guarantee.transcript_epsilon <= guarantee.epsilon == BUDGET["epsilon"]
    assert guarantee.delta == BUDGET["delta"]


def test_files_with_nulls(tmp_path, rows):
    holes = rows[1][:2_000]
    columns = {f"x{i}": pa.array(column, from_pandas=True) for i, column in enumerate(holes.T)}
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet")
    options = {"feature_scale": 1.0, "epsilon": 4.0}
    memory = fit(make(GaussianCovariance, **options), with_gaps(holes))
    records = FileRecords(tmp_path / "x.parquet", block_rows=77)
    files = fit(make(GaussianCovariance, **options), records)
    np.testing.assert_array_equal(files.release_.integers, memory.release_.integers)
    assert files.release_.unit == memory.release_.unit
    with pytest.raises(DataError, match=r"columns 'x0', .* have nulls"):
        fit(make(GaussianCovariance, **options, drop_nulls=False), tmp_path / "x.parquet")


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


@pytest.mark.slow
def test_nulls_are_an_error_in_the_calibrated_mechanism(rows):
    calibrated = MultiscaleCovariance(**BUDGET, scale=2.0, constants="calibrated", random_state=0)
    with pytest.warns(SeededNoiseWarning), pytest.raises(DataError, match="some are NaN"):
        calibrated.fit(with_gaps(rows[1]))


def test_nulls_are_an_error_where_nobody_counts(rows):
    promised = make(GaussianCovariance, drop_nulls=False)
    with pytest.raises(DataError, match="no-nulls"):
        fit(promised, with_gaps(rows[1]))


def test_a_count_within_its_noise_of_all_changes_nothing():
    """A share is 1 down to two deviations below all records; beyond, variances have its noise."""
    parameters = CompleteParameters(1_000, 10)
    shares = {noisy: read_count(noisy, parameters).share for noisy in (1_050, 980, 979, 500, 0)}
    assert shares == {1_050: 1.0, 980: 1.0, 979: 0.979, 500: 0.5, 0: 0.01}
    said = {noisy: complete_words(read_count(noisy, parameters).to_dict()) for noisy in shares}
    assert [noisy for noisy in said if "known to be often empty" in said[noisy]] == [979, 500, 0]


def test_what_is_said_of_few_complete_records_counts_the_noise_of_all():
    complete = {"released": 800, "of": 1_000, "noise_sd": 10}
    counted = {"released": 1_000, "noise_sd": 90.0, "unit": "record"}
    counted |= {"max_rows_per_unit": 1, "relation": "add-remove"}
    public, private = Making(complete=complete), Making(complete=complete, counted=counted)
    assert (public.few_complete, private.few_complete) == (True, False)
    assert "To use more" in public.complete_words
    assert "To use more" in private.complete_words
    near = {**complete, "released": 850}
    assert "To use more" not in Making(complete=near, counted=counted).complete_words
    assert not Making(complete={**complete, "released": 910}).few_complete


def test_infinite_values_are_missing_unless_they_are_an_error(rows):
    infinite = np.where(np.isnan(rows[1]), np.inf, rows[1])
    found = [fit(make(GaussianCovariance), X).release_.integers for X in (infinite, rows[1])]
    assert np.array_equal(*found)
    with pytest.raises(DataError, match=r"infinite.*make these values empty"):
        fit(make(GaussianCovariance).set_params(on_invalid="raise"), infinite)


def test_neighbours_of_which_one_misses_a_value_have_close_releases(rows):
    """The same noise, so that what differs are the sums of one record and the count."""
    other = rows[0].copy()
    other[3, 1] = np.nan
    options = {"feature_scale": 1.0, "threshold": None, "row_sparsity": D, "assume_centered": True}
    fits = [fit(make(GaussianCovariance, **options), X) for X in (rows[0], other)]
    assert fits[0].n_records_ == fits[1].n_records_ == N
    difference = np.abs(fits[0].covariance_ - fits[1].covariance_).max()
    assert 0 < difference < 0.01  # one record of 20,000, of norm below 7


def test_a_release_of_records_too_few_to_be_counted_is_written_and_read(tmp_path):
    """It has no part for a count that was not made."""
    X = np.random.default_rng(0).normal(size=(300, 40))
    est = fit(make(PrivateSparseCovariance, epsilon=0.5), X, hopeless=True)
    assert est.release_.making.complete["noise_sd"] == 0
    est.save(tmp_path / "release")
    assert load(tmp_path / "release").release_ == est.release_
