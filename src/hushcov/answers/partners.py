"""Which features a question can use, and what must be said of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import listed
from hushcov._words import counted
from hushcov.answers.tables import feature_names
from hushcov.answers.uncertain import Uncertain, uncertain
from hushcov.exceptions import ParameterError
from hushcov.postprocess import is_sparse, values_at
from hushcov.release import Release
from hushcov.release.findings import estimate, interval_holds, rule_of, scales_of

# Which part of the pairs released are weak ones, and how far those that are not may be from zero,
# in terms of them.
_WEAKEST, _OF_WEAKEST = 0.1, 0.5


def refuse_unknown(release: Release, name: str, features: IntArray) -> None:
    """Refuse features of which nothing is known."""
    lost = [int(each) for each in features if nothing_known(release)[each]]
    if lost:
        raise ParameterError(
            f"{name} must be features that were found, got {_names(release, lost)}, which do not "
            "vary or could not be told from noise: leave out such features."
        )


def nothing_known(release: Release) -> BoolArray:
    """Features that are constant, were not found, or have a variance that is not positive."""
    lost = (scales_of(release) == 0) | ~(release.integers.diagonal() > 0)
    lost[list(release.making.unresolved)] = True
    return np.asarray(lost)


def partners(release: Release, target: int) -> IntArray:
    """Features whose pair with the target was found, the strongest first."""
    d = release.n_features
    _, threshold = rule_of(release)
    others = np.delete(np.arange(d), target)
    others = others[~nothing_known(release)[others]]
    values = values_at(release.integers, np.full(len(others), target), others) * release.unit
    strength = np.abs(values) / np.sqrt(release.integers.diagonal()[others])
    found = (np.abs(values) > threshold) & (values != 0)
    return np.asarray(others[found][np.argsort(-strength[found], kind="stable")])


def factors_shape(release: Release) -> FloatArray | None:
    """The estimate where it is made of factors, which say more than the values; None elsewhere."""
    structure = release.making.structure
    if structure is None or structure.rank == 0:
        return None
    matrix = estimate(release)
    return None if is_sparse(matrix) else np.asarray(matrix)


def shape_of(shape: FloatArray | None, part: Uncertain) -> FloatArray | None:
    """An estimate of the whole for the features of a part, in units of their deviations."""
    if shape is None:
        return None
    unit = np.multiply.outer(part.deviations, part.deviations)
    return np.asarray(shape[np.ix_(part.features, part.features)] / unit)


def through_factors(release: Release) -> str:
    """What must be said of coefficients that factors gave."""
    assert release.making.structure is not None
    rank = counted(release.making.structure.rank, "factor")
    return (
        f"Coefficients are read through {rank} that the features have in common, since noise "
        "drowns each by itself: together they predict, and none has an interval."
    )


def with_missing(release: Release, features: IntArray) -> Uncertain:
    """The part of a release for these features, in which pairs that were not released are unsure.

    They count as zero, and how far they may be from it is seen in the weakest pairs that were
    released: had weaker ones been found, they would be there.
    """
    part = uncertain(release, features)
    if part.known.all():
        return part
    unit = np.multiply.outer(part.deviations, part.deviations)
    doubt = missing_sd(release) * unit
    return replace(part, noise_sd=np.where(part.known, part.noise_sd, doubt))


def missing_sd(release: Release) -> float:
    """About how large correlations are that were not released, as a standard deviation."""
    if release.selected is None or release.selected.shape[1] == 0:
        return 0.0 if release.selected is None else 1.0
    rows, columns = release.selected
    variance = release.integers.diagonal()
    known = (variance[rows] > 0) & (variance[columns] > 0)
    rows, columns = rows[known], columns[known]
    values = np.abs(values_at(release.integers, rows, columns))
    values = values / np.sqrt(variance[rows].astype(float) * variance[columns])
    return _OF_WEAKEST * float(np.quantile(values, _WEAKEST)) if len(values) else 1.0


def assumed_zero(part: Uncertain) -> int:
    """How many pairs were not released, and count as zero."""
    return int(np.count_nonzero(~part.known)) // 2


def doubts(release: Release, features: IntArray, n_zero: int) -> list[str]:
    """What must be said of an answer that uses these features, in sentences."""
    said = []
    fails = [int(each) for each in features if not interval_holds(release)[each]]
    if fails:
        said.append(
            f"Too much was taken off large values of {_names(release, fails)}: intervals may miss."
        )
    if n_zero:
        said.append(
            f"{counted(n_zero, 'pair')} of these features did not stand out, and count as "
            f"correlations of 0, give or take {missing_sd(release):.2g}."
        )
    return said


def _names(release: Release, features: list[int]) -> str:
    return listed([feature_names(release)[each] for each in features])
