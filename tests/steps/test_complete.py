"""Records with gaps: zeros in their place, and a count that one record moves by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.accounting import calibrate_zcdp
from hushcov.exceptions import DataError, ParameterError, SeededNoiseWarning, TooFewCompleteError
from hushcov.inputs import ReleaseInputs
from hushcov.noise import entropy_source
from hushcov.steps import complete
from hushcov.steps.complete import (
    CompleteCount,
    CompleteParameters,
    complete_parameters,
    release_complete_count,
)
from hushcov.sums.counts import count_complete
from hushcov.sums.records import CompleteRecords
from hushcov.tables.sources import ArrayRecords

NAN = np.nan
ROWS = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [NAN, NAN], [5.0, -6.0]])
coordinates = st.just(NAN) | st.sampled_from([0.0, -0.0, 5e-324, 1.7e308]) | st.floats(-9, 9)
tables = st.tuples(st.integers(2, 7), st.integers(1, 3)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def with_gaps(X, **options):
    records = ArrayRecords(X, **options)
    records.gaps = True
    return records


def rows_of(records):
    return np.concatenate(list(records._blocks()))


@pytest.mark.parametrize("block_rows", [1, 2, 5])
def test_incomplete_records_become_zeros_and_the_others_stay(block_rows):
    records = CompleteRecords(with_gaps(ROWS, block_rows=block_rows))
    assert (records.n_records, records.n_features, records.gaps) == (5, 2, False)
    assert rows_of(records).tolist() == [[1, 2], [0, 0], [0, 0], [0, 0], [5, -6]]
    assert count_complete(with_gaps(ROWS, block_rows=block_rows)) == 2
    assert np.isnan(ROWS).sum() == 4  # the user's own rows are as they were


def test_sums_over_complete_records_are_sums_over_all():
    records = CompleteRecords(with_gaps(ROWS))
    total = records.map_sum(lambda block: block.sum(0).astype(np.int64))
    assert total.tolist() == [6, -4]


def test_without_gaps_nan_is_refused_and_with_them_infinity():
    with pytest.raises(DataError, match="finite"):
        count_complete(ArrayRecords(ROWS))
    for bad in (np.inf, -np.inf):
        infinite = with_gaps(np.array([[1.0, bad], [NAN, bad]]))
        for action in (count_complete, lambda x: rows_of(CompleteRecords(x))):
            with pytest.raises(DataError, match="finite"):
                action(infinite)


@settings(deadline=None)
@given(X=tables)
def test_equals_python(X):
    complete_rows = [row for row in X.tolist() if not any(map(math.isnan, row))]
    assert count_complete(with_gaps(X)) == len(complete_rows)
    kept = [row if row in complete_rows else [0.0] * X.shape[1] for row in X.tolist()]
    assert rows_of(CompleteRecords(with_gaps(X))).tolist() == kept


@settings(deadline=None)
@given(X=tables, data=st.data())
def test_replacing_a_record_moves_the_count_by_at_most_one_and_one_row(X, data):
    other = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    other[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    first, second = (with_gaps(table) for table in (X, other))
    assert abs(count_complete(first) - count_complete(second)) <= 1
    before, after = (rows_of(CompleteRecords(records)) for records in (first, second))
    assert before.shape == after.shape  # the number of records does not depend on the data
    assert (before != after).any(axis=1).sum() <= 1


def test_the_sensitivity_is_attained():
    other = ROWS.copy()
    other[1] = [0.0, 3.0]
    assert count_complete(with_gaps(other)) - count_complete(with_gaps(ROWS)) == 1


# The released share


def inputs(**changes):
    known = {"n_records": 1_000, "n_features": 3, "row_sparsity": 2, "epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**known | changes)


def seeded(seed=0):
    with pytest.warns(SeededNoiseWarning):
        return entropy_source(seed)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_noise_for_half_a_percent_of_the_budget(epsilon):
    parameters = complete_parameters(inputs(epsilon=epsilon))
    assert parameters.cost == 1 / parameters.sigma
    rho = 0.005 * calibrate_zcdp(epsilon, 1e-6)
    assert 1 / (2 * parameters.sigma**2) <= rho
    assert parameters.sigma == 1 or 1 / (2 * (parameters.sigma - 1) ** 2) > rho


def test_the_number_in_the_proof():
    assert complete_parameters(inputs()).sigma == 65


@pytest.mark.parametrize(
    ("noise", "share"),
    [(0, 0.4), (1, 0.6), (-1, 0.2), (3, 1.0), (99, 1.0), (-2, 0.01), (-99, 0.01)],
)
def test_the_share_is_the_noisy_count_over_all_within_limits(monkeypatch, noise, share):
    asked = []

    def draw(generator, sigma, size):
        asked.append((sigma, size))
        return np.array([noise])

    monkeypatch.setattr(complete, "rounded_normal", draw)
    found = release_complete_count(with_gaps(ROWS), CompleteParameters(5, 17), seeded())
    assert found.share == share
    # Only what is released is stored, and it is a number of records.
    noisy = 2 + noise
    assert found.noisy == noisy
    assert found.to_dict() == {"released": min(max(noisy, 0), 5), "of": 5, "noise_sd": 17}
    assert asked == [(17, 1)]


def test_the_law_of_the_share():
    """Mean and variance of the noise; noise that is off by 10 % would be found."""
    X = np.zeros((2_000, 1))
    X[::4] = NAN
    records, parameters, entropy = with_gaps(X), CompleteParameters(2_000, 20), seeded(1)
    shares = [release_complete_count(records, parameters, entropy).share for _ in range(4_000)]
    noise = np.array(shares) * 2_000 - 1_500

    def deviations(sample):
        variance = 20**2 + 1 / 12
        mean = np.mean(sample) * math.sqrt(len(sample) / variance)
        return max(abs(mean), abs(np.mean(sample**2) / variance - 1) * math.sqrt(len(sample) / 2))

    beyond = 5.03  # deviations of either of two standard normal scores, once in 10^6
    assert deviations(noise) < beyond
    assert deviations(noise * 1.1) > beyond
    assert deviations(noise * 0.9) > beyond
    assert deviations(noise + 2) > beyond


def test_bad_parameters_and_entropy():
    for bad in ((0, 3), (5, 0), (5, 1.5), (None, 3)):
        with pytest.raises(ParameterError):
            CompleteParameters(*bad)
    with pytest.raises(ParameterError):
        release_complete_count(with_gaps(ROWS), CompleteParameters(5, 3), np.random.default_rng())


@pytest.mark.parametrize(
    ("noisy", "n", "sigma", "enough"),
    [
        (1001, 100_000, 5, True),
        (1000, 100_000, 5, False),  # a share of 0.01
        (131, 1_000, 65, True),
        (130, 1_000, 65, False),  # twice the noise
        (-70, 1_000, 65, False),
    ],
)
def test_a_count_that_is_of_no_use(noisy, n, sigma, enough):
    assert CompleteCount(noisy, CompleteParameters(n, sigma)).enough is enough


def test_records_that_are_too_few_for_a_count_are_refused_from_public_numbers():
    CompleteParameters(325, 65).check_possible()
    with pytest.raises(TooFewCompleteError, match="at least 325"):
        CompleteParameters(324, 65).check_possible()
