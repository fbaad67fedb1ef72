"""`hushcov paper verify`: Theorem 1 and every lemma at the paper's own constants."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.table import Table
from rich.text import Text

from hushcov._validation import check_integer
from hushcov._words import exact, number
from hushcov.cli import CHECK_FAILED
from hushcov.cli.files import check_paths
from hushcov.cli.options import INTEGER, JSON, NUMBER, SEED, Command, figure_option
from hushcov.cli.output import console, facts, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import ParameterError
from hushcov.paper.verification.claims import (
    DEFAULT_RUNS,
    N_CLAIMS,
    Verification,
    to_dict,
    verify_setting,
)
from hushcov.paper.verification.simulation import (
    SWEEP_RUNS,
    Claim,
    Setting,
    Sweep,
    error_against_records,
    make_setting,
    records_sweep,
)
from hushcov.report.style import LOOKS, caption, new_figure, power, tidy, write_png
from hushcov.simulate import MODELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DEFAULT_FEATURES = (20, 100, 400)
_MANY_FEATURES = 50  # from here on the default row sparsity is 5 instead of 2
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SPREAD = 0.6  # width of a column of points, in units of the distance between columns


def _integers(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """Read whole numbers separated by commas, each as every other integer option is read."""
    return tuple(INTEGER.convert(part, param, ctx) for text in values for part in text.split(","))


@click.command(cls=Command, name="verify")
@click.option(
    "--features",
    "n_features",
    callback=_integers,
    multiple=True,
    metavar="D,...",
    help="Numbers of features, with commas or repeated.  [default: 20,100,400]",
)
@click.option(
    "--row-sparsity",
    callback=_integers,
    multiple=True,
    metavar="K,...",
    help="Most nonzeros in a row: one for all, or one for each number of features.  "
    f"[default: 2 below {_MANY_FEATURES} features, else 5]",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    metavar="N",
    help="Number of records.  [default: for each setting the fewest that are accurate]",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    default="block",
    show_default=True,
    help="Pattern of the true covariance.",
)
@click.option("--target-error", type=NUMBER, default=0.25, show_default=True, metavar="ALPHA")
@click.option("--epsilon", type=NUMBER, default=1.0, show_default=True, metavar="EPSILON")
@click.option("--delta", type=NUMBER, default=1e-6, show_default=True, metavar="DELTA")
@click.option("--failure-probability", type=NUMBER, default=0.1, show_default=True, metavar="BETA")
@click.option("--scale", type=NUMBER, default=1.0, show_default=True, metavar="SIGMA")
@click.option(
    "--runs",
    type=INTEGER,
    default=DEFAULT_RUNS,
    show_default=True,
    metavar="N",
    help="Runs of the mechanism in each setting.",
)
@SEED
@JSON
@figure_option("Also draw the errors, run by run and against the number of records.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the JSON to a file.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    n_features: tuple[int, ...],
    row_sparsity: tuple[int, ...],
    runs: int,
    seed: int,
    as_json: bool,
    figure: Path | None,
    output: Path | None,
    **inputs: Any,
) -> None:
    """Check Theorem 1 and its lemmas, claim by claim, at the paper's own constants.

    Second moments are drawn from their exact law (Gaussian records), so that the mechanism
    really runs at 1e10 to 1e17 records. Every number is computed in two ways, and a claim holds
    if both keep its bound. The exit code is 0 if every claim holds and 1 otherwise.

    \b
    Example:
      hushcov paper verify --features 20,100 --runs 20 --figure verify.png
    """
    check_integer("runs", runs, at_least=1, cure="30 runs show a frequency of 0.9.")
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    check_paths(figure, output)
    sizes = _sizes(n_features, row_sparsity)
    settings = [make_setting(n_features=d, row_sparsity=k, **inputs) for d, k in sizes]
    started = time.perf_counter()
    verifications = [_verify(setting, runs, seed) for setting in settings]
    sweeps = [_sweep(setting, seed) for setting in settings] if figure is not None else []
    seconds = time.perf_counter() - started
    summary = {"runs": runs, "seed": seed, "seconds": round(seconds, 2)}
    result = json.dumps(summary | to_dict(verifications, sweeps), indent=1, allow_nan=False)
    if output is not None:
        output.write_text(result + "\n")
    if figure is not None:
        write_png(figure, verification_figure(verifications, sweeps))
    if as_json:
        click.echo(result)
    else:
        _print(verifications, seconds, [path for path in (figure, output) if path is not None])
    ctx.exit(0 if all(item.holds for item in verifications) else CHECK_FAILED)


def _sizes(features: tuple[int, ...], sparsities: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pair each number of features with its row sparsity."""
    features = features or DEFAULT_FEATURES
    if not sparsities:
        sparsities = tuple(min(d, 2 if d < _MANY_FEATURES else 5) for d in features)
    if len(sparsities) == 1:
        sparsities *= len(features)
    if len(sparsities) != len(features):
        raise ParameterError(
            f"row_sparsity must be one number, or one for each of the {len(features)} numbers of "
            f"features, got {len(sparsities)}: write --features 20,100 --row-sparsity 2,5."
        )
    return list(zip(features, sparsities, strict=True))


def _verify(setting: Setting, runs: int, seed: int) -> Verification:
    name = f"d = {setting.inputs.n_features}: runs and claims"
    with steps(runs + N_CLAIMS) as step:
        step(name)
        return verify_setting(setting, runs, lambda done: step(name), seed=seed)


def _sweep(setting: Setting, seed: int) -> Sweep:
    records = records_sweep(setting)
    name = f"d = {setting.inputs.n_features}: figure"
    with steps(SWEEP_RUNS * len(records)) as step:
        step(name)
        return error_against_records(setting, records, seed=seed, progress=lambda done: step(name))


def _print(verifications: list[Verification], seconds: float, written: list[Path]) -> None:
    out = console()
    for item in verifications:
        inputs = item.setting.inputs
        heading(
            out,
            f"d = {inputs.n_features}, k = {inputs.row_sparsity}, n = {exact(inputs.n_records)}, "
            f"model {item.setting.model}, runs: {len(item.runs)}",
        )
        show(out, _table(item.claims))
        for claim in item.claims:
            if not claim.holds:
                paragraph(out, f"{claim.name}: {claim.detail}.", style="red")
    heading(out, "What the claims say")
    paragraph(
        out,
        "The margin is the bound over the measured value. 'empty': nothing to check, because no "
        "level selects, or no test can fire at one that does.",
    )
    show(out, "")
    facts(out, ((claim.name, claim.statement) for claim in verifications[0].claims))
    claims = [claim for item in verifications for claim in item.claims]
    held, empty = sum(claim.holds for claim in claims), sum(claim.vacuous for claim in claims)
    note = f", {empty} of them empty" if empty else ""
    heading(out, f"{held} of {len(claims)} claims hold{note}. {seconds:.1f} s.")
    for path in written:
        paragraph(out, f"written: {path}")


def _table(claims: tuple[Claim, ...]) -> Table:
    table = plain_table()
    table.add_column("claim", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for title in ("bound", "measured", "2nd way", "margin"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for claim in claims:
        values = (claim.bound, claim.measured, claim.second)
        margin = "any" if claim.margin == float("inf") else _value(claim.margin, claim.logarithmic)
        verdict = Text("empty", "yellow") if claim.vacuous else Text("yes", "green")
        table.add_row(
            claim.name,
            claim.source.replace("Lemma", "Lem").replace("Theorem", "Thm"),
            *(_value(value, claim.logarithmic) for value in values),
            margin,
            verdict if claim.holds else Text("NO", "bold red"),
        )
    return table


def _value(value: float, logarithmic: bool) -> str:
    """Return a number, or a power of ten given by its logarithm, in at most ten characters."""
    if not logarithmic:
        return number(value, 3)
    if value == float("-inf"):
        return "0"
    if abs(value) < 4:
        return number(10**value, 3)
    return f"10^{number(value, 3 if abs(value) < 1e3 else 2)}"


def verification_figure(verifications: Sequence[Verification], sweeps: Sequence[Sweep]) -> Figure:
    """Return errors with a caption: every run, and the same settings at other n."""
    figure = new_figure(11, 5.6)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1, 1.35))
    _runs_panel(left, verifications)
    _records_panel(right, sweeps)
    first = verifications[0].setting
    # 17/16 k t_0 over the target: 17/4096 whatever the setting.
    floor = 17 / 16 * first.inputs.row_sparsity * first.base_threshold / first.target
    for axes in (left, right):
        axes.set_yscale("log")
        axes.axhline(1.0, color="black", linewidth=1.2)
        axes.axhline(floor, color="0.5", linewidth=1.0, linestyle=(0, (1, 2)))
        tidy(axes, "y")
    smallest = min(min(item.relative_errors) for item in verifications)
    bottom = min(floor, smallest) / 4
    left.set_ylim(bottom, 2.5)
    grey = "grey: 17/16 k t₀, bound for the conditional mean"
    place = {"transform": left.get_yaxis_transform(), "va": "bottom"}
    left.text(0.01, 1.08, "target of Theorem 1", color="black", **place)
    left.text(0.01, 1.15 * bottom, grey, color="0.35", **place)
    return caption(figure, describe(verifications, sweeps), width=150)


def describe(verifications: Sequence[Verification], sweeps: Sequence[Sweep]) -> str:
    """Say what the figure shows, from the numbers themselves."""
    errors = np.concatenate([item.relative_errors for item in verifications])
    missed = int(np.sum(errors > 1))
    verdict = (
        f"all {len(errors)} runs keep the target, the worst with a factor "
        f"{1 / errors.max():.0f} to spare"
        if missed == 0
        else f"{missed} of {len(errors)} runs miss the target"
    )
    medians = [[np.median(point) for point in sweep.relative_errors] for sweep in sweeps]
    change = max(max(row) / min(row) for row in medians)
    spread = max(max(item.relative_errors) / min(item.relative_errors) for item in verifications)
    share = np.median([run.mean_error / run.error for item in verifications for run in item.runs])
    return (
        f"What to see: {verdict}. The conditional mean alone, which leaves out thresholds below "
        f"t₀ whatever n is, accounts for {100 * share:.0f} % of the error of a typical run; its "
        f"bound is the grey line. Over all n on the right a median moves by at most "
        f"{100 * (change - 1):.0f} %, while single runs on the left spread by "
        f"{100 * (spread - 1):.0f} %. Dotted: smallest n with the privacy condition; dashed: with "
        "the accuracy conditions too."
    )


def _runs_panel(axes: Axes, verifications: Sequence[Verification]) -> None:
    for position, item in enumerate(verifications):
        errors = item.relative_errors
        offsets = (np.arange(len(errors)) + 0.5) / len(errors) - 0.5
        places = position + _SPREAD * offsets
        axes.plot(places, errors, linestyle="none", alpha=0.8, **_look(position))
    settings = [item.setting for item in verifications]
    words = [f"{_name(each)}\nn = {power(each.inputs.n_records)}" for each in settings]
    axes.set_xticks(range(len(words)), words)
    axes.set_xlim(-0.6, len(verifications) - 0.4)
    axes.set_xlabel("setting; one point a run, in the order they were drawn")
    axes.set_ylabel("operator-norm error / target\n(target: target_error times scale²)")
    axes.set_title("Every run", fontsize=11)


def _records_panel(axes: Axes, sweeps: Sequence[Sweep]) -> None:
    for position, sweep in enumerate(sweeps):
        medians = [np.median(point) for point in sweep.relative_errors]
        axes.plot(sweep.records, medians, label=_name(sweep.setting), **_look(position))
        parameters = sweep.setting.parameters
        conditions = {":": parameters.smallest_private_n, "--": parameters.smallest_accurate_n}
        for style, place in conditions.items():
            axes.axvline(place, color=_look(position)["color"], linestyle=style, linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("number of records n")
    runs = len(sweeps[0].relative_errors[0])
    axes.set_title(f"Against n: median of {runs} runs", fontsize=11)
    axes.legend(frameon=True, framealpha=1, edgecolor="none", loc="center right", fontsize=9)


def _name(setting: Setting) -> str:
    return f"d = {setting.inputs.n_features}, k = {setting.inputs.row_sparsity}"


def _look(position: int) -> dict[str, Any]:
    """Return the marker and the colour of a setting."""
    marker, colour = _MARKERS[position % len(_MARKERS)], LOOKS[position % len(LOOKS)][0]
    return {"marker": marker, "markersize": 4, "color": colour}
