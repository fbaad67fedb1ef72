"""Everything after a release of a band along many columns: files, tables, questions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from after_release import banded_release
from documents import described, forge, seal
from hushcov.answers.names import matching
from hushcov.answers.tables import around, pairs_table, variances_table, window
from hushcov.estimators.answering import LoadedCovariance
from hushcov.exceptions import DamagedReleaseError, ParameterError
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Release, files, schema
from hushcov.release.estimate import estimate
from hushcov.release.view import BEYOND, covariance_intervals, rule_of, view

D, W = 2_000, 12
N_PAIRS = D * W - W * (W + 1) // 2


@pytest.fixture(scope="module")
def release() -> Release:
    return banded_release(D, W)


@pytest.fixture
def short_lists(monkeypatch):
    for module in (files, schema):
        monkeypatch.setattr(module, "LONGEST", 1_000)


def test_a_band_is_its_width_and_nothing_of_a_feature_is_in_json(release, tmp_path, short_lists):
    making = replace(
        release.making, bounds=((0.0, None),) * D, unresolved=tuple(range(D - 1)), threshold=0.0
    )
    full = replace(release, making=making)
    folder = full.write(tmp_path / "out")
    assert Release.read(folder) == full
    about = described(folder)
    assert about["selected"] == {"bandwidth": W}
    assert len((folder / "release.json").read_bytes()) < 10_000
    names = {"feature_scale.npy", "positions.npy", "column_names.json", "bounds.npy"}
    assert names < set(about["files"])
    assert np.array_equal(np.load(folder / "positions.npy"), release.positions)
    assert json.loads((folder / "column_names.json").read_text())[:2] == ["rs1", "rs2"]


def test_windows_and_other_pairs_are_arrays(release, tmp_path, short_lists):
    rng = np.random.default_rng(3)
    counts = np.minimum(rng.integers(0, 4, D), np.arange(D - 1, -1, -1))
    scattered = np.unique(rng.integers(0, D - 1, (2_000,)))
    for selected, form in (
        (schema.of_windows(counts), "windows"),
        (np.stack([scattered + 1, scattered]), "file"),
    ):
        matrix = symmetric_sparse(
            tuple(selected), np.arange(selected.shape[1]), np.arange(D, dtype=np.int64)
        )
        other = replace(release, integers=matrix, selected=selected)
        folder = other.write(tmp_path / form)
        assert Release.read(folder) == other
        assert set(described(folder)["selected"]) == {form}


def test_long_lists_of_parameters_leave_json(release, tmp_path, short_lists):
    parameters = {**release.parameters, "found": [0.5] * D, "odd": [[1], [2]]}
    folder = replace(release, parameters=parameters).write(tmp_path / "out")
    assert described(folder)["parameters"]["found"] == {"file": "parameters.found.npy"}
    assert Release.read(folder).parameters == parameters


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"selected": {"bandwidth": W + 1}}, "selected"),
        ({"selected": {"bandwidth": 10**12}}, "selected"),
        ({"selected": {"bandwidth": True}}, "selected"),
        ({"selected": {"windows": [10**12] * D}}, "selected"),
        ({"positions": {"file": "../release.json"}}, "not among the files"),
        ({"positions": {"file": "integers.npy"}}, "positions"),
        ({"positions": None, "feature_scale": {"file": "positions.npy"}}, "feature_scale"),
        ({"positions": None, "column_names": {"file": "positions.npy"}}, "column_names"),
        ({"chromosomes": ["1"]}, "chromosomes"),
        ({"positions": [1.5] * D}, "positions"),
    ],
)
def test_columns_that_are_not_are_refused(release, tmp_path, short_lists, change, words):
    folder = release.write(tmp_path / "out")
    seal(folder, described(folder) | change)
    with pytest.raises(DamagedReleaseError, match=words):
        Release.read(folder)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        # Each is a file that is there; ten thousand times it would fill the memory.
        ("parameters", {str(i): {"file": "location.npy"} for i in range(3)}, "named twice"),
        ("making", {"bounds": {"file": "location.npy"}}, "bounds of release.json"),
    ],
    ids=["twice", "a list of numbers"],
)
def test_hostile_references_to_files_are_refused(
    release, tmp_path, short_lists, field, value, words
):
    folder = replace(release, location=np.zeros(D)).write(tmp_path / "out")
    about = described(folder)
    about["location"] = None
    about[field] |= value
    seal(folder, about)
    with pytest.raises(DamagedReleaseError, match=words):
        Release.read(folder)


def test_fields_within_fields_are_read_or_refused(release, tmp_path):
    """However deep they are: between what JSON and what functions of Python can follow, too."""
    folder = release.write(tmp_path / "out")
    about = described(folder)
    refused = 0
    for depth in (10, 200, 400, 500, 600, 800, 900, 3000):
        text = json.dumps(about | {"parameters": {"deep": "HERE"}})
        content = text.replace('"HERE"', '{"a":' * depth + "1" + "}" * depth).encode()
        seal(folder, content)
        try:
            Release.read(folder)
        except DamagedReleaseError:
            refused += 1
    assert 0 < refused < 8


def test_columns_are_held_against_their_checksums_and_nothing_is_unpickled(
    release, tmp_path, short_lists
):
    folder = release.write(tmp_path / "out")
    for array, words in (
        (np.full(D, np.nan), "finite"),
        (release.feature_scale[1:], "a list of"),
        (release.feature_scale.astype("f4"), "64-bit"),
        (np.array([None] * D), "64-bit"),
    ):
        np.save(tmp_path / "forged.npy", array)
        forge(folder, "feature_scale.npy", (tmp_path / "forged.npy").read_bytes())
        with pytest.raises(DamagedReleaseError, match=words):
            Release.read(folder)
    np.save(folder / "feature_scale.npy", release.feature_scale)
    with pytest.raises(DamagedReleaseError, match="bytes instead of"):
        Release.read(folder)


def test_an_asymmetric_matrix_is_not_written(release, tmp_path):
    from hushcov.exceptions import ReleaseError

    wrong = release.integers.copy()
    wrong.data[1] += 1
    with pytest.raises(ReleaseError):
        replace(release, integers=wrong).write(tmp_path / "out")
    fewer = replace(release, selected=release.selected[:, :-1])
    with pytest.raises(ReleaseError):
        fewer.write(tmp_path / "out")


def test_candidates_are_found_where_they_stand_out(release):
    rule, threshold = rule_of(release)
    found = view(release)
    values = np.abs(release.integers[tuple(release.selected)]) * release.unit
    assert rule == BEYOND
    assert found.n_found == np.count_nonzero(values > threshold) == len(found.found)
    assert 0 < found.n_found < N_PAIRS
    assert rule_of(replace(release, mechanism="screened"))[0] == "selected"
    table, few = pairs_table(release, 0.95), pairs_table(release, 0.95, most=50)
    assert len(table["status"]) == N_PAIRS
    for name in ("feature_1", "correlation", "lower"):
        assert np.array_equal(few[name], table[name][:50])
    assert len(variances_table(release, 0.95)["feature"]) == D


def test_a_window_is_a_part_of_the_whole(release):
    found = window(release, "rs110", "rs100", level=0.9)
    assert found.features == tuple(f"rs{i}" for i in range(100, 111))
    assert found.positions.tolist() == release.positions[99:110].tolist()
    assert set(found.chromosomes) == {"2"}
    whole = LoadedCovariance(release)
    part = whole.correlation_[99:110][:, 99:110].toarray()
    np.testing.assert_allclose(found.correlation, part, rtol=1e-12)
    assert found.matrix().loc["rs100", "rs101"] == found.correlation[0, 1]
    table = pairs_table(release, 0.9)
    place = {
        pair: i for i, pair in enumerate(zip(table["feature_1"], table["feature_2"], strict=True))
    }
    for at, pair in enumerate(zip(found.pairs["feature_1"], found.pairs["feature_2"], strict=True)):
        assert found.pairs["status"][at] == table["status"][place[pair]]
        for name in ("correlation", "correlation_lower", "upper"):
            assert found.pairs[name][at] == pytest.approx(table[name][place[pair]], rel=1e-9)
    wide = window(release, 0, W + 3)
    assert np.isnan(wide.correlation[0, W + 1])
    assert wide.correlation[0, W] == wide.correlation[W, 0]
    with pytest.raises(ParameterError, match="at most 2,000"):
        window(banded_release(2_100, 1), 0, 2_050)


def test_the_pairs_of_a_column(release):
    table = around(release, "rs1000")
    assert table["columns_away"].tolist() == [*range(-W, 0), *range(1, W + 1)]
    near = around(release, "rs1", 3)
    assert near["feature"].tolist() == ["rs2", "rs3", "rs4"]
    assert near["position"].tolist() == release.positions[1:4].tolist()
    with pytest.raises(ParameterError, match="window"):
        around(release, "rs1", 0)
    assert matching(release, "rs7").tolist() == [6]
    assert matching(release, "RS199").tolist() == [198]
    assert matching(release, "S199").tolist() == [198, *range(1989, 1999)]
    assert matching(release, "rs?9").tolist() == [10 * i + 8 for i in range(1, 10)]
    assert len(matching(release, "zz")) == 0


def test_questions_are_local_or_refused(release, monkeypatch):
    from hushcov.answers import columns, conditional

    for module in (columns, conditional):
        monkeypatch.setattr(module, "MOST_ASKED", D - 1)
    asked = LoadedCovariance(release)
    assert asked.regression("rs100").features
    found = asked.regression("rs100", on=["rs101", "rs102"])
    assert found.features == ("rs101", "rs102")
    near = asked.conditional({"rs100": 1.0})
    assert set(near.features) == {f"rs{i}" for i in range(100 - W, 101 + W)} - {"rs100"}
    for question in (asked.components, asked.partial_correlations):
        with pytest.raises(ParameterError, match="features is required"):
            question()
    assert len(asked.components(2, features=["rs1", "rs2", "rs3"]).frame())


def test_sparse_answers_agree_with_those_of_the_dense_matrix(release):
    few = 60
    selected = release.selected[:, (release.selected < few).all(axis=0)]
    changes = {
        "selected": selected,
        "feature_scale": release.feature_scale[:few],
        "location": release.location[:few],
        "column_names": release.column_names[:few],
        "positions": None,
        "chromosomes": None,
    }
    sparse = replace(release, integers=release.integers[:few][:, :few], **changes)
    dense = replace(sparse, integers=sparse.integers.toarray())
    np.testing.assert_allclose(estimate(sparse).toarray(), estimate(dense))
    for one, other in zip(
        covariance_intervals(sparse, 0.9), covariance_intervals(dense, 0.9), strict=True
    ):
        np.testing.assert_allclose(one.toarray(), np.nan_to_num(other))
    tables = pairs_table(sparse, 0.95), pairs_table(dense, 0.95)
    for name, column in tables[0].items():
        assert np.array_equal(column, tables[1][name]), name


@pytest.mark.slow
def test_a_million_features_fit_into_a_few_gigabytes(tmp_path):
    """In a process of its own: peak memory below 6 GB for making, writing, reading and asking."""
    from after_release import measure

    names = ["make and write", "read", "hushcov show", "hushcov report", "load and window()"]
    found = measure(1_000_000, 20, names)
    assert max(each["peak_bytes"] for name, each in found.items() if name in names) < 6e9
    assert found["release"]["bytes"] < 300e6
    assert found["report.html"]["bytes"] < 3e6
