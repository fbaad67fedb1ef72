"""CoinPress as an attacker meets it, and the datasets it is attacked with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hushcov.lab.audit import neighbours as pairs
from hushcov.lab.audit.attack import DELTA, EPSILON, RECORDS, Attack, matrix_statistics
from hushcov.lab.audit.bounds import Promise
from hushcov.lab.audit.neighbours import Pair
from hushcov.lab.audit.statistics import Statistic, outer_change
from hushcov.lab.audit.targets import Draw, is_gaussian
from hushcov.mechanisms.coinpress import (
    CoinPressParameters,
    coinpress_parameters,
    release_coinpress,
    run_steps,
    transformed_gram,
)
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.noise import Entropy
from hushcov.records import ArrayRecords

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoinPressTarget:
    """`release_coinpress`: the released integers, then the noisy Gram matrix of every step.

    The matrices of the steps are not released, but the guarantee covers them too.
    """

    parameters: CoinPressParameters

    @property
    def promise(self) -> Promise:
        """One Gaussian curve, as all steps are Gaussian."""
        inputs, events = self.parameters.inputs, self.parameters.events
        return Promise(inputs.epsilon, inputs.delta, gaussian=is_gaussian(events))

    def draws(self, pair: Pair) -> tuple[Draw, Draw]:
        """Sum once for a matrix that comes again; draw the noise of every step each time."""
        return self._draw(pair.first), self._draw(pair.second)

    def releases(self, pair: Pair) -> tuple[Draw, Draw]:
        """Whole releases."""
        return self._release(pair.first), self._release(pair.second)

    def _draw(self, rows: FloatArray) -> Draw:
        gram_of = transformed_gram(ArrayRecords(rows), np.ones(rows.shape[1]), self.parameters)
        # The first matrix is always the same, and so are all where the bounds leave no choice.
        known: list[tuple[FloatArray, IntArray]] = []

        def remembered(matrix: FloatArray) -> IntArray:
            if not known:
                known.append((matrix, gram_of(matrix)))
            return known[0][1] if np.array_equal(known[0][0], matrix) else gram_of(matrix)

        def draw(generator: np.random.Generator) -> FloatArray:
            transcript = run_steps(remembered, self.parameters, generator)
            numbers = (transcript.integers, *transcript.noisy_grams)
            return np.concatenate([each.ravel() for each in numbers]).astype(np.float64)

        return draw

    def _release(self, rows: FloatArray) -> Draw:
        records, scale = ArrayRecords(rows), np.ones(rows.shape[1])

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            release = release_coinpress(records, scale, self.parameters, entropy)
            return np.ravel(release.integers).astype(np.float64)

        return draw


def all_steps(pair: Pair, parameters: CoinPressParameters) -> Statistic:
    """The best weights for the matrices of all steps, if none of them turns the records."""
    d, least = pair.n_features, min(parameters.sigmas)
    change = outer_change(pair.first[0], pair.second[0])
    weights = [np.zeros(d * d)]  # of the released integers, which follow from the matrices
    for sigma, diagonal_sigma in zip(parameters.sigmas, parameters.diagonal_sigmas, strict=True):
        # Each entry over its variance; one off the diagonal is there twice.
        weight = np.full((d, d), (least / sigma) ** 2 / 2)
        np.fill_diagonal(weight, (least / diagonal_sigma) ** 2)
        weights.append((change * weight).ravel())
    return Statistic("all steps", np.concatenate(weights))


def _coinpress(mechanism: str) -> tuple[Attack, ...]:
    constants = "paper" if mechanism == "coinpress-paper" else "sound"

    def attack(name: str, pair: Pair, bounds: tuple[float, float]) -> Attack:
        inputs = ReleaseInputs(pair.n_records, pair.n_features, 1, EPSILON, DELTA)
        parameters = coinpress_parameters(inputs, eigenvalue_bounds=bounds, constants=constants)
        statistics: tuple[Statistic, ...] = (all_steps(pair, parameters),)
        if bounds[0] < bounds[1]:
            statistics += matrix_statistics(pair)
        target, named = CoinPressTarget(parameters), replace(pair, name=name)
        return Attack(mechanism, target, named, statistics, slowness=2)

    n, d = RECORDS, 2
    axes, flips = pairs.axes(n, d, pairs.HUGE), pairs.sign_flips(n, d, pairs.HUGE)
    # Many records whose second moments are the identity: the matrix is so too, nearly.
    others = math.sqrt(d) * np.tile(np.eye(d), (500, 1))
    among_others = pairs.replacement("", axes.first[0], axes.second[0], others)
    found = [
        # Equal bounds leave no choice of the matrix: every step sees the whole change.
        attack("axes, equal bounds", axes, (1.0, 1.0)),
        attack("axes among others", among_others, (0.25, 4.0)),
        attack("axes, wide bounds", axes, (0.01, 100.0)),
    ]
    if constants == "sound":  # the published noise is more than flips need
        found.append(attack("flips, equal bounds", flips, (1.0, 1.0)))
    return tuple(found)


#: Attacks by the name of what is audited.
BUILDERS: dict[str, Callable[[str], tuple[Attack, ...]]] = {
    "coinpress": _coinpress,
    "coinpress-paper": _coinpress,
}
