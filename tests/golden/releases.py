"""Seeded releases of every estimator, as digests: a change of the tree must not change a bit.

python -m tests.golden.releases            # compares with releases.json
python -m tests.golden.releases --write    # after a change that is meant to change them
"""

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

# Last bits of a covariance depend on it; the tests have one thread, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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
    rows, gaps = records(4000, 6), records(4000, 6)
    gaps[::50, 2] = np.nan
    scale = {"feature_scale": 2.0 ** np.arange(-2, 4.0), "assume_centered": True}
    default, screened = hushcov.PrivateSparseCovariance, hushcov.ScreenedCovariance
    gaussian, separate = hushcov.GaussianCovariance, hushcov.SeparateCovariance
    two = {"row_sparsity": 2}
    made = {
        "default": (default, two),
        "default, nothing said": (default, {}),
        "default, sparse": (default, {"sparse_output": True}),
        "default, gaps": (default, two),
        "default, no nulls": (default, two | {"drop_nulls": False}),
        "screened": (screened, two),
        "screened, sparse": (screened, two | {"sparse_output": True}),
        "gaussian": (gaussian, {}),
        "gaussian, threshold": (gaussian, scale | {"threshold": "universal"}),
        "zero means": (gaussian, {"assume_centered": True}),
        "multiscale": (
            hushcov.MultiscaleCovariance,
            two | {"scale": 10.0, "constants": "calibrated"},
        ),
        "row top-k": (hushcov.RowTopKCovariance, two),
        "separate": (separate, {}),
        "separate, gauss": (separate, {"method": "gauss"}),
        "coinpress": (hushcov.CoinPressCovariance, {}),
        "one that shares nothing": (default, two | {"mechanism": "multiscale"}),
    }
    pure = hushcov.EigenSamplingCovariance(epsilon=1.0, random_state=7, **scale)
    return {"eigenvector sampling": (pure, rows)} | {
        name: (cls(**options, **BUDGET, **FREE), gaps if "gaps" in name else rows)
        for name, (cls, options) in made.items()
    }


def digest(array: object) -> str:
    if is_sparse(array):
        return digest(np.concatenate([array.indptr, array.indices, array.data]))
    array = np.ascontiguousarray(array)
    return hashlib.sha256(array.tobytes() + str(array.shape).encode()).hexdigest()[:16]


def releases() -> dict[str, dict[str, object]]:
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
