"""Adaptive release: look at the whole, climb the ladder, and spend the rest where it helps most.

Every decision follows from public or released numbers, and every step takes its time from one
clock before it is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov._triangle import mirror, pairs_beyond, spread_pairs
from hushcov._words import number
from hushcov.exceptions import PrivacyConditionError
from hushcov.fit.adaptive.pairs import (
    FINE,
    FIRST_LOOK,
    KEEP,
    NAME,
    NORMS,
    PROBE,
    WEAKEST,
    AdaptiveParameters,
    Ladder,
    PairValues,
    clock_dict,
    kept_of,
    release_pairs,
    value_noise,
    with_errors,
)
from hushcov.fit.gaussian.mechanism import (
    RADIUS,
    exact_half_width,
    norm_in_steps,
)
from hushcov.fit.norms import (
    WIDEST,
    NormBound,
    UnitBound,
    choose_norm,
    norm_counts,
    release_unit_bound,
)
from hushcov.fit.screened.mechanism import pair_of
from hushcov.fit.screened.values import TO_CORRELATION
from hushcov.fit.stage import Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid, check_feature_scale
from hushcov.kernel.queries import Gram, PairSigns, UnitGram
from hushcov.kernel.session import Session
from hushcov.postprocess import (
    Candidate,
    beside,
    best_candidate,
    coherent_norm,
    detection_deviation,
    entry_deviation,
    largest,
    largest_of,
    leading_direction,
    noise_norm,
    over_rows,
    signal_norm,
    symmetric_sparse,
)
from hushcov.release import Making, Release, Structure, parts_of
from hushcov.release.coverage import constant_mask

#: Of the clock, for which noise must fit into integers.
LEAST_SHARE = 1e-3


class WholeMatrix:
    """Second moments of bounded records, and what was released of them.

    What the bound on norms takes off the trace is put back, to all entries alike. `mean` is the
    mean of all looks, weighted by their precision, in units of the scales; `noise_sd`
    has the deviations of its noise off and on the diagonal.
    """

    def __init__(
        self,
        session: Session,
        feature_scale: FloatArray,
        inputs: ReleaseInputs,
        bound: NormBound,
        *,
        widest: bool,
        units: UnitBound | None = None,
    ) -> None:
        radius = WIDEST if widest else RADIUS
        d, n, together = inputs.n_features, inputs.n_records, inputs.neighbours.together
        norm = bound.norm if units is None else math.sqrt(units.norm / together)
        norm = min(norm, radius * math.sqrt(d))
        least = math.sqrt(LEAST_SHARE * session.remaining)
        half_width = exact_half_width(inputs, radius, norm, least)
        grid = FeatureGrid(feature_scale, radius, half_width)
        self._session, self._query = session, _matrix_of(grid, norm, units, together)
        cut = bound.cut if units is None else units.cut
        self._unit = grid.step**2 / n / (1 - cut)
        self._precision: FloatArray = np.zeros(2)
        self.mean: FloatArray = np.zeros((d, d))

    def after(self, before: WholeMatrix, trust: float) -> WholeMatrix:
        """Reuse earlier looks at another bound, down-weighted for their bias."""
        self._precision, self.mean = trust * before._precision, before.mean
        return self

    def look(self, mu: float) -> None:
        """Release the matrix once more.

        Privacy
        -------
        Neighbours: those of the session; no precondition. The upper triangle moves by at most `mu`
        deviations of its noise.
        """
        self._session.read(self._query)  # once for all looks
        noisy = self._session.measure(self._query, mu)  # proof: step 4
        drawn, d = noisy.integers, len(noisy.integers)
        weights = 1 / (np.array(noisy.deviations, dtype=np.float64) * self._unit) ** 2
        share = weights / (self._precision + weights)
        before, unit = self.mean, self._unit
        fresh = drawn.diagonal() * unit
        diagonal = before.diagonal() + share[1] * (fresh - before.diagonal())
        mean = np.empty((d, d))

        def average(rows: slice) -> None:
            mean[rows] = before[rows] + share[0] * (drawn[rows] * unit - before[rows])

        over_rows(average, d)
        np.fill_diagonal(mean, diagonal)
        self.mean = mean
        self._precision = self._precision + weights

    @property
    def noise_sd(self) -> tuple[float, float]:
        """Deviations of the noise of the mean off and on the diagonal."""
        off, on = 1 / np.sqrt(self._precision)
        return float(off), float(on)


def _matrix_of(
    grid: FeatureGrid, norm: float, units: UnitBound | None, together: int
) -> Gram | UnitGram:
    """Return the query of the matrix of records, or of units that are bounded as one."""
    if units is None:
        bound = norm_in_steps(norm, grid.n_features, grid.radius, grid.half_width)
        return Gram(grid, bound)  # proof: step 4
    return UnitGram(grid, max(1, math.floor(units.norm / grid.step**2)), together)  # proof: step 8


# A first look at all pairs: by their signs, which is cheap, or by their products.

_LEAST_VARIANCE = 0.5  # of centred signs, on average


@dataclass(frozen=True, eq=False)
class Probe:
    """About the covariance in units of the scales, and the noise of an entry, off the diagonal.

    `whole` has the sums behind it where it was a look at the matrix itself: the look is not lost.
    """

    mean: FloatArray
    noise_sd: float
    whole: WholeMatrix | None = None

    @cached_property
    def energy(self) -> float:
        """The sum of all squares."""
        return float(np.vdot(self.mean, self.mean))


def look_at_matrix(whole: WholeMatrix, mu: float) -> Probe:
    """A look at the matrix itself; see `WholeMatrix.look`."""
    whole.look(mu)
    return Probe(whole.mean, whole.noise_sd[0], whole)


def look_at_signs(
    session: Session, scores: PairSigns, inputs: ReleaseInputs, typical: float, mu: float
) -> Probe:
    """Release the sums of products of signs of all pairs, and make a covariance of them.

    `typical` is about the variance of a feature, in squared scales.

    Privacy
    -------
    Neighbours: those of the session; no precondition. See `PairSigns.squared_distance`.
    """
    n, d = inputs.n_records, inputs.n_features
    variances = scores.variances()
    unit = typical / float(variances.mean())
    in_scales = TO_CORRELATION * unit / (n * scores.resolution)
    mean = np.empty((d, d))

    def take(start: int, noisy: IntArray) -> None:
        spread_pairs(start, noisy, mean, in_scales)

    noisy = session.measure_in_strips(scores, mu, take)  # proof: step 7
    mirror(mean)
    np.fill_diagonal(mean, variances * unit)
    # Sampling errors are larger by the same factor as scores.
    sampling = typical * math.sqrt((TO_CORRELATION**2 - 1) / inputs.n_sampled)
    return Probe(mean, math.hypot(noisy.sd * in_scales, sampling))


def missing_share(seen: Probe, norm: NormBound) -> float:
    """Which share of what a bound cuts off is missing in the direction of the largest eigenvalue.

    For normal records the squared norm has the variance 2 F^2, F^2 being the sum of all squared
    eigenvalues, and directions have parts of it in proportion to the squares of theirs. What varies
    beyond that comes from heavy tails, which all directions have in proportion to their variance.
    """
    mean, d, noise = seen.mean, len(seen.mean), seen.noise_sd
    trace = float(np.trace(mean))
    top = max(largest(mean) - 2 * noise * math.sqrt(d), trace / d, 0.0)
    energy = max(seen.energy - (noise * d) ** 2, top**2, trace**2 / d, 1e-300)
    normal = min(1.0, 2 * energy / max(norm.variance, 1e-300))
    return normal * top**2 / energy + (1 - normal) * min(1.0, top / max(trace, 1e-300))


_WORTH = 1.6  # noise of the whole matrix over that of few pairs, from which pairs are selected
_CLEANED = 4.0  # deviations beyond which an entry of the probe is left to the ladder
_NARROWED, _FULL_LADDER, _DEAR = 2, 0.1, 0.01  # when the whole matrix may be taken early
# Squared bound on norms over typical ones, from which single pairs lose their tails, and up to
# which noise of the whole matrix over that of few pairs it is taken instead.
_HEAVY, _WORTH_HEAVY = 4.5, 12.0
_BLIND = 6.0  # noise of a first look, over that of the whole matrix, from which it shows nothing
_CLEARLY = 1.2  # pairs not selected yet may be hidden, too
_LEAN = 0.75  # a whole matrix is cleaned afterwards, and better than its noise by about this
_FARTHER = 1.05  # a bound on norms moved by more is worth another pass over the records
_CLEANEST = 0.1  # what cleaning leaves of noise, at least
_PUT_BACK = 0.5  # of what a bound takes off: how far what is put back may be off
_SMALL = 500  # features up to which all eigenvectors are quick


@dataclass(frozen=True)
class Readers:
    """The three places at which a release reads records; a study of its decisions emulates them."""

    matrix: Callable[..., WholeMatrix] = WholeMatrix
    pairs: Callable[..., PairValues] = release_pairs
    signs: Callable[..., PairSigns] = PairSigns


_READERS = Readers()


@dataclass
class _Run:
    """One release under way: what is fixed, and what was released so far."""

    session: Session
    scale: FloatArray
    parameters: AdaptiveParameters
    norm: NormBound
    given: Prepared
    readers: Readers
    units: UnitBound | None = None

    @property
    def sampled(self) -> int:
        if self.units is None:
            return self.parameters.inputs.n_sampled
        return max(1, round(self.session.n_records / (self.alike or 1.0)))

    @property
    def alike(self) -> float | None:
        """About how many records of a unit are worth one independent one, where that is known."""
        if self.units is None:
            return None
        together = self.parameters.inputs.neighbours.together
        return self.units.alike(self.d * self.norm.typical, together)

    @property
    def d(self) -> int:
        return self.parameters.inputs.n_features


def release_adaptive(
    prepared: Prepared,
    parameters: AdaptiveParameters,
    *,
    sparse: bool = False,
    readers: Readers = _READERS,
) -> Release:
    """Look, select and release; with `sparse` the whole matrix is never looked at.

    Other `readers` than the default's study its decisions: they take seeded noise alone, so that no
    release of theirs is called private.

    Privacy
    -------
    See `AdaptiveParameters.budget`. Scales, norms and tilts are public, or were released by steps
    on the same budget.
    """
    session, inputs = prepared.session, parameters.inputs
    if readers is not _READERS and session.private:
        raise PrivacyConditionError(
            "other readers than the default's promise nothing: pass a seeded source of noise."
        )
    inputs.check_size(session)
    scale = check_feature_scale(prepared.feature_scale, inputs.n_features)
    session.name_parts(parameters.part)
    parameters.expect(session)
    norm = prepared.norm or _released_norm(session, scale, inputs)
    run = _Run(session, scale, parameters, norm, prepared, readers)
    if inputs.neighbours.together > 1 and not sparse:
        run.units = _unit_bound(run)
    # Whether few pairs would have much less noise than all; from released and public numbers.
    all_pairs = _entry_noise(run, session.mu_left)
    few = value_noise(run.d, inputs, 0.6 * session.mu_left, run.alike)
    all_pairs, few = (detection_deviation(noise, run.sampled) for noise in (all_pairs, few))
    heavy = norm.norm**2 > _HEAVY * run.d * norm.typical
    if not sparse and all_pairs <= (_WORTH_HEAVY if heavy else _WORTH) * few:
        return _of_whole(run, None)
    ladder, probe = _scored(run, probed=not sparse)
    if probe is not None:
        deviation = entry_deviation(probe.mean, probe.noise_sd, run.sampled)
        # Factors that such a look does not show would be hidden beside any pairs.
        if 2 * math.sqrt(run.d) * deviation > _BLIND * _whole_noise(run):
            return _of_whole(run, probe)
    if _climb(run, ladder, probe):
        return _of_whole(run, probe)
    hidden = 0.0 if probe is None else _hidden(run, ladder.pairs, probe)
    noise = _pair_noise(run, ladder)
    if probe is not None and math.hypot(hidden, noise) > _LEAN * _whole_noise(run):
        return _of_whole(run, probe)
    norm_of = 1.0 if probe is None else largest(_taken(probe, ladder.pairs))
    values = readers.pairs(session, scale, inputs, ladder.pairs, ladder.real, norm_of)
    return _of_pairs(run, ladder, values, hidden, sparse=sparse)


def _released_norm(session: Session, scale: FloatArray, inputs: ReleaseInputs) -> NormBound:
    """A bound on the norm of records, where no step before released one."""
    mu = math.sqrt(NORMS * session.remaining)
    found = int(np.count_nonzero(scale))
    if found == 0:
        return NormBound(1.0, 0.0, 1.0)
    noisy = session.measure(norm_counts(scale), mu)  # proof: step 5
    mu = session.mu_left / inputs.neighbours.outer_product
    return choose_norm(noisy.integers, noisy.sd, inputs.n_records, found, mu)


def _unit_bound(run: _Run) -> UnitBound:
    """A bound on what a unit adds to the whole matrix."""
    inputs, session = run.parameters.inputs, run.session
    radius = RADIUS if run.given.norm is None else WIDEST
    least = math.sqrt(LEAST_SHARE * session.remaining)
    grid = FeatureGrid(
        run.scale, radius, exact_half_width(inputs, radius, radius * math.sqrt(run.d), least)
    )
    mu = math.sqrt(NORMS * session.remaining)
    return release_unit_bound(session, grid, inputs, run.norm.typical, mu)  # proof: step 8


def _scored(run: _Run, *, probed: bool) -> tuple[Ladder, Probe | None]:
    """A ladder on the scores of all pairs, whose first rung follows the advice on sparsity.

    With `probed`, a noisy look at all of them before.
    """
    tilt, d, inputs = run.given.tilt, run.d, run.parameters.inputs
    scores = run.readers.signs(d, None if tilt is None else tuple(tilt.tolist()))
    run.session.read(scores)  # proof: step 2
    probe = None
    if probed:
        mu = math.sqrt(PROBE * run.session.remaining)
        # Signs show nearly as much as products, unless features are skewed: those hardly differ.
        seen = float(scores.variances().mean()) > _LEAST_VARIANCE
        if seen and run.units is None:
            probe = look_at_signs(run.session, scores, inputs, run.norm.typical, mu)
        else:
            probe = look_at_matrix(_whole(run), mu)
    first = d * max(1, inputs.row_sparsity - 1) // 16
    return Ladder(run.session, scores, inputs, first), probe


def _climb(run: _Run, ladder: Ladder, probe: Probe | None) -> bool:
    """Climb until the end, or until the whole matrix is clearly better; True where it is.

    That is asked once: afterwards less is beside the pairs, and the whole matrix has more noise.
    """
    while ladder.climb(WEAKEST * _pair_noise(run, ladder)):
        enough = ladder.narrowed >= _NARROWED or ladder.spent_share > _FULL_LADDER
        if probe is not None and enough and ladder.next_share > _DEAR:
            deviation = entry_deviation(probe.mean, probe.noise_sd, run.sampled)
            strong = pairs_beyond(probe.mean, _CLEANED * deviation)
            both = pair_of(np.union1d(ladder.selected, strong), run.d)
            if _hidden(run, both, probe) > _CLEARLY * _whole_noise(run):
                return True
            probe = None
    return False


def _hidden(run: _Run, pairs: tuple[IntArray, IntArray], probe: Probe) -> float:
    """About the norm of what a first look has beside the pairs taken."""
    seen, noise = probe.mean, probe.noise_sd
    taken = _taken(probe, pairs)
    left = beside(seen, taken, probe.energy)
    found = signal_norm(left, entry_deviation(seen, noise, run.sampled))
    small = run.d <= _SMALL
    strongest = np.linalg.eigh(taken.toarray())[1][:, -1] if small else leading_direction(taken)
    others = []
    for direction in (np.ones(run.d), strongest):
        unit = direction / (float(np.linalg.norm(direction)) or 1.0)
        along = float(unit @ left.product(unit))
        whole = along + float(unit @ (taken @ unit))
        others.append(coherent_norm(along, whole, noise, run.sampled))
    return max(found, *others)


def _taken(probe: Probe, pairs: tuple[IntArray, IntArray]) -> Matrix:
    """What a first look has of some pairs, and its diagonal."""
    return symmetric_sparse(pairs, probe.mean[pairs], probe.mean.diagonal())


def _whole_noise(run: _Run) -> float:
    """The norm of the noise if the whole matrix got all that is left."""
    noise = _entry_noise(run, run.session.mu_left)
    return 2 * math.sqrt(run.d) * math.hypot(noise, run.norm.typical / math.sqrt(run.sampled))


def _entry_noise(run: _Run, mu: float) -> float:
    """About the noise of an entry of the whole matrix."""
    neighbours = run.parameters.inputs.neighbours
    square = run.norm.norm**2 if run.units is None else run.units.norm / neighbours.together
    return square * neighbours.outer_product / (run.session.n_records * mu)


def _pair_noise(run: _Run, ladder: Ladder) -> float:
    """The norm of the noise if the selected pairs got all that is left."""
    real = max(ladder.real, run.d / 4)
    mu = math.sqrt(0.8 * run.session.remaining)
    noise = value_noise(round(1.3 * real), run.parameters.inputs, mu, run.alike)
    return 2 * math.sqrt(2 * real / run.d + 1) * detection_deviation(noise, run.sampled)


def _whole(run: _Run) -> WholeMatrix:
    """Exact sums of records with the bound on their norms."""
    return run.readers.matrix(
        run.session,
        run.scale,
        run.parameters.inputs,
        run.norm,
        widest=run.given.norm is not None,
        units=run.units,
    )


def _released(run: _Run, probe: Probe | None) -> WholeMatrix:
    """Release the whole matrix with all that is left, at the bound that suits what was seen.

    What a bound cuts off comes from directions in proportion to the squares of their eigenvalues,
    so that a strong factor loses most: the more it stands out, the higher the bound. Without a
    probe there is a first look at the matrix itself.
    """
    if probe is None:
        mu = math.sqrt(FIRST_LOOK * run.session.remaining)
        probe = look_at_matrix(_whole(run), mu)
    if run.units is not None:
        assert probe.whole is not None
        probe.whole.look(run.session.mu_left)
        return probe.whole
    found = best_candidate(probe.mean, probe.noise_sd, run.sampled, rough=True)
    all_of_it = 2 * math.sqrt(run.d) * entry_deviation(probe.mean, probe.noise_sd, run.sampled)
    cleaned = min(1.0, max(_CLEANEST, found.noise / all_of_it))
    counted = missing_share(probe, run.norm)
    noise = 2 * math.sqrt(run.d) / (run.session.n_records * run.session.mu_left) * cleaned
    noise *= run.parameters.inputs.neighbours.outer_product
    norm, whole = run.norm.moved(noise, counted), probe.whole
    if _FARTHER * run.norm.norm < norm.norm:
        lost = norm.beyond(np.array([run.norm.norm, norm.norm]) ** 2)
        run.norm = norm
        if whole is not None:
            # What the lower bound had cut off is an error of the first look, beside its noise.
            bias = counted * float(lost[0] - lost[1])
            trust = (found.noise / max(math.hypot(found.noise, bias), 1e-300)) ** 2
            whole = _whole(run).after(whole, trust)
    whole = whole or _whole(run)
    whole.look(run.session.mu_left)
    return whole


def _of_whole(run: _Run, probe: Probe | None) -> Release:
    """The document of a whole matrix, with what it was found to be."""
    whole = _released(run, probe)
    noise_sd = whole.noise_sd
    varies = ~constant_mask(run.scale, np.diag(whole.mean), noise_sd[1])
    seen = whole.mean if varies.all() or not varies.any() else whole.mean[np.ix_(varies, varies)]
    found = best_candidate(seen, noise_sd[0], run.sampled)
    integers = np.empty(whole.mean.shape, dtype=np.int64)

    def fill(rows: slice) -> None:
        integers[rows] = np.rint(whole.mean[rows] / (noise_sd[0] / FINE))

    over_rows(fill, run.d)
    return _document(
        run,
        integers=integers,
        noise_sd=noise_sd,
        selected=None,
        threshold=found.threshold,
        structure=_structure_of_whole(run, whole, seen, found),
        unexplained=_PUT_BACK * (run.norm.cut if run.units is None else run.units.cut),
    )


def _structure_of_whole(
    run: _Run, whole: WholeMatrix, seen: FloatArray, found: Candidate
) -> Structure:
    """Say what a whole matrix was found to be, with its error; `seen` are features that vary."""
    norm, noise_sd = largest(seen), whole.noise_sd
    if found.rank:
        many = f"{found.rank} eigenvalues stand" if found.rank > 1 else "one eigenvalue stands"
        kind, why = "factors", f"{many} out of the noise"
    elif found.threshold > 0:
        kind, why = "sparse", "what is left beside the strong pairs looks like noise"
    else:
        kind, why = "dense", "many weak pairs matter together, and no threshold would keep them"
    # How much larger the noise is over the norm in deviations of the features than in scales.
    factors = 1 / np.sqrt(np.maximum(np.diag(seen), 3 * noise_sd[1]))
    factors /= factors.max()
    scaled = largest_of(lambda x: factors * (seen @ (factors * x)), len(seen)) or 1.0
    in_deviations = noise_norm(factors, *noise_sd) / scaled
    uneven = max(1.0, in_deviations * norm / noise_norm(np.ones(len(seen)), *noise_sd))
    errors, matrix = (found.noise * uneven, found.hidden), whole.mean
    if not found.rank and found.threshold > 0:
        strong = pairs_beyond(whole.mean, found.threshold)
        places = pair_of(strong, run.d)
        matrix = symmetric_sparse(places, whole.mean[places], np.diag(whole.mean))
    return _structure(run, kind, found.rank, why, errors, norm, matrix, noise_sd[1])


def _structure(
    run: _Run,
    kind: str,
    rank: int,
    why: str,
    errors: tuple[float, float],
    norm: float,
    matrix: Matrix,
    noise_sd: float,
    kept: float = 1.0,
) -> Structure:
    """Return what was found; the guard stands behind whole matrices, `kept` behind pairs.

    Sampling errors of related features add up: their norm is about 2 sqrt(norm trace / n).
    """
    sampling = 2 * math.sqrt(max(norm, 0.0) * run.d * run.norm.typical / run.sampled)
    return with_errors(
        kind,
        why,
        errors,
        sampling,
        norm,
        matrix=matrix,
        noise_sd=noise_sd,
        n_records=run.sampled,
        given=run.given,
        rank=rank,
        kept=kept,
    )


def _of_pairs(
    run: _Run, ladder: Ladder, values: PairValues, hidden: float, *, sparse: bool
) -> Release:
    """The document of selected pairs."""
    deviation = detection_deviation(values.noise_sd[0], run.sampled)
    threshold = KEEP * deviation
    unit = values.noise_sd[0] / FINE
    pairs = np.rint(values.pairs / unit).astype(np.int64)
    diagonal = np.rint(values.diagonal / unit).astype(np.int64)
    matrix = symmetric_sparse((values.rows, values.columns), pairs, diagonal)
    strong = np.abs(values.pairs) > threshold
    n_kept = int(np.count_nonzero(strong))
    places = values.rows[strong], values.columns[strong]
    kept_pairs = symmetric_sparse(places, values.pairs[strong], values.diagonal)
    norm = float(np.linalg.norm(kept_pairs @ leading_direction(kept_pairs)))
    noise = 2 * math.sqrt(1 + 2 * n_kept / run.d) * deviation
    missed = min(1.0, ladder.finds()) if ladder.rungs else 0.0
    beside = "nothing else was looked for" if sparse else "what is beside them is below noise"
    why = (
        f"{n_kept:,} pairs stand out, of those with a correlation of {number(missed, 2)} or more, "
        f"and {beside}"
    )
    errors = noise, max(hidden, missed / 2)
    kept = kept_of(noise, norm)
    own = values.noise_sd[1]
    structure = _structure(run, "sparse", 0, why, errors, norm, kept_pairs, own, kept)
    return _document(
        run,
        integers=matrix if sparse else matrix.toarray(),
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        threshold=threshold,
        structure=structure,
        unexplained=values.unexplained,
    )


def _document(
    run: _Run,
    *,
    integers: IntArray,
    noise_sd: tuple[float, float],
    selected: IntArray | None,
    threshold: float,
    structure: Structure,
    unexplained: float,
) -> Release:
    described = run.parameters.to_dict() | clock_dict(run.given)
    return Release(
        mechanism=NAME,
        integers=integers,
        unit=noise_sd[0] / FINE,
        guarantee=run.session.guarantee,
        parameters=described | {"unexplained": unexplained},
        feature_scale=run.scale,
        noise_sd=noise_sd,
        selected=selected,
        making=Making(
            n_records=run.session.n_records,
            threshold=threshold,
            shrunk=run.norm.shrunk,
            structure=structure,
            parts=parts_of(run.session),
        ),
    )
