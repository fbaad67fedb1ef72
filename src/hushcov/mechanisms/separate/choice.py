"""Which norm bound and which method suit the records, from noisy counts of their norms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov.mechanisms.separate.parameters import (
    MatrixNoise,
    SeparateParameters,
    matrix_noise,
)

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_OCTAVES = 16  # of norms, below the norm bound
_BINS_PER_OCTAVE = 4
# Records of one length, such as normalised ones, differ by the rounding of their coordinates. Edges
# lie this much above halves and quarters of the norm bound, so that they are in one bin.
_MARGIN_BITS = 10
# The error that noisy eigenvectors cause, over sqrt(trace * norm of the noise): what the published
# code takes; its proof has 2. Measured: it is not more than this share of the noise itself, and
# putting noisy eigenvalues in order takes off half of theirs or more.
_EIGENVECTOR_ERROR = 1 / 3
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


def choose(parameters: SeparateParameters, noisy_counts: IntArray) -> Choice:
    """The norm bound and the method with the least predicted Frobenius error.

    Privacy
    -------
    Post-processing of noisy counts; `docs/proofs/separate.md`, step 7.
    """
    bounds = np.array([*squared_edges(parameters.norm_bound), parameters.norm_bound**2])
    errors = predicted_errors(parameters, noisy_counts)
    best, method = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return Choice(("gauss", "separate")[int(method)], math.isqrt(int(bounds[best])))


def predicted_errors(parameters: SeparateParameters, noisy_counts: IntArray) -> FloatArray:
    """Predicted errors of both methods (columns) at the edges and the norm bound (rows).

    In units of the released integers. A bound costs the squared norms beyond it, and saves noise,
    which is proportional to its square.
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
    gauss = _frobenius(plain, d) * shrunk
    norm_of_noise = 2 * math.sqrt(d) * apart.sigma * shrunk
    vectors = np.minimum(
        _EIGENVECTOR_ERROR * np.sqrt(np.maximum(trace, 0.0) * norm_of_noise),
        _LARGEST_EIGENVECTOR_ERROR * _frobenius(apart, d) * shrunk,
    )
    values = _EIGENVALUE_ERROR[parameters.constants] * math.sqrt(d) * apart.eigenvalue_sigma
    separate = np.hypot(vectors, values * shrunk)
    errors = np.maximum(bias, 0.0)[:, None] + np.stack([gauss, separate], axis=1)
    return np.asarray(errors)


def _frobenius(noise: MatrixNoise, d: int) -> float:
    """The expected Frobenius norm of the noise of a Gram matrix, about."""
    return math.sqrt(d * (d - 1) * noise.sigma**2 + d * noise.diagonal_sigma**2)
