"""The page of `hushcov plan --html`: forecasts on a grid around the values asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hushcov._words import counted, memory, number
from hushcov.accounting import RELATIONS
from hushcov.accounting.promise import change_words, guess_words, highest_posterior, in_percent
from hushcov.cli.forecasts import MOST_RECORDS, Planner, Row, knowledge
from hushcov.cli.output import steps
from hushcov.cli.workers import Task, run_tasks, usable_cores
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.planning import COMPARED_MODELS, Forecast
from hushcov.report import check_pages
from hushcov.report.planner import (
    Axis,
    Figures,
    Grid,
    PlannerPage,
    Point,
    Setting,
    grid_around,
    write_planner_page,
)

_TARGET_ERROR = 0.1  # that the page starts with

Found = tuple[Setting, Point]


def check_page(planner: Planner) -> None:
    """Refuse what a page cannot show, or a package that it needs, before any work."""
    check_pages()
    if planner.request.candidates is not None:
        raise ParameterError(
            "--html cannot be used with --bandwidth or --candidate-pairs: the page has sliders for "
            "the number of features and of partners, which these pairs fix. Leave it out, or use "
            "--figure."
        )
    if planner.refine:
        raise ParameterError(
            "--html cannot be used with --refine or --mechanism multiscale: the page has hundreds "
            "of forecasts, and the search of the multiscale mechanism takes seconds for each. "
            "Leave them out; the page shows its rough figures."
        )


def write_page(
    path: Path, planner: Planner, asked: Sequence[int], target_error: float | None
) -> None:
    """Compute every forecast of the page in all cores, and write it.

    `asked` are numbers of records that were asked for, if any: the page starts with the first.
    """
    records = page_records(planner, asked)
    grid = grid_around(_setting(planner), records)
    content = PlannerPage(
        grid=grid,
        axes=_axes(planner, grid),
        start=_setting(planner),
        start_records=asked[0] if asked else records[len(records) // 2],
        mechanisms=planner.mechanisms,
        points=_computed(planner, grid),
        knowledge=knowledge(planner),
        fit_options=_fit_options(planner),
        target_error=_TARGET_ERROR if target_error is None else target_error,
    )
    write_planner_page(path, content)


def page_records(planner: Planner, asked: Sequence[int]) -> list[int]:
    """The numbers of records of a table, one round number more at each end, and those asked for."""
    usual = planner.default_records()
    more = {usual[1] // 10, *usual, usual[-2] * 10}  # ten times the last but one is the next
    fewest = planner.request.rows_averaged
    return sorted({n for n in more if fewest <= n <= MOST_RECORDS} | set(asked))


def _setting(planner: Planner) -> Setting:
    request = planner.request
    return Setting(planner.n_features, request.row_sparsity, request.epsilon, request.delta)


def _computed(planner: Planner, grid: Grid) -> dict[Setting, list[Point]]:
    """A point for every combination, under a progress bar."""
    points: dict[Setting, list[Point]] = {setting: [] for setting in grid.settings()}
    # What takes longest comes first, so that all cores end together.
    ordered = sorted(points, key=lambda each: (-each.row_sparsity, each.n_features))
    tasks = [Task(_points, (planner, setting, grid.n_records)) for setting in ordered]
    description = f"page: forecasts for {len(tasks)} settings"

    def keep(found: Found) -> None:
        setting, point = found
        points[setting].append(point)
        step(description)

    with steps(len(tasks) * len(grid.n_records)) as step:
        step(description)
        _run(tasks, min(usable_cores(), len(tasks)), keep)
    return points


def _run(tasks: Sequence[Task], workers: int, keep: Callable[[Found], None]) -> None:
    if workers == 1:
        for task in tasks:
            for found in task.function(*task.arguments):
                keep(found)
        return
    try:
        run_tasks(tasks, workers, keep)
    except (ChildProcessError, MemoryError):
        raise ChildProcessError(
            "a process that computed forecasts for the page was ended, likely for lack of memory: "
            "close other programs, or leave out --html."
        ) from None


def _points(planner: Planner, setting: Setting, records: Sequence[int]) -> Iterator[Found]:
    """The points of one setting, the smallest number of records first; for a worker."""
    request = replace(
        planner.request,
        row_sparsity=setting.row_sparsity,
        epsilon=setting.epsilon,
        delta=setting.delta,
    )
    here = replace(planner, request=request, n_features=setting.n_features)
    for n in records:
        try:
            point = _point(here.row(n))
        except HushcovError as error:  # nothing can be planned with these inputs
            point = Point({}, dict.fromkeys(planner.mechanisms, str(error)), None)
        yield setting, point


def _point(row: Row) -> Point:
    return Point(
        figures={each.mechanism: _figures(row, each) for each in row.forecasts},
        refusals={name: str(error) for name, error in row.refusals.items()},
        best=None if row.best is None else row.best.mechanism,
    )


def _figures(row: Row, each: Forecast) -> Figures:
    errors = (each.typical_error, *(each.predicted_error[model] for model in COMPARED_MODELS))
    needed, limit = row.memory(each.mechanism), each.detection_limit
    finds = "-" if limit is None else number(limit, 2) if limit < 1 else "none"
    return Figures(
        errors=errors,
        detection_limit=limit,
        memory=needed,
        rough=each.rough,
        words=(*(number(error, 2) for error in errors), finds, memory(needed)),
    )


def _axes(planner: Planner, grid: Grid) -> dict[str, Axis]:
    """The values of the sliders in words."""
    return {
        "n_records": Axis(
            tuple(counted(n, "record") for n in grid.n_records),
            tuple(_averages(planner, n) for n in grid.n_records),
        ),
        "n_features": Axis(
            tuple(counted(d, "feature") for d in grid.n_features),
            tuple(f"{counted(math.comb(d, 2), 'pair')} to look through" for d in grid.n_features),
        ),
        "row_sparsity": Axis(
            tuple(counted(k, "nonzero") for k in grid.row_sparsity),
            tuple(map(_partners, grid.row_sparsity)),
        ),
        "epsilon": Axis(
            tuple(map(_exact, grid.epsilon)),
            tuple(_factor(planner, epsilon) for epsilon in grid.epsilon),
        ),
        "delta": Axis(
            tuple(map(_exact, grid.delta)),
            tuple(f"and by {_exact(delta)} on top of that" for delta in grid.delta),
        ),
    }


def _factor(planner: Planner, epsilon: float) -> str:
    """What an epsilon promises, and how much surer somebody can become."""
    neighbours = planner.request.neighbours
    to_whom = RELATIONS[neighbours.relation], neighbours.unit
    after = in_percent(highest_posterior(0.5, epsilon))
    return (
        f"{change_words(*to_whom, 'one')} changes the probability of an outcome by a factor of "
        f"{number(math.exp(epsilon), 3)} at most: somebody who is 50 % sure "
        f"{guess_words(*to_whom)} becomes {after} sure at most"
    )


def _exact(value: float) -> str:
    """An input as it was given, but for the last digits of a double."""
    return number(value, 12)


def _averages(planner: Planner, n_records: int) -> str:
    if not planner.request.paired:
        known = "is known" if planner.request.known_mean else "is found privately"
        return f"each of them counts, as the mean {known}"
    return f"taken in pairs, as the mean is unknown: {n_records // 2:,} differences"


def _partners(row_sparsity: int) -> str:
    if row_sparsity == 1:
        return "variances alone are released"
    return f"a feature may vary together with {counted(row_sparsity - 1, 'other')} at most"


def _fit_options(planner: Planner) -> str:
    options = ["--known-mean"] if planner.request.known_mean else []
    options += ["--centre pairs"] if planner.request.paired else []
    options += ["--feature-scale SCALES"] if planner.request.known_scale else []
    return " ".join(options)
