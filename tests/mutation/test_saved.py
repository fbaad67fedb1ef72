"""Saved statistics: what planted faults change."""

import hashlib
import io
import json
import os
from unittest.mock import Mock

import numpy as np
import pytest

from hushcov import _sums_file as saved
from hushcov.exceptions import CapacityError, DataError, ParameterError, StatisticsError
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.sums.statistics import RecordMap, Statistics

# Statistics: what can be sums of records, and what is on the disk.

PLAIN = RecordMap(2, IntegerGrid(4.0, 5))
BOUNDED = RecordMap(2, FeatureGrid(np.ones(2), 4.0, 5), norm_bound=3)
LOOSE = RecordMap(2, FeatureGrid(np.ones(2), 4.0, 5), norm_bound=9)
SUMS = Statistics(np.eye(2, dtype=np.int64), 3, BOUNDED)


@pytest.mark.parametrize(("record_map", "most"), [(PLAIN, 25), (BOUNDED, 9), (LOOSE, 25)])
def test_sums_have_the_size_of_so_many_records_at_most(record_map, most):
    for n in (1, 4):
        top = n * most
        for entry in (top, -top, 0):
            gram = np.array([[top, entry], [entry, 0]])
            assert Statistics(gram, n, record_map).gram.tolist() == gram.tolist()
        more = top + 1
        same = ((more, 0, 0), (0, more, 0), (0, -more, 0), (0, 0, -1), (-1, 0, 5))
        for a, b, c, d in (*((a, b, b, c) for a, b, c in same), (1, 1, 0, 1)):
            with pytest.raises(DataError, match="gram must"):
                Statistics(np.array([[a, b], [c, d]]), n, record_map)


def test_sums_fit_into_integers_and_no_more():
    wide, gram = RecordMap(1, IntegerGrid(4.0, 2**14)), np.zeros((1, 1), dtype=np.int64)
    wide.check_room(2**34)
    half = Statistics(gram, 2**33, wide)
    assert half.merge(Statistics(gram, 2**33, wide)).n_records == 2**34
    assert half.entry_sensitivity == 2 * 2**28
    with pytest.raises(CapacityError):
        half.merge(Statistics(gram, 2**33 + 1, wide))
    full = [Statistics(gram + 2**61, 2**33, wide) for _ in range(5)]  # together beyond 2**63
    with pytest.raises(CapacityError):
        full[0].merge(*full[1:])
    for refused in (wide.check_room, lambda n: Statistics(gram, n, wide)):
        with pytest.raises(CapacityError):
            refused(2**34 + 1)


def test_sums_are_nobodys_to_change(tmp_path):
    gram = np.eye(2, dtype=np.int64)
    view = gram.view()
    view.setflags(write=False)
    found = [Statistics(each, 3, PLAIN) for each in (gram, view)]
    found += [found[0].merge(found[1]), Statistics.load(found[0].save(tmp_path / "a"))]
    gram[0, 0] = 7
    assert [each.gram[0, 0] for each in found] == [1, 1, 2, 1]
    assert not any(each.gram.flags.writeable for each in found)


def test_integers_of_numpy_are_taken_and_written(tmp_path):
    grid, two = FeatureGrid(np.ones(2), 4.0, 5), np.int64(2)
    found = Statistics(np.eye(2, dtype=np.int64), two, RecordMap(two, grid, two))
    same = Statistics.load(found.save(tmp_path / "a")).record_map
    assert same.to_dict() == RecordMap(2, grid, 2).to_dict()
    assert RecordMap(2, grid, 1).norm_bound == 1
    one = Statistics(np.ones((1, 1), dtype=np.int64), 1, RecordMap(1, PLAIN.grid))
    assert Statistics.load(one.save(tmp_path / "b")).gram.tolist() == [[1]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RecordMap(2, 4.0), "grid must be"),
        (lambda: RecordMap(2, PLAIN.grid, 3), "norm_bound must be left out"),
        (lambda: RecordMap(2, BOUNDED.grid, 0), "norm_bound must be"),
        (lambda: RecordMap(0, PLAIN.grid), "n_features must be"),
        (lambda: RecordMap(2, PLAIN.grid, None, ("a", 3)), "feature_names must be a tuple"),
        (lambda: Statistics(SUMS.gram, 3, SUMS), "record_map must be"),
        (lambda: Statistics(np.zeros_like(SUMS.gram), 0, PLAIN), "n_records must be"),
        (lambda: Statistics(SUMS.gram.astype(np.int32), 3, PLAIN), "gram must be an int64"),
        (lambda: Statistics(SUMS.gram.tolist(), 3, PLAIN), "gram must be an int64"),
        (lambda: Statistics(np.eye(3, dtype=np.int64), 3, PLAIN), "gram must be square"),
    ],
)
def test_what_are_no_statistics_is_refused(make, words):
    with pytest.raises((ParameterError, DataError), match=words):
        make()


def test_a_grid_is_of_one_kind_and_parts_have_names(tmp_path):
    content = Statistics(SUMS.gram, 3, RecordMap(2, BOUNDED.grid)).save(tmp_path / "a").read_bytes()
    first, about, rest = content[:-32].split(b"\n", 2)
    for changes in ({}, {"grid": "integer"}, {"feature_scale": None}, {"parts": ["a", 1]}):
        forged = json.dumps(json.loads(about) | changes).encode()
        body = b"\n".join([first, forged, rest])
        (tmp_path / "a").write_bytes(body + hashlib.sha256(body).digest())
        if changes:
            with pytest.raises(StatisticsError, match=r"no grid that is known|cannot be"):
                Statistics.load(tmp_path / "a")
        else:
            assert Statistics.load(tmp_path / "a").n_records == 3


def test_a_file_that_becomes_shorter_or_has_no_lines_is_not_read_on(tmp_path):
    content = SUMS.save(tmp_path / "a").read_bytes()

    class Limited(io.BytesIO):
        def readline(self, size=-1):
            assert 0 < size <= 2**28
            return super().readline(size)

    assert saved._read(Limited(content), len(content))[0]["n_records"] == 3
    for length in range(len(content)):
        with pytest.raises(saved.InvalidError):
            saved._read(Limited(content[:length]), len(content))


def test_a_file_is_whole_before_it_has_its_name(tmp_path, monkeypatch):
    seen, sync = [], os.fsync

    def looked(descriptor):
        if os.path.isfile(f"/proc/self/fd/{descriptor}"):
            seen.append((os.fstat(descriptor).st_size, os.path.lexists(tmp_path / "a")))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", looked)
    content = SUMS.save(tmp_path / "a").read_bytes()
    assert seen == [(len(content), False)]
    assert content[-32:] == hashlib.sha256(content[:-32]).digest()
    first, about, rest = content[:-32].split(b"\n", 2)
    assert (first, json.loads(about)["norm_bound"]) == (b"hushcov statistics 1", 3)
    assert np.frombuffer(rest, "<i8").tolist() == [1, 0, 1]


def test_statistics_larger_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "_read", Mock(side_effect=MemoryError))
    with pytest.raises(CapacityError, match="larger than memory"):
        Statistics.load(SUMS.save(tmp_path / "a"))
