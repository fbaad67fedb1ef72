"""Glucose along the day: gaps filled and sensors checked, from one private release with a band.

    python examples/glucose.py [--records N] [--epsilon E] [--figure PATH]

Simulated: sensors on 50,000 people, which read glucose every quarter of an hour. A record is one
day of a person: 96 logarithms less what is usual for the person at that time, over the person's
usual deviation, both from the week before. What happens at breakfast says nothing about supper
then: readings more than six hours apart hardly covary, which is public knowledge, and no budget is
spent on them. The covariance is released once. Gaps, alarms and correlations use the release alone:
post-processing is free.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import PrivateSparseCovariance
from hushcov.report.style import BLUE, GREEN, VERMILION, caption, new_figure, tidy, write_png

QUARTERS, DAYS = 96, 7
BAND = 24  # quarters of an hour: six hours
PUBLIC = 500  # people who gave their readings away
HOUR = np.arange(QUARTERS) / 4
NIGHT = (HOUR < 6) | (HOUR >= 23)
MEALS = ((7.5, 0.25), (12.5, 0.30), (18.5, 0.35))  # hour, and rise in logarithms
GAPS = {"at night": 8, "in the morning": 32, "at noon": 52}  # first quarter of eight
GAP = AROUND = 8  # quarters that are missing, and that are used on either side
DIP, DIP_LENGTH, ALARM = 1.6, 3, 4.0  # usual deviations, quarters; alarms beyond so many noises
WITHIN = 1.645  # deviations on either side of a 90 % interval
CAPTION = (
    "What to see. Left: correlations of 50,000 days, released (above the diagonal; epsilon = 1, "
    "delta = 1e-6) and of the rows (below). Right: a new day with a gap of two hours; the filled "
    "readings with 90 % intervals, from the release alone."
)


def simulate(n_people: int, seed: int) -> tuple[Any, Any]:
    """Logarithms of glucose on one day of each person, and how unusual they are for the person."""
    generator = np.random.default_rng(seed)
    column = (n_people, 1)
    level = np.log(95) + 0.12 * generator.standard_normal(column)
    level += 0.15 * generator.exponential(1, column)  # some have diabetes
    habits = [
        (time + 0.8 * generator.standard_normal(column), size * generator.gamma(4, 0.25, column))
        for time, size in MEALS
    ]
    volatility = 0.10 * np.exp(0.3 * generator.standard_normal(n_people))
    total = squares = 0.0
    for _ in range(DAYS):
        day = _day(generator, habits, volatility)
        total, squares = total + day, squares + day**2
    usual = total / DAYS
    unrest = np.sqrt(np.mean(squares / DAYS - usual**2, axis=1, keepdims=True))
    today = _day(generator, habits, volatility)
    return level + today, (today - usual) / unrest


def _day(generator: Any, habits: Any, volatility: Any) -> Any:
    """Meals at about the usual time, a drift that is forgotten, and errors of the sensor."""
    n_people = len(volatility)
    rows = 0.03 * generator.standard_normal((n_people, QUARTERS))
    for time, size in habits:
        at = time + 0.5 * generator.standard_normal((n_people, 1))
        since = np.maximum(HOUR - at, 0) / 0.75
        rows += size * generator.gamma(4, 0.25, (n_people, 1)) * since * np.exp(1 - since)
    keeps, swing = np.where(NIGHT, 0.92, 0.80), np.where(NIGHT, 0.7, 1.0)
    drift = generator.standard_normal(n_people)
    for t in range(QUARTERS):
        drift = keeps[t] * drift + np.sqrt(1 - keeps[t] ** 2) * generator.standard_normal(n_people)
        rows[:, t] += volatility * swing[t] * drift
    return rows


def released(est: Any) -> tuple[Any, float]:
    """The covariance of a release, and the noise of a correlation in it."""
    covariance = est.covariance_
    covariance = covariance.toarray() if hasattr(covariance, "toarray") else covariance
    deviation = np.sqrt(np.diag(covariance))
    noise = est.noise_sd_
    noise = noise.toarray() if hasattr(noise, "toarray") else noise
    pairs = np.triu(noise / np.multiply.outer(deviation, deviation), 1)
    return covariance, float(np.median(pairs[pairs > 0]))


def correlations(covariance: Any) -> Any:
    """Of a covariance."""
    deviation = np.sqrt(np.diag(covariance))
    return covariance / np.multiply.outer(deviation, deviation)


def among(covariance: Any, noise: float, places: Any) -> Any:
    """The covariance of some readings, with as much on the diagonal as noise may have taken off."""
    part = covariance[np.ix_(places, places)]
    return part + np.diag(2 * noise * np.sqrt(len(places)) * np.diag(part))


def gap_weights(covariance: Any, noise: float, start: int) -> tuple[Any, Any, Any, Any]:
    """The missing readings, those around them, weights of these, and what they leave unknown."""
    gap = np.arange(start, start + GAP)
    known = np.r_[start - AROUND : start, start + GAP : start + GAP + AROUND]
    across = covariance[np.ix_(known, gap)]
    weights = np.linalg.solve(among(covariance, noise, known), across)
    unknown = np.diag(covariance)[gap] - np.sum(weights * across, axis=0)
    return gap, known, weights, np.sqrt(np.maximum(unknown, 0))


def gap_errors(covariance: Any, noise: float, days: Any) -> dict[str, float]:
    """Root mean square errors of filled gaps, in usual deviations."""
    found = {}
    for when, start in GAPS.items():
        gap, known, weights, _ = gap_weights(covariance, noise, start)
        found[when] = float(np.sqrt(np.mean((days[:, gap] - days[:, known] @ weights) ** 2)))
    return found


def covered(covariance: Any, noise: float, days: Any) -> float:
    """Share of missing readings inside their intervals, which should be 90 %."""
    inside = []
    for start in GAPS.values():
        gap, known, weights, unknown = gap_weights(covariance, noise, start)
        inside.append(np.abs(days[:, gap] - days[:, known] @ weights) <= WITHIN * unknown)
    return float(np.mean(inside))


def straight_errors(days: Any) -> dict[str, float]:
    """The same with a straight line from the last reading to the next, which needs no release."""
    part = (np.arange(GAP) + 1) / (GAP + 1)
    found = {}
    for when, start in GAPS.items():
        line = np.multiply.outer(days[:, start - 1], 1 - part)
        line += np.multiply.outer(days[:, start + GAP], part)
        found[when] = float(np.sqrt(np.mean((days[:, start : start + GAP] - line) ** 2)))
    return found


def alarms(covariance: Any, noise: float, days: Any) -> float:
    """Share of nights in which some dip stands out: somebody lay on the sensor."""
    night = np.arange(BAND)
    inverse = np.linalg.inv(among(covariance, noise, night))
    largest = np.zeros(len(days))
    for shape in dips():
        score = days[:, night] @ (inverse @ shape[night])
        largest = np.maximum(largest, score / np.sqrt(shape[night] @ inverse @ shape[night]))
    return float(np.mean(largest > ALARM))


def dips() -> Iterator[Any]:
    """Dips that begin between one and five o'clock."""
    for start in range(4, 20):
        shape = np.zeros(QUARTERS)
        shape[start : start + DIP_LENGTH] = -DIP
        yield shape


def lain_on(days: Any, seed: int) -> Any:
    """The same nights, with a dip somewhere in each."""
    shapes = np.array(list(dips()))
    return days + shapes[np.random.default_rng(seed).integers(len(shapes), size=len(days))]


def draw(path: Path, covariance: Any, noise: float, rows: Any, day: Any) -> None:
    """Correlations, and a gap that was filled."""
    figure = new_figure(11, 5.2)
    left, right = figure.subplots(1, 2)
    both = np.triu(correlations(covariance)) + np.tril(np.corrcoef(rows.T), -1)
    ends = (0, 24, 24, 0)
    image = left.imshow(both, cmap="RdBu_r", vmin=-1, vmax=1, extent=ends)
    left.set(xlabel="time (hours)", ylabel="time (hours)", title="Correlation of readings")
    left.set(xticks=range(0, 25, 6), yticks=range(0, 25, 6))
    figure.colorbar(image, ax=left, shrink=0.8)
    start = GAPS["at noon"]
    gap, known, weights, unknown = gap_weights(covariance, noise, start)
    filled = day[known] @ weights
    right.plot(HOUR, day, "-", color="0.75", label="what it was")
    right.plot(HOUR[known], day[known], "o", color=BLUE, markersize=4, label="used")
    bars = WITHIN * unknown
    right.errorbar(HOUR[gap], filled, bars, fmt="s", color=VERMILION, label="filled in")
    right.axhline(0, color=GREEN, linewidth=1, label="usual for this person")
    right.set(xlabel="time (hours)", ylabel="glucose less the usual (usual deviations)")
    right.set(xlim=(8, 20), title="A gap of two hours")
    right.legend(frameon=False, fontsize=9)
    tidy(right)
    caption(figure, CAPTION, width=130)
    write_png(path, figure)


def main(arguments: list[str] | None = None) -> None:
    """Release once; fill gaps, watch sensors, and see where a band is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=50_000, help="people to simulate")
    parser.add_argument("--epsilon", type=float, default=1.0, help="privacy budget")
    parser.add_argument("--figure", type=Path, help="file to draw into")
    options = parser.parse_args(arguments)
    # Each row is made of one person's readings alone, so that nothing need be charged for it.
    today, rows = simulate(options.records, seed=3)
    _, later = simulate(4_000, seed=4)

    # The one look at the records. Everything after it is free.
    budget = {"epsilon": options.epsilon, "delta": 1e-6}
    est = PrivateSparseCovariance(**budget, bandwidth=BAND).fit(rows)
    print("One release:", str(est.release_.guarantee).splitlines()[0])
    covariance, noise = released(est)
    days = later - est.location_

    sample, public = np.cov(rows.T), np.cov(rows[:PUBLIC].T)
    ways = {
        "the release": (covariance, noise),
        "rows, without privacy": (sample, 0.0),
        f"{PUBLIC} public rows": (public, 0.0),
    }
    print("1. Correlations of readings two hours apart, at 3 and at 15 o'clock, by")
    for name, (matrix, _) in ways.items():
        night, noon = (correlations(matrix)[at, at + 8] for at in (12, 60))
        print(f"     {name:24} {night:6.2f} {noon:6.2f}")
    print("2. Error of gaps of two hours, filled in (usual deviations):", ", ".join(GAPS))
    for name, way in ways.items():
        print(f"     {name:24}", *(f"{each:6.3f}" for each in gap_errors(*way, days).values()))
    straight = straight_errors(days).values()
    print(f"     {'a straight line':24}", *(f"{each:6.3f}" for each in straight))
    print("3. Nights with an alarm (%), if somebody lay on the sensor, and if nobody did:")
    for name, way in ways.items():
        found = alarms(*way, lain_on(days, seed=5)), alarms(*way, days)
        print(f"     {name:24}", *(f"{100 * each:6.1f}" for each in found))
    print("4. Where a band is wrong: the days as they are, in which people differ all day long.")
    raw = np.cov(today.T)
    for name, knows in (("with the band", {"bandwidth": BAND}), ("without", {})):
        wrong, _ = released(PrivateSparseCovariance(**budget, **knows).fit(today))
        error = np.linalg.norm(wrong - raw, 2) / np.linalg.norm(raw, 2)
        print(f"     {name:24} is off by {100 * error:.0f} % of the size of the matrix")
    if options.figure:
        draw(options.figure, covariance, noise, rows, days[0])


if __name__ == "__main__":
    main()
