"""`hushcov plan`: what error to expect at which number of records, without any data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from hushcov._validation import check_real
from hushcov._words import counted, number
from hushcov.accounting import RELATIONS, REPLACE, Neighbours
from hushcov.accounting.guarantee import odds_of
from hushcov.candidates import Candidates
from hushcov.cli.files import check_figure
from hushcov.cli.fit_options import check_budget
from hushcov.cli.forecasts import (
    Planner,
    Row,
    Smallest,
    knowledge,
    mechanism_table,
    records_table,
    remarks,
    smallest_table,
    warned,
)
from hushcov.cli.known_pairs import candidate_words, known_pairs
from hushcov.cli.options import CODEBOOK, INTEGER, NUMBER, Command, public_inputs
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
from hushcov.cli.plan_families import (
    FamilyPlan,
    plan_families,
    print_families,
)
from hushcov.cli.settings import settings_option
from hushcov.cli.words import PROMISED, promised
from hushcov.exceptions import ParameterError
from hushcov.genotypes import NAME as GENOTYPES
from hushcov.mechanisms.room import MechanismPlan
from hushcov.planning import (
    COMPARED_MODELS,
    Request,
    check_told,
    comparable,
    predicted,
    told,
)
from hushcov.planning.families import USUAL_SPARSITY
from hushcov.steps.counting import Counting
from hushcov.sums.knowledge import Bounds, check_bounds
from hushcov.tables.codebook import read_codebook


@click.command(cls=Command, name="plan")
@settings_option
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    metavar="D",
    help="Number of features; those of the codebook where there is one.  [required without it]",
)
@public_inputs
@CODEBOOK
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
    type=click.Choice(tuple(dict.fromkeys((*predicted(), *told(), GENOTYPES)))),
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
def command(
    n_features: int | None,
    row_sparsity: int | None,
    codebook: Path | None,
    n_records: tuple[int, ...],
    mechanisms: tuple[str, ...],
    refine: bool,
    known_mean: bool,
    known_scale: bool,
    target_error: float | None,
    as_json: bool,
    figure: Path | None,
    **public: Any,
) -> None:
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
    check_budget(public["epsilon"], public["delta"])
    n_features, bounds, names = _known(n_features, codebook)
    if GENOTYPES in mechanisms:
        from hushcov.genotypes.plan_command import plan_genotypes

        others: dict[str, Any] = {"known_mean": known_mean, "known_scale": known_scale}
        others |= {"mechanism": mechanisms[1:], "row_sparsity": row_sparsity, "refine": refine}
        others |= {"target_error": target_error, "figure": figure}
        plan_genotypes(n_features, n_records, as_json, public | others | {"codebook": codebook})
        return
    candidates, adaptive = known_pairs(public, n_features, names)
    compared = bool(mechanisms or refine or figure or row_sparsity or candidates)
    public |= {"known_mean": known_mean, "known_scale": known_scale}
    public |= {"row_sparsity": _sparsity(row_sparsity, n_features, candidates)}
    protected = _protected(public)
    request = Request(**public, bounds=bounds, candidates=candidates)
    for name in mechanisms:
        check_told(name, candidates)
    able = comparable(candidates)
    planner = Planner(
        request,
        n_features,
        tuple(name for name in able if not mechanisms or name in mechanisms),
        refine or any(able[name].slow for name in mechanisms),
        adaptive,
    )
    records = sorted(set(n_records or planner.default_records()))
    _check(planner, records, target_error, figure)
    if not compared:
        _families(plan_families(planner, records, target_error), as_json, protected)
        return
    _compared(planner, records, mechanisms, protected, target_error, as_json, figure)


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
        _draw(figure, rows, target_error)
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


def _families(plan: FamilyPlan, as_json: bool, protected: dict[str, object]) -> None:
    if as_json:
        echo_json(_public(plan.planner) | protected | {"row_sparsity": None} | plan.to_dict())
    else:
        print_families(console(), plan)
        _say_counted(console(), protected)


def _protected(public: dict[str, Any]) -> dict[str, object]:
    """Say whose privacy it is, and leave the rest of the budget to all but the count."""
    relation, most = public.pop("neighbours"), public.pop("max_rows_per_unit")
    epsilon, left = public["epsilon"], public["epsilon"]
    neighbours = Neighbours(relation or REPLACE, 1 if most is None else most)
    if most is not None or neighbours.relation != REPLACE:
        left = Counting(epsilon, neighbours).left
    public |= {"epsilon": left, "neighbours": neighbours}
    return {
        "epsilon": epsilon,
        "count_epsilon": epsilon - left,
        "neighbours": neighbours.relation,
        "max_rows_per_unit": neighbours.most_rows,
    }


def _say_counted(out: Console, protected: dict[str, object]) -> None:
    spent = protected["count_epsilon"]
    if spent:
        paragraph(
            out,
            f"The number of records is not public: epsilon {number(float(str(spent)), 2)} of "
            f"{number(float(str(protected['epsilon'])))} releases it first. Records are rows that "
            f"are summed, at most {protected['max_rows_per_unit']} of one unit.",
        )


def _draw(figure: Path, rows: Sequence[Row], target_error: float | None) -> None:
    from hushcov.report import write_plan_figure

    forecasts = {row.n_records: row.forecasts for row in rows}
    write_plan_figure(figure, forecasts, title=_size(rows[0]), target_error=target_error)


def _sparsity(given: int | None, n_features: int, candidates: Candidates | None) -> int:
    """The row sparsity to plan with: candidates say what it is at most."""
    if candidates is not None:
        return candidates.row_sparsity_of(given)
    usual = min(USUAL_SPARSITY, n_features) if n_features > 0 else USUAL_SPARSITY
    return usual if given is None else given


def _known(
    n_features: int | None, codebook: Path | None
) -> tuple[int, Bounds | None, list[str] | None]:
    """The number of features, bounds and names by a codebook; it may leave some columns out."""
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


def _plan(planner: Planner, records: Sequence[int]) -> list[Row]:
    """Plan every row; if nothing at all can be planned, say why."""
    rows = []
    with steps(len(records)) as step:
        for n in records:
            step(f"planning for {n:,} records")
            rows.append(planner.chosen(n) if len(records) == 1 else planner.row(n))
    if not any(row.forecasts for row in rows):
        raise next(iter(rows[0].refusals.values()))
    return rows


def _designs(
    planner: Planner, rows: Sequence[Row], mechanisms: Sequence[str]
) -> dict[str, MechanismPlan[Any]]:
    """For one number of records the design of what a fit runs, or of those asked for."""
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
    to_whom = RELATIONS[request.neighbours.relation], request.neighbours.unit
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


def _size(row: Row) -> str:
    inputs = row.inputs
    if inputs.candidates is not None:
        return (
            f"{counted(inputs.n_features, 'feature')}, {inputs.candidates.words}, epsilon "
            f"{number(inputs.epsilon)}, delta {number(inputs.delta)}"
        )
    return (
        f"{counted(inputs.n_features, 'feature')}, row sparsity {inputs.row_sparsity}, epsilon "
        f"{number(inputs.epsilon)}, delta {number(inputs.delta)}"
    )


def _print(
    out: Console, planner: Planner, rows: Sequence[Row], designs: dict[str, MechanismPlan[Any]]
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
