"""Where random bits come from.

Private releases use ChaCha20, a stream cipher, under a fresh 256-bit key from the operating
system. A seed is for tests and simulations: it warns, and the release is marked not private.
"""

from __future__ import annotations

import secrets
import warnings
from dataclasses import dataclass

import numpy as np
from randomgen import ChaCha

from hushcov.exceptions import ParameterError, SeededNoiseWarning


@dataclass(frozen=True)
class Entropy:
    """A generator, and whether its bits are unpredictable enough to protect anybody."""

    generator: np.random.Generator
    private: bool


def entropy_source(random_state: object = None) -> Entropy:
    """Return the entropy of one release.

    `random_state=None` gives operating-system entropy. An integer, a `RandomState` or a
    `Generator` gives reproducible noise, with a `SeededNoiseWarning`.
    """
    if random_state is None:
        return Entropy(np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20)), True)
    generator = _seeded(random_state)
    warnings.warn(
        "random_state was given: the noise is predictable, so this release is NOT private. "
        "Use random_state=None for sensitive records.",
        SeededNoiseWarning,
        stacklevel=3,
    )
    return Entropy(generator, False)


def _seeded(random_state: object) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        seed = int(random_state)
        if seed >= 0:
            return np.random.default_rng(seed)
    raise ParameterError(
        "random_state must be None, a non-negative integer, a numpy RandomState or Generator, "
        f"got {random_state!r}: use None for a private release."
    )
