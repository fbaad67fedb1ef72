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
    unit_sigmas,
)
from hushcov.mechanisms.gaussian.room import (
    GAUSSIAN,
    GAUSSIAN_THRESHOLD,
    GaussianNoise,
    PlannedGaussian,
    predict_gaussian,
)

__all__ = [
    "GAUSSIAN",
    "GAUSSIAN_THRESHOLD",
    "LARGEST_HALF_WIDTH",
    "RADIUS",
    "GaussianNoise",
    "GaussianParameters",
    "PlannedGaussian",
    "balanced_row_norm",
    "exact_half_width",
    "gaussian_parameters",
    "noise_sigmas",
    "norm_in_steps",
    "parameters_for_sums",
    "predict_gaussian",
    "release_gaussian",
    "release_gaussian_sums",
    "squared_sensitivity",
    "symmetric_noise",
    "unit_sigmas",
]
