"""`hushcov demo`: the mechanism at the paper's constants, on simulated data, told as a story."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from hushcov._validation import check_integer
from hushcov.cli.folders import reserved
from hushcov.cli.options import INTEGER, Command
from hushcov.cli.output import console
from hushcov.cli.practical import tell_practical
from hushcov.cli.progress import busy
from hushcov.cli.story import (
    tell_files,
    tell_mechanism,
    tell_refusal,
    tell_release,
    tell_simulation,
)
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import SeededNoiseWarning
from hushcov.mechanisms.multiscale import PublicInputs, TheoremParameters, theorem_parameters
from hushcov.mechanisms.release import Release
from hushcov.simulate import MODELS, sparse_covariance, wishart_moments

FloatArray = npt.NDArray[np.float64]

EPSILON, DELTA, SCALE = 1.0, 1e-6, 1.0


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
    the constants of the paper's theorem, and compares the release with the truth. Then the same
    with calibrated constants, on 200,000 records that are really there.
    """
    out, seeds = console(), _Seeds.from_seed(seed)
    parameters = _parameters(n_records, n_features, row_sparsity)
    estimator = _estimator(parameters, seeds)
    truth = sparse_covariance(model, n_features, row_sparsity, random_state=seeds.truth)
    with reserved(output, replace_simulated=True):
        tell_simulation(out, parameters, model, truth)
        tell_mechanism(out, parameters)
        release, seconds = _release(estimator, parameters, truth, seeds)
        tell_release(out, parameters, truth, release, seconds)
        tell_refusal(out, estimator, truth)
        tell_practical(out, estimator, model, seeds.statistics)
        release.write(output)
        tell_files(out, output, parameters, truth, release)


def _parameters(n_records: int | None, n_features: int, row_sparsity: int) -> TheoremParameters:
    """The theorem's numbers for this size, by default at the fewest records it is accurate for."""
    inputs = PublicInputs(
        n_records=1 if n_records is None else n_records,
        n_features=n_features,
        row_sparsity=row_sparsity,
        target_error=0.25,
        epsilon=EPSILON,
        delta=DELTA,
        failure_probability=0.1,
        scale=SCALE,
    )
    parameters = theorem_parameters(inputs)
    if n_records is not None:
        return parameters
    return theorem_parameters(replace(inputs, n_records=parameters.smallest_accurate_n))


def _estimator(parameters: TheoremParameters, seeds: _Seeds) -> MultiscaleCovariance:
    inputs = parameters.inputs
    return MultiscaleCovariance(
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        row_sparsity=inputs.row_sparsity,
        scale=inputs.scale,
        target_error=inputs.target_error,
        failure_probability=inputs.failure_probability,
        store_precision=False,
        random_state=seeds.noise,
    )


def _release(
    estimator: MultiscaleCovariance, parameters: TheoremParameters, truth: FloatArray, seeds: _Seeds
) -> tuple[Release, float]:
    """Run the mechanism on simulated moments; also how long it took."""
    moments = wishart_moments(truth, parameters.inputs.n_records, random_state=seeds.statistics)
    started = time.perf_counter()
    with (
        warnings.catch_warnings(),
        busy("drawing the tests (the first run on a machine also compiles the sampler)"),
    ):
        # The demo says itself that nothing here is private.
        warnings.simplefilter("ignore", SeededNoiseWarning)
        release = estimator.fit_statistics(moments).release_
    return release, time.perf_counter() - started
