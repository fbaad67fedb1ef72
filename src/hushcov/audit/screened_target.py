"""The screened release as an attacker meets it; see `hushcov.audit.targets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hushcov.audit.bounds import Promise
from hushcov.audit.pairs import Pair
from hushcov.audit.targets import Draw, is_gaussian
from hushcov.mechanisms.screened import ScreenedParameters, release_screened, select_pairs
from hushcov.mechanisms.screened import mechanism as screened
from hushcov.mechanisms.screened.parameters import DIAGONAL_WEIGHT, PAIR_WEIGHT, RADIUS, sum_sigma
from hushcov.noise import Entropy, rounded_normal
from hushcov.records import ArrayRecords, FeatureGrid, ProductMap, Progress, Records
from hushcov.release import Release

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScreenedTarget:
    """`release_screened`: what was selected, the noisy sums, and the norm bound.

    An output holds for each pair of features whether it was selected (0 or 1), then for each
    pair its noisy sum (0 where it was not selected), then those of the diagonal, of shrinkage
    and of size, and last the logarithm of the norm bound.
    """

    parameters: ScreenedParameters

    @property
    def promise(self) -> Promise:
        """A Gaussian curve where nothing is selected, else a bound on a composition."""
        inputs, events = self.parameters.inputs, self.parameters.events
        return Promise(inputs.epsilon, inputs.delta, gaussian=is_gaussian(events))

    @property
    def n_pairs(self) -> int:
        """Pairs of features."""
        d = self.parameters.inputs.n_features
        return d * (d - 1) // 2

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Exact sums are kept by what was selected; selection and noise are drawn each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases: what was selected, and the noisy sums of pairs and of the diagonal."""
        return self._release(pair.first), self._release(pair.second)

    def _draw(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])
        summaries = _Summaries(records, self.parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            selected = select_pairs(records, scale, self.parameters, entropy)
            bound = self.parameters.norm_bound
            if self.parameters.norm_mu is not None:
                products = summaries.counted(selected)
                bound = screened.release_norm_bound(records, products, self.parameters, entropy)
            sums = summaries.sums(selected, bound)
            noise = rounded_normal(generator, sum_sigma(bound, self.parameters.mu), len(sums))
            return self._output(*selected, sums + noise, bound)

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])
        upper = np.triu_indices(rows.shape[1], 1)

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            release = release_screened(records, scale, self.parameters, entropy)
            sums = release.integers[upper] // DIAGONAL_WEIGHT
            squares = (np.diag(release.integers) - self._centre(release)) // PAIR_WEIGHT
            return np.concatenate([release.released[upper], sums, squares]).astype(np.float64)

        return draw

    def _centre(self, release: Release) -> int:
        """What the release added to every square, in its integers."""
        shrinkage = release.parameters["shrinkage"]
        assert isinstance(shrinkage, float)
        centre = round(self.parameters.integers_per_square) * self.parameters.inputs.n_records
        return round(centre * PAIR_WEIGHT * DIAGONAL_WEIGHT * shrinkage)

    def _output(self, rows: IntArray, columns: IntArray, sums: IntArray, bound: int) -> FloatArray:
        d, n_pairs = self.parameters.inputs.n_features, self.n_pairs
        place = rows * (2 * d - rows - 1) // 2 + columns - rows - 1
        output = np.zeros(2 * n_pairs + d + 3)
        output[place] = 1
        output[n_pairs + place] = sums[: len(rows)]
        output[2 * n_pairs : -1] = sums[len(rows) :]
        output[-1] = np.log(bound)
        return output


@dataclass(frozen=True, eq=False)
class _CountedProducts(ProductMap):
    """Products whose histogram of norms was counted before."""

    counts: IntArray

    def norm_histogram(self, records: Records, *, progress: Progress | None = None) -> IntArray:
        """Return the counts."""
        return self.counts


class _Summaries:
    """Exact sums and histograms of fixed records, computed once for each set of pairs."""

    def __init__(self, records: Records, parameters: ScreenedParameters) -> None:
        scale = np.ones(records.n_features)
        self._records, self._parameters = records, parameters
        self._grid = FeatureGrid(scale, RADIUS, parameters.half_width)
        self._sums: dict[Any, IntArray] = {}
        self._counted: dict[Any, _CountedProducts] = {}

    def sums(self, selected: tuple[IntArray, IntArray], bound: int) -> IntArray:
        """Exact sums of the contributions at a norm bound."""
        key = (*map(bytes, selected), bound)
        if key not in self._sums:
            self._sums[key] = self._products(selected, bound).sum(self._records)
        return self._sums[key]

    def counted(self, selected: tuple[IntArray, IntArray]) -> _CountedProducts:
        """Products at the public norm bound, with their histogram of norms."""
        key = tuple(map(bytes, selected))
        if key not in self._counted:
            products = self._products(selected, self._parameters.norm_bound)
            counts = products.norm_histogram(self._records)
            self._counted[key] = _CountedProducts(**vars(products), counts=counts)
        return self._counted[key]

    def _products(self, selected: tuple[IntArray, IntArray], bound: int) -> ProductMap:
        return screened._product_map(self._grid, *selected, self._parameters, bound)
