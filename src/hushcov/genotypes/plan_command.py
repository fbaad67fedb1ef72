"""`hushcov plan --mechanism genotypes`: the noise of correlations, by the number of records."""

from __future__ import annotations

from typing import Any

import click

from hushcov._words import counted, memory, number
from hushcov.accounting import REPLACE
from hushcov.cli.output import console, echo_json, facts, heading, show, text_table
from hushcov.exceptions import ParameterError
from hushcov.genotypes import NAME, GenotypePlan
from hushcov.genotypes.estimator import GenotypeCovariance

_RECORDS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
_KNOWN = ("epsilon", "delta", "bandwidth", "candidate_pairs", "neighbours")
_TITLES = ("records", "noise of r", "smallest r found", "memory")


def plan(
    n_features: int, n_records: tuple[int, ...], as_json: bool, options: dict[str, Any]
) -> None:
    """Say what noise correlations would have; options that mean nothing are refused."""
    known = {name: options[name] for name in _KNOWN}
    if isinstance(known["bandwidth"], str):
        raise ParameterError(
            f"bandwidth must be a number of columns in a plan, got {known['bandwidth']}: where "
            "variants lie is known from their file."
        )
    others = dict(options, mechanisms=options["mechanisms"][1:], n_features=None)
    for param in click.get_current_context().command.params:
        given = others.get(str(param.name)) not in (None, False, ())
        if given and param.name not in _KNOWN:
            option = max(param.opts, key=len)
            raise click.UsageError(f"{option} means nothing with --mechanism {NAME}: leave it out.")
    known["neighbours"] = known["neighbours"] or REPLACE
    estimator = GenotypeCovariance(**known)
    plans = [estimator.fit_plan(n, n_features) for n in sorted(set(n_records or _RECORDS))]
    if as_json:
        echo_json({"mechanism": NAME, "plans": [plan.to_dict() for plan in plans]})
        return
    out, windows = console(), plans[0].parameters.candidates
    heading(
        out,
        f"Genotypes at {counted(n_features, 'variant')}, {windows.words}: {windows.n_pairs:,} "
        "pairs",
    )
    show(out, text_table(_TITLES, map(_row, plans)))
    if len(plans) == 1:
        heading(out, "Design")
        facts(out, plans[0].facts())


def _row(plan: GenotypePlan) -> tuple[str, ...]:
    limit = plan.detection_limit
    found = "none" if limit >= 1 else number(limit, 2)
    n = plan.parameters.inputs.n_records
    return f"{n:,}", number(plan.noise, 2), found, memory(plan.memory)
