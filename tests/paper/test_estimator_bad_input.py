"""Bad data: a typed error that never shows a value, before anything is released."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from estimators.stand_ins import RepeatedRecords
from fuzz.cases import messages
from hushcov import MultiscaleCovariance
from hushcov.exceptions import DataError, HushcovError
from hushcov.simulate import SimulatedMoments

# delta is far above 1 / n at the numbers of records that the theorem needs: insisted on here.
INSIST = {"on_large_delta": "warn"}
BUDGET = {"epsilon": 1.0, "delta": 0.1, "row_sparsity": 1, "scale": 1.0, **INSIST}
pytestmark = pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")
# Every value holds these digits, so that a leak of any of them is seen.
SECRET = "73737"
ROWS = 73737.0 + 1e-3 * np.arange(12).reshape(6, 2)

BAD_DATA = {
    "one dimension": ROWS[:, 0],
    "three dimensions": ROWS[None],
    "no dimension": ROWS[0, 0],
    "no records": ROWS[:0],
    "no features": ROWS[:, :0],
    "strings": ROWS.astype(str),
    "bytes": ROWS.astype(str).astype(bytes),
    "complex": ROWS + 1j * ROWS,
    "sparse": sparse.csr_array(ROWS),
    "objects that are words": np.array([["ab73737", 1.0], [2.0, 3.0]], dtype=object),
    "objects that are lists": [[73737.0, 2.0], [[73737.0], 3.0]],
    "ragged rows": [[73737.0, 1.0], [73737.0]],
    "dates": np.full((4, 2), "1973-07-03", dtype="datetime64[D]"),
    "nothing": None,
}


def error_of(X):
    with pytest.raises((ValueError, TypeError)) as info:
        MultiscaleCovariance(**BUDGET).fit(X)
    return info.value


@pytest.mark.parametrize("name", BAD_DATA)
def test_errors_never_show_a_data_value(name):
    assert not any(SECRET in text for text in messages(error_of(BAD_DATA[name])))


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_raises_a_typed_error(name):
    assert isinstance(error_of(BAD_DATA[name]), HushcovError)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    block = np.ones((1000, 2))
    block[617, 1] = bad

    class Records(RepeatedRecords):
        def map_sum(self, block_function, *, progress=None):
            self.repeats = 1  # the first block is enough
            return super(RepeatedRecords, self).map_sum(block_function, progress=progress)

    estimator = MultiscaleCovariance(**BUDGET)
    with pytest.raises(DataError, match="finite") as info:
        estimator.fit(Records(block, 10**6))
    assert "617" not in str(info.value)  # not even where
    assert not hasattr(estimator, "release_")


@pytest.mark.parametrize(
    "X",
    [
        ROWS > 73737,
        ROWS.astype(np.float32),
        ROWS.astype(np.int64),
        np.asfortranarray(ROWS),
        ROWS.astype(object),
        ROWS.tolist(),
    ],
    ids=["booleans", "float32", "integers", "Fortran order", "object numbers", "lists"],
)
def test_any_array_of_real_numbers_is_taken(X):
    """It gets as far as the refusal for its size, which names no value."""
    error = error_of(X)
    assert "n_records must" in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize("moments", [np.eye(2), None, [[1.0, 0.0], [0.0, 1.0]], "moments"])
def test_other_things_than_moments_are_refused(moments):
    with pytest.raises(HushcovError):
        MultiscaleCovariance(**BUDGET).fit_statistics(moments)


@pytest.mark.parametrize(
    "matrix",
    [np.ones((2, 3)), np.array([[73737.0, 1.0], [2.0, 1.0]]), np.full((2, 2), np.nan), np.ones(4)],
    ids=["not square", "not symmetric", "NaN", "one dimension"],
)
def test_simulated_moments_must_be_a_symmetric_matrix(matrix):
    with pytest.raises(DataError) as info:
        SimulatedMoments(matrix, 10**9)
    assert SECRET not in str(info.value)


def test_a_missing_or_foreign_file_is_refused(tmp_path):
    for path in (tmp_path / "none.npy", tmp_path / "table.csv", str(tmp_path)):
        assert isinstance(error_of(path), DataError)
