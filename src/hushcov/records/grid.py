"""The integer grid on which coordinates are clipped and rounded before any product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hushcov._validation import check_integer, check_real
from hushcov.exceptions import CapacityError

# Far beyond any real unit of measurement, and such that neither half_width / radius nor
# step**2 can overflow or become subnormal.
_SMALLEST_RADIUS = 1e-100
_LARGEST_RADIUS = 1e100


@dataclass(frozen=True)
class IntegerGrid:
    """Clip a coordinate to [-radius, radius] and round it to a multiple of the step.

    Parameters
    ----------
    radius : float
        Public bound on every coordinate, above 1e-100 and at most 1e100.
    half_width : int
        Number of steps from 0 to the radius, from 1 to `largest_half_width`.

    Privacy
    -------
    Nothing here is private by itself. Both parameters are public and must not be chosen by
    looking at the records. The grid maps each coordinate on its own, so a changed record
    changes no row but its own.
    """

    radius: float
    half_width: int

    #: Products stay within 2**30, so that float64 sums 8.3 million of them exactly.
    largest_half_width: ClassVar[int] = 32767

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
            at_most=self.largest_half_width,
            cure="IntegerGrid.for_records chooses the finest grid for a number of records.",
        )
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "half_width", half_width)

    @classmethod
    def for_records(cls, radius: float, n_records: int) -> IntegerGrid:
        """Return the finest grid on which sums over `n_records` products stay within 2**62."""
        n_records = check_integer(
            "n_records", n_records, at_least=1, cure="pass the public number of records."
        )
        half_width = min(cls.largest_half_width, math.isqrt(2**62 // n_records))
        if half_width < 1:
            raise CapacityError(
                f"n_records must be at most 2**62, got {n_records}: int64 sums cannot hold more; "
                "release disjoint parts of the records separately."
            )
        return cls(radius, half_width)

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points."""
        return self.radius / self.half_width

    def quantise(self, block: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a fresh array of integers in [-half_width, half_width], one per coordinate.

        The integers are stored as float64 because BLAS multiplies nothing else as fast.
        `block` must be finite, which `Records.map_sum` guarantees.
        """
        # Clipping first keeps the product finite for any input. The clipped product exceeds
        # half_width by a few roundings at most, which rint removes.
        integers = np.clip(block, -self.radius, self.radius)
        np.multiply(integers, self.half_width / self.radius, out=integers)
        np.rint(integers, out=integers)
        return integers
