"""Every kernel of sums beside a literal implementation, on small hostile inputs.

Sizes lie around every tile, lane, panel and block; values at every limit, as missing ones, ties,
zeros of both signs, and the largest and smallest that there are.
"""

import math

import numpy as np
import pytest

from exact_sums import bounded_sums, norm_histogram, sign_gram
from hushcov.engines import int16
from hushcov.kernel.grids import INSIDE, FeatureGrid
from hushcov.kernel.records.base import CentredRecords, CompleteRecords, GroupedRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums import bounded, counts, gram, rows, signs
from hushcov.kernel.sums.bounded import fourth_sums_of
from hushcov.kernel.sums.products import MOST_PRODUCTS
from hushcov.tables.sources import ArrayRecords

LARGEST = np.finfo(np.float64).max
TINY = 5e-324
ENDS = (2.0**-64, 2.0**-65, 1.0, 2.0**63, 2.0**64)
SIZES = [0.0, TINY, LARGEST, 1.5, *ENDS, *(math.nextafter(each, 0.0) for each in ENDS)]
VALUES = np.array([*SIZES, *(-each for each in SIZES)])


def hostile(n_rows, n_features, seed=0):
    """Return rows with all kinds of numbers."""
    random = np.random.default_rng([seed, n_rows, n_features])
    drawn = 3 * random.standard_normal((n_rows, n_features))
    odd = random.random((n_rows, n_features)) < 0.4
    drawn[odd] = random.choice(VALUES, odd.sum())
    return drawn


# Rows.


def literal_integers(x, centre, reach, grid):
    """Centre, clip and round to even, in this order."""
    multipliers, half_width = grid
    with np.errstate(over="ignore"):
        near = np.clip(x - centre, -reach, reach) * multipliers
    return np.rint(np.clip(near, -half_width, half_width)).astype(np.int64)


def test_norms_are_counted_by_half_octaves_of_their_squares():
    root = math.sqrt(0.5)
    for exponent in (-3, 0, 1, 2, 7, 52):
        for mantissa in (0.5, math.nextafter(root, 0), root, math.nextafter(1.0, 0.0)):
            expected = 2 * exponent + (mantissa >= root)
            square = np.array([0.0, math.ldexp(mantissa, exponent)])
            assert rows.norm_bins(square, 200).tolist() == [0, expected]
            assert rows.norm_bins(square, 4).tolist() == [0, min(expected, 3)]


def test_squares_of_a_unit_are_added_within_the_error_that_is_proved():
    for n in (0, 1, 2**12 - 1, 2**12, 2**12 + 1, 2**13 + 1):
        v = np.stack([np.arange(n) % 7 - 3.0, np.ones(n)])
        assert bounded.near_square_norms(v).tolist() == (v * v).sum(axis=1).tolist()
    together = bounded._SQUARES_TOGETHER  # roundings after each other, in a part and of parts
    assert (together + MOST_PRODUCTS / together) * 2.0**-53 < 2.0**-40


# Counts.


def literal_octave(y, nothing):
    """Bins of `signed_octaves`."""
    if abs(y) < 2.0**-64 or abs(y) <= nothing:
        return 256
    place = min(math.frexp(y)[1] - 1, 63) + 64
    return place + 128 * (y > 0)


COLUMNS = {
    "all": range(6),
    "first": (0, 1, 2),
    "some": (4, 0, 5),
    "reversed": range(5, -1, -1),
    "one": (3,),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_octaves_are_counted_whatever_is_missing(name):
    columns = np.array(COLUMNS[name])
    size = len(columns)
    for n in (1, 4, 30):
        x = hostile(n, 6)
        x[1::4, 2] = math.nan
        kept, records = np.isfinite(x).all(axis=1), CompleteRecords(ArrayRecords(x).with_gaps())
        for centre in (np.zeros(size), np.arange(size) / 4 - 0.5):
            for nothing in (np.zeros(size), np.linspace(0.0, 2.0, size)):
                expected = np.zeros((size, 257), dtype=np.int64)
                for row in x[kept]:
                    for i, column in enumerate(columns):
                        y = float(row[column]) - float(centre[i])
                        expected[i, literal_octave(y, nothing[i])] += 1
                found = counts.signed_octaves(records, centre, nothing, columns)
                assert np.array_equal(found, expected)


def test_cells_edges_norms_and_signs_are_counted():
    x = hostile(25, 3)
    x[::5] = [[0.5, -1.0, 2.0]]
    records, columns = ArrayRecords(x, block_rows=7), np.array([2, 0])
    starts, widths, firsts = np.array([-1.0, 0.5]), np.array([0.5, 0.25]), np.array([-2.0, 0.0])
    edges = np.array([[-1.0, 0.0, 0.0, 2.0], [-5.0, 0.5, 0.5, LARGEST]])
    cells, between = np.zeros((2, 9), dtype=np.int64), np.zeros((2, 5), dtype=np.int64)
    for row in x.tolist():
        for i, column in enumerate(columns):
            cell = (row[column] - float(starts[i])) / float(widths[i])
            cell = math.floor(cell) - firsts[i] if math.isfinite(cell) else -1
            if 0 <= cell < 9:
                cells[i, int(cell)] += 1
            between[i, sum(edge <= row[column] for edge in edges[i])] += 1
    found = counts.cell_counts(records, columns, starts, widths, firsts, 9)
    assert np.array_equal(found, cells)
    assert np.array_equal(counts.edge_counts(records, columns, edges), between)
    assert counts.sign_sums(records).tolist() == np.sign(x).sum(axis=0).tolist()
    grid = FeatureGrid(np.array([1.0, 2.0, 0.0]), 4.0, 50)
    y = literal_integers(x, 0.0, LARGEST, grid.numbers)
    squares = sorted({0, *(y**2).sum(axis=1).tolist()})[:-1:2]
    expected = [sum(edge < q for edge in squares) for q in (y**2).sum(axis=1)]
    both = records.map_sum(counts.norm_counts_of(records, grid, tuple(squares), signs=True))
    assert both[:3].tolist() == np.sign(x).sum(axis=0).tolist()
    assert both[3:].tolist() == np.bincount(expected, minlength=len(squares) + 1).tolist()
    assert norm_histogram(records, grid, tuple(squares)).tolist() == both[3:].tolist()


# Products and bounded rows.


def literal_row(z, square, bound):
    """Return numbers scaled down to a bound and truncated, and the factor."""
    factor = 1.0 if square <= bound**2 else bound / math.sqrt(square) * INSIDE
    return [int(each * factor) for each in z], factor


def test_a_unit_that_stays_too_long_is_scaled_down_once_more():
    """Nothing is truncated at half its size, and the bound is to be kept strictly."""
    records = GroupedRecords(
        ArrayRecords(np.full((1, 1), 200.0)), np.zeros(1, int), np.ones(1, bool), 2
    )
    found = gram.unit_bounded_gram(records, FeatureGrid(np.ones(1), 200, 200), 10_000, 2)
    assert found.tolist() == [[99**2]]
    assert 2.0**-30 <= 1 - gram._UNIT_INSIDE < 2.0**-29  # sums of squares are within 2**-31


def test_rows_and_their_fourth_powers_are_bounded():
    x = hostile(60, 5)
    grid, bound = FeatureGrid(np.array([1.0, 0.5, 0.0, 2.0, 1.0]), 8.0, 100), 77
    y = literal_integers(x, 0.0, LARGEST, grid.numbers)
    y[:3] = [[0] * 5, [77, 0, 0, 0, 0], [46, 46, 0, 42, 1]]
    x = np.where(np.arange(60)[:, None] < 3, y / np.maximum(grid.multipliers, 1e-9), x)
    records = ArrayRecords(x, block_rows=9)
    shortened = [literal_row(row, sum(each**2 for each in row), bound)[0] for row in y.tolist()]
    assert bounded_sums(records, grid, bound).tolist() == np.sum(shortened, axis=0).tolist()
    z = np.array(shortened)
    assert gram.row_bounded_gram(records, grid, bound).tolist() == (z.T @ z).tolist()
    powers = [[min(math.isqrt(1000 << 9), each**2) ** 2 >> 9 for each in row] for row in y.tolist()]
    short = [literal_row(row, sum(each**2 for each in row), 1000)[0] for row in powers]
    found = records.map_sum(fourth_sums_of(records, grid, 9, 1000))
    assert found.tolist() == np.sum(short, axis=0).tolist()


# Signs.


@pytest.mark.parametrize("n", [1, 4, 5, 63, 66, 512, 515, 1030])
@pytest.mark.parametrize("d", [1, 2, 128, 131, 260])
def test_signs_are_multiplied_whatever_is_zero(n, d):
    random = np.random.default_rng([n, d])
    x = random.choice([-2.0, 2.0], (n, d))
    for zeros in ("none", "last of a word", "first of a word", "many"):
        if zeros == "last of a word":
            x[63::64] = 0.5
        elif zeros == "first of a word":
            x = np.where(x == 0.5, 2.0, x)
            x[::64] = 0.5
        elif zeros == "many":
            x[random.random((n, d)) < 0.3] = 0.5
            x[:, d // 2], x[n // 2, 0] = 0.5, -LARGEST
        s = np.sign(x - 0.5)
        records = CentredRecords(ArrayRecords(x, block_rows=n - n // 3), np.full(d, 0.5))
        whole, packed = s.T @ s, signs.PackedSigns(records)
        assert packed.sums.tolist() == s.sum(axis=0).tolist()
        spans = ((0, d), (d // 2, d), (min(31, d - 1), min(33, d)), (d - 1, d))
        for start, stop in spans if zeros == "many" else spans[:1]:
            expected = np.triu(whole[start:stop, start:])
            assert np.array_equal(np.triu(packed.gram(start, stop)), expected)
            found, sums = signs.sign_gram_and_sums(records, start, stop)
            assert np.array_equal(np.triu(found), expected)
            assert np.array_equal(sums, s.sum(axis=0)[start:])
        left, right = random.integers(0, d, (2, 9))
        found, sums = signs.candidate_sign_sums(records, left, right)
        assert found.tolist() == whole[left, right].tolist()
        assert sums.tolist() == s.sum(axis=0).tolist()


@pytest.mark.parametrize("n", [1, 5, 64, 70])
def test_signs_of_compact_rows_leave_out_what_is_missing(n):
    x = np.random.default_rng(n).integers(-3, 4, (n, 130)) / 4.0
    x[::3, 7] = math.nan
    about = np.full(130, 0.25), np.linspace(0.0, 9.0, 130)
    records = CompleteRecords(ArrayRecords(x).with_gaps())
    compact = CompactRecords(records, np.zeros(130), np.full(130, 50.0), np.full(130, 128.0))
    expected = np.sign(np.where(about[1] > 0, x - 0.25, 0.0))
    expected[::3] = 0
    found = sign_gram(CentredRecords(compact, *about))
    assert np.array_equal(np.triu(found), np.triu(expected.T @ expected))


# Integers of two bytes.


@pytest.mark.parametrize("kind", ["largest", "2**31", "2**31 - 1", "random", "small", "odd"])
@pytest.mark.parametrize(
    ("n", "d"), [(1, 1), (2, 7), (3, 40), (8, 40), (255, 33), (256, 32), (257, 65), (90, 200)]
)
def test_chunks_of_integers_end_before_a_sum_has_no_room_and_not_earlier(kind, n, d):
    random = np.random.default_rng(n)
    z = random.integers(-3, 4, (n, d)).astype(np.float64)
    column = {
        "largest": [32767.0, -32767.0],
        "2**31": [16384.0],
        "2**31 - 1": [23169.0, -23169.0, 32757.0, 926.0],
        "odd": [23340.0, 23340.0, 0.0],
    }
    if kind in column:
        z[:, random.integers(0, d, 5)] = np.resize(column[kind], n)[:, None]
    elif kind == "random":
        z = np.rint(random.uniform(-9000, 9000, (n, d)))
    words, ends = int16.empty_words(-(-n // 256), d)
    words[:], ends[:] = -1, 7
    int16.pack_rows(z, words, ends)
    for strip in range(len(words)):
        own = z[256 * strip : 256 * (strip + 1)].astype(np.int64)
        expected, sums = [], np.zeros(d, dtype=np.int64)
        for pair in range(0, len(own), 2):
            more = (own[pair : pair + 2] ** 2).sum(axis=0)
            if pair and (sums + more).max() >= 2**31:
                expected.append(pair // 2)
                sums[:] = 0
            sums += more
        expected.append(-(-len(own) // 2))
        assert ends[strip, : len(expected)].tolist() == expected
        assert not ends[strip, len(expected) :].any()
        padded = np.concatenate([own, np.zeros((len(own) % 2, d))])
        assert np.array_equal(int16.unpacked(words[strip], d)[: len(padded)], padded)
    if int16.vector_words():
        panels = int16.empty_gram(d)
        int16.add_products(words, ends, panels)
        whole = z.astype(np.int64)
        assert np.array_equal(int16.whole(panels, d), whole.T @ whole)
