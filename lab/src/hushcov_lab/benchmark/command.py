"""`hushcov bench`: estimators and rivals on the same records, in a folder that resumes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import counted, number
from hushcov.answers.files import check_parquet
from hushcov.cli.options import INTEGER, JSON, Command
from hushcov.cli.output import console, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import MissingPackageError
from hushcov.report.style import caption, write_png
from hushcov_lab.benchmark.cells import CELLS, DELTA, PRESETS, Journal
from hushcov_lab.benchmark.contenders import CONTENDERS, check_contenders
from hushcov_lab.benchmark.figures import FIGURES, write_figures
from hushcov_lab.benchmark.results import Results
from hushcov_lab.benchmark.work import Benchmark, missing_work, usable_cores
from hushcov_lab.rivals.study import Study, StudyRun, installed_studies, prepare, write_rows

_JSON, _CSV = "results.json", "results.csv"
_MOST_WORKERS = 1024
_LETTERS = 12  # of a caption, in an inch
_MECHANISMS, _ALL = "mechanisms", "all"
#: What can be run.
STUDIES = (_MECHANISMS, *installed_studies(), _ALL)


@click.command(cls=Command, name="bench")
@click.argument("studies", nargs=-1, metavar="[STUDY]...", type=click.Choice(STUDIES))
@click.option(
    "--preset",
    type=click.Choice(tuple(PRESETS)),
    default="quick",
    show_default=True,
    help="How much: 'quick' takes two minutes a study on 2 cores, 'full' a quarter of an hour on "
    "16, with up to 10 GB of memory for each worker.",
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
    help=f"What 'mechanisms' measures, with commas: {', '.join(CONTENDERS)}.  [default: all]",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Public tables for the other studies: .npz files with arrays X and y.  [default: "
    "simulated ones, and those of packages that are installed: pip install 'hushcov-lab[tables]']",
)
@click.option(
    "--workers", type=INTEGER, metavar="N", help="Processes to use.  [default: one for each core]"
)
@JSON
def command(
    studies: tuple[str, ...],
    preset: str,
    output: Path | None,
    contenders: str | None,
    tables: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Measure estimators and their rivals on the same records, and draw the figures.

    STUDY is one or more of these, 'mechanisms' if none is named:

    \b
      mechanisms    every estimator on the same simulated records: error against
                    records, features, nonzeros and budget; which mechanism is
                    best at which size; time and memory; rates of the theorems
      regression    private least squares: one release beside published rivals
      components    principal components beside published rivals
      correlations  correlations and their intervals beside published rivals
      covariance    whole covariances with public bounds beside a published rival
      all           every one of them

    Records are simulated or public tables; noise is seeded, and nothing here is anybody's data.
    Every study but the first writes its rows to STUDY.parquet and its figure to STUDY.png.

    Every finished cell is on the disk before the next one counts: the same command goes on where a
    run was killed or interrupted.

    \b
    Examples:
      hushcov bench --preset full --workers 14
      hushcov bench regression --tables data/
      hushcov bench all
    """
    cure = "each is a process with a core of its own, at best."
    workers = usable_cores() if workers is None else workers
    check_integer("workers", workers, at_least=1, at_most=_MOST_WORKERS, cure=cure)
    names = STUDIES[:-1] if _ALL in studies else tuple(dict.fromkeys(studies)) or (_MECHANISMS,)
    for option, value, used in (
        ("--contenders", contenders, _MECHANISMS in names),
        ("--tables", tables, set(names) != {_MECHANISMS}),
    ):
        if value is not None and not used:
            raise click.UsageError(
                f"{option} is not for the study of {names[0]}: leave it out, or name another STUDY."
            )
    chosen = (
        tuple(CONTENDERS)
        if contenders is None
        else check_contenders([name.strip() for name in contenders.split(",")])
    )
    folder = Path(f"bench-{preset}") if output is None else output
    runs: dict[str, Callable[[], _Done]] = {}
    for name in names:  # all that is refused is refused before anything is measured
        if name == _MECHANISMS:
            _check_folder(folder, CELLS, (_JSON, _CSV, *FIGURES))
            benchmark = Benchmark(PRESETS[preset], chosen)
            runs[name] = partial(_measure_mechanisms, benchmark, folder, workers)
        else:
            check_parquet()
            study = prepare(name, preset, tables)
            _check_folder(folder, study.files[0], study.files[1:])
            runs[name] = partial(_measure_study, study, folder, workers)
    out, found = console(), {}
    for name, run in runs.items():
        started = time.perf_counter()
        done = run()
        found[name] = done.content | {"files": [*map(str, done.files)], "not_drawn": done.missing}
        if not as_json:
            done.show(out)
            _say_files(out, done, time.perf_counter() - started)
    if as_json:
        content = found if len(found) > 1 else found[names[0]]
        click.echo(json.dumps(content, indent=1, allow_nan=False))


@dataclass(frozen=True)
class _Done:
    """Results of a study: for people, as plain data, and in files; and why none was drawn."""

    n_cells: int
    resumed: int
    content: dict[str, Any]
    show: Callable[[Console], None]
    files: list[Path]
    missing: str | None


def _say_files(out: Console, done: _Done, seconds: float) -> None:
    note = f" {counted(done.resumed, 'cell')} had been finished before." if done.resumed else ""
    heading(out, f"{counted(done.n_cells, 'cell')}, {seconds:.0f} s.{note}")
    for path in done.files:
        paragraph(out, f"written: {path}")
    if done.missing is not None:
        paragraph(out, f"not drawn: {done.missing}")


def _check_folder(folder: Path, journal: str, names: Sequence[str]) -> None:
    """Never write over files that no benchmark made."""
    if (folder / journal).exists():
        return
    for name in names:
        if (folder / name).exists():
            raise FileExistsError(
                f"{folder} has a {name} and no benchmark that made it: choose another folder with "
                "--output, or move it away."
            )


def _finish(journal: Journal, n_cells: int, run: Callable[[Callable[[Any], None]], None]) -> int:
    """Do what is left, and return the number of cells that were there before."""
    resumed = len(journal.cells)

    def keep(cell: Any) -> None:
        journal.append(cell)
        step(str(cell))

    try:
        with steps(n_cells) as step:
            step("starting workers")
            run(keep)
    except KeyboardInterrupt:
        folder = journal.path.parent
        note = f"hushcov: finished cells are kept in {folder}: the same command goes on"
        click.echo(note, err=True)
        raise
    return resumed


def _measure_mechanisms(benchmark: Benchmark, folder: Path, workers: int) -> _Done:
    with Journal(folder, benchmark.identity()) as journal:
        work = missing_work(benchmark, journal.cells)
        resumed = _finish(journal, work.n_cells, partial(work.run, workers))
        results = Results(benchmark, journal.cells)
    content = results.to_dict()
    show = partial(_print, results=results)
    return _Done(len(results.cells), resumed, content, show, *_save(folder, results, content))


def _measure_study(run: StudyRun, folder: Path, workers: int) -> _Done:
    with run.journal(folder) as journal:
        left = run.missing(journal.cells)
        resumed = _finish(journal, len(left), partial(run.run, left, workers))
        rows = run.rows(journal.cells)
    study, (cells, table, figure) = run.study, (folder / name for name in run.files)
    written, missing = [cells, write_rows(table, rows)], None
    try:
        drawn = study.draw(rows)
        width = int(_LETTERS * drawn.get_figwidth())
        caption(drawn, study.caption, width=width, headline=study.title)
        written.append(write_png(figure, drawn))
    except MissingPackageError as error:
        missing = str(error)
    content = {"study": study.name, "preset": run.preset, "rows": len(rows)}
    show_rows = partial(_print_study, study=study, rows=rows)
    return _Done(len(run.cells), resumed, content, show_rows, written, missing)


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


def _print_study(out: Console, study: Study, rows: Sequence[dict[str, Any]]) -> None:
    heading(out, study.title)
    if study.summary is not None:
        asked = study.summary
        where = "".join(f", {name} = {number(value)}" for name, value in asked.where.items())
        paragraph(out, f"{asked.metric} by {asked.across}{where}:")
        table = plain_table(gap=2)
        table.add_column("method", no_wrap=True)
        for title in ("answered", "smallest", "median", "largest"):
            table.add_column(title, justify="right", no_wrap=True)
        for name, values, total in asked.lines(rows):
            ends = (values[0], statistics.median(values), values[-1]) if values else (None,) * 3
            shown = ("-" if each is None else number(each, 3) for each in ends)
            table.add_row(name, f"{len(values)} of {total}", *shown)
        show(out, table)
    paragraph(out, study.caption)
