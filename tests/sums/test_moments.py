"""Second moments: exact, the same for any storage, and no more sensitive than they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov.exceptions import CapacityError, DataError, ForeignError, ParameterError
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.gram import add_wide, second_moments
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.tables.sources import ArrayRecords, open_records

EXACT_ROWS = 2**53 // 32767**2

grids = st.builds(
    IntegerGrid,
    radius=st.floats(min_value=1e-3, max_value=1e3),
    half_width=st.integers(1, IntegerGrid.largest_half_width)
    | st.sampled_from([32768, 10**9 + 7, 32767 << 15, 10**12 + 39, IntegerGrid.finest_half_width]),
)
# Ordinary values and any finite float64, 1e300 and subnormals included.
coordinates = st.floats(-10, 10) | st.floats(allow_nan=False, allow_infinity=False)


tables = st.tuples(st.integers(1, 9), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def gram_in_python(X, grid):
    """Recompute with Python integers, one record and one product at a time."""
    d = X.shape[1]
    total = [[0] * d for _ in range(d)]
    for record in X.tolist():
        y = []
        for x in record:
            clipped = min(max(x, -grid.radius), grid.radius)
            y.append(round(clipped * (grid.half_width / grid.radius)))
        for i in range(d):
            for j in range(d):
                total[i][j] += y[i] * y[j]
    return total


def gram_of(X, grid, **options):
    return second_moments(open_records(X, **options), grid).gram


@given(X=tables, grid=grids)
def test_equals_python_integers(X, grid):
    assert gram_of(X, grid).tolist() == gram_in_python(X, grid)


@settings(max_examples=300)
@given(data=st.data(), X=tables, grid=grids)
def test_replacing_a_record_moves_no_entry_beyond_the_sensitivity(data, X, grid):
    neighbour = X.copy()
    row = data.draw(st.integers(0, len(X) - 1))
    neighbour[row] = data.draw(hnp.arrays(np.float64, X.shape[1], elements=coordinates))
    before, after = (second_moments(ArrayRecords(table), grid) for table in (X, neighbour))
    change = np.abs(after.gram - before.gram)
    assert change.max() <= before.entry_sensitivity
    assert change.diagonal().max() <= before.grid.half_width**2


@pytest.mark.parametrize("half_width", [1, 32767])
def test_the_sensitivity_is_attained(half_width):
    grid = IntegerGrid(1.0, half_width)
    rest = np.random.default_rng(4).standard_normal((20, 2))

    def with_record(*record):
        return second_moments(ArrayRecords(np.vstack([rest, record])), grid)

    before = with_record(1e300, 1e300)
    off_diagonal = np.abs(with_record(1e300, -1e300).gram - before.gram)[0, 1]
    on_diagonal = np.abs(with_record(0.0, 0.0).gram - before.gram)[0, 0]
    assert off_diagonal == before.entry_sensitivity == 2 * half_width**2
    assert on_diagonal == half_width**2


@pytest.mark.parametrize("extra_rows", [0, 1, 3])
def test_exact_at_and_beyond_the_largest_float64_sum(extra_rows):
    """All products at their largest, in one block; past 2**53 an odd total is no float64."""
    n = EXACT_ROWS + extra_rows
    X = np.broadcast_to(np.array([[5.0]]), (n, 1))
    total = int(gram_of(X, IntegerGrid(1.0, 32767), block_rows=n)[0, 0])
    assert total == n * 32767**2
    assert (total <= 2**53) == (extra_rows == 0)
    if extra_rows:
        assert n % 2 == 1, "the total must be odd for one float64 sum to miss it"
        assert int(float(total)) != total


def test_a_grid_too_fine_for_int64_is_refused_before_any_pass():
    class Many(Records):
        n_records, n_features = 2**40, 2

        def _blocks(self):
            raise AssertionError("data was touched")

    with pytest.raises(CapacityError, match=r"at most 2\*\*62.*IntegerGrid\.for_records"):
        second_moments(Many(), IntegerGrid(1.0, 32767))
    with pytest.raises(ForeignError, match="AssertionError"):  # it was touched: wide sums fit
        second_moments(Many(), IntegerGrid.for_records(1.0, 2**40))


@pytest.mark.parametrize("block_rows", [1, 7, 10_000])
def test_wide_sums_are_the_same_in_blocks_of_any_size(block_rows):
    X = np.random.default_rng(2).standard_normal((40, 5)) * [1, 1e-3, 5, 1e9, 0]
    for half_width in (32767 << 15, IntegerGrid.finest_half_width):
        grid = IntegerGrid(6.0, half_width)
        assert gram_of(X, grid, block_rows=block_rows).tolist() == gram_in_python(X, grid)


def test_the_digits_of_wide_sums_never_leave_64_bits():
    """Sums over all of 2**62 records add at most so many digits as these, for whole blocks."""
    for value in (-1.0, 1.0):
        block = np.full((1000, 2), 1.0)
        block[:, 1] = value
        parts = np.zeros((3, 6, 6), dtype=np.int64)
        add_wide(block, IntegerGrid(1.0, IntegerGrid.finest_half_width), parts)
        assert 0 <= parts[:2].min() <= parts[:2].max() < 2**15
        assert np.abs(parts[2]).max() <= 1000


def test_a_wide_gram_holds_python_integers_alone():
    record_map = RecordMap(1, IntegerGrid(1.0, 10**9))
    large = np.array([[10**30]], dtype=object)
    assert Statistics(large, 10**15, record_map).covariance()[0, 0] == 10**30 * (1e-9**2 / 1e15)
    for gram in (np.array([[5]]), np.array([[5.0]], object), np.array([[True]], object)):
        with pytest.raises(DataError, match="gram must"):
            Statistics(gram, 10**15, record_map)
    with pytest.raises(DataError, match="n_records"):
        Statistics(large, 10**11, record_map)
    with pytest.raises(CapacityError, match=r"2\*\*62"):
        Statistics(large, 2**62 + 1, record_map)


def test_gram_is_a_read_only_copy_and_is_not_printed():
    gram = np.array([[8675309, 0], [0, 0]])
    moments = Statistics(gram, 10, RecordMap(2, IntegerGrid(1.0, 32767)))
    gram[0, 0] = 1
    assert moments.gram[0, 0] == 8675309
    assert "8675309" not in repr(moments)
    with pytest.raises(ValueError, match="read-only"):
        moments.gram[0, 0] = 0
    with pytest.raises(AttributeError):
        moments.n_records = 3


@pytest.mark.parametrize(
    ("gram", "words"),
    [
        *(([[77]], "got list"), (np.array([[77.0]]), "got float64")),
        *((np.array([[77]], dtype=np.int32), "got int32"), (np.array([77]), "shape (1,)")),
        (np.zeros((2, 3), np.int64), "shape (2, 3)"),
        (np.zeros((0, 0), np.int64), "shape (0, 0)"),
        (np.zeros((3, 3), np.int64), "shape (3, 3)"),
        (np.array([[77, 1], [2, 77]]), "symmetric"),
        (np.array([[-77, 0], [0, 77]]), "nonnegative diagonal"),
        (np.array([[301, 0], [0, 0]]), "n_records * half_width**2"),
        (np.array([[77, -301], [-301, 77]]), "n_records * half_width**2"),
        (np.array([[77, -(2**63)], [-(2**63), 77]]), "n_records * half_width**2"),
    ],
)
def test_impossible_grams_are_refused_without_quoting_them(gram, words):
    with pytest.raises(DataError) as caught:
        Statistics(gram, 3, RecordMap(2, IntegerGrid(1.0, 10)))
    assert words in str(caught.value)
    Statistics(np.array([[300, -300], [-300, 300]]), 3, RecordMap(2, IntegerGrid(1.0, 10)))
    assert "77" not in str(caught.value)
    assert "301" not in str(caught.value)


def test_moments_need_their_public_parameters():
    record_map = RecordMap(1, IntegerGrid(1.0, 10))
    for n_records, made in ((0, record_map), (3, IntegerGrid(1.0, 10))):
        with pytest.raises(ParameterError, match=r"n_records|record_map"):
            Statistics(np.array([[1]]), n_records, made)
    with pytest.raises(ParameterError, match="grid must be"):
        second_moments(ArrayRecords([[1.0]]), 10)
