"""`hushcov fit`: say what will be released, then release it, or refuse."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from hushcov.cli.folders import reserved
from hushcov.cli.options import INTEGER, Command, public_inputs
from hushcov.cli.output import console, count, facts, heading, number, paragraph
from hushcov.cli.progress import watched
from hushcov.cli.words import accuracy_verdict, privacy_promise, privacy_verdict
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import DataError, PrivacyConditionError
from hushcov.mechanisms.multiscale import TheoremParameters, certify
from hushcov.mechanisms.release import Release
from hushcov.records import Records, open_records


@click.command(cls=Command, name="fit")
@click.argument("file", metavar="FILE.npy", type=click.Path(path_type=Path))
@public_inputs
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
def command(
    file: Path,
    not_centered: bool,
    n_records: int | None,
    n_features: int | None,
    output: Path | None,
    as_json: bool,
    **public: Any,
) -> None:
    """Release the covariance of the records in FILE.npy under differential privacy.

    FILE.npy holds one record a row (numpy.save). Says first what will be released, under which
    guarantee and from which public inputs. The constants are those of the paper's theorem, which
    need 1e9 records and more: fewer are refused, and nothing is released.

    \b
    Example:
      hushcov fit patients.npy --epsilon 1 --delta 1e-6 --row-sparsity 5 --scale 1
    """
    records = _open(file, n_records, n_features)
    folder = output if output is not None else Path(f"{file.stem}-release")
    estimator = MultiscaleCovariance(
        **public, assume_centered=not not_centered, store_precision=False
    )
    out = console(stderr=as_json)
    parameters = _announce(out, file, folder, records, estimator)
    started = time.perf_counter()
    with reserved(folder):
        with watched(records, f"drawing {count(sum(parameters.candidates))} tests") as rows:
            release = estimator.fit(rows).release_
        release.write(folder)
    _summarise(out, folder, release, time.perf_counter() - started)
    if as_json:
        click.echo(json.dumps(_as_json(file, folder, records, release), indent=1))


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


def _announce(
    out: Console, file: Path, folder: Path, records: Records, estimator: MultiscaleCovariance
) -> TheoremParameters:
    """Say what is about to happen, and check the privacy condition before any record is read."""
    n, d = records.n_records, records.n_features
    used = n if estimator.assume_centered else n // 2
    parameters = estimator.public_parameters(max(used, 1), d)
    inputs = parameters.inputs
    heading(out, "What will be released")
    facts(
        out,
        (
            ("from", f"{file}: {n:,} records of {d:,} features" + _pairs(n, estimator)),
            ("release", f"a {d:,} x {d:,} covariance estimate: integers and one public unit"),
            ("mechanism", f"multiscale threshold tests, {estimator.constants} constants"),
            ("guarantee", privacy_promise(inputs.epsilon, inputs.delta)),
            ("private?", privacy_verdict(parameters)),
            ("accurate?", accuracy_verdict(parameters)),
            ("public inputs", _public_inputs(parameters)),
            ("into", f"{folder}/"),
        ),
    )
    try:
        certify(parameters, private=True, exact_statistic=False)
    except PrivacyConditionError as error:
        if estimator.assume_centered:
            raise
        raise PrivacyConditionError(
            f"{error} Here n_records counts pairs of records, because of --not-centered.",
            error.smallest_private_n,
        ) from None
    return parameters


def _pairs(n: int, estimator: MultiscaleCovariance) -> str:
    return "" if estimator.assume_centered else f", used as {n // 2:,} differences of pairs"


def _public_inputs(parameters: TheoremParameters) -> str:
    inputs = parameters.inputs
    return (
        f"the size of the data, epsilon {number(inputs.epsilon)}, delta {number(inputs.delta)}, "
        f"row_sparsity {inputs.row_sparsity}, scale {number(inputs.scale)}, target_error "
        f"{number(inputs.target_error)}, failure_probability {number(inputs.failure_probability)}"
    )


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


def _as_json(file: Path, folder: Path, records: Records, release: Release) -> dict[str, object]:
    return {
        "file": str(file),
        "n_records": records.n_records,
        "n_features": records.n_features,
        "output": str(folder),
        "nonzero_pairs": _nonzero_pairs(release),
        "mechanism": release.mechanism,
        "unit": release.unit,
        "guarantee": release.guarantee.to_dict(),
        "parameters": dict(release.parameters),
    }
