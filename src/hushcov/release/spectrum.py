"""Eigenvalues of a release, and how far errors of its entries move them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.postprocess import Matrix, is_sparse, multiply_outer
from hushcov.postprocess.structure import tridiagonals
from hushcov.release.view import View, ratio

_ALL = 1_000  # features up to which every eigenvalue is computed
_LARGEST, _SMALLEST = 30, 10  # eigenvalues that are looked for where there are more features
_LANCZOS_STEPS = 60
_PRECISE = 0.001  # of an eigenvalue, as a share of the largest
_LARGEST_FACTOR = 1e150  # of variances; products of two stay in the range of doubles


@dataclass(frozen=True, eq=False)
class Eigenvalues:
    """Eigenvalues from the largest on; `low` are the smallest ones where there is a gap."""

    values: FloatArray
    low: FloatArray
    n_features: int

    @property
    def complete(self) -> bool:
        """Whether these are all eigenvalues."""
        return len(self.values) == self.n_features


def spectrum(view: View) -> Eigenvalues | None:
    """Return the eigenvalues in units of released standard deviations; None if they fail."""
    d, matrix, factors = len(view.scale), view.matrix, view.factors
    # A variance of nearly nothing, which is noise, may leave the range of doubles.
    if not (np.square(factors) < _LARGEST_FACTOR).all():
        return None
    if not np.isfinite(factors * (matrix @ factors)).all():  # without a copy of the matrix
        return None
    if not len(view.shown.pairs):
        return Eigenvalues(np.sort(matrix.diagonal() * factors**2)[::-1], np.empty(0), d)
    if d <= _ALL:
        dense = matrix.toarray() if is_sparse(matrix) else matrix.copy()
        multiply_outer(dense, factors)
        return Eigenvalues(np.linalg.eigvalsh(dense)[::-1], np.empty(0), d)
    return Eigenvalues(*_extreme(matrix, factors), d)


def _extreme(matrix: Matrix, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest and the smallest eigenvalues that a bounded number of steps finds."""
    columns = factors[:, None]
    inner, left = tridiagonals(
        lambda x: columns * (matrix @ (columns * x)), len(factors), 1, _LANCZOS_STEPS
    )
    # Zero beside the diagonal: all that there is was found.
    steps = 1 + int(np.argmin(np.append(np.diag(inner[0], 1), 0.0) > 0))
    values, vectors = np.linalg.eigh(inner[0, :steps, :steps])
    # How far each value is from a true one at most.
    residuals = np.abs(left[0] * vectors[-1])
    sure = residuals <= _PRECISE * np.abs(values).max()
    most = len(sure) // 2
    top = max(1, min(most, _LARGEST, int(np.argmin(np.append(sure[::-1], False)))))
    bottom = max(1, min(most, _SMALLEST, int(np.argmin(np.append(sure, False)))))
    return values[::-1][:top], values[:bottom][::-1]


def error_reach(view: View) -> float | None:
    """Return how far errors of the entries may move an eigenvalue; None without one noise level.

    Noise and sampling error of the entries shown make a symmetric matrix of independent entries.
    Its norm is about twice the largest root of a row's summed variances.
    """
    noise, n = view.release.noise_sd, view.release.n_sampled
    if noise is None or n is None:
        return None
    inverse = ratio(np.ones_like(view.scale), view.deviation**2)
    if is_sparse(view.matrix):
        pattern = (view.matrix != 0).astype(np.float64)
        partners, around = pattern @ np.ones(len(inverse)) - 1, pattern @ inverse - inverse
    else:
        partners, around = np.full(len(inverse), len(inverse) - 1.0), inverse.sum() - inverse
    pairs = (noise[0] * noise[0]) * inverse * np.maximum(around, 0.0) + np.maximum(partners, 0) / n
    reach = 2 * math.sqrt(float((pairs + (noise[1] * inverse) ** 2 + 2 / n).max()))
    return reach if math.isfinite(reach) else None
