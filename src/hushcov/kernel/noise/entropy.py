"""Random bits: where they come from, very many at once, and uniforms that draw theirs when needed.

No other module of a private release makes a generator. Private releases use ChaCha20, a stream
cipher, under a fresh 256-bit key from the operating system. A seed is for tests and simulations: it
warns, and the release is marked not private.

A private source makes a few words at a time. Where millions are needed it gives a fresh key
instead, and the words are the stream of that key (RFC 8439), many blocks side by side, on all
cores. Whoever cannot tell ChaCha20 from fair bits cannot tell these from fair bits either: its own
output is as good a key as any. The stream of a key is used once, from its beginning, and the key is
forgotten. Other generators are for tests and simulations, and make their words themselves.
"""

from __future__ import annotations

import os
import secrets
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from randomgen import ChaCha

from hushcov._compiled import compiled, even_parts, intrinsic, run_parts
from hushcov._validation import shown
from hushcov.exceptions import ParameterError, SeededNoiseWarning

Words = npt.NDArray[np.uint64]
Key = npt.NDArray[np.uint32]

_LANES = 8  # blocks side by side
_BLOCK = 8  # words of 64 bits in a block
GROUP = _LANES * _BLOCK
_LEAST = 2**12  # words for which a key pays
_PART = 2**14  # words for which a thread pays
_DOUBLE_ROUNDS = 10
_COLUMNS = tuple((i, 4 + i, 8 + i, 12 + i) for i in range(4))
_DIAGONALS = tuple((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4))
_QUARTERS = _COLUMNS + _DIAGONALS
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)


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


if hasattr(os, "register_at_fork"):

    def _renew_all() -> None:
        for source in list(_living):
            source.renew()

    os.register_at_fork(after_in_child=_renew_all)


def has_keys(generator: np.random.Generator) -> bool:
    """Return whether a generator makes words of ChaCha, which are good for keys."""
    return isinstance(generator.bit_generator, ChaCha)


@dataclass(frozen=True)
class Entropy:
    """A generator, and whether its bits are unpredictable enough to protect anybody."""

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
    if isinstance(random_state, np.random.Generator):
        generator = random_state
    elif isinstance(random_state, np.random.RandomState):
        generator = np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    elif (
        type(random_state) is not bool
        and isinstance(random_state, int | np.integer)
        and (random_state >= 0)
    ):
        generator = np.random.default_rng(int(random_state))
    else:
        raise ParameterError(
            "random_state must be None, a non-negative integer, a numpy RandomState or Generator, "
            f"got {shown(random_state)}: use None for a private release."
        )
    warnings.warn(
        "random_state was given: the noise is predictable, so this release is NOT private. "
        "Use random_state=None for sensitive records.",
        SeededNoiseWarning,
        stacklevel=stacklevel,
    )
    return Entropy(generator, private=False)


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


def random_words(generator: np.random.Generator, size: int, buffer: Words | None = None) -> Words:
    """Draw `size` independent uniform words of 64 bits, into a buffer of `buffer_length(size)`."""
    if size < _LEAST or not has_keys(generator):
        return generator.integers(0, 2**64, size=size, dtype=np.uint64)
    return key_stream(fresh_key(generator), size, buffer)


def fresh_key(generator: np.random.Generator) -> Key:
    """Draw a key that nothing else uses."""
    return generator.integers(0, 2**32, size=8, dtype=np.uint32)


def buffer_length(size: int) -> int:
    """Return the length of a buffer for so many words: whole groups of blocks."""
    return -(-size // GROUP) * GROUP


def key_stream(key: Key, size: int, buffer: Words | None = None) -> Words:
    """Return the first words of the stream of a key, with nonce and counter from zero."""
    words = np.empty(buffer_length(size), dtype=np.uint64) if buffer is None else buffer
    halves = words.view(np.uint32)
    parts = even_parts(buffer_length(size) // GROUP, _PART // GROUP)
    jobs = [
        (start, stop, 0, key, halves[2 * GROUP * start : 2 * GROUP * stop]) for start, stop in parts
    ]
    run_parts(fill_groups, jobs)
    return words[:size]


@intrinsic
def _rounds(context: Any, address: Any, to: Any) -> Any:
    """Do all rounds of blocks side by side, a vector for each of 16 words; write block by block."""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        lanes = ir.VectorType(ir.IntType(32), _LANES)
        starts = [builder.inttoptr(each, lanes.as_pointer()) for each in arguments]
        places, written = (
            [builder.gep(start, [ir.Constant(ir.IntType(32), i)]) for i in range(16)]
            for start in starts
        )
        first = [builder.load(place, align=4) for place in places]
        x = list(first)

        def step(a: int, b: int, c: int, bits: int) -> None:
            x[a] = builder.add(x[a], x[b])
            mixed = builder.xor(x[c], x[a])
            left, right = (ir.Constant(lanes, [each] * _LANES) for each in (bits, 32 - bits))
            x[c] = builder.or_(builder.shl(mixed, left), builder.lshr(mixed, right))

        for _ in range(_DOUBLE_ROUNDS):
            for a, b, c, d in _QUARTERS:
                step(a, b, d, 16)
                step(c, d, b, 12)
                step(a, b, d, 8)
                step(c, d, b, 7)
        x = [builder.add(each, before) for each, before in zip(x, first, strict=True)]
        for half in (1, 2, 4):  # turn words by blocks: exchange halves, twice as large each time
            upper = ir.Constant(
                lanes, [k + _LANES - half if k & half else k for k in range(_LANES)]
            )
            lower = ir.Constant(
                lanes, [k + _LANES if k & half else k + half for k in range(_LANES)]
            )
            x = [
                builder.shuffle_vector(x[k - half], x[k], lower)
                if k & half
                else builder.shuffle_vector(x[k], x[k + half], upper)
                for k in range(16)
            ]
        for lane in range(_LANES):  # which has its first words in one vector, then the others
            builder.store(x[lane], written[2 * lane], align=4)
            builder.store(x[_LANES + lane], written[2 * lane + 1], align=4)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), code


@compiled
def fill_groups(start: int, stop: int, stream: int, key: Key, out: Key) -> None:
    """Fill `out` with groups of blocks; `stream` is the upper half of the counter of all of them.

    A block is made of constants, the key, the counter in two words, and a nonce of zero.
    """
    x = np.zeros((16, _LANES), dtype=np.uint32)
    for lane in range(_LANES):
        for i in range(4):
            x[i, lane] = _CONSTANTS[i]
        for i in range(8):
            x[4 + i, lane] = key[i]
    assert len(out) >= 2 * GROUP * (stop - start)
    for group in range(start, stop):
        for lane in range(_LANES):
            block = group * _LANES + lane
            x[12, lane] = block & 0xFFFFFFFF
            x[13, lane] = stream + (block >> 32)
        _rounds(x.ctypes.data, out.ctypes.data + 8 * GROUP * (group - start))
