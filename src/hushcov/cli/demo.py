"""`hushcov demo`: the mechanism at the paper's constants, on simulated data, told as a story."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from rich.console import Console

from hushcov._validation import check_integer
from hushcov.cli.folders import reserved
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console, exact, facts, heading, number, paragraph, show
from hushcov.cli.words import privacy_promise
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import CapacityError, PrivacyConditionError, SeededNoiseWarning
from hushcov.mechanisms.multiscale import TheoremParameters
from hushcov.mechanisms.release import Release
from hushcov.metrics import operator_norm_error
from hushcov.report.backend import MissingFiguresError
from hushcov.report.heatmap import write_heatmap
from hushcov.simulate import MODELS, gaussian_records, sparse_covariance, wishart_moments

FloatArray = npt.NDArray[np.float64]

EPSILON, DELTA, SCALE = 1.0, 1e-6, 1.0
ORDINARY_RECORDS = 10_000
_LARGEST_SIMULATION = 2**63 - 1


@dataclass(frozen=True)
class _Seeds:
    """Independent seeds for the truth, the statistics and the noise; None for fresh ones."""

    truth: int | None = None
    statistics: int | None = None
    noise: int | None = None

    @classmethod
    def from_seed(cls, seed: int | None) -> _Seeds:
        if seed is None:
            return cls()
        check_integer("seed", seed, at_least=0, cure="leave it out for a fresh run.")
        return cls(*(int(state) for state in np.random.SeedSequence(seed).generate_state(3)))


@click.command(cls=Command, name="demo")
@click.option(
    "--features",
    "n_features",
    type=INTEGER,
    default=100,
    show_default=True,
    metavar="D",
    help="Number of features.",
)
@click.option(
    "--row-sparsity",
    type=INTEGER,
    default=5,
    show_default=True,
    metavar="K",
    help="Most nonzero entries in a row of the true covariance.",
)
@click.option(
    "--records",
    "n_records",
    type=INTEGER,
    metavar="N",
    help="Number of simulated records.  [default: the fewest for which accuracy is proved]",
)
@click.option(
    "--model",
    type=click.Choice(tuple(MODELS)),
    default="random",
    show_default=True,
    help="Pattern of the true covariance.",
)
@click.option(
    "--seed", type=INTEGER, metavar="S", help="Makes the run reproducible.  [default: fresh]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="FOLDER",
    help="Where the heat map and the release are written.",
)
def command(
    n_features: int,
    row_sparsity: int,
    n_records: int | None,
    model: str,
    seed: int | None,
    output: Path,
) -> None:
    """See the mechanism at work on simulated data, in a few seconds.

    Draws the statistics of about 1e15 records from a known sparse covariance, releases them at
    the constants of the paper's theorem, and compares the release with the truth.
    """
    out, seeds = console(), _Seeds.from_seed(seed)
    estimator = MultiscaleCovariance(
        epsilon=EPSILON,
        delta=DELTA,
        row_sparsity=row_sparsity,
        scale=SCALE,
        store_precision=False,
        random_state=seeds.noise,
    )
    if n_records is None:
        n_records = estimator.public_parameters(1, n_features).smallest_accurate_n
    parameters = estimator.public_parameters(n_records, n_features)
    _check_size(parameters)
    truth = sparse_covariance(model, n_features, row_sparsity, random_state=seeds.truth)
    with reserved(output, replace_simulated=True):
        _tell_simulation(out, parameters, model, truth)
        _tell_mechanism(out, parameters)
        release, seconds = _release(estimator, parameters, truth, seeds)
        _tell_release(out, parameters, truth, release, seconds)
        _tell_refusal(out, estimator, truth)
        release.write(output)
        _tell_files(out, output, parameters, truth, release)


def _check_size(parameters: TheoremParameters) -> None:
    n = parameters.inputs.n_records
    if n > _LARGEST_SIMULATION:
        raise CapacityError(
            f"records must be at most {_LARGEST_SIMULATION:.3g} in a simulation, got {n:.3g}: use "
            "fewer features, a smaller row_sparsity, or give a number of records."
        )


def _tell_simulation(
    out: Console, parameters: TheoremParameters, model: str, truth: FloatArray
) -> None:
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


def _tell_mechanism(out: Console, parameters: TheoremParameters) -> None:
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


def _release(
    estimator: MultiscaleCovariance, parameters: TheoremParameters, truth: FloatArray, seeds: _Seeds
) -> tuple[Release, float]:
    """Run the mechanism on simulated moments; also how long it took."""
    moments = wishart_moments(truth, parameters.inputs.n_records, random_state=seeds.statistics)
    started = time.perf_counter()
    with (
        warnings.catch_warnings(),
        console(stderr=True).status(
            "drawing the tests (the first run on a machine also compiles the sampler)"
        ),
    ):
        # The demo says itself that nothing here is private.
        warnings.simplefilter("ignore", SeededNoiseWarning)
        release = estimator.fit_statistics(moments).release_
    return release, time.perf_counter() - started


def _tell_release(
    out: Console,
    parameters: TheoremParameters,
    truth: FloatArray,
    release: Release,
    seconds: float,
) -> None:
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
            ("related pairs", _pairs_found(release, truth)),
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


def _pairs_found(release: Release, truth: FloatArray) -> str:
    upper = np.triu_indices(len(truth), 1)
    found, present = release.integers[upper] != 0, truth[upper] != 0
    hits, total = np.count_nonzero(found & present), np.count_nonzero(present)
    false = np.count_nonzero(found & ~present)
    return f"{hits:,} of {total:,} found, {total - hits:,} missed, {false:,} false"


def _tell_refusal(out: Console, estimator: MultiscaleCovariance, truth: FloatArray) -> None:
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


def _tell_files(
    out: Console, folder: Path, parameters: TheoremParameters, truth: FloatArray, release: Release
) -> None:
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
    heading(out, "5. Files")
    facts(
        out,
        (
            (f"{folder}/heatmap.png", figure),
            (f"{folder}/integers.npy", "the released integers"),
            (f"{folder}/release.json", "their unit, the guarantee and every public parameter"),
        ),
    )
