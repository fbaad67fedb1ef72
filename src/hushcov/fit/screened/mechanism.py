"""Screened release: select pairs privately by their signs, then release values and the diagonal.

The certified numbers of a release follow from public inputs, before data is touched.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray, IntArray
from hushcov._validation import check_feature_scale
from hushcov.calibration import calibrate_near
from hushcov.exceptions import CapacityError
from hushcov.fit.norms import Mass
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    UP,
    WITHIN,
    BoundedRange,
    Budget,
    Event,
    Gaussian,
    Neighbours,
    smallest_sigma,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import (
    LARGEST_SIGMA,
    PairSigns,
    ProductMap,
    ProductNormCounts,
    Products,
    bounded_products,
)
from hushcov.kernel.session import Session
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, parts_of

NAME = "screened"


@dataclass(frozen=True)
class ScreenedDesign:
    """The numbers that an optimiser may choose freely: every value gives a private mechanism.

    Parameters
    ----------
    screen_share : float
        Share of the budget (in zCDP) that the screen spends.
    selection_factor : float
        Selected pairs, over the d (k - 1) / 2 that can be nonzero.
    n_levels : int
        Screening levels. 0 releases all pairs and screens nothing.
    size_ratio : float
        Pairs of a level over those of the level before.
    noise_ratio : float
        Selection noise of a level over that of the level before.
    norm_factor : float
        Norm bound over the typical norm. A small one means less noise; records beyond it are
        shrunk, and what dividing by the mean shrinkage leaves is a bias of a few parts in d.
    keep_above : float
        Released pairs below this many standard deviations are set to zero.
    """

    screen_share: float
    selection_factor: float
    n_levels: int
    size_ratio: float
    noise_ratio: float
    norm_factor: float
    keep_above: float


def candidate_pairs(inputs: ReleaseInputs) -> int:
    """Pairs of features that may covary: all of them, where nothing else is known."""
    if inputs.candidates is not None:
        return inputs.candidates.n_pairs
    return inputs.n_features * (inputs.n_features - 1) // 2


def possible_pairs(inputs: ReleaseInputs) -> int:
    """The most pairs that can have a covariance: each feature has at most k - 1 partners."""
    return min(candidate_pairs(inputs), inputs.n_features * (inputs.row_sparsity - 1) // 2)


def level_sizes(inputs: ReleaseInputs, design: ScreenedDesign) -> tuple[int, ...]:
    """Return how many pairs each level selects; empty if every pair is released anyway."""
    candidates, possible = candidate_pairs(inputs), possible_pairs(inputs)
    total = max(possible, 1, round(design.selection_factor * possible))
    if possible == 0 or design.n_levels == 0 or total >= candidates:
        return ()
    n_levels = min(design.n_levels, total)
    weights = [design.size_ratio**ell for ell in range(n_levels)]
    ends = [0]
    for ell in range(n_levels):
        share = sum(weights[: ell + 1]) / sum(weights)
        # At least one pair a level, and room for one in each that follows.
        ends.append(max(ends[-1] + 1, min(round(share * total), total - (n_levels - 1 - ell))))
    return tuple(ends[ell + 1] - ends[ell] for ell in range(n_levels))


def level_shares(sizes: tuple[int, ...], design: ScreenedDesign) -> tuple[float, ...]:
    """Divide the screen's zCDP among levels: rho_ell is proportional to s_ell / noise_ell^2."""
    costs = [size * design.noise_ratio ** (-2 * ell) for ell, size in enumerate(sizes)]
    return tuple(cost / sum(costs) for cost in costs)


PAIR_WEIGHT, DIAGONAL_WEIGHT = 4, 3  # relative precision of pairs and of the diagonal
RADIUS = 8.0  # coordinates are clipped at this many scales
_SQUARED_CORRELATION = 0.15  # of a pair that is not zero, on the reference models
_FACTOR_PART, _SIZE_PART = 4, 4  # norm bound over the ranges of the two numbers per record
# Relative bias, times d, when all records are shrunk. Measured on Gaussian records, off and on the
# diagonal: 4.4 and 2.6 (random), 6.2 and 4.5 (banded), 8.4 and 4.5 (block).
SHRINKING_BIAS = 5.0
_LARGEST_HALF_WIDTH = 2047
_LARGEST_N = 2**33  # for which sums and scores stay exact, with room for weights and noise
_BETWEEN = 0.75  # exponent: between independent records of a unit and alike ones


@dataclass(frozen=True)
class ScreenLevel:
    """One peeling: the `size` largest of rate * score + Gumbel, among the pairs still there."""

    size: int
    rate: float


@dataclass(frozen=True)
class ScreenedParameters:
    """A certified screened release: inputs, design, levels, and the noise of its values."""

    inputs: ReleaseInputs
    design: ScreenedDesign
    levels: tuple[ScreenLevel, ...]
    n_pairs: int
    half_width: int
    norm_bound: int  # in integers
    mu: float  # sensitivity of the summed contributions over their noise
    tilt: tuple[int, ...] | None = None  # released means of signs, in 1024ths, taken off the signs

    @cached_property
    def scoring(self) -> PairSigns:
        """The query of the scores of pairs: of the candidates, where these are known."""
        candidates = self.inputs.candidates
        pairs = None if candidates is None else candidates.pairs  # proof: step 12
        return PairSigns(self.inputs.n_features, self.tilt, pairs)

    @property
    def score_sensitivity(self) -> int:
        """Most that a score moves between neighbours that differ in one record."""
        return self.scoring.score_distance(self.inputs.neighbours)  # proof: step 1

    def tilted(self, tilt: tuple[int, ...]) -> ScreenedParameters:
        """Return this screen on centred signs, at no higher cost: rates follow the sensitivity."""
        found = replace(self, tilt=tilt)
        ratio = self.score_sensitivity / found.score_sensitivity * WITHIN
        levels = tuple(replace(level, rate=level.rate * ratio) for level in self.levels)
        return replace(found, levels=levels)  # proof: step 10

    @property
    def selections(self) -> tuple[tuple[str, BoundedRange], ...]:
        """The events of all levels, with what each releases, in words."""
        reach, total = 2 * self.score_sensitivity, len(self.levels)
        return tuple(
            (
                f"which pairs matter{f', level {place} of {total}' if total > 1 else ''}: "
                f"{level.size:,} of them",
                BoundedRange(reach * level.rate * UP, level.size),  # proof: step 2
            )
            for place, level in enumerate(self.levels, 1)
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the release, and of what steps before it are expected to take."""
        before = (Gaussian(self.inputs.before),) if self.inputs.before else ()
        return (*before, *(event for _, event in self.selections), Gaussian(self.mu))

    @property
    def part(self) -> str:
        """Description of the released values."""
        d = self.inputs.n_features
        return f"values of the selected pairs ({self.n_pairs:,}) and of all variances ({d:,})"

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the levels of the screen, and beside them a clock for steps and values.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. Peeling steps are bounded-range events,
        the values and steps before them are Gaussian; `docs/proofs/screened.md`.
        """
        check_exact(self.inputs.n_records)
        fixed = [event for _, event in self.selections]
        mu = math.hypot(self.inputs.before, self.mu) * WITHIN
        # proof: step 7
        # proof: step 9
        return self.inputs.budget(fixed=fixed, mu=mu, private=private)

    @property
    def noise_sd(self) -> tuple[float, float]:
        """Noise of pairs and of the diagonal in units of scale^2, when no record is shrunk."""
        noise = sum_sigma(self.norm_bound, self.mu, self.inputs.neighbours)
        unit = self.inputs.n_records * integers_per_square(self.half_width)
        return noise / (PAIR_WEIGHT * unit), noise / (DIAGONAL_WEIGHT * unit)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "inputs": self.inputs.to_dict(),
            "design": asdict(self.design),
            "levels": [asdict(level) for level in self.levels],
            "n_pairs": self.n_pairs,
            "half_width": self.half_width,
            "norm_bound": self.norm_bound,
            "mu": self.mu,
            "tilt": None if self.tilt is None else list(self.tilt),
        }


def integers_per_square(half_width: int) -> float:
    """Return the grid units of a product of two coordinates at scale 1."""
    return (half_width / RADIUS) ** 2


def check_exact(n_records: int) -> None:
    """Refuse more records than scores and sums are exact for."""
    if n_records > _LARGEST_N:
        raise CapacityError(
            f"n_records must be at most 2**33 for exact sums, got {n_records:,}: release "
            "disjoint parts and average them."
        )


def ranges(norm_bound: int) -> tuple[int, int]:
    """Ranges of the shrinkage and of the size that each record reports beside its products."""
    return max(1, norm_bound // _FACTOR_PART), max(1, norm_bound // _SIZE_PART)


def squared_sum_sensitivity(norm_bound: int, neighbours: Neighbours) -> int:
    """Most that the summed contributions move in Euclidean norm, squared."""
    return bounded_products(norm_bound, ranges(norm_bound), neighbours)  # proof: step 5


def sum_sigma(norm_bound: int, mu: float, neighbours: Neighbours) -> int:
    """The least noise that makes the sensitivity of the sums at most `mu` deviations.

    `mu` is that of a record; where units are bounded as one, theirs is as many times more.
    """
    square = neighbours.shared(squared_sum_sensitivity(norm_bound, neighbours))  # proof: step 11
    return smallest_sigma(square, mu)  # proof: step 6


def size_cap(n_features: int) -> float:
    """Cap on a record's mean square in units of its expectation; wide for few features."""
    return 4.0 + 40.0 / n_features


def norm_spread(n_features: float) -> float:
    """Standard deviation of the logarithm of the records' norms, about, for Gaussian records."""
    return min(0.5, math.sqrt(4 / n_features))


def shrunk_part(ratio: float, spread: float) -> tuple[float, float]:
    """E[f] and the part of it from shrunk records, f = min(1, ratio e^(spread Z))."""
    whole = float(special.ndtr(math.log(ratio) / spread))
    part = ratio * math.exp(spread**2 / 2)
    part *= float(special.ndtr(-math.log(ratio) / spread - spread))
    return whole + part, part


def shrinking_bias(shrinkage: float, n_features: int) -> float:
    """Share of the values that dividing by the mean shrinkage does not restore.

    A record with large products is shrunk more than others. For Gaussian records the loss is
    `SHRINKING_BIAS` / d times the share of the mean shrinkage that shrunk records contribute.
    """
    spread = norm_spread(n_features)
    low, high = 1e-4, 1e4
    while high - low > 1e-6 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if shrunk_part(middle, spread)[0] < shrinkage else (low, middle)
    mean, part = shrunk_part(low, spread)
    return min(0.2, SHRINKING_BIAS / n_features) * part / mean


def usual_of_units(neighbours: Neighbours) -> float:
    """Approximate the norm of the contribution of a unit over that of a record.

    It is the root of their number for independent records, and their number for alike ones.
    """
    return float(neighbours.together**_BETWEEN)


def widest_norm(n_pairs: int, n_features: int) -> float:
    """The largest norm of a record's weighted products, in squared half widths."""
    return PAIR_WEIGHT * math.sqrt(n_pairs + n_features)


@lru_cache(maxsize=4096)
def screened_parameters(
    inputs: ReleaseInputs, design: ScreenedDesign, *, certified: bool = True
) -> ScreenedParameters:
    """The least noisy release of a design within the budget.

    `certified=False` takes the zCDP bound as it is: close and quick, for a search.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The events of the answer, with those spent
    before, compose to at most (epsilon, delta) by the accountant, which re-checks its own answer;
    `docs/proofs/screened.md`.
    """
    sizes = level_sizes(inputs, design)
    n_pairs = sum(sizes) if sizes else (candidate_pairs(inputs) if inputs.row_sparsity > 1 else 0)
    largest = widest_norm(n_pairs, inputs.n_features) * inputs.neighbours.together
    # The mean squared norm of a record's weighted products, for Gaussian records of scale 1.
    present = min(n_pairs, possible_pairs(inputs))
    pairs = present * (1 + 2 * _SQUARED_CORRELATION) + (n_pairs - present)
    square = PAIR_WEIGHT**2 * pairs + DIAGONAL_WEIGHT**2 * 2 * inputs.n_features
    rho = inputs.rho_left
    moved = PairSigns(inputs.n_features).score_distance(inputs.neighbours)

    def draft(multiplier: float) -> ScreenedParameters:
        """The release with noise `multiplier` times what the zCDP bound asks for."""
        budget = rho / multiplier**2
        for_screen = design.screen_share * budget if sizes else 0.0
        mu = math.sqrt(2 * (budget - for_screen))
        half_width = product_half_width(inputs, n_pairs, mu)
        bound = design.norm_factor * integers_per_square(half_width) * math.sqrt(square)
        bound *= usual_of_units(inputs.neighbours)
        levels = []
        for size, share in zip(sizes, level_shares(sizes, design), strict=True):
            eta = math.sqrt(8 * for_screen * share / size)  # size eta^2 / 8 is the level's share
            levels.append(ScreenLevel(size, eta / (2 * moved)))
        return ScreenedParameters(
            inputs=inputs,
            design=design,
            levels=tuple(levels),
            n_pairs=n_pairs,
            half_width=half_width,
            norm_bound=max(1, int(min(bound, largest * half_width**2))),
            mu=mu,
        )

    if not certified:
        return draft(1.0)
    # proof: step 7
    charged = inputs.neighbours.charged
    found = calibrate_near(lambda m: charged(draft(m).events), inputs.epsilon, inputs.delta)
    return draft(found)


def product_half_width(inputs: ReleaseInputs, n_pairs: int, mu: float) -> int:
    """The finest grid on which products are exact and their noise can be drawn.

    No record has a norm above `widest_norm` half_width^2, and the sums move by less than three
    times the norm bound.
    """
    widest = widest_norm(n_pairs, inputs.n_features)
    finest = min(
        finest_half_width(n_pairs, inputs.n_features, PAIR_WEIGHT, at_most=_LARGEST_HALF_WIDTH),
        int(math.sqrt(LARGEST_SIGMA * mu / (3 * widest))),  # proof: step 6
    )
    if finest < 1:
        raise CapacityError(
            f"epsilon = {inputs.epsilon:g} and delta = {inputs.delta:g} need more noise for "
            f"{n_pairs + inputs.n_features:,} values than integers hold: use a larger budget or "
            "fewer features."
        )
    return finest


TO_CORRELATION = math.pi / 2  # a small mean product of signs, times this, is a correlation


# Values of selected pairs and of all variances: bounded products, summed, with noise.


_SURE = 4.0  # standard deviations beyond which the size of the records corrects the estimate


@dataclass(frozen=True, eq=False)
class Values:
    """Released values: integers times `unit`, in units of the scales of the two features.

    `shrinkage` is the mean one of the records, `correction` what their size corrected besides.
    """

    rows: IntArray
    columns: IntArray
    pairs: IntArray
    diagonal: IntArray
    unit: float
    noise_sd: tuple[float, float]
    shrinkage: float
    correction: float
    feature_scale: FloatArray

    @property
    def in_scales(self) -> tuple[FloatArray, FloatArray]:
        """Pairs and variances as numbers."""
        return np.asarray(self.pairs * self.unit), np.asarray(self.diagonal * self.unit)


def product_map(
    grid: FeatureGrid,
    rows: IntArray,
    columns: IntArray,
    norm_bound: int,
    rows_per_unit: int = 1,
    means: IntArray | None = None,
) -> ProductMap:
    """Return the contribution of each record, or each unit, to the sums; its norm is bounded."""
    factor_range, size_range = ranges(norm_bound)  # proof: step 5
    d, unit = grid.n_features, integers_per_square(grid.half_width)
    return ProductMap(
        grid=grid,
        rows=rows,
        columns=columns,
        pair_weight=PAIR_WEIGHT,
        diagonal_weight=DIAGONAL_WEIGHT,
        centre=round(unit),
        norm_bound=norm_bound,
        factor_range=factor_range,
        size_range=size_range,
        size_cap=math.ceil(size_cap(d) * d * unit),
        rows_per_unit=rows_per_unit,
        means=means,
    )


def release_values(session: Session, products: ProductMap, mu: float) -> Values:
    """Release the sums of bounded products, and undo weights, centre and shrinkage.

    Privacy
    -------
    Neighbours: those of the session; no precondition. The noise makes the most that the sums move
    `mu` deviations; all else is post-processing. `docs/proofs/screened.md`.
    """
    n, d = session.n_records, session.n_features
    noisy = session.measure(Products(products), mu)  # proof: step 4
    sums, sigma = noisy.integers, noisy.sd  # proof: step 6
    unit = n * integers_per_square(products.grid.half_width)
    n_pairs = len(products.rows)
    unshrunk = sums[-2] / (n * products.factor_range) * products.rows_per_unit
    shrinkage = min(1.0, max(unshrunk, 1e-3))
    if products.means is not None:  # of as many records as were not shrunk away
        sums[:-2] += np.rint(products.means * (n * shrinkage)).astype(np.int64)
    # One unit for all: pairs are multiples of 1 / PAIR_WEIGHT, the diagonal of 1 / DIAGONAL_WEIGHT.
    off_diagonal = sums[:n_pairs] * DIAGONAL_WEIGHT
    weight = PAIR_WEIGHT * DIAGONAL_WEIGHT
    centre = round(products.centre * n * weight * shrinkage)
    diagonal = sums[n_pairs : n_pairs + d] * PAIR_WEIGHT + centre
    value = 1 / (weight * unit * shrinkage)
    if products.rows_per_unit == 1:  # what sums of several lose does not depend on their size
        value *= 1 + shrinking_bias(shrinkage, d)
    trace = float(diagonal.sum(dtype=np.float64)) * value
    trace_sd = math.sqrt(d) * sigma * PAIR_WEIGHT * value
    correction = _size_correction(sums, products, sigma, (trace, trace_sd), n)
    value *= correction
    return Values(
        products.rows,
        products.columns,
        off_diagonal,
        diagonal,
        value,
        (sigma * DIAGONAL_WEIGHT * value, sigma * PAIR_WEIGHT * value),
        shrinkage,
        correction,
        products.grid.feature_scale,
    )


def _size_correction(
    sums: IntArray, products: ProductMap, sigma: int, trace: tuple[float, float], n_records: int
) -> float:
    """The released mean size of the records over the trace, where they differ beyond doubt.

    Heavy-tailed records lose more to shrinking than their mean shrinkage says, all entries alike.
    """
    per_record = products.size_cap / products.size_range * products.grid.step**2 / n_records
    per_record *= products.rows_per_unit
    size, deviation = float(sums[-1]) * per_record, math.hypot(sigma * per_record, trace[1])
    # Beyond half of what is counted, many records are beyond all of it, and the mean says little.
    saturated = float(sums[-1]) > n_records / products.rows_per_unit * products.size_range / 2
    if saturated or trace[0] <= 0 or abs(size - trace[0]) < _SURE * deviation:
        return 1.0
    return min(4.0, max(0.25, size / trace[0]))


# Norms of contributions, of records or of units: where to bound them, and values of units.


_LARGEST_MEAN = RADIUS**2 / 4  # of a product, in squared scales; more would be no help
_REPLACED, _REMOVED = 2.04, 1.07  # what sums move by over the norm bound, and what is beside them
# Of what values spend, where units are bounded as one: histograms of norms, and a first look.
_NORMS, _FIRST = 0.01, 0.1
_LAST = 1 - _FIRST - 2 * _NORMS


def sum_movement(neighbours: Neighbours) -> float:
    """Approximate how far one record moves the sums of products, over the bound on norms."""
    return neighbours.moved(replaced=_REPLACED, removed=_REMOVED)


def root_square(n_pairs: int, n_features: int) -> float:
    """The typical norm of weighted products of a record, in squared scales."""
    return math.sqrt(PAIR_WEIGHT**2 * n_pairs + DIAGONAL_WEIGHT**2 * 2 * n_features)


def mean_products(pairs: FloatArray, diagonal: FloatArray, products: ProductMap) -> IntArray:
    """Approximate the mean products of a record from released values; units are shorter without."""
    unit = integers_per_square(products.grid.half_width)
    pairs = np.clip(pairs, -_LARGEST_MEAN, _LARGEST_MEAN)
    diagonal = np.clip(diagonal, 0.0, _LARGEST_MEAN)
    weighted = [
        products.pair_weight * unit * pairs,
        products.diagonal_weight * (unit * diagonal - products.centre),
    ]
    return np.asarray(np.rint(np.concatenate(weighted)).astype(np.int64))


def chosen_bound(
    counts: IntArray,
    sigma: int,
    products: ProductMap,
    n_records: int,
    size: tuple[float, float],
    mu: float,
    biased: float | None = None,
) -> int:
    """The bound at which the noise of values and what shrinking leaves of a bias are least.

    `counts` are noisy; `size` is about how many pairs are real, and the norm of the matrix.
    `biased` is the share of what long records lose that dividing by the mean shrinkage does not
    restore, where products are taken to grow with norms; without it, their squares are.
    """
    d = products.grid.n_features
    middle = np.array([products.norm_of_bin(each, 1.0) for each in range(len(counts))])
    unit = integers_per_square(products.grid.half_width)
    several = products.rows_per_unit > 1
    mass = Mass.of(counts, sigma, middle, tail=several)
    if mass is None:
        usual = unit * root_square(len(products.rows), d) * math.sqrt(products.rows_per_unit)
        return max(1, int(usual))
    rows = 2 * math.sqrt(2 * max(size[0], d / 4) / d + 1)
    noise = rows / (PAIR_WEIGHT * n_records * unit * mu)
    norm = max(1.0, size[1])
    if biased is not None:
        return max(1, int(mass.best_of_products(noise, biased * norm)))
    return max(1, int(mass.best(noise, norm, several=several)[0]))


def release_unit_values(
    session: Session,
    grid: FeatureGrid,
    places: tuple[IntArray, IntArray],
    size: tuple[float, float],
) -> Values:
    """Values of units that are bounded as one: a first look is taken off before the second.

    `size` is about how many pairs are real, and the norm of the matrix.

    Privacy
    -------
    Neighbours: those of the session; no precondition. Two histograms and two looks, each Gaussian,
    of which each follows from what the ones before released: `docs/proofs/screened.md`, step 11.
    """
    together = session.relation.together
    mu = session.mu_left * WITHIN
    parts = [mu * math.sqrt(each) for each in (_NORMS, _FIRST, _NORMS, _LAST)]

    def look(means: IntArray | None, for_norms: float, for_values: float) -> Values:
        widest = int(together * widest_norm(len(places[0]), grid.n_features) * grid.half_width**2)
        products = product_map(grid, *places, widest, together, means)
        noisy = session.measure(ProductNormCounts(products), for_norms)  # proof: step 11
        moved = for_values * together / sum_movement(session.relation)
        counts = noisy.integers, noisy.sd
        bound = chosen_bound(*counts, products, session.n_records, size, moved)
        products = product_map(grid, *places, bound, together, means)
        return release_values(session, products, for_values)  # proof: step 11

    first = look(None, parts[0], parts[1])
    means = mean_products(*first.in_scales, product_map(grid, *places, 1, together))
    return look(means, parts[2], parts[3])


def release_screened(
    session: Session,
    feature_scale: FloatArray,
    parameters: ScreenedParameters,
    *,
    sparse: bool = False,
) -> Release:
    """Screen, and release the values of the selected pairs and the diagonal.

    With `sparse` the same integers come as a sparse matrix: nothing of size n_features^2 is left
    after the screen.

    Privacy
    -------
    See `ScreenedParameters.budget`, which is that of the session. `feature_scale` is public or was
    released by steps on the same budget. Selected pairs are part of the release, also those whose
    value comes out as zero.
    """
    parameters.inputs.check_size(session)
    inputs = parameters.inputs
    scale = check_feature_scale(feature_scale, inputs.n_features)
    places = select_pairs(session, parameters)
    session.name_parts(parameters.part)
    grid = FeatureGrid(scale, RADIUS, parameters.half_width)
    if inputs.neighbours.together > 1:
        size = float(min(len(places[0]), possible_pairs(inputs))), (inputs.row_sparsity + 1) / 2
        values = release_unit_values(session, grid, places, size)  # proof: step 11
    else:
        products = product_map(grid, *places, parameters.norm_bound)
        values = release_values(session, products, session.mu_left)  # proof: step 6
    return _document(session, values, parameters, sparse=sparse)  # proof: step 8


def select_pairs(session: Session, parameters: ScreenedParameters) -> tuple[IntArray, IntArray]:
    """Rows and columns of the selected pairs, i < j, in order.

    Each level peels the largest of rate * |score| + Gumbel noise from the pairs still there, by
    exact comparison.

    Privacy
    -------
    Neighbours: replace one record. No score moves by more than its query says, so a level is `size`
    bounded-range steps, and all levels together cost `parameters.selections`. What an earlier level
    selected is released, so skipping it is free. Candidates are public, and so is where the pairs
    that were picked stand among them.
    """
    d, candidates = parameters.inputs.n_features, parameters.inputs.candidates
    if not parameters.n_pairs:  # at row sparsity 1
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if not parameters.levels:  # every pair that may covary
        if candidates is not None:
            return candidates.pairs  # proof: step 12
        rows, columns = np.triu_indices(d, 1)
        return rows.astype(np.int64), columns.astype(np.int64)
    scores, selected = parameters.scoring, np.empty(0, dtype=np.int64)
    named = zip(parameters.levels, parameters.selections, strict=True)
    for level, (part, _) in named:
        best = session.select(scores, level.size, level.rate, part)  # proof: step 2
        selected = np.concatenate([selected, best])
    selected.sort()
    return pair_of(selected, d) if candidates is None else candidates.pairs_at(selected)


def _document(
    session: Session, values: Values, parameters: ScreenedParameters, *, sparse: bool
) -> Release:
    pairs, variances = np.asarray(values.pairs, float), np.asarray(values.diagonal, float)
    expected = values.shrinkage  # of units, whose norms also follow how many records they have
    if parameters.inputs.neighbours.together == 1:
        # That of normal records with these covariances and variances. Norms of correlated records
        # spread as those of fewer independent features: (tr S)^2 / tr S^2.
        found, d = (pairs * values.unit, variances * values.unit), len(variances)
        own = float(found[1] @ found[1]) - d * values.noise_sd[1] ** 2
        square = own + 2 * (float(found[0] @ found[0]) - len(pairs) * values.noise_sd[0] ** 2)
        trace = float(found[1].sum())
        features = min(float(d), max(1.0, trace**2 / square)) if square > 0 else float(d)
        expected = shrunk_part(parameters.design.norm_factor, norm_spread(features))[0]
    unexplained = max(0.0, expected / values.shrinkage - 1) + abs(values.correction - 1)
    made = {"shrinkage": values.shrinkage, "unexplained": unexplained}
    matrix = symmetric_sparse((values.rows, values.columns), values.pairs, values.diagonal)
    return Release(
        mechanism=NAME,
        integers=matrix if sparse else matrix.toarray(),
        unit=values.unit,
        guarantee=session.guarantee,
        parameters=parameters.to_dict() | made,
        feature_scale=values.feature_scale,
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        making=Making(n_records=parameters.inputs.n_records, parts=parts_of(session)),
    )


def pair_of(flat: IntArray, d: int) -> tuple[IntArray, IntArray]:
    """Row and column of positions in the upper triangle without diagonal, row by row."""
    starts = np.concatenate([[0], np.cumsum(np.arange(d - 1, 0, -1))])
    rows = np.searchsorted(starts, flat, side="right") - 1
    return rows.astype(np.int64), (flat - starts[rows] + rows + 1).astype(np.int64)


def finest_half_width(n_pairs: int, n_features: int, weight: int, *, at_most: int) -> int:
    """Return the largest half width for which `ProductMap` is exact with weights up to `weight`."""
    root = (LARGEST_EXACT_FLOAT / (n_pairs + n_features + 1)) ** 0.25
    return max(1, min(at_most, int(root / weight**0.5)))
