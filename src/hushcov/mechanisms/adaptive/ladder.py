"""The ladder: pairs selected rung by rung, each rung at less noise than the one before.

A rung selects some pairs by noisy scores and releases their mean score, which says how many of
them are real. Where nearly all are, the same noise gets a larger rung; where few are, the next
rung has less noise. The ladder ends where weaker pairs would matter less than the noise of values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import IntArray
from hushcov.accounting import UP, Budget, smallest_sigma
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.parameters import MOST_LADDER, TEST
from hushcov.mechanisms.screened import TO_CORRELATION, SignScreen, pair_of
from hushcov.noise import TAKEN, Entropy, gumbel_top, rounded_normal

_FEWEST = 8
_FIRST_SHARE = 0.004  # of the clock: half as many pairs as features at the first noise
_LESS_NOISE = math.sqrt(2)
_FULL, _GROWTH, _ROOM = 0.8, 2.0, 1.3
_LEAST_ROWS = 8  # pairs of a rung: at least one for so many features
_REAL, _TILTED = 1.2, 0.6  # mean score of real pairs over the edge; of null pairs by selection
_MOST_PAIRS = 1 / 3  # of all pairs: beyond that, nothing is sparse
_FINEST = 1.5  # noise of a score over its sampling error, inverted, at which a ladder ends


@dataclass(frozen=True)
class Rung:
    """One selection: how many pairs, the weakest correlation it finds, and how many are real."""

    size: int
    finds: float
    real: float


class Ladder:
    """Scores of all pairs, and what was selected so far.

    Parameters
    ----------
    scores : ndarray of int
        Sizes of scores of all pairs, row by row; used up by the selections.
    screen : SignScreen
        How they were scored.
    inputs : ReleaseInputs
        The size, and whose privacy it is.
    first : int
        Pairs of the first rung.
    """

    def __init__(
        self, scores: IntArray, screen: SignScreen, inputs: ReleaseInputs, first: int
    ) -> None:
        self._scores, self._screen = scores, screen
        self._n, self._d = inputs.n_records, inputs.n_features
        self._neighbours = inputs.neighbours
        self._moved = inputs.neighbours.moved(replaced=2, removed=1)  # scores, by one record
        self._size = min(max(_FEWEST, first), len(scores))
        self._selected = np.empty(0, dtype=np.int64)
        self._spent = self._unit = 0.0
        self.rungs: list[Rung] = []
        self.narrowed = 0  # rungs after which noise was lowered
        self._rate = 0.0

    @property
    def real(self) -> float:
        """About how many real pairs were selected."""
        return sum(rung.real for rung in self.rungs)

    @property
    def spent_share(self) -> float:
        """Share of the clock that selections took."""
        return self._spent / self._unit if self._unit else 0.0

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the selected pairs."""
        return pair_of(self.selected, self._d)

    @property
    def selected(self) -> IntArray:
        """Positions of the selected pairs among all of them, ascending."""
        return np.sort(self._selected)

    def finds(self) -> float:
        """The weakest correlation that the next rung finds, about."""
        edge = math.log(max(2.0, len(self._scores) / max(1, self._size))) / self._rate
        return TO_CORRELATION * edge / self._n

    @property
    def next_share(self) -> float:
        """Share of the clock that the next rung takes, about."""
        return self._size * (self._moved * self._rate) ** 2 / self._unit if self._unit else 0.0

    def climb(self, budget: Budget, entropy: Entropy, weakest: float) -> bool:
        """Select one more rung, or say that the ladder has ended.

        `weakest` is the correlation below which a pair matters less than noise.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. No score moves by more than the
        sensitivity of the screen, so a rung is `size` bounded-range steps, and the sum of the
        selected scores moves by at most `size` times that. Sizes and rates follow from released
        numbers and the clock, which takes their time beforehand.
        """
        if not self._unit:
            self._unit = budget.left
            # The share that d / 2 steps of range 2 moved rate take: each takes (moved rate)^2.
            self._rate = math.sqrt(2 * _FIRST_SHARE * self._unit / self._d) / self._moved
        if self._ended(weakest):
            return False
        sensitivity = self._screen.sensitivity(self._neighbours)
        resolution = self._screen.resolution
        rate = self._rate / resolution
        eta = 2 * sensitivity * rate * UP
        before = budget.left
        room = MOST_LADDER * self._unit - self._spent
        size = min(self._size, budget.steps_left(eta, min(1.0, max(0.0, room) / before)))
        if size < min(max(_FEWEST, self._d // 20), max(1, len(self._scores))):
            return False
        budget.select(eta, size)  # proof: step 2
        best = gumbel_top(entropy.generator, self._scores, rate, size)  # proof: step 2
        mu = math.sqrt(TEST * self._unit)
        budget.gaussian(mu)  # proof: step 3
        sigma = smallest_sigma((sensitivity * size) ** 2, mu)  # proof: step 3
        total = self._scores[best].sum(dtype=np.int64, keepdims=True)
        total = total + rounded_normal(entropy.generator, sigma, 1)
        self._scores[best] = TAKEN
        self._selected = np.concatenate([self._selected, best])
        self._spent += before - budget.left
        self._note(size, int(total[0]) / size / resolution)
        return True

    def _ended(self, weakest: float) -> bool:
        if len(self._selected) + self._size > _MOST_PAIRS * len(self._scores):
            return bool(self.rungs)
        if self._rate * math.sqrt(self._n) > _FINEST:
            return True
        thin = bool(self.rungs) and self.rungs[-1].real < self.rungs[-1].size / 2
        return thin and self.finds() < weakest

    def _note(self, size: int, mean: float) -> None:
        """Say how much a rung found, and choose the next one; all from released numbers."""
        n, root = self._n, math.sqrt(self._n)
        edge = math.log(max(2.0, len(self._scores) / size)) / self._rate
        null = root * (math.sqrt(2 / math.pi) + _TILTED * self._rate * root)
        real = (mean - null) / max(_REAL * edge, 3 * root)
        real = size * min(1.0, max(0.0, real))
        self.rungs.append(Rung(size, TO_CORRELATION * edge / n, real))
        if real > _FULL * size:
            self._size = int(_GROWTH * size)
        else:
            self.narrowed += 1
            self._rate *= _LESS_NOISE
            self._size = max(int(_ROOM * real), self._d // _LEAST_ROWS, _FEWEST)
        self._size = min(self._size, len(self._scores) - len(self._selected))
