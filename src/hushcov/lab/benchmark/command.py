"""`hushcov bench`: every estimator on the same simulated records, in a folder that resumes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import counted, number
from hushcov.cli.options import INTEGER, JSON, Command
from hushcov.cli.output import console, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import MissingPackageError
from hushcov.lab.benchmark.cells import CELLS, DELTA, PRESETS, Cell, Journal
from hushcov.lab.benchmark.contenders import CONTENDERS, check_contenders
from hushcov.lab.benchmark.figures import FIGURES, write_figures
from hushcov.lab.benchmark.results import Results
from hushcov.lab.benchmark.work import Benchmark, missing_work, usable_cores

_JSON, _CSV = "results.json", "results.csv"
_MOST_WORKERS = 1024


@click.command(cls=Command, name="bench")
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    default="quick",
    show_default=True,
    help="How much: 'quick' takes two minutes on 2 cores, 'full' a quarter of an hour on 16, with "
    "up to 10 GB of memory for each worker.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where everything is written. A folder of the same benchmark is continued.  "
    "[default: bench-PRESET]",
)
@click.option(
    "--contenders",
    metavar="A,B,...",
    help=f"What is measured, with commas: {', '.join(CONTENDERS)}.  [default: all]",
)
@click.option(
    "--workers", type=INTEGER, metavar="N", help="Processes to use.  [default: one for each core]"
)
@JSON
def command(
    preset: str, output: Path | None, contenders: str | None, workers: int | None, as_json: bool
) -> None:
    """Measure every estimator on the same simulated records.

    Error against the number of records, of features, of nonzeros and the budget; which mechanism
    is best at which size, predicted and measured; time and memory; and the rates of the theorems.
    Records are Gaussian, with mean zero and public scales; nothing here is anybody's data.

    Every finished cell is on the disk before the next one counts: the same command goes on where a
    run was killed or interrupted.

    \b
    Example:
      hushcov bench --preset full --workers 14
    """
    cure = "each is a process with a core of its own, at best."
    workers = usable_cores() if workers is None else workers
    check_integer("workers", workers, at_least=1, at_most=_MOST_WORKERS, cure=cure)
    names = (
        tuple(CONTENDERS)
        if contenders is None
        else check_contenders([name.strip() for name in contenders.split(",")])
    )
    benchmark = Benchmark(PRESETS[preset], names)
    folder = Path(f"bench-{preset}") if output is None else output
    _check_folder(folder)
    started = time.perf_counter()
    results, resumed = _run(benchmark, folder, workers)
    content = results.to_dict()
    written, missing = _save(folder, results, content)
    if as_json:
        files = {"files": [str(path) for path in written], "not_drawn": missing}
        click.echo(json.dumps(content | files, indent=1, allow_nan=False))
        return
    out = console()
    _print(out, results)
    seconds = time.perf_counter() - started
    note = f" {counted(resumed, 'cell')} had been finished before." if resumed else ""
    heading(out, f"{counted(len(results.cells), 'cell')}, {seconds:.0f} s.{note}")
    for path in written:
        paragraph(out, f"written: {path}")
    if missing is not None:
        paragraph(out, f"not drawn: {missing}")


def _check_folder(folder: Path) -> None:
    """Never write over files that no benchmark made."""
    if (folder / CELLS).exists():
        return
    for name in (_JSON, _CSV, *FIGURES):
        if (folder / name).exists():
            raise FileExistsError(
                f"{folder} has a {name} and no benchmark that made it: choose another folder with "
                "--output, or move it away."
            )


def _run(benchmark: Benchmark, folder: Path, workers: int) -> tuple[Results, int]:
    """Do what is left, and return all results with the number of cells that were there before."""
    with Journal(folder, benchmark.identity()) as journal:
        work = missing_work(benchmark, journal.cells)
        resumed = len(journal.cells)

        def keep(cell: Cell) -> None:
            journal.append(cell)
            step(str(cell))

        try:
            with steps(work.n_cells) as step:
                step("starting workers")
                work.run(workers, keep)
        except KeyboardInterrupt:
            note = f"hushcov: finished cells are kept in {folder}: the same command goes on"
            click.echo(note, err=True)
            raise
        return Results(benchmark, journal.cells), resumed


def _save(folder: Path, results: Results, content: dict[str, Any]) -> tuple[list[Path], str | None]:
    """Write all files, and return them; with the reason if figures cannot be drawn."""
    texts = {_JSON: json.dumps(content, indent=1, allow_nan=False) + "\n", _CSV: results.to_csv()}
    for name, text in texts.items():  # all or nothing: a reader never sees half a file
        part = folder / f"{name}.part"
        part.write_text(text)
        part.replace(folder / name)
    written = [folder / name for name in (CELLS, _JSON, _CSV)]
    try:
        return written + write_figures(folder, results), None
    except MissingPackageError as error:
        return written, str(error)


def _print(out: Console, results: Results) -> None:
    base = results.benchmark.preset.base
    rows = results.headline()
    heading(out, f"At the base point: {base}, delta = {number(DELTA)}")
    show(out, "")
    show(out, _table(rows))
    paragraph(
        out,
        "Error: operator norm of the error over that of the covariance, median over the seeds. "
        "Found: share of the related pairs in the estimate. True: share of pairs in the estimate "
        "that are related. Seconds and memory: one fit with its plan, in a process of its own, "
        "beyond the records and the program.",
    )
    for row in rows:
        if row["skipped"] is not None:
            paragraph(out, f"{row['contender']} was skipped: {row['skipped']}")


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = plain_table(gap=2)
    table.add_column("contender", no_wrap=True)
    table.add_column("privacy", no_wrap=True)
    for title in ("error", "found", "true", "seconds", "MB"):
        table.add_column(title, justify="right", no_wrap=True)
    private = [row["error"] for row in rows if row["privacy"] != "not private" and row["error"]]
    for row in rows:
        best = bool(private) and row["error"] == min(private)
        table.add_row(
            Text(row["contender"], style="bold green" if best else ""),
            row["privacy"],
            *(
                "-" if row[name] is None else number(row[name], 3)
                for name in ("error", "recall", "precision", "seconds")
            ),
            "-" if row["megabytes"] is None else f"{row['megabytes']:,.0f}",
        )
    return table
