"""Attacks where noise is on integers: the Gaussian release, single steps, counts, three peers.

A release of Dong et al.'s is computed from a noisy Gram matrix, perhaps noisy eigenvalues and noisy
counts of norms. The proof covers an attacker who sees all of these, so that is who attacks here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hushcov._arrays import FloatArray, IndexArray, IntArray
from hushcov.calibration import full_budget
from hushcov.fit.counting import Counted, Counting
from hushcov.fit.gaussian import mechanism as gaussian
from hushcov.fit.gaussian.mechanism import (
    GaussianParameters,
    gaussian_parameters,
    release_gaussian,
)
from hushcov.fit.norms import HALF_WIDTH, WIDEST, squared_norms
from hushcov.fit.preparation import centre_bound, release_centre
from hushcov.fit.quantiles import bin_edges, count_square, level_counts
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    ONE_REPLACED,
    Neighbours,
    gaussian_epsilon,
    smallest_sigma,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import Entropy, rounded_normal
from hushcov.kernel.noise.normal import symmetric_noise
from hushcov.kernel.queries import BoundedSums, Gram, NormCounts, Query, SignedOctaves
from hushcov.kernel.records.base import CountedRecords
from hushcov.kernel.records.multiplied import MultipliedRecords
from hushcov.kernel.session import Session
from hushcov.kernel.sums.bounded import bounded_sums_of
from hushcov.kernel.sums.counts import norm_counts_of, signed_octaves
from hushcov.tables.sources import ArrayRecords
from hushcov_lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Builder,
    Draw,
    Pair,
    Promise,
    Statistic,
    Target,
    Turn,
    axes,
    bounded_gram,
    disjoint,
    flat,
    grid_of,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    octaves,
    of_unit,
    opposite,
    outer_change,
    records_of,
    remembered,
    replaced,
    replacement,
    session_of,
    sign_flips,
    sign_flips_among_others,
    summed,
    unit_removed,
)
from hushcov_lab.peers import coinpress, separate
from hushcov_lab.peers import eigen_sampling as sampling
from hushcov_lab.peers.queries import RoundedEigenvalues
from hushcov_lab.peers.separate import SeparateParameters, separate_parameters


@dataclass(frozen=True, eq=False)
class GaussianTarget(Target):
    """`release_gaussian`: all entries of the released integers, row by row.

    With `weights` only their weighted sum is kept, for matrices too large to keep them all.
    """

    parameters: GaussianParameters
    weights: FloatArray | None = None
    release_by = release_gaussian

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; draw the noise matrix each time."""
        p, d = self.parameters, rows.shape[1]
        gram = bounded_gram(rows, p, p.norm_bound)

        def draw(generator: np.random.Generator) -> FloatArray:
            noise = symmetric_noise(generator, d, p.sigma, p.diagonal_sigma)
            return self._seen(gram + noise)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, or their weighted sum."""
        return self._seen(self.release(rows, entropy).integers)

    def _seen(self, integers: IntArray) -> FloatArray:
        entries = flat(integers)
        return entries if self.weights is None else np.atleast_1d(entries @ self.weights)


def _gaussian(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    pairs = [make(n, d, HUGE) for make in (sign_flips, sign_flips_among_others, axes)]
    found = []
    for pair in map(turn, (*pairs, huge_or_zero(n, d))):
        target = GaussianTarget(gaussian_parameters(inputs_of(pair)))
        found.append(Attack(name, target, pair, matrix_statistics(pair)))
    # At norms from four times the radius on, the noise is the same everywhere.
    wide = turn(disjoint(2, 32, HUGE))
    parameters = gaussian_parameters(inputs_of(wide, 2), radius=1.0, row_norm=4.0)
    change = outer_change(wide.before, wide.after)
    target = GaussianTarget(parameters, weights=np.triu(change).ravel())
    return (*found, Attack(name, target, wide, (Statistic("along change", np.ones(1)),)))


@dataclass(frozen=True, eq=False)
class StepTarget(Target):
    """Exact integers of one step, the deviation of their noise, and the step itself.

    `mu` is claimed. Compared are the numbers that the replaced record moves: all others have the
    same law on both datasets and are independent of these.
    """

    exact: Callable[[FloatArray], IntArray]
    step: Callable[[FloatArray, Entropy], FloatArray | IntArray]
    sigma: int
    mu: float
    moved: IndexArray

    @property
    def promise(self) -> Promise:
        """One Gaussian curve."""
        return Promise(gaussian_epsilon(self.mu, DELTA), DELTA, gaussian=True)

    def quick(self, rows: FloatArray) -> Draw:
        """Sum once; draw the noise each time."""
        sums = self.exact(rows)

        def draw(generator: np.random.Generator) -> FloatArray:
            return flat((sums + rounded_normal(generator, self.sigma, len(sums)))[self.moved])

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return what the step releases."""
        return flat(self.step(rows, entropy)[self.moved])


def _step_attack(
    name: str,
    pair: Pair,
    exact: Callable[[FloatArray], IntArray],
    step: Callable[[FloatArray, Entropy], FloatArray | IntArray],
    sigma: int,
    mu: float,
) -> Attack:
    change = exact(pair.second) - exact(pair.first)
    moved = np.flatnonzero(change)
    along = Statistic("along change", flat(change[moved]))
    return Attack(name, StepTarget(exact, step, sigma, mu, moved), pair, (along, FITTED))


def _noise(squared_sensitivity: int) -> tuple[int, float]:
    """Return noise for a mu of about 1, an epsilon of 4: a whole number, not rounded up."""
    size = math.sqrt(squared_sensitivity)
    mu = size / math.ceil(size) * (1 + 1e-12)
    return smallest_sigma(squared_sensitivity, mu), mu


def _scales(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    query = SignedOctaves(np.zeros(FEATURES), np.zeros(FEATURES), np.arange(FEATURES))

    def exact(rows: FloatArray) -> IntArray:
        return query.exact(ArrayRecords(rows)).ravel()

    found = []
    for pair in (turn(octaves(RECORDS, FEATURES)), turn(huge_or_zero(RECORDS, FEATURES))):
        n, neighbours = pair.n_records, pair.neighbours
        size = math.sqrt(neighbours.moved(replaced=2 * FEATURES, removed=FEATURES))
        # Noise is a whole number. At this budget, an epsilon of about 4, it is not rounded up.
        mu = size / (math.ceil(size) * neighbours.most_rows) * (1 + 1e-12)

        def step(
            rows: FloatArray,
            entropy: Entropy,
            n: int = n,
            mu: float = mu,
            neighbours: Neighbours = neighbours,
        ) -> IntArray:
            budget = full_budget(50.0, 0.09, neighbours, private=False)
            session = Session(records_of(rows, n), budget, entropy)
            return np.asarray(session.measure(query, mu).integers.ravel())

        sigma = query.deviations(mu, neighbours)[0]
        found.append(_step_attack(name, pair, exact, step, sigma, mu * neighbours.most_rows))
    return tuple(found)


def _centre(name: str) -> tuple[Attack, ...]:
    grid = FeatureGrid(np.ones(FEATURES), WIDEST, HALF_WIDTH)
    mu = _noise(4 * centre_bound(grid, FEATURES, RECORDS, 1.0) ** 2)[1]
    bound = centre_bound(grid, FEATURES, RECORDS, mu)
    sigma = smallest_sigma(4 * bound**2, mu)

    def exact(rows: FloatArray) -> IntArray:
        records = ArrayRecords(rows)
        return records.map_sum(bounded_sums_of(records, grid, bound))

    def step(rows: FloatArray, entropy: Entropy) -> FloatArray:
        session = Session(ArrayRecords(rows), full_budget(50.0, 0.09, private=False), entropy)
        mean, _ = release_centre(session, BoundedSums(grid, bound), mu)
        return np.asarray(np.rint(mean * len(rows) / grid.step))

    pairs = opposite(RECORDS, FEATURES, HUGE), huge_or_zero(RECORDS, FEATURES)
    return tuple(_step_attack(name, pair, exact, step, sigma, mu) for pair in pairs)


def _norms(name: str) -> tuple[Attack, ...]:
    grid = FeatureGrid(np.ones(FEATURES), WIDEST, HALF_WIDTH)
    edges = tuple(squared_norms(grid, FEATURES))
    sigma, mu = _noise(2)

    def exact(rows: FloatArray) -> IntArray:
        records = ArrayRecords(rows)
        return records.map_sum(norm_counts_of(records, grid, edges))

    def step(rows: FloatArray, entropy: Entropy) -> IntArray:
        session = Session(ArrayRecords(rows), full_budget(10.0, 0.09, private=False), entropy)
        return np.asarray(session.measure(NormCounts(grid, edges), mu).integers)

    pair = huge_or_zero(RECORDS, FEATURES)
    return (_step_attack(name, pair, exact, step, sigma, mu),)


def _octaves(name: str) -> tuple[Attack, ...]:
    every, zeros = np.arange(FEATURES), np.zeros(FEATURES)
    sigma, mu = _noise(2 * FEATURES)

    def exact(rows: FloatArray) -> IntArray:
        return signed_octaves(ArrayRecords(rows), zeros, zeros, every).ravel()

    def step(rows: FloatArray, entropy: Entropy) -> IntArray:
        """Count with the noise of a look."""
        session = Session(ArrayRecords(rows), full_budget(50.0, 0.09, private=False), entropy)
        reserve = session.reserve(mu, sigma)
        return np.asarray(reserve.measure(SignedOctaves(zeros, zeros, every)).integers.ravel())

    pairs = octaves(RECORDS, FEATURES), opposite(RECORDS, FEATURES, HUGE)
    return tuple(_step_attack(name, pair, exact, step, sigma, mu) for pair in pairs)


def _quantiles(name: str) -> tuple[Attack, ...]:
    every, ones = np.arange(FEATURES), np.ones(FEATURES)
    edges = bin_edges(0 * ones, ones)
    sigma, mu = _noise(count_square(FEATURES, ONE_REPLACED))
    query = level_counts(every, edges)

    def exact(rows: FloatArray) -> IntArray:
        return query.exact(ArrayRecords(rows)).ravel()

    def step(rows: FloatArray, entropy: Entropy) -> IntArray:
        session = Session(ArrayRecords(rows), full_budget(50.0, 0.09, private=False), entropy)
        return np.asarray(session.measure(query, mu).integers.ravel())

    pair = opposite(RECORDS, FEATURES, HUGE)
    return (_step_attack(name, pair, exact, step, sigma, mu),)


# Attacks on a number of records that is not public: the count, and what is planned by it.


@dataclass(frozen=True, eq=False)
class CountTarget(Target):
    """`Counting.run`: the released number of records."""

    counting: Counting

    @property
    def promise(self) -> Promise:
        """Claim of the count, which needs no delta."""
        return Promise(self.counting.count_epsilon, 0.0, gaussian=False)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released number."""
        return flat(self.counted(rows, entropy).released)

    def counted(self, rows: FloatArray, entropy: Entropy) -> Counted:
        """Run the count."""
        return self.counting.run(session_of(ArrayRecords(rows), self.counting, entropy))[0]


@dataclass(frozen=True, eq=False)
class CountedTarget(CountTarget):
    """A count, and the Gaussian release that is planned with what is left."""

    @property
    def promise(self) -> Promise:
        """All of the budget."""
        return Promise(self.counting.epsilon, DELTA, gaussian=False)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the number, then the matrix in the unit of the records."""
        counted = self.counted(rows, entropy)
        d = rows.shape[1]
        parameters = _planned(counted.released, d, counted.left, counted.neighbours)
        records = CountedRecords(ArrayRecords(rows), counted.released)
        release = release_gaussian(session_of(records, parameters, entropy), np.ones(d), parameters)
        return flat(counted.released, release.integers * release.unit * counted.released)


@remembered
def _planned(n: int, d: int, epsilon: float, whose: Neighbours) -> GaussianParameters:
    return gaussian_parameters(ReleaseInputs(n, d, 1, epsilon, DELTA, neighbours=whose))


def _counts(name: str, turn: Turn = unit_removed) -> tuple[Attack, ...]:
    """Attack a record, or all of a unit, that is there or not: the number is all that changes."""
    if turn is of_unit:
        turn = unit_removed  # a unit may have fewer records in the one dataset than in the other
    few, huge = (
        turn(pair)
        for pair in (
            replace(octaves(RECORDS, 1), name="one more or not"),
            replace(sign_flips(10 * RECORDS, FEATURES, HUGE), name="and a matrix"),
        )
    )
    whose = few.neighbours
    # Noise is a whole number. At this budget it is not rounded up.
    share = Counting(1.0, whose).count_epsilon
    exact = Counting(whose.most_rows / share * (1 + 1e-12), whose)
    usual = CountedTarget(Counting(EPSILON, whose))
    change = Statistic("along change", flat(0, np.outer(huge.before, huge.before) / HUGE**2))
    counted = summed("count", [0], 1)
    return (
        Attack(name, CountTarget(exact), few, (counted,)),
        Attack(name, usual, huge, (change, counted, FITTED), slowness=4),
    )


@dataclass(frozen=True, eq=False)
class CoinPressTarget(Target):
    """`release_coinpress`: the released integers, then the noisy Gram matrix of every step.

    The matrices of the steps are not released, but the guarantee covers them too.
    """

    parameters: coinpress.CoinPressParameters
    release_by = coinpress.release_coinpress

    def quick(self, rows: FloatArray) -> Draw:
        """Sum once for a matrix that comes again; draw the noise of every step each time."""
        records, p = ArrayRecords(rows), self.parameters
        own, multiplied = coinpress.grids_of(np.ones(rows.shape[1]), p)
        query = Gram(multiplied, p.norm_bound)
        # The first matrix is always the same, and so are all where the bounds leave no choice.
        gram_of = remembered(lambda matrix: query.exact(MultipliedRecords(records, own, matrix)))

        def draw(generator: np.random.Generator) -> FloatArray:
            def noisy(matrix: FloatArray, step: int) -> IntArray:
                sigmas = p.sigmas[step], p.diagonal_sigmas[step]
                return gram_of(matrix) + symmetric_noise(generator, p.inputs.n_features, *sigmas)

            transcript = coinpress.run_steps(noisy, p)
            return flat(transcript.integers, *transcript.noisy_grams)

        return draw


def all_steps(pair: Pair, parameters: coinpress.CoinPressParameters) -> Statistic:
    """Return the best weights for the matrices of all steps, if none of them turns the records."""
    d, least = pair.n_features, min(parameters.sigmas)
    change = outer_change(pair.first[0], pair.second[0])
    weights = [np.zeros(d * d)]  # of the released integers, which follow from the matrices
    for sigma, diagonal_sigma in zip(parameters.sigmas, parameters.diagonal_sigmas, strict=True):
        # Each entry over its variance; one off the diagonal is there twice.
        weight = np.full((d, d), (least / sigma) ** 2 / 2)
        np.fill_diagonal(weight, (least / diagonal_sigma) ** 2)
        weights.append((change * weight).ravel())
    return Statistic("all steps", np.concatenate(weights))


def _coinpress(name: str) -> tuple[Attack, ...]:
    def attack(title: str, pair: Pair, bounds: tuple[float, float]) -> Attack:
        parameters = coinpress.coinpress_parameters(inputs_of(pair), eigenvalue_bounds=bounds)
        statistics: tuple[Statistic, ...] = (all_steps(pair, parameters),)
        if bounds[0] < bounds[1]:
            statistics += matrix_statistics(pair)
        target, named = CoinPressTarget(parameters), replace(pair, name=title)
        return Attack(name, target, named, statistics, slowness=2)

    n, d = RECORDS, 2
    turned, flips = axes(n, d, HUGE), sign_flips(n, d, HUGE)
    # Many records whose second moments are the identity: the matrix is so too, nearly.
    others = math.sqrt(d) * np.tile(np.eye(d), (500, 1))
    among_others = replacement("", turned.first[0], turned.second[0], others)
    return (
        # Equal bounds leave no choice of the matrix: every step sees the whole change.
        attack("axes, equal bounds", turned, (1.0, 1.0)),
        attack("axes among others", among_others, (0.25, 4.0)),
        attack("axes, wide bounds", turned, (0.01, 100.0)),
        attack("flips, equal bounds", flips, (1.0, 1.0)),
    )


# Eigenvalues this many records apart keep their order, and norms this common keep their bound.
_APART = 40
# Smaller than elsewhere: without a Gaussian curve, events of probability e^-epsilon must be seen.
_EPSILON = 3.0
# Records before the replacement; with more of them directions hardly ever leave their axis, and
# with fewer they are not often on it.
_COPIES = 3


@dataclass(frozen=True, eq=False)
class SeparateTarget(Target):
    """`release_separate`: released integers, noisy counts, noisy Gram matrix, noisy eigenvalues.

    Matrices are given row by row. There are counts only where the norm bound is chosen; eigenvalues
    are zeros where none are released.
    """

    parameters: SeparateParameters
    release_by = separate.release_separate

    def statistics(self, pair: Pair) -> tuple[Statistic, ...]:
        """Return the log-likelihood ratio of all noisy integers, and what counts say alone.

        While the choice stays the declared one, no statistic tells the datasets better apart than
        the first.
        """
        p, sigma, grid = self.parameters, self.parameters.histogram_sigma, grid_of(self.parameters)
        method = p.method if sigma is None else "gauss"
        noise = separate.matrix_noise(p, method, p.norm_bound)
        gram = Gram(grid, p.norm_bound)
        values = RoundedEigenvalues(gram, p.inputs.n_records)
        counts = NormCounts(grid, separate.squared_edges(p.norm_bound))

        def change_of(query: Query) -> FloatArray:
            first, second = (query.exact(ArrayRecords(rows)) for rows in (pair.first, pair.second))
            return (second - first).astype(np.float64)

        change = np.triu(change_of(gram))
        deviation = np.full(change.shape, float(noise.sigma))
        np.fill_diagonal(deviation, float(noise.diagonal_sigma))
        parts = [np.zeros(change.size), (change / deviation**2).ravel()]
        if sigma is not None:
            parts.insert(1, change_of(counts) / sigma**2)
        elif noise.eigenvalue_sigma is not None:
            parts.append(change_of(values) / float(noise.eigenvalue_sigma) ** 2)
        ratio = Statistic("likelihood", np.concatenate(parts))
        alone = Statistic("counts", np.concatenate(parts[:2]))
        return (ratio,) if sigma is None else (ratio, alone)

    def quick(self, rows: FloatArray) -> Draw:
        """Count and sum once for each choice; draw all noise each time."""
        parameters, session_of_draw = self.parameters, self.sessions(rows)
        grid = grid_of(parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            found = separate.draw_transcript(session_of_draw(generator), grid, parameters)
            released = separate.recombine(found, parameters)
            seen = [] if found.counts is None else [found.counts]
            eigenvalues = found.eigenvalues
            if eigenvalues is None:
                eigenvalues = np.zeros(len(released), dtype=np.int64)
            return flat(released, *seen, found.gram, eigenvalues)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, and noisy counts if there are any."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.parameters["noisy_counts"] or [])


def ends_of_the_spectrum(n_features: int, shorter: float) -> Pair:
    """Return a record along the first axis against one along the last, by `shorter` times as long.

    The other records lie along the axes, more on each than on the one before. So the first record
    raises the largest eigenvalue and its replacement the smallest, and no order changes.
    """
    axes = np.eye(n_features)
    others = np.repeat(axes[::-1], _APART * np.arange(1, n_features + 1), axis=0)
    return replacement("ends of spectrum", axes[0], shorter * axes[-1], others)


def _separate(name: str, *, method: str) -> tuple[Attack, ...]:
    d = FEATURES
    # Where norms are counted, the replacement is just short enough to be in another bin.
    shorter = 0.84 if method == "adaptive" else 1.0
    found = []
    for pair in (
        ends_of_the_spectrum(d, shorter),
        sign_flips(_APART, d, HUGE),
        sign_flips_among_others(_APART, d, HUGE),
        huge_or_zero(_APART, d),
    ):
        target = SeparateTarget(separate_parameters(inputs_of(pair), method=method, row_norm=1.0))
        statistics = (*target.statistics(pair), *matrix_statistics(pair))
        if method == "adaptive":  # weights of all counts would be fitted to the luck of few runs
            statistics = statistics[:-1]
        found.append(Attack(name, target, pair, statistics))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class EigenSamplingTarget(Target):
    """`release_eigen_sampling`: all entries of the released integers.

    Quick draws go on with the noisy eigenvalues and with how much likelier eigenvalues and
    directions are on the second dataset, up to what normalises directions. The proof covers these
    as well, though only the matrix is released.
    """

    parameters: sampling.EigenSamplingParameters
    pair: Pair
    release_by = sampling.release_eigen_sampling

    @property
    def promise(self) -> Promise:
        """Pure differential privacy."""
        return Promise(self.parameters.inputs.epsilon, 0.0, gaussian=False)

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; draw eigenvalues and directions each time."""
        p = self.parameters
        every = (self.pair.first, self.pair.second, rows)
        first, second, gram = (bounded_gram(each, p, p.norm_bound) for each in every)
        moved = np.array([sampling.rounded_eigenvalues(each) for each in (first, second)])
        exact = sampling.rounded_eigenvalues(gram)

        def draw(generator: np.random.Generator) -> FloatArray:
            eigenvalues, directions = sampling.sample_spectrum(generator, gram, exact, p)
            before, after = np.abs(eigenvalues - moved).sum(axis=1)
            loss = (before - after) / p.eigenvalue_scale
            # The log of the ratio of the densities of directions, but for normalising constants.
            shares = np.array(sampling.shares(eigenvalues, p))
            sampled = directions[:, : len(shares)]
            scores = np.sum(sampled * ((second - first) @ sampled), axis=0)
            loss += float(shares @ scores / sampling.SHARES * p.direction_rate)
            return flat(sampling.assembled(eigenvalues, directions), eigenvalues, [loss])

        return draw


def _among_copies(n_features: int) -> Pair:
    """Return a record among copies of itself against one orthogonal to it.

    The largest eigenvalue falls and the second rises, by as much as a record can do, and
    directions near the replacement become likelier.
    """
    first, second = HUGE * np.eye(n_features)[:2]
    others = np.tile(first, (_COPIES - 1, 1))
    return replacement(f"copies, {n_features} feat.", first, second, others)


def _eigen_sampling(name: str) -> tuple[Attack, ...]:
    found = []
    for pair in (
        replace(huge_or_zero(RECORDS, 1), name="huge or 0, 1 feat."),
        _among_copies(2),
        _among_copies(3),
        sign_flips_among_others(RECORDS, 3, HUGE),
    ):
        d = pair.n_features
        inputs = ReleaseInputs(pair.n_records, d, 1, _EPSILON, 0.0)
        # A bound that a record along one axis reaches.
        parameters = sampling.eigen_sampling_parameters(inputs, row_norm=1.0)
        columns = d * d + d + 1
        statistics = (*matrix_statistics(pair), summed("loss", [columns - 1], columns))
        target = EigenSamplingTarget(parameters, pair)
        found.append(Attack(name, target, pair, statistics, slowness=d))  # each takes its time
    return tuple(found)


#: Attacks on neighbours of any kind.
TURNED: dict[str, Builder] = {gaussian.NAME: _gaussian, "scales": _scales}
#: Those that replace one record.
REPLACED: dict[str, Builder] = {
    coinpress.NAME: _coinpress,
    **{
        f"{separate.NAME}-{title}": partial(_separate, method=method)
        for title, method in (("gauss", "gauss"), ("eigen", "separate"), ("adaptive", "adaptive"))
    },
    sampling.NAME: _eigen_sampling,
    "location": _octaves,
    "centre": _centre,
    "norms": _norms,
    "quantiles": _quantiles,
}
#: Those that need a number of records that is not public.
COUNTS: dict[str, Builder] = {"counts": _counts}
