"""Which features a question can be asked of, and their matrix with its noise, sparse or dense."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov._words import counted
from hushcov.answers.tables import MOST_ASKED, feature_names, positions
from hushcov.answers.uncertain import check_noise, uncertain
from hushcov.exceptions import ParameterError
from hushcov.postprocess import hard_threshold, is_sparse, lost_features, multiply_outer
from hushcov.release import Release
from hushcov.release.coverage import NORMAL, coverage
from hushcov.release.findings import in_scales, interval_holds, scales_of

_MOST_LISTED = 5  # features in a sentence


@dataclass(frozen=True, eq=False)
class Part:
    """The matrix of some features in the unit of a question, and the law of its error.

    `variance` holds the variances of the entries' noise, and `unit` what the features were divided
    by: their standard deviations where the matrix is one of correlations, else one number, so that
    squares of the covariance can be told apart from 0 and infinity. `complete`
    says whether all pairs are there as they were released; else those that did not stand out are
    zero.
    """

    features: IntArray
    names: FloatArray
    matrix: Matrix
    variance: Matrix
    unit: FloatArray
    n: int
    excess: float
    correlation: bool
    complete: bool
    factors: FloatArray  # scales over units: the noise of a pair is the product of two, times sd
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def usable(release: Release) -> BoolArray:
    """Features that vary, beyond what noise makes of a constant."""
    if release.noise_sd is None:
        return np.ones(release.n_features, dtype=bool)
    variance = release.integers.diagonal() * release.unit
    found = ~lost_features(variance, release.noise_sd[1]) & (scales_of(release) > 0)
    found[list(release.making.unresolved)] = False
    return np.asarray(found)


def chosen(release: Release, features: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Places of the features asked for, all that can be used if None, and who is left out."""
    good, names = usable(release), feature_names(release)
    if features is None and np.count_nonzero(good) > MOST_ASKED:
        raise ParameterError(
            f"features is required for a release of more than {MOST_ASKED:,} features, got None of "
            f"{release.n_features:,}: name those to look at, such as a window of columns."
        )
    if features is None:
        return np.flatnonzero(good), tuple(names[~good])
    found = positions(release, features)
    bad = [repr(str(name)) for name in names[found[~good[found]]]]
    if bad:
        raise ParameterError(
            f"features must have a variance that stands out of the noise, and {_listed(bad)} "
            f"{'has' if len(bad) == 1 else 'have'} none: leave {'it' if len(bad) == 1 else 'them'} "
            "out."
        )
    return found, ()


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more


def part(release: Release, features: Any, *, correlation: bool, fewest: int = 2) -> Part:
    """The part of a release for a question."""
    places, left_out = chosen(release, features)
    if len(places) < fewest:
        raise ParameterError(
            f"features must be at least {fewest} that vary beyond the noise, got {len(places)}: "
            "there is nothing to ask of fewer."
        )
    if is_sparse(release.integers):
        matrix, noise, n, excess = _sparse(release, places)
    else:
        found = uncertain(release, places)
        matrix, noise, n, excess = found.values, found.noise_sd, found.n, found.excess
        if release.selected is not None:
            gone = _below(release, places)
            matrix[gone] = noise[gone] = 0.0
    unit = np.sqrt(matrix.diagonal())
    if not correlation:  # a power of two, so that no digit changes
        unit = np.full(len(places), 2.0 ** np.round(np.log2(unit.max())))
    matrix, noise = matrix.copy(), noise.copy()
    multiply_outer(matrix, 1 / unit)
    multiply_outer(noise, 1 / unit)
    return Part(
        features=places,
        names=feature_names(release)[places],
        matrix=matrix,
        variance=noise * noise,
        unit=unit,
        n=n,
        excess=excess,
        correlation=correlation,
        complete=release.selected is None,
        factors=scales_of(release)[places] / unit,
        left_out=left_out,
        notes=_notes(release, places, left_out),
    )


def _below(release: Release, places: IntArray) -> BoolArray:
    """Pairs of these features that the estimate leaves at zero."""
    kept = hard_threshold(in_scales(release), release.making.threshold)
    gone = np.asarray(kept)[np.ix_(places, places)] == 0
    np.fill_diagonal(gone, False)
    return np.asarray(gone)


def _sparse(release: Release, places: IntArray) -> tuple[Matrix, Matrix, int, float]:
    """The same as `uncertain` gives, of the entries that are stored."""
    check_noise(release)
    kept = hard_threshold(in_scales(release), release.making.threshold)
    whole = sparse.coo_array(kept[places][:, places])
    at = places[whole.row], places[whole.col]
    variance = release.integers.diagonal() * release.unit
    law = coverage(release)
    deviation, left = law.errors(release, at, whole.data, variance)
    assert release.n_sampled is not None
    sampling = law.sampling_sd(at, whole.data, variance, release.n_sampled)
    of_noise = np.sqrt(np.maximum(deviation**2 - sampling**2, 0.0)) / left
    unit = scales_of(release)[at[0]] * scales_of(release)[at[1]]
    places_of = whole.row, whole.col
    values = sparse.csr_array((whole.data / left * unit, places_of), shape=whole.shape)
    noise = sparse.csr_array((of_noise * unit, places_of), shape=whole.shape)
    excess = float(max(law.kurtosis[places].max() / NORMAL - 1, 0.0))
    return values, noise, release.n_sampled, excess


def _notes(release: Release, places: IntArray, left_out: tuple[str, ...]) -> tuple[str, ...]:
    said = []
    if left_out:
        said.append(
            f"{counted(len(left_out), 'feature')} left out, whose variance does not stand out of "
            f"the noise: {_listed(list(left_out))}."
        )
    doubtful = feature_names(release)[places[~interval_holds(release)[places]]]
    if len(doubtful):
        said.append(
            "Intervals do not hold: bounds on records took off too much, or tails are heavy, of "
            f"{_listed(list(doubtful))}."
        )
    return tuple(said)
