"""Eigenvalues of the released correlations, and how far noise reaches among them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from hushcov._arrays import FloatArray
from hushcov.postprocess import Matrix, is_sparse, multiply_outer
from hushcov.release.findings import Findings, ratio
from hushcov.report.html.markup import (
    Markup,
    counted,
    figure,
    join,
    number,
    table,
    tag,
)
from hushcov.report.html.plot import Axis, dots, frame, picture, text
from hushcov.report.html.subject import Subject

_ALL = 1_000  # features up to which every eigenvalue is computed
_LARGEST, _SMALLEST = 30, 10  # eigenvalues that are looked for where there are more features
_STEPS = 60
_PRECISE = 0.001  # of an eigenvalue, as a share of the largest
_LISTED = 10
_LARGEST_FACTOR = 1e150  # of variances; products of two stay in the range of doubles
_WIDTH, _HEIGHT = 420, 320
_PLOT = (52, 400, 268, 34)  # left, right, bottom, top


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
    values, residuals = _lanczos(matrix, factors, min(_STEPS, len(factors)))
    sure = residuals <= _PRECISE * np.abs(values).max()
    most = len(sure) // 2
    top = max(1, min(most, _LARGEST, int(np.argmin(np.append(sure[::-1], False)))))
    bottom = max(1, min(most, _SMALLEST, int(np.argmin(np.append(sure, False)))))
    return values[::-1][:top], values[:bottom][::-1]


def _lanczos(matrix: Matrix, factors: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """Approximate eigenvalues in rising order, and how far each is from a true one at most.

    Of the matrix times the factors of rows and columns, which is not formed. Lanczos' method with
    full orthogonalization, always from the same vector.
    """
    d = len(factors)
    vector = np.sin(1.7 * np.arange(d) + 1)
    basis = np.zeros((steps, d))
    diagonal, beside = np.zeros(steps), np.zeros(steps)
    for step in range(steps):
        basis[step] = vector / np.linalg.norm(vector)
        vector = factors * (matrix @ (factors * basis[step]))
        diagonal[step] = vector @ basis[step]
        for _ in range(2):  # once is not enough in floating point
            vector -= basis[: step + 1].T @ (basis[: step + 1] @ vector)
        beside[step] = np.linalg.norm(vector)
        if beside[step] <= 1e-10 * np.abs(diagonal).max(initial=1.0):  # all there is was found
            steps = step + 1
            break
    values, vectors = linalg.eigh_tridiagonal(diagonal[:steps], beside[: steps - 1])
    return np.asarray(values, dtype=np.float64), np.abs(beside[steps - 1] * vectors[-1])


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


def spectrum_section(subject: Subject, findings: Findings) -> Markup:
    """The largest eigenvalues, and what may be said of noise among them."""
    found = spectrum(findings)
    if found is None:
        return tag("p", "The eigenvalues could not be computed.")
    reach = error_reach(subject, findings)
    return join(
        tag(
            "p",
            "Eigenvalues of the released correlations: the variance along the principal "
            "directions, with every feature at standard deviation 1. Unrelated features all have "
            "1; a value far above it means that many features move together.",
        ),
        _scree(found, reach),
        tag("p", _noise(findings, found, reach)),
        _negative(found),
        _listed(found),
    )


def _scree(found: Spectrum, reach: float | None) -> Markup:
    values = found.values
    left, right, bottom, top = _PLOT
    x = Axis(0.5, len(values) + 0.5, left, right, whole=True)
    band = (1 - reach, 1 + reach) if reach is not None else (1.0, 1.0)
    low, high = min(0.0, float(values.min())), max(1.2, float(values.max()))
    y = Axis(1.05 * low, 1.08 * high, bottom, top)
    shade = None
    if reach is not None:
        shade = tag(
            "rect",
            x=left,
            y=y.at(band[1]),
            width=right - left,
            height=max(y.at(band[0]) - y.at(band[1]), 1.0),
            class_="band",
        )
    points = [(x.at(rank), y.at(value)) for rank, value in enumerate(values.tolist(), 1)]
    radius = 3.5 if len(points) <= 60 else 2.0
    parts = [
        shade,
        frame(x, y, "rank of the eigenvalue", "eigenvalue (no unit)"),
        tag("path", d=f"M{left} {y.at(1.0):.1f}H{right}", class_="reference"),
        text(right, y.at(1.0) - 5, "unrelated features: 1", anchor="end"),
        dots(points, "dot", radius=radius),
    ]
    part = (
        ""
        if found.complete
        else f" Only the largest {len(values)} of {found.n_features:,} that a bounded number of "
        "steps finds, equal ones once."
    )
    shaded = "" if shade is None else " Shaded: as far from 1 as errors of the entries reach."
    caption = (
        "What to see: how far the dots lie from 1. The largest eigenvalue is "
        f"{number(float(values[0]))}.{shaded}{part}"
    )
    label = "Eigenvalues of the released correlations, the largest first"
    return figure(picture(_WIDTH, _HEIGHT, label, *(p for p in parts if p is not None)), caption)


def _noise(findings: Findings, found: Spectrum, reach: float | None) -> str:
    if reach is None:
        return "Which of them are noise cannot be said: this mechanism has no single noise level."
    if is_sparse(findings.matrix):
        return (
            "Noise and sampling error of the values shown move an eigenvalue by about "
            f"{number(reach, 2)} at most. Two eigenvalues that are closer than this cannot be told "
            "apart. What was not found is not counted."
        )
    above = int(np.count_nonzero(found.values > 1 + reach))
    return (
        "If no two features were related, noise and sampling error alone would spread the "
        f"eigenvalues over about 1 \N{PLUS-MINUS SIGN} {number(reach, 2)}: what lies inside may be "
        f"noise alone. Above it: {above}."
    )


def _negative(found: Spectrum) -> Markup | None:
    smallest = np.concatenate([found.values, found.low])
    negative = int(np.count_nonzero(smallest < -1e-9))
    if not negative:
        return None
    at_least = "" if found.complete else "At least "
    return tag(
        "p",
        f"{at_least}{counted(negative, 'eigenvalue')} below zero, down to "
        f"{number(float(smallest.min()))}: a covariance has none, so these are errors, of noise or "
        "of pairs that were missed. Making the estimate positive semidefinite removes them.",
    )


def _listed(found: Spectrum) -> Markup:
    rows = [[str(rank), number(value)] for rank, value in enumerate(found.values[:_LISTED], 1)]
    if len(found.low):
        rows.append(["smallest", number(float(found.low[-1]))])
    elif found.n_features > _LISTED:
        rows.append([f"{found.n_features:,} (smallest)", number(float(found.values[-1]))])
    grid = table("Largest eigenvalues", ("rank", "eigenvalue"), rows)
    return tag("details", tag("summary", "The largest eigenvalues as numbers"), grid)
