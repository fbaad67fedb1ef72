"""The number of records, and of complete ones, released before all else where it is not public."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fit.settings import seeded
from hushcov.calibration import calibrate_zcdp
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.fit.complete import (
    CompleteParameters,
    complete_parameters,
)
from hushcov.fit.counting import Counting, most_rows
from hushcov.inputs import ReleaseInputs
from hushcov.kernel import queries
from hushcov.kernel import session as kernel
from hushcov.kernel.accounting import ADD_REMOVE, REPLACE, Neighbours
from hushcov.kernel.noise import entropy_source
from hushcov.kernel.records.base import CompleteRecords
from hushcov.kernel.session import Session, unwrap
from hushcov.kernel.sums.counts import count_complete
from hushcov.tables.sources import ArrayRecords
from hushcov.tables.units import units_of
from sessions import session_of

SIZES = (1, 2, 3, 5, 8)


def table(n_rows=19):
    return ArrayRecords(np.arange(2.0 * n_rows).reshape(n_rows, 2))


def units():
    return units_of(np.repeat(np.arange(len(SIZES)), SIZES), sum(SIZES))


def counted_by(counting, records, entropy, units=None):
    return Session(records, counting.budget(), entropy, units)


def share_of(records, parameters, entropy):
    """The number and the share of complete records, however few there are."""
    session = session_of(records, entropy=entropy)
    query, noise = queries.CompleteRows(), (parameters.sigma,)
    noisy = session.measure(query, parameters.cost().mu, deviations=noise)
    return parameters.read(int(noisy.integers[0]))


@pytest.mark.parametrize("most", [1, 2, 4])
def test_the_count_is_that_of_bounded_units_and_its_noise_grows_with_the_bound(most):
    counting = Counting(1.0, Neighbours(REPLACE, most, "patient"))
    found, session = counting.run(counted_by(counting, table(), seeded(), units()))
    assert found.scale == math.ceil(most / 0.02)
    rows = sum(min(size, most) for size in SIZES)
    assert unwrap(session)[0].n_rows == rows
    assert found.released >= 1
    assert found.guarantee.rows_per_unit == most


# Where errors of computing are planned for twice the released number: docs/proofs/neighbours.md.


def more_than_twice(n, scale):
    """P(n > 2 n^), as on the page."""
    q = math.exp(-1 / scale)
    return q ** (n // 2 + 1) / (1 + q)


def beyond_twice(n, scale):
    """The mean of max(n - 2 n^, 0), as on the page."""
    q = math.exp(-1 / scale)
    return q ** (n / 2) / (2 * math.sinh(1 / (2 * scale)) if n % 2 else math.sinh(1 / scale))


@pytest.mark.parametrize("n", [1000, 1001, 5])
def test_how_often_and_by_how_much_the_number_is_more_than_twice_the_released_one(n):
    counting = Counting(1.0, Neighbours(REPLACE, 16, "patient"))
    found = counting.number(counted_by(counting, table(n), seeded()), counting.neighbours)
    assert found.scale == 800
    noise = np.arange(-60_000, 60_000)
    law = np.exp(-np.abs(noise) / 800) * math.tanh(1 / 1600)
    assert law.sum() == pytest.approx(1, rel=1e-12)
    beyond = np.maximum(n - 2 * np.maximum(n + noise, 1), 0)
    plain = np.maximum(n - 2 * (n + noise), 0)  # without the 1, which makes it less
    assert law[beyond > 0].sum() == pytest.approx(more_than_twice(n, 800), rel=1e-9)
    assert law @ beyond <= law @ plain == pytest.approx(beyond_twice(n, 800), rel=1e-9)
    assert beyond_twice(n, 800) <= 800 * math.exp(-n / 1600)


def test_the_number_is_more_than_twice_the_released_one_in_a_quarter_of_releases():
    assert more_than_twice(1000, 800) == pytest.approx(0.27, abs=0.005)
    assert 2**-48 * 100**2 * beyond_twice(1000, 800) == pytest.approx(1.5e-8, rel=0.02)
    assert pytest.approx(3.6e-8, rel=0.02) == 2**-48 * 100**2 * 998
    counting, entropy, draws = Counting(1.0, Neighbours(REPLACE, 16, "patient")), seeded(3), 4000
    sessions = (counted_by(counting, table(1000), entropy) for _ in range(draws))
    released = [counting.number(each, counting.neighbours).released for each in sessions]
    often = sum(2 * each < 1000 for each in released)
    law = stats.binom(draws, more_than_twice(1000, 800))
    assert law.cdf(often) > 1e-6
    assert law.sf(often - 1) > 1e-6


def test_a_count_below_one_is_one():
    counting = Counting(1e-3, Neighbours(ADD_REMOVE))
    runs = (counting.run(counted_by(counting, table(), seeded(seed)))[0] for seed in range(20))
    found = [run.released for run in runs]
    assert min(found) == 1


@pytest.mark.parametrize(
    ("counts", "most"),
    [
        *(({0: 10_000}, 1), ({0: 9_000, 4: 1_000}, 1), ({4: 10_000}, 16)),
        *(({0: 5_000, 4: 5_000}, 16), ({0: 100, 5: 10_000}, 32), ({}, 1)),
    ],
)
def test_selections_and_values_decide_how_many_rows_count(counts, most):
    noisy = np.zeros(21)
    noisy[list(counts)] = list(counts.values())
    assert most_rows(noisy, 1.0) == most


# Records with gaps: zeros in their place, and a count that one record moves by one.


NAN = np.nan
ROWS = np.array([[1.0, 2.0], [NAN, 3.0], [4.0, NAN], [NAN, NAN], [5.0, -6.0]])
coordinates = st.just(NAN) | st.sampled_from([0.0, -0.0, 5e-324, 1.7e308]) | st.floats(-9, 9)
tables = st.tuples(st.integers(2, 7), st.integers(1, 3)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def with_gaps(X, **options):
    records = ArrayRecords(X, **options)
    return records.with_gaps()


def rows_of(records):
    return np.concatenate(list(records._blocks()))


@settings(deadline=None)
@given(X=tables)
def test_equals_python(X):
    complete_rows = [row for row in X.tolist() if not any(map(math.isnan, row))]
    assert count_complete(with_gaps(X)) == len(complete_rows)
    kept = [row if row in complete_rows else [0.0] * X.shape[1] for row in X.tolist()]
    assert rows_of(CompleteRecords(with_gaps(X))).tolist() == kept


# The released share


def inputs(**changes):
    known = {"n_records": 1_000, "n_features": 3, "row_sparsity": 2, "epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**known | changes)


def warned(seed=0):
    with pytest.warns(SeededNoiseWarning):
        return entropy_source(seed)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_noise_for_half_a_percent_of_the_budget(epsilon):
    parameters = complete_parameters(inputs(epsilon=epsilon, n_records=10**6))
    assert parameters.cost().mu == 1 / parameters.sigma
    assert (parameters.sigma == 65) == (epsilon == 1.0)  # the number in the proof
    rho = 0.005 * calibrate_zcdp(epsilon, 1e-6)
    assert 1 / (2 * parameters.sigma**2) <= rho
    assert parameters.sigma == 1 or 1 / (2 * (parameters.sigma - 1) ** 2) > rho


@pytest.mark.parametrize(
    ("noise", "share"),
    [(-50, 0.4), (-30, 0.6), (-70, 0.2), (3, 1.0), (-10, 1.0), (-11, 0.79), (-99, 0.01)],
)
def test_the_share_is_the_noisy_count_over_all_within_limits(monkeypatch, noise, share):
    asked = []

    def draw(generator, sigma, size):
        asked.append((sigma, size))
        return np.array([noise])

    monkeypatch.setattr(kernel, "rounded_normal", draw)
    rows = np.where(np.arange(100)[:, None] < 90, np.ones((100, 2)), NAN)
    found = share_of(with_gaps(rows), CompleteParameters(100, 10), warned())
    assert found[:2] == (min(max(90 + noise, 0), 100), share)
    assert asked == [(10, 1)]


def test_entropy_of_another_kind_is_refused():
    with pytest.raises(ParameterError):
        share_of(with_gaps(ROWS), CompleteParameters(5, 3), np.random.default_rng(0))


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
    assert CompleteParameters(n, sigma).read(noisy)[2] is enough


def test_noise_is_not_taken_for_units_of_many_records():
    """Found in 5 of 10,000 draws at most (the law says 0.00022; a false alarm at rate 1e-6).

    With four deviations for every octave it was 0.026.
    """
    counts = np.zeros(21)
    counts[1] = 2_000
    noise = np.random.default_rng(3).laplace(0, 200, (20_000, 21))
    wrong = sum(most_rows(counts + each, math.sqrt(2) * 200) >= 16 for each in noise)
    assert wrong <= 16
