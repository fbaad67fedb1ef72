"""`hushcov export --to rows`: rows and the text beside them, and what is refused before either."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_cli_show import write

from command_line import in_settings, words


@pytest.fixture
def release(run):
    rng = np.random.default_rng(0)
    n = 20_000
    region = rng.choice(["north", "south"], n)
    table = {"age": rng.integers(18, 90, n), "region": region}
    table["weight"] = 60 + 0.3 * table["age"] + 10 * (region == "north") + rng.normal(0, 9, n)
    pd.DataFrame(table).to_csv("people.csv", index=False)
    Path("book.csv").write_text(
        "name,low,high,kind,values\nage,18,90,integer,\nregion,,,category,north|south\n"
    )
    args = ("--codebook", "book.csv", "--epsilon", "1", "--delta", "1e-6")
    fitted = run("fit", "people.csv", *args, *in_settings(marginals=0.1), "-o", "out")
    assert fitted.exit_code == 0
    assert "centres, scales and quantiles of the features" in words(fitted.stdout)
    Path("people.csv").unlink()
    return Path("out")


def test_rows_of_a_table_as_it_was(run, release):
    shown = words(run("show", "out").stdout)
    assert "quantiles of 4 of 4 features were released" in shown
    args = ("export", "out", "--to", "rows", "-n", "3e3", "--codebook", "book.csv", "--seed", "4")
    result = run(*args, "-o", "rows.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "rows 3,000 rows of 3 columns, by the seed 4" in words(result.stdout)
    assert "not kept tails" in words(result.stdout)
    rows = pd.read_csv("rows.csv")
    assert list(rows) == ["age", "region", "weight"]
    assert len(rows) == 3000
    assert rows.age.dtype == np.int64
    assert rows.age.between(18, 90).all()
    assert set(rows.region) == {"north", "south"}
    assert 5 < rows.groupby("region").weight.mean().diff().abs().max() < 15
    text = Path("rows.txt").read_text()
    assert "from a release of people.csv" in text
    assert "ignore the noise" in text
    again = run(*args, "-o", "more.parquet", "--json")
    found = json.loads(again.stdout)
    assert (found["rows"], found["seed"], found["statement"]) == (3000, 4, "more.txt")


def test_refusals_write_nothing(run):
    release = write()
    Path("book.csv").write_text("name,low,high,kind\n")
    before = sorted(Path().rglob("*"))
    cases = {
        ("-n", "0", "-o", "a.csv"): (2, "--rows must be an integer at least 1"),
        ("-n", "1.5", "-o", "a.csv"): (2, "not a whole number"),
        ("-n", "10", "-o", "a.txt"): (2, "--output must end in .csv or .parquet"),
        ("-n", "10", "-o", "book.csv"): (2, "--output must be a new file, got book.csv"),
        ("-n", "10", "-o", "out/a.csv"): (2, "output must lie outside the release"),
        ("-n", "10", "-o", "a.csv", "--codebook", "none.csv"): (6, "none.csv does not exist"),
        ("-o", "a.csv"): (2, "Missing option '-n'"),
        ("-n", "10", "--no-psd"): (2, "--psd is for a matrix"),
    }
    for args, (code, text) in cases.items():
        result = run("export", "out", "--to", "rows", *args)
        assert result.exit_code == code, args
        assert text in words(result.stderr)
    matrix = run("export", "out", "--to", "csv", "--seed", "1")
    assert (matrix.exit_code, "--seed is for --to rows" in words(matrix.stderr)) == (2, True)
    stored = bytearray((release / "integers.npy").read_bytes())
    stored[-1] ^= 1
    (release / "integers.npy").write_bytes(stored)
    assert run("export", "out", "--to", "rows", "-n", "10").exit_code == 1
    assert sorted(Path().rglob("*")) == before
