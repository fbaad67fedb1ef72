"""Public grids on which coordinates are rounded, and checks of the public numbers they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, LARGEST_SUM, FloatArray
from hushcov._validation import check_feature_scale, check_integer, check_real
from hushcov.exceptions import CapacityError, DataError

# Of an `IntegerGrid`: beyond any unit of measurement, and neither half_width / radius nor step**2
# overflows or becomes subnormal.
_SMALLEST_RADIUS = 1e-100
_LARGEST_RADIUS = 1e100
# Of a `FeatureGrid`, in units of scales from `SMALLEST_SCALE` to `LARGEST_SCALE`: neither a
# multiplier nor a product of two scales overflows or becomes subnormal. Then a finite coordinate
# times its multiplier is never NaN, and is clipped if infinite.
_SMALLEST_SCALED_RADIUS = 1e-6
_LARGEST_SCALED_RADIUS = 1e6
#: Bits of a digit of the integers on wide grids: products of digits are summed as on other grids.
DIGIT_BITS = 15
# A row is scaled down to a norm by a factor that is rounded four times, by 2**-53 each. This much
# less keeps the norm at most what it should be.
INSIDE = 1.0 - 2.0**-40


def check_number_of_records(n_records: int) -> None:
    """Refuse more records than exact sums are made for."""
    if n_records > LARGEST_SUM:
        raise CapacityError(
            f"n_records must be at most 2**62, got {n_records}: sums cannot hold more; release "
            "disjoint parts of the records separately."
        )


@dataclass(frozen=True)
class IntegerGrid:
    """Clip a coordinate to [-radius, radius] and round it to a multiple of the step.

    Parameters
    ----------
    radius : float
        Public bound on every coordinate, above 1e-100 and at most 1e100.
    half_width : int
        Number of steps from 0 to the radius, from 1 to `finest_half_width`. Sums on a grid with
        more than `largest_half_width` steps do not fit in 64 bits and are Python integers.

    Both parameters are public, and each coordinate is mapped on its own.
    """

    radius: float
    half_width: int

    #: Products stay within 2**30, so that float64 sums 8.3 million of them exactly.
    largest_half_width: ClassVar[int] = 32767
    #: Three digits of 15 bits: a coordinate times the multiplier is a double with bits to spare.
    finest_half_width: ClassVar[int] = 32767 << 30

    def __post_init__(self) -> None:
        radius = check_real(
            "radius",
            self.radius,
            above=_SMALLEST_RADIUS,
            at_most=_LARGEST_RADIUS,
            cure="it is a public bound on every coordinate and is never inferred from X; "
            "rescale the features if it lies outside this range.",
        )
        half_width = check_integer(
            "half_width",
            self.half_width,
            at_least=1,
            at_most=self.finest_half_width,
            cure="IntegerGrid.for_records chooses a grid for a number of records.",
        )
        vars(self).update(radius=radius, half_width=half_width)

    @classmethod
    def for_records(cls, radius: float, n_records: int) -> IntegerGrid:
        """Return the grid of 32767 steps, or if its sums would pass 2**62 a finer, wide one."""
        cure = "pass the public number of records."
        n_records = check_integer("n_records", n_records, at_least=1, cure=cure)
        check_number_of_records(n_records)
        wide = n_records * cls.largest_half_width**2 > LARGEST_SUM
        return cls(radius, cls.largest_half_width << DIGIT_BITS * wide)

    @property
    def n_digits(self) -> int:
        """Digits of 15 bits in an integer of the grid: 1, or 2 or 3 on a wide grid."""
        return 1 + (self.half_width > 32767) + (self.half_width > 32767 << DIGIT_BITS)

    @property
    def wide(self) -> bool:
        """Whether sums of products are Python integers rather than of 64 bits."""
        return self.n_digits > 1

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points."""
        return self.radius / self.half_width

    @property
    def multiplier(self) -> float:
        """Factor from coordinates to grid units; products beyond half_width are clipped."""
        return self.half_width / self.radius


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

    The parameters are public or were released, and each record is mapped on its own.
    """

    feature_scale: FloatArray
    radius: float
    half_width: int

    def __post_init__(self) -> None:
        scale = check_feature_scale(self.feature_scale, len(np.atleast_1d(self.feature_scale)))
        cure = "it is a public bound on every coordinate, in units of its scale."
        least, most = _SMALLEST_SCALED_RADIUS, _LARGEST_SCALED_RADIUS
        radius = check_real("radius", self.radius, above=least, at_most=most, cure=cure)
        cure = "leave it to the plan."
        half_width = check_integer(
            "half_width", self.half_width, at_least=1, at_most=2**20, cure=cure
        )
        vars(self).update(feature_scale=scale, radius=radius, half_width=half_width)

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
        """Factors from coordinates to grid units: 1 / (step * scale), and 0 for scale 0."""
        with np.errstate(divide="ignore"):
            inverse = 1.0 / (self.step * self.feature_scale)
        return np.where(self.feature_scale > 0, inverse, 0.0)

    @property
    def numbers(self) -> tuple[FloatArray, float]:
        """Multipliers and half width, as kernels take them."""
        return self.multipliers, float(self.half_width)

    def check_features(self, n_features: int) -> None:
        """Refuse records of another width: compiled loops do not check indices."""
        if n_features != self.n_features:
            raise DataError(
                f"records must have the {self.n_features} features of the grid, got {n_features}: "
                "give one scale for each column."
            )

    def check_squared_norms(self) -> None:
        """Refuse a grid so fine that a squared norm of integers may not be an exact float64."""
        if self.n_features * self.half_width**2 >= LARGEST_EXACT_FLOAT:
            raise CapacityError(
                "half_width must keep n_features * half_width**2 below 2**53, got "
                f"{self.half_width} for {self.n_features} features: squared norms are not exact "
                "beyond that; use a smaller one."
            )
