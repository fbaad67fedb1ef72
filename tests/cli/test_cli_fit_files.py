"""`hushcov fit` on files of named columns, with nulls, on a cluster, and at size."""

import json
import time
from pathlib import Path

import distributed
import numpy as np
import pyarrow
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from command_line import in_settings, words
from hushcov.fit import fit_memory, registry
from hushcov.fit.registry import PICTURES
from hushcov.kernel.accounting import Gaussian
from hushcov.kernel.records import compact
from hushcov.release.files import read_release
from hushcov.simulate import gaussian_records, sparse_covariance

pytestmark = pytest.mark.usefixtures("no_search")

PUBLIC = ("--epsilon", 2, "--delta", 1e-6, "--row-sparsity", 2)
TRUTH = sparse_covariance("block", 4, 2)
NAMES = ("age", "weight", "pulse", "height")


@pytest.fixture
def table(tmp_path) -> pa.Table:
    """4,000 records, of which a tenth miss their weight; and a column of text."""
    rows = gaussian_records(TRUTH, 4_000) + 5.0
    rows[::10, 1] = np.nan
    columns = {
        name: pa.array(column, from_pandas=True) for name, column in zip(NAMES, rows.T, strict=True)
    }
    return pa.table(columns | {"name": ["s3cret"] * 4_000})


@pytest.fixture
def visits(tmp_path, table) -> Path:
    (tmp_path / "visits").mkdir()
    parquet.write_table(table[:2_500], tmp_path / "visits" / "1.parquet")
    parquet.write_table(table[2_500:], tmp_path / "visits" / "2.parquet")
    return tmp_path / "visits"


@pytest.mark.parametrize("source", ["visits", "visits/?.parquet"])
def test_columns_and_nulls(run, visits, source):
    chosen = ("--columns", "age, weight,pulse,height")
    result = run("fit", source, *PUBLIC, *chosen, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["n_records"], found["n_features"]) == (4_000, 4)
    assert found["output"] == "visits-release"
    stored = read_release("visits-release")
    assert stored.release.column_names == NAMES
    estimate = np.load("visits-release/covariance.npy")
    assert np.linalg.norm(estimate - TRUTH, 2) < 0.3 * np.linalg.norm(TRUTH, 2)
    assert sum(isinstance(event, Gaussian) for event in stored.release.guarantee.events) >= 3
    assert "age, weight" in words(result.stderr)
    assert "complete records, estimated privately from" in words(result.stderr)
    assert "counted from 0" not in result.stderr
    assert "s3cret" not in result.output
    complete = found["complete_records"]
    assert complete == stored.release.making.complete
    assert complete["of"] == 4_000
    # All but a tenth of the records; noise 5 deviations away once in 10^6.
    assert abs(complete["released"] - 3_600) < 5 * complete["noise_sd"]
    about = f"about {complete['released']:,} of 4,000 records are complete"
    assert about in words(result.stderr)
    shown = run("show", "visits-release")
    assert "age, weight" in words(shown.stdout)
    assert f"about {complete['released']:,} of 4,000 records" in words(shown.stdout)
    page = Path("visits-release/report.html").read_text()
    assert f"about {complete['released']:,} of 4,000" in page


def test_text_files_of_many_kinds(run):
    rows = gaussian_records(TRUTH, 500)
    lines = "\n".join(";".join(map(str, row)) for row in rows) + "\n"
    Path("x.csv").write_text(lines)
    for options, message in (
        ((), 'use delimiter = ";" in a settings file.'),
        (in_settings(delimiter=";"), "may be a record"),
        (in_settings(delimiter=";", no_header=True, names=["a", "b"]), "of the 2 names, got 4"),
    ):
        result = run("fit", "x.csv", *PUBLIC, *options)
        assert (result.exit_code, message in words(result.stderr)) == (3, True)
        assert str(rows[0, 0])[:6] not in result.output
    found = run("fit", "x.csv", *PUBLIC, *in_settings(delimiter=";", no_header=True), "--json")
    assert json.loads(found.stdout)["n_records"] == 500
    assert read_release("x-release").release.column_names == tuple(
        f"column_{i}" for i in range(1, 5)
    )
    Path("y.csv").write_text(lines.replace(";", "\t"))
    named = in_settings(delimiter="tab", no_header=True, names=["a", " b", "c", "d"])
    assert run("fit", "y.csv", *PUBLIC, *named).exit_code == 0
    assert read_release("y-release").release.column_names == ("a", "b", "c", "d")


def test_identifiers_and_dates_are_left_out_by_names_and_stated_types(run, table):
    """By what is public: the same whatever is in them, and not where somebody asks for them."""
    days = np.datetime64("2020-01-01") + np.arange(4_000) % 700
    more = {"patient_id": np.arange(4_000), "since": days, "visit date": days.astype(str)}
    table = table.append_column("patient_id", pa.array(more["patient_id"]))
    table = table.append_column("visit date", pa.array(more["visit date"]))
    csv.write_csv(table, "x.csv")
    parquet.write_table(table.append_column("since", pa.array(days)), "x.parquet")
    expected = {
        "name": "an identifier by its name",
        "patient_id": "an identifier by its name",
        "visit date": "a date by its name",
    }
    for file, more in (("x.csv", {}), ("x.parquet", {"since": "neither numbers nor text"})):
        result = run("fit", file, *PUBLIC, "--dry-run", "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert (found["n_features"], found["left_out"]) == (4, expected | more)
        said = words(result.stderr)
        assert "left out name (an identifier by its name)" in said
        result = run("fit", file, *PUBLIC, "--columns", "age,patient_id", "--dry-run", "--json")
        found = json.loads(result.stdout)
        assert (found["n_features"], found["left_out"]) == (2, {})
    Path("book.csv").write_text("name,low,high,kind,values\nname,,,category,s3cret\n")
    result = run("fit", "x.csv", *PUBLIC, "--codebook", "book.csv", "--dry-run", "--json")
    assert set(json.loads(result.stdout)["left_out"]) == {"patient_id", "visit date"}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere"])
def test_a_scheduler_that_does_not_answer(refused, visits, monkeypatch, address):
    """As the client says it after ten seconds."""

    def client(given, **_):
        assert given == address
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", client)
    line = refused(3, "fit", "visits", *PUBLIC, "--columns", "age", *in_settings(scheduler=address))
    assert f"Dask scheduler, got '{address}'" in line


def wait_for_clients_to_leave(scheduler):
    """Return once every client has been closed; fail if one stays connected for 600 seconds.

    The scheduler hears of a closed client in a thread of its own, some time after the command ends.
    """
    give_up = time.monotonic() + 600
    while not scheduler.clients.keys() <= {"fire-and-forget"}:
        assert time.monotonic() < give_up, "a client of the command is still connected"
        time.sleep(0.01)


def test_a_real_scheduler(run, visits, table):
    """Its worker is a thread here, which is quicker; the client is another one, and is closed."""
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address=None, silence_logs=50
        ) as local,
    ):
        options = ("--columns", "age,weight", *in_settings(scheduler=local.scheduler_address))
        result = run("fit", "visits", *PUBLIC, *options)
        wait_for_clients_to_leave(local.scheduler)
        # NaN is found by reading, where nulls are known of from the files' own counts.
        weights = table["weight"].fill_null(np.nan)
        for name, rows in (("1", table), ("2", table[:0])):
            known = rows.set_column(1, "weight", weights[: len(rows)])
            parquet.write_table(known, visits / f"{name}.parquet")
        for asked, message in (
            (("--columns", "age,weight", "--no-nulls"), "some are NaN or infinite"),
            (("--columns", "age", "--records", 3), "--records must be what visits holds"),
        ):
            connected = (*in_settings(scheduler=local.scheduler_address), "-o", "b")
            failed = run("fit", "visits", *PUBLIC, *asked, *connected)
            assert (failed.exit_code, message in words(failed.stderr)) == (3, True)
            wait_for_clients_to_leave(local.scheduler)
    assert result.exit_code == 0, result.stderr
    assert "in this process, beside its workers" in words(result.stdout + result.stderr)
    assert read_release("visits-release").release.column_names == ("age", "weight")
    with pytest.raises(ValueError, match="No global client"):
        distributed.get_client()


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", gaussian_records(sparse_covariance("block", 6, 2), 4_000))
    return tmp_path / "x.npy"


def test_memory_and_devices(run, refused, data, monkeypatch):
    size = ("--features", 10_000, *PUBLIC, "--records", 100_000)
    chosen = ("--mechanism", "screened", "--mechanism", "gaussian")
    words = " ".join(run("plan", *size, *chosen).stdout.split())
    assert "about 2.96 GB" in words
    (plan,) = json.loads(run("plan", *size, *chosen, "--json").stdout)["plans"]
    for each in plan["forecasts"]:
        assert each["memory_bytes"] == PICTURES + fit_memory(each["mechanism"], 100_000, 10_000)
    assert "device must name" in refused(
        2, "fit", data, *PUBLIC, *in_settings(device="x"), "-o", "b"
    )
    monkeypatch.setattr(registry, "total_memory", lambda: 10**8)
    assert "100 MB are there" in refused(5, "fit", data, *PUBLIC)


def test_a_scratch_folder_is_empty_afterwards(run, refused, tmp_path, monkeypatch):
    """Where no copy would be kept in memory."""
    monkeypatch.setattr(compact, "_MOST_KEPT", 0)
    rows = gaussian_records(sparse_covariance("block", 6, 2), 4_000)
    names = [f"x{i}" for i in range(6)]
    table = pyarrow.table({name: rows[:, i] for i, name in enumerate(names)})
    parquet.write_table(table, tmp_path / "rows.parquet")
    folder = tmp_path / "scratch"
    folder.mkdir()
    fit = ("fit", "rows.parquet", *PUBLIC)
    assert run(*fit, *in_settings(scratch=str(folder)), "-o", "a").exit_code == 0
    assert not [*folder.iterdir()]
    both = in_settings(scratch=str(folder), scheduler="tcp://127.0.0.1:1")
    assert "scratch must be left out" in refused(2, *fit, *both, "-o", "b")
    assert run(*fit, *in_settings(memory=0.00002), "-o", "b").exit_code == 0
    both = in_settings(memory=0.00002, scheduler="tcp://127.0.0.1:1")
    assert "memory must be left out" in refused(2, *fit, *both, "-o", "c")
    assert "memory must" in refused(2, *fit, *in_settings(memory=-1), "-o", "c")
    needed = [
        json.loads(run(*fit, *more, "--dry-run", "--json").stdout)["predicted_memory_bytes"]
        for more in ((), in_settings(memory=0.00002))
    ]
    assert needed[1] - needed[0] == 20_000
