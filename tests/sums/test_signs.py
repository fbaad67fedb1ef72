"""Signs as bits: the integers of a literal definition, whatever is zero and however rows come."""

from __future__ import annotations

import dask.array
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from exact_sums import sign_gram
from hushcov.engines.records import DeviceRecords
from hushcov.kernel.queries import PairSigns
from hushcov.kernel.records.base import CentredRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.scores import TILT_UNIT
from hushcov.kernel.sums import rows, signs
from hushcov.kernel.sums.gram import pair_sums
from hushcov.kernel.sums.signs import PackedSigns, candidate_sign_sums, sign_gram_and_sums
from hushcov.tables.progress import WatchedRecords
from hushcov.tables.sources import ArrayRecords, open_records

ADVERSARIAL = [0.0, -0.0, 5e-324, -5e-324, 1.5, -1.5, 1e308, -1e308, 1.0, -1.0]
coordinates = st.sampled_from(ADVERSARIAL) | st.floats(allow_nan=False, allow_infinity=False)
tables = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: hnp.arrays(np.float64, shape, elements=coordinates)
)


def table(n, d, zeros=0.3, seed=0):
    """Rows of which a share is zero; one feature is always zero, and one never."""
    random = np.random.default_rng([seed, n, d])
    X = random.standard_normal((n, d)) + 0.2 * random.standard_normal((n, 1))
    X[random.random((n, d)) < zeros] = 0.0
    X[:, d // 2], X[:, -1] = 0.0, np.where(X[:, -1] == 0, -1.0, X[:, -1])
    return X


def literal(X, start=0, stop=None):
    """Products of signs and sums of signs by their definition, above the diagonal."""
    s = [[(x > 0) - (x < 0) for x in row] for row in X.tolist()]
    d = X.shape[1]
    products = [
        [sum(row[i] * row[j] for row in s) if j >= i else 0 for j in range(start, d)]
        for i in range(start, d if stop is None else stop)
    ]
    return products, [sum(row[i] for row in s) for i in range(start, d)]


def found(records, start=0, stop=None):
    products, sums = sign_gram_and_sums(records, start, stop)
    kept = PackedSigns(records)
    np.testing.assert_array_equal(kept.gram(start, stop), products)
    np.testing.assert_array_equal(kept.sums[start:], sums)
    assert products.dtype == sums.dtype == np.int64
    return products.tolist(), sums.tolist()


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 200),
    d=st.integers(1, 6),
    zeros=st.sampled_from([0.0, 0.02, 0.7]),
    block_rows=st.integers(1, 90),
    threads=st.integers(1, 5),
    data=st.data(),
)
def test_blocks_threads_and_panels_change_nothing(n, d, zeros, block_rows, threads, data):
    X = table(n, d, zeros, seed=1)
    start = data.draw(st.integers(0, d - 1))
    stop = data.draw(st.integers(start + 1, d))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_SMALLEST_PART", 1)
        patch.setattr(signs, "threads", lambda: threads)
        assert found(ArrayRecords(X[::-1], block_rows=block_rows), start, stop) == literal(
            X, start, stop
        )


@pytest.mark.parametrize("tile_rows", [1, 512, 1024])
def test_tiles_change_nothing(monkeypatch, tile_rows):
    monkeypatch.setattr(signs, "TILE_ROWS", tile_rows)
    X = table(1700, 3, 0.001)
    assert found(ArrayRecords(X, block_rows=700)) == literal(X)
    assert len(PackedSigns(ArrayRecords(X))._tiles) == {1: 4, 512: 4, 1024: 2}[tile_rows]


def test_a_zero_taken_for_a_sign_is_noticed(monkeypatch):
    """The planted mistake of the fast path: cells with zeros counted as if they had none."""
    X = table(600, 4, 0.01)
    right = signs._finish

    def careless(positive, nonzero, d, full, sums):
        right(positive, nonzero, d, full, sums)
        full[:] = True

    monkeypatch.setattr(signs, "_finish", careless)
    assert sign_gram(ArrayRecords(X)).tolist() != literal(X)[0]


@pytest.mark.parametrize(
    ("largest", "dtype"),
    [(1, np.int32), (2**31 - 1, np.int32), (2**31, np.int64), (2**53, np.int64)],
)
def test_four_bytes_where_they_are_enough(largest, dtype):
    sums = np.array([[largest, -largest], [-largest, largest]])
    found = pair_sums(lambda start, stop: sums, 2, largest)
    assert found.dtype == dtype
    assert found.tolist() == [-largest]


# Scores


SOURCES = {
    "memory": ArrayRecords,
    "tensor": lambda X: open_records(torch.from_numpy(X)),
    "device": lambda X: DeviceRecords(ArrayRecords(X), "cpu"),
    "cluster": lambda X: open_records(dask.array.from_array(X, chunks=(100, X.shape[1]))),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("panel_bytes", [1, 200, 2**30])
def test_scores_are_the_same_from_everywhere(monkeypatch, source, kept, panel_bytes):
    X = table(257, 9)
    monkeypatch.setattr(signs, "signs_kept", lambda n, d: kept)
    monkeypatch.setattr(signs, "PACKED_PANEL_BYTES", panel_bytes)
    monkeypatch.setattr("hushcov.kernel.sums.gram.PANEL_BYTES", panel_bytes)
    passes = []
    records = WatchedRecords(SOURCES[source](X), lambda: passes.append(1), lambda n: None)
    expected = np.abs(np.array(literal(X)[0])[np.triu_indices(9, 1)])
    np.testing.assert_array_equal(np.abs(PairSigns(9).exact(records)), expected)
    assert (len(passes) == 1) == (panel_bytes == 2**30 or (kept and source == "memory"))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("panel_bytes", [1, 300, 2**30])
def test_scores_about_tilts(monkeypatch, kept, panel_bytes):
    """By fractions in Python's integers."""
    X, n, d = table(131, 7), 131, 7
    monkeypatch.setattr(signs, "signs_kept", lambda n, d: kept)
    monkeypatch.setattr(signs, "PACKED_PANEL_BYTES", panel_bytes)
    monkeypatch.setattr("hushcov.kernel.sums.gram.PANEL_BYTES", panel_bytes)
    tilt = (0, 5, -7, 1024, -1024, 300, -299)
    products, sums = literal(X)
    expected = []
    for i in range(d):
        for j in range(i + 1, d):
            shift = n * tilt[i] * tilt[j] - TILT_UNIT * (sums[i] * tilt[j] + tilt[i] * sums[j])
            size = abs(TILT_UNIT**2 * products[i][j] + shift) * PairSigns(d, tilt).resolution
            expected.append(size // ((TILT_UNIT + abs(tilt[i])) * (TILT_UNIT + abs(tilt[j]))))
    scores = PairSigns(d, tilt)
    found = np.abs(scores.exact(ArrayRecords(X)))
    assert found.tolist() == expected


@pytest.mark.parametrize(("n", "d"), [(1, 1), (63, 2), (130, 7), (700, 260)])
@pytest.mark.parametrize("shift", ["none", "any", "on the grid"])
def test_signs_of_compact_rows_are_those_of_their_numbers(n, d, shift):
    """Compared as integers, without making doubles of them; features of scale 0 have no sign."""
    generator = np.random.default_rng(n + d)
    X = table(n, d)
    centre, reach = 0.1 * generator.standard_normal(d), np.full(d, 5.0)
    scale = np.exp(generator.standard_normal(d))
    scale[d // 2] = 0.0 if d > 1 else 1.0
    moved = {
        "none": np.zeros(d),
        "any": 0.05 * generator.standard_normal(d),
        "on the grid": np.rint(3 * generator.standard_normal(d)) * scale / 512,
    }[shift]
    made = CompactRecords(ArrayRecords(X), centre, reach, scale)
    found, sums = sign_gram_and_sums(CentredRecords(made, moved, reach))
    numbers = np.vstack(list(made._blocks()))
    expected = np.sign(np.clip(numbers - moved, -reach, reach))
    np.testing.assert_array_equal(np.triu(found), np.triu(expected.T @ expected))
    np.testing.assert_array_equal(sums, expected.sum(axis=0))


@pytest.mark.parametrize("zeros", [0.0, 0.0005, 0.5])
def test_listed_pairs_have_the_numbers_of_all_pairs(zeros):
    """Plain and tilted, of pairs across cells, in any order and twice."""
    X = table(1300, 300, zeros)
    X[:512] = np.where(X[:512] == 0, 1.0, X[:512])
    i, j = np.triu_indices(300, 1)
    places = np.random.default_rng(3).integers(0, len(i), 5000)
    tilt = tuple(np.random.default_rng(4).integers(-900, 900, 300).tolist())
    for means in (None, tilt):
        records = ArrayRecords(X, block_rows=700)
        listed = PairSigns(300, means, (i[places], j[places])).exact(records)
        expected = PairSigns(300, means).exact(ArrayRecords(X))
        np.testing.assert_array_equal(listed, expected[places])
    none = np.empty(0, dtype=np.int64)
    assert len(candidate_sign_sums(ArrayRecords(X), none, none)[0]) == 0
