"""`hushcov plan`: what error to expect at which number of records, without any data.

Forecasts in words, which `fit` says, too, are at the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer, check_real
from hushcov._words import count, counted, memory, number
from hushcov.accounting import ONE_REPLACED, Neighbours
from hushcov.accounting.guarantee import odds_of, promise_words
from hushcov.cli.files import candidate_words, check_paths, known_pairs
from hushcov.cli.options import (
    INTEGER,
    JSON,
    NUMBER,
    Command,
    check_budget,
    figure_option,
    options_of,
    settings_option,
)
from hushcov.cli.output import (
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    plain_table,
    show,
    steps,
    text_table,
    warning,
)
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import MechanismPlan
from hushcov.planning import (
    COMPARED_MODELS,
    Caution,
    Families,
    Forecast,
    Request,
    check_told,
    comparable,
    compare,
    default_mechanism,
    fit_memory,
    forecast,
    named,
    predicted,
    smallest_n,
    told,
)
from hushcov.planning.comparison import (
    USUAL_SPARSITY,
    families,
    forecast_families,
    guesses,
    smallest_for,
)
from hushcov.planning.registry import LARGEST_DENSE, PICTURES
from hushcov.predicting import DENSE, FACTOR
from hushcov.steps.counting import Counting
from hushcov.sums.grids import Bounds, check_bounds
from hushcov.tables.codebook import read_codebook

# Slices that plan by themselves, by their name for --mechanism; one line each.
_SLICES = {"genotypes": "hushcov.genotypes.commands"}
# Smallest number of records by mechanism and reference model; None where there is none.
Smallest = dict[str, dict[str, int | None]]
_MOST_RECORDS = 10**12  # where the search for the smallest number of records ends too
_MOST_FEATURES = 10**9
_DEFAULT_RUNGS, _LAST_RUNG = 8, 24
_FINDS = "finds\nfrom"
_MEASURE = (
    "Operator norm of the error over that of the covariance, where features have equal scales: the "
    "zero matrix, which needs no data, has 1."
)
# Which features go together in a reference model.
_RELATED = {
    "block": "in groups",
    "banded": "with neighbours among the columns",
    "random": "in pairs anywhere",
}


@click.command(cls=Command, name="plan")
@settings_option
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    metavar="D",
    help="Number of features; those of the codebook where there is one.  [required without it]",
)
@options_of("plan")
@click.option(
    "--known-scale",
    is_flag=True,
    help="The features' standard deviations are public, as for 'fit --feature-scale'. Otherwise "
    "estimating them takes a share of the budget.",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    multiple=True,
    metavar="N",
    help="Number of records; may be repeated. One alone also shows the design.  "
    "[default: three and a half decades, from hopeless to accurate]",
)
@click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(tuple(dict.fromkeys((*predicted(), *told(), *_SLICES)))),
    multiple=True,
    help="What would be run; may be repeated. With these options or a figure, row sparsity 5 is "
    " assumed where none is given.  [default: all]",
)
@click.option(
    "--refine",
    is_flag=True,
    help="Search the best design of the multiscale mechanism, too (about 1 s for each number of "
    "records); its figures are rough otherwise. Implied where it is named by --mechanism.",
)
@click.option(
    "--target-error",
    type=NUMBER,
    metavar="ALPHA",
    help="Also find the smallest number of records with at most this error.",
)
@JSON
@figure_option("Also draw the error against the number of records.")
def command(n_records: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Predict the error of a fit. No data is needed, and no budget is spent.

    Without --row-sparsity: the error of the default, for each kind of covariance that there may
    be. With it: that of every mechanism, for covariances like those of three reference models,
    blocks, bands and random pairs.

    \b
    Examples:
      hushcov plan --features 1000 --epsilon 1 --delta 1e-6
      hushcov plan --records 50000 --features 200 --epsilon 1 --delta 1e-6
      hushcov plan --mechanism genotypes --features 1000000 --bandwidth 20 --epsilon 3 --delta 1e-6
      hushcov plan --features 1000 --row-sparsity 5 --epsilon 1 --delta 1e-6
    """
    check_budget(options["epsilon"], options["delta"])
    n_features, bounds, names = _known(options["n_features"], options["codebook"])
    mechanisms, target_error, figure = (
        options[name] for name in ("mechanisms", "target_error", "figure")
    )
    for name in mechanisms:
        if name in _SLICES:
            import_module(_SLICES[name]).plan(n_features, n_records, as_json, options)
            return
    candidates, k = known_pairs(options, n_features, names), options["row_sparsity"]
    if candidates is not None:  # which say what it is at most
        k = candidates.row_sparsity_of(k)
    elif k is None:
        k = min(USUAL_SPARSITY, n_features) if n_features > 0 else USUAL_SPARSITY
    epsilon, most = options["epsilon"], options["max_rows_per_unit"]
    relation = options["neighbours"] or ONE_REPLACED.relation
    neighbours = Neighbours(relation, 1 if most is None else most)
    counts = most is not None or not neighbours.public_size
    request = Request(
        k,
        Counting(epsilon, neighbours).left if counts else epsilon,
        options["delta"],
        known_mean=options["assume_centered"],
        known_scale=options["known_scale"],
        bounds=bounds,
        neighbours=neighbours,
        candidates=candidates,
        drop_nulls=options["drop_nulls"],
    )
    for name in mechanisms:
        check_told(name, candidates)
    able = comparable(candidates)
    planner = Planner(
        request,
        n_features,
        tuple(name for name in able if not mechanisms or name in mechanisms),
        options["refine"] or any(able[name].slow for name in mechanisms),
        options["adaptive_width"],
        count_epsilon=epsilon - request.epsilon,
    )
    records = sorted(set(n_records or planner.default_records()))
    for n in records:
        planner.inputs(n)
    if target_error is not None:
        cure = "it is relative to the covariance's norm, and the zero matrix has an error of 1."
        check_real("target_error", target_error, above=0, at_most=1, cure=cure)
    check_paths(figure)
    if mechanisms or options["refine"] or figure or options["row_sparsity"] or candidates:
        found, page = _plan_mechanisms(planner, records, mechanisms, target_error, figure)
    else:
        found, page = _plan_families(planner, records, target_error)
    if as_json:
        echo_json(planner.to_dict() | {"epsilon": epsilon} | found)
        return
    page.show(console(), planner, target_error)
    if figure is not None:
        paragraph(console(), f"\nwritten: {figure}")


def _known(
    n_features: int | None, codebook: Path | None
) -> tuple[int, Bounds | None, list[str] | None]:
    """Return number, bounds and names of features by a codebook, which may leave some out."""
    if codebook is None:
        if n_features is None:
            raise click.UsageError("Missing option '--features'.")
        return n_features, None, None
    book = read_codebook(codebook)
    names = list(book.features)
    if n_features is None:
        n_features = len(names)
    if n_features < len(names):
        raise ParameterError(
            f"n_features must be at least the {len(names)} of {codebook}, got {n_features}: leave "
            "it out, or count the one-hot columns of categories."
        )
    every = names + [""] * (n_features - len(names))
    return n_features, check_bounds(book.bounds, n_features, every), every


# ---- what is planned ----


@dataclass(frozen=True)
class PlanRow:
    """All forecasts for one number of records, in the order they were asked for."""

    n_records: int
    inputs: ReleaseInputs
    forecasts: tuple[Forecast, ...]
    refusals: dict[str, HushcovError]  # of mechanisms that cannot be planned here
    cautions: tuple[Caution, ...] = ()

    @property
    def best(self) -> Forecast | None:
        """The smallest error; a rough figure is too weak a reason to prefer a mechanism."""
        known = [each for each in self.forecasts if not each.rough] or self.forecasts
        return min(known, key=lambda each: each.typical_error, default=None)

    def find(self, mechanism: str) -> Forecast | None:
        """Return the forecast of a mechanism, if there is one."""
        return next((each for each in self.forecasts if each.mechanism == mechanism), None)


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
    count_epsilon: float = 0.0  # what releases the number of records first

    @property
    def default(self) -> str:
        """The mechanism of a fit where none is named."""
        return default_mechanism(known=self.request.candidates is not None).name

    def inputs(self, n_records: int) -> ReleaseInputs:
        """Return the inputs that a fit would plan with."""
        cure = "it counts rows."
        check_integer("n_records", n_records, at_least=1, at_most=_MOST_RECORDS, cure=cure)
        cure = "it is the number of columns."
        check_integer("n_features", self.n_features, at_least=1, at_most=_MOST_FEATURES, cure=cure)
        return self.request.inputs(n_records, self.n_features)

    def row(self, n_records: int, *, as_fit: bool = False) -> PlanRow:
        """Predict one number of records; what a mechanism refuses is kept with its reason.

        `as_fit` searches where rough figures do not decide.
        """
        request, inputs, refusals = self.request, self.inputs(n_records), {}
        forecasts: list[Forecast] = []
        every = set(self.mechanisms) == set(comparable(request.candidates))
        if as_fit and every and not self.refine and not self.adaptive_width:
            with suppress(HushcovError):
                found = compare(inputs).forecasts
                forecasts += sorted(found, key=lambda each: self.mechanisms.index(each.mechanism))
        for name in () if forecasts else self.mechanisms:
            try:
                forecasts.append(forecast(inputs, name, **self._options(name)))
            except HushcovError as error:
                refusals[name] = error
        row = PlanRow(n_records, inputs, tuple(forecasts), refusals)
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

    def memory(self, mechanism: str, inputs: ReleaseInputs) -> int:
        """Return the bytes that 'hushcov fit' needs, beside what reading files takes."""
        return command_memory(mechanism, inputs, prepared=not self.request.known_mean)

    def to_dict(self) -> dict[str, object]:
        """Return what is public, as plain, JSON-ready data."""
        request, neighbours = self.request, self.request.neighbours
        odds = odds_of(request.epsilon, request.delta, *neighbours.whom)
        known: dict[str, object] = {}
        if request.candidates is not None:
            known = request.candidates.to_dict() | {"adaptive_width": self.adaptive_width}
        return {
            "n_features": self.n_features,
            "row_sparsity": request.row_sparsity,
            "epsilon": request.epsilon,
            "delta": request.delta,
            "known_mean": request.known_mean,
            "known_scale": request.known_scale,
            "neighbours": neighbours.relation,
            "unit": neighbours.unit,
            "max_rows_per_unit": neighbours.most_rows,
            "odds": odds.to_dict(),
            "mechanisms": list(self.mechanisms),
            **known,
            "count_epsilon": self.count_epsilon,
        }

    @property
    def knowledge(self) -> str:
        """Say what is not known about the records, and what that costs."""
        known = self.request.known_scale
        if not self.request.known_mean:
            unknown = "Means and norms" if known else "Means, scales and norms"
            return f"{unknown} unknown: found from a part of the budget."
        scale = "known" if known else "unknown: estimated from a part of the budget"
        return f"Mean known. Scales {scale}."

    def _options(self, mechanism: str) -> dict[str, Any]:
        """Return how a mechanism is predicted."""
        slow = comparable(self.request.candidates)[mechanism].slow
        found = {"adaptive_width": True} if self.adaptive_width else {}
        return found | {"rough": slow and not self.refine}


@dataclass(frozen=True)
class Page:
    """A plan as it is printed: tables, and what to say of them."""

    title: str
    words: str
    table: Table
    remarks: Iterable[str]
    cautions: Sequence[tuple[int, tuple[Caution, ...]]]  # by number of records
    designs: dict[str, MechanismPlan[Any]]  # by title
    guesses: Table | None = None
    smallest: Table | None = None

    def show(self, out: Console, planner: Planner, target_error: float | None) -> None:
        """Print it, with what is promised."""
        request = planner.request
        heading(out, self.title)
        paragraph(out, f"{_MEASURE} {self.words}{planner.knowledge}")
        if request.candidates is not None:
            paragraph(out, f"Candidates: {candidate_words(request.candidates)}.")
        show(out, "")
        show(out, self.table)
        for remark in self.remarks:
            paragraph(out, remark)
        for sentence in _warned(self.cautions):
            warning(out, sentence)
        if self.guesses is not None:
            heading(out, "What a guess of k would change")
            show(out, self.guesses)
            paragraph(out, _GUESSES)
        for title, design in self.designs.items():
            heading(out, f"{title}, from public inputs alone")
            facts(out, design.facts(request.found_before))
            table = design.table()
            if table is not None:
                show(out, "")
                show(out, text_table(*table))
        heading(out, "What would be promised")
        to_whom = request.neighbours.whom
        budget = request.epsilon, request.delta
        promise, odds = promise_words(*budget, *to_whom), odds_of(*budget, *to_whom)
        facts(out, [("promise", promise), ("odds", str(odds))])
        if planner.count_epsilon:
            total = number(request.epsilon + planner.count_epsilon)
            paragraph(
                out,
                f"The number of records is not public: epsilon {number(planner.count_epsilon, 2)} "
                f"of {total} releases it first. Records are rows that are summed, at most "
                f"{request.neighbours.most_rows} of one unit.",
            )
        if self.smallest is not None:
            words = f"Smallest number of records with a predicted error of {target_error} or less"
            heading(out, words)
            show(out, self.smallest)


def _warned(rows: Sequence[tuple[int, tuple[Caution, ...]]]) -> Iterator[str]:
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


# ---- mechanisms beside each other ----


def _plan_mechanisms(
    planner: Planner,
    records: Sequence[int],
    mechanisms: Sequence[str],
    target_error: float | None,
    figure: Path | None,
) -> tuple[dict[str, object], Page]:
    """Plan every mechanism at every number of records: as plain data, and to print."""
    rows = []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            rows.append(planner.row(n, as_fit=len(records) == 1))
    if not any(row.forecasts for row in rows):
        raise next(iter(rows[0].refusals.values()))
    designs = _designs(planner, rows[0], mechanisms) if len(rows) == 1 else {}
    smallest = None if target_error is None else _search(planner, rows, target_error)
    inputs, known = rows[0].inputs, planner.request.candidates
    words = f"row sparsity {inputs.row_sparsity}" if known is None else known.words
    size = f"{counted(inputs.n_features, 'feature')}, {words}, epsilon {number(inputs.epsilon)}, "
    size += f"delta {number(inputs.delta)}"
    if figure is not None:
        from hushcov.report import write_plan_figure

        forecasts = {row.n_records: row.forecasts for row in rows}
        write_plan_figure(figure, forecasts, title=size, target_error=target_error)
    found: dict[str, object] = {
        "plans": [_row_dict(planner, row) for row in rows],
        "designs": {name: design.to_dict() for name, design in designs.items()},
        "target_error": target_error,
        "smallest_records": smallest,
    }
    one = len(rows) == 1
    many = f"{counted(rows[0].n_records, 'record')} of " if one else ""
    page = Page(
        f"Predicted error: {many}{size}",
        "",
        _mechanism_table(rows[0]) if one else _records_table(rows, planner.mechanisms),
        _remarks(planner, rows),
        [(row.n_records, row.cautions) for row in rows],
        {f"The design of {name}": design for name, design in designs.items()},
        smallest=None if smallest is None else _smallest_table(smallest, rough=not planner.refine),
    )
    return found, page


def _row_dict(planner: Planner, row: PlanRow) -> dict[str, object]:
    return {
        "n_records": row.n_records,
        "best": None if row.best is None else row.best.mechanism,
        "forecasts": [
            forecast_dict(each) | {"memory_bytes": planner.memory(each.mechanism, row.inputs)}
            for each in row.forecasts
        ],
        "refusals": {name: str(error) for name, error in row.refusals.items()},
        "warnings": [caution.sentence for caution in row.cautions],
    }


def _designs(
    planner: Planner, row: PlanRow, mechanisms: Sequence[str]
) -> dict[str, MechanismPlan[Any]]:
    """Return designs of what a fit runs, or of those asked for."""
    asked = [each.mechanism for each in row.forecasts if each.mechanism in mechanisms]
    run = row.find(planner.default) or row.best  # what a fit runs
    able = comparable(planner.request.candidates)
    found: dict[str, MechanismPlan[Any]] = {}
    for name in asked or [run.mechanism for run in (run,) if run is not None]:
        wide = planner.adaptive_width and name == planner.default
        options: Any = {"adaptive_width": True} if wide else {}
        found[name] = able[name].plan(row.inputs, **options)
    return found


def _search(planner: Planner, rows: Sequence[PlanRow], target_error: float) -> Smallest:
    """Find the fewest records that reach the target, by mechanism and model."""
    names = [name for name in planner.mechanisms if any(row.find(name) for row in rows)]
    found: Smallest = {name: {} for name in names}
    with steps(len(names) * len(COMPARED_MODELS)) as step:
        for name in names:
            tried = {row.inputs.n_records for row in rows}  # other models, too
            for model in COMPARED_MODELS:
                step(f"smallest number of records: {name}, {model}")
                found[name][model] = planner.smallest(name, model, target_error, tried)
    return found


def _columns(table: Table, *titles: str) -> None:
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")


def _mechanism_table(row: PlanRow) -> Table:
    """Tabulate one number of records: a line for each mechanism, smallest error first."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    _columns(table, "typical", *COMPARED_MODELS, _FINDS)
    for each in sorted(row.forecasts, key=lambda each: each.typical_error):
        models = (_error(each.predicted_error[model]) for model in COMPARED_MODELS)
        table.add_row(each.mechanism, _typical(row, each), *models, _limit(each))
    for name in row.refusals:
        table.add_row(name, "-", *("-" for _ in COMPARED_MODELS), "-")
    return table


def _records_table(rows: Sequence[PlanRow], mechanisms: Sequence[str]) -> Table:
    """Tabulate typical errors, and the best mechanism's on each model; a line for each n."""
    table = plain_table(gap=0)  # all columns fit in a terminal of 80
    # Names over several lines, so that their columns are narrow.
    names = (re.sub(r"(\w{5})(\w{5,})", r"\1-\2", name) for name in mechanisms)
    _columns(table, "records", *(name.replace("-", "-\n") for name in names))
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


def _smallest_table(smallest: Smallest, *, rough: bool) -> Table:
    """Tabulate the fewest records that reach the target, by mechanism and model."""
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    _columns(table, *COMPARED_MODELS)
    for name, found in smallest.items():
        mark = "~" if rough and name in predicted() and predicted()[name].slow else ""
        table.add_row(name, *(_fewest(found[model], mark) for model in COMPARED_MODELS))
    return table


def _remarks(planner: Planner, rows: Sequence[PlanRow]) -> Iterator[str]:
    """Yield legends of the signs that are used in a table, and reasons of refusals."""
    yield (
        "block, banded, random: which features go together: groups of them, neighbours in the "
        "order of the columns, or pairs anywhere. Real tables are between these. typical: the "
        "middle of the three (their geometric mean). * the smallest."
    )
    if any(_finds(row.best) for row in rows):
        by = "" if len(rows) == 1 else " by the best mechanism"
        yield (
            f"finds from: correlations of this size or more are found{by} nine times out of ten, "
            "where columns are about normal; flags and skewed columns need stronger ones, and "
            "weaker ones are often missed. -: it releases all pairs, or has no such limit."
        )
    if any(each.rough for row in rows for each in row.forecasts):
        yield "~ rough: its own search was not run ('hushcov plan --refine' runs it)."
    best = rows[-1].best
    if best is not None:
        needed = planner.memory(best.mechanism, rows[-1].inputs)
        yield f"A fit by {best.mechanism} {_memory_words(needed)}"
    seen = {f"{name}: {error}" for row in rows for name, error in row.refusals.items()}
    for reason in sorted(seen):
        yield f"- {reason}"


def _error(value: float) -> str:
    return number(value, 2)


def _fewest(n: int | None, mark: str = "") -> str:
    """Format a number of records to three digits: more than the search is good for."""
    return f"not by {number(_MOST_RECORDS)}" if n is None else mark + count(int(float(f"{n:.3g}")))


def _typical(row: PlanRow, each: Forecast) -> Text:
    best = row.best is not None and each.mechanism == row.best.mechanism
    text = "*" * best + "~" * each.rough + _error(each.typical_error)
    return Text(text, style="red" if each.hopeless else "bold green" if best else "")


def _finds(each: Forecast | None) -> bool:
    return each is not None and each.detection_limit is not None and each.detection_limit < 1


def _limit(each: Forecast | None) -> str:
    if each is None or each.detection_limit is None:
        return "-"
    return number(each.detection_limit, 2) if _finds(each) else "none"


# ---- families of structures ----

_GUESSES = (
    "Told: 'hushcov fit --mechanism screened --row-sparsity K', which looks for as many pairs as "
    "it is told. Not told: the default. To the default --row-sparsity is advice, with which it "
    "starts: it changes little."
)


class FamilyRow(NamedTuple):
    """Forecasts for one number of records by family, with cautions."""

    n_records: int
    found: Families
    cautions: tuple[Caution, ...]


def _plan_families(
    planner: Planner, records: Sequence[int], target_error: float | None
) -> tuple[dict[str, object], Page]:
    """Predict every family at every number of records: as plain data, and to print."""
    request, d, default = planner.request, planner.n_features, default_mechanism()
    rows: list[FamilyRow] = []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            found = forecast_families(request, n, d)
            cautions = request.cautions(*request.divide(n, d), found.usual)
            rows.append(FamilyRow(n, found, cautions))
    smallest: dict[str, int | None] = {}
    if target_error is not None:
        tried = {row.found.inputs.n_records for row in rows}
        with steps(len(families(d))) as step:
            for each in families(d):
                step(f"smallest number of records: {each.name}")
                smallest[each.name] = smallest_for(request, d, each, target_error, set(tried))
    one, first = len(rows) == 1, rows[0].found
    guessed = guesses(request, first.inputs.n_records, d) if one and d > 1 else {}
    needed = [planner.memory(default.name, row.found.inputs) for row in rows]
    plans: dict[str, object] = {
        "row_sparsity": None,
        "mechanism": default.name,
        "plans": [
            {
                "n_records": row.n_records,
                "families": row.found.to_dict(),
                "detection_limit": row.found.usual.detection_limit,
                "memory_bytes": n_bytes,
                "warnings": [caution.sentence for caution in row.cautions],
            }
            for row, n_bytes in zip(rows, needed, strict=True)
        ],
        "guesses": [
            {"row_sparsity": true, "told": told, "predicted_error": error}
            for true, by_told in guessed.items()
            for told, error in by_told.items()
        ],
        "target_error": target_error,
        "smallest_records": smallest or None,
    }
    if one:
        cells = [(each.name, each.words, _error(error)) for each, error in first.errors.items()]
        table = text_table(("if", "that is", "error"), cells)
    else:
        every = [(count(row.n_records), *map(_error, row.found.errors.values())) for row in rows]
        table = text_table(("records", *(each.name for each in first.errors)), every)
    size = f"{counted(d, 'feature')}, epsilon {number(request.epsilon)}, delta "
    many = f"{counted(rows[0].n_records, 'record')} of " if one else ""
    fewest = [(name, _fewest(n)) for name, n in smallest.items()]
    page = Page(
        f"Predicted error, whatever the structure: {many}{size}{number(request.delta)}",
        "'hushcov fit' finds out by itself what the covariance is like. ",
        table,
        _family_remarks(rows, needed[-1]),
        [(row.n_records, row.cautions) for row in rows],
        {"The design": default.plan(first.inputs)} if one else {},
        _guess_table(first, guessed) if guessed else None,
        text_table(("if", "records"), fewest) if smallest else None,
    )
    return plans, page


def _family_remarks(rows: Sequence[FamilyRow], n_bytes: int) -> Iterator[str]:
    yield (
        "k counts the nonzeros of a row of the covariance, the diagonal included. factor: one that "
        "explains a third of the variance. dense: all pairs are related, a little."
    )
    limit, k = rows[0].found.usual.detection_limit, rows[-1].found.inputs.row_sparsity
    if len(rows) == 1 and limit is not None and limit < 1:
        yield (
            f"Correlations of {number(limit, 2)} or more are found nine times out of ten (k = "
            f"{k}), where columns are about normal; flags and skewed columns need stronger ones."
        )
    yield f"A fit {_memory_words(n_bytes)}"


def _guess_table(found: Families, guessed: dict[int, dict[int, float]]) -> Table:
    """Tabulate what a guess of k would change: screened is told one, the default needs none."""
    errors = {each.row_sparsity: error for each, error in found.errors.items()}
    cells = [
        (str(true), *map(_error, by_told.values()), _error(errors[true]))
        for true, by_told in guessed.items()
    ]
    return text_table(("true k", *(f"told {guess}" for guess in guessed), "not told"), cells)


# ---- forecasts in words, for 'fit', too ----


def command_memory(
    mechanism: str,
    inputs: ReleaseInputs,
    *,
    prepared: bool,
    elsewhere: bool = False,
    given: int | None = None,
) -> int:
    """Return the bytes that 'hushcov fit' needs, beside what reading files takes."""
    n, d, known = inputs.n_records, inputs.n_features, inputs.candidates
    sparse = d > LARGEST_DENSE or known is not None
    told: Any = {"prepared": prepared, "candidates": known, "elsewhere": elsewhere}
    return PICTURES + fit_memory(mechanism, n, d, sparse=sparse, memory=given, **told)


def _memory_words(n_bytes: int) -> str:
    """Say how much memory a fit takes, for a plan, which knows no files."""
    return (
        f"takes about {memory(n_bytes)} of memory, however many the records. Reading Parquet, "
        "Arrow or CSV files takes more: 'hushcov fit --dry-run' says how much, and what the client "
        "of a cluster takes (--scheduler)."
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


def families_error(found: Families) -> str:
    """Return the predicted errors by what the covariance may be like."""
    few = {each.row_sparsity - 1: e for each, e in found.errors.items() if each.row_sparsity}
    ends = dict.fromkeys(number(error, 2) for error in (min(few.values()), max(few.values())))
    others = " to ".join(str(each) for each in sorted({min(few), max(few)}))
    words = [" to ".join(ends)]
    if max(few):
        words = [f"{words[0]} where each feature is related to {others} others"]
    kinds = {FACTOR: "with one strong factor", DENSE: "where all pairs are related a little"}
    words += [
        f"{number(error, 2)} {kinds[each.name]}"
        for each, error in found.errors.items()
        if each.name in kinds
    ]
    return f"about {', '.join(words)}; zeros for all entries would have 1"


def typical_error(forecast: Forecast) -> str:
    """Return the predicted error, with what it is measured against."""
    models = ", ".join(
        f"{_RELATED[model]} {number(forecast.predicted_error[model], 2)}"
        for model in COMPARED_MODELS
    )
    return (
        f"about {number(forecast.typical_error, 2)} of the covariance's norm, where features have "
        f"equal scales (if they go together {models}); zeros for all entries would have 1"
    )


def detection(forecast: Forecast) -> str:
    """Say which correlations will be found."""
    limit = forecast.detection_limit
    if limit is None:
        return f"no prediction: {named(forecast.mechanism).no_limit}"
    if limit >= 1:
        return "no correlation reliably: there are too few records"
    strong = f"correlations of {number(limit, 2)} or more, nine times out of ten"
    return f"{strong}, where columns are about normal; flags and skewed columns need stronger ones"
