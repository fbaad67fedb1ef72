"""A release along the order of its columns: a band seen from far, decay by distance, windows.

Everything is O(pairs), and what a page shows of it is bounded, whatever the number of features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.postprocess import is_noise, is_sparse, upper_pairs
from hushcov.report.charts import decay_chart, order_chart
from hushcov.report.pages import Subject, count, number

if TYPE_CHECKING:
    from markupsafe import Markup

#: Features beyond which a page has no map of all pairs, in a known order and else.
LARGE, LARGE_UNORDERED = 5_000, 100_000
_BINS, _LAGS = 240, 40  # of the band seen from far
_DECAY = 500  # distances of the curve
_SIDE = 40  # columns of a window
_CELL = 9.0  # pixels of a cell of a window
_WINDOWS = 4
_LISTED = 12
_HALF_NORMAL = math.sqrt(2 / math.pi)  # mean size of noise over its deviation


def is_large(subject: Subject) -> bool:
    """Whether there are too many features for a map of all pairs."""
    release = subject.release
    most = LARGE if release.in_order else LARGE_UNORDERED
    return is_sparse(release.integers) and release.n_features > most


@dataclass(frozen=True, eq=False)
class Tile:
    """Columns side by side as a picture: cells with x, y, kind and how deep their colour is."""

    names: tuple[str, str]
    where: str
    why: str
    side: float
    cells: list[tuple[float, float, str, str]]
    n: int


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

    @property
    def noise(self) -> float | None:
        """The mean size that noise and sampling alone give a correlation."""
        release = self.subject.release
        if release.noise_sd is None or release.n_sampled is None:
            return None
        variance = release.variances
        usual = float(np.median(variance[variance > 0])) if (variance > 0).any() else 1.0
        return _HALF_NORMAL * math.hypot(release.noise_sd[0] / usual, release.n_sampled**-0.5)

    @property
    def decay(self) -> Markup | None:
        """The curve of mean sizes by distance."""
        found = self.by_distance
        if len(found) < 2:
            return None
        return decay_chart([k for k, _, _ in found], [mean for _, _, mean in found], self.noise)

    @property
    def decay_rows(self) -> list[list[str]]:
        """Return the decay as numbers, at some distances."""
        found = self.by_distance
        places = np.unique(np.linspace(0, len(found) - 1, _LISTED).round().astype(int))
        return [
            [count(found[i][0]), count(found[i][1]), number(found[i][2])]
            for i in (places if found else ())
        ]

    @property
    def order(self) -> Markup:
        """Mean sizes along the columns, with the ends of chromosomes."""
        rows, columns, values = self._pairs
        d = self.subject.n_features
        bins = min(_BINS, d)
        place = (rows + columns) // 2 * bins // d
        counts = np.bincount(place, minlength=bins)
        sums = np.bincount(place, np.abs(values), minlength=bins)
        means = np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
        middles = (np.arange(bins) + 0.5) * d / bins
        return order_chart(middles, means, self.borders, self.noise)

    @cached_property
    def borders(self) -> list[tuple[int, str]]:
        """Where chromosomes begin, with their names."""
        along = self.subject.release.chromosomes
        if along is None:
            return []
        starts = [0, *(i for i in range(1, len(along)) if along[i] != along[i - 1])]
        return [(i, along[i]) for i in starts]

    @property
    def band(self) -> dict[str, Any]:
        """The band seen from far: along the columns, by distance, the strongest of many pairs."""
        cells = condensed(*self._pairs, self.subject.n_features, self.reach)
        limit = float(np.abs(cells).max(initial=0.0)) or 1.0
        high, wide = cells.shape
        listed = [
            (int(x), int(y), *_look(cells[y, x], limit))
            for y, x in zip(*np.nonzero(cells), strict=True)
        ]
        return {
            "cells": listed,
            "wide": wide,
            "high": high,
            "limit": limit,
            "columns": math.ceil(self.subject.n_features / wide),
            "lags": math.ceil(self.reach / high),
        }

    @property
    def tiles(self) -> list[Tile]:
        """The first columns, and those around the strongest pairs, each as a small map."""
        found, d = self.subject.view.found, self.subject.n_features
        starts, taken = [(0, "the first columns")], [0]
        for i in found.rows[:2_000].tolist():
            start = min(max(0, i - _SIDE // 2), max(0, d - _SIDE))
            if all(abs(start - other) >= 2 * _SIDE for other in taken):
                taken.append(start)
                starts.append((start, "around one of the strongest pairs"))
            if len(starts) == _WINDOWS:
                break
        return [self._tile(start, why) for start, why in starts]

    def _tile(self, start: int, why: str) -> Tile:
        subject, d = self.subject, self.subject.n_features
        end = min(d, start + _SIDE)
        block = self.subject.view.matrix[start:end][:, start:end]
        dense = block.toarray() if is_sparse(block) else np.array(block)
        factors = np.where(self.subject.view.lost, np.nan, self.subject.view.factors)[start:end]
        values = dense * np.multiply.outer(factors, factors)
        values[dense == 0] = 0.0
        cells = [
            (_CELL * x, _CELL * y, *(("diagonal", "1") if x == y else _look(values[y, x], 1.0)))
            for y, x in zip(*np.nonzero(values), strict=True)
        ]
        release, names = subject.release, (subject.names[start], subject.names[end - 1])
        words = f"columns {start:,} to {end - 1:,}"
        if release.chromosomes is not None:
            words += f", chromosome {release.chromosomes[start]}"
        if release.positions is not None:
            words += f", positions {release.positions[start]:,} to {release.positions[end - 1]:,}"
        return Tile(names, words, why, _CELL * (end - start), cells, end - start)


def condensed(
    rows: IntArray, columns: IntArray, values: FloatArray, n_features: int, reach: int
) -> FloatArray:
    """The strongest of each cell of a band: distances downwards, columns across."""
    wide, high = min(_BINS, n_features), min(_LAGS, reach)
    x = (rows + columns) // 2 * wide // n_features
    y = (columns - rows - 1) * high // reach
    cell = y * wide + x
    largest, least = np.zeros(wide * high), np.zeros(wide * high)
    np.maximum.at(largest, cell, values)
    np.minimum.at(least, cell, values)
    return np.where(largest >= -least, largest, least).reshape(high, wide)


def _look(value: float, limit: float) -> tuple[str, str]:
    """The kind of a cell, and how deep its colour is."""
    if is_noise(np.array(value)):
        return "noise", "1"
    depth = min(1.0, abs(float(value)) / limit)
    return ("positive" if value > 0 else "negative"), f"{depth:.2f}"
