"""How wide a band is, whether it is tapered, and what noise made alone: from released values.

Privacy
-------
Post-processing: nothing here sees a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.mechanisms.adaptive import PairValues
from hushcov.mechanisms.screened import DIAGONAL_WEIGHT, PAIR_WEIGHT

#: The noise of a variance over that of a pair, squared.
OWN = (PAIR_WEIGHT / DIAGONAL_WEIGHT) ** 2
_MOST_WIDTHS = 64  # that are compared
_LEVELS = (1.5, 2.0, 2.5, 3.0, 3.5)  # thresholds that are compared, in deviations
_NEAR = 0.25  # deviations about a threshold in which the density of values is counted
_FEWEST = 400  # pairs from which a threshold can be judged
_CLEARLY = 0.95  # an estimated risk over the one without a taper or threshold, to take it
_FARTHEST = 3.0  # deviations: an energy below so many of its own is no energy


@dataclass(frozen=True)
class Taper:
    """Weights of pairs by how many columns apart they are: 1 up to `full`, 0 from `last` on.

    Between the two they fall in a line. A band that is cut has `last` = `full` + 1.
    """

    full: int
    last: int

    def weights(self, lags: IntArray) -> FloatArray:
        """The weights of pairs so many columns apart."""
        return np.asarray(np.clip((self.last - lags) / (self.last - self.full), 0.0, 1.0))


@dataclass(frozen=True)
class Choice:
    """What becomes of released pairs, with estimated norms of noise and of what is lost.

    Norms are in units of the scales; `row` is the noise of a row in variances of a pair.
    """

    taper: Taper | None
    threshold: float
    row: float
    lost: float


@dataclass(frozen=True, eq=False)
class Lags:
    """What was released of a band, by how many columns two features are apart."""

    energy: FloatArray  # mean squares less those of noise and sampling
    mean: FloatArray  # squares of means, less the same of these
    peak: FloatArray  # the largest value that noise cannot have made

    @classmethod
    def of(cls, values: PairValues, deviation: float, width: int) -> Lags:
        """Of all lags from 1 to the width."""
        lags = values.columns - values.rows
        counts = np.maximum(1, np.bincount(lags, minlength=width + 1)[1:])
        squares = np.bincount(lags, values.pairs**2, minlength=width + 1)[1:] / counts
        means = np.bincount(lags, values.pairs, minlength=width + 1)[1:] / counts
        sizes, peak = np.abs(values.pairs), np.zeros(width + 1)
        level = deviation * (1 + math.sqrt(2 * math.log(max(2, len(sizes)))))
        np.maximum.at(peak, lags, np.where(sizes > level, sizes, 0.0))
        one_sign = np.maximum(0.0, means**2 - deviation**2 / counts)
        return cls(squares - deviation**2, one_sign, peak[1:])

    def lost(self, weights: FloatArray) -> float:
        """About the norm of what weights take off: of any sign, of one sign, or in one place."""
        rest = 1 - weights
        energy = max(0.0, float(rest**2 @ self.energy))
        alone = float((rest * self.peak).max(initial=0.0))
        return max(2 * math.sqrt(2 * energy), 2 * float(rest @ np.sqrt(self.mean)), alone)


def band_norm(row: float, n_features: int) -> float:
    """About the norm of noise of deviation 1 whose rows have squares that add up to `row`.

    Twice the root of a row, and what the worst of many places adds to it; measured.
    """
    worst = math.sqrt(math.log(max(2, n_features)))
    return 2 * math.sqrt(row) + worst / float(max(1.0, row) ** (1 / 3))


def tapers(width: int) -> list[Taper]:
    """Bands that are cut or tapered, up to a width; the whole band is the first."""
    every = np.unique(np.geomspace(1, width + 1, _MOST_WIDTHS).astype(np.int64) - 1)
    found = [Taper(width, width + 1)]
    for each in every.tolist()[::-1]:
        found.append(Taper(each, each + 1))
        if each >= 2:
            found.append(Taper(each // 2, each + 1))
    return found


def best_taper(lags: Lags, n_features: int, noise: FloatArray) -> tuple[Taper, float, float]:
    """The one with the least estimated risk, with it, and with what it takes off.

    `noise` is the deviation of a pair where pairs up to each lag, from 0 on, are released.
    """
    width = len(noise) - 1
    places = np.arange(1, width + 1)
    best: tuple[float, Taper, float] | None = None
    for each in tapers(width):
        weights = each.weights(places)
        row = OWN + 2 * float(weights @ weights)
        lost = lags.lost(weights)
        risk = math.hypot(band_norm(row, n_features) * noise[min(width, each.last - 1)], lost)
        if best is None or risk < (_CLEARLY if best[1].full == width else 1.0) * best[0]:
            best = risk, each, lost
    assert best is not None
    return best[1], best[0], best[2]


def best_threshold(pairs: FloatArray, deviation: float) -> tuple[float, float]:
    """The level with the least estimated squared error, and that over the one without any.

    Stein's estimate for a hard threshold t: with noise of deviation 1 each kept value costs 1, each
    dropped one its square less 1, and values near t what the jump there adds, 2 t times
    their density.
    """
    if len(pairs) < _FEWEST or not deviation > 0:
        return 0.0, 1.0
    sizes = np.abs(pairs) / deviation
    best = 0.0, 1.0
    for level in _LEVELS:
        dropped = sizes[sizes <= level]
        near = np.count_nonzero(np.abs(sizes - level) < _NEAR) / (2 * _NEAR)
        risk = len(sizes) - 2 * len(dropped) + float(dropped @ dropped) + 2 * level * near
        ratio = max(0.0, risk / len(sizes))
        best = min(best, (level * deviation, ratio), key=lambda each: each[1])
    return best


def choose(values: PairValues, deviation: float, n_features: int, width: int | None) -> Choice:
    """What becomes of the values of a band, or of other pairs where there is no width."""
    row = OWN + 2 * len(values.pairs) / n_features
    threshold, ratio = best_threshold(values.pairs, deviation)
    cleaned = OWN + (row - OWN) * ratio
    noise = band_norm(cleaned, n_features) if threshold else band_norm(row, n_features)
    worth = noise < _CLEARLY * band_norm(row, n_features)
    if width:
        lags = Lags.of(values, deviation, width)
        taper, risk, lost = best_taper(lags, n_features, np.full(width + 1, deviation))
        if taper.full < width and not (worth and noise * deviation < risk):
            weights = taper.weights(np.arange(1, width + 1))
            return Choice(taper, 0.0, OWN + 2 * float(weights @ weights), lost)
    return Choice(None, threshold, cleaned, 0.0) if worth else Choice(None, 0.0, row, 0.0)


def dense(values: PairValues, deviation: float) -> bool:
    """Whether many of the candidates matter, as far as a first look can tell.

    A share f of pairs that all have the square r has the energy f r, and a fourth power of f r^2
    beyond what noise has. Where no energy is seen, strong pairs are few.
    """
    squares = (values.pairs / deviation) ** 2
    number = max(1, len(squares))
    energy = float(squares.mean()) - 1
    if energy < _FARTHEST * math.sqrt(2 / number):
        return False
    fourth = float((squares**2).mean()) - 3 - 6 * energy
    return energy**2 > max(0.0, fourth) / 8  # f above an eighth


def hidden_norm(values: PairValues, deviation: float, n_features: int) -> float:
    """About the norm of what there is in values beside noise: of any sign, or of one sign."""
    number = max(1, len(values.pairs))
    partners = 2 * number / n_features
    energy = float((values.pairs**2).sum()) / number - deviation**2
    if energy < _FARTHEST * math.sqrt(2 / number) * deviation**2:
        energy = 0.0
    mean = abs(float(values.pairs.sum())) / number - _FARTHEST * deviation / math.sqrt(number)
    return max(2 * math.sqrt(partners * energy), partners * max(0.0, mean))
