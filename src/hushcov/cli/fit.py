"""`hushcov fit`: say what will be released and what to expect of it, then release it, or refuse."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from rich.console import Console

from hushcov.cli.folders import reserved
from hushcov.cli.options import INTEGER, Command, public_inputs
from hushcov.cli.output import console, count, facts, heading, number, paragraph
from hushcov.cli.progress import busy, watched
from hushcov.cli.words import accuracy_verdict, expected_errors, privacy_promise, privacy_verdict
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import AccuracyWarning, DataError, ParameterError, PrivacyConditionError
from hushcov.mechanisms.multiscale import (
    RECONSTRUCTIONS,
    CalibratedParameters,
    Parameters,
    TheoremParameters,
    certify,
)
from hushcov.mechanisms.release import Release
from hushcov.planning import MultiscalePlan, plan_multiscale
from hushcov.records import PairDifferences, Records, open_records

_DEFAULT_RECONSTRUCTION = {"theorem": "gate", "calibrated": "value"}
_THEOREM_ONLY = ("target_error", "failure_probability")


@dataclass(frozen=True)
class _Job:
    """What is settled before any record is read."""

    file: Path
    folder: Path
    records: Records
    estimator: MultiscaleCovariance
    chosen: TheoremParameters | MultiscalePlan  # a plan if the constants are calibrated

    @property
    def parameters(self) -> Parameters:
        return self.chosen.parameters if isinstance(self.chosen, MultiscalePlan) else self.chosen


@click.command(cls=Command, name="fit")
@click.argument("file", metavar="FILE.npy", type=click.Path(path_type=Path))
@public_inputs
@click.option(
    "--constants",
    type=click.Choice(tuple(_DEFAULT_RECONSTRUCTION)),
    default="calibrated",
    show_default=True,
    help="Where the mechanism's numbers come from: chosen for this size of data, or the paper's "
    "theorem, which refuses fewer than 1e9 records or more.",
)
@click.option(
    "--reconstruction",
    type=click.Choice(RECONSTRUCTIONS),
    help="What is read from the protected tests: whether they fired, or their noisy values, which "
    "are more accurate.  [default: value; gate with theorem constants]",
)
@click.option(
    "--not-centered",
    is_flag=True,
    help="The records' mean is not known to be zero: use differences of successive records, "
    "which halves their number.",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    metavar="N",
    help="Declared number of records; a file with another number is refused.",
)
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    metavar="D",
    help="Declared number of features; a file with another number is refused.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the release is written.  [default: FILE-release]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, the rest on standard error."
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: Path,
    constants: str,
    reconstruction: str | None,
    not_centered: bool,
    n_records: int | None,
    n_features: int | None,
    output: Path | None,
    as_json: bool,
    **public: Any,
) -> None:
    """Release the covariance of the records in FILE.npy under differential privacy.

    FILE.npy holds one record a row (numpy.save). Says first what will be released, under which
    guarantee, from which public inputs and with which error to expect.

    \b
    Example:
      hushcov fit patients.npy --epsilon 1 --delta 1e-6 --row-sparsity 5 --scale 1
    """
    _check_theorem_only(ctx, constants)
    records = _open(file, n_records, n_features)
    folder = output if output is not None else Path(f"{file.stem}-release")
    estimator = MultiscaleCovariance(
        **public,
        constants=constants,
        reconstruction=reconstruction or _DEFAULT_RECONSTRUCTION[constants],
        assume_centered=not not_centered,
        store_precision=False,
    )
    job = _prepare(file, folder, records, estimator)
    release = _run(console(stderr=as_json), job)
    if as_json:
        click.echo(json.dumps(_as_json(job, release), indent=1))


def _run(out: Console, job: _Job) -> Release:
    """Announce, release, write and summarise."""
    _announce(out, job)
    started = time.perf_counter()
    with reserved(job.folder):
        release = _fit(job)
        release.write(job.folder)
    _summarise(out, job.folder, release, time.perf_counter() - started)
    return release


def _check_theorem_only(ctx: click.Context, constants: str) -> None:
    """Refuse options that would not change anything."""
    for name in _THEOREM_ONLY:
        given = ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
        if given and constants != "theorem":
            raise ParameterError(
                f"{name} must be left out with --constants {constants}, got {ctx.params[name]}: "
                "the error is then made as small as it can be. Or use --constants theorem."
            )


def _open(file: Path, n_records: int | None, n_features: int | None) -> Records:
    """Open the file and hold its header against what was declared; no record is read."""
    with file.open("rb"):
        pass  # a file that cannot be opened is an OSError, not unusable records
    records = open_records(file)
    for option, declared, found in (
        ("--records", n_records, records.n_records),
        ("--features", n_features, records.n_features),
    ):
        if declared is not None and declared != found:
            raise DataError(
                f"{option} must be what {file} holds, {found:,}, got {declared:,}: check that "
                f"this is the right file, or leave {option} out. No record was read."
            )
    return records


def _prepare(file: Path, folder: Path, records: Records, estimator: MultiscaleCovariance) -> _Job:
    """Settle every public number of the release; no record is read."""
    used = records if estimator.assume_centered else PairDifferences(records)
    with busy("choosing the public numbers of the mechanism"):
        parameters = estimator.public_parameters(used.n_records, used.n_features)
        chosen = (
            plan_multiscale(parameters.inputs, parameters.reconstruction)
            if isinstance(parameters, CalibratedParameters)
            else parameters
        )
    return _Job(file, folder, records, estimator, chosen)


def _announce(out: Console, job: _Job) -> None:
    """Say what is about to happen, and check the privacy condition before any record is read."""
    estimator, inputs, d = job.estimator, job.parameters.inputs, job.records.n_features
    heading(out, "What will be released")
    facts(
        out,
        (
            ("from", _source(job)),
            ("release", f"a {d:,} x {d:,} covariance estimate: integers and one public unit"),
            (
                "mechanism",
                f"multiscale threshold tests, {estimator.constants} constants, "
                f"{estimator.reconstruction} reconstruction",
            ),
            ("guarantee", privacy_promise(inputs.epsilon, inputs.delta)),
            *_outlook(job.chosen),
            ("public inputs", _public_inputs(job.parameters)),
            ("into", f"{job.folder}/"),
        ),
    )
    if isinstance(job.chosen, MultiscalePlan):
        style = "bold red" if job.chosen.hopeless else ""
        paragraph(out, "\n" + job.chosen.advice, style=style)
    try:
        certify(job.parameters, private=True, exact_statistic=False)
    except PrivacyConditionError as error:
        raise PrivacyConditionError(str(error) + _advice(job), error.smallest_private_n) from None


def _advice(job: _Job) -> str:
    """What the command line adds to a refusal."""
    advice = ""
    if not job.estimator.assume_centered:
        advice += " Here n_records counts pairs of records, because of --not-centered."
    if job.estimator.constants == "theorem":
        advice += " Or use --constants calibrated, which is private at any number of records."
    return advice


def _source(job: _Job) -> str:
    n, d = job.records.n_records, job.records.n_features
    pairs = "" if job.estimator.assume_centered else f", used as {n // 2:,} differences of pairs"
    return f"{job.file}: {n:,} records of {d:,} features{pairs}"


def _outlook(chosen: TheoremParameters | MultiscalePlan) -> list[tuple[str, str]]:
    if isinstance(chosen, TheoremParameters):
        return [("private?", privacy_verdict(chosen)), ("accurate?", accuracy_verdict(chosen))]
    private = "yes, whatever the records are: the noise was chosen for this number of them."
    return [("private?", private), ("expected error", expected_errors(chosen))]


def _public_inputs(parameters: Parameters) -> str:
    inputs = asdict(parameters.inputs)
    names = ("epsilon", "delta", "row_sparsity", "scale", *_THEOREM_ONLY)
    values = (f"{name} {number(inputs[name])}" for name in names if name in inputs)
    return "the size of the data, " + ", ".join(values)


def _fit(job: _Job) -> Release:
    tests = sum(level.candidates for level in job.parameters.schedule.levels)
    with warnings.catch_warnings(), watched(job.records, f"drawing {count(tests)} tests") as rows:
        warnings.simplefilter("ignore", AccuracyWarning)  # the announcement has said it
        return job.estimator.fit(rows).release_


def _summarise(out: Console, folder: Path, release: Release, seconds: float) -> None:
    guarantee = release.guarantee
    heading(out, "Released")
    facts(
        out,
        (
            ("nonzero", f"{_nonzero_pairs(release):,} pairs of features"),
            (
                "spent",
                f"epsilon {number(guarantee.transcript_epsilon)} and delta "
                f"{number(guarantee.transcript_delta)} of what is promised; finite precision adds "
                f"at most {number(guarantee.numerical_delta)} to delta",
            ),
            ("time", f"{seconds:.1f} s"),
            ("written", f"{folder}/integers.npy, {folder}/release.json"),
        ),
    )
    paragraph(
        out,
        "The estimate is integers.npy times the unit in release.json. Whatever is computed from "
        "these files is covered by the guarantee; fitting the same records again spends again.",
    )


def _nonzero_pairs(release: Release) -> int:
    return int(np.count_nonzero(np.triu(release.integers, 1)))


def _as_json(job: _Job, release: Release) -> dict[str, object]:
    plan = job.chosen if isinstance(job.chosen, MultiscalePlan) else None
    return {
        "file": str(job.file),
        "n_records": job.records.n_records,
        "n_features": job.records.n_features,
        "output": str(job.folder),
        "nonzero_pairs": _nonzero_pairs(release),
        "mechanism": release.mechanism,
        "unit": release.unit,
        "predicted_error": None if plan is None else plan.predicted_error,
        "hopeless": None if plan is None else plan.hopeless,
        "guarantee": release.guarantee.to_dict(),
        "parameters": dict(release.parameters),
    }
