"""Every number of a row-wise top-k release, certified from public inputs before data is touched."""

from __future__ import annotations

import math
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
    UP,
    WITHIN,
    BoundedRange,
    Budget,
    Event,
    Gaussian,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import LARGEST_SCORE, LARGEST_SIGMA
from hushcov.kernel.queries import Gram
from hushcov.kernel.session import Session
from hushcov.release import Release
from hushcov_lab.peers.plan import Peer, PeerParameters, PeerPlan, allowed_for
from hushcov_lab.peers.queries import (
    EntriesAndSquares,
    RowScores,
    clipped_gram,
    entry_sensitivity,
)

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
        return entry_sensitivity(self.half_width, self.inputs.neighbours)  # proof: step 2

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
    parameters.inputs.check_size(session)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = clipped_gram(grid)  # proof: step 1
    pairs = mutual_pairs(pick_partners(session, gram, parameters))
    parameters = replace(parameters, mu=session.mu_left)
    sigma, integers = measure_values(session, gram, pairs)
    deviation = sigma * parameters.unit
    return parameters.document(
        NAME,
        integers,
        grid.feature_scale,
        session,
        {"sigma": sigma},
        noise_sd=(deviation, deviation),
        selected=np.stack(pairs),
    )


def pick_partners(session: Session, gram: Gram, parameters: RowTopKParameters) -> BoolArray:
    """Return which columns each row picks: the largest of rate * |entry| + Gumbel noise, exactly.

    A row picks one column less than its declared nonzeros, never its own. Where it may pick all
    others it does, without noise and without looking.

    Privacy
    -------
    Neighbours: those of the inputs. No score moves by more than `score_sensitivity`, so every pick
    is one bounded-range step of `parameters.picked`, which the session charges first.
    """
    d, k = parameters.inputs.n_features, parameters.inputs.row_sparsity
    if parameters.rate is None:
        return np.full((d, d), k > 1) & ~np.eye(d, dtype=bool)
    (event,) = parameters.picked
    selections = session.reserve_selections(event, parameters.rate, "partners of every feature")
    picked = np.zeros((d, d), dtype=bool)
    for i in range(d):
        others = np.delete(np.arange(d), i)
        # proof: step 2
        # proof: step 3
        picked[i, others[selections.select(RowScores(gram, i), k - 1)]] = True
    return picked


def mutual_pairs(picked: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of the pairs that pick each other, i < j, in order."""
    rows, columns = np.nonzero(np.triu(picked & picked.T, 1))  # proof: step 4
    return rows.astype(np.int64), columns.astype(np.int64)


def measure_values(
    session: Session, gram: Gram, pairs: tuple[IntArray, IntArray]
) -> tuple[int, IntArray]:
    """Return the noise, and the noisy sums: the given pairs and the diagonal, zero elsewhere.

    Privacy
    -------
    Neighbours: those of the inputs. One Gaussian event with all that is left, for any pairs that
    are known already: the noise follows from them.
    """
    name = "values of the selected pairs and the variances"
    query = EntriesAndSquares(gram, pairs)  # proof: step 5
    noisy = session.measure(query, session.mu_left, name)  # proof: step 6
    rows, columns = pairs
    released = np.diag(noisy.integers[len(rows) :])
    released[rows, columns] = released[columns, rows] = noisy.integers[: len(rows)]
    return noisy.sd, released


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
