"""The regression of a declared target, for which a part of the budget was spent on its residual."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.answers.linear import AUTO_RIDGE, ChosenRidge, Linear, factor_of_first
from hushcov.answers.uncertain import Uncertain, check_noise
from hushcov.release import Release
from hushcov.release.estimate import scales_of

_ALL_OF_IT = 0.95  # a factor that is next to nothing


def of_declared(
    release: Release, part: Uncertain, found: Linear, width: float, ridge: float | str
) -> Linear:
    """Return the answer of the step, where `part` is what was declared; else the one that is there.

    Intervals are those of the step, unless the look hides what tells features apart: then the step
    moved nothing in these directions. `ridge` other than "auto" keeps its coefficients as they are.
    """
    law = _law(release, int(part.features[0]), part.features[1:])
    if law is None or ridge not in (AUTO_RIDGE, 0.0):
        return found
    unit = part.deviations[1:] / part.deviations[0]
    b, V = law[0] * unit, law[1] * np.multiply.outer(unit, unit)
    alone, kept = part.standardized(), 1.0
    if ridge == AUTO_RIDGE:
        P = alone.covariance[1:, 1:]
        by_noise = min(1.0, float((P * V).sum()) / max(float(b @ P @ b), 1e-300))
        kept = (1 - by_noise**2) * factor_of_first(alone, b)
        kept = 1.0 if kept > _ALL_OF_IT else kept
    explained = found.chosen.explained if found.chosen is not None else 0.0
    none = np.zeros(len(b), dtype=bool)
    made = ChosenRidge(kept * b, 0.0, kept, explained, none, declared=True)
    found = replace(found, coefficients=kept * b, chosen=made)
    if found.hidden is not None or found.quadric is None:
        return found
    inverse = np.linalg.inv(V + _of_losses(release, alone, b))
    W = np.empty((len(b) + 1, len(b) + 1))
    W[1:, 1:], W[0, 1:] = inverse, inverse @ b
    W[1:, 0], W[0, 0] = W[0, 1:], b @ inverse @ b - width**2
    return replace(found, quadric=W, centre=b)


def _of_losses(release: Release, part: Uncertain, b: FloatArray) -> FloatArray:
    """Return what coefficients may be off by because tails were shortened, beyond what is usual.

    The step shortens products, and counts what its own bound takes off. Columns whose tails the
    look has lost, beside the first matrix, may have other relations there.
    """
    look = release.making.look
    if look is None or part.lost is None:
        return np.zeros((len(b), len(b)))
    lost = part.lost - look.moments.bias * part.covariance
    tilde = np.concatenate([[1.0], -b])
    inverse = np.linalg.pinv(part.covariance[1:, 1:], rcond=1e-9, hermitian=True)
    size = max(float(tilde @ lost @ tilde), 0.0)
    found = size * inverse @ lost[1:, 1:] @ inverse
    values, vectors = np.linalg.eigh((found + found.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _law(release: Release, y: int, X: IntArray) -> tuple[FloatArray, FloatArray] | None:
    """Return coefficients on `X` and their covariance, in the unit of the data.

    None where the step is for another target, or for other features. Of a category that adds up to
    one, the last level may be left out: the others are compared with it then.
    """
    step = release.making.step
    if step is None or step.target != y:
        return None
    others = step.features[step.features != y]
    if not np.isin(X, others).all():
        return None
    turn = np.zeros((len(X), len(others)))
    turn[np.arange(len(X)), np.searchsorted(others, X)] = 1.0
    scale = scales_of(release)
    unit = scale[y] / scale[others]
    for place in np.setdiff1d(others, X):
        levels = [each for each in release.categories.values() if place in each]
        same = np.isin(X, levels[0]) if levels else np.zeros(len(X), dtype=bool)
        if not same.any():
            return None
        turn[same, np.searchsorted(others, place)] = -1.0
    turn *= unit
    root = turn @ step.root[: len(others)]
    variance = step.variance(check_noise(release)[1])
    return turn @ step.coefficients[: len(others)], variance * root @ root.T
