"""How often a fit reads the records: `docs/scale.md` says it."""

import numpy as np
import pytest
from sklearn.base import clone

from hushcov import CoinPressCovariance, GaussianCovariance, ScreenedCovariance
from hushcov.exceptions import SeededNoiseWarning
from hushcov.kernel.records import compact
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords

BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
KNOWN = {"assume_centered": True, "feature_scale": 1.0}
# Of the records and, where no copy is kept, of all: one look, then three times to prepare them, of
# which two look at mean squares. One more counts complete records, where there is no look that they
# can be counted in. Two further looks read them twice each.
COUNTED = ("gaussian, known", "screened, known")
READINGS = {
    "gaussian": (GaussianCovariance(**BUDGET), 2, 9),
    "gaussian, known scales": (GaussianCovariance(**BUDGET, feature_scale=1.0), 2, 9),
    "gaussian, known": (GaussianCovariance(**BUDGET, **KNOWN), 5, 5),
    "gaussian, mean known": (GaussianCovariance(**BUDGET, assume_centered=True), 2, 9),
    "screened": (ScreenedCovariance(**BUDGET, row_sparsity=2), 2, 6),
    "screened, known": (ScreenedCovariance(**BUDGET, **KNOWN, row_sparsity=2), 2, 2),
    "coinpress": (CoinPressCovariance(**BUDGET, n_steps=2), 2, 6),
}


def readings(estimator, rows):
    passes = []
    records = WatchedRecords(ArrayRecords(rows), lambda: passes.append(1), lambda _: None)
    with pytest.warns(SeededNoiseWarning):
        estimator.fit(records)
    return len(passes), estimator.release_.integers


@pytest.mark.parametrize("name", READINGS)
def test_readings_of_the_records_and_of_a_copy(name, monkeypatch):
    rows = np.random.default_rng(1).standard_normal((20_000, 6))
    rows[:, 1] += rows[:, 0]
    estimator, with_copy, without = READINGS[name]
    found, _ = readings(estimator, rows)
    assert found == with_copy + (name in COUNTED)
    estimator = clone(estimator).set_params(drop_nulls=False)
    found, integers = readings(estimator, rows)
    assert found == with_copy
    monkeypatch.setattr(compact, "_MOST_IN_MEMORY", 0)
    found, same = readings(estimator, rows)
    assert found == without
    np.testing.assert_array_equal(integers, same)
