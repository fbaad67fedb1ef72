"""One attack: a mechanism, two neighbouring datasets, and what is computed from its outputs.

Neighbouring datasets are as hard to keep apart as a mechanism's proof allows. The first record is
the one that is replaced, and what is around it decides how much it shows. `KINDS` make other
neighbours of such a pair: without that record, or with several of one unit in its place.

A release certifies itself, summarises the records, draws noise, and computes an estimate. Over
thousands of runs on the same records only the noise changes. So the quick draws of a target
certify nothing, summarise the records once, with the mechanism's own functions, and repeat what is
random: the mechanism's own samplers on the same generator, in the same order. From the same seed
they give the numbers of a whole release, bit for bit; every audit checks that before it starts
(`check_path`).
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.linalg import hadamard

from hushcov._arrays import FloatArray, IntArray
from hushcov.exceptions import ParameterError
from hushcov.fit.mechanism import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    ONE_REMOVED,
    ONE_REPLACED,
    Clocked,
    Event,
    Gaussian,
    Neighbours,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import Entropy
from hushcov.kernel.records.base import CountedRecords, Records
from hushcov.kernel.session import Session
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.release import Release
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov.tables.sources import ArrayRecords

HUGE = 1e9  # beyond every clipping radius
UNITS = "units"
_ROWS = 3  # of the unit that changes


@dataclass(frozen=True, eq=False)
class Pair:
    """Two datasets that differ in their first record, and what is special about them.

    They differ in the first records of both, as many as one unit has, where `neighbours` are not
    the usual ones.
    """

    name: str
    first: FloatArray
    second: FloatArray
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        most = self.neighbours.most_rows
        left = most if self.neighbours.public_size else 0
        there = len(self.first) - most == len(self.second) - left >= 0
        if not there or not np.array_equal(self.first[most:], self.second[left:]):
            raise ParameterError(
                "second must equal first but for the first record: neighbours differ in one."
            )

    @property
    def n_records(self) -> int:
        """The number of records that a release is planned for."""
        return len(self.first)

    @property
    def before(self) -> FloatArray:
        """A record of the unit that changes."""
        return np.asarray(self.first[0])

    @property
    def after(self) -> FloatArray:
        """Return the record after the change; zeros where it is removed."""
        gone = not self.neighbours.public_size
        return np.zeros_like(self.first[0]) if gone else np.asarray(self.second[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.first.shape[1])


def replacement(name: str, before: FloatArray, after: FloatArray, others: FloatArray) -> Pair:
    """Return a record replaced by another one, in front of records that stay."""
    return Pair(name, np.vstack([before, others]), np.vstack([after, others]))


#: Other neighbours of a pair.
Turn = Callable[[Pair], Pair]


def replaced(pair: Pair) -> Pair:
    """Return the pair itself."""
    return pair


def removed(pair: Pair) -> Pair:
    """Turn the replacement into a removal: the first record is there, or it is not."""
    return replace(pair, second=pair.first[1:], neighbours=ONE_REMOVED)


def of_unit(pair: Pair) -> Pair:
    """Three records of one unit, all of them replaced."""
    first, second = (
        np.vstack([np.tile(rows[0], (_ROWS, 1)), rows[1:]]) for rows in (pair.first, pair.second)
    )
    unit = replace(ONE_REPLACED, most_rows=_ROWS, unit="unit")
    return replace(pair, first=first, second=second, neighbours=unit)


def unit_removed(pair: Pair) -> Pair:
    """Three records of one unit are there, or they are not."""
    first = of_unit(pair).first
    gone = replace(ONE_REMOVED, most_rows=_ROWS, unit="unit")
    return replace(pair, first=first, second=first[_ROWS:], neighbours=gone)


#: Kinds of neighbours that mechanisms are attacked on.
KINDS: dict[str, Turn] = {
    ONE_REPLACED.relation: replaced,
    ONE_REMOVED.relation: removed,
    UNITS: of_unit,
    f"{UNITS}-removed": unit_removed,
}


def _alone(name: str, before: FloatArray, after: FloatArray, n_records: int) -> Pair:
    """Return the pair of datasets in which all other records are zero."""
    return replacement(name, before, after, np.zeros((n_records - 1, len(before))))


def opposite(n_records: int, n_features: int, size: float) -> Pair:
    """(R, .., R) against (-R, .., -R), all other records zero: sums move as far as they can."""
    return _alone("opposite", np.full(n_features, size), np.full(n_features, -size), n_records)


def sign_flips(n_records: int, n_features: int, size: float) -> Pair:
    """(R, .., R) against (R, -R, R, -R, ..), all other records zero.

    Half of the products change sign, each by as much as clipped coordinates allow.
    """
    flipped = np.where(np.arange(n_features) % 2 == 0, size, -size)
    return _alone("sign flips", np.full(n_features, size), flipped, n_records)


def sign_flips_among_others(n_records: int, n_features: int, size: float) -> Pair:
    """Flip signs among Gaussian records with correlated features."""
    lone = sign_flips(n_records, n_features, size)
    others = gaussian_records(sparse_covariance("block", n_features, 2), n_records - 1)
    return replacement("flips among others", lone.first[0], lone.second[0], others)


def axes(n_records: int, n_features: int, size: float) -> Pair:
    """Return a record along one axis against one along another: only squares change."""
    return _alone("axes", size * np.eye(n_features)[0], size * np.eye(n_features)[-1], n_records)


def disjoint(n_records: int, n_features: int, size: float) -> Pair:
    """Return a record on the first half of the features against one on the second half."""
    before = np.where(np.arange(n_features) < n_features // 2, size, 0.0)
    return _alone("disjoint halves", before, size - before, n_records)


def huge_or_zero(n_records: int, n_features: int) -> Pair:
    """Return a record far beyond every bound against one of zeros, all others zero."""
    return _alone("huge or zero", np.full(n_features, HUGE), np.zeros(n_features), n_records)


def octaves(n_records: int, n_features: int) -> Pair:
    """Double every coordinate of a record, which moves it to the next bin; others zero."""
    return _alone("octaves", np.ones(n_features), np.full(n_features, 2.0), n_records)


def edge_of_selection(n_features: int, size: float, height: int, lag: int) -> Pair:
    """(R, .., R) against the same with the later half of the signs flipped, at tied scores.

    Pairs (i, j) with i in the first half of the features and j in the second change sign. Records
    with two nonzero coordinates give each of them a score of its own: about `height` and positive
    where i + j is even, so that the first record raises the score and its replacement lowers
    it; about `height + lag` and negative elsewhere, so that it is the other way round.
    """
    half = (n_features + 1) // 2
    before, after = np.full(n_features, size), np.full(n_features, size)
    after[half:] = -size
    others = []
    for i, j in changing_pairs(n_features):
        favoured = (i + j) % 2 == 0
        record = np.zeros(n_features)
        record[i], record[j] = size, size if favoured else -size
        others += [record] * (height if favoured else height + lag)
    return replacement("edge of selection", before, after, np.array(others))


def tied_few(n_records: int, n_features: int) -> Pair:
    """Tie the scores of all pairs: all other records are (1, -1, 1, -1, ..)."""
    pair = edge_of_selection(n_features, 1.0, 1, 0)
    others = np.tile(_alternating(n_features), (n_records - 1, 1))
    return replacement("tied, few records", pair.first[0], pair.second[0], others)


def tied(side: int, height: int) -> Pair:
    """Tie scores of features in two halves of side^2: only pairs that change have scores.

    The scores of pairs across the halves are tied at side * height, with the signs of a Hadamard
    matrix; those within a half are 0. No records of signs have higher scores with that: theirs
    are shifts of a bent function in one half, and rows of the matrix in the other.
    """
    size = side**2
    rows, bent = hadamard(size).astype(np.float64), hadamard(side).astype(np.float64).ravel()
    shifts = bent[np.arange(size)[:, None] ^ np.arange(size)]
    others = np.tile(np.hstack([shifts, rows * (rows @ bent) / side]), (height, 1))
    before, after = np.ones(2 * size), np.repeat([1.0, -1.0], size)
    return replacement("tied pairs", before, after, others)


def raised(n_records: int, n_features: int) -> Pair:
    """Return one more of (1, -1, 1, -1, ..) against zeros: the scores of all pairs move alike."""
    same = _alternating(n_features)
    others = np.tile(same, (n_records - 1, 1))
    return replacement("all scores", same, np.zeros(n_features), others)


def _alternating(n_features: int) -> FloatArray:
    return np.where(np.arange(n_features) % 2 == 0, 1.0, -1.0)


def changing_pairs(n_features: int) -> list[tuple[int, int]]:
    """Return the pairs of features whose product changes sign in `edge_of_selection`."""
    half = (n_features + 1) // 2
    return [(i, j) for i in range(half) for j in range(half, n_features)]


# Sizes are small, so that one record matters and tens of thousands of runs are quick. Budgets are
# large enough for a bound to be close, and small enough for few runs to break a false claim.
EPSILON = 4.0
DELTA = 1e-5
RECORDS = 20
FEATURES = 4
_RIDGE = 1e-9  # relative; makes the fit unique where numbers of an output determine each other

#: One output of a mechanism on fixed records, as numbers in a fixed order.
Draw = Callable[[np.random.Generator], FloatArray]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Promise:
    """Claim under attack: (epsilon, delta), and whether one Gaussian curve implies it.

    No test is better than that curve by more than `late`, whatever its rate of false positives.
    """

    epsilon: float
    delta: float
    gaussian: bool
    late: float = 0.0


def promised(epsilon: float, delta: float, events: Sequence[Event]) -> Promise:
    """Return the claim of events: one Gaussian curve where all are Gaussian or clocked."""
    gaussian = bool(events) and all(isinstance(event, Gaussian | Clocked) for event in events)
    late = sum(event.late for event in events if isinstance(event, Clocked))
    return Promise(epsilon, delta, gaussian, late)


class Target:
    """A mechanism with its public parameters, ready to be run on neighbouring datasets.

    `release_by` is the mechanism's function, on a session, the scales and the parameters.
    """

    parameters: Any
    release_by: ClassVar[Callable[[Session, FloatArray, Any], Release]]

    @property
    def promise(self) -> Promise:
        """Claim of the mechanism."""
        inputs = self.parameters.inputs
        budget = getattr(self.parameters, "budget", None)
        known = getattr(self.parameters, "events", ())
        events = known if budget is None else budget().certificate.events
        return promised(inputs.epsilon, inputs.delta, events)

    def quick(self, rows: FloatArray) -> Draw:
        """Summarise the records, and return what draws an output; here, a whole release."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def sessions(self, rows: FloatArray) -> Callable[[np.random.Generator], Session]:
        """Return what makes a session for every draw, with a new budget and sums made once."""
        records = SummedOnce(rows, self.parameters.inputs.n_records)
        certified = self.parameters.budget(private=False)
        unchanging = (certified.certificate, certified.relation)

        def session(generator: np.random.Generator) -> Session:
            budget = copy.deepcopy(certified, {id(each): each for each in unchanging})
            return Session(records, budget, Entropy(generator, private=False))

        return session

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the output of a whole release: the leading part of what `quick` draws."""
        return flat(self.release(rows, entropy).integers)

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """Return a whole release of records at scale 1."""
        scale, n = np.ones(rows.shape[1]), self.parameters.inputs.n_records
        session = session_of(records_of(rows, n), self.parameters, entropy)
        return type(self).release_by(session, scale, self.parameters)


@dataclass(frozen=True, eq=False)
class WholeTarget(Target):
    """A mechanism that runs after steps: its function, and what is seen of its release."""

    parameters: Any
    mechanism: Callable[[Prepared, Any], Release]
    seen: Callable[[Release], FloatArray]

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """See `Target.released`."""
        records = records_of(rows, self.parameters.inputs.n_records)
        session = session_of(records, self.parameters, entropy)
        prepared = Prepared(session, np.ones(rows.shape[1]))
        return self.seen(self.mechanism(prepared, self.parameters))


def inputs_of(pair: Pair, row_sparsity: int = 1) -> ReleaseInputs:
    """Public inputs at the usual budget, for the size of a pair."""
    size = pair.n_records, pair.n_features, row_sparsity
    return ReleaseInputs(*size, EPSILON, DELTA, neighbours=pair.neighbours)


def session_of(records: Records, parameters: Any, entropy: Entropy) -> Session:
    """Certify the budget of a mechanism, or of a plan, and return a session on the records."""
    return Session(records, parameters.budget(private=entropy.private), entropy)


def records_of(rows: FloatArray, n_records: int) -> Records:
    """Records that a release is planned for so many of, which may be more than there are."""
    records = ArrayRecords(rows)
    return records if len(rows) == n_records else CountedRecords(records, n_records)


class SummedOnce(CountedRecords):
    """Records of which every sum is computed once, for mechanisms that draw many times."""

    def __init__(self, rows: FloatArray, n_records: int) -> None:
        super().__init__(ArrayRecords(rows), n_records)
        self._known: dict[Any, IntArray] = {}

    def map_sum(self, block_function: Any) -> IntArray:
        """See `Records.map_sum`; the caller may write to the answer."""
        public = block_function.arguments, block_function.shape
        key = type(block_function), block_function.kernel, pickle.dumps(public)
        if key not in self._known:
            self._known[key] = super().map_sum(block_function)
        return self._known[key].copy()


def bounded_gram(rows: FloatArray, parameters: Any, norm_bound: int | None) -> IntArray:
    """Return the exact Gram matrix of records at scale 1, clipped as the parameters say."""
    return row_bounded_gram(ArrayRecords(rows), grid_of(parameters), norm_bound)


def grid_of(parameters: Any) -> FeatureGrid:
    """Return the grid of a mechanism at scale 1."""
    scale = np.ones(parameters.inputs.n_features)
    return FeatureGrid(scale, parameters.radius, parameters.half_width)


def remembered(function: Callable[..., Result]) -> Callable[..., Result]:
    """Cache a function of arrays and numbers."""
    known: dict[Any, Result] = {}

    def ask(*arguments: Any) -> Result:
        key = tuple(bytes(each) if isinstance(each, np.ndarray) else each for each in arguments)
        if key not in known:
            known[key] = function(*arguments)
        return known[key]

    return ask


def flat(*parts: Any) -> FloatArray:
    """Matrices row by row and vectors, one after the other, as one output."""
    return np.concatenate([np.ravel(part) for part in parts]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Statistic:
    """A weighted sum of the leading numbers of an output; None for weights fitted to runs.

    Whether a pair was selected is a number too (0 or 1), so that counts of pairs are such sums.
    """

    name: str
    weights: FloatArray | None = None

    def fitted(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the weights, from runs (rows) on both datasets where they are not fixed."""
        return linear_discriminant(first, second) if self.weights is None else self.weights


def weighted_sums(outputs: FloatArray, weights: FloatArray) -> FloatArray:
    """Return one number for each output (row); weights may be fewer than the numbers in it."""
    return np.asarray(outputs[:, : len(weights)] @ weights)


#: Fitted to half of the runs: finds what nobody thought of.
FITTED = Statistic("fitted")


def along_change(before: FloatArray, after: FloatArray) -> Statistic:
    """<M, y'y'' - yy'> for the released matrix M.

    `before` and `after` are the replaced record y and its replacement y'. An output starts with
    the entries of M, row by row.
    """
    return Statistic("along change", outer_change(before, after).ravel())


def outer_change(before: FloatArray, after: FloatArray) -> FloatArray:
    """y'y'' - yy', with 1 as its largest size."""
    change = np.outer(after, after) - np.outer(before, before)
    return np.asarray(change / np.max(np.abs(change)))


def trace(n_features: int) -> Statistic:
    """Return the trace of the released matrix."""
    return Statistic("trace", np.eye(n_features).ravel())


def summed(name: str, columns: Iterable[int], n_columns: int) -> Statistic:
    """Sum some numbers of the output: counts, or whether given pairs were selected."""
    weights = np.zeros(n_columns)
    weights[list(columns)] = 1.0
    return Statistic(name, weights)


def linear_discriminant(first: FloatArray, second: FloatArray) -> FloatArray:
    """Fisher's weights: the inverse of the common covariance times the difference of the means.

    A number that never varies gets a small deviation, so that one which differs between the
    datasets decides.
    """
    difference = second.mean(axis=0) - first.mean(axis=0)
    centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    deviation = np.sqrt(np.mean(centred**2, axis=0))
    deviation = np.where(deviation > 0, deviation, 1e-6 * np.maximum(1.0, np.abs(difference)))
    centred /= deviation
    covariance = centred.T @ centred / len(centred)
    covariance += np.diag(np.maximum(1 - np.diag(covariance), 0) + _RIDGE)
    return np.asarray(np.linalg.solve(covariance, difference / deviation) / deviation)


def matrix_statistics(pair: Pair) -> tuple[Statistic, ...]:
    """Return the statistics to compute from a released matrix."""
    return along_change(pair.before, pair.after), trace(pair.n_features), FITTED


@dataclass(frozen=True, eq=False)
class Attack:
    """A mechanism on a pair of neighbouring datasets, and what is computed from its outputs.

    A mechanism that is `slowness` times as slow as others makes that many times fewer runs.
    """

    mechanism: str
    target: Target
    pair: Pair
    statistics: tuple[Statistic, ...]
    slowness: int = 1

    @property
    def name(self) -> str:
        """The name of the pair."""
        return self.pair.name


#: Makes all attacks on what has the given name, on neighbours of any kind if it takes a turn.
Builder = Callable[..., tuple[Attack, ...]]
