"""Tables of forecasts: one mechanism a row, or one number of records a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from hushcov._words import count, memory, number
from hushcov.cli.forecasts import MOST_RECORDS, Row
from hushcov.cli.output import plain_table
from hushcov.planning import COMPARED_MODELS, Forecast, predicted

# Smallest number of records by mechanism and reference model; None where there is none.
Smallest = dict[str, dict[str, int | None]]

_FINDS = "finds\nfrom"


def _columns(table: Table, *titles: str) -> None:
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")


def mechanism_table(row: Row) -> Table:
    """Errors at one number of records: a line for each mechanism, smallest error first."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    _columns(table, "typical", *COMPARED_MODELS, _FINDS)
    for each in sorted(row.forecasts, key=lambda each: each.typical_error):
        models = (_error(each.predicted_error[model]) for model in COMPARED_MODELS)
        table.add_row(each.mechanism, _typical(row, each), *models, _limit(each))
    for name in row.refusals:
        table.add_row(name, "-", *("-" for _ in COMPARED_MODELS), "-")
    return table


def records_table(rows: Sequence[Row], mechanisms: Sequence[str]) -> Table:
    """Typical errors of all mechanisms, and the best one's on each model; a line for each n."""
    table = plain_table(gap=0)  # all columns fit in a terminal of 80
    _columns(table, "records")
    _columns(table, *(name.replace("-", "-\n") for name in mechanisms))
    _columns(table, *(f"best:\n{model}" for model in COMPARED_MODELS), _FINDS)
    for row in rows:
        found = [row.find(name) for name in mechanisms]
        typical = (Text("-") if each is None else _typical(row, each) for each in found)
        best = row.best
        models = (
            "-" if best is None else _error(best.predicted_error[model])
            for model in COMPARED_MODELS
        )
        table.add_row(count(row.n_records), *typical, *models, _limit(best))
    return table


def smallest_table(smallest: Smallest, *, rough: bool) -> Table:
    """The fewest records that reach the target, by mechanism and model."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    _columns(table, *COMPARED_MODELS)
    for name, found in smallest.items():
        mark = "~" if rough and predicted()[name].slow else ""
        values = (found[model] for model in COMPARED_MODELS)
        most = f"not by {number(MOST_RECORDS)}"
        table.add_row(name, *(most if n is None else mark + _rounded(n) for n in values))
    return table


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    """Legends of the signs that are used in a table, and reasons of refusals."""
    yield "* the smallest. Typical: the geometric mean over the three models."
    if any(_finds(row.best) for row in rows):
        yield "Finds from: correlations of this size are found nine times out of ten" + (
            "." if len(rows) == 1 else ", by the best."
        )
    if any(each.rough for row in rows for each in row.forecasts):
        yield "~ rough: its own search was not run ('hushcov plan --refine' runs it)."
    best = rows[-1].best
    if best is not None:
        needed = memory(rows[-1].memory(best.mechanism))
        yield f"A fit by {best.mechanism} takes about {needed} of memory, however many the records."
    seen = {f"{name}: {error}" for row in rows for name, error in row.refusals.items()}
    for reason in sorted(seen):
        yield f"- {reason}"


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What to heed: in full for one number of records, or in short with the numbers it is for."""
    if len(rows) == 1:
        for caution in rows[0].cautions:
            yield caution.sentence
        return
    found: dict[str, list[str]] = {}
    for row in rows:
        for caution in row.cautions:
            refused = ", which 'hushcov fit' refuses" if caution.error is not None else ""
            found.setdefault(caution.title + refused, []).append(count(row.n_records))
    for title, sizes in found.items():
        yield f"{title}: with {', '.join(sizes)} records."


def _error(value: float) -> str:
    return number(value, 2)


def _typical(row: Row, each: Forecast) -> Text:
    best = row.best is not None and each.mechanism == row.best.mechanism
    text = "*" * best + "~" * each.rough + _error(each.typical_error)
    return Text(text, style="red" if each.hopeless else "bold green" if best else "")


def _finds(each: Forecast | None) -> bool:
    return each is not None and each.detection_limit is not None and each.detection_limit < 1


def _limit(each: Forecast | None) -> str:
    if each is None or each.detection_limit is None:
        return "-"
    return number(each.detection_limit, 2) if _finds(each) else "none"


def _rounded(n: int) -> str:
    """Three digits: more than the search is good for."""
    return count(int(float(f"{n:.3g}")))
