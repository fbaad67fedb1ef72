"""Badly known entries are selected and measured one by one; maximum entropy fills in the others."""

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
    smallest_sigma,
)
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import LARGEST_SCORE, LARGEST_SIGMA
from hushcov.kernel.session import Session
from hushcov.release import Release
from hushcov_lab.peers.plan import Peer, PeerParameters, PeerPlan, allowed_for
from hushcov_lab.peers.queries import (
    EntriesAndSquares,
    PairEntry,
    Surprises,
    clipped_gram,
    entry_sensitivity,
)
from hushcov_lab.peers.row_top_k import balanced_radius

NAME = "pace"
# Measured, see docs/proofs/pace.md: shares of the whole budget, and of that of the values.
SELECTION_SHARE, VARIANCE_SHARE = 0.28, 0.28
# As many rounds as keep the noise of an entry below this share of its bounds, within limits.
_NOISE_SOUGHT = 0.005
_MOST_ROUNDS_PER_FEATURE = 16
MOST_ROUNDS = 10**6
# Newton steps after each round and at the end, and when a direction or a matrix is good enough.
_STEPS, _LAST_STEPS, _MOST_PRODUCTS = 3, 60, 400
_DIRECTION, _CLOSE = 1e-4, 1e-6
_FULL_STEP = 0.1  # local norm of a Newton step that needs no damping


@dataclass(frozen=True)
class PaceParameters(PeerParameters):
    """Everything about a release that is public, and what follows from it.

    The radius is in units of the features' scales; `half_width` is the number of steps of the grid
    in it. `n_rounds` entries are selected, with repetition; `rate` is the inverse scale of the
    Gumbel noise of a selection, in squared steps, and None without rounds. `mu` is that of all
    values together: variances, then one entry a round.
    """

    radius: float
    half_width: int
    n_rounds: int
    rate: float | None
    mu: float

    def __post_init__(self) -> None:
        cure = "use pace_parameters."
        check_real("radius", self.radius, above=0, cure=cure)
        check_integer("half_width", self.half_width, at_least=1, cure=cure)
        check_real("mu", self.mu, above=0, cure=cure)
        least = min(1, self.inputs.n_features - 1)
        most = least * MOST_ROUNDS
        check_integer("n_rounds", self.n_rounds, at_least=least, at_most=most, cure=cure)
        if 2 * allowed_for(self.inputs) * self.half_width**2 > LARGEST_SCORE:
            raise CapacityError(
                f"half_width must keep 2 n_records * half_width**2 within 2**53, got "
                f"{self.half_width} for {self.inputs.n_records:,} records: {cure}"
            )
        if (self.rate is None) != (self.n_rounds == 0):
            raise ParameterError(
                f"rate must be given exactly where there are rounds, got {self.rate!r} for "
                f"{self.n_rounds}: {cure}"
            )
        if self.rate is not None:
            check_real("rate", self.rate, above=0, cure=cure)

    @property
    def entry_sensitivity(self) -> int:
        """Most that one record moves the sum of an off-diagonal entry, and its score."""
        return entry_sensitivity(self.half_width, self.inputs.neighbours)  # proof: step 2

    @property
    def whole(self) -> int:
        """The sum of an entry if every record is at its bounds: values are in units of it."""
        return self.inputs.n_records * self.half_width**2

    @property
    def picked(self) -> tuple[BoundedRange, ...]:
        """The event of the selections of all rounds, if there are any."""
        if self.rate is None:
            return ()
        eta = 2 * self.entry_sensitivity * self.rate * UP
        return (BoundedRange(eta, self.n_rounds),)  # proof: step 3

    @property
    def variance_sigma(self) -> int:
        """Noise of the sums of squares."""
        share = VARIANCE_SHARE if self.n_rounds else 1.0
        square = self.inputs.n_features * self.half_width**4
        return smallest_sigma(square, math.sqrt(share) * self.mu * WITHIN)  # proof: step 4

    @property
    def entry_sigma(self) -> int:
        """Noise of the entry of a round."""
        share = (1 - VARIANCE_SHARE) / max(1, self.n_rounds)
        # proof: step 5
        return smallest_sigma(self.entry_sensitivity**2, math.sqrt(share) * self.mu * WITHIN)

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the release, and of what steps before it are expected to take."""
        before = (Gaussian(self.inputs.before),) if self.inputs.before else ()
        return (*before, *self.picked, Gaussian(self.mu))  # proof: step 5

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the selections, and beside them a clock for steps and values.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. The selections are bounded-range events,
        and the values adaptive Gaussian ones with a fixed total; `docs/proofs/pace.md`.
        """
        mu = math.hypot(self.inputs.before, self.mu) * WITHIN
        return self.inputs.budget(fixed=self.picked, mu=mu, private=private)  # proof: step 6

    def with_values(self, mu: float) -> PaceParameters:
        """Return the same rounds with values that cost `mu`, on a coarser grid if need be."""
        half_width = min(self.half_width, _half_width(self.inputs, self.n_rounds, mu))
        rate = self.rate
        if rate is not None and half_width < self.half_width:
            rate *= (self.half_width / half_width) ** 2 * WITHIN
        return replace(self, half_width=half_width, rate=rate, mu=mu)


def pace_parameters(
    inputs: ReleaseInputs, *, radius: float | None = None, n_rounds: int | None = None
) -> PaceParameters:
    """Return the least noise that the budget allows, and where to clip.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs.
    radius : float, optional
        Bound on every coordinate in units of its scale. If left out it is chosen from the public
        inputs, such that noise and clipping bias are balanced for Gaussian records.
    n_rounds : int, optional
        How many entries are selected and measured. If left out it is chosen from public inputs.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The events
    of the answer compose to at most (epsilon, delta) by the accountant, which re-checks its own
    answer; `docs/proofs/pace.md`, step 6.
    """
    if radius is not None:
        cure = "it is a public bound on every coordinate, in units of its scale."
        radius = check_real("radius", radius, above=1e-6, at_most=1e6, cure=cure)
    if n_rounds is not None:
        cure = "it is the number of entries that are selected and measured."
        n_rounds = check_integer("n_rounds", n_rounds, at_least=1, at_most=MOST_ROUNDS, cure=cure)
    if inputs.n_features == 1:
        n_rounds = 0
    elif n_rounds is None:
        n_rounds = usual_rounds(inputs)
    return _least_noise(inputs, radius, n_rounds)


def usual_rounds(inputs: ReleaseInputs) -> int:
    """Return a number of rounds at which the noise of an entry is small against its bounds."""
    d = inputs.n_features
    sought = (_NOISE_SOUGHT * inputs.n_records * inputs.largest_mu()) ** 2
    return int(min(max(d, sought), d * (d - 1) // 2, _MOST_ROUNDS_PER_FEATURE * d, MOST_ROUNDS))


@lru_cache(maxsize=512)
def _least_noise(inputs: ReleaseInputs, radius: float | None, n_rounds: int) -> PaceParameters:
    """The parameters with the least noise that the accountant certifies, within a millionth."""
    rho = inputs.rho_left

    def draft(multiplier: float) -> PaceParameters:
        """Return the release with noise `multiplier` times what the zCDP bound asks for."""
        budget = rho / multiplier**2
        for_selection = SELECTION_SHARE * budget if n_rounds else 0.0
        mu = math.sqrt(2 * (budget - for_selection))
        half_width = _half_width(inputs, n_rounds, mu)
        rate = None
        if n_rounds:
            moved = inputs.neighbours.moved(replaced=2, removed=1) * half_width**2
            rate = math.sqrt(8 * for_selection / n_rounds) / (2 * moved)
        chosen = balanced_radius(inputs, mu, n_rounds) if radius is None else radius
        return PaceParameters(inputs, chosen, half_width, n_rounds, rate, mu)

    def events(multiplier: float) -> tuple[Event, ...]:
        return inputs.neighbours.charged(draft(multiplier).events)

    # proof: step 6
    return draft(calibrate_near(events, inputs.epsilon, inputs.delta))


def _half_width(inputs: ReleaseInputs, n_rounds: int, mu: float) -> int:
    """Return the finest grid on which scores are exact and all noise can be drawn."""
    widest = max(
        math.sqrt(inputs.n_features / VARIANCE_SHARE),
        2 * math.sqrt(n_rounds / (1 - VARIANCE_SHARE)),
    )
    finest = min(
        HALF_WIDTH,
        math.isqrt(LARGEST_SCORE // (2 * allowed_for(inputs))),  # proof: step 2
        math.floor(math.sqrt(LARGEST_SIGMA * mu / (2 * widest))),  # proof: step 5
    )
    if finest < 1:
        raise CapacityError(
            f"{inputs.n_records:,} records of {inputs.n_features:,} features at epsilon "
            f"{inputs.epsilon:g} and delta {inputs.delta:g} need larger sums or more noise than "
            "integers hold: use fewer records, fewer features or a larger budget."
        )
    return finest


def release_pace(
    session: Session, feature_scale: FloatArray, parameters: PaceParameters
) -> Release:
    """Sum the clipped records, measure variances and selected entries, and complete the matrix.

    Privacy
    -------
    See `PaceParameters.budget`, which is that of the session. `feature_scale` must be
    public, or released by steps on the same budget. Which pairs were measured is part of the
    release.
    """
    parameters.inputs.check_size(session)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    measured, parameters = run_rounds(session, grid, parameters)
    found: dict[str, object] = {
        "variance_sigma": parameters.variance_sigma,
        "entry_sigma": parameters.entry_sigma,
        "measured": np.stack(np.nonzero(np.triu(measured.known, 1)), axis=1).tolist(),
    }
    integers = np.asarray(np.rint(measured.covariance * parameters.whole), dtype=np.int64)
    return parameters.document(NAME, integers, grid.feature_scale, session, found)


def run_rounds(
    session: Session, grid: FeatureGrid, parameters: PaceParameters
) -> tuple[Completion, PaceParameters]:
    """Measure all variances, then in each round an entry that the completion has badly.

    The parameters that are returned have the mu that was left for values.

    Privacy
    -------
    Neighbours: those of the inputs. The session charges all selections, then all values, before
    the first is drawn. Values have the noise of one Gaussian event for the variances and one in
    each round, whatever was released before. All else is computed from released numbers.
    """
    selections = [
        session.reserve_selections(event, parameters.rate, "which pairs are measured")
        for event in parameters.picked
        if parameters.rate is not None
    ]
    parameters = replace(parameters, mu=session.mu_left)
    name = "variances, and values of the measured pairs"
    values = session.reserve(parameters.mu, name=name)
    gram, whole = clipped_gram(grid), parameters.whole  # proof: step 1
    session.read(gram)
    sigma = parameters.variance_sigma
    none = np.empty(0, dtype=np.int64)
    squares = values.measure(EntriesAndSquares(gram, (none, none)), (sigma,))  # proof: step 4
    made = Completion(squares.integers / whole, (sigma / whole) ** 2)
    rows, columns = np.triu_indices(grid.n_features, 1)
    sigma = parameters.entry_sigma
    for _ in range(parameters.n_rounds):
        query = Surprises(gram, expected_sums(made.covariance[rows, columns], parameters))
        (pick,) = selections[0].select(query, 1)  # proof: step 3
        entry = int(rows[pick]), int(columns[pick])
        noisy = values.measure(PairEntry(gram, *entry), (sigma,)).integers  # proof: step 5
        made.add(entry, float(noisy[0]) / whole, (sigma / whole) ** 2)
        made.solve(_STEPS)  # proof: step 7
    made.solve(_LAST_STEPS)
    return made, parameters


def expected_sums(expected: FloatArray, parameters: PaceParameters) -> IntArray:
    """Return integers that sums are compared with, from what is expected of covariances."""
    most = parameters.whole
    return np.rint(np.clip(expected * most, -most, most)).astype(np.int64)  # proof: step 2


class Completion:
    """The covariance of most entropy that agrees with noisy entries as far as their noise says.

    It minimises -log det S + sum over known entries i <= j of (S_ij - y_ij)^2 / (2 v_ij), y their
    noisy values and v the variances of the noise. So the inverse of S is zero at every other pair:
    a Gaussian graphical model. A solution exists whatever the values are, and is positive
    definite; with less and less noise it is the completion of most entropy, where there is one.

    Parameters
    ----------
    variances : ndarray
        Noisy values of the diagonal.
    noise : float
        The variance of their noise.
    """

    def __init__(self, variances: FloatArray, noise: float) -> None:
        d = len(variances)
        self.known: BoolArray = np.eye(d, dtype=bool)
        self._values, self._noise = np.diag(variances), np.diag(np.full(d, noise))
        # The root of v k^2 + y k = 1: what each variance is without other entries.
        root = np.sqrt(variances**2 + 4 * noise)
        self._set(np.diag(2 / (variances + root)))

    def _set(self, precision: FloatArray) -> None:
        inverse = np.linalg.inv(np.linalg.cholesky(precision))
        self._precision = precision
        self.covariance: FloatArray = inverse.T @ inverse

    def add(self, entry: tuple[int, int], value: float, noise: float) -> None:
        """Add a noisy value of an entry; those of an entry that is known are averaged."""
        if self.known[entry]:
            old = self._noise[entry]
            value = (noise * self._values[entry] + old * value) / (old + noise)
            noise = old * noise / (old + noise)
        for place in (entry, entry[::-1]):
            self.known[place], self._values[place], self._noise[place] = True, value, noise

    def solve(self, most_steps: int) -> None:
        """Take Newton steps in the inverse, each a conjugate-gradient solution, until it is close.

        The dual problem is to minimise -log det K + tr(K y) + the sum of v_ii K_ii^2 / 2 and
        2 v_ij K_ij^2, with K zero where nothing is known. It is self-concordant: a step of the size
        taken here stays positive definite and never ascends.
        """
        ridge = self._noise * np.where(np.eye(len(self.known)), 1.0, 2.0)
        for _ in range(most_steps):
            covariance = self.covariance
            downhill = covariance - self._values - ridge * self._precision
            downhill = np.where(self.known, downhill, 0.0)
            squares = np.outer(np.diag(covariance), np.diag(covariance))
            if np.max(np.abs(downhill) / np.sqrt(squares)) < _CLOSE:
                return
            direction, decrement = self._direction(downhill, squares, ridge)
            length = math.sqrt(decrement)
            slope = float(np.sum(direction * downhill))
            size = 1.0 if length < _FULL_STEP else slope / (length * (length + slope))
            try:
                self._set(self._precision + size * direction)
            except np.linalg.LinAlgError:  # as near to singular as doubles can be
                return

    def _direction(
        self, downhill: FloatArray, squares: FloatArray, ridge: FloatArray
    ) -> tuple[FloatArray, float]:
        """Return about the Newton direction, and its squared length in the local norm."""
        covariance, known = self.covariance, self.known
        scale = np.where(known, 1 / (squares + ridge), 0.0)

        def curved(matrix: FloatArray) -> FloatArray:
            return np.where(known, covariance @ matrix @ covariance + ridge * matrix, 0.0)

        found, rest = np.zeros_like(downhill), downhill
        towards = scale * rest
        start = left = float(np.sum(rest * towards))
        image = np.zeros_like(downhill)
        for _ in range(_MOST_PRODUCTS):
            turned = curved(towards)
            size = left / float(np.sum(towards * turned))
            found, image, rest = found + size * towards, image + size * turned, rest - size * turned
            before, left = left, float(np.sum(scale * rest**2))
            if left < _DIRECTION * start:
                break
            towards = scale * rest + (left / before) * towards
        return found, float(np.sum(found * image))


class Pace(Peer):
    """Entries selected one by one where the completion of most entropy is wrong."""

    name = NAME
    title = "PACE-GGM (Ferrando et al.)"
    estimator = ("PaceCovariance", {})
    most_features = 50
    limit = "its time grows with the fourth power of their number, to minutes at 200."
    parameters_of = pace_parameters
    release_by = release_pace

    def renew(self, plan: PeerPlan, prepared: Prepared) -> PaceParameters:
        """See `Peer.renew`; there are as many rounds as planned."""
        planned: PaceParameters = plan.parameters
        return planned.with_values(prepared.session.mu_left)


PACE = Pace()
