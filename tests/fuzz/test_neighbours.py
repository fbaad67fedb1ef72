"""A slice of the neighbouring datasets, on every way in; and faults that are found.

`python -m tests.fuzz.run --kind neighbours --cases 20000` runs many more.
"""

import gzip
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hushcov.exceptions import DataError
from hushcov.tables.sources import ArrayRecords, open_records
from hushcov_lab.audit.odd_records import KINDS, quoted

from .cases import Finding
from .neighbours import run_case
from .ways_in import WAYS, Way, opened, summed

# Further forms of what another way in, or the replay of a few pairs, reads too.
SLOW = {"tsv", "csv.gz", "arrow on workers", "command, csv of one column", "csv on workers"}
SLOW |= {"parquet on workers", "command in JSON, csv", "command in JSON, parquet"}
SLOW |= {"command, csv", "csv of one column", "csv without names", "dask array"}
SLOW |= {"used estimator, csv", "csv of others, one column", "csv with notes on workers"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in WAYS]
)
def test_one_record_moves_one_record(name, tmp_path):
    """Every kind of odd record; and not all are refused, or all is well for the wrong reason."""
    way, outcomes = WAYS[name], Counter()
    for kind in way.kinds:
        try:
            outcomes[run_case(way, kind, "slice", tmp_path / "case")] += 1
        except Finding as finding:
            pytest.fail(f"{name}, {kind}: {finding}")
    expected = {"accepted", "refused"} | ({"left out"} if way.gaps else set())
    assert expected <= set(outcomes)


def test_every_kind_of_record_is_tried_somewhere():
    assert {kind for way in WAYS.values() for kind in way.kinds} == set(KINDS)


def test_values_are_recognised_however_they_are_written():
    for text in (
        *("got 7314159.25", "[7.314159e+22]", "-73141.59", "7,314,159", "7_314_159", "731 4159"),
        *("'SECRET-7f3a'", "b'secret'", "row of 2073-11-02"),
    ):
        assert quoted(text)
    for text in ("records must be finite", "got shape (73, 14)", "1.0.0", "column 'a' has nulls"):
        assert not quoted(text)


def table_of(table, *_):
    return table


def array_of(rows):
    return np.array(rows, dtype=float)


def complete_rows(table, how):
    rows = [row for row in table.rows if not np.isnan(row).any()]
    return summed(ArrayRecords(array_of(rows)), how)


def imputed(table, how):
    rows = array_of(table.rows)
    return summed(ArrayRecords(np.where(np.isnan(rows), np.nanmean(rows, axis=0), rows)), how)


def lines_as_records(source, how):
    unpack = gzip.open if source.suffix == ".gz" else open
    with unpack(source, "rt", encoding="latin-1") as file:
        lines = [re.split(r"[,\t]", line.strip())[-2:] for line in file]
    rows = [line for line in lines if len(line) == 2 and re.fullmatch(r"[-+.e\d]+", "".join(line))]
    return opened(np.array(rows, dtype=float), how)


def without_blank_lines(path, how):
    lines = path.read_text().split("\n")[1:]
    cells = [[float(cell or "nan") for cell in line.split(",")] for line in lines if line.strip()]
    return summed(open_records(array_of(cells)), how)


def clipped_to_the_largest(table, how):
    rows = array_of(table.rows)
    return summed(ArrayRecords(rows / np.abs(rows).max() * 1e4), how)


def zeros_for_text(table, how):
    rows = [[0.0 if isinstance(cell, str) else cell for cell in row] for row in table.rows]
    return summed(ArrayRecords(array_of(rows)), how)


def refusing(how):
    """Refuses all that is no table of finite numbers, with an error made from the bad cell."""

    def refuse(position, cell):
        error = DataError("records must be numbers: encode them.")
        if how == "quoting":
            raise DataError(f"records must be numbers, got {cell!r}: encode them.")
        if how == "pointing":
            raise DataError(f"records must be numbers, but row {position} is not: encode it.")
        if how == "another type":
            raise ValueError("records must be numbers")
        if how == "pickle":
            error.cell = cell
        if how == "note":
            error.add_note(f"the cell is {cell}")
        try:
            float(cell)
        except ValueError as cause:
            if how == "cause":
                raise error from cause
            if how == "context":
                raise error  # noqa: B904
            if how == "hidden":
                raise error from None
        raise error

    def read(table, how_to_read):
        for position, row in enumerate(table.rows):
            for cell in row:
                if not isinstance(cell, float | int) or not np.isfinite(cell):
                    refuse(position, cell)
        return opened(array_of(table.rows), how_to_read)

    return read


# Readers of a table, or whole ways in; a kind of record; and words of what is found.
FAULTS = {
    "rows with NaN dropped": (complete_rows, "NaN", "n changes"),
    "gaps imputed": (Way(table_of, read=imputed), "ordinary", "another sum"),
    "scaled by the data": (clipped_to_the_largest, "ordinary", "another sum"),
    "blank lines ignored": (
        replace(WAYS["csv of one column"], read=without_blank_lines, gaps=False),
        *("blank line", "n changes"),
    ),
    "lines in quotes are records": (
        replace(WAYS["csv with notes"], read=lines_as_records, gaps=False),
        *("long note", "n changes"),
    ),
    "text read as zero": (zeros_for_text, "text", "means no numbers"),
    "value quoted": (refusing("quoting"), "text", "data is quoted"),
    "row named": (refusing("pointing"), "text", "depends on values"),
    "value in the cause": (refusing("cause"), "text", "is quoted"),
    "value in the context": (refusing("context"), "text", "is quoted"),
    "value hidden from view": (refusing("hidden"), "text", "is quoted"),
    "value in a pickle": (refusing("pickle"), "text", "quoted"),
    "value in a note": (refusing("note"), "text", "is quoted"),
    "error of another type": (refusing("another type"), "text", "ValueError"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault, tmp_path):
    read, kind, words = FAULTS[fault]
    way = read if isinstance(read, Way) else Way(table_of, read=read, gaps=False)
    findings = []
    for seed in range(10):
        try:
            run_case(way, kind, seed, tmp_path / "case")
        except Finding as finding:
            findings.append(str(finding))
    assert any(words in finding for finding in findings)
