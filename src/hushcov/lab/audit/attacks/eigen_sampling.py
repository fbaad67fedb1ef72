"""Noisy eigenvalues and sampled directions under attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hushcov.lab.audit import neighbours as pairs
from hushcov.lab.audit.attack import RECORDS, Attack, matrix_statistics
from hushcov.lab.audit.bounds import Promise
from hushcov.lab.audit.neighbours import HUGE, Pair
from hushcov.lab.audit.statistics import summed
from hushcov.lab.audit.targets import Draw
from hushcov.mechanisms import eigen_sampling as mechanism
from hushcov.mechanisms.eigen_sampling import EigenSamplingParameters
from hushcov.noise import Entropy
from hushcov.records import ArrayRecords, FeatureGrid, row_bounded_gram

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Smaller than elsewhere: without a Gaussian curve, events of probability e^-epsilon must be seen.
_EPSILON = 3.0
# Records before the replacement; with more of them directions hardly ever leave their axis, and
# with fewer they are not often on it.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class EigenSamplingTarget:
    """`release_eigen_sampling`: all entries of the released integers.

    Quick draws go on with the noisy eigenvalues and with how much likelier eigenvalues and
    directions are on the second dataset, up to what normalises directions. The proof covers these
    as well, though only the matrix is released.
    """

    parameters: EigenSamplingParameters

    @property
    def promise(self) -> Promise:
        """Pure differential privacy."""
        return Promise(self.parameters.inputs.epsilon, 0.0, gaussian=False)

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Clip and sum once; draw eigenvalues and directions each time."""
        grams = self._gram(pair.first), self._gram(pair.second)
        exact = [mechanism.rounded_eigenvalues(gram) for gram in grams]
        moved = np.array(exact)

        def drawn(side: int) -> Draw:
            def draw(generator: np.random.Generator) -> FloatArray:
                eigenvalues, directions = mechanism.sample_spectrum(
                    generator, grams[side], exact[side], self.parameters
                )
                first, second = np.abs(eigenvalues - moved).sum(axis=1)
                loss = (first - second) / self.parameters.eigenvalue_scale
                loss += self._direction_loss(grams[1] - grams[0], eigenvalues, directions)
                seen = mechanism.assembled(eigenvalues, directions).ravel()
                return np.concatenate([seen, eigenvalues, [loss]])

            return draw

        return drawn(0), drawn(1)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases."""

        def released(rows: FloatArray) -> Draw:
            records, scale = ArrayRecords(rows), np.ones(rows.shape[1])

            def draw(generator: np.random.Generator) -> FloatArray:
                release = mechanism.release_eigen_sampling(
                    records, scale, self.parameters, Entropy(generator, private=False)
                )
                return np.ravel(release.integers).astype(np.float64)

            return draw

        return released(pair.first), released(pair.second)

    def _gram(self, rows: FloatArray) -> IntArray:
        grid = FeatureGrid(
            np.ones(rows.shape[1]), self.parameters.radius, self.parameters.half_width
        )
        return row_bounded_gram(ArrayRecords(rows), grid, self.parameters.norm_bound)

    def _direction_loss(
        self, change: IntArray, eigenvalues: IntArray, directions: FloatArray
    ) -> float:
        """The log of the ratio of the densities of directions, but for normalising constants."""
        shares = np.array(mechanism.shares(eigenvalues, self.parameters))
        sampled = directions[:, : len(shares)]
        scores = np.sum(sampled * (change @ sampled), axis=0)
        return float(shares @ scores / mechanism.SHARES * self.parameters.direction_rate)


def _attacks(name: str) -> tuple[Attack, ...]:
    single = pairs.huge_or_zero(RECORDS, 1)
    return (
        _attack(name, replace(single, name="huge or 0, 1 feat.")),
        _attack(name, _among_copies(2)),
        _attack(name, _among_copies(3)),
        _attack(name, pairs.sign_flips_among_others(RECORDS, 3, HUGE)),
    )


def _among_copies(n_features: int) -> Pair:
    """A record among copies of itself against one orthogonal to it.

    The largest eigenvalue falls and the second rises, by as much as a record can do, and
    directions near the replacement become likelier.
    """
    first, second = HUGE * np.eye(n_features)[:2]
    others = np.tile(first, (_COPIES - 1, 1))
    return pairs.replacement(f"copies, {n_features} feat.", first, second, others)


def _attack(name: str, pair: Pair) -> Attack:
    n, d = pair.n_records, pair.n_features
    # A bound that a record along one axis reaches.
    parameters = mechanism.eigen_sampling_parameters(
        mechanism.pure_inputs(n, d, 1, _EPSILON), row_norm=1.0
    )
    columns = d * d + d + 1
    statistics = (*matrix_statistics(pair), summed("loss", [columns - 1], columns))
    # Every direction takes its time.
    return Attack(name, EigenSamplingTarget(parameters), pair, statistics, slowness=d)


BUILDERS: dict[str, Callable[[str], tuple[Attack, ...]]] = {"eigen-sampling": _attacks}
