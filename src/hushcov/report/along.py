"""The section of a report on columns in a known order: along them, and some side by side."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.postprocess import is_noise, upper_pairs
from hushcov.report.heat import BINS, condense_band
from hushcov.report.pages import Subject
from hushcov.report.svg import chart_svg, map_svg

_DECAY = 500  # distances of the curve
_SIDE = 40  # columns of a window
_WINDOWS = 4
_HALF_NORMAL = math.sqrt(2 / math.pi)  # mean size of noise over its deviation
_MOST_BORDERS = 30  # chromosomes whose ends are drawn
_UPWARDS = "mean size of a correlation"


@dataclass(frozen=True, eq=False)
class Along:
    """Contents of the section on the order."""

    subject: Subject

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Pairs with their correlations; those that are noise are left out."""
        rows, columns, values = upper_pairs(self.subject.view.matrix)
        factors = np.where(self.subject.view.lost, 0.0, self.subject.view.factors)
        values = values * (factors[rows] * factors[columns])
        good = ~is_noise(values) & (values != 0)
        return rows[good], columns[good], values[good]

    @cached_property
    def reach(self) -> int:
        """How many columns apart the released pairs are at most."""
        return max(1, self.subject.release.bandwidth or 1)

    @property
    def by_distance(self) -> list[tuple[int, int, float]]:
        """For each distance in columns how many pairs there are, and their mean size."""
        rows, columns, values = self._pairs
        lag = columns - rows
        near = lag <= _DECAY
        counts = np.bincount(lag[near], minlength=2)
        sums = np.bincount(lag[near], np.abs(values[near]), minlength=2)
        there = np.flatnonzero(counts)
        return [(int(k), int(counts[k]), float(sums[k] / counts[k])) for k in there]

    @cached_property
    def noise(self) -> float | None:
        """The mean size that noise and sampling alone give a correlation."""
        release = self.subject.release
        if release.noise_sd is None or release.n_sampled is None:
            return None
        variance = release.variances
        usual = float(np.median(variance[variance > 0])) if (variance > 0).any() else 1.0
        return _HALF_NORMAL * math.hypot(release.noise_sd[0] / usual, release.n_sampled**-0.5)

    @property
    def _level(self) -> tuple[float, str] | None:
        return None if self.noise is None else (self.noise, "noise alone")

    @property
    def decay(self) -> str | None:
        """The curve of mean sizes by distance."""
        found = np.array(self.by_distance).T
        if found.size < 6:
            return None
        top = 1.15 * max(float(found[2].max()), self.noise or 0.0) or 1.0
        ends = found[0].min() - 0.5, found[0].max() + 0.5, 0.0, top
        titles, label = ("columns apart", _UPWARDS), "Mean size of correlations by distance"
        return chart_svg(found[0], found[2], label, titles, ends, level=self._level)

    @property
    def order(self) -> str:
        """Mean sizes along the columns, with the ends of chromosomes."""
        rows, columns, values = self._pairs
        release, d = self.subject.release, self.subject.n_features
        bins = min(BINS, d)
        place = (rows + columns) // 2 * bins // d
        counts = np.bincount(place, minlength=bins)
        sums = np.bincount(place, np.abs(values), minlength=bins)
        means = np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
        top = 1.2 * max(float(np.nan_to_num(means).max()), self.noise or 0.0) or 1.0
        along = release.chromosomes or ()
        borders = [i for i in range(1, len(along)) if along[i] != along[i - 1]]
        return chart_svg(
            (np.arange(bins) + 0.5) * d / bins,
            means,
            "Mean size of correlations along the columns",
            ("column" + "; lines: chromosomes" * bool(along), _UPWARDS),
            (0.0, float(d), 0.0, top),
            level=self._level,
            borders=borders if len(borders) < _MOST_BORDERS else (),
            dots=False,
        )

    @property
    def band(self) -> dict[str, Any]:
        """The band seen from far: along the columns, by distance, the strongest of many pairs."""
        cells = condense_band(*self._pairs, self.subject.n_features, self.reach)
        limit = float(np.abs(cells).max(initial=0.0)) or 1.0
        high, wide = cells.shape
        label = "Correlations along the columns, by distance"
        return {
            "picture": map_svg(cells, limit, label, kind="tile band"),
            "limit": limit,
            "columns": math.ceil(self.subject.n_features / wide),
            "lags": math.ceil(self.reach / high),
        }

    @property
    def tiles(self) -> list[dict[str, Any]]:
        """The first columns, and those around the strongest pairs, each as a small map."""
        found, d = self.subject.view.found, self.subject.n_features
        starts = [0]
        for i in found.rows[:2_000].tolist():
            start = min(max(0, i - _SIDE // 2), max(0, d - _SIDE))
            if all(abs(start - other) >= 2 * _SIDE for other in starts):
                starts.append(start)
            if len(starts) == _WINDOWS:
                break
        return [self._tile(start, min(d, start + _SIDE)) for start in starts]

    def _tile(self, start: int, end: int) -> dict[str, Any]:
        release, names = self.subject.release, self.subject.names
        words = f"columns {start:,} to {end - 1:,}"
        if release.chromosomes is not None:
            words += f", chromosome {release.chromosomes[start]}"
        if release.positions is not None:
            words += f", positions {release.positions[start]:,} to {release.positions[end - 1]:,}"
        cells = self.subject.view.correlation_matrix(np.arange(start, end))
        label = f"Correlations of {end - start} columns, {words}"
        picture = map_svg(cells, 1.0, label, kind="tile")
        return {"names": (names[start], names[end - 1]), "where": words, "picture": picture}
