"""`hushcov fit` of genotypes: linkage disequilibrium within windows of variants."""

from __future__ import annotations

import warnings
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
from hushcov._words import memory, number
from hushcov.accounting import ADD_REMOVE, RELATIONS, REPLACE, Guarantee
from hushcov.accounting.guarantee import promise_words
from hushcov.cli.files import read_signing_key, refuse_taken, stem_of
from hushcov.cli.fit_source import Source
from hushcov.cli.fit_units import check_columns
from hushcov.cli.fitting import Job
from hushcov.cli.options import INTEGER
from hushcov.cli.output import console, facts, heading, watched_variants
from hushcov.exceptions import AccuracyWarning, DataError, ParameterError, PrivacyWarning
from hushcov.genotypes import NAME, GenotypePlan
from hushcov.genotypes.estimator import CountedGenotypes, GenotypeCovariance
from hushcov.genotypes.reading import GenotypeRecords
from hushcov.planning import Caution
from hushcov.release import Making
from hushcov.steps.counting import Counted
from hushcov.tables.sources import DeclaredRecords

# Options that mean something for genotypes; of `hushcov fit`, beside those of its output.
_KNOWN = ("epsilon", "delta", "bandwidth", "candidate_pairs", "window_bp", "frequencies")
_MEANT = (*_KNOWN, "neighbours", "ledger", "dataset")
_OTHERS = (
    *("file", "mechanism", "header", "n_records", "n_features", "output", "sign", "tables"),
    *("force", "allow_large_delta"),
)
_REASON = (
    "every record is one person, and means, scales and bounds are known from allele frequencies."
)
_REASONS = {
    "columns": "all variants of a file are read. Write one with these alone.",
    "device": "they are summed on the processor, two bits each.",
    "psd": "the projection fills in zeros. 'hushcov export' makes a matrix positive semidefinite.",
}
#: Options that only genotypes have.
OWN = ("window_bp", "frequencies")


def genotype_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what may be known of genotypes."""
    window = click.option(
        "--window-bp",
        type=INTEGER,
        metavar="BP",
        help="Genotypes: pairs of variants at most so many base pairs apart are released.",
    )
    frequencies = click.option(
        "--frequencies",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.npy",
        help="Genotypes: public frequencies of the counted allele, one for each variant. Without "
        "it they are estimated from a part of the budget.",
    )
    return window(frequencies(function))


def takes_genotypes(options: dict[str, Any]) -> bool:
    """Whether genotypes are to be read: by a PLINK file, or because that was said."""
    mechanism, plink = options["mechanism"], Path(options["file"]).suffix == ".bed"
    if plink and mechanism not in ("auto", NAME):
        raise ParameterError(
            f"--mechanism must be auto or {NAME} for a PLINK file, got {mechanism}: genotypes are "
            "read by variants, and no other mechanism does."
        )
    found = bool(plink or mechanism == NAME)
    for name in OWN:
        if not found and options[name] is not None:
            raise ParameterError(
                f"{_option(name)} must be left out without genotypes: pass --mechanism {NAME} for "
                "a table of them."
            )
    return found


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class GenotypeJob(Job):
    """Covariances of genotypes within windows."""

    estimator: GenotypeCovariance
    plan: GenotypePlan
    counted: CountedGenotypes | None = None

    @classmethod
    def prepare(cls, *, dry_run: bool, out: Console | None = None, **options: Any) -> GenotypeJob:
        """Settle every public number of the release; no record is read.

        Where the number of records is not public, it is released first.
        """
        _refuse_others(options)
        known = {name: options[name] for name in _MEANT if options[name] is not None}
        if "frequencies" in known:
            known["frequencies"] = _read_frequencies(known["frequencies"])
        known |= {"on_hopeless": "warn"} if options["force"] else {}
        known |= {"on_large_delta": "warn"} if options["allow_large_delta"] else {}
        estimator, file = GenotypeCovariance(**known), options["file"]
        key = read_signing_key(options["sign"])
        output = options["output"]
        folder = output if output is not None else Path(f"{stem_of(file)}-release")
        refuse_taken(folder)
        counts, told = estimator.neighbours == ADD_REMOVE, options["n_records"]
        others = dict.fromkeys(("unit", "weight", "scheduler"))
        check_columns(**others, counts=counts, n_records=told, dry_run=dry_run)
        records = estimator.open(file)
        _check_size(file, records, options, counts=counts)
        if dry_run and counts:
            plan, found = estimator.fit_plan(told, records.n_features), None
        else:
            found = _counted(estimator, records, (out or console()) if counts else None)
            plan = found.plan
        # The exact number of records goes no further, unless it is public.
        size = plan.parameters.inputs
        sized = DeclaredRecords(size.n_records, size.n_features, records.feature_names)
        about: dict[str, Any] = {"key": key, "tables": options["tables"], "about": counts}
        source = Source(file, folder, sized, known_mean=True, **about)
        return cls(source, estimator, plan, found)

    @property
    def _found(self) -> Counted | None:
        return None if self.counted is None else self.counted.counted

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Return what `fit` warns of or refuses."""
        return self.estimator.cautions(self.plan)

    @property
    def spent_before(self) -> str:
        """See `Job.spent_before`."""
        found = self._found
        return "" if found is None else number(found.guarantee.epsilon)

    def announcement(self) -> list[tuple[str, str]]:
        """Describe the release to come: its mechanism, and the error to expect."""
        inputs, d = self.plan.parameters.inputs, self.plan.parameters.inputs.n_features
        to_whom = RELATIONS[inputs.neighbours.relation], inputs.neighbours.unit
        public = "" if inputs.neighbours.relation == REPLACE else "the number of variants, "
        public = public or "the size of the data, "
        known = "" if self.plan.frequencies is None else ", allele frequencies"
        found = self._found
        counted = [] if found is None else [("counted", _counted_words(found))]
        return [
            ("release", f"{d:,} x {d:,} covariance of genotypes within windows, sparse"),
            ("guarantee", promise_words(self.certify().epsilon, inputs.delta, *to_whom)),
            ("", "It holds whatever the records are. Relatives are not protected together."),
            *counted,
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
        return {"mechanism": NAME, "plan": self.plan.to_dict(), "warnings": sentences}

    @contextmanager
    def watched(self) -> Iterator[Any]:
        """A bar that goes along the variants."""
        with watched_variants(self.source.records.n_features) as advance:
            yield advance

    def _run(self, records: Any) -> None:
        assert self.counted is not None
        self.estimator.fit_counted(self.counted, records)


def _refuse_others(options: dict[str, Any]) -> None:
    """Refuse options that would not change anything."""
    for name, value in options.items():
        if name not in (*_MEANT, *_OTHERS) and value not in (None, False, ()):
            raise ParameterError(
                f"{_option(name)} must be left out with genotypes: {_REASONS.get(name, _REASON)}"
            )


def _check_size(
    file: Path, records: GenotypeRecords, options: dict[str, Any], *, counts: bool
) -> None:
    sizes = [("n_features", "--features", records.n_features)]
    sizes += [] if counts else [("n_records", "--records", records.n_records)]
    for name, option, found in sizes:
        if options[name] not in (None, found):
            raise DataError(
                f"{option} must be what {file} holds, {found:,}, got {options[name]:,}: check that "
                f"this is the right file, or leave {option} out. No record was read."
            )


def _read_frequencies(path: Path) -> FloatArray:
    """Numbers of a .npy file; that they are frequencies is checked with the others."""
    with os_errors(path, "read", ParameterError):
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
        except ValueError:
            raise ParameterError(
                f"{path} must be a .npy file of numbers, one for each variant: write it by "
                "numpy.save."
            ) from None


def _counted(
    estimator: GenotypeCovariance, records: GenotypeRecords, out: Console | None
) -> CountedGenotypes:
    """Count the persons privately, and print what is released for it to `out`."""
    if out is not None:
        _say_count(out, estimator)
    with warnings.catch_warnings():
        for category in (AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", category)
        return estimator.count(records)


def _say_count(out: Console, estimator: GenotypeCovariance) -> None:
    counting = estimator.counting
    found = f"epsilon {number(counting.count_epsilon)} of {number(counting.epsilon)}"
    heading(out, "The number of records is not public")
    facts(out, [("first", f"it is released with noise, which spends {found}")])


def _counted_words(found: Counted) -> str:
    return Making(counted=found.to_dict()).counted_words or ""
