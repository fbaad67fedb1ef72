"""`hushcov plan`: what error to expect at which number of records, without any data.

Forecasts in words, which `fit` says, too, are at the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hushcov import fit as planning
from hushcov._plugins import installed_plugins, load_plugin, missing_plugins, require_plugin
from hushcov._validation import check_integer, check_real
from hushcov._words import count, counted, memory, number
from hushcov.bounds import Bounds, check_bounds
from hushcov.cli import output
from hushcov.cli.files import candidate_words, known_pairs
from hushcov.cli.options import (
    INTEGER,
    JSON,
    NUMBER,
    Command,
    check_budget,
    options_of,
    settings_option,
)
from hushcov.exceptions import ParameterError
from hushcov.fit import COMPARED_MODELS, Comparison, Families, Forecast, Request, comparison
from hushcov.fit.counting import Counting
from hushcov.fit.mechanism import DENSE, FACTOR
from hushcov.fit.registry import LARGEST_DENSE, PICTURES
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours
from hushcov.options import check_options, read_bandwidth
from hushcov.promise import odds_of, promise_words
from hushcov.tables.codebook import read_codebook

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.fit.mechanism import Mechanism, MechanismPlan, Stage

    Divided = tuple[ReleaseInputs, tuple[Stage, ...]]
    #: Plain data, and a function that prints.
    Planned = tuple[dict[str, object], Callable[[Console], None]]

# Slices, which plan by themselves, by their name for --mechanism.
_SLICES = (*installed_plugins("slices"), *missing_plugins("slices"))
_MOST_RECORDS = 10**12  # where the search for the smallest number of records ends too
_DEFAULT_RUNGS, _LAST_RUNG = 8, 24
_FINDS = "finds\nfrom"
_WHERE = "where columns are about normal; flags and skewed columns need stronger ones"
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
    type=click.Choice(
        tuple(dict.fromkeys((*planning.predicted(), *planning.candidate_mechanisms(), *_SLICES)))
    ),
    multiple=True,
    metavar="NAME",
    help="What would be run; may be repeated. With this option, row sparsity 5 is "
    "assumed where none is given.  [default: all]",
)
@click.option(
    "--target-error",
    type=NUMBER,
    metavar="ALPHA",
    help="Also find the smallest number of records with at most this error.",
)
@JSON
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
    mechanisms = options["mechanisms"]
    for name in mechanisms:
        require_plugin("slices", name, f"--mechanism {name}")
        if name in _SLICES:
            load_plugin("slices", name).plan(n_features, n_records, as_json, options)
            return
    candidates = known_pairs(options, n_features, names)
    request = _request(options, n_features, bounds, candidates)
    for name in mechanisms:
        planning.check_candidates(name, candidates)
    sizes = sorted(set(n_records or default_records(request.inputs(2, n_features))))
    for n in sizes:
        check_integer("n_records", n, at_least=1, at_most=_MOST_RECORDS, cure="it counts rows.")
    divided = [request.divide(n, n_features) for n in sizes]
    target = options["target_error"]
    if target is not None:
        cure = "it is relative to the covariance's norm, and the zero matrix has an error of 1."
        check_real("target_error", target, above=0, at_most=1, cure=cure)
    able = planning.comparable(candidates)
    asked = Asked(
        request,
        n_features,
        tuple(name for name in able if not mechanisms or name in mechanisms),
        any(able[name].slow for name in mechanisms),
        read_bandwidth(options["bandwidth"])[1],
        target,
        options["epsilon"],
    )
    beside = mechanisms or options["row_sparsity"] or candidates
    found, show = (_plan_mechanisms if beside else _plan_families)(asked, divided, options)
    if as_json:
        output.echo_json(asked.to_dict() | found)
        return
    show(output.console())


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


def _request(
    options: dict[str, Any], n_features: int, bounds: Bounds | None, candidates: Candidates | None
) -> Request:
    """Return the request of a fit with these options; a count of records spends from it first."""
    check_options({name: options[name] for name in ("epsilon", "delta", "max_rows_per_unit")})
    epsilon, most, k = options["epsilon"], options["max_rows_per_unit"], options["row_sparsity"]
    if candidates is not None:  # which say what it is at most
        k = candidates.row_sparsity_of(k)
    elif k is None:
        usual = comparison.USUAL_SPARSITY
        k = min(usual, n_features) if n_features > 0 else usual
    relation = options["neighbours"] or ONE_REPLACED.relation
    neighbours = Neighbours(relation, 1 if most is None else most)
    counts = most is not None or not neighbours.public_size
    return Request(
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


def default_records(inputs: ReleaseInputs) -> list[int]:
    """Return round numbers over three and a half decades, from hopeless to accurate.

    They start below where Gaussian noise on the d k entries that matter, of records scaled down to
    the norm sqrt(d k) of these entries, has about the norm of the covariance.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    sensitivity = 2 * math.sqrt(d * k)
    noise = sensitivity * math.sqrt(2 * math.log(1.25 / inputs.delta)) / inputs.epsilon
    first = math.floor(2 * math.log10(2 * math.sqrt(k) * noise))
    first = min(max(1, first), _LAST_RUNG - _DEFAULT_RUNGS + 1)
    # 1, 3, 10, 30, ...: round numbers half a decade apart.
    rungs = range(first, first + _DEFAULT_RUNGS)
    return [(1, 3)[rung % 2] * int(10 ** (rung // 2)) for rung in rungs]


class Row(NamedTuple):
    """Predictions for one size, that of what a fit runs, and the warnings of that fit."""

    inputs: ReleaseInputs
    found: Any  # a Comparison or Families
    run: Forecast | None
    cautions: tuple[planning.Caution, ...]


@dataclass(frozen=True)
class Asked:
    """A plan that is asked for; with `refine`, mechanisms search however long it takes."""

    request: Request
    n_features: int
    mechanisms: tuple[str, ...]
    refine: bool
    adaptive_width: bool
    target: float | None
    epsilon: float  # with what a count of records spends

    @property
    def default(self) -> Mechanism:
        """The mechanism of a fit that names none."""
        return planning.default_mechanism(known=self.request.candidates is not None)

    def memory(self, mechanism: str, inputs: ReleaseInputs) -> int:
        """Return the bytes that 'hushcov fit' needs, beside what reading files takes."""
        return command_memory(mechanism, inputs, prepared=self.request.prepares)

    def rows(
        self, divided: Sequence[Divided], predict: Callable[[ReleaseInputs], Any]
    ) -> list[Row]:
        """Predict each size, and warn as a fit of it would."""
        rows = []
        with output.steps(len(divided)) as step:
            for inputs, stages in divided:
                step(f"planning for {inputs.n_records:,} records")
                found = predict(inputs)
                run = found.usual if isinstance(found, Families) else None
                if isinstance(found, Comparison) and found.forecasts:
                    run = found.find(self.default.name) or found.best
                cautions = self.request.cautions(inputs, stages, run)
                rows.append(Row(inputs, found, run, cautions))
        return rows

    def search(
        self,
        names: Sequence[str],
        error: Callable[[ReleaseInputs, str], float],
        rows: Sequence[Row],
    ) -> dict[str, int | None]:
        """Find the fewest records for which the error of each of these reaches the target."""
        found, tried = dict[str, int | None](), {row.inputs.n_records for row in rows}
        assert self.target is not None

        def error_at(n_records: int) -> float:
            return error(self.request.inputs(n_records, self.n_features), name)

        with output.steps(len(names)) as step:
            for name in names:
                step(f"smallest number of records: {name}")
                found[name] = comparison.smallest_error(error_at, self.target, tried)
        return found

    def to_dict(self) -> dict[str, object]:
        """Return what is public, as plain, JSON-ready data."""
        request, neighbours = self.request, self.request.neighbours
        known: dict[str, object] = {}
        if request.candidates is not None:
            known = request.candidates.to_dict() | {"adaptive_width": self.adaptive_width}
        return {
            "n_features": self.n_features,
            "row_sparsity": request.row_sparsity,
            "epsilon": self.epsilon,
            "delta": request.delta,
            "known_mean": request.known_mean,
            "known_scale": request.known_scale,
            "neighbours": neighbours.relation,
            "unit": neighbours.unit,
            "max_rows_per_unit": neighbours.most_rows,
            "odds": odds_of(request.epsilon, request.delta, *neighbours.whom).to_dict(),
            "mechanisms": list(self.mechanisms),
            **known,
            "count_epsilon": self.epsilon - request.epsilon,
        }

    def show(
        self,
        title: str,
        words: str,
        table: Table,
        remarks: Iterable[str],
        rows: Sequence[Row],
        designs: dict[str, MechanismPlan[Any]],
        smallest: Table | None,
        out: Console,
    ) -> None:
        """Print a plan, with what would be promised."""
        request, neighbours = self.request, self.request.neighbours
        unknown = "Mean known. Scales known."
        if not request.known_mean:
            names = "Means and norms" if request.known_scale else "Means, scales and norms"
            unknown = f"{names} unknown: found from a part of the budget."
        elif not request.known_scale:
            unknown = "Mean known. Scales unknown: estimated from a part of the budget."
        output.heading(out, title)
        output.paragraph(out, f"{_MEASURE} {words}{unknown}")
        if request.candidates is not None:
            output.paragraph(out, f"Candidates: {candidate_words(request.candidates)}.")
        output.show(out, "")
        output.show(out, table)
        for remark in remarks:
            output.paragraph(out, remark)
        for sentence in _warnings(rows):
            output.warning(out, sentence)
        for name, design in designs.items():
            output.heading(out, f"{name}, from public inputs alone")
            output.facts(out, design.facts(request.found_before))
            levels = design.table()
            if levels is not None:
                output.show(out, "")
                output.show(out, output.text_table(*levels))
        output.heading(out, "What would be promised")
        budget = request.epsilon, request.delta, *neighbours.whom
        output.facts(out, [("promise", promise_words(*budget)), ("odds", str(odds_of(*budget)))])
        if self.epsilon > request.epsilon:
            output.paragraph(
                out,
                "The number of records is not public: epsilon "
                f"{number(self.epsilon - request.epsilon, 2)} of {number(self.epsilon)} releases "
                f"it first. Records are rows that are summed, at most {neighbours.most_rows} of "
                "one unit.",
            )
        if smallest is not None:
            words = f"Smallest number of records with a predicted error of {self.target} or less"
            output.heading(out, words)
            output.show(out, smallest)


def _warnings(rows: Sequence[Row]) -> Iterator[str]:
    """Yield cautions: in full for one number of records, else in short with the numbers."""
    if len(rows) == 1:
        yield from (caution.sentence for caution in rows[0].cautions)
        return
    found: dict[str, list[str]] = {}
    for row in rows:
        for caution in row.cautions:
            refused = ", which 'hushcov fit' refuses" if caution.error is not None else ""
            found.setdefault(caution.title + refused, []).append(count(row.inputs.n_records))
    for title, sizes in found.items():
        yield f"{title}: with {', '.join(sizes)} records."


def _error(value: float) -> str:
    return number(value, 2)


def _fewest(n: int | None, mark: str = "") -> str:
    """Format a number of records to three digits: more than the search is good for."""
    return f"not by {number(_MOST_RECORDS)}" if n is None else mark + count(int(float(f"{n:.3g}")))


def _limit(each: Forecast | None) -> str:
    if each is None or each.detection_limit is None:
        return "-"
    return number(each.detection_limit, 2) if each.detection_limit < 1 else "none"


# ---- mechanisms beside each other ----


def _plan_mechanisms(asked: Asked, divided: Sequence[Divided], options: dict[str, Any]) -> Planned:
    """Plan every mechanism at every number of records: as plain data, and to print."""
    names, refine, width = asked.mechanisms, asked.refine, asked.adaptive_width
    able, one = planning.comparable(asked.request.candidates), len(divided) == 1
    # One number of records is planned as a fit is: rough figures do not decide.
    search = None if one and not (refine or width) and set(names) == set(able) else refine
    rows = asked.rows(
        divided, partial(planning.compare, mechanisms=names, refine=search, adaptive_width=width)
    )
    first, run, inputs = rows[0].found, rows[0].run, rows[0].inputs
    if not any(row.found.forecasts for row in rows):
        raise next(iter(first.refusals.values()))
    designs: dict[str, MechanismPlan[Any]] = {}
    if one and run is not None:
        chosen = [name for name in names if name in options["mechanisms"] and first.find(name)]
        for name in chosen or [run.mechanism]:
            wide: Any = {"adaptive_width": True} if width and name == asked.default.name else {}
            designs[name] = able[name].plan(inputs, **wide)
    smallest, fewest = None, None
    if asked.target is not None:
        smallest, fewest = {}, output.plain_table()
        fewest.add_column("mechanism", no_wrap=True)
        _add_columns(fewest, *COMPARED_MODELS)
        for name in (name for name in names if any(row.found.find(name) for row in rows)):
            rough = able[name].slow and not refine
            predict = partial(planning.forecast, mechanism=name, rough=rough, adaptive_width=width)

            def error(inputs: ReleaseInputs, model: str, predict: Any = predict) -> float:
                return float(predict(inputs).predicted_error[model])

            smallest[name] = asked.search(COMPARED_MODELS, error, rows)
            fewest.add_row(name, *(_fewest(n, "~" * rough) for n in smallest[name].values()))
    known = inputs.candidates
    words = f"row sparsity {inputs.row_sparsity}" if known is None else known.words
    size = f"{counted(inputs.n_features, 'feature')}, {words}, epsilon {number(inputs.epsilon)}, "
    size += f"delta {number(inputs.delta)}"
    found: dict[str, object] = {
        "plans": [_row_dict(asked, row) for row in rows],
        "designs": {name: design.to_dict() for name, design in designs.items()},
        "target_error": asked.target,
        "smallest_records": smallest,
    }
    many = f"{counted(inputs.n_records, 'record')} of " if one else ""
    return found, partial(
        asked.show,
        f"Predicted error: {many}{size}",
        "",
        _mechanism_table(rows[0]) if one else _records_table(rows, names),
        _remarks(asked, rows),
        rows,
        {f"The design of {name}": design for name, design in designs.items()},
        fewest,
    )


def _row_dict(asked: Asked, row: Row) -> dict[str, object]:
    forecasts = row.found.forecasts
    return {
        "n_records": row.inputs.n_records,
        "best": row.found.best.mechanism if forecasts else None,
        "forecasts": [
            each.to_dict() | {"memory_bytes": asked.memory(each.mechanism, row.inputs)}
            for each in sorted(forecasts, key=lambda each: asked.mechanisms.index(each.mechanism))
        ],
        "refusals": {name: str(error) for name, error in row.found.refusals.items()},
        "warnings": [caution.sentence for caution in row.cautions],
    }


def _add_columns(table: Table, *titles: str) -> None:
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")


def _mechanism_table(row: Row) -> Table:
    """Tabulate one number of records: a line for each mechanism, smallest error first."""
    table = output.plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    _add_columns(table, "typical", *COMPARED_MODELS, _FINDS)
    for each in row.found.forecasts:
        models = (_error(each.predicted_error[model]) for model in COMPARED_MODELS)
        table.add_row(each.mechanism, _typical(row, each), *models, _limit(each))
    for name in row.found.refusals:
        table.add_row(name, *"-" * (2 + len(COMPARED_MODELS)))
    return table


def _records_table(
    rows: Sequence[Row], mechanisms: Sequence[str], models: Sequence[str] = COMPARED_MODELS
) -> Table:
    """Tabulate typical errors by n, and those of the best on each model where they fit."""
    table = output.plain_table(gap=0)
    # Names over several lines, so that their columns are narrow.
    names = (re.sub(r"(\w{5})(\w{5,})", r"\1-\2", name) for name in mechanisms)
    _add_columns(table, "records", *(name.replace("-", "-\n") for name in names))
    _add_columns(table, *(f"best:\n{model}" for model in models), _FINDS)
    for row in rows:
        best = row.found.best if row.found.forecasts else None
        typical = (_typical(row, row.found.find(name)) for name in mechanisms)
        errors = (_error(best.predicted_error[m]) if best else "-" for m in models)
        table.add_row(count(row.inputs.n_records), *typical, *errors, _limit(best))
    out = output.console()
    width = out.measure(table, options=out.options.update_width(10**6)).maximum
    return table if width <= out.width or not models else _records_table(rows, mechanisms, ())


def _typical(row: Row, each: Forecast | None) -> Text:
    if each is None:
        return Text("-")
    best = each is row.found.best
    text = "*" * best + "~" * each.rough + _error(each.typical_error)
    return Text(text, style="red" if each.hopeless else "bold green" if best else "")


def _remarks(asked: Asked, rows: Sequence[Row]) -> Iterator[str]:
    """Yield legends of the signs that are used in a table, and reasons of refusals."""
    yield (
        "block, banded, random: which features go together: groups of them, neighbours in the "
        "order of the columns, or pairs anywhere. Real tables are between these. typical: the "
        "middle of the three (their geometric mean). * the smallest."
    )
    best = [row.found.best for row in rows if row.found.forecasts]
    if any(_limit(each) not in ("-", "none") for each in best):
        by = "" if len(rows) == 1 else " by the best mechanism"
        yield (
            f"finds from: correlations of this size or more are found{by} nine times out of ten, "
            f"{_WHERE}, and weaker ones are often missed. -: it releases all pairs, or "
            "has no such limit."
        )
    if any(each.rough for row in rows for each in row.found.forecasts):
        yield "~ rough: its own search was not run ('hushcov plan --mechanism multiscale' runs it)."
    if rows[-1].found.forecasts:
        needed = asked.memory(best[-1].mechanism, rows[-1].inputs)
        yield f"A fit by {best[-1].mechanism} {_memory_words(needed)}"
    seen = {f"{name}: {error}" for row in rows for name, error in row.found.refusals.items()}
    yield from (f"- {reason}" for reason in sorted(seen))


# ---- families of structures ----


def _plan_families(asked: Asked, divided: Sequence[Divided], _: object) -> Planned:
    """Predict every family at every number of records: as plain data, and to print."""
    request, d, default = asked.request, asked.n_features, asked.default
    rows = asked.rows(divided, planning.forecast_families)
    one, first, usual = len(rows) == 1, rows[0].found, rows[0].found.usual
    families, smallest = {each.name: each for each in first.errors}, dict[str, int | None]()
    if asked.target is not None:
        smallest = asked.search(
            tuple(families),
            lambda inputs, name: comparison.family_error(inputs, family=families[name]),
            rows,
        )
    plans: dict[str, object] = {
        "row_sparsity": None,
        "mechanism": default.name,
        "plans": [
            {
                "n_records": row.inputs.n_records,
                "families": row.found.to_dict(),
                "detection_limit": row.found.usual.detection_limit,
                "memory_bytes": asked.memory(default.name, row.inputs),
                "warnings": [caution.sentence for caution in row.cautions],
            }
            for row in rows
        ],
        "target_error": asked.target,
        "smallest_records": smallest or None,
    }
    titles = ["if", "that is", "error"] if one else ["records", *families]
    cells = [[each.name, each.words, _error(error)] for each, error in first.errors.items()]
    if not one:
        counts = [count(row.inputs.n_records) for row in rows]
        errors = [map(_error, row.found.errors.values()) for row in rows]
        cells = [[n, *each] for n, each in zip(counts, errors, strict=True)]
    remarks = [
        "k counts the nonzeros of a row of the covariance, the diagonal included. factor: one that "
        "explains a third of the variance. dense: all pairs are related, a little."
    ]
    if one and _limit(usual) not in ("-", "none"):
        words = f"Correlations of {_limit(usual)} or more are found nine times out of ten"
        words += f" (k = {min(comparison.USUAL_SPARSITY, d)}), {_WHERE}."
        remarks.append(words)
    remarks.append(f"A fit {_memory_words(asked.memory(default.name, rows[-1].inputs))}")
    fewest = [(name, _fewest(n)) for name, n in smallest.items()]
    many = f"{counted(first.inputs.n_records, 'record')} of " if one else ""
    size = f"{counted(d, 'feature')}, epsilon {number(request.epsilon)}"
    return plans, partial(
        asked.show,
        f"Predicted error, whatever the structure: {many}{size}, delta {number(request.delta)}",
        "'hushcov fit' finds out by itself what the covariance is like. ",
        output.text_table(titles, cells),
        remarks,
        rows,
        {"The design": default.plan(first.inputs)} if one else {},
        output.text_table(("if", "records"), fewest) if fewest else None,
    )


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
    return PICTURES + planning.fit_memory(
        mechanism,
        inputs.n_records,
        inputs.n_features,
        sparse=inputs.n_features > LARGEST_DENSE or inputs.candidates is not None,
        prepared=prepared,
        candidates=inputs.candidates,
        elsewhere=elsewhere,
        memory=given,
    )


def _memory_words(n_bytes: int) -> str:
    """Say how much memory a fit takes, for a plan, which knows no files."""
    return (
        f"takes about {memory(n_bytes)} of memory, however many the records. Reading Parquet, "
        "Arrow or CSV files takes more: 'hushcov fit --dry-run' says how much, and what the client "
        "of a cluster takes."
    )


def expected_facts(found: Families | Forecast) -> list[tuple[str, str]]:
    """Return labelled sentences: the error to expect, and which correlations will be found."""
    if isinstance(found, Families):
        few = {each.row_sparsity - 1: e for each, e in found.errors.items() if each.row_sparsity}
        ends = dict.fromkeys(map(_error, (min(few.values()), max(few.values()))))
        others = " to ".join(str(each) for each in sorted({min(few), max(few)}))
        error = " to ".join(ends)
        if max(few):
            error += f" where each feature is related to {others} others"
        kinds = {FACTOR: "with one strong factor", DENSE: "where all pairs are related a little"}
        for family, other in found.errors.items():
            if family.name in kinds:
                error += f", {_error(other)} {kinds[family.name]}"
        found = found.usual
    else:
        errors = found.predicted_error
        models = ", ".join(f"{_RELATED[m]} {_error(errors[m])}" for m in COMPARED_MODELS)
        error = (
            f"{_error(found.typical_error)} of the covariance's norm, where features have equal "
            f"scales (if they go together {models})"
        )
    finds, limit = "no correlation reliably: there are too few records", found.detection_limit
    if limit is None:
        finds = f"no prediction: {planning.named(found.mechanism).no_limit}"
    elif limit < 1:
        finds = f"correlations of {number(limit, 2)} or more, nine times out of ten, {_WHERE}"
    error = f"about {error}; zeros for all entries would have 1"
    return [("expected error", error), ("will find", finds)]
