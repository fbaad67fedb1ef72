"""Very many random words at once: ChaCha20 (RFC 8439), many blocks side by side, on all cores.

A private source makes a few words at a time. Where millions are needed it gives a fresh key
instead, and the words are the stream of that key. Whoever cannot tell ChaCha20 from fair bits
cannot tell these from fair bits either: its own output is as good a key as any. The stream of a key
is used once, from its beginning, and the key is forgotten. Other generators are for tests and
simulations, and make their words themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._compiled import compiled, even_parts, intrinsic, run_parts
from hushcov.noise.entropy import has_keys

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


def random_words(generator: np.random.Generator, size: int, buffer: Words | None = None) -> Words:
    """`size` independent uniform words of 64 bits, in a buffer of `room_for(size)` where given."""
    if size < _LEAST or not has_keys(generator):
        return generator.integers(0, 2**64, size=size, dtype=np.uint64)
    return key_stream(fresh_key(generator), size, buffer)


def fresh_key(generator: np.random.Generator) -> Key:
    """A key that nothing else uses."""
    return generator.integers(0, 2**32, size=8, dtype=np.uint32)


def room_for(size: int) -> int:
    """How long a buffer for so many words is: whole groups of blocks."""
    return -(-size // GROUP) * GROUP


def key_stream(key: Key, size: int, buffer: Words | None = None) -> Words:
    """The first words of the stream of a key, with nonce and counter from zero."""
    words = np.empty(room_for(size), dtype=np.uint64) if buffer is None else buffer
    halves = words.view(np.uint32)
    parts = even_parts(room_for(size) // GROUP, _PART // GROUP)
    jobs = [
        (start, stop, 0, key, halves[2 * GROUP * start : 2 * GROUP * stop]) for start, stop in parts
    ]
    run_parts(fill_groups, jobs)
    return words[:size]


@intrinsic
def _rounds(context: Any, address: Any) -> Any:
    """All rounds of blocks side by side, in place: 16 vectors, one for each word of the blocks."""
    from numba import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        lanes = ir.VectorType(ir.IntType(32), _LANES)
        start = builder.inttoptr(arguments[0], lanes.as_pointer())
        places = [builder.gep(start, [ir.Constant(ir.IntType(32), i)]) for i in range(16)]
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
        for each, place, before in zip(x, places, first, strict=True):
            builder.store(builder.add(each, before), place, align=4)
        return context.get_dummy_value()

    return types.void(types.intp), code


@compiled
def fill_groups(start: int, stop: int, stream: int, key: Key, out: Key) -> None:
    """Fill `out` with groups of blocks; `stream` is the upper half of the counter of all of them.

    A block is made of constants, the key, the counter in two words, and a nonce of zero.
    """
    x = np.zeros((16, _LANES), dtype=np.uint32)
    for group in range(start, stop):
        for lane in range(_LANES):
            for i in range(4):
                x[i, lane] = _CONSTANTS[i]
            for i in range(8):
                x[4 + i, lane] = key[i]
            block = group * _LANES + lane
            x[12, lane] = block & 0xFFFFFFFF
            x[13, lane] = stream + (block >> 32)
            x[14, lane] = x[15, lane] = 0
        _rounds(x.ctypes.data)
        own = out[2 * GROUP * (group - start) : 2 * GROUP * (group - start + 1)]
        for lane in range(_LANES):
            for i in range(16):
                own[16 * lane + i] = x[i, lane]
