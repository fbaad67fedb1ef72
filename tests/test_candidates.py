"""Candidate pairs: every form in which people give them, every refusal, and what is read off."""

import itertools
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist

from hushcov import GaussianCovariance, candidates, pairs_within
from hushcov.candidates import Candidates, read_candidates
from hushcov.exceptions import CapacityError, ParameterError

NAMES = ["age", "height", "weight", "pulse", "income"]
D = len(NAMES)
PAIRS = [(0, 1), (0, 2), (1, 2), (3, 4)]
MATRIX = np.zeros((D, D), dtype=bool)
MATRIX[[0, 2, 2, 4], [1, 0, 1, 3]] = True


def listed(candidates):
    return list(zip(*(each.tolist() for each in candidates.pairs), strict=True))


def read(given, *, names=NAMES, d=D):
    return read_candidates(d, candidate_pairs=given, names=names)


@st.composite
def some_pairs(draw):
    d = draw(st.integers(1, 9))
    every = list(itertools.combinations(range(d), 2))
    kept = draw(st.lists(st.sampled_from(every), max_size=40)) if every else []
    turned = [pair if draw(st.booleans()) else pair[::-1] for pair in kept]
    return d, turned


def check_literal(found, d, pairs):
    pairs = sorted(pairs)
    assert listed(found) == pairs
    assert found.n_pairs == len(pairs)
    places = np.arange(len(pairs))[::-1]
    assert list(zip(*found.pairs_at(places), strict=True)) == pairs[::-1]
    degrees = [sum(i in pair for pair in pairs) for i in range(d)]
    assert found.degrees.tolist() == degrees
    assert found.row_sparsity == 1 + max(degrees)
    assert found.reach == max((j - i for i, j in pairs), default=0)
    later = [[j for i, j in pairs if i == row] for row in range(d)]
    windows = all(each == list(range(i + 1, i + 1 + len(each))) for i, each in enumerate(later))
    assert found.contiguous == windows
    if windows:
        assert found.ends.tolist() == [i + 1 + len(each) for i, each in enumerate(later)]
    # As many features with as many partners have room for all of them, and with one less not.
    typical = found.typical_row_sparsity
    assert d * (typical - 1) >= 2 * len(pairs) > d * (typical - 2)


@settings(deadline=None, max_examples=50)
@given(given=some_pairs())
def test_pairs_in_any_order_are_read_off_as_by_plain_loops(given):
    d, pairs = given
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    check_literal(Candidates.of_pairs(d, rows, columns), d, {tuple(sorted(p)) for p in pairs})


@settings(deadline=None, max_examples=30)
@given(d=st.integers(1, 9), width=st.integers(0, 12))
def test_a_band_is_the_same_as_its_pairs(d, width):
    band = Candidates.band(d, width)
    pairs = {(i, j) for i, j in itertools.combinations(range(d), 2) if j - i <= width}
    check_literal(band, d, pairs)
    rows, columns = band.pairs
    assert band == Candidates.of_pairs(d, columns, rows)
    assert hash(band) == hash(Candidates.of_pairs(d, columns, rows))
    assert band.fingerprint == Candidates.of_pairs(d, rows, columns).fingerprint


def test_a_band_of_a_million_features_takes_memory_for_features_alone():
    tracemalloc.start()
    band = Candidates.band(10**6, 2000)
    assert band.n_pairs == 10**6 * 2000 - 2000 * 2001 // 2
    assert band.degrees.max() == 4000
    assert band.pairs_at(np.array([0, band.n_pairs - 1]))[1].tolist() == [1, 10**6 - 1]
    assert band.row_sparsity == 4001
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6 * 100


def text_file(folder, text, name="pairs.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


FORMS = {
    "candidates": Candidates.of_pairs(D, *np.array(PAIRS).T),
    "sparse matrix": sparse.csr_matrix(MATRIX),
    "sparse array of numbers": sparse.coo_array(MATRIX * 0.5 + np.eye(D)),
    "booleans": MATRIX,
    "integers": np.array([[2, 1], [1, 0], [0, 2], [4, 3], [3, 4]], dtype=np.int8),
    "pairs of positions": PAIRS,
    "groups of names": [["age", "weight", "height"], ("income", "pulse")],
    "names and positions": [("age", 1), (0, "weight"), ("height", "weight"), (3, 4)],
    "numpy names": np.array(
        [["age", "height"], ["age", "weight"], ["weight", "height"], NAMES[3:]]
    ),
    "mapping": {"body": NAMES[:3], "rest": NAMES[3:], "alone": ["age"]},
    "generator": (pair for pair in PAIRS),
    "frame of names": pd.DataFrame([[NAMES[i], NAMES[j]] for i, j in PAIRS]),
    "frame of positions": pd.DataFrame(PAIRS),
    "frame of booleans": pd.DataFrame(MATRIX, index=NAMES, columns=NAMES),
}
BY_NAME = "age{0}height\nweight{0}age\nheight{0}weight\n\n# a remark\npulse{0}income\n"
FILES = {
    "commas.csv": BY_NAME.format(","),
    "tabs.tsv": BY_NAME.format("\t"),
    "blanks.txt": BY_NAME.format("  "),
    "semicolons.csv": BY_NAME.format(" ; "),
    "groups.csv": "age,weight,height\nincome,pulse,\n",
    "titles.csv": "feature_1,feature_2\n" + BY_NAME.format(","),
    "quotes.csv": '"age","weight","height"\n"pulse","income"\n',
    "mark.csv": "\ufeff" + BY_NAME.format(","),
    "positions.csv": "0,1\n2,0\n1,2\n3,4\n",
    "positions.txt": "0 1\n2 0\n1 2\n3 4",
    "titled.csv": "i,j\n0,1\n2,0\n1,2\n3,4\n",
    "groups of positions.txt": "0 1\n0 1 2\n3 4\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    assert listed(read(FORMS[form])) == PAIRS


@pytest.mark.parametrize("name", FILES)
def test_text_files(tmp_path, name):
    path = text_file(tmp_path, FILES[name], name)
    assert listed(read(path)) == listed(read(str(path))) == PAIRS


def test_other_files(tmp_path):
    sparse.save_npz(tmp_path / "pairs.npz", sparse.csr_array(MATRIX))
    np.save(tmp_path / "pairs.npy", np.array(PAIRS))
    pd.DataFrame(PAIRS, columns=["i", "j"]).to_parquet(tmp_path / "places.parquet")
    ragged = pd.DataFrame([["age", "height", "weight"], ["pulse", "income", None]])
    ragged.columns = ["a", "b", "c"]
    ragged.to_parquet(tmp_path / "groups.parquet")
    counted = pd.DataFrame([[0, 1, 2], [3, 4, None]], columns=["a", "b", "c"], dtype="Int64")
    counted.to_parquet(tmp_path / "counted.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert listed(read(path)) == PAIRS, path


def test_names_that_look_like_numbers_are_names(tmp_path):
    """Where one word is a name, all are: else columns would be counted."""
    names = ["3", "1", "0", "x"]
    path = text_file(tmp_path, "3,x\n1,0\n")
    assert listed(read(path, names=names, d=4)) == [(0, 3), (1, 2)]
    alone = text_file(tmp_path, "3,1\n1,0\n", "alone.csv")
    assert listed(read(alone, names=names, d=4)) == [(0, 1), (1, 2)]
    assert listed(read(alone, names=list("abcx"), d=4)) == [(0, 1), (1, 3)]
    with pytest.raises(ParameterError, match="unknown columns '0', '1', '3'"):
        read(path, names=list("abcx"), d=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("age,height,1\n", "unknown column '1'"),  # a weight is no position
        ("age,height,0.8\n", "got numbers with a fraction: give"),  # perhaps values of a record
        ("age,height\n31.5,1.77\n", "got numbers with a fraction: give"),
        ("ages,heights\nage,weight\n", "did you mean 'age', 'height'"),  # no titles
        ("age,height\nage,hieght\n", "did you mean 'height'"),
        ("", "has none"),
        ("# nothing\n\n", "has none"),
        ("age\n", "two or more different features"),
        ("age,age\n", "two or more different features"),
        ("0,5\n", "positions from 0 to 4, got others"),
        ("0,1,7\n", "positions are from 0 to 4"),
    ],
)
def test_text_files_refused(tmp_path, text, words):
    with pytest.raises(ParameterError, match=words) as caught:
        read(text_file(tmp_path, text))
    assert str(caught.value).startswith("candidate_pairs must")


def test_files_that_are_no_files_of_pairs(tmp_path):
    (tmp_path / "ragged.npy").write_bytes(b"")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    (tmp_path / "broken.npy").write_bytes(b"no array")
    (tmp_path / "broken.parquet").write_bytes(b"no parquet")
    (tmp_path / "latin.csv").write_bytes("h\xf6he,alter\n".encode("latin-1"))
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(ParameterError, match="must be a file of pairs"):
            read(path)
    for missing in (tmp_path / "none.csv", tmp_path, "no\0path"):
        with pytest.raises(ParameterError, match=r"cannot be read|does not exist"):
            read(missing)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *((5, "must be pairs, got 5"), (b"pairs.csv", "must be pairs")),
        ([1, 2], "list of pairs or groups, got 1"),
        (["age", "height"], "list of pairs or groups, got 'age'"),
        *(([("age",)], "two or more different"), ([()], "two or more different")),
        ([("age", 0)], "two or more different"),
        ([(0, 5), (-1, 1)], "unknown columns '-1', '5'"),
        ([(True, 0)], "unknown column 'True'"),
        ([("age", "wieght")], "did you mean 'weight'"),
        ([(0.0, 1.5)], "numbers with a fraction"),
        (np.ones((D, D)), "square array of booleans"),
        (np.ones((3, 2), dtype=bool), "must have 5 rows and columns"),
        (np.array([[0, 5]]), "positions from 0 to 4, got others"),
        (np.array([[-1, 2]]), "positions from 0 to 4"),
        (np.array([[2, 2]]), "a feature with itself"),
        (sparse.eye_array(4), "must have 5 rows and columns"),
        (Candidates.band(4, 1), "must be of 5 features, got 4"),
    ],
)
def test_refused(given, words):
    with pytest.raises(ParameterError, match=words):
        read(given)


def test_names_without_names():
    with pytest.raises(ParameterError, match="the columns have no names: give positions"):
        read([("age", "height")], names=None)
    assert read_candidates(D) is None
    with pytest.raises(ParameterError, match="must not be given both"):
        read_candidates(D, bandwidth=1, candidate_pairs=PAIRS)
    assert read_candidates(D, bandwidth=100).bandwidth == D - 1
    assert read([]).n_pairs == 0


@pytest.mark.parametrize("width", [-1, 1.5, True, "5"])
def test_bandwidths_refused(width):
    with pytest.raises(ParameterError, match="bandwidth must be an integer at least 0"):
        read_candidates(D, bandwidth=width)


def test_too_many_are_refused_before_they_are_listed(monkeypatch):
    with pytest.raises(CapacityError, match=r"at most 2\*\*31"):
        Candidates.band(10**6, 10**4)
    monkeypatch.setattr(candidates, "MOST_CANDIDATES", 3)
    with pytest.raises(CapacityError, match="smaller groups"):
        read([NAMES])


def test_row_sparsity_of_candidates():
    band = Candidates.band(100, 4)
    assert [band.row_sparsity_of(k) for k in (None, 3, 50)] == [9, 3, 9]
    with pytest.raises(ParameterError, match="row_sparsity must be an integer at least 1"):
        band.row_sparsity_of(0)
    hub = Candidates.of_pairs(100, np.zeros(99, dtype=int), np.arange(1, 100))
    assert (hub.row_sparsity, hub.row_sparsity_of(None)) == (100, 3)
    assert Candidates.band(9, 2).to_dict() == {"bandwidth": 2}
    found = read(PAIRS).to_dict()
    assert found["candidate_pairs"] == 4
    assert len(found["fingerprint"]) == 64
    assert read(PAIRS) != read(PAIRS[:3])
    assert read(PAIRS) != 5
    assert "4 pairs" in read(PAIRS).words


# Files of others: what they say of their size is held against the features before they are read.


def bomb(path):
    """A small archive of a matrix of so many numbers that reading it would take long."""
    zeros = np.zeros(8_000_000, dtype=np.int64)
    arrays = {"row": zeros, "col": zeros, "data": zeros, "shape": [5, 5], "format": b"coo"}
    np.savez_compressed(path, **{name: np.asarray(each) for name, each in arrays.items()})
    assert path.stat().st_size < 500_000
    return path


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet"])
def test_files_that_hold_more_than_pairs_of_the_features_are_not_read(tmp_path, monkeypatch, kind):
    path = tmp_path / f"pairs.{kind}"
    if kind == "npz":
        bomb(path)
    elif kind == "npy":
        with path.open("wb") as file:  # a hole, which takes no room on the disk
            about = {"shape": (10**7, 2), "fortran_order": False, "descr": "<i8"}
            np.lib.format.write_array_header_1_0(file, about)
            file.truncate(file.tell() + 16 * 10**7)
    else:
        column = pyarrow.array(np.zeros(2_000_000, dtype=np.int64))
        pyarrow.parquet.write_table(pyarrow.table({"a": column, "b": column}), path)
    for place, name in ((sparse, "load_npz"), (pyarrow.parquet, "read_table"), (np, "array")):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(CapacityError, match="at most 1,000,000 numbers or names"):
        read_candidates(5, candidate_pairs=path)


def test_an_archive_that_lies_about_its_size_is_not_read_to_its_end(tmp_path):
    path = bomb(tmp_path / "pairs.npz")
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        sizes = {each.file_size for each in archive.infolist() if each.file_size > 10**6}
    for size in sizes:  # in the table of contents, and before each file
        content = content.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    path.write_bytes(content)
    with pytest.raises(ParameterError, match="cannot be read as npz"):
        read_candidates(5, candidate_pairs=path)
    path = tmp_path / "pairs.npz"
    path.write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(ParameterError, match="cannot be read as npz"):
        read_candidates(5, candidate_pairs=path)


@pytest.mark.parametrize("word", ["9" * 5_000, "9" * 30])
def test_words_of_many_digits_are_no_positions(tmp_path, word):
    path = tmp_path / "pairs.csv"
    path.write_text(f"0,1\n{word},1\n")
    with pytest.raises(ParameterError, match="must name features, got unknown"):
        read_candidates(5, candidate_pairs=path)


rng = np.random.default_rng(5)


def dense(found: Candidates) -> np.ndarray:
    there = np.zeros((found.n_features, found.n_features), dtype=bool)
    there[found.pairs] = True
    return there


def expected(where: np.ndarray, distance: float, groups: np.ndarray) -> np.ndarray:
    where = where.reshape(len(where), -1)
    near = (cdist(where, where) <= distance) & np.equal.outer(groups, groups)
    return np.triu(near, 1)


@pytest.mark.parametrize("coordinates", [None, 1, 2, 3])
@pytest.mark.parametrize("distance", [0.0, 0.07, 0.4, 5.0])
@pytest.mark.parametrize("in_groups", [False, True])
def test_all_pairs_that_are_close_and_no_other(coordinates, distance, in_groups):
    shape = (60,) if coordinates is None else (60, coordinates)
    where = rng.uniform(size=shape).round(2)  # some at the same place
    groups = rng.choice(["a", "b", "c"], 60) if in_groups else np.zeros(60)
    found = pairs_within(where, distance, groups=groups if in_groups else None)
    slack = 1e-12  # of decimals
    assert np.array_equal(dense(found), expected(where, distance + slack, groups))


def test_sorted_positions_give_windows_of_columns():
    where = np.sort(rng.uniform(0, 1e6, 200))
    groups = np.repeat(["1", "2", "X"], [50, 100, 50])
    found = pairs_within(where, 3e4, groups=groups)
    assert found.contiguous
    assert found.ends.max() == 200
    assert found.ends[49] == 50
    assert found.ends[149] == 150
    minutes = 30 * np.arange(48)
    assert pairs_within(minutes, 120) == Candidates.band(48, 4)
    # 0.7 + 0.1 is not 0.8 in floating point.
    assert pairs_within(np.arange(20) / 10, 0.1) == Candidates.band(20, 1)
    assert pairs_within(np.arange(20) / 10, 0.0999).n_pairs == 0


def test_order_of_columns_is_that_of_positions():
    found = pairs_within([30.0, 10.0, 20.0], 10)
    assert [(int(i), int(j)) for i, j in zip(*found.pairs, strict=True)] == [(0, 2), (1, 2)]
    found = pairs_within([1, 1, 1, 1], 0, groups=np.array([1, "X", 1, None], dtype=object))
    assert [(int(i), int(j)) for i, j in zip(*found.pairs, strict=True)] == [(0, 2)]
    made = pairs_within(np.arange(10), 2)
    assert read_candidates(10, candidate_pairs=made) is made
    inputs = GaussianCovariance(epsilon=1.0, delta=1e-6, candidate_pairs=made)
    assert inputs._request(10).candidates == Candidates.band(10, 2)


@pytest.mark.parametrize(
    ("positions", "options", "words"),
    [
        ([1, 2], {"distance": -1}, "distance must be above 0"),
        ([1, 2], {"distance": np.nan}, "distance must be"),
        ([1, 2], {"distance": None}, "distance is required"),
        (["a", "b"], {"distance": 1}, "positions must be numbers"),
        ([1, np.nan], {"distance": 1}, "positions must be finite"),
        (np.zeros((2, 2, 2)), {"distance": 1}, "positions must be numbers"),
        ([[1, 2], [3]], {"distance": 1}, "positions must be an array"),
        ([1, 2], {"distance": 1, "groups": ["a"]}, "groups must have one"),
    ],
)
def test_what_is_no_position_is_refused(positions, options, words):
    with pytest.raises(ParameterError, match=words):
        pairs_within(positions, **options)


@pytest.mark.parametrize("where", [np.zeros(70_000), np.zeros((70_000, 2))])
def test_too_many_pairs_are_refused_before_they_are_listed(where):
    with pytest.raises(CapacityError, match="smaller bandwidth or distance"):
        pairs_within(where, 1.0)
