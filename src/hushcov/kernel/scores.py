"""Scores of pairs by the signs of their features, and how far one record moves a score."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads
from hushcov.kernel.accounting.neighbours import Neighbours
from hushcov.kernel.records.base import Records, is_tensor
from hushcov.kernel.sums.signs import candidate_sign_sums, sign_scores

#: Means of signs are counted in this part of 1.
TILT_UNIT = 2**10
_RESOLUTION = 2**6  # units of a score of centred signs, in one product


@dataclass(frozen=True, eq=False)
class PairScores:
    """Sums of products of the signs of two features: a record adds +1, -1 or 0.

    Features that lie above their centre more often than below agree by themselves. `tilt` has the
    released means of their signs in 1024ths; products of signs less these means, each over the most
    that it can be, are from -1 to 1 for every record, whatever the means are.

    Parameters
    ----------
    n_features : int
        Number of features.
    tilt : tuple of int, optional
        Means that are taken off the signs; none where they are as often positive as negative.
    pairs : tuple of ndarray, optional
        Rows and columns of the pairs that are scored; all of them if left out, row by row.
    """

    n_features: int
    tilt: tuple[int, ...] | None = None
    pairs: tuple[IntArray, IntArray] | None = None

    @property
    def n_pairs(self) -> int:
        """Number of pairs that are scored."""
        if self.pairs is not None:
            return len(self.pairs[0])
        return self.n_features * (self.n_features - 1) // 2

    @property
    def resolution(self) -> int:
        """The most that one record adds to a score; scores are in units of its inverse."""
        return 1 if self.tilt is None else _RESOLUTION  # proof: screened, step 10

    @property
    def rounding(self) -> int:
        """A number that rounding moves a score by less than: centred ones, towards zero."""
        return 0 if self.tilt is None else 1

    def score_distance(self, relation: Neighbours) -> int:
        """Return the most that a score moves between neighbours that differ in one record."""
        most = self.resolution
        own = relation.moved(replaced=2 * most, removed=most)
        return own + self.rounding  # proof: screened, step 1

    def variances(self) -> FloatArray:
        """Return about the variances of what is multiplied.

        That of a sign with a mean of m, less m and over 1 + |m|.
        """
        if self.tilt is None:
            return np.ones(self.n_features)
        size = np.abs(np.array(self.tilt)) / TILT_UNIT
        return np.asarray((1 - size) / (1 + size))

    def exact(self, records: Any) -> npt.NDArray[Any]:
        """Return the exact scores with their signs, pair by pair, rounded towards zero once."""
        if self.pairs is not None:
            return self._listed(records, *self.pairs)  # proof: screened, step 12
        if self.tilt is None:
            return sign_scores(records, lambda products, *_: products, records.n_rows)
        n = records.n_rows  # each of them has its means taken off
        tilt = np.array(self.tilt, dtype=np.int64)
        most = TILT_UNIT + np.abs(tilt)

        def score(products: IntArray, sums: IntArray, start: int, stop: int) -> Any:
            if is_tensor(products):
                from hushcov.engines.device import score_pairs

                size = n, self.resolution
                return score_pairs(products, sums, tilt[start:], most[start:], TILT_UNIT, size)
            step = min(threads(), len(products))
            arrays = products, sums, tilt[start:], most[start:], n, self.resolution
            run_parts(_centre_products, [(first, step, *arrays) for first in range(step)])
            return products

        return sign_scores(records, score, n * self.resolution)

    def _listed(self, records: Records, rows: IntArray, columns: IntArray) -> IntArray:
        """Return the scores of listed pairs, in one reading and with nothing of size d^2."""
        products, sums = candidate_sign_sums(records, rows, columns)
        if self.tilt is None:
            return products
        tilt = np.array(self.tilt, dtype=np.int64)
        cuts = np.linspace(0, len(rows), threads() + 1).astype(np.int64).tolist()
        fixed = sums, tilt, TILT_UNIT + np.abs(tilt), records.n_rows, self.resolution
        run_parts(
            _centre_listed,
            [(products[a:b], rows[a:b], columns[a:b], *fixed) for a, b in itertools.pairwise(cuts)],
        )
        return products


@compiled
def _centre_products(
    first: int,
    step: int,
    products: IntArray,
    sums: IntArray,
    tilt: IntArray,
    most: IntArray,
    n_records: int,
    resolution: int,
) -> None:
    """Make products of signs scores, in place above the diagonal: the first row, each step-th."""
    for i in range(first, len(products), step):
        row, own = products[i], TILT_UNIT * sums[i]
        for j in range(i + 1, len(row)):
            # In units of 1 / TILT_UNIT^2, below 2^62 for up to 2^33 records: int64 is exact.
            shift = n_records * tilt[i] * tilt[j] - own * tilt[j] - TILT_UNIT * tilt[i] * sums[j]
            centred = TILT_UNIT * TILT_UNIT * row[j] + shift
            size = resolution * abs(centred) // (most[i] * most[j])
            row[j] = size if centred >= 0 else -size


@compiled
def _centre_listed(
    products: IntArray,
    rows: IntArray,
    columns: IntArray,
    sums: IntArray,
    tilt: IntArray,
    most: IntArray,
    n_records: int,
    resolution: int,
) -> None:
    """The same for listed pairs."""
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        shift = n_records * tilt[i] * tilt[j] - TILT_UNIT * (sums[i] * tilt[j] + tilt[i] * sums[j])
        centred = TILT_UNIT * TILT_UNIT * products[e] + shift
        size = resolution * abs(centred) // (most[i] * most[j])
        products[e] = size if centred >= 0 else -size
