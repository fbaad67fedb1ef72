"""Standard normal numbers whose bits are drawn as they are needed.

|Z| is k + x with an integer k and x in [0, 1) (Karney 2016; `rounded_normal` has the law). Once x
is kept, the bits of it that are not drawn yet are fair coins, so that a number computed from
normals can be refined until a decision that depends on it is clear: no rounding error decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.noise.lazy_uniform import LazyUniform
from hushcov.noise.rounded_normal import _BITS, _COIN_MARGIN, _LEVELS, _is_kept, _reaches


@dataclass(frozen=True)
class LazyNormals:
    """Independent standard normals: sign (whole + x), x known to 63 bits.

    `refined` has the x of which more bits were drawn, by position.
    """

    signs: IntArray
    wholes: IntArray
    leading: IntArray
    refined: dict[int, LazyUniform] = field(default_factory=dict)

    def floats(self) -> FloatArray:
        """The numbers up to 2^-52 (1 + |number|): two roundings, and the bits not seen."""
        return np.asarray(self.signs * (self.wholes + self.leading * 2.0**-_BITS))

    def offset(self, generator: np.random.Generator, position: int) -> LazyUniform:
        """The x of one number, for drawing more of its bits."""
        known = self.refined.get(position)
        return known or LazyUniform(generator, int(self.leading[position]), _BITS)


def lazy_normals(generator: np.random.Generator, size: int) -> LazyNormals:
    """Draw `size` independent standard normals, exactly."""
    return _draw(generator, size, margin=_COIN_MARGIN)


def _draw(generator: np.random.Generator, size: int, *, margin: float) -> LazyNormals:
    """`lazy_normals`, which has the smallest margin that is safe.

    Comparisons closer than the margin are left to the exact path. A larger one must not change
    anything but the number of bits drawn.
    """
    drawn = LazyNormals(*np.empty((3, size), dtype=np.int64))
    pending = np.arange(size)
    while len(pending):
        words = generator.integers(0, 2**64, size=(3, len(pending)), dtype=np.uint64)
        level, offset, coin = (words >> np.uint64(1)).astype(np.int64)
        k = np.searchsorted(_LEVELS, level)
        x = offset * 2.0**-_BITS
        excess = coin * 2.0**-_BITS - np.exp(-0.5 * x * (2.0 * k + x))
        kept = excess < 0
        for position in np.flatnonzero((np.abs(excess) <= margin) | (level == _LEVELS[k])):
            uniforms = [
                LazyUniform(generator, int(word) >> 1, _BITS) for word in words[:, position]
            ]
            k[position], kept[position] = _exact_trial(*uniforms)
            if kept[position]:
                drawn.refined[int(pending[position])] = uniforms[1]
        chosen = pending[kept]
        drawn.signs[chosen] = 1 - 2 * (words[0, kept] & np.uint64(1)).astype(np.int64)
        drawn.wholes[chosen], drawn.leading[chosen] = k[kept], offset[kept]
        pending = pending[~kept]
    return drawn


def _exact_trial(level: LazyUniform, offset: LazyUniform, coin: LazyUniform) -> tuple[int, bool]:
    """The integer part, and whether the trial is kept, from as many bits as that takes."""
    k = 0
    while _reaches(level, k):
        k += 1
    return k, _is_kept(k, offset, coin)
