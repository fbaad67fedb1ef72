"""Adaptive release: probe all pairs, climb the ladder, and spend the rest where it helps most.

Every decision follows from public or released numbers, and every step takes its time from one
clock before it is run. `AdaptiveRules` has the numbers that decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov._triangle import mirror, pairs_beyond, spread_pairs
from hushcov._words import number
from hushcov.fit.adaptive.pairs import (
    NAME,
    AdaptiveParameters,
    Ladder,
    PairValues,
    clock_dict,
    kept_of,
    release_pairs,
    with_errors,
)
from hushcov.fit.adaptive.planned import told_pairs, value_noise
from hushcov.fit.adaptive.rules import AdaptiveRules
from hushcov.fit.looks import averaged, first_seen, look_further, shares_of
from hushcov.fit.mechanism import Prepared
from hushcov.fit.norms import (
    WIDEST,
    NormBound,
    UnitBound,
    choose_norm,
    exact_half_width,
    norm_counts,
    norm_in_steps,
    release_unit_bound,
)
from hushcov.fit.screened.mechanism import TO_CORRELATION, pair_of
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import TILT_UNIT, Gram, PairSigns, UnitGram
from hushcov.kernel.session import Session
from hushcov.options import FOR_RELATIONS
from hushcov.postprocess import detection_deviation, noise_norm, symmetric_sparse
from hushcov.postprocess.structure import (
    best_candidate,
    coherent_norm,
    entry_deviation,
    largest,
    largest_of,
    leading_direction,
    signal_norm,
)
from hushcov.release import Making, Release, parts_of
from hushcov.release.coverage import constant_mask
from hushcov.release.looks import FurtherLook, TargetStep

_ALL_EIGENVECTORS = 500  # features up to which all eigenvectors take a fraction of a second


class WholeMatrix:
    """Second moments of bounded records, and what was released of them.

    The part of the trace that the bound on norms takes off is put back, to all entries alike.
    `mean` is the mean of all releases, weighted by their precision, in units of the scales;
    `noise_sd` has the deviations of its noise off and on the diagonal. An earlier matrix at another
    bound goes on counting where it is given as `before`, with its share of trust.
    """

    def __init__(
        self,
        session: Session,
        feature_scale: FloatArray,
        parameters: AdaptiveParameters,
        bound: NormBound,
        *,
        units: UnitBound | None = None,
        before: tuple[WholeMatrix, float] | None = None,
    ) -> None:
        inputs, radius = parameters.inputs, WIDEST
        d, n, together = inputs.n_features, inputs.n_records, inputs.neighbours.together
        norm = bound.norm if units is None else math.sqrt(units.norm / together)
        norm = min(norm, radius * math.sqrt(d))
        least = math.sqrt(parameters.rules.least_matrix_share * session.remaining)
        grid = FeatureGrid(feature_scale, radius, exact_half_width(inputs, radius, norm, least))
        if units is None:
            in_steps = norm_in_steps(norm, d, radius, grid.half_width)
            query: Gram | UnitGram = Gram(grid, in_steps)  # proof: step 4
        else:
            in_steps = max(1, math.floor(units.norm / grid.step**2))
            query = UnitGram(grid, in_steps, together)  # proof: step 8
        self._session, self._query = session, query
        cut = bound.cut if units is None else units.cut
        self._unit = grid.step**2 / n / (1 - cut)
        self._precision: FloatArray = np.zeros(2)
        self.mean: FloatArray = np.zeros((d, d))
        self.noise_sd = math.inf, math.inf
        if before is not None:
            self._precision, self.mean = before[1] * before[0]._precision, before[0].mean

    def measure(self, mu: float) -> None:
        """Release the matrix once more, and average.

        Privacy
        -------
        Neighbours: those of the session; no precondition. The upper triangle moves by at most `mu`
        deviations of its noise.
        """
        self._session.read(self._query)  # once for all releases
        noisy = self._session.measure(self._query, mu)  # proof: step 4
        weights = 1 / (np.array(noisy.deviations, dtype=np.float64) * self._unit) ** 2
        share = weights / (self._precision + weights)
        before, mean = self.mean, noisy.integers * self._unit
        diagonal = before.diagonal() + share[1] * (mean.diagonal() - before.diagonal())
        mean -= before
        mean *= share[0]
        mean += before
        np.fill_diagonal(mean, diagonal)
        self.mean, self._precision = mean, self._precision + weights
        off, on = 1 / np.sqrt(self._precision)
        self.noise_sd = float(off), float(on)


@dataclass(frozen=True, eq=False)
class Probe:
    """A first noisy covariance in units of the scales, and the noise of an entry off the diagonal.

    `whole` has the matrix behind it where its own entries were released, which go on counting.
    """

    mean: FloatArray
    noise_sd: float
    whole: WholeMatrix | None = None

    def at(self, pairs: tuple[IntArray, IntArray]) -> Matrix:
        """Return the probe at `pairs`, plus its diagonal."""
        return symmetric_sparse(pairs, self.mean[pairs], self.mean.diagonal())


def _sign_variances(scores: PairSigns) -> FloatArray:
    """Return about the variances of signs with a mean of m, less m and over 1 + |m|."""
    size = np.abs(np.array(scores.tilt or [0] * scores.n_features)) / TILT_UNIT
    return np.asarray((1 - size) / (1 + size))


def probe_signs(
    session: Session, scores: PairSigns, inputs: ReleaseInputs, typical: float, mu: float
) -> Probe:
    """Release the sums of products of signs of all pairs, and make a covariance of them.

    `typical` is about the variance of a feature, in squared scales.

    Privacy
    -------
    Neighbours: those of the session; no precondition. See `PairSigns.squared_distance`.
    """
    n, d = inputs.n_records, inputs.n_features
    variances = _sign_variances(scores)
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


def missing_share(probe: Probe, norm: NormBound) -> float:
    """Return the share of what a bound cuts off that the largest eigenvalue loses.

    For normal records the squared norm has the variance 2 F^2, F^2 being the sum of all squared
    eigenvalues, and directions have parts of it in proportion to the squares of theirs. What varies
    beyond that comes from heavy tails, which all directions have in proportion to their variance.
    """
    mean, d, noise = probe.mean, len(probe.mean), probe.noise_sd
    trace = float(np.trace(mean))
    top = max(largest(mean) - 2 * noise * math.sqrt(d), trace / d, 0.0)
    energy = max(float(np.vdot(mean, mean)) - (noise * d) ** 2, top**2, trace**2 / d, 1e-300)
    squares, shares = np.array(norm.squares), np.array(norm.shares)
    variance = float(squares**2 @ shares - (squares @ shares) ** 2)
    normal = min(1.0, 2 * energy / max(variance, 1e-300))
    return normal * top**2 / energy + (1 - normal) * min(1.0, top / max(trace, 1e-300))


@dataclass
class _Run:
    """One release under way: what is fixed, and what was released so far.

    `sampled` is the number of independent records, and `alike` about how many records of a unit
    are worth one independent one, where that is known.
    """

    session: Session
    scale: FloatArray
    parameters: AdaptiveParameters
    norm: NormBound
    given: Prepared
    d: int
    sampled: int
    units: UnitBound | None = None
    alike: float | None = None
    look: FurtherLook | None = None
    step: TargetStep | None = None

    @property
    def inputs(self) -> ReleaseInputs:
        return self.parameters.inputs

    @property
    def rules(self) -> AdaptiveRules:
        return self.parameters.rules

    def matrix(self, before: tuple[WholeMatrix, float] | None = None) -> WholeMatrix:
        """Return the matrix of records with the bound on their norms; nothing is read yet."""
        return WholeMatrix(
            self.session,
            self.scale,
            self.parameters,
            self.norm,
            units=self.units,
            before=before,
        )

    def entry_noise(self) -> float:
        """Approximate the noise of an entry if the whole matrix got all that is left."""
        neighbours = self.inputs.neighbours
        square = self.norm.norm**2 if self.units is None else self.units.norm / neighbours.together
        spent = self.session.n_records * self.session.mu_left
        return square * neighbours.outer_product / spent

    def matrix_noise(self) -> float:
        """Approximate the norm of the noise if the whole matrix got all that is left."""
        sampling = self.norm.typical / math.sqrt(self.sampled)
        return 2 * math.sqrt(self.d) * math.hypot(self.entry_noise(), sampling)

    def pairs_noise(self, ladder: Ladder) -> float:
        """Approximate the norm of the noise if the selected pairs got all that is left."""
        real, rules = max(ladder.real, self.d / 4), self.rules
        mu = math.sqrt(rules.values_time_share * self.session.remaining)
        number = round(rules.selected_over_real * real)
        noise = value_noise(number, self.inputs, mu, self.alike)
        row = 2 * real / self.d + 1
        return 2 * math.sqrt(row) * detection_deviation(noise, self.sampled)


def release_adaptive(
    prepared: Prepared, parameters: AdaptiveParameters, *, sparse: bool = False
) -> Release:
    """Probe, select and release; with `sparse` the whole matrix is never released.

    Privacy
    -------
    See `AdaptiveParameters.budget`. Scales, norms and tilts are public, or were released by steps
    on the same budget.
    """
    session, inputs, rules = prepared.session, parameters.inputs, parameters.rules
    scale, d = parameters.open(prepared), inputs.n_features
    norm = prepared.norm or _release_norm(session, scale, parameters)
    run = _Run(session, scale, parameters, norm, prepared, d, inputs.n_sampled)
    heavy = norm.norm**2 > rules.heavy_norm * d * norm.typical
    if inputs.neighbours.together > 1 and not sparse:
        _bound_units(run)
    # Whether few pairs would have much less noise than all; from released and public numbers.
    number = told_pairs(inputs, rules) if inputs.told else d
    few = value_noise(number, inputs, rules.pairs_mu_share * session.mu_left, run.alike)
    few, every = (detection_deviation(each, run.sampled) for each in (few, run.entry_noise()))
    ratio = rules.min_noise_ratio_heavy if heavy else rules.min_noise_ratio_to_select
    ratio = min(ratio, rules.told_noise_ratio_to_select) if inputs.told and not heavy else ratio
    related = inputs.target is not None or inputs.purpose == FOR_RELATIONS
    related = related and len(shares_of(inputs, scale, session.mu_left)) > 1
    if not sparse and (related or every <= ratio * few):
        return _document_of_whole(run, _measure_whole(run, None))
    ladder, probe = _score_pairs(run, probed=not sparse)
    if _climb(run, ladder, probe):
        return _document_of_whole(run, _measure_whole(run, probe))
    pairs, hidden, norm_of = pair_of(ladder.selected, d), 0.0, 1.0
    if probe is not None:
        hidden = _hidden(run, pairs, probe)
        of_pairs = math.hypot(hidden, run.pairs_noise(ladder))
        worse = of_pairs > rules.whole_matrix_gain * run.matrix_noise()
        if inputs.told:
            worse = hidden > rules.told_hidden_margin * run.matrix_noise()
        if worse:
            return _document_of_whole(run, _measure_whole(run, probe))
        norm_of = largest(probe.at(pairs))
    values = release_pairs(session, scale, parameters, pairs, ladder.real, norm_of)
    return _document_of_pairs(run, ladder, values, hidden, sparse=sparse)


def _release_norm(session: Session, scale: FloatArray, parameters: AdaptiveParameters) -> NormBound:
    """Release a bound on the norm of records, where no step before did."""
    found, inputs = int(np.count_nonzero(scale)), parameters.inputs
    if found == 0:
        return NormBound(1.0, 0.0, 1.0)
    mu = math.sqrt(parameters.rules.norms_share * session.remaining)
    noisy = session.measure(norm_counts(scale), mu)  # proof: step 5
    mu = session.mu_left / inputs.neighbours.outer_product
    return choose_norm(noisy.integers, noisy.sd, inputs.n_records, found, mu)


def _bound_units(run: _Run) -> None:
    """Release a bound on the contribution of a unit to the whole matrix."""
    inputs, session, rules = run.inputs, run.session, run.rules
    least = math.sqrt(rules.least_matrix_share * session.remaining)
    half_width = exact_half_width(inputs, WIDEST, WIDEST * math.sqrt(run.d), least)
    grid, mu = FeatureGrid(run.scale, WIDEST, half_width), rules.norms_share * session.remaining
    typical = run.norm.typical
    run.units = release_unit_bound(session, grid, inputs, typical, math.sqrt(mu))  # proof: step 8
    run.alike = run.units.alike(run.d * typical, inputs.neighbours.together)
    run.sampled = max(1, round(session.n_records / (run.alike or 1.0)))


def _score_pairs(run: _Run, *, probed: bool) -> tuple[Ladder, Probe | None]:
    """Return a ladder on the scores of all pairs; with `probed`, release a probe of them before."""
    tilt, session, rules = run.given.tilt, run.session, run.rules
    scores = PairSigns(run.d, None if tilt is None else tuple(tilt.tolist()))
    session.read(scores)  # proof: step 2
    probe = None
    if probed:
        mu = math.sqrt(rules.probe_share * session.remaining)
        # Signs show nearly as much as products, unless features are skewed: those hardly differ.
        seen = float(_sign_variances(scores).mean()) > rules.least_sign_variance
        if seen and run.units is None and rules.probe_signs:
            probe = probe_signs(session, scores, run.inputs, run.norm.typical, mu)
        else:
            whole = run.matrix()
            whole.measure(mu)
            probe = Probe(whole.mean, whole.noise_sd[0], whole)
    return Ladder(session, scores, run.inputs, rules), probe


def _climb(run: _Run, ladder: Ladder, probe: Probe | None) -> bool:
    """Climb until the end, or until the whole matrix is clearly better; True where it is.

    The two are compared once: later less is beside the pairs, and the whole matrix has more noise.
    """
    rules = run.rules
    compared = probe is None or not rules.leave_ladder_early
    while ladder.climb(rules.weakest_pair * run.pairs_noise(ladder)):
        enough = (
            ladder.narrowed >= rules.rungs_before_leaving
            or ladder.spent_share > rules.time_before_leaving
        )
        if enough and not compared and ladder.next_share > rules.dear_rung_share:
            assert probe is not None
            deviation = entry_deviation(probe.mean, probe.noise_sd, run.sampled)
            strong = pairs_beyond(probe.mean, rules.strong_entry * deviation)
            both = pair_of(np.union1d(ladder.selected, strong), run.d)
            margin = rules.told_hidden_margin if run.inputs.told else rules.hidden_margin
            if _hidden(run, both, probe) > margin * run.matrix_noise():
                return True
            compared = True
    return False


def _hidden(run: _Run, pairs: tuple[IntArray, IntArray], probe: Probe) -> float:
    """Approximate the norm of the signal that a probe has beside `pairs`."""
    mean, noise, taken = probe.mean, probe.noise_sd, probe.at(pairs)
    found = signal_norm(mean, taken, entry_deviation(mean, noise, run.sampled))
    small = run.d <= _ALL_EIGENVECTORS
    strongest = np.linalg.eigh(taken.toarray())[1][:, -1] if small else leading_direction(taken)
    for direction in (np.ones(run.d), strongest):
        unit = direction / (float(np.linalg.norm(direction)) or 1.0)
        along = float(unit @ (mean @ unit - taken @ unit))
        whole = along + float(unit @ (taken @ unit))
        found = max(found, coherent_norm(along, whole, noise, run.sampled))
    return found


def _measure_whole(run: _Run, probe: Probe | None) -> WholeMatrix:
    """Release the whole matrix with all that is left, at the bound that suits the probe.

    A bound cuts directions in proportion to the squares of their eigenvalues, so that a strong
    factor loses most: the more it stands out, the higher the bound. Without a probe the matrix
    itself is released first, for a small share of the time. Further looks follow where the purpose
    asks for them and noise leaves enough to see.
    """
    session, rules = run.session, run.rules
    if probe is None:
        first = run.matrix()
        first.measure(math.sqrt(rules.first_matrix_share * session.remaining))
        probe = Probe(first.mean, first.noise_sd[0], first)
    whole = probe.whole
    if run.units is None and rules.move_norm_bound:
        root = 2 * math.sqrt(run.d)
        found = best_candidate(probe.mean, probe.noise_sd, run.sampled, rough=True)
        all_of_it = root * entry_deviation(probe.mean, probe.noise_sd, run.sampled)
        cleaned = min(1.0, max(rules.least_noise_left, found.noise / all_of_it))
        counted = missing_share(probe, run.norm)
        noise = root / (session.n_records * session.mu_left) * cleaned
        norm = run.norm.moved(noise * run.inputs.neighbours.outer_product, counted)
        if rules.least_bound_move * run.norm.norm < norm.norm:
            lost = norm.beyond(np.array([run.norm.norm, norm.norm]) ** 2)
            run.norm = norm
            if whole is not None:
                # What the lower bound had cut off is an error of the probe, beside its noise.
                bias = counted * float(lost[0] - lost[1])
                trust = (found.noise / max(math.hypot(found.noise, bias), 1e-300)) ** 2
                whole = run.matrix((whole, trust))
    whole = whole or run.matrix()
    share, *others = shares_of(run.inputs, run.scale, session.mu_left)
    whole.measure(math.sqrt(share) * session.mu_left)
    if others:
        seen = first_seen(whole.mean, whole.noise_sd[0], run.scale, run.given)
        share = run.given.share
        look, run.step = look_further(session, run.inputs, run.scale, seen, others, share)
        whole.mean, whole.noise_sd = averaged(whole.mean, whole.noise_sd, look, share)
        run.look = look
    return whole


def _document_of_whole(run: _Run, whole: WholeMatrix) -> Release:
    """Say what the whole matrix was found to be; constant features do not count."""
    matrix, noise_sd = whole.mean, whole.noise_sd
    varies = ~constant_mask(run.scale, np.diag(matrix), noise_sd[1])
    seen = matrix if varies.all() or not varies.any() else matrix[np.ix_(varies, varies)]
    norm, found = largest(seen), best_candidate(seen, noise_sd[0], run.sampled)
    if found.rank:
        many = f"{found.rank} eigenvalues stand" if found.rank > 1 else "one eigenvalue stands"
        kind, why = "factors", f"{many} out of the noise"
    elif found.threshold > 0:
        kind, why = "sparse", "what is left beside the strong pairs looks like noise"
        places = pair_of(pairs_beyond(whole.mean, found.threshold), run.d)
        matrix = symmetric_sparse(places, whole.mean[places], np.diag(whole.mean))
    else:
        kind, why = "dense", "many weak pairs matter together, and no threshold would keep them"
    # How much larger the noise is over the norm in deviations of the features than in scales.
    factors = 1 / np.sqrt(np.maximum(np.diag(seen), 3 * noise_sd[1]))
    factors /= factors.max()
    scaled = largest_of(lambda x: factors * (seen @ (factors * x)), len(seen)) or 1.0
    in_deviations = noise_norm(factors, *noise_sd) / scaled
    uneven = max(1.0, in_deviations * norm / noise_norm(np.ones(len(seen)), *noise_sd))
    integers = whole.mean / (noise_sd[0] / run.rules.steps_in_noise)
    np.rint(integers, out=integers)
    cut = run.norm.cut if run.units is None else run.units.cut
    return _document(
        run,
        (kind, why, found.rank),
        (found.noise * uneven, found.hidden),
        norm,
        matrix,
        noise_sd,
        integers=integers.astype(np.int64),
        threshold=found.threshold,
        unexplained=run.rules.put_back_error * cut,
    )


def _document_of_pairs(
    run: _Run, ladder: Ladder, values: PairValues, hidden: float, *, sparse: bool
) -> Release:
    """Return the document of selected pairs."""
    deviation = detection_deviation(values.noise_sd[0], run.sampled)
    threshold = run.rules.kept_pair * deviation
    matrix = values.matrix(steps=values.noise_sd[0] / run.rules.steps_in_noise)
    strong = np.abs(values.pairs) > threshold
    n_kept = int(np.count_nonzero(strong))
    kept_pairs = values.matrix(strong)
    norm = float(np.linalg.norm(kept_pairs @ leading_direction(kept_pairs)))
    noise = 2 * math.sqrt(1 + 2 * n_kept / run.d) * deviation
    missed = min(1.0, ladder.finds()) if ladder.rungs else 0.0
    others = "nothing else was looked for" if sparse else "what is beside them is below noise"
    why = (
        f"{n_kept:,} pairs stand out, of those with a correlation of {number(missed, 2)} or more, "
        f"and {others}"
    )
    return _document(
        run,
        ("sparse", why, 0),
        (noise, max(hidden, missed / 2)),
        norm,
        kept_pairs,
        values.noise_sd,
        kept=kept_of(noise, norm),
        integers=matrix if sparse else matrix.toarray(),
        selected=np.stack([values.rows, values.columns]),
        threshold=threshold,
        unexplained=values.unexplained,
    )


def _document(
    run: _Run,
    found: tuple[str, str, int],
    errors: tuple[float, float],
    norm: float,
    matrix: Matrix,
    noise_sd: tuple[float, float],
    *,
    kept: float = 1.0,
    integers: Matrix,
    selected: IntArray | None = None,
    threshold: float,
    unexplained: float,
) -> Release:
    """Return the document: what was `found` (kind, reason, rank), its errors, and the integers.

    Sampling errors of related features add up: their norm is about 2 sqrt(norm trace / n). The
    guard stands behind whole matrices, and `kept` behind pairs.
    """
    sampling = 2 * math.sqrt(max(norm, 0.0) * run.d * run.norm.typical / run.sampled)
    structure = with_errors(
        found[0],
        found[1],
        errors,
        sampling,
        norm,
        matrix=matrix,
        noise_sd=noise_sd[1],
        n_records=run.sampled,
        given=run.given,
        rank=found[2],
        kept=kept,
    )
    described = run.parameters.to_dict() | clock_dict(run.given) | {"unexplained": unexplained}
    return Release(
        mechanism=NAME,
        integers=integers,
        unit=noise_sd[0] / run.rules.steps_in_noise,
        guarantee=run.session.guarantee,
        parameters=described,
        feature_scale=run.scale,
        noise_sd=noise_sd,
        selected=selected,
        making=Making(
            n_records=run.session.n_records,
            threshold=threshold,
            shrunk=run.norm.shrunk,
            structure=structure,
            look=run.look,
            step=run.step,
            parts=parts_of(run.session),
        ),
    )
