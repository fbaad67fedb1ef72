"""Gaussian noise on the whole second-moment matrix: Analyze Gauss, calibrated exactly."""

from hushcov.mechanisms.gaussian.mechanism import (
    LARGEST_HALF_WIDTH,
    RADIUS,
    GaussianParameters,
    balanced_row_norm,
    exact_half_width,
    gaussian_parameters,
    noise_sigmas,
    norm_in_steps,
    parameters_for_sums,
    release_gaussian,
    release_gaussian_sums,
    squared_sensitivity,
    symmetric_noise,
)
from hushcov.mechanisms.gaussian.prediction import predict_gaussian
from hushcov.mechanisms.gaussian.room import (
    GAUSSIAN,
    GAUSSIAN_THRESHOLD,
    GaussianNoise,
    PlannedGaussian,
)
from hushcov.mechanisms.gaussian.units import (
    Mass,
    UnitBound,
    count_sigma,
    release_unit_bound,
    unit_sigmas,
)

__all__ = [
    "GAUSSIAN",
    "GAUSSIAN_THRESHOLD",
    "LARGEST_HALF_WIDTH",
    "RADIUS",
    "GaussianNoise",
    "GaussianParameters",
    "Mass",
    "PlannedGaussian",
    "UnitBound",
    "balanced_row_norm",
    "count_sigma",
    "exact_half_width",
    "gaussian_parameters",
    "noise_sigmas",
    "norm_in_steps",
    "parameters_for_sums",
    "predict_gaussian",
    "release_gaussian",
    "release_gaussian_sums",
    "release_unit_bound",
    "squared_sensitivity",
    "symmetric_noise",
    "unit_sigmas",
]
