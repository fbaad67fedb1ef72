"""Forecasts of each mechanism at many numbers of records, and tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import count, memory, number
from hushcov.cli.output import plain_table
from hushcov.exceptions import HushcovError
from hushcov.inputs import ReleaseInputs
from hushcov.planning import (
    COMPARED_MODELS,
    Caution,
    Forecast,
    Request,
    comparable,
    compare,
    default_mechanism,
    fit_memory,
    forecast,
    predicted,
    smallest_n,
)
from hushcov.planning.registry import LARGEST_DENSE, PICTURES

# Smallest number of records by mechanism and reference model; None where there is none.
Smallest = dict[str, dict[str, int | None]]

MOST_RECORDS = 10**12  # where the search for the smallest number of records ends too
MOST_FEATURES = 10**9
_DEFAULT_RUNGS = 8
_LAST_RUNG = 24
_WIDEST_TITLE = 9  # longer words are broken
_FINDS = "finds\nfrom"


@dataclass(frozen=True)
class PlanRow:
    """All forecasts for one number of records, in the order they were asked for."""

    n_records: int
    inputs: ReleaseInputs
    forecasts: tuple[Forecast, ...]
    refusals: dict[str, HushcovError]  # of mechanisms that cannot be planned here
    cautions: tuple[Caution, ...] = ()
    prepared: bool = True  # whether means are found privately

    @property
    def best(self) -> Forecast | None:
        """The smallest error; a rough figure is too weak a reason to prefer a mechanism."""
        known = [each for each in self.forecasts if not each.rough] or self.forecasts
        return min(known, key=lambda each: each.typical_error, default=None)

    def find(self, mechanism: str) -> Forecast | None:
        """Return the forecast of a mechanism, if there is one."""
        return next((each for each in self.forecasts if each.mechanism == mechanism), None)

    def memory(self, mechanism: str) -> int:
        """Return the bytes that 'hushcov fit' needs, beside what reading files takes."""
        return command_memory(mechanism, self.inputs, prepared=self.prepared)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "n_records": self.n_records,
            "best": None if self.best is None else self.best.mechanism,
            "forecasts": [
                forecast_dict(each) | {"memory_bytes": self.memory(each.mechanism)}
                for each in self.forecasts
            ],
            "refusals": {name: str(error) for name, error in self.refusals.items()},
            "warnings": [caution.sentence for caution in self.cautions],
        }


def command_memory(mechanism: str, inputs: ReleaseInputs, *, prepared: bool) -> int:
    """Bytes that 'hushcov fit' needs, beside what reading files takes."""
    n, d, known = inputs.n_records, inputs.n_features, inputs.candidates
    sparse = d > LARGEST_DENSE or known is not None
    found = fit_memory(mechanism, n, d, sparse=sparse, prepared=prepared, candidates=known)
    return PICTURES + found


def memory_words(n_bytes: int) -> str:
    """Say how much memory a fit takes, for a plan, which knows no files."""
    return (
        f"takes about {memory(n_bytes)} of memory, however many the records. Reading Parquet, "
        "Arrow or CSV files takes more: 'hushcov fit --dry-run' says how much."
    )


def forecast_dict(each: Forecast) -> dict[str, object]:
    """Return a forecast as plain, JSON-ready data."""
    return {
        "mechanism": each.mechanism,
        "predicted_error": dict(each.predicted_error),
        "typical_error": each.typical_error,
        "detection_limit": each.detection_limit,
        "rough": each.rough,
    }


@dataclass(frozen=True)
class Planner:
    """Forecasts of some mechanisms for a budget and what is known of the records.

    Where a mechanism's own search takes seconds, its figures are rough without `refine`.
    """

    request: Request
    n_features: int
    mechanisms: tuple[str, ...] = tuple(predicted())
    refine: bool = False
    adaptive_width: bool = False

    @property
    def default(self) -> str:
        """The mechanism of a fit where none is named."""
        return default_mechanism(known=self.request.candidates is not None).name

    def inputs(self, n_records: int) -> ReleaseInputs:
        """Return the inputs that a fit would plan with."""
        cure = "it counts rows."
        check_integer("n_records", n_records, at_least=1, at_most=MOST_RECORDS, cure=cure)
        cure = "it is the number of columns."
        check_integer("n_features", self.n_features, at_least=1, at_most=MOST_FEATURES, cure=cure)
        return self.request.inputs(n_records, self.n_features)

    def row(self, n_records: int, *, as_fit: bool = False) -> PlanRow:
        """Predict one number of records; what a mechanism refuses is kept with its reason.

        `as_fit` searches where rough figures do not decide.
        """
        request, inputs, refusals = self.request, self.inputs(n_records), {}
        row = PlanRow(n_records, inputs, (), {}, prepared=not request.known_mean)
        forecasts: list[Forecast] = []
        every = set(self.mechanisms) == set(comparable(request.candidates))
        if as_fit and every and not self.refine and not self.adaptive_width:
            with suppress(HushcovError):
                found = compare(inputs).forecasts
                forecasts += sorted(found, key=lambda each: self.mechanisms.index(each.mechanism))
        for name in () if forecasts else self.mechanisms:
            try:
                forecasts.append(forecast(row.inputs, name, **self._options(name)))
            except HushcovError as error:
                refusals[name] = error
        row = replace(row, forecasts=tuple(forecasts), refusals=refusals)
        run = row.find(self.default) or row.best
        cautions = request.cautions(*request.divide(n_records, self.n_features), run)
        return replace(row, cautions=cautions)

    def smallest(
        self, mechanism: str, model: str, target_error: float, tried: set[int] | None = None
    ) -> int | None:
        """Return the fewest records that reach a target error on a model; None beyond 1e12.

        `tried` are numbers of records that were planned before; those tried now join them.
        """
        return smallest_n(
            lambda n: self.request.inputs(n, self.n_features),
            mechanism,
            model,
            target_error,
            tried=tried,
            **self._options(mechanism),
        )

    def default_records(self) -> Sequence[int]:
        """Return round numbers over three and a half decades, from hopeless to accurate.

        They start below where Gaussian noise on the d k entries that matter, of records scaled
        down to the norm sqrt(d k) of these entries, has about the norm of the covariance.
        """
        inputs = self.inputs(2)
        d, k = inputs.n_features, inputs.row_sparsity
        sensitivity = 2 * math.sqrt(d * k)
        noise = sensitivity * math.sqrt(2 * math.log(1.25 / inputs.delta)) / inputs.epsilon
        first = math.floor(2 * math.log10(2 * math.sqrt(k) * noise))
        first = min(max(1, first), _LAST_RUNG - _DEFAULT_RUNGS + 1)
        # 1, 3, 10, 30, ...: round numbers half a decade apart.
        rungs = range(first, first + _DEFAULT_RUNGS)
        return tuple((1, 3)[rung % 2] * int(10 ** (rung // 2)) for rung in rungs)

    def _options(self, mechanism: str) -> dict[str, Any]:
        """Return how a mechanism is predicted."""
        slow = comparable(self.request.candidates)[mechanism].slow
        found = {"adaptive_width": True} if self.adaptive_width else {}
        return found | {"rough": slow and not self.refine}


def knowledge(planner: Planner) -> str:
    """Say what is not known about the records, and what that costs."""
    request = planner.request
    if not request.known_mean:
        unknown = "Means and norms" if request.known_scale else "Means, scales and norms"
        return f"{unknown} unknown: found from a part of the budget."
    scale = "known" if request.known_scale else "unknown: estimated from a part of the budget"
    return f"Mean known. Scales {scale}."


def _columns(table: Table, *titles: str) -> None:
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")


def _title(mechanism: str) -> str:
    """A name over several lines, so that its column is narrow."""
    parts = mechanism.split("-")
    halves = (
        (part[: len(part) // 2], part[len(part) // 2 :]) if len(part) > _WIDEST_TITLE else (part,)
        for part in parts
    )
    return "-\n".join(piece for pieces in halves for piece in pieces)


def mechanism_table(row: PlanRow) -> Table:
    """Tabulate one number of records: a line for each mechanism, smallest error first."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    _columns(table, "typical", *COMPARED_MODELS, _FINDS)
    for each in sorted(row.forecasts, key=lambda each: each.typical_error):
        models = (error_cell(each.predicted_error[model]) for model in COMPARED_MODELS)
        table.add_row(each.mechanism, _typical(row, each), *models, _limit(each))
    for name in row.refusals:
        table.add_row(name, "-", *("-" for _ in COMPARED_MODELS), "-")
    return table


def records_table(rows: Sequence[PlanRow], mechanisms: Sequence[str]) -> Table:
    """Tabulate typical errors, and the best mechanism's on each model; a line for each n."""
    table = plain_table(gap=0)  # all columns fit in a terminal of 80
    _columns(table, "records")
    _columns(table, *map(_title, mechanisms))
    _columns(table, *(f"best:\n{model}" for model in COMPARED_MODELS), _FINDS)
    for row in rows:
        found = [row.find(name) for name in mechanisms]
        typical = (Text("-") if each is None else _typical(row, each) for each in found)
        best = row.best
        models = (
            "-" if best is None else error_cell(best.predicted_error[model])
            for model in COMPARED_MODELS
        )
        table.add_row(count(row.n_records), *typical, *models, _limit(best))
    return table


def smallest_table(smallest: Smallest, *, rough: bool) -> Table:
    """Tabulate the fewest records that reach the target, by mechanism and model."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    _columns(table, *COMPARED_MODELS)
    for name, found in smallest.items():
        mark = "~" if rough and name in predicted() and predicted()[name].slow else ""
        values = (found[model] for model in COMPARED_MODELS)
        most = f"not by {number(MOST_RECORDS)}"
        table.add_row(name, *(most if n is None else mark + rounded(n) for n in values))
    return table


def remarks(rows: Sequence[PlanRow]) -> Iterator[str]:
    """Yield legends of the signs that are used in a table, and reasons of refusals."""
    yield (
        "block, banded, random: which features go together: groups of them, neighbours in the "
        "order of the columns, or pairs anywhere. Real tables are between these. typical: the "
        "middle of the three (their geometric mean). * the smallest."
    )
    if any(_finds(row.best) for row in rows):
        by = "" if len(rows) == 1 else " by the best mechanism"
        yield (
            f"finds from: correlations of this size or more are found{by} nine times out of ten; "
            "weaker ones are often missed. -: it releases all pairs, or has no such limit."
        )
    if any(each.rough for row in rows for each in row.forecasts):
        yield "~ rough: its own search was not run ('hushcov plan --refine' runs it)."
    best = rows[-1].best
    if best is not None:
        yield f"A fit by {best.mechanism} {memory_words(rows[-1].memory(best.mechanism))}"
    seen = {f"{name}: {error}" for row in rows for name, error in row.refusals.items()}
    for reason in sorted(seen):
        yield f"- {reason}"


def warned(rows: Sequence[tuple[int, tuple[Caution, ...]]]) -> Iterator[str]:
    """Yield cautions: in full for one number of records, else in short with the numbers."""
    if len(rows) == 1:
        for caution in rows[0][1]:
            yield caution.sentence
        return
    found: dict[str, list[str]] = {}
    for n_records, cautions in rows:
        for caution in cautions:
            refused = ", which 'hushcov fit' refuses" if caution.error is not None else ""
            found.setdefault(caution.title + refused, []).append(count(n_records))
    for title, sizes in found.items():
        yield f"{title}: with {', '.join(sizes)} records."


def error_cell(value: float) -> str:
    """Format an error for a table."""
    return number(value, 2)


def _typical(row: PlanRow, each: Forecast) -> Text:
    best = row.best is not None and each.mechanism == row.best.mechanism
    text = "*" * best + "~" * each.rough + error_cell(each.typical_error)
    return Text(text, style="red" if each.hopeless else "bold green" if best else "")


def _finds(each: Forecast | None) -> bool:
    return each is not None and each.detection_limit is not None and each.detection_limit < 1


def _limit(each: Forecast | None) -> str:
    if each is None or each.detection_limit is None:
        return "-"
    return number(each.detection_limit, 2) if _finds(each) else "none"


def rounded(n: int) -> str:
    """Format a number to three digits: more than the search is good for."""
    return count(int(float(f"{n:.3g}")))
