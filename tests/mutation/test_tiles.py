"""Products of signs, as bits, and of integers of two bytes, beside those of plain matrices.

Sizes lie around every tile, strip, panel and word.
"""

import math

import numpy as np
import pytest

from exact_sums import sign_gram
from hushcov.engines import int16
from hushcov.kernel.records.base import CentredRecords, CompleteRecords
from hushcov.kernel.records.compact import CompactRecords
from hushcov.kernel.sums import signs
from hushcov.tables.sources import ArrayRecords

LARGEST = np.finfo(np.float64).max

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
@pytest.mark.parametrize("n", [1, 2, 3, 8, 255, 257])
def test_chunks_of_integers_end_before_a_sum_has_no_room_and_not_earlier(kind, n):
    d, random = 40, np.random.default_rng(n)
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
