"""`hushcov plan --mechanism genotypes`: the noise of correlations, by the number of records."""

from __future__ import annotations

from typing import Any

import click

from hushcov._words import counted, memory, number
from hushcov.accounting import REPLACE
from hushcov.cli.output import console, echo_json, facts, heading, show, text_table
from hushcov.estimators import GenotypeCovariance
from hushcov.genotypes import NAME, GenotypePlan

_RECORDS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
_KNOWN = ("epsilon", "delta", "bandwidth", "candidate_pairs", "neighbours")
_TITLES = ("records", "noise of r", "smallest r found", "memory")


def plan_genotypes(
    n_features: int, n_records: tuple[int, ...], as_json: bool, public: dict[str, Any]
) -> None:
    """Say what noise correlations would have; options that mean nothing are refused."""
    known = {name: public.pop(name) for name in _KNOWN if name in public}
    for name, value in public.items():
        if value not in (None, False, ()):
            option = f"--{name.replace('_', '-')}"
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
