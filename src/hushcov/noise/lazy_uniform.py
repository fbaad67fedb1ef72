"""A uniform number whose bits are drawn as they are needed."""

from __future__ import annotations

import numpy as np


class LazyUniform:
    """A uniform number of [0, 1) of which the leading bits are known; the rest is not yet drawn.

    It lies in [leading, leading + 1) / 2^length, and given the known bits it is uniform there.
    """

    def __init__(self, generator: np.random.Generator, leading: int, length: int) -> None:
        self.leading, self.length = leading, length
        self._generator = generator

    def refine(self) -> None:
        """Draw the next 64 bits."""
        word = int(self._generator.integers(0, 2**64, dtype=np.uint64))
        self.leading, self.length = self.leading << 64 | word, self.length + 64
