"""`hushcov fit` and `plan` for units, removed records and weights: nothing private gets out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from hushcov import PrivateSparseCovariance
from hushcov.cli import fitting
from hushcov.cli.output import watched
from hushcov.fit import counting
from hushcov.kernel.records.base import CountedRecords
from hushcov.tables.sources import ArrayRecords

pytestmark = pytest.mark.usefixtures("no_search")

PUBLIC = ("--epsilon", 4, "--delta", 1e-6)
SECRET = "s3cret-person"
N = 9_000


def table(owners=None):
    rng = np.random.default_rng(2)
    found = pd.DataFrame(rng.standard_normal((N, 3)) + 5.0, columns=["age", "pulse", "height"])
    numbers = rng.integers(0, 3_000, N)
    found["patient_id"] = [f"{SECRET}-{i}" for i in numbers] if owners is None else owners
    found["w"] = rng.uniform(0, 2, N)
    return found


@pytest.fixture
def visits(tmp_path) -> Path:
    whole = pa.Table.from_pandas(table().drop(columns="w"), preserve_index=False)
    parquet.write_table(whole, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


def fit(run, *args):
    result = run("fit", *args, *PUBLIC, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result


def check_silent(result, folder, *inputs):
    """No identifier in what was printed, nor in any file but those that had them."""
    assert SECRET not in result.output + result.stderr
    for path in folder.rglob("*"):
        if path.is_file() and path not in inputs:
            assert SECRET.encode() not in path.read_bytes(), path


def test_units(run, tmp_path, visits):
    found, result = fit(run, visits, "--unit", "patient_id", "--max-rows-per-unit", 4)
    check_silent(result, tmp_path, visits)
    assert found["n_features"] == 3
    assert found["max_rows_per_unit"] == found["guarantee"]["rows_per_unit"] == 4
    assert found["protected"] == found["guarantee"]["unit"] == "patient_id"
    assert found["guarantee"]["epsilon"] == pytest.approx(4)
    assert found["counted"]["released"] == found["n_records"] != N
    sizes = table().groupby("patient_id").size().clip(upper=4)
    assert abs(found["n_records"] - sizes.sum()) < 30 * found["counted"]["noise_sd"]
    written = json.loads((tmp_path / "visits-release" / "release.json").read_text())
    assert written["column_names"] == ["age", "pulse", "height"]
    shown = run("show", "visits-release")
    assert shown.exit_code == 0
    assert "patient_id" in shown.output


def test_the_bound_may_be_found_and_the_count_is_said_before_all(run, tmp_path, visits):
    result = run("fit", visits, "--unit", "patient_id", *PUBLIC)
    assert result.exit_code == 0, result.output
    assert result.output.index("not public") < result.output.index("What will be released")
    check_silent(result, tmp_path, visits)


def test_means_of_units(run, visits):
    found, _ = fit(run, visits, "--unit", "patient_id", "--estimand", "unit-means")
    assert found["n_records"] == found["counted"]["released"]
    assert found["estimand"] == "unit-means"


def test_add_remove(run, tmp_path):
    np.save(tmp_path / "rows.npy", table().drop(columns=["patient_id", "w"]).to_numpy())
    found, _ = fit(run, "rows.npy", "--neighbours", "add-remove")
    assert found["guarantee"]["adjacency"] == "add-remove-one"
    assert found["neighbours"] == "add-remove"
    assert found["counted"]["max_rows_per_unit"] == 1
    assert abs(found["n_records"] - N) < 30 * found["counted"]["noise_sd"]


def test_a_dry_run_reads_nothing_and_takes_a_guess(run, visits, monkeypatch):
    monkeypatch.setattr(counting.Counting, "run", None)
    monkeypatch.setattr(PrivateSparseCovariance, "_count", None)
    asked = (visits, "--unit", "patient_id", "--max-rows-per-unit", 2, "--dry-run")
    found, _ = fit(run, *asked, "--records", 6_000)
    assert found["n_records"] == 6_000
    assert found["guarantee"]["epsilon"] == pytest.approx(4)
    assert found["guarantee"]["rows_per_unit"] == 2
    assert found["dry_run"]


def test_what_is_hopeless_after_the_count_says_that_it_is_paid(refused, run, visits):
    result = run("fit", visits, "--unit", "patient_id", "--epsilon", 0.01, "--delta", 1e-6)
    assert result.exit_code != 0
    assert "epsilon 0.0003 is spent" in result.stderr
    assert "Nothing was read" not in result.stderr
    assert not Path("visits-release").exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--unit", "patient_id", "--columns", "age,patient_id"), "also a feature"),
        (("--unit", "nobody"), "nobody"),
        (("--unit", "patient_id", "--dry-run"), "--records is required"),
        (("--unit", "patient_id", "--records", 9_000), "--records must be left out"),
        (("--unit", "patient_id", "--settings", "scheduler.toml"), "scheduler must"),
        (("--unit", "patient_id", "--weight", "age=1"), "--weight"),
        (("--weight", "age"), "--weight must be a column and the largest weight"),
        (("--weight", "age=many"), "--weight must be a column and the largest weight"),
        (("--weight", "age=-1", "--columns", "pulse"), "--weight must be above 0"),
        (("--max-rows-per-unit", 2, "--columns", "age,pulse"), "--max-rows-per-unit"),
        (("--unit", "patient_id", "--max-rows-per-unit", 0), "--max-rows-per-unit"),
    ],
)
def test_options_that_mean_nothing_are_refused(run, tmp_path, visits, options, match):
    settings = Path("scheduler.toml")
    settings.write_text('scheduler = "tcp://nowhere:1"\n')
    result = run("fit", visits, *options, *PUBLIC)
    settings.unlink()
    assert result.exit_code != 0
    assert match in result.stderr
    check_silent(result, tmp_path, visits)


SIZE, NAMES = 3_000, ("age", "pulse", "height")
ROWS = np.random.default_rng(8).standard_normal((SIZE + 1, 3))
BUDGET = ("--epsilon", 1, "--delta", 1e-6)
REMOVED = (*BUDGET, "--neighbours", "add-remove")


def write(path, rows, **layout):
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
