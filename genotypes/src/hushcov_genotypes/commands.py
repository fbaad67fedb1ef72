"""Genotypes on the command line: `hushcov fit`, and `hushcov plan --mechanism genotypes`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from hushcov._arrays import FloatArray
from hushcov._files import os_errors
from hushcov._words import counted, memory, number
from hushcov.cli.files import output_folder
from hushcov.cli.fitting import (
    Job,
    Settled,
    Source,
    check_count,
    check_size,
    quiet,
    say_count,
)
from hushcov.cli.options import BASE_PAIRS
from hushcov.cli.output import (
    console,
    echo_json,
    facts,
    heading,
    progress,
    show,
    text_table,
)
from hushcov.exceptions import ParameterError
from hushcov.fit import Caution
from hushcov.kernel.accounting import ONE_REPLACED, Guarantee, is_counted
from hushcov.options import ALLOWED, shared_by
from hushcov.promise import promise_words
from hushcov.release import Making
from hushcov.tables.sources import DeclaredRecords
from hushcov_genotypes.estimator import CountedGenotypes, GenotypeCovariance
from hushcov_genotypes.mechanism import NAME, GenotypeParameters
from hushcov_genotypes.slice import KNOWN


@dataclass(frozen=True)
class GenotypeJob(Job):
    """Covariances of genotypes within windows."""

    estimator: GenotypeCovariance
    plan: GenotypeParameters
    opened: CountedGenotypes | None = None

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Return what `fit` warns of or refuses."""
        return self.estimator.cautions(self.plan)

    def announcement(self) -> list[tuple[str, str]]:
        """Describe the release to come: its mechanism, and the error to expect."""
        inputs, d = self.plan.inputs, self.plan.inputs.n_features
        to_whom, replaced = inputs.neighbours.whom, inputs.neighbours.public_size
        public = "the size of the data, " if replaced else "the number of variants, "
        known = ", allele frequencies" * self.plan.known
        count = None if self.counted is None else Making(counted=self.counted.to_dict())
        return [
            ("release", f"{d:,} x {d:,} covariance of genotypes within windows, sparse"),
            ("guarantee", promise_words(self.certify().epsilon, inputs.delta, *to_whom)),
            ("", "It holds whatever the records are. Relatives are not protected together."),
            *([] if count is None else [("counted", count.counted_words or "")]),
            ("public inputs", f"{public}epsilon, delta, names and positions of variants{known}"),
            *self.plan.facts()[:-1],
            ("will find", f"correlations of {number(self.plan.detection_limit, 2)} and more"),
            ("memory", f"at most about {memory(self.plan.memory)} beside the program"),
        ]

    def certify(self) -> Guarantee:
        """Return what `fit` will charge."""
        return self.estimator.certified(self.plan)

    def expected(self) -> dict[str, object]:
        """See `Job.expected`."""
        sentences = [caution.sentence for caution in self.cautions]
        return {"mechanism": NAME, "plan": self.plan.expected(), "warnings": sentences}

    @contextmanager
    def watched(self) -> Iterator[Any]:
        """Yield a function to call with how many more variants are done, under a progress bar."""
        done = 0

        def advance(variants: int) -> None:
            nonlocal done
            done += variants
            tell("reading variants", done)

        with progress(self.source.records.n_features) as tell:
            advance(0)
            yield advance

    def fit(self, records: Any) -> None:
        """Run the mechanism."""
        assert self.opened is not None
        self.estimator._fit_counted(self.opened, records)


def prepare(
    options: dict[str, Any], settle: Callable[[], Settled], out: Console | None
) -> GenotypeJob:
    """Settle every public number of the release; no record is read.

    Where the number of records is not public, it is released first.
    """
    known = {name: options[name] for name in KNOWN if options[name] is not None}
    known |= {name: options[name] for name in shared_by(GenotypeCovariance)}
    known |= {ALLOWED[each]: "warn" for each in options["allow"]}
    if str(known.get("bandwidth")).endswith(BASE_PAIRS):
        known["window_bp"] = int(known.pop("bandwidth").removesuffix(BASE_PAIRS))
    if "frequencies" in known:
        known["frequencies"] = _read_frequencies(known["frequencies"])
    estimator, file = GenotypeCovariance(**known), options["file"]
    folder = output_folder(file, options["output"])
    counts, guess = is_counted(estimator.neighbours), options["n_records"]
    check_count(counts=counts, n_records=guess, dry_run=options["dry_run"])
    records = estimator.open(file)
    check_size(file, records, None if counts else guess)
    if options["dry_run"] and counts:
        plan, found = estimator._fit_plan(guess, records.n_features), None
    else:
        if counts:
            say_count(out or console(), estimator.counting)
        with quiet():
            found = estimator._count(records)
        plan = found.plan
    # The exact number of records goes no further, unless it is public.
    size = plan.inputs
    sized = DeclaredRecords(size.n_records, size.n_features, records.feature_names)
    source = Source(file, folder, sized, known_mean=True, about=counts)
    return GenotypeJob(source, estimator, plan, opened=found)


def _read_frequencies(path: Path) -> FloatArray:
    """Read numbers of a .npy file; that they are frequencies is checked with the others."""
    with os_errors(path, "read", ParameterError):
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        except ValueError:
            raise ParameterError(
                f"{path} must be a .npy file of numbers, one for each variant: write it by "
                "numpy.save."
            ) from None


_RECORDS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000)
_PLANNED = ("epsilon", "delta", "bandwidth", "candidate_pairs", "neighbours")
_TITLES = ("records", "noise of r", "smallest r found", "memory")


def plan(
    n_features: int, n_records: tuple[int, ...], as_json: bool, options: dict[str, Any]
) -> None:
    """Say what noise correlations would have; options that mean nothing are refused."""
    known = {name: options[name] for name in _PLANNED}
    if isinstance(known["bandwidth"], str):
        raise ParameterError(
            f"bandwidth must be a number of columns in a plan, got {known['bandwidth']}: where "
            "variants lie is known from their file."
        )
    others = dict(options, mechanisms=options["mechanisms"][1:], n_features=None)
    for param in click.get_current_context().command.params:
        usual = getattr(param, "flag_value", None) is False  # where a flag says no
        given = others.get(str(param.name)) not in (None, usual, ())
        if given and param.name not in _PLANNED:
            option = max(param.opts, key=len)
            raise click.UsageError(f"{option} means nothing with --mechanism {NAME}: leave it out.")
    known["neighbours"] = known["neighbours"] or ONE_REPLACED.relation
    estimator = GenotypeCovariance(**known)
    plans = [estimator._fit_plan(n, n_features) for n in sorted(set(n_records or _RECORDS))]
    if as_json:
        echo_json({"mechanism": NAME, "plans": [plan.expected() for plan in plans]})
        return
    out, windows = console(), plans[0].candidates
    heading(
        out,
        f"Genotypes at {counted(n_features, 'variant')}, {windows.words}: {windows.n_pairs:,} "
        "pairs",
    )
    rows = []
    for each in plans:
        found = "none" if each.detection_limit >= 1 else number(each.detection_limit, 2)
        rows.append(
            (f"{each.inputs.n_records:,}", number(each.noise, 2), found, memory(each.memory))
        )
    show(out, text_table(_TITLES, rows))
    if len(plans) == 1:
        heading(out, "Design")
        facts(out, plans[0].facts())
