"""What lies beside a release in its folder: the estimate, and tables that other programs load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from hushcov.answers.entries import covariance_table, pairs_table, variances_table
from hushcov.answers.tables import write_table
from hushcov.postprocess import Matrix, is_sparse
from hushcov.release import Release
from hushcov.release.findings import LEVEL

#: Names of the estimate's file, and what tables may be written as.
COVARIANCE, SPARSE_COVARIANCE = "covariance.npy", "covariance.npz"
FORMATS = ("csv", "parquet", "none")
_MOST_ROWS = 100_000  # of pairs
_MOST_PACKED = 5_000_000  # entries of a sparse matrix for which it is worth the time
_WIDEST = 500  # features of a matrix with names
_WORDS = {
    "pairs": "pairs with covariance, correlation, intervals and noise, the strongest first",
    "variances": "the features with variances, standard deviations and intervals",
    "covariance": "the estimate with the names of the features",
}


def write_estimate(folder: Path, covariance: Matrix) -> tuple[str, str]:
    """Write the estimate, and return its file's name with what it holds."""
    name = SPARSE_COVARIANCE if is_sparse(covariance) else COVARIANCE
    if is_sparse(covariance):
        sparse.save_npz(folder / name, covariance, compressed=covariance.nnz <= _MOST_PACKED)
    else:
        np.save(folder / name, covariance)
    return name, "the estimate, in the unit of the data"


def write_tables(
    folder: Path, release: Release, covariance: Matrix, tables: str
) -> list[tuple[str, str]]:
    """Write tables in one of `FORMATS`, and return their names with what they hold."""
    if tables == "none":
        return []
    with np.errstate(all="ignore"):  # a release may hold any finite numbers
        found = {
            "pairs": pairs_table(release, LEVEL, most=_MOST_ROWS),
            "variances": variances_table(release, LEVEL),
        }
    if release.n_features <= _WIDEST:
        found["covariance"] = covariance_table(release, covariance)
    for name, table in found.items():
        write_table(table, folder / f"{name}.{tables}")
    words = dict(_WORDS)
    if release.selected is not None and release.selected.shape[1] > _MOST_ROWS:
        words["pairs"] = (
            f"the strongest {_MOST_ROWS:,} of {release.selected.shape[1]:,} pairs, with intervals; "
            "covariance.npz has all"
        )
    return [(f"{name}.{tables}", words[name]) for name in found]
