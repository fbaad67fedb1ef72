"""Every number of a row-wise top-k release, certified from public inputs before data is touched."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer, check_real
from hushcov.calibration import calibrate_near
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.mechanism import Prepared
from hushcov.fit.norms import HALF_WIDTH
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import (
    ONE_REPLACED,
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
from hushcov.kernel.noise import LARGEST_SCORE, LARGEST_SIGMA, gumbel_top, rounded_normal
from hushcov.kernel.queries import squared_sensitivity
from hushcov.kernel.session import Session
from hushcov.kernel.sums.gram import row_bounded_gram
from hushcov.release import Release
from hushcov_lab.peers.plan import Peer, PeerParameters, PeerPlan, allowed_for

NAME = "row-top-k"
# Measured: over models, sizes and budgets the error is within 40 % of that of the best share.
SELECTION_SHARE = 0.65
_LEAST_RADIUS, _MOST_RADIUS = 1.5, 6.0
_NOISE_WEIGHT = 3.0  # measured, see docs/proofs/row_top_k.md
_HALVINGS = 40


@dataclass(frozen=True)
class RowTopKParameters(PeerParameters):
    """Everything about a release that is public, and what follows from it.

    The radius is in units of the features' scales; `half_width` is the number of steps of the grid
    in it. `rate` is the inverse scale of the selection's Gumbel noise, in squared steps; None where
    no data is needed to select, because every pair is released or none. `mu` is the l2
    sensitivity of the released values over their noise, whichever pairs are released.
    """

    radius: float
    half_width: int
    rate: float | None
    mu: float

    def __post_init__(self) -> None:
        cure = "use row_top_k_parameters."
        check_real("radius", self.radius, above=0, cure=cure)
        check_integer("half_width", self.half_width, at_least=1, cure=cure)
        check_real("mu", self.mu, above=0, cure=cure)
        if allowed_for(self.inputs) * self.half_width**2 > LARGEST_SCORE:
            raise CapacityError(
                f"half_width must keep n_records * half_width**2 within 2**53, got "
                f"{self.half_width} for {self.inputs.n_records:,} records: {cure}"
            )
        if (self.rate is None) != (picks(self.inputs) == 0):
            raise ParameterError(
                "rate must be given exactly where pairs are selected by data, got "
                f"{self.rate!r} for row_sparsity {self.inputs.row_sparsity} of "
                f"{self.inputs.n_features} features: {cure}"
            )
        if self.rate is not None:
            check_real("rate", self.rate, above=0, cure=cure)

    @property
    def score_sensitivity(self) -> int:
        """Most that a score moves between neighbours that differ in one record."""
        most = self.half_width**2
        return self.inputs.neighbours.moved(replaced=2 * most, removed=most)  # proof: step 2

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the release, and of what steps before it are expected to take."""
        before = (Gaussian(self.inputs.before),) if self.inputs.before else ()
        return (*before, *self.picked, Gaussian(self.mu))  # proof: step 6

    @property
    def picked(self) -> tuple[BoundedRange, ...]:
        """The event of the picks of all rows, if there are any."""
        if self.rate is None:
            return ()
        eta = 2 * self.score_sensitivity * self.rate * UP
        return (BoundedRange(eta, picks(self.inputs)),)  # proof: step 3

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the picks, and beside them a clock for steps and values.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. The picks of the rows are bounded-range
        events, the values one Gaussian whose noise follows from what was picked;
        `docs/proofs/row_top_k.md`.
        """
        mu = math.hypot(self.inputs.before, self.mu) * WITHIN
        # proof: step 7
        # proof: step 8
        return self.inputs.budget(fixed=self.picked, mu=mu, private=private)

    def with_values(self, mu: float) -> RowTopKParameters:
        """Return the same picks with values that cost `mu`, on a coarser grid if noise needs it."""
        half_width = min(self.half_width, _half_width(self.inputs, mu))
        rate = self.rate
        if rate is not None and half_width < self.half_width:
            rate *= (self.half_width / half_width) ** 2 * WITHIN
        return replace(self, half_width=half_width, rate=rate, mu=mu)


def picks(inputs: ReleaseInputs) -> int:
    """Return how many entries the rows select by looking at data, all rows together.

    The diagonal is always released, so a row selects one less than its declared nonzeros; with
    nothing to leave out it selects all others whatever the data, and nothing is charged.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    return d * (k - 1) if k < d else 0


def most_pairs(inputs: ReleaseInputs) -> int:
    """Return how many pairs can be selected by both of their rows."""
    return inputs.n_features * (inputs.row_sparsity - 1) // 2


def row_top_k_parameters(
    inputs: ReleaseInputs, *, radius: float | None = None, selection_share: float = SELECTION_SHARE
) -> RowTopKParameters:
    """Return the least noise that the budget allows, and where to clip.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs.
    radius : float, optional
        Bound on every coordinate in units of its scale. If left out it is chosen from the public
        inputs, such that noise and clipping bias are balanced for Gaussian records.
    selection_share : float
        Share of the budget, in zCDP, that selecting pairs spends; the values get the rest.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The events
    of the answer compose to at most (epsilon, delta) by the accountant, which re-checks its own
    answer; `docs/proofs/row_top_k.md`, step 7.
    """
    cure = "it is the share of the budget that selecting pairs spends."
    share = check_real("selection_share", selection_share, above=0, at_most=0.99, cure=cure)
    if radius is not None:
        cure = "it is a public bound on every coordinate, in units of its scale."
        radius = check_real("radius", radius, above=1e-6, at_most=1e6, cure=cure)
    return _least_noise(inputs, radius, share)


@lru_cache(maxsize=512)
def _least_noise(inputs: ReleaseInputs, radius: float | None, share: float) -> RowTopKParameters:
    """The parameters with the least noise that the accountant certifies, within a millionth."""
    n_picks, rho = picks(inputs), inputs.rho_left

    def draft(multiplier: float) -> RowTopKParameters:
        """Return the release with noise `multiplier` times what the zCDP bound asks for."""
        budget = rho / multiplier**2
        for_selection = share * budget if n_picks else 0.0
        mu = math.sqrt(2 * (budget - for_selection))
        half_width = _half_width(inputs, mu)
        rate = None
        if n_picks:
            moved = inputs.neighbours.moved(replaced=2, removed=1) * half_width**2
            rate = math.sqrt(8 * for_selection / n_picks) / (2 * moved)
        chosen = balanced_radius(inputs, mu, most_pairs(inputs)) if radius is None else radius
        return RowTopKParameters(inputs, chosen, half_width, rate, mu)

    def events(multiplier: float) -> tuple[Event, ...]:
        return inputs.neighbours.charged(draft(multiplier).events)

    # proof: step 7
    return draft(calibrate_near(events, inputs.epsilon, inputs.delta))


def balanced_radius(inputs: ReleaseInputs, mu: float, pairs: int) -> float:
    """Return the radius R at which a little more would cost as much in noise as it saves in bias.

    Clipping a Gaussian coordinate at R takes about 4 P(Z > R) off a covariance, and nearly as
    much off a variance, relatively. The noise of an entry is at most R^2 v with v as below, where
    so many pairs are released. It counts `_NOISE_WEIGHT` times: for the norm of the
    noise matrix, and for what the selection misses, whose noise grows with R^2 as well. The
    derivatives 4 phi(R) and 2 `_NOISE_WEIGHT` v R cancel at the answer, phi the normal density.
    """
    d = inputs.n_features
    square = inputs.neighbours.moved(replaced=4 * pairs + d, removed=pairs + d)
    v = math.sqrt(square) / (inputs.n_records * mu)
    low, high = _LEAST_RADIUS, _MOST_RADIUS
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        density = math.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi)
        wider = 2 * density > _NOISE_WEIGHT * v * middle
        low, high = (middle, high) if wider else (low, middle)
    return low


def _half_width(inputs: ReleaseInputs, mu: float) -> int:
    """Return the finest grid on which scores are exact and the noise of all values can be drawn."""
    n_records = allowed_for(inputs)
    if n_records > LARGEST_SCORE:
        raise CapacityError(
            f"n_records must be at most 2**53 for exact scores, got {inputs.n_records:,}: release "
            "disjoint parts and average them."
        )
    # proof: step 6
    widest = 2 * math.sqrt(4 * most_pairs(inputs) + inputs.n_features)
    finest = min(
        HALF_WIDTH,
        math.isqrt(LARGEST_SCORE // n_records),  # proof: step 2
        math.floor(math.sqrt(LARGEST_SIGMA * mu / widest)),
    )
    if finest < 1:
        raise CapacityError(
            f"{inputs.n_features:,} features at epsilon {inputs.epsilon:g} and delta "
            f"{inputs.delta:g} need more noise than integers hold: use fewer features or a "
            "larger budget."
        )
    return finest


def values_squared_sensitivity(
    n_features: int,
    half_width: int,
    pairs: Iterable[tuple[int, int]],
    neighbours: Neighbours = ONE_REPLACED,
) -> int:
    """Return the most that one record moves pair products and all squares, squared.

    For integer records with coordinates of at most `half_width`. A record that is removed moves
    each by its size. Where one is replaced, the pairs are split into groups of features in which
    every pair was selected; a group moves as a whole Gram matrix does, its squares included. A
    feature without a pair moves by its square alone.
    """
    pairs = tuple(pairs)
    # proof: step 5
    removed = half_width**4 * (len(pairs) + n_features)

    def whole(size: int) -> int:
        """Return the squared sensitivity of all products of so many clipped coordinates."""
        return int(squared_sensitivity(size, half_width, None, 1, 1))

    alone = n_features - len({feature for pair in pairs for feature in pair})
    replaced = sum(whole(len(group)) for group in complete_groups(pairs)) + alone * whole(1)
    return neighbours.moved(replaced=replaced, removed=removed)


def complete_groups(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Groups of features such that each pair lies in exactly one of them, and no other pair does.

    Greedy, in a fixed order: each group starts from a pair that is left and takes in every feature
    whose pairs with all of its members are left. Any such groups give a valid bound, larger
    groups a smaller one.
    """
    left: dict[int, set[int]] = {}
    for i, j in pairs:
        left.setdefault(i, set()).add(j)
        left.setdefault(j, set()).add(i)
    groups = []
    for first in sorted(left):
        while left[first]:
            group, candidates = [first], left[first]
            while candidates:
                member = min(candidates)
                group.append(member)
                candidates = candidates & left[member]
            for member in group:
                left[member] = left[member].difference(group)
            groups.append(group)
    return groups


def release_row_top_k(
    session: Session, feature_scale: FloatArray, parameters: RowTopKParameters
) -> Release:
    """Sum the clipped records, select in every row, and release what is selected twice.

    Privacy
    -------
    See `RowTopKParameters.budget`, which is that of the session. `feature_scale` must be
    public, or released by steps on the same budget. Selected pairs are part of the release, also
    those whose value comes out as zero.
    """
    records, budget, entropy = parameters.opened(session)
    for event in parameters.picked:
        budget.fixed(event, "partners of every feature")
    parameters = replace(parameters, mu=budget.mu_left)
    budget.gaussian(parameters.mu, "values of the selected pairs and the variances")
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = row_bounded_gram(records, grid, None)  # proof: step 1
    rows, columns = mutual_pairs(pick_partners(gram, parameters, entropy.generator))
    sigma = value_sigma(rows, columns, parameters)
    deviation = sigma * parameters.unit
    return parameters.document(
        NAME,
        noisy_values(gram, rows, columns, sigma, entropy.generator),
        grid.feature_scale,
        budget,
        {"sigma": sigma},
        noise_sd=(deviation, deviation),
        selected=np.stack([rows, columns]),
    )


def pick_partners(
    gram: IntArray, parameters: RowTopKParameters, generator: np.random.Generator
) -> BoolArray:
    """Return which columns each row picks: the largest of rate * |entry| + Gumbel noise, exactly.

    A row picks one column less than its declared nonzeros, never its own. Where it may pick all
    others it does, without noise and without looking.

    Privacy
    -------
    Neighbours: those of the inputs. No score moves by more than `score_sensitivity`, so every pick
    is one bounded-range step of `parameters.picked`.
    """
    d, k = parameters.inputs.n_features, parameters.inputs.row_sparsity
    if parameters.rate is None:
        return np.full((d, d), k > 1) & ~np.eye(d, dtype=bool)
    picked = np.zeros((d, d), dtype=bool)
    for i in range(d):
        others = np.delete(np.arange(d), i)
        scores = np.abs(gram[i, others])  # proof: step 2
        # proof: step 3
        picked[i, others[gumbel_top(generator, scores, parameters.rate, k - 1)]] = True
    return picked


def mutual_pairs(picked: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of the pairs that pick each other, i < j, in order."""
    rows, columns = np.nonzero(np.triu(picked & picked.T, 1))  # proof: step 4
    return rows.astype(np.int64), columns.astype(np.int64)


def value_sigma(rows: IntArray, columns: IntArray, parameters: RowTopKParameters) -> int:
    """Return the least noise that makes the values of these pairs and the squares cost `mu`."""
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    d = parameters.inputs.n_features
    neighbours = parameters.inputs.neighbours
    square = values_squared_sensitivity(d, parameters.half_width, pairs, neighbours)
    return smallest_sigma(square, parameters.mu)  # proof: step 6


def noisy_values(
    gram: IntArray, rows: IntArray, columns: IntArray, sigma: int, generator: np.random.Generator
) -> IntArray:
    """Return the matrix of noisy sums: the given pairs and the diagonal, zero elsewhere.

    Privacy
    -------
    Neighbours: those of the inputs. With `value_sigma` of the same pairs as noise this is one
    Gaussian event, `Gaussian(mu)`, for any pairs that are known already.
    """
    noise = rounded_normal(generator, sigma, len(rows) + len(gram))  # proof: step 6
    released = np.zeros_like(gram)
    released[rows, columns] = released[columns, rows] = gram[rows, columns] + noise[: len(rows)]
    np.fill_diagonal(released, np.diag(gram) + noise[len(rows) :])
    return released


class RowTopK(Peer):
    """Rows select their partners; pairs that select each other are released."""

    name = NAME
    title = "row top-k (Kumar et al.)"
    estimator = ("RowTopKCovariance", {})
    parameters_of = row_top_k_parameters
    release_by = release_row_top_k

    def renew(self, plan: PeerPlan, prepared: Prepared) -> RowTopKParameters:
        """See `Peer.renew`; the rows select as planned."""
        planned: RowTopKParameters = plan.parameters
        return planned.with_values(prepared.session.mu_left)


ROW_TOP_K = RowTopK()
