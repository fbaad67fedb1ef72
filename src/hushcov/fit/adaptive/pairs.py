"""Pairs of an adaptive release: the budget they share, the ladder that selects them, their values.

A rung of the ladder selects some pairs by noisy scores and releases their mean score, which says
how many of them are real. Where nearly all are, the same noise gets a larger rung; where few are,
the next rung has less noise. It ends where weaker pairs would matter less than the noise of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray, Matrix
from hushcov.fit.screened.mechanism import pair_of
from hushcov.fit.screened.values import (
    PAIR_WEIGHT,
    RADIUS,
    TO_CORRELATION,
    Values,
    check_exact,
    chosen_bound,
    mean_products,
    product_half_width,
    product_map,
    release_values,
    root_square,
    sum_movement,
    usual_of_units,
    widest_norm,
)
from hushcov.fit.stage import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import PairSigns, ProductMap, ProductNormCounts
from hushcov.kernel.session import Session
from hushcov.postprocess import KnownErrors, detection_deviation, estimate_error, multiply_outer
from hushcov.release import Structure
from hushcov.release.coverage import (
    SURE,
    Norms,
    common_logarithm,
    constant_mask,
    long_records,
    missing_logarithm,
)

NAME = "adaptive"
# Shares of the time on the clock. Chosen on the families of docs/mechanisms.md.
PROBE = 0.10  # the look at the whole matrix
MOST_LADDER = 0.5  # selections together
FIRST_LOOK = 0.02  # the same where no pairs are selected, for the bound on norms alone
NORMS = 0.01  # histogram of norms, where none was released before
PRODUCT_NORMS = 0.01  # the same for the products of selected pairs
TEST = 0.001  # the mean score of what a rung selected
FIRST_VALUES = 0.25  # of what is left: values that decide which pairs are released again
FIRST_OF_UNITS = 0.15  # the same where values are taken off units before these are bounded
# What matters beside noise, in its deviations, or over its norm.
DROPPED = 1.5  # deviations below which a selected pair is taken for noise
WEAKEST = 0.6  # a row may miss several pairs: those that alone are so far below noise matter
KEEP = 3.0  # deviations that a selected pair must exceed
_LADDER_SHARE, _STEPS_PER_FEATURE, _FEWEST_STEPS = 0.3, 1.25, 64  # for the rate of the clock


@dataclass(frozen=True)
class AdaptiveParameters:
    """What is fixed before a record is read: the public inputs."""

    inputs: ReleaseInputs

    @property
    def selects(self) -> bool:
        """Whether pairs may be selected."""
        return True

    @property
    def part(self) -> str:
        """What is released, in words."""
        return "which pairs and factors matter, and their values"

    @property
    def mu(self) -> float:
        """About what steps before leave."""
        return self.inputs.largest_mu(selects=self.selects)

    def budget(self, *, private: bool = True) -> Budget:
        """Certify a clock, from public inputs alone.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. Whatever the steps are, they stay on the
        clock; `docs/proofs/adaptive.md`.
        """
        check_exact(self.inputs.n_records)  # scores and sums, as in the screened release
        return self.inputs.budget(selects=self.selects, private=private)  # proof: step 1

    def expect(self, session: Session) -> None:
        """Choose the rate of the clock for a ladder."""
        steps = max(_FEWEST_STEPS, math.ceil(_STEPS_PER_FEATURE * self.inputs.n_features))
        session.expect(steps, _LADDER_SHARE)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {"inputs": self.inputs.to_dict()}


def clock_dict(prepared: Prepared) -> dict[str, object]:
    """Return the clock of a release and what it started with, as plain data."""
    norm, tilt = prepared.norm, prepared.tilt
    return {
        **prepared.session.clock,
        "norm": None if norm is None else asdict(norm),
        "tilt": None if tilt is None else tilt.tolist(),
    }


# Error estimates, from norms of what is wrong with a release.

FINE = 1024  # steps of the released integers in a deviation of their noise
_SAMPLED = 0.7  # of sampling errors beside noise; measured
_BARELY = 1.15  # how far the norm of noise may be from what is expected
_HARMLESS = 0.05  # by which an estimate may be worse than zeros


def with_errors(
    kind: str,
    why: str,
    errors: tuple[float, float],
    sampling: float,
    norm: float,
    *,
    matrix: Matrix,
    noise_sd: float,
    n_records: int,
    given: Prepared,
    rank: int = 0,
    kept: float = 1.0,
    told: bool = False,
) -> Structure:
    """Return a structure with its error over the norm, and an interval for it.

    `errors` are norms: of noise, and of what is hidden; `sampling` is that of sampling errors.
    `matrix` is the estimate, and `noise_sd` the noise of a variance; `given` says which features
    were found, and what is known of their tails. Features that do not vary beyond noise count
    neither for the error nor for the norm. `told` says that it was public which pairs are zero.
    """
    constant = constant_mask(given.feature_scale, np.asarray(matrix.diagonal()), noise_sd)
    if constant.any():
        matrix = matrix.copy()
        multiply_outer(matrix, np.where(constant, 0.0, 1.0))
    noise, hidden, sampling = (each / max(norm, 1e-300) for each in (*errors, sampling))
    tail, tails = None, given.making.get("tails")
    long = doubt = 0.0
    if tails is not None and given.norm is not None:
        variance = np.asarray(matrix.diagonal())
        tail = missing_logarithm(tails, variance, noise_sd, n_records)
        # Scales of 0/1 columns are larger than their deviations, so that no record of one is long.
        tail[list(given.indicators)] = 0.0
        tail += common_logarithm(tails, given.norm.cut)
        doubt = -math.expm1(-common_logarithm(tails, given.norm.cut, SURE))
        norms = Norms(given.norm.norm, given.norm.typical)
        long = long_records(norms, given.feature_scale, matrix, noise_sd / math.sqrt(2))
    known = estimate_error(
        matrix,
        noise_sd,
        n_records,
        KnownErrors(noise, hidden, sampling),
        tail=tail,
        long=long,
        doubt=doubt,
        kept=kept,
        told=told,
    )
    by_noise = min(1.0, math.hypot(noise, _SAMPLED * sampling, hidden))
    return Structure(kind, rank, why, *known, kept, by_noise)


def kept_of(noise: float, norm: float) -> float:
    """What an estimate is multiplied by so that noise does not make it worse than zeros."""
    sure = _BARELY * noise  # what is hidden is missing from zeros, too
    truth = max(norm - sure, 0.0)
    return 1.0 if sure <= truth else min(1.0, _HARMLESS * truth / (sure - truth))


# The ladder: pairs selected rung by rung, each rung at less noise than the one before.

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
    """Scores of pairs, and what was selected so far.

    Parameters
    ----------
    session : Session
        Access to the records; selections use its scores up.
    scores : PairSigns
        How pairs are scored.
    inputs : ReleaseInputs
        The size, and whose privacy it is.
    first : int
        Pairs of the first rung.
    """

    def __init__(
        self, session: Session, scores: PairSigns, inputs: ReleaseInputs, first: int
    ) -> None:
        self._session, self._scores = session, scores
        self._n, self._d, self._n_pairs = inputs.n_records, inputs.n_features, scores.n_pairs
        self._moved = inputs.neighbours.moved(replaced=2, removed=1)  # scores, by one record
        self._size = min(max(_FEWEST, first), self._n_pairs)
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
        edge = math.log(max(2.0, self._n_pairs / max(1, self._size))) / self._rate
        return TO_CORRELATION * edge / self._n

    @property
    def next_share(self) -> float:
        """Share of the clock that the next rung takes, about."""
        return self._size * (self._moved * self._rate) ** 2 / self._unit if self._unit else 0.0

    def climb(self, weakest: float) -> bool:
        """Select one more rung, or say that the ladder has ended.

        `weakest` is the correlation below which a pair matters less than noise.

        Privacy
        -------
        Neighbours: those of the session; no precondition. A rung is `size` bounded-range steps, and
        the sum of the selected scores moves by at most `size` times what one of them does. Sizes
        and rates follow from released numbers and the clock.
        """
        session = self._session
        if not self._unit:
            self._unit = session.remaining
            # The share that d / 2 steps of range 2 moved rate take: each takes (moved rate)^2.
            self._rate = math.sqrt(2 * _FIRST_SHARE * self._unit / self._d) / self._moved
        if self._ended(weakest):
            return False
        resolution = self._scores.resolution
        rate = self._rate / resolution
        before = session.remaining
        share = min(1.0, max(0.0, MOST_LADDER * self._unit - self._spent) / before)
        size = min(self._size, session.selections_left(self._scores, rate, share))
        if size < min(max(_FEWEST, self._d // 20), max(1, self._n_pairs)):
            return False
        best = session.select(self._scores, size, rate)  # proof: step 2
        total = session.total(math.sqrt(TEST * self._unit))  # proof: step 3
        self._selected = np.concatenate([self._selected, best])
        self._spent += before - session.remaining
        self._note(size, int(total.integers[0]) / size / resolution)
        return True

    def _ended(self, weakest: float) -> bool:
        if len(self._selected) + self._size > _MOST_PAIRS * self._n_pairs:
            return bool(self.rungs)
        if self._rate * math.sqrt(self._n) > _FINEST:
            return True
        thin = bool(self.rungs) and self.rungs[-1].real < self.rungs[-1].size / 2
        return thin and self.finds() < weakest

    def _note(self, size: int, mean: float) -> None:
        """Say how much a rung found, and choose the next one; all from released numbers."""
        n, root = self._n, math.sqrt(self._n)
        edge = math.log(max(2.0, self._n_pairs / size)) / self._rate
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
        self._size = min(self._size, self._n_pairs - len(self._selected))


# Values of the pairs that a ladder selected: a first look drops those that are noise.


@dataclass(frozen=True, eq=False)
class PairValues:
    """Values of pairs and of variances in units of the scales, with the noise of each kind.

    `unexplained` is about by which share sizes of records had to correct them.
    """

    rows: IntArray
    columns: IntArray
    pairs: FloatArray
    diagonal: FloatArray
    noise_sd: tuple[float, float]
    unexplained: float

    def only(self, kept: BoolArray) -> PairValues:
        """The same of some of the pairs."""
        places = self.rows[kept], self.columns[kept]
        return replace(self, rows=places[0], columns=places[1], pairs=self.pairs[kept])


def value_noise(
    n_pairs: int, inputs: ReleaseInputs, mu: float, alike: float | None = None
) -> float:
    """About the noise of a pair where so many are released, for records of typical norm.

    `alike` is about how many records of a unit are worth one that is independent; None is unknown.
    """
    moved = 1.1 * sum_movement(inputs.neighbours) * root_square(n_pairs, inputs.n_features)
    together = inputs.neighbours.together
    longer = usual_of_units(inputs.neighbours) if alike is None else math.sqrt(alike * together)
    moved *= longer / together
    return moved / (PAIR_WEIGHT * inputs.n_records * mu)


@dataclass(frozen=True)
class Narrowing:
    """A look at pairs for a share of the time left, and which of them are looked at again.

    `keep` is told what was released so far; `norms` says that the bound on norms is chosen anew.
    """

    share: float
    keep: Callable[[PairValues], BoolArray]
    norms: bool = False


def release_pairs(
    session: Session,
    feature_scale: FloatArray,
    inputs: ReleaseInputs,
    places: tuple[IntArray, IntArray],
    n_real: float,
    norm: float,
) -> PairValues:
    """Release the values of pairs, drop what looks like noise, and release the rest once more.

    `n_real` is about how many of them are real, `norm` about that of the matrix.

    Privacy
    -------
    See `release_narrowed`.
    """

    def keep(first: PairValues) -> BoolArray:
        deviation = detection_deviation(first.noise_sd[0], inputs.n_sampled)
        return np.asarray(np.abs(first.pairs) > DROPPED * deviation)

    share = FIRST_VALUES if inputs.neighbours.together == 1 else FIRST_OF_UNITS
    steps, size = [Narrowing(share, keep)], (n_real, norm)
    return release_narrowed(session, feature_scale, inputs, places, steps, size)


def release_narrowed(
    session: Session,
    feature_scale: FloatArray,
    inputs: ReleaseInputs,
    places: tuple[IntArray, IntArray],
    steps: Sequence[Narrowing],
    size: tuple[float, float],
) -> PairValues:
    """Release the values of pairs in looks, each at those that the one before left; averaged.

    The last look takes all the time that is left. `size` is about how many pairs are real, and the
    norm of the matrix.

    Privacy
    -------
    Neighbours: those of the session; no precondition. The histogram of norms moves by at most
    sqrt(2), the sums by what `release_values` says. Which pairs are dropped, and where records are
    bounded, follows from what was released before.
    """
    rows, columns = places
    together, d = inputs.neighbours.together, inputs.n_features
    share = steps[0].share if steps else 1 - PRODUCT_NORMS
    mu = math.sqrt(share * session.remaining)
    half_width = product_half_width(inputs, len(rows), mu)
    grid = FeatureGrid(feature_scale, RADIUS, half_width)
    widest = int(together * widest_norm(len(rows), grid.n_features) * half_width**2)
    products = product_map(grid, rows, columns, widest, together)
    bound = _norm_bound(session, products, size)
    found: PairValues | None = None
    means = None
    for step in steps:
        # Its share was of what there was before the first bound was chosen.
        mu = mu if found is None else math.sqrt(step.share * session.remaining)
        products = product_map(grid, rows, columns, bound, together, means)
        looked = release_values(session, products, mu)  # proof: step 6
        found = _averaged(found, looked)
        kept = step.keep(found)
        found, before = found.only(kept), len(rows)
        rows, columns = rows[kept], columns[kept]
        if together > 1:
            means = mean_products(found.pairs, found.diagonal, products)
        if together > 1 or step.norms:
            products = product_map(grid, rows, columns, widest, together, means)
            bound = _norm_bound(session, products, size)
        else:
            bound = max(1, int(bound * root_square(len(rows), d) / root_square(before, d)))
    products = product_map(grid, rows, columns, bound, together, means)
    return _averaged(found, release_values(session, products, session.mu_left))  # proof: step 6


def _averaged(found: PairValues | None, looked: Values) -> PairValues:
    """All looks at the pairs that are left, weighted by their precision."""
    fresh, after = looked.in_scales
    unexplained = abs(looked.correction - 1)
    if found is None:
        places = looked.rows, looked.columns
        return PairValues(*places, fresh, after, looked.noise_sd, unexplained)
    noise = np.array([found.noise_sd, looked.noise_sd])
    precision = noise**-2.0
    share = precision[1] / precision.sum(axis=0)
    off, on = 1 / np.sqrt(precision.sum(axis=0))
    return PairValues(
        looked.rows,
        looked.columns,
        found.pairs + share[0] * (fresh - found.pairs),
        found.diagonal + share[1] * (after - found.diagonal),
        (float(off), float(on)),
        unexplained,
    )


def _norm_bound(session: Session, products: ProductMap, size: tuple[float, float]) -> int:
    """The bound at which the noise of values and what shrinking leaves of a bias are least.

    Records beyond the bound are scaled down, and values divided by the mean shrinkage. What that
    does not restore is the part of the large records beyond their number.
    """
    mu = math.sqrt(PRODUCT_NORMS * session.remaining)
    noisy = session.measure(ProductNormCounts(products), mu)  # proof: step 6
    moved = sum_movement(session.relation) / session.relation.together
    counts, left = (noisy.integers, noisy.sd), session.mu_left / moved
    return chosen_bound(*counts, products, session.n_records, size, left)
