"""Portfolio weights of least variance, from one private release of returns.

    python examples/portfolio.py [--records N] [--figure PATH]

Simulated: a desk's own returns of 80 assets in 16 sectors, less the market's; 20,000 rows, a year
of five-minute intervals, with heavy tails. No interval may be given away. The covariance is
released once. Weights, risks and sectors use the release alone: post-processing is free, however
much there is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from hushcov import PrivateSparseCovariance
from hushcov.postprocess import released_correlations
from hushcov.report.style import caption, new_figure, write_png

ASSETS, SECTORS = 80, 16
DEGREES = 5  # of freedom of Student's t: some moves are of ten standard deviations
CAPTION = (
    "What to see. Weights of least variance of 80 assets: from the release (epsilon = 1, delta = "
    "1e-6) against those from the true covariance. On the line both agree."
)


def true_covariance() -> Any:
    """Assets follow their sector more or less, at volatilities of their own, in basis points."""
    generator = np.random.default_rng(2)
    sector = np.arange(ASSETS) % SECTORS
    follows = generator.uniform(0.5, 0.9, ASSETS)
    correlation = np.multiply.outer(follows, follows) * np.equal.outer(sector, sector)
    np.fill_diagonal(correlation, 1.0)
    volatility = generator.uniform(5, 25, ASSETS)
    return correlation * np.multiply.outer(volatility, volatility)


def simulate(covariance: Any, n_records: int, seed: int) -> Any:
    """Returns of Student's t: normal ones, each row over a factor of its own."""
    generator = np.random.default_rng(seed)
    normal = generator.multivariate_normal(np.zeros(ASSETS), covariance, n_records)
    return normal / np.sqrt(generator.chisquare(DEGREES, (n_records, 1)) / (DEGREES - 2))


def least_variance(covariance: Any) -> Any:
    """Weights that add up to 1 and have the least variance."""
    weights = np.linalg.solve(covariance, np.ones(ASSETS))
    return weights / weights.sum()


def draw(path: Path, released: Any, true: Any) -> None:
    """Released weights against true ones."""
    figure = new_figure(6, 5.6)
    axes = figure.subplots()
    axes.axline((0, 0), slope=1, color="0.6", linewidth=1)
    axes.plot(100 * true, 100 * released, "o", markersize=5)
    axes.set(xlabel="weight from the true covariance (%)", ylabel="weight from the release (%)")
    axes.set_title("Portfolio of least variance")
    caption(figure, CAPTION, width=72)
    write_png(path, figure)


def main(arguments: list[str] | None = None) -> None:
    """Release once, and judge what follows by returns that came later."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000, help="rows to simulate")
    parser.add_argument("--figure", type=Path, help="file to draw into")
    options = parser.parse_args(arguments)
    truth = true_covariance()
    rows, later = simulate(truth, options.records, seed=3), simulate(truth, 50_000, seed=4)

    # The one look at the records, whose mean is zero. Everything after it is free.
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, assume_centered=True)
    released = est.fit(rows).covariance_
    print("One release:", str(est.release_.guarantee).splitlines()[0])

    if np.linalg.eigvalsh(released)[0] <= 0:
        print("1. No weights: some would have no variance by the release. It takes more rows.")
        return
    weights = least_variance(released)
    print("1. Volatility on later returns in basis points, with weights from")
    print(f"     the release               {(later @ weights).std():.2f}")
    print(f"     rows, without privacy     {(later @ least_variance(np.cov(rows.T))).std():.2f}")
    print(f"     the true covariance       {(later @ least_variance(truth)).std():.2f}")
    print(f"   and with equal weights      {later.mean(axis=1).std():.2f}")
    risks = np.sqrt(weights @ released @ weights), np.sqrt(released.mean())
    print(f"2. As predicted by the release: {risks[0]:.2f}, and {risks[1]:.2f} with equal weights.")
    correlation = released_correlations(released)
    n_groups, _ = connected_components(np.abs(correlation) > 0.2, directed=False)
    print(f"3. Sectors, as groups with correlations above 0.2: {n_groups} (there are {SECTORS}).")
    if options.figure:
        draw(options.figure, weights, least_variance(truth))


if __name__ == "__main__":
    main()
