"""Common mistakes and what is printed for each: the data of tests/docs/test_mistakes.py.

    PYTHONPATH=src python benchmarks/guards/mistakes.py [--check]

Every mistake is made, on the command line or in Python, in a folder of its own. `--check` compares
with the file instead of writing it. Messages name no value of a record.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner

import hushcov
from hushcov.cli.main import cli
from hushcov.ledger import Ledger

PRINTED = Path(__file__).resolve().parents[2] / "tests" / "docs" / "mistakes.txt"
ROWS = 4_000
NAMES = ("age", "weight", "pulse", "height")
BUDGET = "--epsilon 1 --delta 1e-6"
HEAD = """# Made by benchmarks/guards/mistakes.py.
# patients.csv has the columns age, weight, pulse and height, and X is the same as a DataFrame.
# est is hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6).
"""


@dataclass(frozen=True)
class Mistake:
    """What somebody does: a command line, or lines of Python, of which the last one fails."""

    title: str
    command: str = ""
    python: str = ""
    fits: bool = False  # whether it is no mistake that stops a fit
    note: str = ""  # what to do, where others print the message


MISTAKES = (
    Mistake("No epsilon", "fit patients.csv"),
    Mistake("A typo in a command", "fti patients.csv"),
    Mistake("A typo in an option", "fit patients.csv --epsilion 1 --delta 1e-6"),
    Mistake("A file that is not there", f"fit patient.csv {BUDGET}"),
    Mistake("A typo in a column", f"fit patients.csv --columns age,wieght,plus {BUDGET}"),
    Mistake("Columns of text", f"fit visits.csv {BUDGET}"),
    Mistake("Several of these at once", f"fit visits.csv --columns age,age,wieght,city {BUDGET}"),
    Mistake("A header and nothing below it", f"fit header.csv {BUDGET}"),
    Mistake("An empty file", f"fit empty.csv {BUDGET}"),
    Mistake("Semicolons between the fields", f"fit semicolons.csv {BUDGET}"),
    Mistake("Decimal commas", f"fit commas.csv --settings semicolons.toml {BUDGET}"),
    Mistake("A spreadsheet", f"fit patients.xlsx {BUDGET}"),
    Mistake("No names in the first line", f"fit bare.csv {BUDGET}"),
    Mistake("Two columns of one name", f"fit twice.csv {BUDGET}"),
    Mistake("An epsilon of 100, or of 0", "fit patients.csv --epsilon 100 --delta 1e-6"),
    Mistake("An epsilon in words", "fit patients.csv --epsilon one --delta 1e-6"),
    Mistake("A delta that protects nobody", "fit patients.csv --epsilon 1 --delta 0.01"),
    Mistake("Missing values", f"fit gaps.csv {BUDGET} --no-nulls"),
    Mistake(
        "Missing values, and a ledger",
        f"fit gaps.csv {BUDGET} --no-nulls --ledger budget.db --dataset gaps",
    ),
    Mistake("Too few rows: a hopeless budget", f"fit few.csv {BUDGET}"),
    Mistake("A plan for too few rows", f"plan --records 0 --features 4 {BUDGET}"),
    Mistake("A mechanism that is not there", f"fit patients.csv --mechanism lasso {BUDGET}"),
    Mistake("A unit column that is not there", f"fit patients.csv --unit patient {BUDGET}"),
    Mistake(
        "More than the ledger has left",
        f"fit patients.csv {BUDGET} --ledger budget.db --dataset patients",
    ),
    Mistake(
        "A ledger that is used up",
        f"fit patients.csv {BUDGET} --ledger budget.db --dataset spent",
    ),
    Mistake(
        "A ledger for somebody else",
        f"fit patients.csv {BUDGET} --ledger budget.db --dataset people",
    ),
    Mistake(
        "A dataset that is not in the ledger",
        f"fit patients.csv {BUDGET} --ledger budget.db --dataset visits",
    ),
    Mistake("A dataset without a ledger", f"fit patients.csv {BUDGET} --dataset patients"),
    Mistake("A folder that holds a release", f"fit patients.csv {BUDGET} -o release"),
    Mistake("A typo in the folder of a release", "show relaese"),
    Mistake("A damaged release", "show damaged"),
    Mistake("Bounds the wrong way round", f"fit patients.csv --codebook bounds.csv {BUDGET}"),
    Mistake("A constant column", python="est.fit(X.assign(pulse=70.0))", fits=True),
    Mistake("Identifiers as a feature", python='est.fit(X.assign(id=list("abcd") * 1_000))'),
    Mistake("Columns of text and dates", python='est.fit(X.assign(city="x", day="2024-01-31"))'),
    Mistake("True and false as text", python='est.fit(X.assign(smoker=["yes", "no"] * 2_000))'),
    Mistake(
        "NaN in an array, promised to be complete",
        python="est.set_params(drop_nulls=False).fit(np.where(X > 70, np.nan, X))",
    ),
    Mistake("Complex numbers", python="est.fit(X.to_numpy() * 1j)"),
    Mistake("One column as a 1-D array", python='est.fit(X["age"].to_numpy())'),
    Mistake(
        "Two columns of one name in a DataFrame",
        python='est.fit(X.set_axis(["a", "b", "a", "c"], axis=1))',
    ),
    Mistake(
        "A seed for the noise",
        python="hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=0).fit(X)",
        fits=True,
    ),
    Mistake(
        "A search over the same rows",
        python="from sklearn.model_selection import GridSearchCV\n"
        'GridSearchCV(est, {"row_sparsity": [2, 3]}).fit(X)',
        note="These are scikit-learn's words. Do not add a scoring: every fit of a search spends "
        "budget of its own.\n`hushcov plan` says what to expect of other parameters, and needs no "
        "records.",
    ),
    Mistake("A question before the fit", python="est.pairs()"),
    Mistake("No budget", python="hushcov.PrivateSparseCovariance().fit(X)"),
    Mistake(
        "An unknown mechanism",
        python='hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6, mechanism="lasso").fit(X)',
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the file")
    with workplace():
        found = "\n".join([HEAD, *(section(each) for each in MISTAKES)])
    if not parser.parse_args().check:
        PRINTED.write_text(found)
        return 0
    same = PRINTED.read_text() == found
    print("the file is up to date" if same else "the file differs: run this without --check")
    return 0 if same else 1


def section(mistake: Mistake) -> str:
    """A heading, what was done, and what was printed."""
    if mistake.command:
        done, printed = f"hushcov {mistake.command}", on_command_line(mistake.command)
    else:
        done, printed = mistake.python, in_python(mistake.python)
    lines = [f"## {mistake.title}", "", *indented(done), "", *quoted(printed), ""]
    return "\n".join([*lines, *([mistake.note, ""] if mistake.note else [])])


def on_command_line(command: str) -> str:
    """The last line on standard error, and the exit code."""
    answer = CliRunner().invoke(cli, shlex.split(command), prog_name="hushcov")
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        return f"A traceback: {answer.exception!r}"
    line = (answer.stderr or answer.stdout).strip().splitlines()[-1]
    return f"{line} (exit code {answer.exit_code})"


def in_python(code: str) -> str:
    """The exception, or the warnings and what the last line is."""
    names = {"X": table(), "est": estimator(), "hushcov": hushcov, "np": np}
    *before, last = code.splitlines()
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            exec("\n".join(before), names)
            value = eval(last, names)
    except Exception as error:
        return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    said = [f"{each.category.__name__}: {each.message}" for each in seen]
    return "\n".join(said) or f"No message. The last line is {value!r}."


def estimator() -> Any:
    """An estimator with an ordinary budget."""
    return hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-6)


def table() -> pd.DataFrame:
    """Records of four features."""
    values = np.random.default_rng(0).normal(size=(ROWS, len(NAMES))).round(3)
    return pd.DataFrame(values * [15, 12, 10, 9] + [45, 75, 70, 170], columns=list(NAMES))


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """A folder with the files of all mistakes."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write_files()
            yield
        finally:
            os.chdir(before)


def write_files() -> None:
    """Tables, a ledger and releases."""
    X = table()
    X.to_csv("patients.csv", index=False)
    X.assign(city="x", day="2024-01-31").to_csv("visits.csv", index=False)
    X[:0].to_csv("header.csv", index=False)
    Path("empty.csv").touch()
    X.to_csv("semicolons.csv", index=False, sep=";")
    X.to_csv("commas.csv", index=False, sep=";", decimal=",")
    Path("semicolons.toml").write_text('delimiter = ";"\n')
    X.to_csv("bare.csv", index=False, header=False)
    X.to_csv("twice.csv", index=False, header=["age", "weight", "age", "height"])
    X.mask(X.index.to_series() % 50 == 7).to_csv("gaps.csv", index=False)
    X[:30].to_csv("few.csv", index=False)
    Path("bounds.csv").write_text("name,low,high,kind,values\nage,120,0,number,\n")
    X[:3].to_csv("patients.xlsx", index=False)  # whatever is in it: its name is refused
    ledger = Ledger("budget.db")
    for name in ("patients", "spent", "gaps"):
        ledger.open_dataset(name, 1.0, 1e-6)
    ledger.open_dataset("people", 1.0, 1e-6, unit="person")
    known = {"delta": 1e-6, "ledger": ledger}
    hushcov.PrivateSparseCovariance(epsilon=0.5, dataset="patients", **known).fit(X)
    release = hushcov.PrivateSparseCovariance(epsilon=1.0, dataset="spent", **known).fit(X).release_
    for folder in ("release", "damaged"):
        release.write(folder)
    text = Path("damaged/release.json").read_text()
    Path("damaged/release.json").write_text(text.replace("age", "agf"))


def indented(text: str) -> list[str]:
    return [f"    {line}" for line in text.splitlines()]


def quoted(text: str) -> list[str]:
    return [f"> {line}" for line in text.replace(str(Path.cwd()), "").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
