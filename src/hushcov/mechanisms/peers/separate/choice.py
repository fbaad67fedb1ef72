"""Which norm bound and which method suit the records, from noisy counts of their norms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.mechanisms.peers.separate.parameters import (
    MatrixNoise,
    SeparateParameters,
    matrix_noise,
)

_OCTAVES = 16  # of norms, below the norm bound
_BINS_PER_OCTAVE = 4
# Records of one length, such as normalised ones, differ by the rounding of their coordinates. Edges
# lie this much above halves and quarters of the norm bound, so that they are in one bin.
_MARGIN_BITS = 10
# The error that noisy eigenvectors cause, over sqrt(trace * norm of the noise): what the published
# code takes; its proof has 2.
_EIGENVECTOR_ERROR = 1 / 3
# Measured: eigenvectors cause no more than this share of the noise itself, and putting noisy
# eigenvalues in order takes off half of their error or more.
_LARGEST_EIGENVECTOR_ERROR = 0.8
_EIGENVALUE_ERROR = {"sound": 0.5, "paper": 1.0}


@dataclass(frozen=True)
class Choice:
    """A norm bound, in steps of the grid, and the method to use with it."""

    method: str
    norm_bound: int


def squared_edges(norm_bound: int) -> tuple[int, ...]:
    """Edges between the bins of squared norms, in increasing order, all below norm_bound^2.

    They are norm_bound^2 (1 + 2^-10) 2^(-i/2) rounded down, for i = 1, 2, ..: exact integers.
    """
    above = norm_bound**2 * (2**_MARGIN_BITS + 1)
    n_edges = _OCTAVES * _BINS_PER_OCTAVE
    edges = {math.isqrt(above**2 >> 2 * _MARGIN_BITS + i) for i in range(1, n_edges + 1)}
    return tuple(sorted(edge for edge in edges if 0 < edge < norm_bound**2))


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted Frobenius errors at every norm bound there is to choose, in released integers.

    `bias` is what a bound takes off longer records, and `gauss` the noise of the Gram matrix of
    "gauss". `vectors` and `values` are the errors due to noisy eigenvectors and eigenvalues of
    "separate", and `matrix` is the noise of the Gram matrix that its eigenvectors come from.
    """

    bias: FloatArray
    gauss: FloatArray
    matrix: FloatArray
    vectors: FloatArray
    values: FloatArray


def choose(parameters: SeparateParameters, noisy_counts: IntArray) -> Choice:
    """The norm bound with the least predicted error, and the better method at that bound.

    Privacy
    -------
    Post-processing of noisy counts; `docs/proofs/separate.md`, step 7.
    """
    found = predict(parameters, noisy_counts)
    # Cautiously: too large a bound costs more than too small a one, and noise may hide the trace.
    total = found.bias + np.minimum(found.gauss, found.vectors + found.values)
    best = int(np.argmin(total))
    separate = math.hypot(
        min(found.vectors[best], _LARGEST_EIGENVECTOR_ERROR * found.matrix[best]),
        _EIGENVALUE_ERROR[parameters.constants] * found.values[best],
    )
    method = "separate" if separate < found.gauss[best] else "gauss"
    squares = (*squared_edges(parameters.norm_bound), parameters.norm_bound**2)
    return Choice(method, math.isqrt(squares[best]))


def predict(parameters: SeparateParameters, noisy_counts: IntArray) -> Prediction:
    """Read bias and trace off the counts, and predict errors; noise grows with the squared bound.

    Privacy
    -------
    Post-processing of noisy counts; `docs/proofs/separate.md`, step 7.
    """
    d, bound = parameters.inputs.n_features, parameters.norm_bound
    edges = np.array([0, *squared_edges(bound), bound**2], dtype=np.float64)
    squares, typical = edges[1:], (edges[1:] + edges[:-1]) / 2
    counts = noisy_counts.astype(np.float64)
    bias = np.maximum(typical - squares[:, None], 0.0) @ counts
    trace = np.minimum(typical, squares[:, None]) @ counts
    shrunk = squares / bound**2
    plain, apart = (matrix_noise(parameters, method, bound) for method in ("gauss", "separate"))
    assert apart.eigenvalue_sigma is not None
    norm_of_noise = 2 * math.sqrt(d) * apart.sigma * shrunk
    return Prediction(
        bias=np.maximum(bias, 0.0),
        gauss=_frobenius(plain, d) * shrunk,
        matrix=_frobenius(apart, d) * shrunk,
        vectors=_EIGENVECTOR_ERROR * np.sqrt(np.maximum(trace, 0.0) * norm_of_noise),
        values=math.sqrt(d) * apart.eigenvalue_sigma * shrunk,
    )


def _frobenius(noise: MatrixNoise, d: int) -> float:
    """The root of the expected squared Frobenius norm of the noise of a Gram matrix."""
    return math.sqrt(d * (d - 1) * noise.sigma**2 + d * noise.diagonal_sigma**2)
