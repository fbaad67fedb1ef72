"""Seeded releases of every estimator, as digests: a change of the tree must not change a bit.

python -m tests.golden.releases            # compares with releases.json
python -m tests.golden.releases --write    # after a change that is meant to change them
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np

import hushcov
from hushcov.postprocess import is_sparse

FILE = Path(__file__).with_name("releases.json")
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 7}
FREE = {"on_hopeless": "warn"}


def records(n: int, d: int) -> np.ndarray:
    """Rows with related neighbours, an offset and other scales, the same everywhere."""
    rng = np.random.default_rng(20260115)
    rows = rng.standard_normal((n, d))
    rows[:, 1::2] += 0.7 * rows[:, : 2 * (d // 2) : 2]
    return np.round(rows * 2.0 ** np.arange(-2, d - 2)[None, :] + 3.0, 6)


def cases() -> dict[str, tuple[object, np.ndarray]]:
    """Name, estimator and rows of each."""
    rows, gaps = records(4000, 6), records(4000, 6)
    gaps[::50, 2] = np.nan
    scale = {"feature_scale": 2.0 ** np.arange(-2, 4.0), "assume_centered": True}
    return {
        "default": (hushcov.PrivateSparseCovariance(row_sparsity=2, **BUDGET, **FREE), rows),
        "default, nothing said": (hushcov.PrivateSparseCovariance(**BUDGET, **FREE), rows),
        "default, sparse": (
            hushcov.PrivateSparseCovariance(sparse_output=True, **BUDGET, **FREE),
            rows,
        ),
        "default, gaps": (
            hushcov.PrivateSparseCovariance(row_sparsity=2, drop_nulls=True, **BUDGET, **FREE),
            gaps,
        ),
        "screened": (hushcov.ScreenedCovariance(row_sparsity=2, **BUDGET, **FREE), rows),
        "screened, sparse": (
            hushcov.ScreenedCovariance(row_sparsity=2, sparse_output=True, **BUDGET, **FREE),
            rows,
        ),
        "gaussian": (hushcov.GaussianCovariance(**BUDGET, **FREE), rows),
        "gaussian, threshold": (
            hushcov.GaussianCovariance(threshold="universal", **scale, **BUDGET, **FREE),
            rows,
        ),
        "zero means": (hushcov.GaussianCovariance(assume_centered=True, **BUDGET, **FREE), rows),
        "multiscale": (
            hushcov.MultiscaleCovariance(
                row_sparsity=2, scale=10.0, constants="calibrated", **BUDGET, **FREE
            ),
            rows,
        ),
        "row top-k": (hushcov.RowTopKCovariance(row_sparsity=2, **BUDGET, **FREE), rows),
        "separate": (hushcov.SeparateCovariance(**BUDGET, **FREE), rows),
        "separate, gauss": (hushcov.SeparateCovariance(method="gauss", **BUDGET, **FREE), rows),
        "coinpress": (hushcov.CoinPressCovariance(**BUDGET, **FREE), rows),
        "eigenvector sampling": (
            hushcov.EigenSamplingCovariance(epsilon=1.0, random_state=7, **scale),
            rows,
        ),
        "one that shares nothing": (
            hushcov.PrivateSparseCovariance(
                row_sparsity=2, mechanism="multiscale", **BUDGET, **FREE
            ),
            rows,
        ),
    }


def digest(array: object) -> str:
    """Of the bytes of an array, dense or sparse."""
    if is_sparse(array):
        return digest(np.concatenate([array.indptr, array.indices, array.data]))
    array = np.ascontiguousarray(array)
    return hashlib.sha256(array.tobytes() + str(array.shape).encode()).hexdigest()[:16]


def releases() -> dict[str, dict[str, object]]:
    """What each fit gives, in digests and plain numbers."""
    found = {}
    for name, (estimator, rows) in cases().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(rows)
        release = estimator.release_
        guarantee = release.guarantee
        found[name] = {
            "mechanism": release.mechanism,
            "integers": digest(release.integers),
            "unit": release.unit,
            "noise_sd": None if release.noise_sd is None else list(release.noise_sd),
            "selected": None if release.selected is None else digest(release.selected),
            "covariance": digest(estimator.covariance_),
            "guarantee": [guarantee.transcript_epsilon, guarantee.transcript_delta],
            "events": [repr(event) for event in guarantee.events],
        }
    return found


def differences() -> list[str]:
    """What is not as in the file, in words."""
    expected, found = json.loads(FILE.read_text()), json.loads(json.dumps(releases()))
    return [
        f"{name}: {key}"
        for name in expected | found
        for key in (expected.get(name, {}) | found.get(name, {}))
        if expected.get(name, {}).get(key) != found.get(name, {}).get(key)
    ]


if __name__ == "__main__":
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(releases(), indent=1) + "\n")
    else:
        print("\n".join(differences()) or "all releases are as they were")
