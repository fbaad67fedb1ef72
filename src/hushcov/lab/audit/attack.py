"""One attack: a mechanism, two neighbouring datasets, and what is computed from its outputs.

A release certifies itself, summarises the records, draws noise, and computes an estimate. Over
thousands of runs on the same records only the noise changes. So the quick draws of a target
certify nothing, summarise the records once, with the mechanism's own functions, and repeat what is
random: the mechanism's own samplers on the same generator, in the same order. From the same seed
they give the numbers of a whole release, bit for bit; every audit checks that before it starts
(`check_path`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Clocked, Event, Gaussian
from hushcov.inputs import ReleaseInputs
from hushcov.lab.audit.neighbours import Pair, Turn
from hushcov.noise import Entropy
from hushcov.release import Release
from hushcov.sums.gram import row_bounded_gram
from hushcov.sums.grids import FeatureGrid
from hushcov.sums.protocol import Records
from hushcov.sums.views import CountedRecords
from hushcov.tables.sources import ArrayRecords

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


class Target(ABC):
    """A mechanism with its public parameters, ready to be run on neighbouring datasets.

    `release_by` is the mechanism's function, on records, their scales, parameters and entropy.
    """

    parameters: Any
    release_by: ClassVar[Callable[[Records, FloatArray, Any, Entropy], Release]]

    @property
    def promise(self) -> Promise:
        """Claim of the mechanism."""
        inputs = self.parameters.inputs
        budget = getattr(self.parameters, "budget", None)
        events = () if budget is None else budget().certificate.events
        return promised(inputs.epsilon, inputs.delta, events)

    @abstractmethod
    def quick(self, rows: FloatArray) -> Draw:
        """Summarise the records, and return what draws an output."""

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The output of a whole release: the leading part of what `quick` draws."""
        return flat(self.release(rows, entropy).integers)

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """A whole release of records at scale 1."""
        scale, n = np.ones(rows.shape[1]), self.parameters.inputs.n_records
        return type(self).release_by(records_of(rows, n), scale, self.parameters, entropy)


def inputs_of(pair: Pair, row_sparsity: int = 1) -> ReleaseInputs:
    """Public inputs at the usual budget, for the size of a pair."""
    size = pair.n_records, pair.n_features, row_sparsity
    return ReleaseInputs(*size, EPSILON, DELTA, neighbours=pair.neighbours)


def records_of(rows: FloatArray, n_records: int) -> Records:
    """Records that a release is planned for so many of, which may be more than there are."""
    records = ArrayRecords(rows)
    return records if len(rows) == n_records else CountedRecords(records, n_records)


def bounded_gram(rows: FloatArray, parameters: Any, norm_bound: int | None) -> IntArray:
    """The exact Gram matrix of records at scale 1, rounded and clipped as the parameters say."""
    grid = FeatureGrid(np.ones(rows.shape[1]), parameters.radius, parameters.half_width)
    return row_bounded_gram(ArrayRecords(rows), grid, norm_bound)


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
        """The weights, from runs (rows) on both datasets where they are not fixed."""
        return linear_discriminant(first, second) if self.weights is None else self.weights


def weighted_sums(outputs: FloatArray, weights: FloatArray) -> FloatArray:
    """One number for each output (row); weights may be fewer than the numbers in it."""
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
    """The trace of the released matrix."""
    return Statistic("trace", np.eye(n_features).ravel())


def summed(name: str, columns: Iterable[int], n_columns: int) -> Statistic:
    """The sum of some numbers of the output: counts, or whether given pairs were selected."""
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


#: Makes all attacks on what has the given name.
Builder = Callable[[str], tuple[Attack, ...]]
#: The same for neighbours of any kind.
Turned = Callable[[str, Turn], tuple[Attack, ...]]
#: Attacks made by hand: by mechanism, and by variant ("" for the mechanism as it is by default).
Handmade = dict[str, dict[str, Builder]]
