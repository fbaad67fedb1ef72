"""Ways to make a noisy band of correlations positive semidefinite: their changes and errors.

    python benchmarks/studies/export_psd.py

prints the table of docs/outputs.md, "Export". The truth is a chain of linked features with
signs, as along a genome: neighbours are correlated by beta(6, 1) draws, and one in ten is a place
of recombination. Of it the pairs within the band are known, with normal noise. About a minute.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from hushcov.postprocess import project_psd
from hushcov.postprocess.bands import mend_band, mend_dense

NOISES = (0.005, 0.02, 0.05)


def chain(d: int, rng: np.random.Generator) -> np.ndarray:
    near = np.where(rng.random(d) < 0.1, rng.uniform(0, 0.3, d), rng.beta(6, 1, d))
    place = np.cumsum(np.log(near))
    sign = rng.choice([-1.0, 1.0], d)
    return np.exp(-np.abs(place[:, None] - place)) * sign[:, None] * sign


def lags(d: int) -> np.ndarray:
    return np.abs(np.arange(d)[:, None] - np.arange(d))


def banded(matrix: np.ndarray, width: int) -> np.ndarray:
    """The matrix with zeros beyond the band, made positive semidefinite as `export` does."""
    d = len(matrix)
    band = np.zeros((d, width + 1))
    for lag in range(width + 1):
        band[: d - lag, lag] = np.diag(matrix, lag)
    mended, result = mend_band(band), np.eye(d)
    for lag in range(1, width + 1):
        beside = np.diag(mended[: d - lag, lag], lag)
        result += beside + beside.T
    return result


def shrunk(matrix: np.ndarray) -> np.ndarray:
    return mend_dense(matrix, rounds=0)


def clipped(matrix: np.ndarray) -> np.ndarray:
    found = project_psd(matrix)
    deviation = np.sqrt(np.diag(found))
    return found / np.multiply.outer(deviation, deviation)


def in_blocks(matrix: np.ndarray, size: int, way: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    result = np.zeros_like(matrix)
    for start in range(0, len(matrix), size):
        block = slice(start, start + size)
        result[block, block] = way(matrix[block, block])
    return result


def ways(width: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return {
        "none: as released": lambda matrix: matrix,
        "export (default)": lambda matrix: banded(matrix, width),
        "export, blocks of 100": lambda matrix: in_blocks(matrix, 100, lambda m: banded(m, width)),
        "all entries by one factor": shrunk,
        "triangular window, one factor": lambda matrix: shrunk(
            matrix * np.maximum(1 - lags(len(matrix)) / (width + 1), 0)
        ),
        "eigenvalues clipped, no zeros left": clipped,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=400)
    parser.add_argument("--width", type=int, default=20)
    options = parser.parse_args()
    d, width = options.features, options.width
    rng = np.random.default_rng(1)
    truth = chain(d, rng)
    noise = np.triu(rng.standard_normal((d, d)), 1)
    noise += noise.T
    for sd in NOISES:
        released = np.clip((truth + sd * noise) * (lags(d) <= width), -1, 1)
        np.fill_diagonal(released, 1.0)
        least = np.linalg.eigvalsh(released)[0]
        print(f"noise {sd}: smallest eigenvalue {least:.2f}, norm {np.linalg.norm(truth, 2):.1f}")
        for name, way in ways(width).items():
            found = way(released)
            change, error = found - released, found - truth
            print(
                f"| {sd} | {name} | {np.linalg.norm(change, 2):.2f} | {np.abs(change).max():.2f} | "
                f"{np.linalg.norm(change):.1f} | {np.linalg.norm(error, 2):.2f} | "
                f"{np.linalg.norm(error):.1f} | {np.linalg.eigvalsh(found)[0]:.0e}"
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
