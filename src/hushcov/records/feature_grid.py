"""The integer grid of features that have scales of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov._validation import check_integer, check_real
from hushcov.exceptions import DataError, ParameterError

FloatArray = npt.NDArray[np.float64]

# Such that neither a multiplier nor a product of two scales overflows or becomes subnormal: then
# a finite coordinate times its multiplier is never NaN, and an infinite product is clipped.
SMALLEST_SCALE = 1e-100
LARGEST_SCALE = 1e100
_SMALLEST_RADIUS, _LARGEST_RADIUS = 1e-6, 1e6


@dataclass(frozen=True, eq=False)
class FeatureGrid:
    """Divide each feature by its scale, clip to [-radius, radius] and round to the step.

    Parameters
    ----------
    feature_scale : ndarray of shape (n_features,)
        Public scale of each feature, its standard deviation or close to it. 0 marks a feature
        that is known to be constant: all its integers are 0.
    radius : float
        Bound on every coordinate in units of its feature's scale.
    half_width : int
        Number of steps from 0 to the radius.

    Privacy
    -------
    Nothing here is private by itself. The parameters are public, or released before. The grid
    maps each record on its own, so a changed record changes no row but its own.
    """

    feature_scale: FloatArray
    radius: float
    half_width: int

    def __post_init__(self) -> None:
        scale = check_feature_scale(self.feature_scale, len(np.atleast_1d(self.feature_scale)))
        cure = "it is a public bound on every coordinate, in units of its scale."
        radius = check_real(
            "radius", self.radius, above=_SMALLEST_RADIUS, at_most=_LARGEST_RADIUS, cure=cure
        )
        half_width = check_integer(
            "half_width", self.half_width, at_least=1, at_most=2**20, cure="leave it to the plan."
        )
        for name, value in (
            ("feature_scale", scale),
            ("radius", radius),
            ("half_width", half_width),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_scale)

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points, in units of the scale."""
        return self.radius / self.half_width

    @property
    def multipliers(self) -> FloatArray:
        """What turns a coordinate into grid units: 1 / (step * scale), and 0 for constants."""
        with np.errstate(divide="ignore"):
            inverse = 1.0 / (self.step * self.feature_scale)
        return np.where(self.feature_scale > 0, inverse, 0.0)

    def check_features(self, n_features: int) -> None:
        """Refuse records of another width: compiled loops do not check indices."""
        if n_features != self.n_features:
            raise DataError(
                f"records must have the {self.n_features} features of the grid, got {n_features}: "
                "give one scale for each column."
            )


def check_feature_scale(feature_scale: object, n_features: int) -> FloatArray:
    """Return scales as a read-only array with one number per feature, or raise."""
    try:
        scale = np.array(feature_scale, dtype=np.float64)
    except Exception:  # an object's own conversion may raise anything
        raise ParameterError(
            "feature_scale must be a number or one number for each feature, got "
            f"{type(feature_scale).__name__}: pass standard deviations that are public, or None."
        ) from None
    if scale.ndim == 0:
        scale = np.full(n_features, float(scale))
    if scale.shape != (n_features,):
        raise ParameterError(
            f"feature_scale must be a number or have one for each of {n_features} features, got "
            f"shape {scale.shape}: pass standard deviations in the order of the columns."
        )
    inside = (scale == 0) | ((scale >= SMALLEST_SCALE) & (scale <= LARGEST_SCALE))
    if not inside.all():
        raise ParameterError(
            f"feature_scale must be 0 (a constant feature) or from {SMALLEST_SCALE:g} to "
            f"{LARGEST_SCALE:g}: rescale the features outside this range."
        )
    scale.setflags(write=False)
    return scale
