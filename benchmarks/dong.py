"""Reproduce the errors of GaussCov, SeparateCov and AdaptiveCov (Dong, Liang, Yi, NeurIPS 2022).

    python benchmarks/dong.py --output results/dong.json

First table: n = 50,000, rho = 0.1, Frobenius error against X'X/n, mean of `--runs`, through the
public estimator with the paper's constants, beside numbers from a run of the published algorithms.
Second table: AdaptiveCov as published (sparse vector technique, its own bounds on noise) against
`method="adaptive"` with either constants, on the same records. `--quick` leaves out d = 1000.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from pathlib import Path

import numpy as np

from hushcov._version import __version__
from hushcov.accounting.gaussian import gaussian_epsilon
from hushcov.estimators.separate import SeparateCovariance
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.separate import draw_transcript, matrix_noise, separate_parameters
from hushcov.records import FeatureGrid, open_records, row_bounded_gram

N_RECORDS, RHO, DELTA = 50_000, 0.1, 1e-6
# (features, buckets): raw Gauss, Gauss with eigenvalues clipped, Separate.
PUBLISHED = {
    (200, 1): (0.0127, 0.0119, 0.0153),
    (200, 4): (0.0127, 0.0091, 0.0028),
    (1000, 1): (0.0632, 0.0465, 0.0204),
}
ADAPTIVE = [(200, 1), (200, 2), (200, 4), (200, 8), (1000, 1)]
# Features, records, whether tails are heavy; the norm bound is generous.
SMALL = [(d, n, heavy) for d in (5, 10, 20, 50) for n in (1000, 20_000) for heavy in (False, True)]
SMALL_RHO = 0.025


def main() -> None:
    arguments = parse_arguments()
    warnings.filterwarnings("ignore", message="random_state was given")
    published = reproduce(arguments.runs, quick=arguments.quick)
    adaptive = compare(arguments.runs, quick=arguments.quick)
    result = {
        "benchmark": "dong",
        "runs": arguments.runs,
        "published": published,
        "adaptive": adaptive,
        "hushcov": __version__,
        "numpy": np.__version__,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {arguments.output}")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results/dong.json"))
    return parser.parse_args()


def reproduce(runs: int, *, quick: bool) -> list[dict]:
    rows = []
    print("case                   | method        | published | measured | ratio")
    for (d, buckets), expected in PUBLISHED.items():
        if quick and d > 200:
            continue
        errors: dict[str, list[float]] = {"Gauss": [], "Gauss clipped": [], "Separate": []}
        for seed in range(runs):
            X = zipf_records(N_RECORDS, d, buckets, seed)
            truth = X.T @ X / len(X)
            errors["Gauss"].append(distance(raw_gauss(X, seed), truth))
            for name, method in (("Gauss clipped", "gauss"), ("Separate", "separate")):
                found = fitted(X, RHO, 1.0, seed, method=method, constants="paper")
                errors[name].append(distance(found.covariance_, truth))
        trace = float(np.trace(truth))
        for (name, values), number in zip(errors.items(), expected, strict=True):
            measured = statistics.mean(values)
            rows.append(
                {"d": d, "trace": trace, "method": name, "published": number, "errors": values}
            )
            print(
                f"d = {d:4d}, trace {trace:6.4f} | {name:13s} | {number:.4f}    | {measured:.5f}  "
                f"| {measured / number:.3f}",
                flush=True,
            )
    return rows


def compare(runs: int, *, quick: bool) -> list[dict]:
    rows = []
    print("case                          | as published | paper    | sound    | error of zero")
    cells = [(f"d = {d}, {b} buckets", RHO, 1.0, (d, b)) for d, b in ADAPTIVE]
    cells += [
        (f"d = {d}, n = {n}, {'heavy' if heavy else 'normal'}", SMALL_RHO, None, (d, n, heavy))
        for d, n, heavy in SMALL
    ]
    for name, rho, bound, about in cells:
        if quick and about[0] > 200:
            continue
        errors: dict[str, list[float]] = {"published": [], "paper": [], "sound": [], "zero": []}
        # Small cells vary more from run to run, and cost less.
        for seed in range(runs if bound is not None else 8 * runs):
            X = zipf_records(N_RECORDS, *about, seed) if bound else small_records(*about, seed)
            norm = bound or (8.0 if about[2] else 4.0) * math.sqrt(about[0])
            truth = X.T @ X / len(X)
            generator = np.random.default_rng([seed, 1])
            errors["published"].append(distance(published_adaptive(X, rho, norm, generator), truth))
            for constants in ("paper", "sound"):
                found = fitted(X, rho, norm, seed, method="adaptive", constants=constants)
                errors[constants].append(distance(found.covariance_, truth))
            errors["zero"].append(float(np.linalg.norm(truth)))
        rows.append({"case": name, "rho": rho, "errors": errors})
        means = {key: statistics.mean(values) for key, values in errors.items()}
        print(
            f"{name:29s} | {means['published']:.3g}".ljust(45)
            + f"| {means['paper']:.3g}".ljust(11)
            + f"| {means['sound']:.3g}".ljust(11)
            + f"| {means['zero']:.3g}",
            flush=True,
        )
    return rows


def zipf_records(n: int, d: int, buckets: int, seed: int) -> np.ndarray:
    """Records of norm 2^(b + 1 - buckets), bucket b as often as 1/(b + 1)^3 of them says."""
    rng = np.random.default_rng([seed, d, buckets])
    X = rng.standard_normal((n, d)) @ rng.random((d, d))
    X -= X.mean(axis=0)
    shares = 1 / np.arange(1, buckets + 1) ** 3
    ends = np.round(np.cumsum(shares) / shares.sum() * n).astype(int)
    bucket = np.searchsorted(ends, np.arange(n), side="right")
    return X * (2.0 ** (bucket + 1 - buckets) / np.linalg.norm(X, axis=1))[:, None]


def small_records(d: int, n: int, heavy: bool, seed: int) -> np.ndarray:
    """Standard normal records; or t-distributed ones with 3 degrees and decreasing scales."""
    rng = np.random.default_rng([seed, d, n, heavy])
    X = rng.standard_normal((n, d))
    if heavy:
        X *= rng.standard_t(3, (n, 1)) / math.sqrt(3) / np.arange(1, d + 1)
    return X


def fitted(X: np.ndarray, rho: float, row_norm: float, seed: int, **how: str) -> SeparateCovariance:
    return SeparateCovariance(
        epsilon=gaussian_epsilon(math.sqrt(2 * rho), DELTA),
        delta=DELTA,
        feature_scale=1.0,
        row_norm=row_norm,
        assume_centered=True,
        store_precision=False,
        random_state=seed,
        **how,
    ).fit(X)


def raw_gauss(X: np.ndarray, seed: int) -> np.ndarray:
    """The noisy matrix before its eigenvalues are clipped, which no estimator hands out."""
    n, d = X.shape
    epsilon = gaussian_epsilon(math.sqrt(2 * RHO), DELTA)
    inputs = ReleaseInputs(n, d, min(5, d), epsilon, DELTA)
    parameters = separate_parameters(inputs, method="gauss", constants="paper", row_norm=1.0)
    grid = FeatureGrid(np.ones(d), parameters.radius, parameters.half_width)
    gram = row_bounded_gram(open_records(X), grid, parameters.norm_bound)
    noise = matrix_noise(parameters, "gauss", parameters.norm_bound)
    generator = np.random.default_rng(seed)
    return draw_transcript(generator, gram, None, noise).gram * parameters.unit


def distance(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth))


def published_adaptive(X, rho: float, r: float, rng: np.random.Generator) -> np.ndarray:
    """AdaptiveCov in doubles, from its description: for comparison, not for use.

    A noisy trace, then the sparse vector technique over octaves of the norm, from r downwards,
    until what clipping takes off exceeds the noise; then the better method at twice that norm, with
    3/4 of the budget. Bounds on noise hold with probability 0.9, as in the published code.
    """
    (n, d), beta = X.shape, 0.1
    norms = np.linalg.norm(X, axis=1)
    X, norms = X * np.minimum(1, r / norms)[:, None], np.minimum(norms, r)
    trace = (np.sum(norms**2) + 2 * r**2 / math.sqrt(rho) * rng.standard_normal()) / n
    trace += r**2 * math.sqrt(8 / rho * math.log(8 / beta)) / n
    trace = min(max(trace, 1e-16), r**2)
    rest = 0.75 * rho
    gauss, vectors, values = noise_terms(n, d, trace, rest, 0.75 * beta)
    octave = np.ceil(np.log2(norms / r) - 1e-9)
    epsilon = math.sqrt(rho) / 2
    stop, k = rng.laplace(scale=2 / epsilon), 0
    while k > -80:
        beyond = octave[octave > k]
        bias = np.sum(4.0**beyond - 4.0**k)
        noise = n * min(4.0**k * gauss, 2.0**k * vectors / r + 4.0**k * values)
        if bias - noise + rng.laplace(scale=4 / epsilon) >= stop:
            break
        k -= 1
    separate = 2.0**k * vectors / r + 4.0**k * values < 4.0**k * gauss
    radius = r * min(2.0 ** (k + 1), 1.0)
    X = X * np.minimum(1, radius / norms)[:, None]
    return published_release(X, radius, rest, rng, separate=separate)


def noise_terms(
    n: int, d: int, trace: float, rho: float, beta: float
) -> tuple[float, float, float]:
    """Errors per squared norm: Gauss; eigenvectors, times the norm once less; eigenvalues."""
    half = math.log(2 / beta)
    eta = math.sqrt(d + 2 * math.sqrt(d * half) + 2 * half)
    theta = min((math.log(d) / d) ** 0.3, 0.5)
    nu = 2 * math.sqrt(d) + 6 * math.sqrt(math.log(d) / math.log1p(theta))
    nu = (1 + theta) * nu + math.sqrt(2 * (half + math.log(2)))
    omega = d**2 + 2 * math.sqrt(d * half) * (1 + math.sqrt(2 * (d - 1))) + 6 * half
    return (
        math.sqrt(omega / rho) / n,
        2**1.25 * math.sqrt(trace * nu / n) / rho**0.25 / 6,
        math.sqrt(2 / rho) * eta / n,
    )


def published_release(
    X: np.ndarray, r: float, rho: float, rng: np.random.Generator, *, separate: bool
) -> np.ndarray:
    n, d = X.shape
    S = X.T @ X / n
    sigma = math.sqrt(2) * r**2 / n / math.sqrt(rho if separate else 2 * rho)
    noise = np.triu(rng.standard_normal((d, d))) * sigma
    values, vectors = np.linalg.eigh(S + noise + np.triu(noise, 1).T)
    if separate:
        values = np.linalg.eigvalsh(S) + sigma * rng.standard_normal(d)
    return (vectors * np.clip(values, 0, r**2)) @ vectors.T


if __name__ == "__main__":
    main()
