"""Time and memory of a fit against the bare matrix product on the same data.

    python benchmarks/guards/fit.py

n = 100,000, d = 1,000, k = 5, data in memory, mean and scales known (and, beside it, unknown).
Ratios to `X.T @ X` in float64, measured in turn in the same run; the first fit of each size also
plans, later ones find the plan in the cache, so the cache is emptied before each.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import numpy as np

from hushcov import GaussianCovariance, PrivateSparseCovariance, ScreenedCovariance
from hushcov.fit import comparison
from hushcov.fit import reference as predicting
from hushcov.fit.gaussian import plan as gaussian
from hushcov.fit.screened import plan as screened
from hushcov.paper import plan as multiscale
from hushcov.simulate import gaussian_records, sparse_covariance


def forget_plans() -> None:
    """Empty the caches, so that every fit pays for its plan."""
    for function in (
        comparison.forecast,
        screened.plan_screened,
        screened.screened_parameters,
        gaussian.predict_gaussian,
        gaussian._spectrum,
        predicting._drawn,
        multiscale.rough_multiscale,
        predicting.reference,
    ):
        function.cache_clear()


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    truth = sparse_covariance("random", arguments.features, 5)
    X = gaussian_records(truth, arguments.records)
    known = {"feature_scale": np.sqrt(np.diag(truth)), "assume_centered": True}
    budget = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 5}
    budget |= {"on_hopeless": "warn", "on_large_delta": "warn"}
    fits = {
        "screened, known": ScreenedCovariance(**budget, **known),
        "auto, known": PrivateSparseCovariance(**budget, **known),
        "auto, unknown": PrivateSparseCovariance(**budget),
        "Gaussian, known": GaussianCovariance(**budget, **known),
    }
    for fit in fits.values():  # compile
        fit.set_params(**({"feature_scale": 1.0} if fit.feature_scale is not None else {}))
        fit.fit(X[:2000, :50])
        fit.set_params(**({"feature_scale": known["feature_scale"]} if fit.feature_scale else {}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ratios: dict[str, list[float]] = {name: [] for name in [*fits, "numpy.cov"]}
    for _ in range(arguments.rounds):
        product = min(seconds(lambda: X.T @ X) for _ in range(2))
        for name, fit in fits.items():
            forget_plans()
            ratios[name].append(seconds(lambda fit=fit: fit.fit(X)) / product)
        ratios["numpy.cov"].append(seconds(lambda: np.cov(X, rowvar=False)) / product)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"X.T @ X takes {product:.2f} s; ratios to it, median and range:")
    for name, values in ratios.items():
        print(
            f"  {name:18s} {statistics.median(values):5.2f}  {min(values):.2f}..{max(values):.2f}"
        )
    print(f"peak memory beyond the data, numpy.cov included: {(after - before) / 1024:.0f} MB")


if __name__ == "__main__":
    main()
