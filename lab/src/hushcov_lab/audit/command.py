"""`hushcov audit`: attack the mechanisms, compare what leaks with what they claim, and draw it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from hushcov._words import counted, number
from hushcov.cli import CHECK_FAILED
from hushcov.cli.files import check_paths
from hushcov.cli.options import INTEGER, JSON, NUMBER, SEED, Command, figure_option
from hushcov.cli.output import console, facts, heading, paragraph, plain_table, show, steps
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.kernel.accounting import ONE_REPLACED
from hushcov.report.style import BLUE, ORANGE, VERMILION, caption, new_figure, tidy, write_png
from hushcov_lab.audit.attack import KINDS
from hushcov_lab.audit.foreign import DEFAULT_RUNS as FOREIGN_RUNS
from hushcov_lab.audit.foreign import FOREIGN, Finding, examine_attack
from hushcov_lab.audit.neighbours import WAYS, Tally, replay_pairs
from hushcov_lab.audit.run import (
    ALARM_RATE,
    BATCHES,
    DEFAULT_RUNS,
    QUICK_RUNS,
    AuditResult,
    attacks_on,
    audit,
    audited,
    is_handmade,
)
from hushcov_lab.audit.tracing import (
    LARGEST_ERROR,
    TRACED,
    BlockModel,
    Tracing,
    needed_records,
    predicted_rows,
    trace,
)
from hushcov_lab.benchmark.cells import DELTA

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = tuple(dict.fromkeys(name for kind in KINDS for name in audited(kind)))
_SPREAD = 0.12  # between attacks on one mechanism, in units of the distance between mechanisms
# How a result is drawn: its name in the legend, marker and colour.
_CURVE = ("measured (Gaussian curve)", "o", BLUE)
_RATES = ("measured (error rates)", "s", ORANGE)
_BROKEN = ("claim broken", "X", VERMILION)


def _show_list(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Say what is audited, and on which pairs of datasets, and end."""
    if not wanted or ctx.resilient_parsing:
        return
    kind = ctx.params.get("neighbours") or ONE_REPLACED.relation
    listed = []
    for name in audited(kind):
        pairs = "; ".join(attack.name for attack in attacks_on(name, kind))
        listed.append((name, pairs if is_handmade(name, kind) else f"{pairs} (whole releases)"))
    facts(console(), listed)
    ctx.exit()


class _Audit(Command):
    """The audit of mechanisms; a command of its own follows one of the words in `commands`."""

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        self.commands: dict[str, click.Command] = {}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Read the options of the command that is meant."""
        if args and (other := self.commands.get(args[0])):
            return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_Audit, name="audit")
@click.argument("mechanism", type=click.Choice(("all", *_NAMES)), metavar="MECHANISM|all")
@click.option(
    "--neighbours",
    type=click.Choice(tuple(KINDS)),
    default=ONE_REPLACED.relation,
    show_default=True,
    is_eager=True,
    help="How the two datasets differ: one record is replaced, or is in one of them alone; or "
    "three records of one unit.",
)
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_list,
    help="Show every mechanism and the pairs of datasets it is attacked on.",
)
@click.option(
    "--runs",
    type=INTEGER,
    metavar="N",
    help="Runs on each of two neighbouring datasets.  "
    f"[default: {DEFAULT_RUNS:,}, or {QUICK_RUNS:,} with --quick]",
)
@click.option("--quick", is_flag=True, help="Fewer runs: all mechanisms in several minutes.")
@SEED
@JSON
@figure_option("Also draw claimed against measured, mechanism by mechanism.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    mechanism: str,
    neighbours: str,
    runs: int | None,
    quick: bool,
    seed: int,
    as_json: bool,
    figure: Path | None,
) -> None:
    """Attack a mechanism, or all of them, and bound epsilon from below.

    A mechanism runs many times on two datasets that differ in one record, or in those of one unit,
    chosen to be as hard on it as its proof allows. How well its outputs tell the two apart bounds
    its epsilon from below: a bound above the claim would prove the claim wrong, one below it proves
    nothing. The exit code is 0 if every claim survives and 1 if one is broken. 'hushcov audit
    tracing' compares what is leaked of all records with what any private estimate must leak,
    'hushcov audit replay' runs fits again on neighbours with the same noisy numbers, and 'hushcov
    audit foreign' puts other people's testers to the same outputs.

    \b
    Examples:
      hushcov audit --list
      hushcov audit all --quick
      hushcov audit screened --figure audit.png
      hushcov audit all --neighbours add-remove
      hushcov audit tracing all
      hushcov audit replay
      hushcov audit foreign all
    """
    if quick and runs is not None:
        raise ParameterError("quick cannot be given together with --runs: leave one of them out.")
    check_paths(figure)
    runs = runs if runs is not None else QUICK_RUNS if quick else DEFAULT_RUNS
    started = time.perf_counter()
    names = audited(neighbours) if mechanism == "all" else (mechanism,)
    n_attacks = sum(len(attacks_on(name, neighbours)) for name in names)
    results: list[AuditResult] = []
    with steps(n_attacks * BATCHES) as step:
        for name in names:
            results += audit(name, neighbours=neighbours, runs=runs, seed=seed, progress=step)
    seconds = time.perf_counter() - started
    survive = all(result.survives for result in results)
    if figure is not None:
        write_png(figure, audit_figure(results))
    if as_json:
        summary = {"survive": survive, "neighbours": neighbours, "seed": seed}
        summary |= {"alarm_rate": ALARM_RATE}
        found = {"seconds": round(seconds, 2), "attacks": [item.to_dict() for item in results]}
        click.echo(json.dumps(summary | found, indent=1, allow_nan=False))
    else:
        _print(results, seconds, figure)
    ctx.exit(0 if survive else CHECK_FAILED)


def _print(results: list[AuditResult], seconds: float, figure: Path | None) -> None:
    out = console()
    show(out, _table(results))
    broken = sum(not result.survives for result in results)
    verb = "breaks" if broken == 1 else "break"
    verdict = f"{broken} {verb} a claim" if broken else "every claim survives"
    heading(out, f"{counted(len(results), 'attack')}: {verdict}. {seconds:.0f} s.")
    paragraph(
        out,
        "Measured is a lower bound on epsilon at the claimed delta. Above the claim, it shows that "
        "the claim is false (at most one audit in a thousand is a false alarm). Below it, it does "
        "not show that the claim is true.",
    )
    if figure is not None:
        paragraph(out, f"written: {figure}")


def _table(results: list[AuditResult]) -> Table:
    table = plain_table()
    table.add_column("mechanism and pair", no_wrap=True)
    table.add_column("statistic", no_wrap=True)
    for title in ("claimed", "measured", "ratio", "runs"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for mechanism, attacks in _by_mechanism(results).items():
        table.add_row(Text(mechanism, style="bold"))
        for result in attacks:
            stands = Text("stands", style="green")
            table.add_row(
                f"  {result.pair}",
                result.statistic,
                number(result.claimed_epsilon, 3),
                number(result.measured_epsilon, 3),
                f"{result.ratio:.2f}",
                f"{result.runs:,}",
                stands if result.survives else Text("BROKEN", style="bold red"),
            )
    return table


def _by_mechanism(results: Sequence[AuditResult]) -> dict[str, list[AuditResult]]:
    rows: dict[str, list[AuditResult]] = {}
    for result in results:
        rows.setdefault(result.mechanism, []).append(result)
    return rows


def audit_figure(results: Sequence[AuditResult]) -> Figure:
    """Return claimed and measured epsilons with a caption; attacks on one mechanism share a row."""
    rows = _by_mechanism(results)
    figure = new_figure(9.5, 2.0 + 0.6 * len(rows))
    axes = figure.subplots()
    for position, attacks in enumerate(rows.values()):
        _row(axes, position, attacks)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
    axes.set_xlabel("epsilon (at the claimed delta)")
    axes.tick_params(axis="y", length=0)
    tidy(axes, "x")
    axes.plot([], [], color="black", label="claimed")
    there = {_kind(result) for result in results}
    for label, marker, colour in (kind for kind in (_CURVE, _RATES, _BROKEN) if kind in there):
        axes.plot([], [], marker, color=colour, label=label)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9)
    return caption(figure, describe(results), width=125)


def describe(results: Sequence[AuditResult]) -> str:
    """Say what the figure shows, from the numbers themselves."""
    broken = [result for result in results if not result.survives]
    worst = max(broken or results, key=lambda result: result.ratio)
    if broken:
        verdict = (
            f"{len(broken)} of {len(results)} attacks break a claim; the worst is {worst.mechanism}"
            f" ({worst.pair}), at least {worst.measured_epsilon:.2g} where "
            f"{worst.claimed_epsilon:.2g} is claimed"
        )
    else:
        verdict = (
            f"no attack of {len(results)} passes its claim, and the closest ({worst.mechanism}) "
            f"reaches {100 * worst.ratio:.0f} % of it"
        )
    runs = max(result.runs for result in results)
    return (
        f"What to see: {verdict}. A point is a lower bound on epsilon from up to {runs:,} runs on "
        "each of two neighbouring datasets. Far to the left of the claim, either the claim is "
        "generous or the attack is weak. If all claims are true, at most one audit in a thousand "
        "has a point beyond a claim."
    )


def _row(axes: Axes, position: int, attacks: Sequence[AuditResult]) -> None:
    claimed = max(result.claimed_epsilon for result in attacks)
    axes.barh(position, claimed, height=0.78, color="0.94", zorder=1)
    axes.plot([claimed] * 2, [position - 0.39, position + 0.39], color="black", zorder=3)
    for order, result in enumerate(attacks):
        _, marker, colour = _kind(result)
        height = position + _SPREAD * (order - (len(attacks) - 1) / 2)
        point = [result.measured_epsilon], [height]
        axes.plot(*point, marker, color=colour, markersize=6, zorder=4)


def _kind(result: AuditResult) -> tuple[str, str, str]:
    if not result.survives:
        return _BROKEN
    return _CURVE if result.method == "Gaussian curve" else _RATES


@click.command(cls=Command, name="tracing")
@click.argument("mechanism", type=click.Choice(("all", *TRACED)), metavar="MECHANISM|all")
@click.option(
    "--records", "n_records", type=INTEGER, default=100_000, show_default=True, metavar="N"
)
@click.option("--features", "n_features", type=INTEGER, default=20, show_default=True, metavar="D")
@click.option(
    "--row-sparsity",
    type=INTEGER,
    default=5,
    show_default=True,
    metavar="K",
    help="Features of a block, within which all covariances are unknown.",
)
@click.option(
    "--target-error",
    type=NUMBER,
    default=LARGEST_ERROR,
    show_default=True,
    metavar="A",
    help="Error of an accurate estimate, in operator norm; variances are about 1.",
)
@click.option("--epsilon", type=NUMBER, default=1.0, show_default=True, metavar="E")
@click.option(
    "--runs",
    type=INTEGER,
    default=16,
    show_default=True,
    metavar="N",
    help="Runs, each with a covariance and records of its own.",
)
@click.option(
    "--sizes",
    default="50,200,1000",
    show_default=True,
    metavar="D,D,...",
    help="Numbers of features for which needed records are predicted; '' for none.",
)
@SEED
@JSON
@click.pass_context
def tracing(
    ctx: click.Context,
    /,
    mechanism: str,
    n_records: int,
    n_features: int,
    row_sparsity: int,
    target_error: float,
    epsilon: float,
    runs: int,
    sizes: str,
    seed: int,
    as_json: bool,
) -> None:
    """Trace the records of an estimate, beside what any private one must leak.

    A statistic of the covariance, a record and an estimate is large for records that the estimate
    was made from. Privacy bounds its sum over all records from above, accuracy from below. The
    two give a number of records that every private estimate needs (docs/proofs/lower_bound.md), and
    the second table says how many each mechanism needs. delta is 1e-6. The exit code is 1 if a
    sum is surely larger than privacy allows.

    \b
    Examples:
      hushcov audit tracing all
      hushcov audit tracing gaussian --epsilon 0.1 --sizes ''
    """
    model = BlockModel(n_features, row_sparsity, target_error)
    tables = [INTEGER.convert(each, None, ctx) for each in sizes.split(",") if each.strip()]
    for size in tables:
        BlockModel(size, row_sparsity, target_error)
    names = TRACED if mechanism == "all" else (mechanism,)
    results: list[Tracing] = []
    needed: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    with steps(runs * len(names) + predicted_rows() * len(tables)) as step:
        for name in names:
            try:
                each = trace(
                    name,
                    model,
                    n_records,
                    epsilon,
                    runs=runs,
                    seed=seed,
                    alarm_rate=ALARM_RATE / len(TRACED),
                    progress=step,
                )
                results.append(each)
            except HushcovError as error:
                if mechanism != "all" or isinstance(error, ParameterError):
                    raise
                refused[name] = str(error)
        for size in tables:
            needed += needed_records(size, row_sparsity, target_error, epsilon, step)
    survive = all(result.survives for result in results)
    if as_json:
        summary: dict[str, Any] = {"survive": survive, "seed": seed, "alarm_rate": ALARM_RATE}
        summary |= {"n_records": n_records, "epsilon": epsilon, "delta": DELTA} | asdict(model)
        summary |= {"unknown": model.dimension, "traced": [each.to_dict() for each in results]}
        summary |= {"refused": refused, "needed": needed}
        click.echo(json.dumps(summary, indent=1, allow_nan=False))
    else:
        _print_tracing(model, results, refused, needed)
    ctx.exit(0 if survive else CHECK_FAILED)


command.commands.update(tracing=tracing)


def _print_tracing(
    model: BlockModel,
    results: Sequence[Tracing],
    refused: Mapping[str, str],
    needed: Sequence[Mapping[str, Any]],
) -> None:
    out = console()
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    for title in ("difference", "sum", "allowed", "forced", "error"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in results:
        table.add_row(
            Text(each.mechanism, style="" if each.survives else "bold red"),
            f"{each.difference:.1e} ± {each.difference_error:.0e}",
            f"{each.total:.1f} ± {each.total_error:.1f}",
            *("-" if bound is None else number(bound, 3) for bound in (each.allowed, each.forced)),
            f"{each.mean_error:.3f}",
        )
    show(out, table)
    for name, why in refused.items():
        paragraph(out, f"{name} was skipped: {why}")
    broken = [each.mechanism for each in results if not each.survives]
    said = f"{', '.join(broken)}: more than privacy allows" if broken else "every claim survives"
    if all(each.allowed is None for each in results):
        said = "nothing is claimed"
    heading(out, f"{counted(model.dimension, 'unknown number')} in the blocks; {said}.")
    paragraph(
        out,
        "Difference: mean of the statistic over records of the estimate less that over others. "
        "Sum: over all records of the estimate; without bias it is the number of unknowns. Both "
        "with standard errors. Allowed: the most that privacy allows. Forced: the least that "
        "accuracy forces, where 15 of 16 runs are within the target error.",
    )
    if not needed:
        return
    table = plain_table()
    table.add_column("features", justify="right")
    table.add_column("mechanism", no_wrap=True)
    for title in ("records needed", "lower bound", "ratio"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in needed:
        there = row["records"] is not None
        table.add_row(
            f"{row['n_features']:,}",
            row["mechanism"],
            f"{row['records']:,}" if there else "-",
            f"{row['least']:,.0f}",
            f"{row['ratio']:,.0f}" if there else "-",
        )
    show(out, table)
    paragraph(
        out,
        "Records needed: predicted for blocks of correlation 1/2, roughly for multiscale. Lower "
        "bound: of any private estimate, blocks known; it leaves out what is needed without "
        "privacy, too.",
    )


@click.command(cls=Command, name="replay")
@click.option(
    "--pairs", type=INTEGER, default=200, show_default=True, metavar="N", help="Pairs of tables."
)
@click.option(
    "--way",
    "ways",
    type=click.Choice(tuple(WAYS)),
    multiple=True,
    help="How records come in; may be repeated.  [default: all]",
)
@SEED
@JSON
@click.pass_context
def replay(
    ctx: click.Context, /, pairs: int, ways: tuple[str, ...], seed: int, as_json: bool
) -> None:
    """Replay fits on neighbours, with noise that leads to the same released numbers.

    Two tables differ in one record, or in one unit, as odd as they come. A fit is written down on
    the one, and replayed on the other with what noise is left to the same noisy numbers. Everything
    that can be seen must then be equal: steps, charges, passes, warnings, files, attributes. No
    exact number may move by more than was charged for it. The exit code is 1 if something else is
    found.

    \b
    Examples:
      hushcov audit replay
      hushcov audit replay --pairs 10000
      hushcov audit replay --way csv --way parquet
    """
    with steps(pairs) as step:
        tally = replay_pairs(pairs, seed, ways or tuple(WAYS), step)
    if as_json:
        summary: dict[str, Any] = {"survive": not tally.findings, "seed": seed, "pairs": pairs}
        names = ("mechanism", "way", "neighbours")
        counts = [
            dict(zip(names, key, strict=True)) | {"pairs": n} for key, n in tally.pairs.items()
        ]
        summary |= {"refused": tally.refused, "counts": counts, "moved": tally.shares}
        summary["findings"] = [asdict(case) | {"found": what} for case, what in tally.findings]
        click.echo(json.dumps(summary, indent=1))
    else:
        _print_replay(tally)
    ctx.exit(CHECK_FAILED if tally.findings else 0)


command.commands.update(replay=replay)


def _print_replay(tally: Tally) -> None:
    out = console()
    kinds = ("Gaussian sums", "Laplace sums", "selections", "directions")
    mechanisms, ways, whose = (Counter[str]() for _ in range(3))
    for key, n in tally.pairs.items():
        for counts, name in zip((mechanisms, ways, whose), key, strict=True):
            counts[name] += n
    table = plain_table()
    table.add_column("mechanism", no_wrap=True)
    for title in ("pairs", *kinds):
        table.add_column(title, justify="right")
    for name, n in mechanisms.items():
        shares = tally.shares[name]
        moved = (f"{shares[kind]:.3f}" if kind in shares else "-" for kind in kinds)
        table.add_row(name, f"{n:,}", *moved)
    show(out, table)
    for title, counts in (("Ways in", ways), ("Neighbours", whose)):
        heading(out, title)
        facts(out, [(name, f"{n:,}") for name, n in counts.most_common()])
    found = counted(len(tally.findings), "finding") if tally.findings else "nothing was found"
    heading(out, f"{counted(mechanisms.total(), 'pair')}: {found}.")
    for case, what in tally.findings[:20]:
        paragraph(out, f"{what} ({case})")
    paragraph(
        out,
        "Moved at most, over what was charged: 1 is all of it. In "
        f"{counted(tally.refused, 'pair')} the odd record was refused, without a value and in "
        "words that do not depend on other records.",
    )


@click.command(cls=Command, name="foreign")
@click.argument("mechanism", type=click.Choice(("all", *audited())), metavar="MECHANISM|all")
@click.option(
    "--runs",
    type=INTEGER,
    default=FOREIGN_RUNS,
    show_default=True,
    metavar="N",
    help="Runs on each of two neighbouring datasets; a third or a fifth where a mechanism is slow.",
)
@SEED
@JSON
@click.pass_context
def foreign(ctx: click.Context, /, mechanism: str, runs: int, seed: int, as_json: bool) -> None:
    """Put the testers of DP Auditorium and dp-recorder, built anew, to the mechanisms.

    Each bounds a divergence between the outputs on two neighbouring datasets from below, by a
    network or a rule that is fitted to half of them. A bound above what the claim allows proves the
    claim wrong. 'all' are the default mechanism, its looks, candidates, gaussian and genotypes. The
    last column is a control: with how many releases of which one is charged a tester rejects. The
    exit code is 1 if a claim is rejected.

    \b
    Examples:
      hushcov audit foreign all
      hushcov audit foreign gaussian --runs 4000
    """
    names = FOREIGN if mechanism == "all" else (mechanism,)
    attacks = {name: attacks_on(name) for name in names}
    found: list[tuple[str, str, tuple[Finding, ...]]] = []
    with steps(sum(map(len, attacks.values())) * BATCHES) as step:
        for name, on_name in attacks.items():
            rate = ALARM_RATE / len(FOREIGN) / len(on_name)
            for each in on_name:
                found.append((name, each.name, examine_attack(each, runs, rate, seed, step)))
    survive = not any(finding.rejects for *_, findings in found for finding in findings)
    if as_json:
        summary = {"survive": survive, "seed": seed, "runs": runs, "alarm_rate": ALARM_RATE}
        rows = [
            {"mechanism": name, "pair": pair} | finding.to_dict()
            for name, pair, findings in found
            for finding in findings
        ]
        click.echo(json.dumps(summary | {"findings": rows}, indent=1, allow_nan=False))
    else:
        _print_foreign(found)
    ctx.exit(0 if survive else CHECK_FAILED)


command.commands.update(foreign=foreign)


def _print_foreign(found: Sequence[tuple[str, str, tuple[Finding, ...]]]) -> None:
    out = console()
    table = plain_table()
    table.add_column("mechanism, pair and tester", no_wrap=True)
    for title in ("estimate", "at least", "allowed"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("control", justify="right", no_wrap=True)
    rejected = 0
    for name, pair, findings in found:
        table.add_row(Text(f"{name}: {pair}", style="bold"))
        for each in findings:
            rejected += each.rejects
            table.add_row(
                f"  {each.tester}",
                *(f"{value:.3f}" for value in (each.estimate, each.lower, each.allowed)),
                Text("REJECTED", style="bold red") if each.rejects else Text("passes", "green"),
                "-" if each.seen is None else str(each.seen),
            )
    show(out, table)
    n_tests = sum(len(findings) for *_, findings in found)
    said = f"{rejected} of them rejected a claim" if rejected else "no claim is rejected"
    heading(out, f"{counted(n_tests, 'test')}: {said}.")
    paragraph(
        out,
        "At least: a lower bound on the divergence. If every claim is true, at most one audit in a "
        "thousand rejects one. Control: so many releases of which one is charged are rejected (4 "
        "are noise that is too small by half); - if 16 are not: then this tester shows nothing "
        "here.",
    )
