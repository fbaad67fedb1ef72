"""Releases by hand: a matrix, errors of sampling, and noise of a known deviation."""

from dataclasses import replace

import numpy as np
from scipy import stats

from documents import guarantee
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Release
from hushcov.release.document import Making
from statistics_helpers import FALSE_ALARM

UNIT = 1e-9


def document(covariance, *, n=10_000, noise=1e-9, rng=None, **changes):
    """A release of a covariance: exact without `rng`, else one of n normal records with noise."""
    d = len(covariance)
    scale = np.sqrt(np.diag(covariance))
    matrix = covariance / np.multiply.outer(scale, scale)
    if rng is not None:
        root = np.linalg.cholesky(matrix)
        bartlett = np.tril(rng.standard_normal((d, d)), -1)
        bartlett[np.diag_indices(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
        matrix = root @ bartlett @ bartlett.T @ root.T / n
        normal = np.tril(rng.standard_normal((d, d)), -1) * noise
        matrix = matrix + normal + normal.T + np.diag(rng.standard_normal(d) * noise * 2**0.5)
    release = Release(
        mechanism="gaussian",
        integers=np.rint(matrix / UNIT).astype(np.int64),
        unit=UNIT,
        guarantee=guarantee(),
        parameters={},
        feature_scale=scale,
        noise_sd=(noise, noise * 2**0.5),
        making=Making(n_records=n),
    )
    return replace(release, **changes)


def sparse_document(covariance, **changes):
    """The same, exact, where pairs that are zero were not selected and are not stored."""
    release = document(covariance)
    rows, columns = np.nonzero(np.triu(release.integers, 1))
    values = release.integers[rows, columns]
    integers = symmetric_sparse((rows, columns), values, np.diag(release.integers))
    return replace(release, integers=integers, selected=np.array([rows, columns]), **changes)


def fewest(number, share=0.94):
    """Of so many intervals, at least this many cover, but once in a million.

    Nominal is 0.95; approximations may take 0.01 off.
    """
    return int(stats.binom.ppf(FALSE_ALARM, number, share))
