"""Statistics of several sites: they add up bit for bit, and files give back what was written."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import stat
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hushcov import _sums_file as saved
from hushcov.exceptions import (
    CapacityError,
    DataError,
    ForeignError,
    ParameterError,
    StatisticsError,
)
from hushcov.kernel.grids import FeatureGrid, IntegerGrid
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.gram import record_statistics
from hushcov.kernel.sums.statistics import RecordMap, Statistics
from hushcov.tables.sources import ArrayRecords

D = 3
INTEGER = RecordMap(D, IntegerGrid(4.0, 1000))
FEATURE = RecordMap(
    D,
    FeatureGrid(np.array([0.5, 1.0, 1e-100]), 6.0, 32767),
    norm_bound=40_000,
    feature_names=("weight", "größe", "x,\n"),
)
# Every entry has these digits, so that a leak of any of them is seen.
SECRET = 8675309
GRAM = np.full((D, D), SECRET) + 10**8 * np.eye(D, dtype=np.int64)


def statistics(record_map=INTEGER, n_records=1000, gram=GRAM):
    return Statistics(gram, n_records, record_map)


def public(one):
    return one.n_records, one.record_map.to_dict(), one.parts


# Adding up.

tables = st.lists(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.just(D)),
        elements=st.floats(-20, 20) | st.floats(allow_nan=False, allow_infinity=False),
    ),
    min_size=1,
    max_size=4,
)
record_maps = st.builds(
    RecordMap,
    st.just(D),
    st.builds(
        FeatureGrid, st.just(np.array([0.5, 1.0, 3.0])), st.floats(0.1, 10), st.integers(1, 32767)
    ),
    norm_bound=st.none() | st.integers(1, 60_000),
) | st.builds(
    RecordMap,
    st.just(D),
    st.builds(
        IntegerGrid, st.floats(0.1, 10), st.integers(1, 32767) | st.sampled_from([10**6, 10**12])
    ),
)


@settings(max_examples=80, deadline=None)  # the first example compiles
@given(tables=tables, record_map=record_maps, data=st.data())
def test_sites_add_up_to_all_records_in_any_order(tables, record_map, data):
    sites = [record_statistics(ArrayRecords(table), record_map) for table in tables]
    together = record_statistics(ArrayRecords(np.concatenate(tables)), record_map)
    merged = sites[0].merge(*sites[1:])
    np.testing.assert_array_equal(merged.gram, together.gram)
    assert merged.n_records == together.n_records
    assert merged.parts == frozenset().union(*(site.parts for site in sites))
    order = data.draw(st.permutations(sites))
    one_by_one = order[0]
    for site in order[1:]:
        one_by_one = site.merge(one_by_one)
    cut = data.draw(st.integers(1, len(sites)))
    tail = [order[cut].merge(*order[cut + 1 :])] if cut < len(sites) else []
    in_groups = order[0].merge(*order[1:cut], *tail)
    for other in (one_by_one, in_groups):
        assert other.gram.tolist() == merged.gram.tolist()
        assert public(other) == public(merged)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": FeatureGrid(np.array([0.5, 1.0, 2.0]), 6.0, 32767)}, "feature_scale.*1e-100 and"),
        ({"grid": FeatureGrid(FEATURE.grid.feature_scale, 6.5, 32767)}, "radius"),
        ({"grid": FeatureGrid(FEATURE.grid.feature_scale, 6.0, 32766)}, "half_width"),
        ({"grid": INTEGER.grid, "norm_bound": None}, "grid"),
        ({"norm_bound": 40_001}, "norm_bound .*40000 and 40001"),
        ({"norm_bound": None}, "norm_bound .*40000 and None"),
        ({"feature_names": ("weight", "x,\n", "größe")}, "feature_names .*'größe' and"),
        ({"feature_names": None}, "feature_names .*a list and None"),
    ],
)
def test_sums_of_another_map_are_not_added_and_what_differs_is_named(changes, words):
    known = {name: getattr(FEATURE, name) for name in ("grid", "norm_bound", "feature_names")}
    other = statistics(RecordMap(D, **{**known, **changes}))
    for one, two in ((statistics(FEATURE), other), (other, statistics(FEATURE))):
        with pytest.raises(DataError, match=words if one is not other else "the same") as info:
            one.merge(two)
        assert str(SECRET)[:4] not in str(info.value)


def test_no_sums_are_added_twice():
    a, b, c = statistics(), statistics(), statistics()
    with pytest.raises(DataError, match="added before"):
        a.merge(a)
    with pytest.raises(DataError, match="added before"):
        a.merge(b, c, b)
    with pytest.raises(DataError, match="added before"):
        a.merge(b).merge(c.merge(b))
    assert a.merge(b).merge(c).n_records == 3000  # once each is fine


@pytest.mark.parametrize("other", [None, GRAM, "a.sums", 7])
def test_only_statistics_are_added(other):
    with pytest.raises(DataError, match="others must") as info:
        statistics().merge(other)
    assert str(SECRET)[:4] not in str(info.value)


@pytest.mark.parametrize("parts", [None, set(), frozenset(), "abc", ["a"]])
def test_parts_are_names(parts):
    with pytest.raises(ParameterError, match="parts must be"):
        Statistics(GRAM, 1000, INTEGER, parts)


# The map.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"n_features": 0}, "n_features must be"), ({"n_features": 2.0}, "n_features must be")),
        ({"grid": 3}, "grid must be an IntegerGrid or a FeatureGrid"),
        *(({"norm_bound": 0}, "norm_bound must be"), ({"norm_bound": 1.5}, "norm_bound must be")),
        ({"grid": IntegerGrid(4.0, 10)}, "norm_bound must be left out with an IntegerGrid"),
        ({"feature_names": ["a", "b", "c"]}, "feature_names must be a tuple"),
        ({"feature_names": ("a", "b", 3)}, "feature_names must be a tuple"),
        ({"feature_names": ("a", "b")}, "feature_names must be a tuple of 3"),
    ],
)
def test_bad_maps_are_refused(changes, words):
    known = {"n_features": D, "grid": FEATURE.grid, "norm_bound": 5}
    with pytest.raises(ParameterError, match=words):
        RecordMap(**{**known, **changes})


def test_squared_norms_must_be_exact():
    grid = FeatureGrid(np.ones(2**13), 6.0, 2**20)
    assert RecordMap(2**13, grid).norm_bound is None
    with pytest.raises(CapacityError, match=r"below 2\*\*53"):
        RecordMap(2**13, grid, norm_bound=10)


class Untouchable(Records):
    def __init__(self, n_records, n_features=D):
        self.n_records, self.n_features = n_records, n_features

    def _blocks(self):
        raise AssertionError("records were read")


def test_records_that_the_map_is_not_for_are_not_read():
    with pytest.raises(DataError, match="must have 3 features, got 2"):
        record_statistics(Untouchable(10, 2), INTEGER)
    with pytest.raises(CapacityError, match=r"2\*\*62"):
        record_statistics(Untouchable(2**60), INTEGER)
    with pytest.raises(ForeignError, match="AssertionError"):
        record_statistics(Untouchable(10), INTEGER)


# Files.

SAVED = {
    "integer grid": statistics(),
    "feature grid": statistics(FEATURE),
    "one feature": Statistics(np.array([[7]]), 1, RecordMap(1, IntegerGrid(1e-99, 3))),
    "largest": Statistics(
        np.array([[2**62, -(2**62)], [-(2**62), 2**62]]), 2**62, RecordMap(2, IntegerGrid(1.0, 1))
    ),
    "wide": Statistics(
        np.array([[2**150, -3], [-3, 0]], object),
        2**62,
        RecordMap(2, IntegerGrid(1.0, IntegerGrid.finest_half_width)),
    ),
    "merged": statistics(FEATURE).merge(statistics(FEATURE), statistics(FEATURE)),
}


@pytest.mark.parametrize("name", SAVED)
def test_what_is_loaded_is_what_was_saved(tmp_path, name):
    saved = SAVED[name]
    path = tmp_path / "a.sums"
    assert saved.save(path) == path
    loaded = Statistics.load(str(path))
    assert loaded.gram.dtype == saved.gram.dtype
    assert loaded.gram.tolist() == saved.gram.tolist()
    assert public(loaded) == public(saved)
    assert not loaded.gram.flags.writeable
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.sums"]


def test_what_is_loaded_adds_up_and_remembers_what_was_added(tmp_path):
    a, b = statistics(FEATURE), statistics(FEATURE)
    a.save(tmp_path / "a")
    a.merge(b).save(tmp_path / "ab")
    loaded, both = (Statistics.load(tmp_path / name) for name in ("a", "ab"))
    np.testing.assert_array_equal(loaded.merge(b).gram, both.gram)
    for other in (a, both):
        with pytest.raises(DataError, match="added before"):
            loaded.merge(other)


def test_a_file_is_replaced_only_on_request(tmp_path):
    path = tmp_path / "a.sums"
    statistics().save(path)
    path.chmod(0o644)
    with pytest.raises(StatisticsError, match=r"exists already.*overwrite=True"):
        statistics(FEATURE).save(path)
    assert Statistics.load(path).record_map.norm_bound is None
    statistics(FEATURE).save(path, overwrite=True)
    assert Statistics.load(path).record_map.norm_bound == 40_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a.sums"
    statistics().save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(StatisticsError, match="No space left"):
        statistics(FEATURE).save(path, overwrite=True)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.sums"]


def test_places_that_hold_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(StatisticsError, match="ordinary file"):
            Statistics.load(tmp_path / name)
        with pytest.raises(StatisticsError, match="ordinary file"):
            statistics().save(tmp_path / name, overwrite=True)
    with pytest.raises(StatisticsError, match="does not exist"):
        Statistics.load(tmp_path / "none")
    with pytest.raises(StatisticsError, match="No such file"):
        statistics().save(tmp_path / "none" / "a")
    with pytest.raises(StatisticsError, match="no file can have this name"):
        statistics().save("a\0b")
    for bad in (7, None, b"a"):
        with pytest.raises(ParameterError, match="path must"):
            Statistics.load(bad)
        with pytest.raises(ParameterError, match="path must"):
            statistics().save(bad)


@pytest.fixture
def content(tmp_path):
    path = statistics(FEATURE).save(tmp_path / "good")
    return path.read_bytes()


def refused(path, content):
    """The refusal of a file with this content, which quotes nothing of it."""
    path.write_bytes(content)
    with pytest.raises(StatisticsError) as info:
        Statistics.load(path)
    message = str(info.value)
    assert message.startswith(str(path))
    for secret in (str(SECRET), "weight", "größe"):
        assert secret not in message
    assert info.value.__cause__ is None
    return message


def test_no_byte_can_change(tmp_path, content):
    path = tmp_path / "bad"
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        refused(path, bytes(damaged))


def test_a_shorter_or_longer_file_is_refused(tmp_path, content):
    path = tmp_path / "bad"
    for length in (*range(0, len(content), 3), *range(len(content) - 34, len(content))):
        refused(path, content[:length])
    for more in (b"\0", b"x" * 8, content):
        assert "longer or shorter" in refused(path, content + more)


def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "bad"
    np.save(tmp_path / "x.npy", GRAM)
    for foreign in ((tmp_path / "x.npy").read_bytes(), b"", b"\n" * 100, b"age,weight\n1,2\n"):
        assert "not a file" in refused(path, foreign)
    for version in (b"2", b"10", b"0", b"one", b"9" * 1000):
        other = content.replace(b"statistics 1\n", b"statistics " + version + b"\n", 1)
        assert "version 1" in refused(path, other)


FORGED = [
    *({"more": 1}, {"statistic": "signs"}, {"grid": "hexagonal"}, {"grid": "integer"}),
    *({"n_records": value} for value in (0, 10**30, "1000", True)),
    *({"parts": value} for value in ([], [1], [["a"]], 5)),
    *({"n_features": value} for value in (4, 3.0, 10**18)),
    *({"feature_scale": value} for value in (None, [1.0], ["a", "b", "c"])),
    *({"feature_scale": value} for value in ([-1.0, 1.0, 1.0], [[1.0], 1.0, 1.0])),
    *({"radius": None}, {"radius": float("inf")}, {"half_width": 0}),
    *({"norm_bound": value} for value in (1.5, 1)),  # none, and one that is exceeded
    *({"feature_names": value} for value in (["weight"], [1, 2, 3], "weight")),
]


def sealed(about, rest):
    body = b"hushcov statistics 1\n" + about + b"\n" + rest
    return body + hashlib.sha256(body).digest()


def test_a_description_that_cannot_be_is_refused_with_the_right_checksum_too(tmp_path, content):
    _, about, rest = content[:-32].split(b"\n", 2)
    about = json.loads(about)
    less = {name: value for name, value in about.items() if name != "norm_bound"}
    for forged in (less, *(about | changes for changes in FORGED)):
        made = sealed(json.dumps(forged).encode(), rest)
        assert "it is damaged" in refused(tmp_path / "bad", made), forged


@pytest.mark.parametrize(
    "about", [b"", b"[]", b"7", b"{", b"[" * 10**5, b"\xff", b'{"n_features": ' + b"9" * 10**4]
)
def test_a_description_that_is_none_is_refused(tmp_path, content, about):
    rest = content[:-32].split(b"\n", 2)[2]
    assert "does not describe" in refused(tmp_path / "bad", sealed(about, rest))


def test_sums_that_cannot_be_are_refused_with_the_right_checksum_too(tmp_path, content):
    _, about, rest = content[:-32].split(b"\n", 2)
    entries = np.frombuffer(rest, dtype="<i8")
    assert len(entries) == D * (D + 1) // 2
    for at, value in itertools.product(range(len(entries)), (-(2**63), 2**63 - 1)):
        forged = entries.copy()
        forged[at] = value
        refused(tmp_path / "bad", sealed(about, forged.tobytes()))
    # As it is, with a checksum computed here, it is accepted: the refusals above are not of that.
    (tmp_path / "same").write_bytes(sealed(about, rest))
    assert Statistics.load(tmp_path / "same").n_records == 1000


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
    wide.check_capacity(2**34)
    half = Statistics(gram, 2**33, wide)
    assert half.merge(Statistics(gram, 2**33, wide)).n_records == 2**34
    assert half.entry_sensitivity == 2 * 2**28
    with pytest.raises(CapacityError):
        half.merge(Statistics(gram, 2**33 + 1, wide))
    full = [Statistics(gram + 2**61, 2**33, wide) for _ in range(5)]  # together beyond 2**63
    with pytest.raises(CapacityError):
        full[0].merge(*full[1:])
    for refused in (wide.check_capacity, lambda n: Statistics(gram, n, wide)):
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
