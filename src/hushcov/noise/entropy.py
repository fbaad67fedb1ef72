"""Random bits: where they come from, and uniform numbers that draw theirs when needed.

No other module of a private release makes a generator. Private releases use ChaCha20, a stream
cipher, under a fresh 256-bit key from the operating system. A seed is for tests and simulations: it
warns, and the release is marked not private.
"""

from __future__ import annotations

import os
import secrets
import warnings
import weakref
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from randomgen import ChaCha

from hushcov._validation import shown
from hushcov.exceptions import ParameterError, SeededNoiseWarning


class SecretChaCha(ChaCha):  # type: ignore[misc]  # randomgen publishes no types
    """ChaCha20 under a key that nobody chose: it takes no seed, no key and no state.

    A stream must not run twice, so it cannot be copied or pickled, and a forked child gets a new
    key.
    """

    def __init__(self) -> None:
        super().__init__(key=secrets.randbits(256), rounds=20)
        _living.add(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private source of noise cannot be copied: make one for each release.")

    def seed(self, *arguments: object, **options: object) -> None:
        """Refuse, except to the constructor."""
        if self in _living:
            raise TypeError("a private source of noise takes no seed: use random_state for tests.")
        super().seed(*arguments, **options)

    @property
    def state(self) -> NoReturn:
        """Refused: whoever has it has the noise."""
        raise AttributeError("the state of a private source of noise is secret.")

    def renew(self) -> None:
        """Go on under a new key."""
        super().seed(key=secrets.randbits(256))


_living: weakref.WeakSet[SecretChaCha] = weakref.WeakSet()


def _renew_all() -> None:
    for source in list(_living):
        source.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def has_keys(generator: np.random.Generator) -> bool:
    """Whether a generator makes words of ChaCha, which are good for keys."""
    return isinstance(generator.bit_generator, ChaCha)


@dataclass(frozen=True)
class Entropy:
    """A generator, and whether its bits are unpredictable enough to protect anybody.

    Only the generators that `entropy_source()` makes can be called private.
    """

    generator: np.random.Generator
    private: bool

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse any generator that is called private and is not keyed by the system."""
        if not self.private:
            return
        source = getattr(self.generator, "bit_generator", None)
        if type(self.generator) is np.random.Generator and type(source) is SecretChaCha:
            return
        raise ParameterError(
            "entropy can be private only if it comes from entropy_source(None), got a "
            f"{type(source or self.generator).__name__}: leave random_state at None."
        )


def check_entropy(entropy: object) -> None:
    """Refuse, before any noise is drawn, what is not the entropy of one release."""
    if type(entropy) is not Entropy:
        raise ParameterError(
            f"entropy must be an Entropy, got {type(entropy).__name__}: make one with "
            "entropy_source()."
        )
    entropy.check()


def entropy_source(random_state: object = None, *, stacklevel: int = 3) -> Entropy:
    """Return the entropy of one release.

    `random_state=None` gives operating-system entropy. An integer, a `RandomState` or a
    `Generator` gives reproducible noise, with a `SeededNoiseWarning` at `stacklevel`.
    """
    if random_state is None:
        return Entropy(np.random.Generator(SecretChaCha()), private=True)
    generator = _seeded(random_state)
    warnings.warn(
        "random_state was given: the noise is predictable, so this release is NOT private. "
        "Use random_state=None for sensitive records.",
        SeededNoiseWarning,
        stacklevel=stacklevel,
    )
    return Entropy(generator, private=False)


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
        f"got {shown(random_state)}: use None for a private release."
    )


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
