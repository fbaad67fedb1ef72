"""Row-wise top-k as an attacker meets it, and the neighbours it is attacked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hushcov.lab.audit import neighbours as pairs
from hushcov.lab.audit.attack import DELTA, EPSILON, RECORDS, Attack
from hushcov.lab.audit.bounds import Promise
from hushcov.lab.audit.neighbours import Pair
from hushcov.lab.audit.statistics import FITTED, Statistic, outer_change, summed
from hushcov.lab.audit.targets import Draw, is_gaussian
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.row_top_k import RowTopKParameters, release_row_top_k, row_top_k_parameters
from hushcov.mechanisms.row_top_k import mechanism as row_top_k
from hushcov.noise import Entropy
from hushcov.records import ArrayRecords, FeatureGrid, row_bounded_gram

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

NAME = "row-top-k"


@dataclass(frozen=True)
class RowTopKTarget:
    """`release_row_top_k`: released integers and where they are, then who picked whom.

    An output holds all entries of the released integers, row by row, then for each whether it was
    released (0 or 1), then for each whether its row picked its column. The last are no part of a
    release, but the accountant charges for them, so they are attacked too.
    """

    parameters: RowTopKParameters

    @property
    def promise(self) -> Promise:
        """A Gaussian curve where nothing is selected, else a bound on a composition."""
        inputs = self.parameters.inputs
        return Promise(inputs.epsilon, inputs.delta, gaussian=is_gaussian(self.parameters.events))

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Clip and sum once; select and draw the noise each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases: integers, and where they are."""
        return self._release(pair.first), self._release(pair.second)

    def _draw(self, rows: FloatArray) -> Draw:
        parameters = self.parameters
        grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
        gram = row_bounded_gram(ArrayRecords(rows), grid, None)

        def draw(generator: np.random.Generator) -> FloatArray:
            picked = row_top_k.pick_partners(gram, parameters, generator)
            mutual = row_top_k.mutual_pairs(picked)
            sigma = row_top_k.value_sigma(*mutual, parameters)
            integers = row_top_k.noisy_values(gram, *mutual, sigma, generator)
            released = (picked & picked.T) | np.eye(len(gram), dtype=bool)
            return _flat(integers, released, picked)

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            release = release_row_top_k(records, scale, self.parameters, entropy)
            return _flat(release.integers, release.released)

        return draw


def _flat(*matrices: npt.NDArray[np.generic]) -> FloatArray:
    return np.concatenate([matrix.ravel() for matrix in matrices]).astype(np.float64)


def _attacks(mechanism: str) -> tuple[Attack, ...]:
    return (*_value_attacks(mechanism), *_selection_attacks(mechanism))


def _value_attacks(mechanism: str) -> tuple[Attack, ...]:
    """With every pair released, or none, nothing is selected and only values are attacked.

    The pairs attain the sensitivity of a pair, of two groups at once, of an odd group, and of
    features that are alone.
    """
    n = RECORDS
    one, four, odd = (pairs.sign_flips(n, d, pairs.HUGE) for d in (2, 4, 3))
    alone = pairs.huge_or_zero(n, 4)
    return tuple(
        _attack(mechanism, replace(pair, name=name), row_sparsity)
        for pair, name, row_sparsity in (
            (one, "one pair, flips", 2),
            (four, "all pairs, flips", 4),
            (odd, "3 features, flips", 3),
            (alone, "variances, huge or 0", 1),
        )
    )


def _selection_attacks(mechanism: str) -> tuple[Attack, ...]:
    """Two partners with tied scores in every row: one is raised and the other lowered, all the way.

    In one attack nearly all of the budget is for selecting, in the other as much as is usual.
    """
    tied = pairs.edge_of_selection(4, pairs.HUGE, 60, 0)
    return (
        _attack(mechanism, replace(tied, name="edge, only picks"), 2, selection_share=0.95),
        _attack(mechanism, replace(tied, name="edge, usual shares"), 2),
    )


def _attack(mechanism: str, pair: Pair, row_sparsity: int, **options: float) -> Attack:
    d = pair.n_features
    inputs = ReleaseInputs(pair.n_records, d, row_sparsity, EPSILON, DELTA)
    target = RowTopKTarget(row_top_k_parameters(inputs, **options))
    change = Statistic("along change", outer_change(pair.first[0], pair.second[0]).ravel())
    favoured = [
        2 * d**2 + i * d + j
        for a, b in pairs.changing_pairs(d)
        for i, j in ((a, b), (b, a))
        if (i + j) % 2 == 0
    ]
    picks = summed("picks", favoured, 3 * d**2)
    statistics = (change, FITTED) if target.parameters.rate is None else (change, picks, FITTED)
    return Attack(mechanism, target, pair, statistics)


BUILDERS: dict[str, Callable[[str], tuple[Attack, ...]]] = {NAME: _attacks}
