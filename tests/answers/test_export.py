"""Exports are read back by the programs that read them, and no cell of theirs is a formula."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import zarr
from answer_documents import document
from scipy import sparse
from test_any_release import any_release

from hushcov.answers import export as export_files
from hushcov.answers.export import FORMATS, export, prepare
from hushcov.answers.tables import pairs_table, write_tables
from hushcov.exceptions import CapacityError, MissingPackageError, ParameterError
from hushcov.postprocess import symmetric_sparse
from hushcov.release.view import view
from table_helpers import read_exactly

D, WIDTH, NOISE = 120, 6, 0.05


def banded(d=D, width=WIDTH, *, noise=NOISE, seed=1, **changes):
    """A release of a band of linked features, with noise, names, places and two chromosomes."""
    rng = np.random.default_rng(seed)
    near = rng.beta(6, 1, d)
    near[d // 2] = 0.0  # the second chromosome begins
    sign = rng.choice([-1.0, 1.0], d)
    deviation = rng.uniform(0.5, 3.0, d)
    matrix = np.eye(d)
    for i in range(d):
        linked = np.cumprod(near[i + 1 : i + 1 + width])
        matrix[i, i + 1 : i + 1 + width] = linked * sign[i] * sign[i + 1 : i + 1 + width]
    rows, columns = np.nonzero(np.triu(matrix, 1))
    release = document(np.diag(deviation**2), noise=noise)
    values = matrix[rows, columns] + noise * rng.standard_normal(len(rows))
    integers = symmetric_sparse(
        (rows, columns),
        np.rint(values / release.unit).astype(np.int64),
        release.integers.diagonal(),
    )
    return replace(
        release,
        integers=integers,
        selected=np.stack([rows, columns]),
        column_names=tuple(f"rs{i}" for i in range(d)),
        positions=np.arange(d) * 1000 + 7,
        chromosomes=("1",) * (d // 2) + ("X",) * (d - d // 2),
        location=np.linspace(0, 1, d),
        **changes,
    )


def eigenvalues(upper, diagonal):
    upper = upper.toarray()
    return np.linalg.eigvalsh(upper + upper.T + np.diag(diagonal))


@pytest.fixture(scope="module")
def release():
    return banded()


def test_correlations_are_those_of_the_estimate(release):
    found = prepare(release, covariance=False, psd=False, block_size=None)
    expected = sparse.triu(view(release).correlation_matrix(), 1).toarray()
    np.testing.assert_array_equal(found.upper.toarray(), expected)
    assert np.abs(found.upper.data).max() == 1.0  # noise put some barely beyond
    assert eigenvalues(found.upper, np.ones(D))[0] < -0.1


@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("block_size", [None, 35, "chromosome"])
def test_no_eigenvalue_is_negative_and_the_change_is_the_one_stated(
    release, covariance, block_size
):
    raw = prepare(release, covariance=True, psd=False, block_size=block_size)
    raw_upper = raw.upper.toarray() / np.multiply.outer(raw.deviation, raw.deviation)
    raw_upper = np.clip(raw_upper, -1.0, 1.0)
    options = {"psd": True, "block_size": block_size}
    found = prepare(release, covariance=covariance, **options)
    assert eigenvalues(found.upper, found.diagonal)[0] > 0
    related = prepare(release, covariance=False, **options)
    assert eigenvalues(related.upper, related.diagonal)[0] >= 0.99e-6
    upper = related.upper.toarray() - raw_upper
    change, stated = upper + upper.T, found.correction
    assert stated.largest_change == pytest.approx(np.abs(change).max(), rel=1e-12, abs=0)
    assert stated.frobenius == pytest.approx(np.linalg.norm(change), rel=1e-12, abs=0)
    assert stated.norm == pytest.approx(np.linalg.norm(change, 2), rel=0.02)
    for block in stated.blocks:
        part = change[block.start : block.stop, block.start : block.stop]
        assert block.largest_change == pytest.approx(np.abs(part).max(), rel=1e-12, abs=0)
        assert block.frobenius == pytest.approx(np.linalg.norm(part), rel=1e-12, abs=0)
    assert not upper[raw_upper == 0].any()  # the others were not released
    if covariance:
        np.testing.assert_allclose(found.diagonal, release.covariance().diagonal())
        size = np.multiply.outer(found.deviation, found.deviation)
        expected = related.upper.toarray() * size
        np.testing.assert_allclose(found.upper.toarray(), expected)


def test_pairs_across_blocks_are_left_out_and_counted(release):
    whole = prepare(release, covariance=False, psd=False, block_size=None).upper
    found = prepare(release, covariance=False, psd=False, block_size=40)
    block = np.arange(D) // 40
    across = np.diff(block[np.array(whole.nonzero())], axis=0)[0] != 0
    assert found.correction.cut_pairs == across.sum() == 2 * WIDTH * (WIDTH + 1) // 2
    assert found.correction.cut_largest == np.abs(whole.data[across]).max()
    np.testing.assert_array_equal(found.upper.data, whole.data[~across])
    of_chromosomes = prepare(release, covariance=False, psd=True, block_size="chromosome")
    assert [block.name for block in of_chromosomes.correction.blocks] == ["chr1", "chrX"]
    assert of_chromosomes.correction.cut_pairs == 0


def test_npz_is_read_by_scipy(release, tmp_path):
    out = export(release, tmp_path / "out", to="npz", block_size="chromosome")
    expected = prepare(release, covariance=False, psd=True, block_size="chromosome")
    assert out.files == (
        *("chr1.features.csv", "chr1.npz", "chrX.features.csv", "chrX.npz", "export.json"),
    )
    for name, start, stop in (("chr1", 0, D // 2), ("chrX", D // 2, D)):
        upper = sparse.load_npz(out.folder / f"{name}.npz")
        matrix = (upper + upper.T).toarray()
        np.testing.assert_array_equal(np.diag(matrix), 1.0)
        assert np.linalg.eigvalsh(matrix)[0] > 0
        above = np.triu(matrix, 1)
        whole = expected.upper.toarray()[start:stop, start:stop]
        np.testing.assert_array_equal(above, whole)
        table = read_exactly(out.folder / f"{name}.features.csv", dtype={"chromosome": str})
        assert list(table) == ["name", "chromosome", "position", "mean", "variance", "block"]
        assert table["name"].tolist() == list(release.column_names[start:stop])
        assert table["position"].tolist() == release.positions[start:stop].tolist()
        np.testing.assert_array_equal(table["mean"], release.location[start:stop])
    said = json.loads((out.folder / "export.json").read_text())
    assert said == out.statement
    assert said["correction"]["largest_change"] == expected.correction.largest_change
    assert [each["name"] for each in said["blocks"]] == ["chr1", "chrX"]


def test_zarr_is_read_by_zarr(release, tmp_path):
    out = export(release, tmp_path / "out", to="zarr", covariance=True)
    expected = prepare(release, covariance=True, psd=True, block_size=None)
    root = zarr.open_group(out.folder / "matrix.zarr", mode="r")
    assert root.metadata.zarr_format == root.attrs["zarr_format"] == 2
    parts = (root["matrix"][name][:] for name in ("data", "indices", "indptr"))
    upper = sparse.csr_array(tuple(parts), shape=(D, D))
    np.testing.assert_array_equal(upper.toarray(), expected.upper.toarray())
    metadata = root["metadata"]
    assert metadata["name"][:].tolist() == list(release.column_names)
    assert metadata["chromosome"][:].tolist() == list(release.chromosomes)
    np.testing.assert_array_equal(metadata["position"][:], release.positions)
    np.testing.assert_array_equal(metadata["variance"][:], expected.diagonal)
    assert metadata["block_starts"][:].tolist() == [0, D]
    assert root.attrs["correction"]["frobenius"] == expected.correction.frobenius


@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("to", ["parquet", "csv"])
def test_pairs_are_read_by_pandas(release, tmp_path, monkeypatch, to, covariance):
    monkeypatch.setattr(export_files, "_CHUNK", 200)
    out = export(release, tmp_path / "out", to=to, covariance=covariance)
    read = pd.read_parquet if to == "parquet" else read_exactly
    table = read(out.folder / f"pairs.{to}")
    value = "covariance" if covariance else "correlation"
    places = [f"{name}_{side}" for name in ("feature", "chromosome", "position") for side in (1, 2)]
    assert list(table) == [*places, value, "lower", "upper", "noise_sd", "released"]
    expected = prepare(release, covariance=covariance, psd=True, block_size=None)
    np.testing.assert_array_equal(table[value], expected.upper.data)
    names = np.array(release.column_names)
    assert table["feature_1"].tolist() == names[expected.upper.nonzero()[0]].tolist()
    assert table["position_2"].tolist() == release.positions[expected.upper.indices].tolist()
    known = pd.DataFrame(dict(pairs_table(release, 0.95)))
    both = table.merge(known, on=["feature_1", "feature_2"], suffixes=("", "_known"))
    assert len(both) == len(table) == len(known)
    ends = ("lower_known", "upper_known") if covariance else (f"{value}_lower", f"{value}_upper")
    np.testing.assert_allclose(both["lower"], both[ends[0]], atol=1e-6)
    np.testing.assert_allclose(both["upper"], both[ends[1]], atol=1e-6)
    known_value = f"{value}_known" if f"{value}_known" in both else value
    np.testing.assert_allclose(both["released"], both[known_value], rtol=1e-12)
    unit = 1.0 if covariance else both["noise_sd_known"] / both["noise_sd"]
    np.testing.assert_allclose(both["noise_sd"] * unit, both["noise_sd_known"], rtol=1e-12)
    assert read(out.folder / f"features.{to}")["name"].tolist() == names.tolist()


def test_what_needs_no_correction_is_not_changed(tmp_path):
    matrix = np.eye(20) + 0.4 * (np.eye(20, k=1) + np.eye(20, k=-1))
    for to in FORMATS:
        out = export(document(matrix), tmp_path / to, to=to)
        assert out.correction.largest_change == out.correction.norm == 0.0


def test_pairs_in_any_order_become_a_band_again(monkeypatch):
    monkeypatch.setattr("hushcov.answers.export._MOST_WHOLE", 50)
    release = banded()
    order = np.random.default_rng(2).permutation(D)
    integers = release.integers.toarray()[np.ix_(order, order)]
    rows, columns = np.nonzero(np.triu(integers, 1))
    mixed = replace(
        release,
        integers=sparse.csr_array(integers),
        selected=np.stack([rows, columns]),
        feature_scale=release.feature_scale[order],
        chromosomes=None,
    )
    found = prepare(mixed, covariance=False, psd=True, block_size=None)
    assert eigenvalues(found.upper, np.ones(D))[0] >= 0.99e-6
    straight = prepare(release, covariance=False, psd=True, block_size=None)
    assert found.correction.norm < 1.5 * straight.correction.norm
    monkeypatch.setattr("hushcov.answers.export._MOST_OF_BAND", 100)
    with pytest.raises(CapacityError, match="psd False"):
        prepare(mixed, covariance=False, psd=True, block_size=None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": "hdf5"}, "to must be one of"),
        ({"to": "npz", "block_size": 0}, "block_size must be"),
        ({"to": "npz", "block_size": "gene"}, "'chromosome', got 'gene'"),
        ({"to": "npz", "block_size": 2.5}, "block_size must be"),
        ({"to": "npz", "level": 2.0}, "level must be"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(release, tmp_path, options, words):
    with pytest.raises(ParameterError, match=words):
        export(release, tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


def test_chromosomes_must_be_known_and_stand_together(release):
    options = {"covariance": False, "psd": False, "block_size": "chromosome"}
    with pytest.raises(ParameterError, match="does not say"):
        prepare(replace(release, chromosomes=None), **options)
    with pytest.raises(ParameterError, match="stand together"):
        prepare(replace(release, chromosomes=("1", "2") * (D // 2)), **options)
    odd = replace(release, chromosomes=("../a",) * 10 + ("b",) * (D - 10))
    names = [block.name for block in prepare(odd, **options).correction.blocks]
    assert names == ["block-0", "block-1"]


def test_only_exports_are_overwritten(release, tmp_path):
    out = tmp_path / "out"
    export(release, out, to="csv")
    with pytest.raises(ParameterError, match="holds an export"):
        export(release, out, to="npz")
    assert export(release, out, to="npz", overwrite=True).files[0] == "export.json"
    (out / "export.json").unlink()
    with pytest.raises(ParameterError, match="something else"):
        export(release, out, to="npz", overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_an_export_that_fails_leaves_nothing(release, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_files, "write_table", fail)
    with pytest.raises(ParameterError, match="No space left"):
        export(release, tmp_path / "out", to="csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("to", "extra"), [("zarr", "zarr"), ("parquet", "files")])
def test_missing_packages_are_named(release, tmp_path, monkeypatch, to, extra):
    monkeypatch.setattr(export_files, "find_spec", lambda name: None)
    monkeypatch.setattr("hushcov.answers.files.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=rf"hushcov\[{extra}\]"):
        export(release, tmp_path / "out", to=to)


def test_any_release_is_exported(tmp_path):
    rng = np.random.default_rng(3)
    for place in range(60):
        release = any_release(rng)
        covariance, block_size = bool(rng.random() < 0.3), rng.choice([None, 2])
        options = {"covariance": covariance, "block_size": block_size}
        out = export(release, tmp_path / str(place), to="csv", **options)
        found = prepare(release, psd=True, covariance=False, block_size=block_size)
        least = eigenvalues(found.upper, found.diagonal)[0]
        assert least >= 0.99e-6
        table = pd.read_csv(out.folder / "pairs.csv")
        assert len(table) == len(found.upper.data)
        assert np.isfinite(found.upper.data).all()


NAMES = ("=cmd()", "+1", "-1+1", "@SUM(A1)", "\ttab", "\rreturn", "\nline", "'=", "''@", "'", "a=1")
SIGNS = "=+-@\t\r\n"


@pytest.fixture
def dangerous():
    rng = np.random.default_rng(0)
    matrix = np.cov(rng.normal(size=(200, len(NAMES))).T) + 0.5
    return replace(document(matrix), column_names=NAMES, chromosomes=NAMES)


def cells(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def undone(text):
    """The rule of `csv_table`, the other way round."""
    return text[1:] if text[:1] == "'" and text.lstrip("'")[:1] in tuple(SIGNS) else text


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def check(path):
    found = cells(path)
    assert found
    dangerous = {cell for cell in found if cell[:1] in tuple(SIGNS) and not is_number(cell)}
    assert not dangerous
    assert "+1" not in found
    return {undone(cell) for cell in found}


def test_the_tables_beside_a_release(dangerous, tmp_path):
    write_tables(tmp_path, dangerous, dangerous.covariance(), "csv")
    for name in ("pairs", "variances", "covariance"):
        assert set(NAMES) <= check(tmp_path / f"{name}.csv")
    write_tables(tmp_path, dangerous, dangerous.covariance(), "parquet")
    assert tuple(pd.read_parquet(tmp_path / "variances.parquet")["feature"]) == NAMES


@pytest.mark.parametrize("to", ["csv", "npz"])
@pytest.mark.parametrize("arrow", [True, False])
def test_exports(dangerous, tmp_path, monkeypatch, to, arrow):
    if not arrow:
        monkeypatch.setattr(export_files, "find_spec", lambda name: None)
    export(dangerous, tmp_path / "out", to=to, covariance=True)
    for path in (tmp_path / "out").glob("*.csv"):
        assert set(NAMES) <= check(path)
