"""Of several files no message says which: there may be one for each person."""

from __future__ import annotations

import pickle
from functools import partial

import dask
import numpy as np
import pandas as pd
import pytest

from hushcov.exceptions import DataError, RecordsFileError
from hushcov.tables.cluster import DaskRecords
from hushcov.tables.files import read_header
from hushcov.tables.sources import open_records
from table_helpers import refused

NAMES, SECRET = ["age", "pulse", "height"], "jane-doe"
ROWS = np.random.default_rng(1).standard_normal((40, 3))
refusal = partial(refused, secrets=(SECRET,))
SUFFIXES = ("csv", "tsv", "csv.gz", "parquet", "feather")
every_format = pytest.mark.parametrize("suffix", SUFFIXES)


def write(path, table):
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".feather":
        table.to_feather(path)
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


@pytest.fixture
def folder(tmp_path, suffix):
    """Two files, of which the second is of a person."""
    for name in ("a", SECRET):
        write(tmp_path / f"{name}.{suffix}", pd.DataFrame(ROWS, columns=NAMES))
    return tmp_path


def changed(change):
    """The table with another name, or another value, of the pulse."""
    table = pd.DataFrame(ROWS, columns=NAMES)
    if change == "name":
        return table.rename(columns={"pulse": "puls"})
    if change == "72bpm":
        table["pulse"] = table["pulse"].astype(str)
    table.loc[3, "pulse"] = change
    return table


@every_format
@pytest.mark.parametrize("change", ["72bpm", "name", np.inf, np.nan])
def test_what_is_in_a_file_is_refused_without_its_name(folder, suffix, change):
    write(folder / f"{SECRET}.{suffix}", changed(change))
    several = [str(path) for path in sorted(folder.iterdir())]
    for source in (folder, f"{folder}/*", several):
        words = refusal(lambda given=source: open_records(given).map_sum(_moments))
        if isinstance(change, str):
            assert words.startswith("one of the files")


@every_format
@pytest.mark.parametrize("content", [b"", b"nothing", b"\xff\xfe,\n1,2,3,4\n5\n"])
def test_damaged_files_are_refused_without_their_names(folder, suffix, content):
    (folder / f"{SECRET}.{suffix}").write_bytes(content)
    assert refusal(lambda: open_records(folder)).startswith(f"one of the files of {folder} ")
    (folder / f"a.{suffix}").unlink()  # the folder was named, and not the file
    if content == b"nothing" and suffix in ("csv", "tsv"):  # the name of a column, and no record
        assert open_records(folder).n_records == 0
        return
    assert refusal(lambda: open_records(folder)).startswith(f"one of the files of {folder} ")
    if content != b"nothing":  # which may be a name
        refusal(lambda: read_header(folder))


@every_format
def test_files_that_are_named_are_named(folder, suffix):
    path = folder / f"{SECRET}.{suffix}"
    for source in (path, [path]):
        with pytest.raises(DataError, match=SECRET):
            open_records(source, columns=["weight"])
    with pytest.raises(RecordsFileError, match="nobody"):
        open_records([path, folder / f"nobody.{suffix}"])


@every_format
def test_files_that_are_not_named_are_read_here_and_by_workers(folder, suffix):
    records = open_records(folder)
    travelled = pickle.loads(pickle.dumps(records))
    with dask.config.set(scheduler="threads", num_workers=1):
        elsewhere = DaskRecords(records).map_sum(_moments)
    for found in (records.map_sum(_moments), travelled.map_sum(_moments), elsewhere):
        assert found[0] == 80
    write(folder / f"{SECRET}.{suffix}", pd.DataFrame(ROWS[:7], columns=NAMES))
    assert "one of the files" in refusal(lambda: travelled.map_sum(_moments))


def _moments(block):
    return np.array([len(block)])


@every_format
def test_a_typo_has_a_cure_that_keeps_the_columns(folder, suffix):
    path = folder / f"{SECRET}.{suffix}"
    write(path, changed("72bpm"))
    words = refusal(lambda: open_records(folder))
    assert "rule that uses their own record alone" in words
    assert words.index("drop_nulls=True") < words.index("columns=[")
    write(path, changed(np.nan))
    assert open_records(folder, drop_nulls=True).n_features == 3


@pytest.mark.parametrize("kind", [object, "string"])
def test_a_typo_in_a_frame_has_it_too(kind):
    table = pd.DataFrame(ROWS, columns=NAMES).astype({"pulse": kind})
    table.loc[3, "pulse"] = "72bpm"
    words = refusal(lambda: open_records(table).map_sum(_moments))
    assert "own record alone, as pandas.to_numeric" in words
    assert "drop_nulls=True" in words
    table["pulse"] = pd.to_numeric(table["pulse"], errors="coerce")
    assert open_records(table, drop_nulls=True).n_features == 3
