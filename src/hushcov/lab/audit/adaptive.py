"""Attacks on the adaptive release: as a whole, its parts alone, and with known candidates.

A part takes all of the time that was certified, so that what it leaks is to be compared with the
whole claim. Parts are the mechanism's own objects: an audit that runs them runs the release. Of
known candidates, whole releases of one pair are attacked, in one look or two.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Budget
from hushcov.candidates import Candidates
from hushcov.lab.audit.attack import (
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Pair,
    Statistic,
    Target,
    Turn,
    Turned,
    along_change,
    axes,
    flat,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    raised,
    records_of,
    replaced,
    replacement,
    sign_flips,
    summed,
    tied,
    tied_few,
)
from hushcov.mechanisms.adaptive.mechanism import WholeMatrix, look_at_signs, release_adaptive
from hushcov.mechanisms.adaptive.pairs import (
    FIRST_LOOK,
    NAME,
    AdaptiveParameters,
    Ladder,
    release_pairs,
)
from hushcov.mechanisms.candidates import NAME as CANDIDATES
from hushcov.mechanisms.candidates import (
    CandidateParameters,
    candidate_parameters,
    release_candidates,
)
from hushcov.mechanisms.screened.values import CentredSigns, SignScreen
from hushcov.noise import Entropy
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.steps.norms import NormBound
from hushcov.sums.records import Records

_SLOWNESS = 30  # a whole release looks for structures
_RUNGS = 16  # that an output has room for
# 128 features, whose rungs are few of their pairs. The fourth rung or so is full, and larger ones
# follow at its noise until half of the clock is taken.
_SIDE, _HEIGHT, _TIED_RATE = 8, 90, 500.0
# So few records that the noise of a selection may become small before its ladder ends.
_FEW, _MANY, _FEW_RATE = 3, 40, 80.0
_MORE_RECORDS, _WEAK = 8000, 0.05  # whose pair has this correlation
_TILT = 100  # of all features, in 1024ths
_AT_BOUND = 1.1  # the coordinate at which both products of a pair are about at their bound


@dataclass(frozen=True)
class AdaptiveTarget(Target):
    """`release_adaptive`: the released matrix, then the deviations of its noise."""

    parameters: AdaptiveParameters

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """A whole release of records at scale 1."""
        records = records_of(rows, self.parameters.inputs.n_records)
        prepared = Prepared(records, np.ones(rows.shape[1]))
        budget = self.parameters.budget(private=entropy.private)
        return release_adaptive(prepared, self.parameters, budget, entropy)

    def quick(self, rows: FloatArray) -> Draw:
        """Return a whole release each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the matrix in the unit of the records, and its noise."""
        release = self.release(rows, entropy)
        return flat(release.integers * release.unit, release.noise_sd)


class PartTarget(Target):
    """One part of a release with all of the time on its clock."""

    parameters: AdaptiveParameters

    @abstractmethod
    def part(self, records: Records, budget: Budget, entropy: Entropy) -> FloatArray:
        """Run the part, and return what it releases."""

    def quick(self, rows: FloatArray) -> Draw:
        """Return the part itself each time, with a new clock."""
        records = self._records(rows)
        return lambda generator: self._run(records, Entropy(generator, private=False))

    def _records(self, rows: FloatArray) -> Records:
        return records_of(rows, self.parameters.inputs.n_records)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """See `Target.released`."""
        return self._run(self._records(rows), entropy)

    def _run(self, records: Records, entropy: Entropy) -> FloatArray:
        return self.part(records, self.fresh_budget(), entropy)

    def fresh_budget(self) -> Budget:
        """A budget of which nothing is spent; it is certified once."""
        return copy.deepcopy(self._budget)

    @cached_property
    def _budget(self) -> Budget:
        budget = self.parameters.budget(private=False)
        self.parameters.expect(budget)
        return budget


@dataclass(frozen=True)
class LooksTarget(PartTarget):
    """`WholeMatrix`: the mean of two looks."""

    parameters: AdaptiveParameters

    def part(self, records: Records, budget: Budget, entropy: Entropy) -> FloatArray:
        """One look for the usual share, one for the rest."""
        inputs = self.parameters.inputs
        bound = NormBound(np.sqrt(inputs.n_features), 0.0, 1.0)
        scale = np.ones(inputs.n_features)
        whole = WholeMatrix(records, scale, inputs, bound, budget.left, widest=False)
        whole.look(np.sqrt(FIRST_LOOK * budget.left), budget, entropy)
        whole.look(budget.mu_left, budget, entropy)
        return flat(whole.mean)


@dataclass(frozen=True)
class SignsTarget(PartTarget):
    """`look_at_signs`: all pairs, by sums of products of signs that are centred or not."""

    parameters: AdaptiveParameters
    screen: SignScreen

    def part(self, records: Records, budget: Budget, entropy: Entropy) -> FloatArray:
        """One look, for all of the time."""
        inputs, mu = self.parameters.inputs, budget.mu_left
        sums = self.screen.sums(records)
        return flat(look_at_signs(sums, self.screen, inputs, 1.0, mu, budget, entropy).mean)


@dataclass(frozen=True)
class LadderTarget(PartTarget):
    """`Ladder`: what each pair was selected by, then how many real pairs each rung had, about.

    The first is 0 for a pair that was not selected, and larger for less noise.
    """

    parameters: AdaptiveParameters
    rate: float

    def quick(self, rows: FloatArray) -> Draw:
        """Scores are computed once."""
        scores = self._scores(self._records(rows))
        return lambda generator: self._climbed(scores, Entropy(generator, private=False))

    def part(self, records: Records, budget: Budget, entropy: Entropy) -> FloatArray:
        """Climb until there is no time left for selections."""
        return self._climbed(self._scores(records), entropy, budget)

    def _scores(self, records: Records) -> IntArray:
        return _SCREEN.scores(records)

    def _climbed(
        self, scores: IntArray, entropy: Entropy, budget: Budget | None = None
    ) -> FloatArray:
        inputs = self.parameters.inputs
        budget = budget or self.fresh_budget()
        budget.rate = self.rate
        ladder = Ladder(scores.copy(), _SCREEN, inputs, first=1)
        weights = np.zeros((inputs.n_features,) * 2)
        while len(ladder.rungs) < _RUNGS and ladder.climb(budget, entropy, weakest=0.0):
            rows, columns = ladder.pairs
            new = weights[rows, columns] == 0
            weights[rows[new], columns[new]] = 1 / ladder.rungs[-1].finds
        real = [rung.real for rung in ladder.rungs]
        upper = np.triu_indices(inputs.n_features, 1)
        return flat(weights[upper], real, np.zeros(_RUNGS - len(real)))


@dataclass(frozen=True)
class ValuesTarget(PartTarget):
    """`release_pairs` for one pair: its value, 0 where it was dropped, and the variances."""

    parameters: AdaptiveParameters

    def part(self, records: Records, budget: Budget, entropy: Entropy) -> FloatArray:
        """Both looks at the pair."""
        places: tuple[IntArray, IntArray] = np.array([0]), np.array([1])
        inputs, scale = self.parameters.inputs, np.ones(2)
        found = release_pairs(records, scale, inputs, places, 1.0, 1.0, budget, entropy)
        return flat(found.pairs, np.zeros(1 - len(found.pairs)), found.diagonal)


_SCREEN = SignScreen()


def _parameters(pair: Pair) -> AdaptiveParameters:
    return AdaptiveParameters(inputs_of(pair, 2))


def _whole(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    pairs = turn(sign_flips(n, d, HUGE)), turn(huge_or_zero(n, d))
    return tuple(
        Attack(name, AdaptiveTarget(_parameters(pair)), pair, matrix_statistics(pair), _SLOWNESS)
        for pair in pairs
    )


def _looks(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    pairs = turn(sign_flips(n, d, HUGE)), turn(axes(n, d, HUGE))
    return tuple(
        Attack(
            name,
            LooksTarget(_parameters(pair)),
            pair,
            (along_change(pair.before, pair.after), FITTED),
        )
        for pair in pairs
    )


def _signs(
    name: str, turn: Turn = replaced, screen: SignScreen | None = None
) -> tuple[Attack, ...]:
    """Half of the signs flip: no other record is farther."""
    pair = turn(sign_flips(RECORDS, FEATURES, HUGE))
    target = SignsTarget(_parameters(pair), screen or SignScreen())
    change = along_change(pair.before, pair.after)
    return (Attack(name, target, pair, (change, FITTED)),)


def _tilted(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Subtract tilts that the records do not have."""
    return _signs(name, turn, CentredSigns((_TILT,) * FEATURES))


def _ladder(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Which pairs are selected where all are tied; and scores that all move the same way.

    Few records show a ladder that does not end.
    """
    level = turn(tied(_SIDE, _HEIGHT))
    few, higher = turn(tied_few(_FEW, _MANY)), turn(raised(_FEW, _MANY))
    short = _climbing(few, _FEW_RATE)
    n_pairs = _MANY * (_MANY - 1) // 2
    real = Statistic("real pairs", flat(np.zeros(n_pairs), np.ones(_RUNGS)))
    return (  # a fit of so many weights needs more runs
        Attack(name, _climbing(level, _TIED_RATE), level, (_favoured(level),)),
        Attack(name, short, few, (_favoured(few),)),
        Attack(name, short, higher, (real, FITTED)),
    )


def _climbing(pair: Pair, rate: float) -> LadderTarget:
    return LadderTarget(_parameters(pair), rate)


def _favoured(pair: Pair) -> Statistic:
    """Selected pairs whose scores the first record raises, less those that it lowers."""
    first, second = (np.abs(np.sign(rows).T @ np.sign(rows)) for rows in (pair.first, pair.second))
    upper = np.triu_indices(pair.n_features, 1)
    return Statistic("favoured pairs", np.sign(first - second)[upper])


def weak_pair(turn: Turn) -> Pair:
    """One pair that is real but weak, and a record at the bound on norms.

    So it is not dropped, and does not show how far records were shrunk, which is noisy, too.
    """
    flips = sign_flips(_MORE_RECORDS, 2, _AT_BOUND)
    others = np.ones((_MORE_RECORDS - 1, 2))
    others[round((1 + _WEAK) / 2 * _MORE_RECORDS) :, 1] = -1.0
    pair = replacement("pair among real ones", flips.first[0], flips.second[0], others)
    return turn(pair)


def _values(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Values of that pair."""
    pair = weak_pair(turn)
    target = ValuesTarget(_parameters(pair))
    return (Attack(name, target, pair, (summed("pair value", [0], 3), FITTED)),)


_WIDTH = 2


@dataclass(frozen=True)
class CandidatesTarget(Target):
    """`release_candidates`: the matrix, zeros beside the pairs that are left."""

    parameters: CandidateParameters

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """A whole release of records at scale 1."""
        records = records_of(rows, self.parameters.inputs.n_records)
        prepared = Prepared(records, np.ones(rows.shape[1]))
        budget = self.parameters.budget(private=entropy.private)
        return release_candidates(prepared, self.parameters, budget, entropy)

    def quick(self, rows: FloatArray) -> Draw:
        """Return a whole release each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the matrix in the unit of the records."""
        release = self.release(rows, entropy)
        return flat(np.asarray(release.integers.toarray() * release.unit))


def _target(pair: Pair, width: int, *, adaptive_width: bool) -> CandidatesTarget:
    known = Candidates.band(pair.n_features, width)
    inputs = replace(inputs_of(pair, min(2, pair.n_features)), candidates=known)
    return CandidatesTarget(candidate_parameters(inputs, adaptive_width=adaptive_width))


def _attacks(name: str, turn: Turn, *, adaptive_width: bool) -> tuple[Attack, ...]:
    """Return a weak pair and a record at its bound; and a band whose record flips its signs."""
    weak = weak_pair(turn)
    flips = turn(sign_flips(RECORDS, FEATURES, HUGE))
    one = _target(weak, 1, adaptive_width=adaptive_width)
    band = _target(flips, _WIDTH, adaptive_width=adaptive_width)
    value = summed("pair value", [1, 2], weak.n_features**2)
    return (
        Attack(name, one, weak, (value, FITTED), slowness=3),
        Attack(name, band, flips, matrix_statistics(flips), slowness=3),
    )


def _plain(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """All candidates in one look."""
    return _attacks(name, turn, adaptive_width=False)


def _width(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Two looks, where the first one decides on the width."""
    return _attacks(name, turn, adaptive_width=True)


HANDMADE: Handmade = {
    NAME: {
        "": _whole,
        "looks": _looks,
        "signs": _signs,
        "tilted-signs": _tilted,
        "ladder": _ladder,
        "values": _values,
    },
    CANDIDATES: {"": _plain, "width": _width},
}

TURNED: dict[str, Turned] = {
    NAME: _whole,
    f"{NAME}-looks": _looks,
    f"{NAME}-signs": _signs,
    f"{NAME}-tilted-signs": _tilted,
    f"{NAME}-ladder": _ladder,
    f"{NAME}-values": _values,
    CANDIDATES: _plain,
    f"{CANDIDATES}-width": _width,
}
