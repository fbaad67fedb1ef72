"""Unusual rows by their Mahalanobis distance, from one private release.

    python examples/outliers.py [--records N] [--figure PATH]

Simulated: 50 readings of 40,000 patients, in groups of five that rise and fall together. The
covariance is released once, and used on 1,000 new rows that are not sensitive, of control samples
say. Which of them are unusual, in what, and what a missing reading would be: all that is
post-processing, and free.

Distances of the patients themselves are another matter. They are computed from sensitive rows, so
publishing them would be a new release, which nothing charges and no guarantee covers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from hushcov import PrivateSparseCovariance
from hushcov.report.style import caption, new_figure, write_png

READINGS, GROUP, NEW, MIXED = 50, 5, 1_000, 50
NORMAL = np.linspace(10, 500, READINGS)  # public reference values of the readings
SWAPPED = np.arange(READINGS) % GROUP < 2  # readings that a mixed-up row has from another one
LIMIT = stats.chi2.ppf(0.999, READINGS)  # one usual row in a thousand lies above
CAPTION = (
    "What to see. Squared distances of 1,000 new rows by the true covariance and by the release "
    "(epsilon = 1, delta = 1e-6). Triangles: rows that mix readings of two samples, each of them "
    "usual by itself. Dashed: the limit that one usual row in a thousand exceeds."
)


def true_covariance() -> Any:
    """Groups of correlation 0.8, at standard deviations of 5 to 15 per cent."""
    group = np.arange(READINGS) // GROUP
    correlation = 0.8 * np.equal.outer(group, group) + 0.2 * np.eye(READINGS)
    deviation = NORMAL * np.random.default_rng(0).uniform(0.05, 0.15, READINGS)
    return correlation * np.multiply.outer(deviation, deviation)


def draw(path: Path, true: Any, released: Any) -> None:
    """Distances by the release against those by the truth."""
    figure = new_figure(6.4, 6)
    axes = figure.subplots()
    axes.plot(true[MIXED:], released[MIXED:], "o", color="C0", markersize=3, label="usual")
    axes.plot(true[:MIXED], released[:MIXED], "^", color="C1", markersize=5, label="mixed up")
    axes.axhline(LIMIT, color="0.4", linestyle="--", linewidth=1)
    axes.set(xlabel="squared distance by the true covariance (no unit)", ylabel="by the release")
    axes.legend()
    caption(figure, CAPTION, width=78)
    write_png(path, figure)


def main(arguments: list[str] | None = None) -> None:
    """Release once; then look at rows that are not sensitive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=40_000, help="rows to simulate")
    parser.add_argument("--figure", type=Path, help="file to draw into")
    options = parser.parse_args(arguments)
    truth, generator = true_covariance(), np.random.default_rng(1)
    new = generator.multivariate_normal(NORMAL, truth, NEW)
    new[:MIXED, SWAPPED] = new[MIXED : 2 * MIXED, SWAPPED]
    patients = generator.multivariate_normal(NORMAL, truth, options.records)

    # The one look at the patients. Everything after it is free.
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(patients)
    print("One release:", str(est.release_.guarantee).splitlines()[0])
    if np.linalg.eigvalsh(est.covariance_)[0] <= 0:
        raise SystemExit("Noise left a direction without variance: too few records for distances.")

    distance = est.mahalanobis(new)  # from the released means
    centred = new - est.location_
    exact = np.einsum("ri,ij,rj->r", new - NORMAL, np.linalg.inv(truth), new - NORMAL)
    largest = np.abs(centred / np.sqrt(np.diag(est.covariance_))).max(axis=1)
    print(f"1. Alarms in {MIXED} mixed-up rows, and false ones in {NEW - MIXED} others, by")
    for name, alarm in (
        ("distances of the release", distance > LIMIT),
        ("distances of the true covariance", exact > LIMIT),
        ("each reading alone", largest > stats.norm.isf(0.0005 / READINGS)),
    ):
        print(f"     {name:34}{alarm[:MIXED].sum():3} and {alarm[MIXED:].sum()}")
    # A reading given all others has mean and variance that follow from the precision matrix.
    precision = est.precision_
    expected = centred - centred @ precision / np.diag(precision)
    surprise = np.abs(centred - expected) * np.sqrt(np.diag(precision))
    named = SWAPPED[surprise[:MIXED].argmax(axis=1)].mean()
    print(f"2. The most surprising reading of a mixed-up row was a swapped one in {named:.0%}.")
    error = (expected - centred)[MIXED:].std(axis=0) / centred[MIXED:].std(axis=0)
    print(f"3. A missing reading, filled in from the others, is off by {error.mean():.2f} of its")
    print("   standard deviation (0.50 if the covariance were known).")
    if options.figure:
        draw(options.figure, exact, distance)


if __name__ == "__main__":
    main()
