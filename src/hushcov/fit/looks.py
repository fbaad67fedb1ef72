"""Further looks: the covariance once more, in the basis of a look before.

Regressions divide by small eigenvalues, and noise that is equal in all directions hides those.
Where rows are multiplied by C^(-1/2) first, C being what a look before released, they are about
alike in all directions, and noise is, too: mapped back, directions of small variance have little of
it. `docs/proofs/looks.md` has the proof, `docs/looks.md` measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from hushcov._arrays import LARGEST_EXACT_FLOAT, FloatArray
from hushcov._words import number
from hushcov.fit.mechanism import Prepared
from hushcov.fit.norms import choose_norm, exact_half_width, norm_counts, norm_in_steps
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import BoundedSums, Gram
from hushcov.kernel.session import Noisy, Session
from hushcov.kernel.views import multiplied
from hushcov.options import FOR_BOTH, FOR_RELATIONS
from hushcov.release import Release, parts_of
from hushcov.release.looks import LOST_DIRECTIONS, FurtherLook, TargetStep


@dataclass(frozen=True)
class LookRules:
    """The numbers by which further looks are made; `looks.py` of the studies justifies them."""

    # Shares of the time of the first matrix, and of looks after it.
    shares_for_both: tuple[float, ...] = (0.4, 0.22, 0.38)
    shares_for_target: tuple[float, ...] = (0.15, 0.2, 0.25, 0.4)  # the last one of its step
    shares_for_relations: tuple[float, ...] = (0.1, 0.3, 0.6)
    # Share of a look that begins in a basis that was given, over that of one that does not: it has
    # to mend the basis where that is off.
    given_share: float = 0.45
    # Noise of a look over its moments, in norm, from which on further ones are not worth it: where
    # nobody asked for relations the covariance would lose too much earlier.
    most_noise: float = 0.5
    most_noise_for_both: float = 0.25
    # Smallest eigenvalue of a look that counts, over the root of its size times its noise.
    floor: float = 0.5
    # Noise that a basis counts with that was given, over that of the first matrix.
    given: float = 0.1
    # Share of a look for a histogram of norms, and the least n mu at which there is one.
    norms_share: float = 0.01
    least_for_norms: float = 500.0
    # Coordinates are clipped at so many scales, and those of mapped rows at so many bounds.
    reach: float = 16.0
    room: int = 8
    # Bounds that are tried for each bin of the histogram.
    bounds_per_bin: int = 8
    # What long products may leave of a mean product, over what is cut off their length.
    step_bias: float = 0.35
    # Released integers in a deviation of the noise of a mean of both.
    steps_in_noise: float = 1024.0
    # Deviations of noise that a variance may be smaller in a look, in a mean of both.
    most_shorter: float = 3.5
    # Mean squared difference of both, in units of its noise, and typical ratio of variances, from
    # which on there is no mean: tails were shortened in other ways.
    most_different: float = 1.5
    most_taller: float = 1.05
    # The smallest bound that is tried, over the mean of squared norms.
    least_bound: float = 0.25


RULES = LookRules()
_STEP = 2.0**-11  # of the grid of rows, in scales
_HALF_WIDTH = round(RULES.reach / _STEP)
_FINEST = 2.0**-40  # step of a basis
_LARGEST_CONDITION = 1e8  # of a basis
_QUANTILES = 1_000  # that stand for the norms of normal records
_MOST_PULL = 0.9
_RESIDUAL = "the residual of the declared target"
_LEAST_SEEN = 0.1  # of the records, in bins that count
_LOWEST_BIN = 16  # of squared norms: a sixteenth of the size. Less counts as nothing


def shares_of(inputs: ReleaseInputs, scale: FloatArray, mu: float) -> tuple[float, ...]:
    """Return shares of the time of the first matrix and of the looks after it.

    There are none after it where noise would leave too little to be seen in all directions. Only
    public numbers decide, and how many features were found.
    """
    known = {FOR_BOTH: RULES.shares_for_both, FOR_RELATIONS: RULES.shares_for_relations}
    size = int(np.count_nonzero(scale > 0)) + 1
    noise = 2 * inputs.neighbours.outer_product * size**1.5 / (inputs.n_records * max(mu, 1e-300))
    asked = inputs.purpose != FOR_BOTH or inputs.target is not None
    seen = size > 2 and noise < (RULES.most_noise if asked else RULES.most_noise_for_both)
    if not seen:
        return (1.0,)
    return known.get(inputs.purpose, (1.0,)) if inputs.target is None else RULES.shares_for_target


def expected_width(inputs: ReleaseInputs, mu: float | None = None) -> float | None:
    """Return the expected width of intervals of regressions over that of least squares.

    For normal records, from public numbers alone; None where there are no further looks. Tables
    with skewed columns or flags have two to three times that.
    """
    mu, d = inputs.largest_mu() if mu is None else mu, inputs.n_features
    parts, c = shares_of(inputs, np.ones(d), mu), inputs.neighbours.outer_product
    if len(parts) == 1:
        return None
    mu, D = math.sqrt(parts[-1]) * mu, d + 1
    noise = c * (D + 4.2 * math.sqrt(D)) if inputs.target is None else 4.6 * c * math.sqrt(D)
    return math.sqrt(1 + noise**2 / (inputs.n_records * mu**2))


def fewest_records(inputs: ReleaseInputs) -> int:
    """Return how many records further looks need at this budget, about."""
    noise = 2 * inputs.neighbours.outer_product * (inputs.n_features + 1) ** 1.5
    return math.ceil(float(noise) / (inputs.largest_mu() * RULES.most_noise_for_both))


def width_words(inputs: ReleaseInputs) -> str:
    """Say how precise regressions will be, for each purpose and for a declared target."""
    usual = inputs.changed(purpose=FOR_BOTH, target=None)
    both = expected_width(usual)
    if both is None:
        return (
            "columns that are nearly collinear are hidden by noise: further looks at them need "
            f"about {fewest_records(inputs):,} records at this budget"
        )
    asked = expected_width(inputs)
    related = expected_width(usual.changed(purpose=FOR_RELATIONS))
    declared = expected_width(usual.changed(target=0))
    assert related is not None
    assert declared is not None
    others = (
        f"{number(both, 2)} with purpose 'both', {number(related, 2)} with 'relations', "
        f"{number(declared, 2)} for a declared target"
    )
    if asked is None:
        return f"columns that are nearly collinear are hidden by noise; widths are {others}"
    return (
        f"intervals are about {number(asked, 2)} times as wide as those of least squares without "
        f"privacy, and two to three times that where columns are skewed or rare flags ({others})"
    )


@dataclass(frozen=True, eq=False)
class SeenMoments:
    """Second moments in some basis, and the noise of an entry off the diagonal.

    `basis` multiplies a row in units of the scales, with a one behind it where means are unknown.
    """

    basis: FloatArray
    values: FloatArray
    noise: float
    given: bool = False

    def next_basis(self, scale: FloatArray) -> tuple[FloatArray, float]:
        """Return a basis in which these moments are about the identity, and its step.

        Noise sets a floor to eigenvalues, and so do whole numbers, that have to hold the basis.
        """
        values, vectors = np.linalg.eigh((self.values + self.values.T) / 2)
        least = max(RULES.floor * math.sqrt(len(values)) * self.noise, 1e-300)
        while True:
            inverse = 1 / np.sqrt(np.maximum(values, least))
            basis = self.basis @ (vectors * inverse) @ vectors.T
            step = _step(basis, scale)
            basis = np.rint(basis / step) * step
            if np.linalg.cond(basis) < _LARGEST_CONDITION or least > values[-1]:
                return basis, step
            least *= 4


def first_seen(
    first: FloatArray, noise: float, scale: FloatArray, prepared: Prepared
) -> SeenMoments:
    """Return what is known of the features that were found, in units of the scales.

    That is the basis that was given, or the first matrix with its noise. Means are about zero, so
    that a column of ones has nothing to do with the others.
    """
    places = np.flatnonzero(scale > 0)
    inside = np.ix_(places, places)
    values = np.eye(len(places) + (prepared.location is not None))
    known = first[inside]
    if prepared.basis is not None:
        known = prepared.basis[inside] / np.multiply.outer(scale[places], scale[places])
        noise *= RULES.given
    values[: len(places), : len(places)] = known
    return SeenMoments(np.eye(len(values)), values, noise, given=prepared.basis is not None)


def look_further(
    session: Session,
    inputs: ReleaseInputs,
    scale: FloatArray,
    seen: SeenMoments,
    parts: Sequence[float],
    share: float = 1.0,
) -> tuple[FurtherLook, TargetStep | None]:
    """Spend all that is left on looks, each in the basis of the one before; return the last.

    Where a target was declared and found, the last part is that of its step. `parts` are shares of
    the time, up to a factor. `share` is about which share of the records is complete; the others
    are zeros.

    Privacy
    -------
    Neighbours: those of the session; no precondition. Every basis and every bound is computed from
    released and public numbers; `docs/proofs/looks.md`.
    """
    look, target, parts = None, inputs.target, list(parts)
    if seen.given:
        parts[0] *= RULES.given_share
    steps = len(parts) > 1 and target is not None and scale[target] > 0
    for i, part in enumerate(parts[: len(parts) - steps]):
        mu = math.sqrt(part / sum(parts[i:])) * session.mu_left  # proof: step 4
        name = f"all pairs in the basis of look {i + 1}"
        look = _look(session, inputs, scale, *seen.next_basis(scale), mu, share, name)
        seen = SeenMoments(look.basis, look.undone, look.noise_undone)
    assert look is not None
    return look, step_of_target(session, inputs, scale, look, share) if steps else None


def _look(
    session: Session,
    inputs: ReleaseInputs,
    scale: FloatArray,
    basis: FloatArray,
    step: float,
    mu: float,
    share: float,
    name: str,
) -> FurtherLook:
    """Measure the moments of rows in a basis, at the bound that suits their norms."""
    places, D = np.flatnonzero(scale > 0), len(basis)
    rows, one = _mapped(session, scale, basis, step)  # proof: step 1
    n, noise = session.n_records * share, inputs.neighbours.outer_product
    if n * mu >= RULES.least_for_norms:
        of_norms, mu = (mu * math.sqrt(x) for x in (RULES.norms_share, 1 - RULES.norms_share))
        noisy = rows.measure(norm_counts(one), of_norms, f"norms for {name}")  # proof: step 2
        squares, parts = _shares_of_norms(noisy, n, D, mu / noise, share)
    else:
        squares, parts = special.chdtri(D, (np.arange(_QUANTILES) + 0.5) / _QUANTILES), None
    bound = choose_bound(squares, parts, D, n, mu / noise)
    norm = math.sqrt(bound.square)
    wide = RULES.room * norm
    half_width = exact_half_width(inputs.changed(n_features=D), wide, norm, mu)
    query = Gram(FeatureGrid(one, wide, half_width), norm_in_steps(norm, D, wide, half_width))
    noisy = rows.measure(query, mu, name)  # proof: step 3
    unit = noisy.unit / n
    off, on = (each * unit for each in noisy.deviations)
    law = bound.kept, bound.pull, bound.spread
    return FurtherLook(places, basis, noisy.integers, unit, (off, on), *law)


def step_of_target(
    session: Session, inputs: ReleaseInputs, scale: FloatArray, look: FurtherLook, share: float
) -> TargetStep:
    """Spend all that is left on the residual of a declared target, after the regression of a look.

    Rows become the products of the residual with whitened features, whose mean is what is left to
    be explained. They are shortened to a bound, and summed.

    Privacy
    -------
    Neighbours: those of the session; no precondition; `docs/proofs/looks.md`.
    """
    assert inputs.target is not None
    places, mu = look.features, session.mu_left
    own, D = int(np.searchsorted(places, inputs.target)), len(look.basis)
    M = look.steady_moments
    rest = np.delete(np.arange(D), own)
    values, vectors = np.linalg.eigh(M[np.ix_(rest, rest)])
    values = np.maximum(values, 1e-12 * values[-1])
    inverse = (vectors / values) @ vectors.T
    b = inverse @ M[rest, own]
    left = max(float(M[own, own] - b @ M[rest, own]), 1e-12 * float(M[own, own]))
    basis = np.zeros((D, D))
    basis[np.ix_(rest, np.arange(D - 1))] = (vectors / np.sqrt(values)) @ vectors.T
    basis[rest, -1], basis[own, -1] = -b / math.sqrt(left), 1 / math.sqrt(left)
    step = _step(basis, scale)
    basis = np.rint(basis / step) * step
    rows, one = _mapped(session, scale, basis, step, by_last=True)  # proof: step 5
    n, half = session.n_records * share, inputs.neighbours.moved(replaced=2, removed=1)
    of_norms, mu = (mu * math.sqrt(x) for x in (RULES.norms_share, 1 - RULES.norms_share))
    noisy = rows.measure(norm_counts(one), of_norms, f"norms for {_RESIDUAL}")
    squares, parts = _shares_of_norms(noisy, n, D - 1, mu, share)
    lengths = np.sqrt(squares)
    short = np.minimum(lengths, lengths[:, None])
    slope = np.clip((lengths <= lengths[:, None]) @ parts / parts.sum(), 0.05, 1.0)
    spread = np.maximum(short**2 @ parts, 0.0) / (D - 1)
    lost = RULES.step_bias * np.maximum((lengths - short) @ parts, 0.0) / math.sqrt(D - 1)
    noise = half * lengths / (n * mu)
    best = int(np.argmin((noise**2 + spread / n + lost**2) / slope**2))
    bound = float(lengths[best])
    wide = RULES.room * bound
    half_width = exact_half_width(inputs.changed(n_features=D), wide, bound, mu)
    grid = FeatureGrid(one, wide, half_width)
    query = BoundedSums(grid, norm_in_steps(bound, D - 1, wide, half_width))
    noisy = rows.measure(query, mu, _RESIDUAL)
    unit = noisy.unit / n
    law = [float(each[best]) for each in (slope, spread, lost)]
    return TargetStep(inputs.target, places, basis, noisy.integers, unit, noisy.sd * unit, *law)


def _mapped(
    session: Session, scale: FloatArray, basis: FloatArray, step: float, *, by_last: bool = False
) -> tuple[Session, FloatArray]:
    """Return rows times a basis, and 1 in their unit, for each of their columns."""
    places, integers = np.flatnonzero(scale > 0), np.rint(basis / step)
    matrix = np.zeros((len(scale), len(basis)))
    matrix[places] = integers[: len(places)]
    ones = integers[-1] / _STEP if len(places) < len(basis) else None
    grid = FeatureGrid(scale, RULES.reach, _HALF_WIDTH)
    one = (_STEP * step) ** -(1.0 + by_last)
    rows = session.view(multiplied(grid, matrix, ones, by_last))
    return rows, np.full(len(basis) - by_last, one)


def _shares_of_norms(
    noisy: Noisy, n: float, size: int, mu: float, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return squared norms and their shares, from noisy counts of rows with `size` columns."""
    counts = noisy.integers
    if share < 1:
        counts[0] = 0  # records that miss a value are in the first bin
    found = choose_norm(counts, noisy.sd, round(n), size, mu)
    squares, parts = np.array(found.squares), np.array(found.shares)
    seen = counts[_LOWEST_BIN : found.sure].sum() / n
    if len(squares) <= _LOWEST_BIN or seen < _LEAST_SEEN:  # too short, as where nothing varies
        squares = special.chdtri(size, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        return squares, np.full(_QUANTILES, 1 / _QUANTILES)
    # What noise adds to bins that are seen averages out; the others follow the tail.
    parts[: found.sure] = counts[: found.sure] / n
    return squares[_LOWEST_BIN:], parts[_LOWEST_BIN:]


def _step(basis: FloatArray, scale: FloatArray) -> float:
    """Return a power of two, so fine that products of its multiples with rows are still exact.

    The row of ones has finer integers than the others, because it is not on the grid of rows.
    """
    n_found = np.count_nonzero(scale > 0)
    largest = float(np.abs(basis[:n_found]).max())
    if len(basis) > n_found:
        largest = max(largest, float(np.abs(basis[-1]).max()) / _STEP)
    room = LARGEST_EXACT_FLOAT / (len(scale) * _HALF_WIDTH + 1) / 2
    return max(_FINEST, 2.0 ** math.ceil(math.log2(max(largest, 1e-300) / room)))


@dataclass(frozen=True)
class LookBound:
    """A squared bound on norms, and what shortening to it does, as `Look` has it."""

    square: float
    kept: float
    pull: float
    spread: float


def choose_bound(
    squares: FloatArray, parts: FloatArray | None, size: int, n: float, mu: float
) -> LookBound:
    """Choose the bound at which noise, sampling and what is cut off are least together.

    `squares` are squared norms. With `parts`, their shares, each stands for a quarter of an octave;
    without, it is about equal to `size` of normal records.
    """
    if parts is None:
        parts, bounds = np.full(len(squares), 1 / len(squares)), np.array([float(size)])
    else:
        within = (np.arange(RULES.bounds_per_bin) + 0.5) / RULES.bounds_per_bin - 0.5
        squares = np.multiply.outer(squares, np.exp2(within / 4)).ravel()
        parts = np.repeat(parts / RULES.bounds_per_bin, RULES.bounds_per_bin)
        bounds = squares[squares >= RULES.least_bound * (squares @ parts)]
    short = np.minimum(squares, bounds[:, None])
    mean = short @ parts
    # Noise makes some shares negative: numbers stay what they can be.
    mean = np.maximum(mean, _LEAST_SEEN * RULES.least_bound * bounds)
    kept = np.clip(mean / (squares @ parts), _LEAST_SEEN, 1.0)
    beyond = (squares > bounds[:, None]) @ parts
    pull = np.clip(2 * bounds * beyond / ((size + 2) * mean), 0.0, _MOST_PULL)
    spread = size / (size + 2) * np.maximum((short**2 @ parts) / mean**2, _LEAST_SEEN)
    noise = size * bounds / (n * mu * mean * (1 - pull))
    lost = LOST_DIRECTIONS * (1 - kept) / size
    cost = noise**2 + lost**2 + spread / (1 - pull) ** 2 / n
    hidden = 2 * math.sqrt(size) * noise > RULES.most_noise
    cost = np.where(hidden & ~hidden.all(), np.inf, cost)
    best = int(np.argmin(cost))
    return LookBound(*(float(each[best]) for each in (bounds, kept, pull, spread)))


def with_look(
    release: Release, prepared: Prepared, inputs: ReleaseInputs, parts: Sequence[float]
) -> Release:
    """Spend what is left on looks after a first matrix, and return both in one release.

    Privacy
    -------
    See `look_further`.
    """
    session, scale, noise_sd = prepared.session, prepared.feature_scale, release.noise_sd
    assert noise_sd is not None
    mean = release.integers * release.unit
    seen = first_seen(mean, noise_sd[0], scale, prepared)
    look, step = look_further(session, inputs, scale, seen, parts, prepared.share)
    mean, noise_sd = averaged(mean, noise_sd, look, prepared.share)
    unit = noise_sd[0] / RULES.steps_in_noise
    return replace(
        release,
        integers=np.rint(mean / unit).astype(np.int64),
        unit=unit,
        noise_sd=noise_sd,
        guarantee=session.guarantee,
        making=replace(release.making, look=look, step=step, parts=parts_of(session)),
    )


def averaged(
    first: FloatArray, noise_sd: tuple[float, float], look: FurtherLook, complete: float = 1.0
) -> tuple[FloatArray, tuple[float, float]]:
    """Return the mean of a first matrix and a look by their precision, and about its noise at most.

    In the eigenbasis of the first the noise of both is about independent. Where they differ by more
    than noise, because rows were shortened in other ways, the look counts less. Features of which
    it shows less variance do not count at all: those of rare flags are in few rows, which are long.
    The first counts all records, of which the share `complete` is not zeros, and the look these.
    """
    values, noise = complete * look.moments.values, complete * look.moments.noise
    one, other = first.diagonal()[look.features], values.diagonal()
    shorter = one - other
    doubt = np.hypot(noise_sd[1], math.sqrt(2) * noise.diagonal())
    alike = shorter <= RULES.most_shorter * doubt
    places, inside = look.features[alike], np.ix_(alike, alike)
    if not alike.any() or np.median(one / np.maximum(other, 1e-300)) > RULES.most_taller:
        return first, noise_sd
    block = np.ix_(places, places)
    vectors = np.linalg.eigh(first[block])[1]
    found = first[block], values[inside], noise[inside]
    one, other, own = (vectors.T @ each @ vectors for each in found)
    of_first = np.where(np.eye(len(own), dtype=bool), noise_sd[1] ** 2, noise_sd[0] ** 2)
    of_look = np.multiply.outer(own.diagonal(), own.diagonal()) + own**2
    differ = float(np.mean((one - other) ** 2 / (of_first + of_look)))
    if differ > RULES.most_different:
        return first, noise_sd
    of_look = of_look + max(differ - 1, 0.0) * (of_first + of_look)
    share = of_first / (of_first + of_look)
    mean = first.copy()
    mean[block] = vectors @ (one + share * (other - one)) @ vectors.T
    mean = (mean + mean.T) / 2
    if not alike.all():
        return mean, noise_sd
    left, squares = of_first * (1 - share), vectors**2  # from directions back to features
    of_pairs = squares @ left @ squares.T
    of_own = 2 * of_pairs.diagonal() - squares**2 @ left.diagonal()
    rows = (of_pairs.sum(axis=1) - of_pairs.diagonal()) / max(len(own) - 1, 1)
    off, on = math.sqrt(rows.max()), math.sqrt(of_own.max())
    return mean, (min(off, noise_sd[0]), min(on, noise_sd[1]))
