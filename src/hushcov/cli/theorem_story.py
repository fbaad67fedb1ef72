"""The last act of `hushcov demo`: the paper's theorem at its own constants, in short."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from hushcov._arrays import FloatArray
from hushcov._words import exact, number
from hushcov.cli.output import facts, heading, paragraph, show
from hushcov.cli.progress import busy
from hushcov.estimators import MultiscaleCovariance
from hushcov.exceptions import SeededNoiseWarning
from hushcov.mechanisms.multiscale import PublicInputs, TheoremParameters, theorem_parameters
from hushcov.metrics import operator_norm_error
from hushcov.simulate import sparse_covariance, wishart_moments

FEATURES, ROW_SPARSITY, TARGET_ERROR, FAILURE_PROBABILITY = 100, 5, 0.25, 0.1


def tell_theorem(out: Console, epsilon: float, delta: float, seeds: Sequence[int]) -> float:
    """Run the theorem at the fewest records for which it proves accuracy, on drawn moments.

    Return the error.
    """
    parameters = _parameters(epsilon, delta)
    inputs, tests = parameters.inputs, sum(parameters.candidates)
    truth = sparse_covariance("random", FEATURES, ROW_SPARSITY, random_state=seeds[0])
    error, seconds = _run(parameters, truth, seeds)
    heading(out, "5. The paper's theorem, at its own constants")
    paragraph(
        out,
        f"The mechanism of the paper has a proof of accuracy, whose constants ask for more records "
        f"than there are. Their second moments can be drawn without them: {FEATURES} features, row "
        f"sparsity {ROW_SPARSITY}, {number(inputs.n_records, 3)} records.",
    )
    show(out, "")
    facts(
        out,
        (
            (
                "error",
                f"{number(error, 2)} in operator norm, where {number(inputs.target_error)} was "
                "promised",
            ),
            (
                "tests",
                f"{number(tests, 3)}, drawn with their exact law and never listed, in "
                f"{seconds:.1f} s",
            ),
            (
                "refuses",
                f"fewer than {exact(parameters.smallest_private_n)} records, for which nothing "
                "is proved",
            ),
        ),
    )
    paragraph(out, "\n'hushcov verify' checks the theorem claim by claim.")
    return error


def _parameters(epsilon: float, delta: float) -> TheoremParameters:
    inputs = PublicInputs(
        n_records=1,
        n_features=FEATURES,
        row_sparsity=ROW_SPARSITY,
        target_error=TARGET_ERROR,
        epsilon=epsilon,
        delta=delta,
        failure_probability=FAILURE_PROBABILITY,
        scale=1.0,
    )
    needed = theorem_parameters(inputs).smallest_accurate_n
    return theorem_parameters(replace(inputs, n_records=needed))


def _run(
    parameters: TheoremParameters, truth: FloatArray, seeds: Sequence[int]
) -> tuple[float, float]:
    """The error on simulated moments, and how long it took."""
    inputs = parameters.inputs
    estimator = MultiscaleCovariance(
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        row_sparsity=inputs.row_sparsity,
        scale=inputs.scale,
        target_error=inputs.target_error,
        failure_probability=inputs.failure_probability,
        store_precision=False,
        random_state=seeds[2],
    )
    moments = wishart_moments(truth, inputs.n_records, random_state=seeds[1])
    started = time.perf_counter()
    with (
        warnings.catch_warnings(),
        busy("drawing the tests (the first run on a machine also compiles the sampler)"),
    ):
        warnings.simplefilter("ignore", SeededNoiseWarning)  # simulated: nothing to protect
        estimator.fit_statistics(moments)
    return operator_norm_error(estimator.covariance_, truth), time.perf_counter() - started
