"""Genotypes as their definition says, slowly: what packed records must agree with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class LiteralBlock:
    """Variants start to stop, with those of their windows up to end."""

    table: np.ndarray  # genotypes 0, 1, 2 or NaN, of all variants
    start: int
    stop: int
    end: int

    def counts(self):
        part = self.table[:, self.start : self.end]
        called = ~np.isnan(part)
        return np.nansum(part - 1, axis=0).astype(np.int64), called.sum(axis=0)

    def values(self, slopes, offsets):
        part = self.table[:, self.start : self.end]
        return np.where(np.isnan(part), 0, slopes * np.nan_to_num(part) - offsets).astype(np.int64)

    def vectors(self, slopes, offsets, ends):
        """Of each record all products in windows, row by row, then all squares."""
        v = self.values(slopes, offsets)
        own = self.stop - self.start
        rows, columns = places(ends, own, self.start)
        return np.concatenate([v[:, rows] * v[:, columns], v[:, :own] ** 2], axis=1), len(rows)

    def squared_norms(self, slopes, offsets, ends, pair_weight, diagonal_weight):
        vectors, n_pairs = self.vectors(slopes, offsets, ends)
        weights = np.full(vectors.shape[1], pair_weight)
        weights[n_pairs:] = diagonal_weight
        return ((vectors * weights) ** 2).sum(axis=1)

    def products(self, kept, slopes, offsets, ends):
        vectors, n_pairs = self.vectors(slopes, offsets, ends)
        total = vectors[kept].sum(axis=0)
        return total[:n_pairs], total[n_pairs:]


def places(ends, own, start):
    rows = [i for i in range(own) for _ in range(start + i + 1, ends[i])]
    columns = [j - start for i in range(own) for j in range(start + i + 1, ends[i])]
    return np.array(rows, dtype=int), np.array(columns, dtype=int)


class LiteralGenotypes:
    """A table in memory."""

    feature_names = positions = chromosomes = None

    def __init__(self, table):
        self.table = np.asarray(table, dtype=float)
        self.n_records, self.n_features = self.table.shape

    def blocks(self, n_variants, reach):
        d = self.n_features
        for start in range(0, d, n_variants):
            stop = min(start + n_variants, d)
            yield LiteralBlock(self.table, start, stop, min(stop + reach, d))


def linked_genotypes(n_records, n_features, seed, *, frequency=(0.05, 0.5), link=0.9, missing=0.0):
    """Genotypes of a chain: two haplotypes, each by thresholds of a first-order normal process."""
    from scipy import special

    rng = np.random.default_rng(seed)
    p = rng.uniform(*frequency, n_features)
    cut, table = special.ndtri(p), np.zeros((n_records, n_features))
    for _ in range(2):
        z = rng.standard_normal(n_records)
        for j in range(n_features):
            table[:, j] += z < cut[j]
            z = link * z + np.sqrt(1 - link**2) * rng.standard_normal(n_records)
    table[rng.random(table.shape) < missing] = np.nan
    return table
