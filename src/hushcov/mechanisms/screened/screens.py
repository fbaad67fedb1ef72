"""How pairs are scored before some are selected, and how far one record moves a score."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import compiled, run_parts, threads
from hushcov.accounting import Neighbours
from hushcov.candidates import Candidates
from hushcov.steps.preparation import TILT_UNIT
from hushcov.sums.records import Records
from hushcov.sums.signs import candidate_sign_sums, sign_scores

TO_CORRELATION = math.pi / 2  # a small mean product of signs, times this, is a correlation


class SignScreen:
    """Score pairs by the products of their signs: a record adds +1, -1 or 0.

    Scores are in units of 1 / `resolution`, and are rounded where `rounding` is 1. `most` is the
    most that one record adds to a score, or takes off it.
    """

    most: ClassVar[int] = 1  # proof: step 1
    rounding: ClassVar[int] = 0  # less than what scores are rounded by, and 1
    resolution: ClassVar[int] = 1

    def sensitivity(self, neighbours: Neighbours) -> int:
        """The most that a score moves between neighbours that differ in one record."""
        own = neighbours.moved(replaced=2 * self.most, removed=self.most)
        return own + self.rounding  # proof: step 1

    def variances(self, n_features: int) -> FloatArray:
        """The variances of what is multiplied, about."""
        return np.ones(n_features)

    def sums(self, records: Records) -> npt.NDArray[Any]:
        """Scores with their signs, pair by pair."""
        return sign_scores(records, lambda products, *_: products, records.n_rows)

    def sums_of(self, records: Records, rows: IntArray, columns: IntArray) -> IntArray:
        """As `sums`, of listed pairs alone; in one reading, and nothing of size n_features^2."""
        return candidate_sign_sums(records, rows, columns)[0]

    def scores(self, records: Records, candidates: Candidates | None = None) -> npt.NDArray[Any]:
        """Sizes of the scores, pair by pair: of all pairs, or of the candidates."""
        if candidates is None:
            sums = self.sums(records)
        else:
            sums = self.sums_of(records, *candidates.pairs)  # proof: step 12
        return np.asarray(np.abs(sums, out=sums))


@dataclass(frozen=True)
class CentredSigns(SignScreen):
    """Products of signs less their released means, each over the most that it can be.

    Features that lie above their centre more often than below agree by themselves. `tilt` has the
    means in 1024ths; whatever they are, a product is from -1 to 1 for every record.
    """

    tilt: tuple[int, ...]

    resolution: ClassVar[int] = 2**6
    rounding: ClassVar[int] = 1  # rounding towards zero moves a score by less than 1
    most: ClassVar[int] = resolution  # proof: step 10

    def variances(self, n_features: int) -> FloatArray:
        """See `SignScreen.variances`: of a sign with a mean of m, less m and over 1 + |m|."""
        size = np.abs(np.array(self.tilt)) / TILT_UNIT
        return np.asarray((1 - size) / (1 + size))

    def sums(self, records: Records) -> npt.NDArray[Any]:
        """See `SignScreen.sums`; exact integers, rounded towards zero once."""
        n = records.n_rows  # each of them has its means taken off
        tilt = np.array(self.tilt, dtype=np.int64)
        most = TILT_UNIT + np.abs(tilt)

        def score(products: IntArray, sums: IntArray, start: int, stop: int) -> IntArray:
            step = min(threads(), len(products))
            arrays = products, sums, tilt[start:], most[start:], n, self.resolution
            run_parts(_centre_products, [(first, step, *arrays) for first in range(step)])
            return products

        return sign_scores(records, score, n * self.resolution)

    def sums_of(self, records: Records, rows: IntArray, columns: IntArray) -> IntArray:
        """See `SignScreen.sums_of`; the same integers as in `sums`."""
        products, sums = candidate_sign_sums(records, rows, columns)
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
