"""Scores of pairs by the signs of their features, and how far one record moves a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov._arrays import IntArray, is_tensor, like, namespace
from hushcov._compiled import share_out
from hushcov.kernel.accounting.neighbours import Neighbours
from hushcov.kernel.records.base import Records
from hushcov.kernel.sums.signs import candidate_sign_sums, sign_scores

#: Means of signs are counted in this part of 1.
TILT_UNIT = 2**10
_RESOLUTION = 2**6  # units of a score of centred signs, in one product
_STRIP = 2**18  # scores that are made together


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
        """A bound on how far rounding towards zero moves a score; products of signs are exact."""
        return 0 if self.tilt is None else 1

    def score_distance(self, relation: Neighbours) -> int:
        """Return the most that a score moves between neighbours that differ in one record."""
        most = self.resolution
        own = relation.moved(replaced=2 * most, removed=most)
        return own + self.rounding  # proof: screened, step 1

    def exact(self, records: Any) -> npt.NDArray[Any]:
        """Return the exact scores with their signs, pair by pair, rounded towards zero once."""
        if self.pairs is not None:
            return self._listed(records, *self.pairs)  # proof: screened, step 12
        if self.tilt is None:
            return sign_scores(records, lambda products, *_: products, records.n_rows)
        tilt = np.array(self.tilt, dtype=np.int64)

        def score(products: Any, sums: Any, start: int, stop: int) -> Any:
            step = len(products) if is_tensor(products) else max(1, _STRIP // len(sums))
            every = sums[None, :], like(tilt[None, start:], products)

            def centre(first: int) -> None:
                part = products[first : first + step]
                own = (each.T[first : first + len(part)] for each in every)
                part[:] = self._centred(part, tuple(own), every, records.n_rows)

            share_out(centre, range(0, len(products), step))
            return products

        return sign_scores(records, score, records.n_rows * self.resolution)

    def _listed(self, records: Records, rows: IntArray, columns: IntArray) -> IntArray:
        """Return the scores of listed pairs, in one reading and with nothing of size d^2."""
        products, sums = candidate_sign_sums(records, rows, columns)
        if self.tilt is None:
            return products
        tilt = np.array(self.tilt, dtype=np.int64)
        left, right = (sums[rows], tilt[rows]), (sums[columns], tilt[columns])
        return np.asarray(self._centred(products, left, right, records.n_rows))

    def _centred(self, products: Any, left: Any, right: Any, n_records: int) -> Any:
        """Return scores of products of signs; `left`, `right` have sums and means of features."""
        # In units of 1 / TILT_UNIT^2, below 2^62 for up to 2^33 records: int64 is exact.
        (sums, tilt), (others, means) = left, right
        centred = (n_records * tilt - TILT_UNIT * sums) * means - TILT_UNIT * tilt * others
        centred += TILT_UNIT * TILT_UNIT * products
        most = (TILT_UNIT + abs(tilt)) * (TILT_UNIT + abs(means))
        size = self.resolution * abs(centred) // most
        return namespace(size).where(centred < 0, -size, size)
