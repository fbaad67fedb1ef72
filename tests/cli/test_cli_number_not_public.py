"""What `hushcov fit` prints where the number of records is not public, nor how files look."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from hushcov.cli import fitting
from hushcov.cli.output import watched
from hushcov.steps.counting import Counting
from hushcov.sums.records import CountedRecords
from hushcov.tables.sources import ArrayRecords

N, NAMES = 3_000, ("age", "pulse", "height")
ROWS = np.random.default_rng(8).standard_normal((N + 1, 3))
BUDGET = ("--epsilon", 1, "--delta", 1e-6)
REMOVED = (*BUDGET, "--neighbours", "add-remove")
INSIST = ("--allow", "hopeless", "--allow", "large-delta")


def write(path, rows, **layout):
    """A file of these rows; of Parquet in a layout."""
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)))
    if path.suffix == ".parquet":
        parquet.write_table(table, path, **layout)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=layout.get("row_group_size"))
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        np.save(path, rows)
    return path.name


LAYOUTS = (
    {},
    {"row_group_size": 100},
    {"row_group_size": 700, "use_dictionary": False},
    {"use_dictionary": True, "compression": "none", "data_page_size": 2**10},
)


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.csv", "x.npy"])
@pytest.mark.parametrize("asked", [(*REMOVED, "--records", N), BUDGET], ids=["removed", "replaced"])
def test_a_dry_run_is_the_same_for_neighbours_in_any_layout(run, tmp_path, name, asked):
    other = ROWS[:N].copy()
    other[7] = 1e6
    tables = [ROWS[:N], other]
    if asked != BUDGET:
        tables += [ROWS, ROWS[: N - 1], ROWS[:1], ROWS[:0]]
    said = set()
    for rows in tables:
        for layout in LAYOUTS if name != "x.npy" else ({},):
            write(tmp_path / name, rows, **layout)
            for form in ((), ("--json",)):
                result = run("fit", name, *asked, "--dry-run", *form)
                assert result.exit_code == 0, result.output
                said.add((form, result.stdout, result.stderr))
    assert len(said) == 2


def test_what_a_fit_predicts_follows_the_released_number_alone(run, tmp_path, monkeypatch):
    number = Counting.number
    monkeypatch.setattr(Counting, "number", lambda *args: replace(number(*args), released=N + 5))
    found = []
    for place, (rows, layout) in enumerate(zip((ROWS, ROWS[:N]), LAYOUTS[1:], strict=False)):
        write(tmp_path / "x.parquet", rows, **layout)
        result = run("fit", "x.parquet", *REMOVED, "-o", f"out{place}", "--json")
        assert result.exit_code == 0, result.output
        found.append(json.loads(result.stdout))
    known = ("n_records", "predicted_memory_bytes", "counted", "forecasts")
    for name in known:
        assert found[0][name] == found[1][name]
    assert not any("peak" in name for name in found[0])
    assert "in use" not in result.stderr


def test_a_bar_does_not_say_how_many_rows_there_are(monkeypatch, capsys):
    records = CountedRecords(ArrayRecords(ROWS, block_rows=1_000), 2_983)
    monkeypatch.setenv("COLUMNS", "100")
    said = []
    for force in ("1", ""):
        monkeypatch.setenv("FORCE_COLOR", force)
        monkeypatch.setattr("hushcov.cli.output._EVERY", -1.0)
        with watched(records, count_is_public=False) as rows:
            rows.map_sum(lambda block: np.array([len(block)]))
        said.append(capsys.readouterr().err)
    for words in said:
        assert "reading records, pass 1" in words
        for told in ("3001", "2983", "1000", "%", "rows/s"):
            assert told not in words.replace(",", "")


@pytest.mark.parametrize("public", [True, False])
def test_a_fit_asks_for_such_a_bar(run, tmp_path, monkeypatch, public):
    asked = []

    def seen(records, **options):
        asked.append(options)
        return watched(records, **options)

    monkeypatch.setattr(fitting, "watched", seen)
    name = write(tmp_path / "x.npy", ROWS)
    assert run("fit", name, *(BUDGET if public else REMOVED)).exit_code == 0
    assert asked == [{"count_is_public": public}]


@pytest.mark.parametrize("name", ["x.parquet", "x.feather", "x.csv", "x.npy"])
def test_a_table_without_records_is_released_like_one_of_one(run, refused, tmp_path, name):
    for rows in (ROWS[:0], ROWS[:1]):
        write(tmp_path / name, rows)
        result = run("fit", name, *REMOVED, *INSIST, "-o", f"out{len(rows)}")
        assert result.exit_code == 0, result.output
    write(tmp_path / name, ROWS[:0])
    assert "at least 1 record" in refused(3, "fit", name, *BUDGET, *INSIST)


def test_what_is_refused_after_the_count_says_that_it_is_paid(refused, run, tmp_path):
    rows = ROWS.copy()
    rows[5, 1] = np.nan
    name = write(tmp_path / "x.npy", rows)
    result = run("fit", name, *REMOVED)
    assert result.exit_code == 3
    line = result.stderr.splitlines()[-1]
    assert "its epsilon of 0.02 is spent" in line
    assert "nothing was charged" not in line.casefold()
