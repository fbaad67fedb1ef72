"""Laplace noise on integers, with exactly its law, from random bits and integer arithmetic.

A magnitude is remainder + scale * quotient. A remainder drawn uniformly and kept with probability
exp(-remainder/scale), and a quotient that grows while coins of probability 1/e show heads, give
the geometric law (Canonne, Kamath and Steinke 2020, arXiv 2004.00010, algorithm 2). A coin of
probability exp(-p/q) takes a comparison of integers for each term of the alternating series of
the exponential.
"""

from __future__ import annotations

import numpy as np

from hushcov._validation import check_integer

_WORD = 64


def discrete_laplace(generator: np.random.Generator, scale: int, size: int) -> list[int]:
    """Draw `size` independent integers X with P(X = j) proportional to exp(-|j|/scale), exactly.

    `scale` may be any positive integer, and draws are Python integers: nothing overflows. A draw
    depends on the generator only through independent fair bits.

    Privacy
    -------
    Let S be a vector of integers that moves by at most D in l1 norm between neighbouring datasets.
    For every vector s, P(S + X = s) is proportional to exp(-||s - S||_1/scale), with the same
    constant for all S. So S plus independent draws of this law is (D/scale)-DP.
    """
    cure = "scale the statistic so that its noise is a whole number of steps."
    scale = check_integer("scale", scale, at_least=1, cure=cure)
    size = check_integer("size", size, at_least=0, cure="ask for a number of draws.")
    return [_draw(generator, scale) for _ in range(size)]


def _draw(generator: np.random.Generator, scale: int) -> int:
    while True:
        remainder = _below(generator, scale)
        if not _coin(generator, remainder, scale):
            continue
        quotient = 0
        while _coin(generator, 1, 1):
            quotient += 1
        magnitude = remainder + scale * quotient
        if _below(generator, 2) == 0:
            return magnitude
        if magnitude > 0:  # there is one zero, not two
            return -magnitude


def _coin(generator: np.random.Generator, p: int, q: int) -> bool:
    """Draw heads with probability exp(-p/q), for 0 <= p <= q.

    The run of heads with probabilities x, x/2, x/3, .. reaches length k with probability x^k/k!, so
    its length is even with probability 1 - x + x^2/2 - .. = exp(-x).
    """
    k = 1
    while _below(generator, q * k) < p:
        k += 1
    return k % 2 == 1


def _below(generator: np.random.Generator, bound: int) -> int:
    """A uniform integer of 0 .. bound - 1: as many bits as bound - 1 has, until they are below."""
    bits = (bound - 1).bit_length()
    while True:
        drawn = 0
        for _ in range(-(-bits // _WORD)):
            drawn = drawn << _WORD | int(generator.integers(0, 2**_WORD, dtype=np.uint64))
        drawn >>= -bits % _WORD
        if drawn < bound:
            return drawn
