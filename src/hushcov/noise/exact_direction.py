"""One proposal of the Bingham sampler, decided exactly, from as many bits as that takes."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov.noise.lazy_uniform import LazyUniform

GRID_BITS = 24  # a direction is rounded to multiples of 2^-24
FACTOR_BITS = 80  # the entries of a factor are multiples of 2^-80


@dataclass(frozen=True, eq=False)
class Law:
    """What decides a trial: the law wanted, and the proposals with a bound on their ratio.

    Every number is what the double says. See `hushcov.noise.bingham`.
    """

    matrix: IntArray
    rate: float
    factor: FloatArray
    peak: float
    log_bound: float


@dataclass(frozen=True)
class _Range:
    """All that is known of a real number."""

    low: Fraction
    high: Fraction

    @classmethod
    def around(cls, middle: int, radius: int) -> _Range:
        return cls(Fraction(middle - radius), Fraction(middle + radius))

    def over(self, positive: _Range) -> _Range:
        ends = [
            end / divisor
            for end in (self.low, self.high)
            for divisor in (positive.low, positive.high)
        ]
        return _Range(min(ends), max(ends))


class ExactTrial:
    """A proposal z = L g and its coin; `g` are signs * (wholes + offsets)."""

    def __init__(
        self,
        law: Law,
        signs: list[int],
        wholes: list[int],
        offsets: list[LazyUniform],
        coin: LazyUniform,
    ) -> None:
        self._law, self._coin, self._offsets = law, coin, offsets
        self._signs, self._wholes = signs, wholes
        self._factor = _integers(np.ldexp(law.factor, FACTOR_BITS))
        self._matrix = _integers(law.matrix)

    def decide(self) -> IntArray | None:
        """The rounded direction, or None if the proposal is not kept."""
        kept: bool | None = None
        while True:
            self._measure()
            if self._positive and kept is None:
                kept = self._is_kept()
            if kept is False:
                return None
            if self._positive and kept:
                rounded = self._rounded()
                if rounded is not None:
                    return rounded
            for uniform in self._offsets:
                uniform.refine()
            if kept is None:
                self._coin.refine()

    def _measure(self) -> None:
        """Ranges of |g|^2, |z|^2, z'Mz and z, each in its own power of two.

        Every g is the middle of its cell, give or take 1, in units of half a cell; z is then known
        up to the largest row sum of |L|.
        """
        self._bits = length = max(uniform.length for uniform in self._offsets)
        for uniform in self._offsets:
            while uniform.length < length:
                uniform.refine()
        g = np.array(
            [
                sign * (2 * ((whole << length) + uniform.leading) + 1)
                for sign, whole, uniform in zip(
                    self._signs, self._wholes, self._offsets, strict=True
                )
            ],
            dtype=object,
        )
        m = len(g)
        self._z = z = self._factor @ g
        self._radius = radius = int(max(np.abs(self._factor).sum(axis=1)))
        image = self._matrix @ z
        self._g_square = _Range.around(g @ g, 2 * sum(abs(g)) + m)
        self._z_square = _Range.around(z @ z, 2 * radius * sum(abs(z)) + m * radius**2)
        self._form = _Range.around(
            z @ image, 2 * radius * sum(abs(image)) + radius**2 * int(np.abs(self._matrix).sum())
        )
        self._positive = self._g_square.low > 0 and self._z_square.low > 0

    def _is_kept(self) -> bool | None:
        """Whether log(coin) is below the log of the chance to be kept; None if that is open."""
        law, m = self._law, len(self._z)
        # Rounding errors are below 10^-25 of the largest term, which is below 10^20.
        context = decimal.Context(prec=self._bits // 3 + 50, rounding=decimal.ROUND_HALF_EVEN)
        slack = Fraction(1, 10 ** (self._bits // 3))
        score = self._form.over(self._z_square)
        ratio = self._g_square.over(self._z_square)

        def log(number: Fraction) -> Fraction:
            quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
            return Fraction(context.ln(quotient))

        def log_chance(score_end: Fraction, ratio_end: Fraction) -> Fraction:
            exponent = Fraction(law.rate) * (score_end - Fraction(law.peak))
            scaled = ratio_end * 4**FACTOR_BITS  # the units of |g|^2 and |z|^2 differ by this
            return exponent + Fraction(m, 2) * log(scaled) - Fraction(law.log_bound)

        coin, unit = self._coin.leading, 2**self._coin.length
        if log(Fraction(coin + 1, unit)) + slack <= log_chance(score.low, ratio.low):
            return True
        if coin > 0 and log(Fraction(coin, unit)) - slack >= log_chance(score.high, ratio.high):
            return False
        return None

    def _rounded(self) -> IntArray | None:
        """round(2^GRID_BITS z/|z|), or None if a coordinate is too close to a half."""
        rounded = []
        for z in self._z:
            smallest, largest = max(abs(z) - self._radius, 0), abs(z) + self._radius
            low = _nearest_root(Fraction(smallest**2) / self._z_square.high)
            high = _nearest_root(Fraction(largest**2) / self._z_square.low)
            if low != high:
                return None
            rounded.append(high if z > 0 else -high)
        return np.array(rounded, dtype=np.int64)


def _nearest_root(square: Fraction) -> int:
    """2^GRID_BITS times the root, rounded to the nearest integer."""
    return (math.isqrt(math.floor(4 * 4**GRID_BITS * square)) + 1) // 2


def _integers(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The whole numbers of an array as Python integers, which have any size."""
    return np.array([[int(entry) for entry in row] for row in array], dtype=object)
