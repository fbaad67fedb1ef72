"""What `hushcov demo` says at each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

from hushcov.cli.output import exact, facts, heading, number, paragraph, show
from hushcov.cli.words import privacy_promise
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import PrivacyConditionError
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.mechanisms.release import Release
from hushcov.metrics import operator_norm_error
from hushcov.report.backend import MissingFiguresError
from hushcov.report.heatmap import write_heatmap
from hushcov.simulate import gaussian_records

FloatArray = npt.NDArray[np.float64]

ORDINARY_RECORDS = 10_000


def tell_simulation(
    out: Console, parameters: TheoremParameters, model: str, truth: FloatArray
) -> None:
    """Say what the data is."""
    inputs = parameters.inputs
    pairs = np.count_nonzero(np.triu(truth, 1))
    heading(out, "1. The data: simulated, nobody's")
    paragraph(
        out,
        f"A covariance of {inputs.n_features:,} features is chosen (model: {model}). It is sparse: "
        f"at most {inputs.row_sparsity} nonzeros in a row, so {pairs:,} related pairs of features "
        f"among {inputs.n_features * (inputs.n_features - 1) // 2:,}. Its largest eigenvalue is 1. "
        f"Of this the mechanism is told the {inputs.row_sparsity} and the 1. The second moments of "
        f"{exact(inputs.n_records)} Gaussian records are drawn from their exact law: no "
        "machine needs to hold the records.",
    )


def tell_mechanism(out: Console, parameters: TheoremParameters) -> None:
    """Say what is known before any data is seen."""
    inputs = parameters.inputs
    heading(out, "2. The mechanism: all of this is known before any data is seen")
    paragraph(
        out,
        "Each test compares one entry of the second moments with a random threshold, under noise, "
        "and answers -1, 0 or +1. The release adds up the answers of the tests that are kept, "
        "with public weights.",
    )
    show(out, "")
    facts(
        out,
        (
            ("privacy budget", f"epsilon {number(inputs.epsilon)}, delta {number(inputs.delta)}"),
            (
                "target",
                f"error at most {number(inputs.target_error)} in operator norm, missed with "
                f"probability at most {number(inputs.failure_probability)}",
            ),
            (
                "thresholds",
                f"{parameters.n_levels} levels, from {number(parameters.thresholds[0], 3)} to "
                f"{number(parameters.thresholds[-1], 3)}",
            ),
            ("tests", exact(sum(parameters.candidates))),
            ("tests kept", exact(parameters.total_quota)),
            ("private from", f"{exact(parameters.smallest_private_n)} records"),
            ("accurate from", f"{exact(parameters.smallest_accurate_n)} records"),
        ),
    )


def tell_release(
    out: Console,
    parameters: TheoremParameters,
    truth: FloatArray,
    release: Release,
    seconds: float,
) -> None:
    """Hold the release against the truth."""
    inputs, guarantee = parameters.inputs, release.guarantee
    error = operator_norm_error(release.covariance(), truth)
    heading(out, "3. The release, against the truth")
    facts(
        out,
        (
            (
                "error",
                f"{number(error, 3)} in operator norm; the target was "
                f"{number(inputs.target_error)}, so {number(100 * error / inputs.target_error, 2)} "
                "% of it",
            ),
            ("related pairs", pairs_found(release, truth)),
            (
                "time",
                f"{seconds:.2f} s for {number(sum(parameters.candidates), 3)} tests, drawn with "
                "their exact law and never listed",
            ),
            ("guarantee", privacy_promise(guarantee.epsilon, guarantee.delta)),
            (
                "",
                "It is what sensitive records would get. Simulated data needs no protection, so "
                "this release is marked as not private.",
            ),
        ),
    )


def pairs_found(release: Release, truth: FloatArray) -> str:
    """Say how many pairs of features that are related in truth the release shows as such."""
    upper = np.triu_indices(len(truth), 1)
    found, present = release.integers[upper] != 0, truth[upper] != 0
    hits, total = np.count_nonzero(found & present), np.count_nonzero(present)
    false = np.count_nonzero(found & ~present)
    return f"{hits:,} of {total:,} found, {total - hits:,} missed, {false:,} false"


def tell_refusal(out: Console, estimator: MultiscaleCovariance, truth: FloatArray) -> None:
    """Show that the theorem's constants refuse ordinary data."""
    heading(out, f"4. And on {ORDINARY_RECORDS:,} ordinary records?")
    records = gaussian_records(truth, ORDINARY_RECORDS)
    try:
        estimator.fit(records)
    except PrivacyConditionError as error:
        needed = error.smallest_private_n or 0
        paragraph(
            out,
            f"Refused before any record is read: at the paper's constants privacy is proved from "
            f"{exact(needed)} records on.",
        )


def tell_files(
    out: Console, folder: Path, parameters: TheoremParameters, truth: FloatArray, release: Release
) -> None:
    """Draw the heat map, and name what was written."""
    inputs = parameters.inputs
    note = (
        f"Simulated: d = {inputs.n_features}, k = {inputs.row_sparsity}, n = "
        f"{number(inputs.n_records, 3)}, epsilon = {number(inputs.epsilon)}, delta = "
        f"{number(inputs.delta)}."
    )
    try:
        path = folder / "heatmap.png"
        write_heatmap(path, truth, release.covariance(), unit="scale²", note=note)
        figure = "truth, estimate and error side by side"
    except MissingFiguresError as error:
        figure = f"not drawn: {error}"
    heading(out, "6. Files")
    facts(
        out,
        (
            (f"{folder}/heatmap.png", figure),
            (f"{folder}/integers.npy", "the released integers"),
            (f"{folder}/release.json", "their unit, the guarantee and every public parameter"),
        ),
    )
