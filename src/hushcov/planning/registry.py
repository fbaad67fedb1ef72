"""The mechanisms that the default chooses among: what to expect of each, and how it is run.

One entry each. `fit`, `plan`, the benchmark, memory and the report read this list, and nothing else
knows which mechanisms there are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hushcov.exceptions import CapacityError
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.mechanisms.gaussian import gaussian_parameters
from hushcov.planning.gaussian import predict_gaussian
from hushcov.planning.memory import (
    all_pairs_work,
    multiscale_work,
    process_memory,
    screened_work,
    total_memory,
)
from hushcov.planning.multiscale import plan_multiscale, rough_multiscale
from hushcov.planning.reference import reference
from hushcov.planning.runs import Run, gaussian_run, multiscale_run, screened_run
from hushcov.planning.screened import plan_screened
from hushcov.postprocess import detection_deviation, universal_threshold
from hushcov.records import default_block_rows

COMPARED_MODELS = ("block", "banded", "random")
#: Normal quantile of 0.9: what is found nine times out of ten passes its threshold by as much.
NINE_OF_TEN = 1.2815515655446004
_HOPELESS = 0.99  # a predicted error at which the zero matrix, whose error is 1, does as well
_REFERENCE = 100  # features of the references for norms of correlation matrices


@dataclass(frozen=True)
class Forecast:
    """What to expect of one mechanism.

    `predicted_error` is per reference model and relative to the operator norm of the covariance,
    so that 1 is the error of the zero matrix. `rough` says that the mechanism's own search was
    not run, because a quick prediction was far behind; it would improve the figures somewhat.
    """

    mechanism: str
    predicted_error: dict[str, float]
    detection_limit: float | None
    rough: bool = False

    @property
    def typical_error(self) -> float:
        """Geometric mean over the block, banded and random models."""
        logs = (math.log(max(self.predicted_error[m], 1e-300)) for m in COMPARED_MODELS)
        return math.exp(statistics.fmean(logs))

    @property
    def hopeless(self) -> bool:
        """Whether releasing nothing, the zero matrix, is expected to do as well."""
        return self.typical_error >= _HOPELESS


@dataclass(frozen=True)
class Mechanism:
    """One mechanism on features at scale 1.

    Parameters
    ----------
    name : str
        Its name, everywhere.
    forecast : callable
        Predicts its error from public inputs; roughly, if the second argument says so.
    run : callable
        Plans it from public inputs; the second argument asks for sparse output.
    work : callable
        Bytes of its working arrays for n records, d features and blocks of so many rows; the last
        argument says that the output is sparse.
    no_limit : str
        Why no smallest correlation is predicted to be found, where none is.
    sparse : bool
        Whether it can release some pairs only, so that the output can be sparse.
    slow : bool
        Whether its own search takes seconds, so that it is first predicted roughly.
    """

    name: str
    forecast: Callable[[ReleaseInputs, bool], Forecast]
    run: Callable[[ReleaseInputs, bool], Run[Any]]
    work: Callable[[int, int, int, bool], int]
    no_limit: str
    sparse: bool = False
    slow: bool = False


@lru_cache(maxsize=4096)
def forecast(inputs: ReleaseInputs, mechanism: str, *, rough: bool = False) -> Forecast:
    """Predict one mechanism's error."""
    return MECHANISMS[mechanism].forecast(inputs, rough)


def _forecast_screened(inputs: ReleaseInputs, _: bool) -> Forecast:
    plan = plan_screened(inputs)
    limit = plan.detection_limit if plan.parameters.n_pairs else None  # no pair is looked for
    return Forecast("screened", plan.predicted_error, limit)


def _run_screened(inputs: ReleaseInputs, sparse: bool) -> Run[Any]:
    return screened_run(plan_screened(inputs).parameters, sparse=sparse)


def _forecast_gaussian(inputs: ReleaseInputs, _: bool) -> Forecast:
    return Forecast("gaussian", predict_gaussian(inputs, threshold=False), None)


def _run_gaussian(inputs: ReleaseInputs, _: bool) -> Run[Any]:
    return gaussian_run(gaussian_parameters(inputs), 0.0)


def _forecast_thresholded(inputs: ReleaseInputs, _: bool) -> Forecast:
    errors = predict_gaussian(inputs, threshold=True)
    parameters = gaussian_parameters(inputs)
    limit = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    limit += NINE_OF_TEN * detection_deviation(parameters.noise_sd, inputs.n_records)
    limit = min(1.0, limit)
    return Forecast("gaussian-threshold", errors, limit if inputs.n_features > 1 else None)


def _run_thresholded(inputs: ReleaseInputs, _: bool) -> Run[Any]:
    parameters = gaussian_parameters(inputs)
    level = universal_threshold(parameters.noise_sd, inputs.n_records, inputs.n_features)
    return gaussian_run(parameters, level)


def _forecast_multiscale(inputs: ReleaseInputs, rough: bool) -> Forecast:
    calibrated = multiscale_inputs(inputs)
    if rough:
        return Forecast("multiscale", rough_multiscale(calibrated), None, rough=True)
    return Forecast("multiscale", plan_multiscale(calibrated, "value").predicted_error, None)


def _run_multiscale(inputs: ReleaseInputs, _: bool) -> Run[Any]:
    return multiscale_run(plan_multiscale(multiscale_inputs(inputs), "value").parameters)


def multiscale_inputs(inputs: ReleaseInputs) -> CalibratedInputs:
    """The same release for the multiscale mechanism, on features at scale 1.

    Its scale bounds the standard deviation in every direction: the root of the norm of the
    correlation matrix, taken from the reference models.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    norms = [1 / reference(model, d, k, _REFERENCE).variance for model in COMPARED_MODELS]
    return CalibratedInputs(
        n_records=inputs.n_records,
        n_features=d,
        row_sparsity=k,
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        scale=math.sqrt(statistics.fmean(norms)),
        spent=inputs.spent,
    )


_LISTED = (
    Mechanism(
        name="screened",
        forecast=_forecast_screened,
        run=_run_screened,
        work=screened_work,
        no_limit="at row sparsity 1 it releases variances alone",
        sparse=True,
    ),
    Mechanism(
        name="gaussian-threshold",
        forecast=_forecast_thresholded,
        run=_run_thresholded,
        work=all_pairs_work,
        no_limit="one feature has no pairs",
    ),
    Mechanism(
        name="gaussian",
        forecast=_forecast_gaussian,
        run=_run_gaussian,
        work=all_pairs_work,
        no_limit="every pair gets a value, and none is set to zero",
    ),
    Mechanism(
        name="multiscale",
        forecast=_forecast_multiscale,
        run=_run_multiscale,
        work=multiscale_work,
        no_limit="its tests have no single threshold",
        slow=True,
    ),
)
#: Every mechanism by its name.
MECHANISMS = {each.name: each for each in _LISTED}


def fit_memory(
    mechanism: str,
    n_records: int,
    n_features: int,
    *,
    sparse: bool = False,
    files: bool = False,
) -> int:
    """Bytes that a process needs to fit so many features, without records held in memory.

    `files` says that they are read through pyarrow, which has buffers of its own.
    """
    rows = default_block_rows(n_features)
    work = MECHANISMS[mechanism].work(n_records, n_features, rows, sparse)
    return process_memory(n_features, rows, files=files) + work


def check_memory(mechanism: str, n_records: int, n_features: int, *, sparse: bool = False) -> None:
    """Refuse a fit that this computer cannot hold, before anything is spent on it."""
    needed, there = fit_memory(mechanism, n_records, n_features, sparse=sparse), total_memory()
    if there is None or needed <= there:
        return
    cure = (
        "use fewer features or a larger computer."
        if sparse
        else "use a screened release with sparse output, fewer features, or a larger computer."
    )
    raise CapacityError(
        f"{n_features:,} features need about {needed / 1e9:.3g} GB of memory for the {mechanism} "
        f"mechanism, and {there / 1e9:.3g} GB are there: {cure} Nothing was spent."
    )
