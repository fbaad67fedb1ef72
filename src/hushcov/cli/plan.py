"""`hushcov plan`: what error to expect at which number of records, without any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from hushcov._validation import check_real
from hushcov._words import count, counted, number
from hushcov.accounting import ONE_REPLACED, Neighbours
from hushcov.accounting.guarantee import odds_of
from hushcov.cli.files import candidate_words, check_figure, known_pairs
from hushcov.cli.forecasts import (
    Planner,
    PlanRow,
    Smallest,
    command_memory,
    error_cell,
    knowledge,
    mechanism_table,
    memory_words,
    records_table,
    remarks,
    rounded,
    smallest_table,
    warned,
)
from hushcov.cli.options import INTEGER, NUMBER, Command, check_budget, options_of
from hushcov.cli.output import (
    console,
    echo_json,
    facts,
    heading,
    paragraph,
    show,
    steps,
    text_table,
    warning,
)
from hushcov.cli.settings import settings_option
from hushcov.cli.words import PROMISED, promised
from hushcov.exceptions import ParameterError
from hushcov.mechanisms.room import MechanismPlan
from hushcov.planning import (
    COMPARED_MODELS,
    Caution,
    Families,
    Request,
    check_told,
    comparable,
    default_mechanism,
    predicted,
    told,
)
from hushcov.planning.comparison import (
    USUAL_SPARSITY,
    families,
    forecast_families,
    guesses,
    smallest_for,
)
from hushcov.steps.counting import Counting
from hushcov.sums.grids import Bounds, check_bounds
from hushcov.tables.codebook import read_codebook

# Slices that plan by themselves, by their name for --mechanism; one line each.
_SLICES = {"genotypes": "hushcov.genotypes.commands"}


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
    help="Search the best design of the multiscale mechanism, too (up to 10 s for each number of "
    "records); its figures are rough otherwise. Implied where it is named by --mechanism.",
)
@click.option(
    "--target-error",
    type=NUMBER,
    metavar="ALPHA",
    help="Also find the smallest number of records with at most this error.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PNG",
    help="Also draw the error against the number of records.",
)
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
    candidates = known_pairs(options, n_features, names)
    protected, left, neighbours = _protected(options)
    k = options["row_sparsity"]
    if candidates is not None:  # which say what it is at most
        k = candidates.row_sparsity_of(k)
    elif k is None:
        k = min(USUAL_SPARSITY, n_features) if n_features > 0 else USUAL_SPARSITY
    request = Request(
        k,
        left,
        options["delta"],
        known_mean=options["assume_centered"],
        known_scale=options["known_scale"],
        bounds=bounds,
        neighbours=neighbours,
        candidates=candidates,
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
    )
    records = sorted(set(n_records or planner.default_records()))
    _check(planner, records, target_error, figure)
    if mechanisms or options["refine"] or figure or options["row_sparsity"] or candidates:
        _compared(planner, records, mechanisms, protected, target_error, as_json, figure)
        return
    plan = _plan_families(planner, records, target_error)
    if as_json:
        echo_json(_public(planner) | protected | {"row_sparsity": None} | plan.to_dict())
        return
    _print_families(console(), plan)
    _say_counted(console(), protected)


def _compared(
    planner: Planner,
    records: list[int],
    mechanisms: tuple[str, ...],
    protected: dict[str, Any],
    target_error: float | None,
    as_json: bool,
    figure: Path | None,
) -> None:
    """Print or write the plans of all mechanisms."""
    rows = _plan(planner, records)
    designs = _designs(planner, rows, mechanisms)
    possible = [name for name in planner.mechanisms if any(row.find(name) for row in rows)]
    tried = {row.inputs.n_records for row in rows}
    smallest = None if target_error is None else _search(planner, possible, target_error, tried)
    if figure is not None:
        from hushcov.report import write_plan_figure

        forecasts = {row.n_records: row.forecasts for row in rows}
        write_plan_figure(figure, forecasts, title=_size(rows[0]), target_error=target_error)
    if as_json:
        result = (
            _public(planner)
            | protected
            | {
                "plans": [row.to_dict() for row in rows],
                "designs": {name: design.to_dict() for name, design in designs.items()},
                "target_error": target_error,
                "smallest_records": smallest,
            }
        )
        echo_json(result)
        return
    out = console()
    _print(out, planner, rows, designs)
    _say_counted(out, protected)
    if smallest is not None:
        heading(out, f"Smallest number of records with a predicted error of {target_error} or less")
        show(out, smallest_table(smallest, rough=not planner.refine))
    if figure is not None:
        paragraph(out, f"\nwritten: {figure}")


def _protected(options: dict[str, Any]) -> tuple[dict[str, object], float, Neighbours]:
    """Return whose privacy it is as plain data, the epsilon that a count leaves, and neighbours."""
    epsilon, most = options["epsilon"], options["max_rows_per_unit"]
    neighbours = Neighbours(
        options["neighbours"] or ONE_REPLACED.relation, 1 if most is None else most
    )
    left = epsilon
    if most is not None or not neighbours.public_size:
        left = Counting(epsilon, neighbours).left
    words: dict[str, object] = {
        "epsilon": epsilon,
        "count_epsilon": epsilon - left,
        "neighbours": neighbours.relation,
        "max_rows_per_unit": neighbours.most_rows,
    }
    return words, left, neighbours


def _say_counted(out: Console, protected: dict[str, object]) -> None:
    spent = protected["count_epsilon"]
    if spent:
        paragraph(
            out,
            f"The number of records is not public: epsilon {number(float(str(spent)), 2)} of "
            f"{number(float(str(protected['epsilon'])))} releases it first. Records are rows that "
            f"are summed, at most {protected['max_rows_per_unit']} of one unit.",
        )


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


def _check(
    planner: Planner, records: Sequence[int], target_error: float | None, figure: Path | None
) -> None:
    """Refuse what cannot be planned or written before any work."""
    for n in records:
        planner.inputs(n)
    if target_error is not None:
        cure = "it is relative to the covariance's norm, and the zero matrix has an error of 1."
        check_real("target_error", target_error, above=0, at_most=1, cure=cure)
    if figure is not None:
        check_figure(figure)


def _plan(planner: Planner, records: Sequence[int]) -> list[PlanRow]:
    """Plan every row; if nothing at all can be planned, say why."""
    rows = []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            rows.append(planner.row(n, as_fit=len(records) == 1))
    if not any(row.forecasts for row in rows):
        raise next(iter(rows[0].refusals.values()))
    return rows


def _designs(
    planner: Planner, rows: Sequence[PlanRow], mechanisms: Sequence[str]
) -> dict[str, MechanismPlan[Any]]:
    """Return designs for one number of records: of what a fit runs, or of those asked for."""
    if len(rows) > 1:
        return {}
    (row,) = rows
    asked = [each.mechanism for each in row.forecasts if each.mechanism in mechanisms]
    run = row.find(planner.default) or row.best  # what a fit runs
    best = [] if run is None else [run.mechanism]
    able = comparable(planner.request.candidates)
    found = {"adaptive_width": True} if planner.adaptive_width else {}

    def design(name: str) -> MechanismPlan[Any]:
        options: Any = found if name == planner.default else {}
        return able[name].plan(row.inputs, **options)

    return {name: design(name) for name in asked or best}


def _search(
    planner: Planner, mechanisms: Sequence[str], target_error: float, planned: set[int]
) -> Smallest:
    found: Smallest = {name: {} for name in mechanisms}
    with steps(len(mechanisms) * len(COMPARED_MODELS)) as step:
        for name in mechanisms:
            tried = set(planned)  # other models, too
            for model in COMPARED_MODELS:
                step(f"smallest number of records: {name}, {model}")
                found[name][model] = planner.smallest(name, model, target_error, tried)
    return found


def _public(planner: Planner) -> dict[str, object]:
    request = planner.request
    to_whom = request.neighbours.whom
    known: dict[str, object] = {}
    if request.candidates is not None:
        known = request.candidates.to_dict() | {"adaptive_width": planner.adaptive_width}
    return {
        "n_features": planner.n_features,
        "row_sparsity": request.row_sparsity,
        "epsilon": request.epsilon,
        "delta": request.delta,
        "known_mean": request.known_mean,
        "known_scale": request.known_scale,
        "neighbours": request.neighbours.relation,
        "unit": request.neighbours.unit,
        "max_rows_per_unit": request.neighbours.most_rows,
        "odds": odds_of(request.epsilon, request.delta, *to_whom).to_dict(),
        "mechanisms": list(planner.mechanisms),
    } | known


def _size(row: PlanRow) -> str:
    inputs, known = row.inputs, row.inputs.candidates
    words = f"row sparsity {inputs.row_sparsity}" if known is None else known.words
    return (
        f"{counted(inputs.n_features, 'feature')}, {words}, epsilon {number(inputs.epsilon)}, "
        f"delta {number(inputs.delta)}"
    )


def _print(
    out: Console, planner: Planner, rows: Sequence[PlanRow], designs: dict[str, MechanismPlan[Any]]
) -> None:
    one, request = len(rows) == 1, planner.request
    size = f"{counted(rows[0].n_records, 'record')} of {_size(rows[0])}" if one else _size(rows[0])
    heading(out, f"Predicted error: {size}")
    paragraph(
        out,
        "Operator norm of the error over that of the covariance, where features have equal scales: "
        "the zero matrix, which needs no data, has 1. " + knowledge(planner),
    )
    if request.candidates is not None:
        paragraph(out, f"Candidates: {candidate_words(request.candidates)}.")
    show(out, "")
    show(out, mechanism_table(rows[0]) if one else records_table(rows, planner.mechanisms))
    for remark in remarks(rows):
        paragraph(out, remark)
    for sentence in warned([(row.n_records, row.cautions) for row in rows]):
        warning(out, sentence)
    for name, design in designs.items():
        heading(out, f"The design of {name}, from public inputs alone")
        facts(out, design.facts(request.found_before))
        table = design.table()
        if table is not None:
            show(out, "")
            show(out, text_table(*table))
    heading(out, PROMISED)
    facts(out, promised(request.epsilon, request.delta, request.neighbours))


@dataclass(frozen=True)
class FamilyRow:
    """Forecasts for one number of records by family, with cautions."""

    n_records: int
    found: Families
    cautions: tuple[Caution, ...]
    prepared: bool = True  # whether means are found privately

    @property
    def memory(self) -> int:
        """Bytes that 'hushcov fit' needs, beside what reading files takes."""
        name = default_mechanism().name
        return command_memory(name, self.found.inputs, prepared=self.prepared)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "n_records": self.n_records,
            "families": self.found.to_dict(),
            "detection_limit": self.found.usual.detection_limit,
            "memory_bytes": self.memory,
            "warnings": [caution.sentence for caution in self.cautions],
        }


@dataclass(frozen=True)
class FamilyPlan:
    """The plan: rows, what guesses of the sparsity would change at one number, and targets."""

    planner: Planner
    rows: tuple[FamilyRow, ...]
    guessed: dict[int, dict[int, float]]  # errors by the true sparsity and by what was told
    target_error: float | None
    smallest: dict[str, int | None] | None

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "mechanism": default_mechanism().name,
            "plans": [row.to_dict() for row in self.rows],
            "guesses": [
                {"row_sparsity": true, "told": told, "predicted_error": error}
                for true, by_told in self.guessed.items()
                for told, error in by_told.items()
            ],
            "target_error": self.target_error,
            "smallest_records": self.smallest,
        }


def _plan_families(
    planner: Planner, records: Sequence[int], target_error: float | None
) -> FamilyPlan:
    """Predict every family at every number of records, under a progress bar."""
    request, d, rows = planner.request, planner.n_features, []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            planner.inputs(n)
            found = forecast_families(request, n, d)
            cautions = request.cautions(*request.divide(n, d), found.usual)
            rows.append(FamilyRow(n, found, cautions, not request.known_mean))
    one = len(rows) == 1 and d > 1
    guessed = guesses(request, rows[0].found.inputs.n_records, d) if one else {}
    tried = {row.found.inputs.n_records for row in rows}
    smallest: dict[str, int | None] = {}
    if target_error is not None:
        with steps(len(families(d))) as step:
            for each in families(d):
                step(f"smallest number of records: {each.name}")
                smallest[each.name] = smallest_for(request, d, each, target_error, set(tried))
    return FamilyPlan(planner, tuple(rows), guessed, target_error, smallest or None)


def _print_families(out: Console, plan: FamilyPlan) -> None:
    """Print tables of the errors, and what they mean."""
    planner, rows = plan.planner, plan.rows
    request, one = planner.request, len(rows) == 1
    size = f"{counted(planner.n_features, 'feature')}, epsilon {number(request.epsilon)}, delta "
    size += number(request.delta)
    records = f"{counted(rows[0].n_records, 'record')} of " if one else ""
    heading(out, f"Predicted error, whatever the structure: {records}{size}")
    paragraph(
        out,
        "Operator norm of the error over that of the covariance, where features have equal scales: "
        "the zero matrix, which needs no data, has 1. 'hushcov fit' finds out by itself what the "
        "covariance is like. " + knowledge(planner),
    )
    show(out, "")
    found = rows[0].found.errors
    if one:
        words = [(each.name, each.words, error_cell(error)) for each, error in found.items()]
        show(out, text_table(("if", "that is", "error"), words))
    else:
        every = [
            (count(row.n_records), *map(error_cell, row.found.errors.values())) for row in rows
        ]
        show(out, text_table(("records", *(each.name for each in found)), every))
    for remark in _family_remarks(rows):
        paragraph(out, remark)
    for sentence in warned([(row.n_records, row.cautions) for row in rows]):
        warning(out, sentence)
    if plan.guessed:
        _print_guesses(out, plan)
    if one:
        heading(out, "The design, from public inputs alone")
        facts(out, default_mechanism().plan(rows[0].found.inputs).facts(request.found_before))
    heading(out, PROMISED)
    facts(out, promised(request.epsilon, request.delta, request.neighbours))
    if plan.smallest is not None:
        heading(out, f"Smallest number of records with a predicted error of {plan.target_error}")
        cells = [
            (name, "not by 1e12" if n is None else rounded(n)) for name, n in plan.smallest.items()
        ]
        show(out, text_table(("if", "records"), cells))


def _family_remarks(rows: Sequence[FamilyRow]) -> list[str]:
    inputs = rows[-1].found.inputs
    words = [
        "k counts the nonzeros of a row of the covariance, the diagonal included. factor: one that "
        "explains a third of the variance. dense: all pairs are related, a little."
    ]
    limit = rows[0].found.usual.detection_limit
    if len(rows) == 1 and limit is not None and limit < 1:
        k = inputs.row_sparsity
        words.append(
            f"Correlations of {number(limit, 2)} or more are found nine times out of ten (k = {k})."
        )
    return [*words, f"A fit {memory_words(rows[-1].memory)}"]


def _print_guesses(out: Console, plan: FamilyPlan) -> None:
    """Print what a guess of k would change: screened is told one, the default needs none."""
    heading(out, "What a guess of k would change")
    errors = {each.row_sparsity: e for each, e in plan.rows[0].found.errors.items()}
    told = list(plan.guessed)
    cells = [
        (str(true), *(error_cell(by_told[guess]) for guess in told), error_cell(errors[true]))
        for true, by_told in plan.guessed.items()
    ]
    titles = ("true k", *(f"told {guess}" for guess in told), "not told")
    show(out, text_table(titles, cells))
    paragraph(
        out,
        "Told: 'hushcov fit --mechanism screened --row-sparsity K', which looks for as many pairs "
        "as it is told. Not told: the default. To the default --row-sparsity is advice, with which "
        "it starts: it changes little.",
    )
