"""Standard normals with as many bits as a decision needs.

They are those of `hushcov.kernel.noise.normal` before rounding. Once x is kept, those of its bits
that are not drawn yet are fair coins, so more can be drawn until whatever depends on them is clear.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.kernel.noise.entropy import LazyUniform
from hushcov.kernel.noise.normal import BITS, COIN_MARGIN, LEVELS, exact_parts


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
        """Return the numbers up to 2^-52 (1 + |number|): two roundings, and the bits not seen."""
        return np.asarray(self.signs * (self.wholes + self.leading * 2.0**-BITS))

    def offset(self, generator: np.random.Generator, position: int) -> LazyUniform:
        """Return the x of one number, for drawing more of its bits."""
        known = self.refined.get(position)
        return known or LazyUniform(generator, int(self.leading[position]), BITS)


def lazy_normals(
    generator: np.random.Generator, size: int, *, margin: float = COIN_MARGIN
) -> LazyNormals:
    """Draw `size` independent standard normals, exactly.

    Comparisons closer than `margin` are left to the exact path. A larger margin must not change
    anything but the number of bits drawn.
    """
    drawn = LazyNormals(*np.empty((3, size), dtype=np.int64))
    pending = np.arange(size)
    while len(pending):
        words = generator.integers(0, 2**64, size=(3, len(pending)), dtype=np.uint64)
        level, offset, coin = (words >> np.uint64(1)).astype(np.int64)
        k = np.searchsorted(LEVELS, level)
        x = offset * 2.0**-BITS
        excess = coin * 2.0**-BITS - np.exp(-0.5 * x * (2.0 * k + x))
        kept = excess < 0
        for position in np.flatnonzero((np.abs(excess) <= margin) | (level == LEVELS[k])):
            uniforms = [LazyUniform(generator, int(word) >> 1, BITS) for word in words[:, position]]
            k[position], kept[position] = exact_parts(*uniforms)
            if kept[position]:
                drawn.refined[int(pending[position])] = uniforms[1]
        chosen = pending[kept]
        drawn.signs[chosen] = 1 - 2 * (words[0, kept] & np.uint64(1)).astype(np.int64)
        drawn.wholes[chosen], drawn.leading[chosen] = k[kept], offset[kept]
        pending = pending[~kept]
    return drawn
