"""Eigenvalues of the released correlations, and how far noise reaches among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.postprocess import Matrix, is_sparse, multiply_outer
from hushcov.postprocess.eigen import tridiagonals
from hushcov.release.findings import Findings, ratio
from hushcov.report.charts import spectrum_chart
from hushcov.report.pages import number
from hushcov.report.subject import Subject

_ALL = 1_000  # features up to which every eigenvalue is computed
_LARGEST, _SMALLEST = 30, 10  # eigenvalues that are looked for where there are more features
_LANCZOS_STEPS = 60
_PRECISE = 0.001  # of an eigenvalue, as a share of the largest
_LISTED = 10
_LARGEST_FACTOR = 1e150  # of variances; products of two stay in the range of doubles


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues from the largest on; `low` are the smallest ones where there is a gap."""

    values: FloatArray
    low: FloatArray
    n_features: int

    @property
    def complete(self) -> bool:
        """Whether these are all eigenvalues."""
        return len(self.values) == self.n_features


def spectrum(findings: Findings) -> Spectrum | None:
    """Eigenvalues of the estimate in units of released standard deviations; None if they fail."""
    d, matrix, factors = len(findings.scale), findings.matrix, findings.factors
    # A variance of nearly nothing, which is noise, may leave the range of doubles.
    if not (np.square(factors) < _LARGEST_FACTOR).all() or not _finite(matrix, factors):
        return None
    if not len(findings.shown.pairs):
        return Spectrum(np.sort(matrix.diagonal() * factors**2)[::-1], np.empty(0), d)
    if d <= _ALL:
        dense = matrix.toarray() if is_sparse(matrix) else matrix.copy()
        multiply_outer(dense, factors)
        return Spectrum(np.linalg.eigvalsh(dense)[::-1], np.empty(0), d)
    return Spectrum(*_extreme(matrix, factors), d)


def _finite(matrix: Matrix, factors: FloatArray) -> bool:
    """Whether the matrix and its image are made of numbers; without a copy of it."""
    return bool(np.isfinite(factors * (matrix @ factors)).all())


def _extreme(matrix: Matrix, factors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The largest and the smallest eigenvalues that a bounded number of steps finds."""
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


def error_reach(subject: Subject, findings: Findings) -> float | None:
    """About the most that errors of the entries move an eigenvalue; None if noise is not one level.

    Noise and sampling error of the entries shown make a symmetric matrix of independent entries.
    Its norm is about twice the largest root of a row's summed variances.
    """
    noise, n = subject.release.noise_sd, subject.n_records
    if noise is None or n is None:
        return None
    inverse = ratio(np.ones_like(findings.scale), findings.deviation**2)
    if is_sparse(findings.matrix):
        pattern = (findings.matrix != 0).astype(np.float64)
        partners, around = pattern @ np.ones(len(inverse)) - 1, pattern @ inverse - inverse
    else:
        partners, around = np.full(len(inverse), len(inverse) - 1.0), inverse.sum() - inverse
    pairs = (noise[0] * noise[0]) * inverse * np.maximum(around, 0.0) + np.maximum(partners, 0) / n
    reach = 2 * math.sqrt(float((pairs + (noise[1] * inverse) ** 2 + 2 / n).max()))
    return reach if math.isfinite(reach) else None


def spectrum_section(subject: Subject, findings: Findings) -> dict[str, Any] | None:
    """The largest eigenvalues, how far errors reach, and how many are below zero."""
    found = spectrum(findings)
    if found is None:
        return None
    reach = error_reach(subject, findings)
    values = np.concatenate([found.values, found.low])
    return {
        "found": found,
        "reach": reach,
        "sparse": is_sparse(findings.matrix),
        "above": 0 if reach is None else int(np.count_nonzero(found.values > 1 + reach)),
        "negative": int(np.count_nonzero(values < -1e-9)),
        "smallest": float(values.min()),
        "rows": _listed(found),
        "chart": spectrum_chart(found.values, reach),
    }


def _listed(found: Spectrum) -> list[list[str]]:
    rows = [[str(rank), number(value)] for rank, value in enumerate(found.values[:_LISTED], 1)]
    if len(found.low):
        rows.append(["smallest", number(float(found.low[-1]))])
    elif found.n_features > _LISTED:
        rows.append([f"{found.n_features:,} (smallest)", number(float(found.values[-1]))])
    return rows
