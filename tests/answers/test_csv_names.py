"""Names of columns come from files of others: no cell of a CSV file is a spreadsheet's formula."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from answer_documents import document

from hushcov.answers import export as export_files
from hushcov.answers.export import export
from hushcov.answers.regression import regress
from hushcov.answers.tables import csv_text, write_table, write_tables

NAMES = ("=cmd()", "+1", "-1+1", "@SUM(A1)", "\ttab", "\rreturn", "\nline", "'=", "''@", "'", "a=1")
SIGNS = "=+-@\t\r\n"


@pytest.fixture
def release():
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


def test_the_tables_beside_a_release(release, tmp_path):
    write_tables(tmp_path, release, release.covariance(), "csv")
    for name in ("pairs", "variances", "covariance"):
        assert set(NAMES) <= check(tmp_path / f"{name}.csv")
    write_tables(tmp_path, release, release.covariance(), "parquet")
    assert tuple(pd.read_parquet(tmp_path / "variances.parquet")["feature"]) == NAMES


@pytest.mark.parametrize("to", ["csv", "npz"])
@pytest.mark.parametrize("arrow", [True, False])
def test_exports(release, tmp_path, monkeypatch, to, arrow):
    if not arrow:
        monkeypatch.setattr(export_files, "find_spec", lambda name: None)
    export(release, tmp_path / "out", to=to, covariance=True)
    for path in (tmp_path / "out").glob("*.csv"):
        assert set(NAMES) <= check(path)


def test_answers(release, tmp_path):
    found = regress(release, "=cmd()", list(NAMES[1:4]))
    assert set(NAMES[1:4]) <= check(write_table(found.table(), tmp_path / "a.csv"))


def test_the_rule_can_be_undone():
    made = [csv_text(name) for name in NAMES]
    assert len(set(made)) == len(NAMES)
    assert tuple(map(undone, made)) == NAMES
    assert [csv_text(name) for name in ("a", "'a", "")] == ["a", "'a", ""]
