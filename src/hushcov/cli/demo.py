"""`hushcov demo`: go from a table to a release, on simulated records."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import click
import numpy as np
from rich.console import Console

from hushcov._arrays import FloatArray
from hushcov._words import shell_word
from hushcov.cli.files import free_path
from hushcov.cli.options import Command, output_option
from hushcov.cli.output import busy, console, heading, paragraph, show
from hushcov.cli.report import HEAT_MAP, REPORT

_RECORDS = 20_000
_BUDGET = ("--epsilon", "1", "--delta", "1e-6")
_THEOREM = ("paper", "verify", "--features", "20", "--runs", "1")


@click.command(cls=Command, name="demo")
@output_option(
    "A new folder for the table and the release.  [default: demo, or demo-2 and so on]", folder=True
)
def command(output: Path | None) -> None:
    """Go from a table to a release, a regression and a report; takes ten to twenty seconds.

    Writes a table of 20,000 patients who do not exist, and runs 'hushcov fit' and 'ask' on it as
    you would on your own. Says at each step what to look at. Checks the paper's theorem at last.

    \b
    Examples:
      hushcov demo
      hushcov demo -o /tmp/first-look
    """
    if output is None:  # a release is never overwritten
        output = free_path(Path("demo"))
    elif output.exists():
        raise FileExistsError(
            f"{output} already exists: choose another folder with --output, or move it away."
        )
    out, table, release = console(), output / "patients.csv", output / "release"
    _write_table(out, table)
    verify = [sys.executable, "-m", "hushcov.cli.main", *_THEOREM, "--json"]
    with Popen(verify, stdout=PIPE, stderr=DEVNULL, text=True) as check:  # on another core
        _make_release(out, table, release)
        heading(out, "5. The theorem behind it")
        show(out, f"$ hushcov {shlex.join(_THEOREM)}")
        (found,) = json.loads(check.communicate()[0])["settings"]
    claims, n = found["claims"], found["inputs"]["n_records"]
    holding, empty = (sum(each[key] for each in claims) for key in ("holds", "vacuous"))
    paragraph(
        out,
        f"{holding} of the {len(claims)} claims about the paper's theorem hold at its own "
        f"constants, for {n:,} records ({empty} of them with nothing to check there).",
    )
    paragraph(
        out,
        "The paper is Zihan Zhang, 'Improved Private Sparse Covariance Estimation with Multiscale "
        "Threshold Tests' (2026). Its Algorithm 1 is MultiscaleCovariance, exact, and needs 1e9 "
        "records or more at the paper's own constants. The release above was made by the default, "
        "an adaptive mechanism of our own.",
    )
    paragraph(out, "\nNext, with a table of your own: 'hushcov start DATA'.")


def _write_table(out: Console, table: Path) -> None:
    """Write the simulated records, and say what is in them."""
    heading(out, "1. A table")
    with busy("simulating records"):
        columns = _simulate()
        table.parent.mkdir(parents=True)
        np.savetxt(
            table,
            np.column_stack(list(columns.values())),
            fmt="%.1f",
            delimiter=",",
            header=",".join(columns),
            comments="",
        )
    paragraph(
        out,
        f"{table} holds {_RECORDS:,} simulated patients, one a row, and {len(columns)} columns. "
        "Four pairs of columns are related, with true correlations of 0.87 (glucose, hba1c), 0.78 "
        "(ldl, cholesterol), 0.63 (height, weight) and 0.45 (age, systolic). hushcov is told none "
        "of it.",
    )


def _make_release(out: Console, table: Path, release: Path) -> None:
    """Make the release, ask it something, and say what to look at."""
    heading(out, "2. The release, which spends the budget")
    _run(out, "fit", str(table), *_BUDGET, "-o", str(release))
    _see(
        out,
        "'Largest correlations', with intervals that count privacy noise: the four related pairs, "
        "near their true values. Pairs too weak to be told from noise are not listed.",
    )
    heading(out, "3. A regression, which costs nothing more")
    _run(out, "ask", "regression", str(release), "weight", "--on", "height,age")
    _see(
        out,
        "the coefficients with their intervals. The true ones are 1 kg for a cm of height, and 0 "
        "for a year of age.",
    )
    heading(out, "4. The report, and a picture")
    page, picture = release / REPORT, release / HEAT_MAP
    if page.exists() and picture.exists():  # they need an extra, and 'fit' says so
        _see(out, f"{page}, in a browser, and {picture}: every pair at a glance.")


def _simulate() -> dict[str, FloatArray]:
    """Draw the columns of the table, the same ones each time."""
    age, build, sugar, fat, *others = np.random.default_rng(0).normal(size=(13, _RECORDS))
    return {
        "age": 52 + 15 * age,
        "height": 170 + 9 * build,
        "weight": 76 + 9 * build + 11 * others[0],
        "systolic": 128 + 6 * age + 12 * others[1],
        "diastolic": 79 + 8 * others[2],
        "glucose": 5.6 + 1.1 * sugar,
        "hba1c": 5.7 + 0.7 * sugar + 0.4 * others[3],
        "ldl": 3.1 + 0.8 * fat + 0.3 * others[4],
        "cholesterol": 5.2 + 0.9 * fat + 0.6 * others[5],
        "pulse": 72 + 10 * others[6],
        "steps": 6500 + 2800 * others[7],
        "sleep": 7.1 + 1.2 * others[8],
    }


def _run(out: Console, name: str, *words: str) -> None:
    """Print a command line, and run it as if it had been typed."""
    show(out, f"$ hushcov {' '.join(map(shell_word, (name, *words)))}")
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    assert command is not None
    with command.make_context(name, list(words), parent=root) as context:
        command.invoke(context)


def _see(out: Console, text: str) -> None:
    show(out, "")
    paragraph(out, f"What to see: {text}", style="bold")
