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
from hushcov._validation import check_feature_scale
from hushcov.fit.adaptive.planned import PlannedRung, equal_steps, planned_rungs
from hushcov.fit.adaptive.rules import RULES, AdaptiveRules
from hushcov.fit.mechanism import Prepared
from hushcov.fit.screened.mechanism import (
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
    widest_norm,
)
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import PairSigns, ProductMap, ProductNormCounts
from hushcov.kernel.session import Session
from hushcov.postprocess import detection_deviation, multiply_outer, symmetric_sparse
from hushcov.postprocess.tails import KnownErrors, estimate_error
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


@dataclass(frozen=True)
class AdaptiveParameters:
    """Everything that is fixed before a record is read: the public inputs, and the rules."""

    inputs: ReleaseInputs
    rules: AdaptiveRules = RULES

    @property
    def selects(self) -> bool:
        """Whether pairs may be selected."""
        return True

    @property
    def part(self) -> str:
        """Description of the released values."""
        return "which pairs and factors matter, and their values"

    def budget(self, *, private: bool = True) -> Budget:
        """Certify a clock, from public inputs alone.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. Whatever the steps are, they stay on the
        clock; `docs/proofs/adaptive.md`.
        """
        check_exact(self.inputs.n_records)  # scores and sums, as in the screened release
        return self.inputs.budget(selects=self.selects, private=private)  # proof: step 1

    def open(self, prepared: Prepared) -> FloatArray:
        """Check the size and the scales, name the parts, and choose the rate of selections."""
        session, inputs = prepared.session, self.inputs
        inputs.check_size(session)
        scale = check_feature_scale(prepared.feature_scale, inputs.n_features)
        session.name_parts(self.part)
        if self.selects:
            self.set_rate(session)
        return scale

    def set_rate(self, session: Session) -> None:
        """Choose the rate of selections by how many steps the ladder is planned to take."""
        rules, inputs = self.rules, self.inputs
        steps = math.ceil(rules.planned_steps_per_feature * inputs.n_features)
        steps, share = max(rules.fewest_planned_steps, steps), rules.planned_ladder_share
        if inputs.told:
            time = session.remaining
            plan = planned_rungs(inputs, time, rules)
            known = equal_steps(plan) if plan else 1, sum(rung.time for rung in plan) / time
            # A higher rate would refuse the finer steps of a ladder that goes on beyond the plan.
            if plan and math.sqrt(known[0]) / known[1] < math.sqrt(steps) / share:
                steps, share = known
        session.expect(steps, share)

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


# Error estimates, from norms of the errors of a release.


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
    known_zeros: bool = False,
) -> Structure:
    """Return a structure with its error over the norm, and an interval for it.

    `errors` are norms: of noise, and of what is hidden; `sampling` is that of sampling errors.
    `matrix` is the estimate, and `noise_sd` the noise of a variance; `given` says which features
    were found, and what is known of their tails. Features that do not vary beyond noise count
    neither for the error nor for the norm. `known_zeros` says that it was public which pairs are
    zero.
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
        known_zeros=known_zeros,
    )
    by_noise = min(1.0, math.hypot(noise, RULES.sampling_weight * sampling, hidden))
    return Structure(kind, rank, why, *known, kept, by_noise)


def kept_of(noise: float, norm: float) -> float:
    """Return the factor for an estimate with which noise does not make it worse than zeros."""
    sure = RULES.noise_margin * noise  # hidden entries are missing from zeros, too
    truth = max(norm - sure, 0.0)
    return 1.0 if sure <= truth else min(1.0, RULES.harmless * truth / (sure - truth))


# The ladder: pairs selected rung by rung, each rung at less noise than the one before.


@dataclass(frozen=True)
class Rung:
    """One selection: how many pairs, the weakest correlation it finds, and how many are real."""

    size: int
    finds: float
    real: float


class Ladder:
    """Scores of pairs, and the pairs that were selected so far.

    Parameters
    ----------
    session : Session
        Access to the records; selections use its scores up.
    scores : PairSigns
        How pairs are scored.
    inputs : ReleaseInputs
        The size, and the relation between neighbours.
    rules : AdaptiveRules
        Sizes of rungs, and when the ladder ends.
    """

    def __init__(
        self,
        session: Session,
        scores: PairSigns,
        inputs: ReleaseInputs,
        rules: AdaptiveRules = RULES,
    ) -> None:
        self._session, self._scores, self._rules = session, scores, rules
        self._n, self._d, self._n_pairs = inputs.n_records, inputs.n_features, scores.n_pairs
        self._moved = inputs.neighbours.moved(replaced=2, removed=1)  # scores, by one record
        first = self._d * max(1, inputs.row_sparsity - 1) // rules.first_rung_part
        self._size = min(max(rules.fewest_pairs, first), self._n_pairs)
        #: Places of the selected pairs among all of them, ascending.
        self.selected: IntArray = np.empty(0, dtype=np.int64)
        self.rungs: list[Rung] = []
        self.real = 0.0  # number of real pairs among the selected ones, about
        self.narrowed = 0  # rungs after which noise was lowered
        # The share that d / 2 steps of range 2 moved rate take: each takes (moved rate)^2.
        self._unit, self._spent = session.remaining, 0.0
        self._rate = math.sqrt(2 * rules.first_rung_share * self._unit / self._d) / self._moved
        #: Levels of a plan that are to come, where the row sparsity was given.
        self.planned: list[PlannedRung] = []
        if inputs.told:
            self.planned = list(planned_rungs(inputs, self._unit, rules))
        self._looks_for_none = inputs.told and inputs.row_sparsity == 1
        self._ended, self._most_share = False, rules.most_ladder_share
        self._first = self._size, self._rate
        self._take_plan()

    def _take_plan(self) -> None:
        """Take size and rate of the next planned level, if there is one."""
        if self.planned:
            self._size, self._rate = self.planned[0].size, self.planned[0].rate

    @property
    def spent_share(self) -> float:
        """Share of the clock that selections took."""
        return self._spent / self._unit

    @property
    def next_share(self) -> float:
        """Share of the clock that the next rung takes, about."""
        return self._size * (self._moved * self._rate) ** 2 / self._unit

    def finds(self) -> float:
        """Return about the weakest correlation that the next rung finds."""
        edge = math.log(max(2.0, self._n_pairs / max(1, self._size))) / self._rate
        return TO_CORRELATION * edge / self._n

    def climb(self, weakest: float) -> bool:
        """Select one more rung, or say that the ladder has ended.

        `weakest` is the correlation below which a pair matters less than noise.

        Privacy
        -------
        Neighbours: those of the session; no precondition. A rung is `size` bounded-range steps, and
        the sum of the selected scores moves by at most `size` times what one of them does. Sizes
        and rates follow from released numbers and the clock.
        """
        session, rules = self._session, self._rules
        if self._ended:
            return False
        in_plan = bool(self.planned)
        thin = bool(self.rungs) and self.rungs[-1].real < self.rungs[-1].size / 2
        if len(self.selected) + self._size > rules.most_pairs * self._n_pairs:
            if self.rungs:
                return False
        else:
            finest = self._rate * math.sqrt(self._n) > rules.finest_noise
            if not in_plan and (finest or (thin and self.finds() < weakest)):
                return False
        resolution = self._scores.resolution
        rate = self._rate / resolution
        before = session.remaining
        share = max(0.0, self._most_share * self._unit - self._spent) / before
        size = min(self._size, session.selections_left(self._scores, rate, min(1.0, share)))
        if in_plan and size < 1:  # its steps are larger than the clock allows
            self._go_on()
            return self.climb(weakest)
        least = 1 if in_plan else max(rules.fewest_pairs, self._d // 20)
        if size < min(least, max(1, self._n_pairs)):
            return False
        best = session.select(self._scores, size, rate)  # proof: step 2
        total = session.total(math.sqrt(rules.rung_mean_share * self._unit))  # proof: step 3
        self.selected = np.sort(np.concatenate([self.selected, best]))
        self._spent += before - session.remaining
        self._note(size, int(total.integers[0]) / size / resolution)
        return True

    def _note(self, size: int, mean: float) -> None:
        """Say how much a rung found, and choose the next one; all from released numbers."""
        n, root, rules = self._n, math.sqrt(self._n), self._rules
        edge = math.log(max(2.0, self._n_pairs / size)) / self._rate
        null = root * (math.sqrt(2 / math.pi) + rules.null_by_selection * self._rate * root)
        real = (mean - null) / max(rules.real_over_edge * edge, 3 * root)
        real = size * min(1.0, max(0.0, real))
        self.rungs.append(Rung(size, TO_CORRELATION * edge / n, real))
        self.real += real
        if self.planned and self._follows_plan(real, size):
            return
        if real > rules.full_rung * size:
            self._size = int(rules.rung_growth * size)
        else:
            self.narrowed += 1
            self._rate *= rules.noise_step
            least = max(self._d // rules.features_per_pair, rules.fewest_pairs)
            self._size = max(int(rules.selected_over_real * real), least)
        self._size = min(self._size, self._n_pairs - len(self.selected))

    def _follows_plan(self, real: float, size: int) -> bool:
        """Take the next planned level, or end; False where the plan does not fit what was found.

        Where hardly a pair is real there are fewer than the row sparsity says, or weaker ones, and
        where most pairs of the last level are, there are more.
        """
        del self.planned[0]
        if real < self._rules.told_least_real * size:
            self.planned.clear()
            self._ended = self._looks_for_none
            return self._ended
        self._take_plan()
        self._ended = not self.planned and real <= self._rules.told_more_real * size
        if not self.planned and not self._ended:
            self._go_on()
        return True

    def _go_on(self) -> None:
        """Leave the plan, and look for the strongest of the pairs that are left."""
        self.planned.clear()
        self._size, self._rate = self._first
        self._most_share = max(self._most_share, self.spent_share + self._rules.told_more_share)


# Values of the pairs that a ladder selected: a first release drops those that are noise.


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
        """Return the values of some of the pairs."""
        places = self.rows[kept], self.columns[kept]
        return replace(self, rows=places[0], columns=places[1], pairs=self.pairs[kept])

    def matrix(self, kept: BoolArray | None = None, steps: float = 0.0) -> Matrix:
        """Return a sparse matrix of the pairs, or of those kept; with `steps` of integers."""
        found = self if kept is None else self.only(kept)
        places, pairs, diagonal = (found.rows, found.columns), found.pairs, found.diagonal
        if steps:
            pairs = np.rint(pairs / steps).astype(np.int64)
            diagonal = np.rint(diagonal / steps).astype(np.int64)
        return symmetric_sparse(places, pairs, diagonal)


@dataclass(frozen=True)
class Narrowing:
    """A release of pairs for a share of the time left, and which of them are released again.

    `keep` gets the values released so far; `norms` says that the bound on norms is chosen anew.
    """

    share: float
    keep: Callable[[PairValues], BoolArray]
    norms: bool = False


def release_pairs(
    session: Session,
    feature_scale: FloatArray,
    parameters: AdaptiveParameters,
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
    inputs, rules, steps = parameters.inputs, parameters.rules, []

    def keep(first: PairValues) -> BoolArray:
        deviation = detection_deviation(first.noise_sd[0], inputs.n_sampled)
        return np.asarray(np.abs(first.pairs) > rules.noise_pair * deviation)

    if inputs.neighbours.together > 1:
        steps = [Narrowing(rules.first_values_of_units_share, keep)]
    elif rules.release_values_twice:
        steps = [Narrowing(rules.first_values_share, keep)]
    return release_narrowed(session, feature_scale, parameters, places, steps, (n_real, norm))


def release_narrowed(
    session: Session,
    feature_scale: FloatArray,
    parameters: AdaptiveParameters,
    places: tuple[IntArray, IntArray],
    steps: Sequence[Narrowing],
    size: tuple[float, float],
) -> PairValues:
    """Release the values of pairs in steps, each of those that the one before left; averaged.

    The last release takes all the time that is left. `size` is about how many pairs are real, and
    the norm of the matrix.

    Privacy
    -------
    Neighbours: those of the session; no precondition. The histogram of norms moves by at most
    sqrt(2), the sums by what `release_values` says. Which pairs are dropped, and where records are
    bounded, follows from what was released before.
    """
    (rows, columns), inputs = places, parameters.inputs
    together, d = inputs.neighbours.together, inputs.n_features
    norms_share = parameters.rules.product_norms_share
    share = steps[0].share if steps else 1 - norms_share
    mu = math.sqrt(share * session.remaining)
    half_width = product_half_width(inputs, len(rows), mu)
    grid = FeatureGrid(feature_scale, RADIUS, half_width)
    widest = int(together * widest_norm(len(rows), grid.n_features) * half_width**2)
    products = product_map(grid, rows, columns, widest, together)

    def choose_bound(products: ProductMap) -> int:
        """Choose the bound at which noise and the bias of shrinking are least.

        Records beyond the bound are scaled down, and values divided by the mean shrinkage. That
        does not restore the part of the large records beyond their number.
        """
        noisy = session.measure(
            ProductNormCounts(products), math.sqrt(norms_share * session.remaining)
        )  # proof: step 6
        left = session.mu_left / (sum_movement(session.relation) / session.relation.together)
        biased = parameters.rules.told_bias if inputs.told and together == 1 else None
        counts = noisy.integers, noisy.sd
        return chosen_bound(*counts, products, session.n_records, size, left, biased)

    bound = choose_bound(products)
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
            bound = choose_bound(products)
        else:
            bound = max(1, int(bound * root_square(len(rows), d) / root_square(before, d)))
    products = product_map(grid, rows, columns, bound, together, means)
    return _averaged(found, release_values(session, products, session.mu_left))  # proof: step 6


def _averaged(found: PairValues | None, looked: Values) -> PairValues:
    """Average all releases of the pairs that are left, weighted by their precision."""
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
