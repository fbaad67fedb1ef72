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
_WIDEST = 500  # features of a matrix with names


def write_estimate(
    folder: Path, release: Release, covariance: Matrix, tables: str
) -> list[tuple[str, str]]:
    """Write the estimate and its tables, and return their names with what they hold."""
    if is_sparse(covariance):
        sparse.save_npz(folder / SPARSE_COVARIANCE, covariance)
        name = SPARSE_COVARIANCE
    else:
        np.save(folder / COVARIANCE, covariance)
        name = COVARIANCE
    written = [(name, "the estimate, in the unit of the data")]
    if tables == "none":
        return written
    of_pairs = pairs_table(release, LEVEL, most=_MOST_ROWS)
    write_table(of_pairs, folder / f"pairs.{tables}")
    words = "pairs with covariance, correlation, intervals and noise, the strongest first"
    written.append((f"pairs.{tables}", words))
    write_table(variances_table(release, LEVEL), folder / f"variances.{tables}")
    written.append((f"variances.{tables}", "the features with variances and intervals"))
    if release.n_features <= _WIDEST:
        write_table(covariance_table(release, covariance), folder / f"covariance.{tables}")
        written.append((f"covariance.{tables}", "the estimate with the names of the features"))
    return written
