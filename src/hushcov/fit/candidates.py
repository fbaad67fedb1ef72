"""Release of known candidates: the values of pairs of which it is public that they may covary.

Every decision follows from public or released numbers, and every step takes its time from one
clock before it is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._words import noise_level, number
from hushcov.candidates import Candidates
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.adaptive.pairs import (
    AdaptiveParameters,
    Ladder,
    Narrowing,
    PairValues,
    clock_dict,
    kept_of,
    release_narrowed,
    with_errors,
)
from hushcov.fit.adaptive.plan import PlannedAdaptive
from hushcov.fit.adaptive.planned import value_noise
from hushcov.fit.adaptive.rules import RULES
from hushcov.fit.mechanism import (
    DENSE_BYTES,
    REFERENCE_MODELS,
    SCALES,
    Facts,
    Forecast,
    Mechanism,
    Prepared,
    budget_words,
    certified_words,
)
from hushcov.fit.reference import reference
from hushcov.fit.screened.mechanism import DIAGONAL_WEIGHT, PAIR_WEIGHT
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.queries import MOST_PRODUCTS, PairSigns
from hushcov.kernel.session import Session
from hushcov.postprocess import detection_deviation, symmetric_sparse
from hushcov.postprocess.structure import leading_direction
from hushcov.release import Making, Release, Structure, parts_of

NAME = "candidates"


@dataclass(frozen=True)
class CandidateChoices:
    """Numbers by which the values of known candidates are cleaned and predicted.

    They were chosen by `benchmarks/studies/known_band.py` on the families of its tables.
    """

    # Shares of the time: a first release of a band of which only a maximum width is known, and of
    # candidates that are so many that few may matter.
    width_share: float = 0.15
    wide_share: float = 0.10
    # Partners of a feature up to which all are released, whatever they are.
    few_partners: int = 24
    # Widths of a band that are compared, and thresholds, in deviations.
    most_widths: int = 64
    thresholds: tuple[float, ...] = (1.5, 2.0, 2.5, 3.0, 3.5)
    # Deviations about a threshold in which the density of values is counted.
    density_width: float = 0.25
    # Pairs from which a threshold can be judged.
    fewest_for_threshold: int = 400
    # Estimated risk of a taper or threshold, over the one without, from which it is not taken.
    clear_gain: float = 0.95
    # Deviations of its own below which an energy or a mean is none.
    evidence: float = 3.0
    # Prediction: sampling errors over 2 sqrt(norm row / n), and share of the time that a ladder
    # leaves for the values of the pairs that it selects.
    sampling_weight: float = 0.7
    values_share: float = 0.4


CHOICES = CandidateChoices()


@dataclass(frozen=True)
class CandidateParameters(AdaptiveParameters):
    """Everything that is fixed before a record is read.

    `adaptive_width` says that the bandwidth is a maximum; `single` that all candidates are released
    once, and that nothing is decided from their values.
    """

    adaptive_width: bool = False
    single: bool = False

    @property
    def candidates(self) -> Candidates:
        """The pairs that may covary."""
        assert self.inputs.candidates is not None
        return self.inputs.candidates

    @property
    def partners(self) -> float:
        """Number of candidates that a feature is in, on average."""
        return 2 * self.candidates.n_pairs / self.inputs.n_features

    @property
    def selects(self) -> bool:
        """Whether candidates are so many that pairs may be selected among them."""
        return not (self.single or self.adaptive_width) and self.partners > CHOICES.few_partners

    @property
    def mu(self) -> float:
        """Budget that earlier steps leave, about."""
        return self.inputs.largest_mu(selects=self.selects)

    @property
    def part(self) -> str:
        """Description of the released values."""
        number, d = self.candidates.n_pairs, self.inputs.n_features
        return f"values of the candidate pairs ({number:,}) and of all variances ({d:,})"

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        own = {"adaptive_width": self.adaptive_width, "single": self.single}
        return super().to_dict() | own


def candidate_parameters(
    inputs: ReleaseInputs, *, adaptive_width: bool = False, single: bool = False
) -> CandidateParameters:
    """Check what a release of known candidates is asked for, from public inputs alone."""
    known = inputs.candidates
    if known is None:
        raise ParameterError(
            "candidates must be given for a release of known candidates: pass bandwidth or "
            "candidate_pairs, or use another mechanism."
        )
    if adaptive_width and known.bandwidth is None:
        raise ParameterError(
            "adaptive_width must be False where there is no bandwidth, got True: it chooses a "
            "width up to that one. Pass bandwidth, or leave it out."
        )
    number = known.n_pairs + inputs.n_features
    if inputs.neighbours.together > 1 and number > MOST_PRODUCTS:
        raise CapacityError(
            f"candidate pairs and features must be at most {MOST_PRODUCTS:,} where records of a "
            f"unit are bounded together, got {number:,}: use fewer candidates, or "
            "max_rows_per_unit=1."
        )
    return CandidateParameters(inputs, adaptive_width=adaptive_width, single=single)


# How wide a band is, whether it is tapered, and what noise made alone: from released values.

#: The noise of a variance over that of a pair, squared.
OWN = (PAIR_WEIGHT / DIAGONAL_WEIGHT) ** 2


@dataclass(frozen=True)
class Taper:
    """Weights of pairs by how many columns apart they are: 1 up to `full`, 0 from `last` on.

    Between the two they fall in a line. A band that is cut has `last` = `full` + 1.
    """

    full: int
    last: int

    def weights(self, lags: IntArray) -> FloatArray:
        """The weights of pairs so many columns apart."""
        return np.asarray(np.clip((self.last - lags) / (self.last - self.full), 0.0, 1.0))


@dataclass(frozen=True)
class Choice:
    """The use of released pairs, with estimated norms of their noise and of the signal lost.

    Norms are in units of the scales; `row` is the noise of a row in variances of a pair.
    """

    taper: Taper | None
    threshold: float
    row: float
    lost: float


@dataclass(frozen=True, eq=False)
class Lags:
    """Released values of a band, by how many columns two features are apart."""

    energy: FloatArray  # mean squares less those of noise and sampling
    mean: FloatArray  # squares of means, less the same of these
    peak: FloatArray  # the largest value that noise cannot have made

    @classmethod
    def of(cls, values: PairValues, deviation: float, width: int) -> Lags:
        """Summarise all lags from 1 to the width."""
        lags = values.columns - values.rows
        counts = np.maximum(1, np.bincount(lags, minlength=width + 1)[1:])
        squares = np.bincount(lags, values.pairs**2, minlength=width + 1)[1:] / counts
        means = np.bincount(lags, values.pairs, minlength=width + 1)[1:] / counts
        sizes, peak = np.abs(values.pairs), np.zeros(width + 1)
        level = deviation * (1 + math.sqrt(2 * math.log(max(2, len(sizes)))))
        np.maximum.at(peak, lags, np.where(sizes > level, sizes, 0.0))
        one_sign = np.maximum(0.0, means**2 - deviation**2 / counts)
        return cls(squares - deviation**2, one_sign, peak[1:])

    def lost(self, weights: FloatArray) -> float:
        """Approximate the norm of the signal that weights take off."""
        rest = 1 - weights
        energy = max(0.0, float(rest**2 @ self.energy))
        alone = float((rest * self.peak).max(initial=0.0))
        return max(2 * math.sqrt(2 * energy), 2 * float(rest @ np.sqrt(self.mean)), alone)


def band_norm(row: float, n_features: int) -> float:
    """Approximate the norm of noise of deviation 1 whose rows have squares that add up to `row`.

    Twice the root of a row, and what the worst of many places adds to it; measured.
    """
    worst = math.sqrt(math.log(max(2, n_features)))
    return 2 * math.sqrt(row) + worst / float(max(1.0, row) ** (1 / 3))


def best_taper(lags: Lags, n_features: int, noise: FloatArray) -> tuple[Taper, float, float]:
    """The one with the least estimated risk, with it, and with what it takes off.

    `noise` is the deviation of a pair where pairs up to each lag, from 0 on, are released.
    """
    width = len(noise) - 1
    places = np.arange(1, width + 1)
    tapers = [Taper(width, width + 1)]  # the whole band, then others that are cut or tapered
    lengths = np.unique(np.geomspace(1, width + 1, CHOICES.most_widths).astype(np.int64) - 1)
    for length in lengths.tolist()[::-1]:
        tapers.append(Taper(length, length + 1))
        if length >= 2:
            tapers.append(Taper(length // 2, length + 1))
    best: tuple[float, Taper, float] | None = None
    for each in tapers:
        weights = each.weights(places)
        row = OWN + 2 * float(weights @ weights)
        lost = lags.lost(weights)
        risk = math.hypot(band_norm(row, n_features) * noise[min(width, each.last - 1)], lost)
        if best is None or risk < (CHOICES.clear_gain if best[1].full == width else 1.0) * best[0]:
            best = risk, each, lost
    assert best is not None
    return best[1], best[0], best[2]


def best_threshold(pairs: FloatArray, deviation: float) -> tuple[float, float]:
    """The level with the least estimated squared error, and that over the one without any.

    Stein's estimate for a hard threshold t: with noise of deviation 1 each kept value costs 1, each
    dropped one its square less 1, and values near t what the jump there adds, 2 t times
    their density.
    """
    if len(pairs) < CHOICES.fewest_for_threshold or not deviation > 0:
        return 0.0, 1.0
    sizes = np.abs(pairs) / deviation
    best = 0.0, 1.0
    for level in CHOICES.thresholds:
        dropped = sizes[sizes <= level]
        n_near = np.count_nonzero(np.abs(sizes - level) < CHOICES.density_width)
        density = n_near / (2 * CHOICES.density_width)
        risk = len(sizes) - 2 * len(dropped) + float(dropped @ dropped) + 2 * level * density
        ratio = max(0.0, risk / len(sizes))
        best = min(best, (level * deviation, ratio), key=lambda each: each[1])
    return best


def choose(values: PairValues, deviation: float, n_features: int, width: int | None) -> Choice:
    """Choose the use of the values of a band, or of other pairs where there is no width."""
    row = OWN + 2 * len(values.pairs) / n_features
    threshold, ratio = best_threshold(values.pairs, deviation)
    cleaned = OWN + (row - OWN) * ratio
    noise = band_norm(cleaned, n_features) if threshold else band_norm(row, n_features)
    worth = noise < CHOICES.clear_gain * band_norm(row, n_features)
    if width:
        lags = Lags.of(values, deviation, width)
        taper, risk, lost = best_taper(lags, n_features, np.full(width + 1, deviation))
        if taper.full < width and not (worth and noise * deviation < risk):
            weights = taper.weights(np.arange(1, width + 1))
            return Choice(taper, 0.0, OWN + 2 * float(weights @ weights), lost)
    return Choice(None, threshold, cleaned, 0.0) if worth else Choice(None, 0.0, row, 0.0)


def dense(values: PairValues, deviation: float) -> bool:
    """Whether many of the candidates matter, as far as a first look can tell.

    A share f of pairs that all have the square r has the energy f r, and a fourth power of f r^2
    beyond what noise has. Where no energy is seen, strong pairs are few.
    """
    squares = (values.pairs / deviation) ** 2
    number = max(1, len(squares))
    energy = float(squares.mean()) - 1
    if energy < CHOICES.evidence * math.sqrt(2 / number):
        return False
    fourth = float((squares**2).mean()) - 3 - 6 * energy
    return energy**2 > max(0.0, fourth) / 8  # f above an eighth


def hidden_norm(values: PairValues, deviation: float, n_features: int) -> float:
    """Approximate the norm of the signal in values: of any sign, or of one sign."""
    number = max(1, len(values.pairs))
    partners = 2 * number / n_features
    energy = float((values.pairs**2).sum()) / number - deviation**2
    if energy < CHOICES.evidence * math.sqrt(2 / number) * deviation**2:
        energy = 0.0
    mean = abs(float(values.pairs.sum())) / number - CHOICES.evidence * deviation / math.sqrt(
        number
    )
    return max(2 * math.sqrt(partners * energy), partners * max(0.0, mean))


# The error to expect of a release of known candidates, from public numbers.

_LARGEST = 300  # features of the models, whose norms and variances are all that is used


def predict_candidates(parameters: CandidateParameters) -> Forecast:
    """Noise and sampling errors of the candidates, on models that have them all.

    Where they are many, the better of all of them and of those that a row sparsity speaks of.
    """
    inputs, known = parameters.inputs, parameters.candidates
    d, most = inputs.n_features, min(known.row_sparsity, inputs.n_features)
    time = parameters.mu**2
    number = float(known.n_pairs)
    if parameters.adaptive_width:  # what the first look costs where the band is as wide
        time *= 1 - CHOICES.width_share / 2
    options = [(number, most, time)]
    if parameters.selects:
        few = min(number, d * (inputs.row_sparsity - 1) / 2)
        time *= CHOICES.values_share * (1 - CHOICES.wide_share)
        options.append((RULES.selected_over_real * few, inputs.row_sparsity, time))
    errors = [_errors(inputs, *each) for each in options]
    best = {model: min(each[model] for each in errors) for model in REFERENCE_MODELS}
    return Forecast(NAME, best, None)


@lru_cache(maxsize=1024)
def _errors(inputs: ReleaseInputs, number: float, row: int, time: float) -> dict[str, float]:
    """Predict errors where so many pairs are released, and a row has so many entries."""
    d, n = inputs.n_features, inputs.n_sampled
    noise = value_noise(round(number), inputs, math.sqrt(time))
    noise *= band_norm(OWN + 2 * number / d, d)
    found = {}
    for model in REFERENCE_MODELS:
        variance = reference(model, d, row, max(_LARGEST, row)).variance  # at norm 1
        sampling = CHOICES.sampling_weight * 2 * math.sqrt(variance * (OWN + 2 * number / d) / n)
        error = math.hypot(noise * variance, sampling)
        found[model] = error * (1 + (inputs.found.strain - 1) * max(0.0, 1 - error))
    return found


@dataclass
class _CandidateRun:
    """One release under way: what is fixed, and what is known of its ladder."""

    session: Session
    scale: FloatArray
    parameters: CandidateParameters
    given: Prepared
    ladder: Ladder | None = None
    hidden: float = 0.0  # about the norm of what a ladder did not select

    @property
    def d(self) -> int:
        return self.parameters.inputs.n_features

    @property
    def sampled(self) -> int:
        return self.parameters.inputs.n_sampled

    def deviation(self, values: PairValues) -> float:
        """Noise and sampling error of a pair without covariance."""
        return detection_deviation(values.noise_sd[0], self.sampled)


def release_candidates(
    prepared: Prepared, parameters: CandidateParameters, *, sparse: bool = True
) -> Release:
    """Look at the candidates, and release; nothing of size n_features^2 is made.

    Privacy
    -------
    See `CandidateParameters.budget` and `docs/proofs/candidates.md`. Scales and tilts are public,
    or were released by steps on the same budget.
    """
    session, known = prepared.session, parameters.candidates
    scale = parameters.open(prepared)  # proof: step 1
    run = _CandidateRun(session, scale, parameters, prepared)
    size = float(known.n_pairs), math.sqrt(1 + parameters.partners)
    values = release_narrowed(
        session, scale, parameters, known.pairs, _steps(run), size
    )  # proof: step 2
    return _document(run, values, sparse=sparse)


def _steps(run: _CandidateRun) -> list[Narrowing]:
    """The looks before the last one; what each leaves follows from what was released by then."""
    parameters = run.parameters
    units = parameters.inputs.neighbours.together > 1

    def every(found: PairValues) -> BoolArray:
        return np.ones(len(found.pairs), dtype=bool)

    if parameters.adaptive_width and parameters.candidates.n_pairs:
        return [Narrowing(CHOICES.width_share, _up_to_a_width(run), norms=True)]  # proof: step 3
    if parameters.selects:

        def keep(found: PairValues) -> BoolArray:
            """Drop what looks like noise, after a ladder."""
            climbed = run.ladder is not None
            return (
                np.abs(found.pairs) > RULES.noise_pair * run.deviation(found)
                if climbed
                else every(found)
            )

        share = RULES.first_values_of_units_share if units else RULES.first_values_share
        return [
            Narrowing(CHOICES.wide_share, _that_matter(run), norms=True),  # proof: step 4
            Narrowing(share, keep),  # proof: step 3
        ]
    return [Narrowing(RULES.first_values_of_units_share, every)] if units else []


def _up_to_a_width(run: _CandidateRun) -> Callable[[PairValues], BoolArray]:
    """Keep the width whose estimated risk is least, with the noise that it will have."""

    def keep(first: PairValues) -> BoolArray:
        width = run.parameters.candidates.reach
        lags = Lags.of(first, run.deviation(first), width)
        inputs, mu = run.parameters.inputs, run.session.mu_left
        last = [value_noise(lag * run.d, inputs, mu) for lag in range(width + 1)]
        both = 1 / np.hypot(1 / np.array(last), 1 / first.noise_sd[0])
        noise = np.array([detection_deviation(each, run.sampled) for each in both])
        taper = best_taper(lags, run.d, noise)[0]
        return np.asarray(first.columns - first.rows < taper.last)

    return keep


def _that_matter(run: _CandidateRun) -> Callable[[PairValues], BoolArray]:
    """Keep all where many matter, and else what a ladder over the candidates selects.

    Of a band it may be all up to a width that many matter of.
    """

    def keep(first: PairValues) -> BoolArray:
        every, deviation = np.ones(len(first.pairs), dtype=bool), run.deviation(first)
        if run.parameters.candidates.bandwidth is not None:
            near = _up_to_a_width(run)(first)
            if near.any() and dense(first.only(near), deviation):
                return near
        if dense(first, deviation):
            return every
        # A ladder over the signs of the candidates, climbed to its end.
        inputs, tilt = run.parameters.inputs, run.given.tilt
        means = None if tilt is None else tuple(tilt.tolist())
        scores = PairSigns(run.d, means, (first.rows, first.columns))
        ladder, selected = Ladder(run.session, scores, inputs), ~every  # proof: step 4
        while ladder.climb(RULES.weakest_pair * _noise_norm(run, ladder.real)):
            pass
        selected[ladder.selected] = True
        run.hidden = hidden_norm(first.only(~selected), deviation, run.d)
        if run.hidden > _noise_norm(run, len(every)):  # many weak ones matter after all
            return every
        run.ladder = ladder
        return selected

    return keep


def _noise_norm(run: _CandidateRun, real: float) -> float:
    """The norm of the noise if so many pairs got most of what is left."""
    real = max(real, run.d / 4)
    mu = math.sqrt(RULES.values_time_share * run.session.remaining)
    noise = value_noise(round(RULES.selected_over_real * real), run.parameters.inputs, mu)
    return band_norm(2 * real / run.d + 1, run.d) * detection_deviation(noise, run.sampled)


def _document(run: _CandidateRun, values: PairValues, *, sparse: bool) -> Release:
    """The released values, and what they were found to be."""
    unit = values.noise_sd[0] / RULES.steps_in_noise
    matrix = values.matrix(steps=unit)
    made: dict[str, object] = {
        "unexplained": values.unexplained,
        "known_pairs": run.ladder is None,  # no single one of them need stand out
    }
    structure, threshold = None, 0.0
    if not run.parameters.single:
        deviation = run.deviation(values)
        if run.ladder is None:
            band = run.parameters.candidates.bandwidth is not None
            width = int((values.columns - values.rows).max(initial=0)) if band else None
            choice = choose(values, deviation, run.d, width)
        else:
            level = RULES.kept_pair * deviation
            kept = np.count_nonzero(np.abs(values.pairs) > level)
            missed = min(1.0, run.ladder.finds()) if run.ladder.rungs else 0.0
            choice = Choice(None, level, 1 + 2 * kept / run.d, max(missed / 2, run.hidden))
        structure, threshold = _structure(run, values, choice), choice.threshold
        if choice.taper is not None:
            made["taper"] = [choice.taper.full, choice.taper.last]
    return Release(
        mechanism=NAME,
        integers=matrix if sparse else matrix.toarray(),
        unit=unit,
        guarantee=run.session.guarantee,
        parameters=run.parameters.to_dict() | clock_dict(run.given) | made,
        feature_scale=run.scale,
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        making=Making(
            n_records=run.parameters.inputs.n_records,
            threshold=threshold,
            structure=structure,
            parts=parts_of(run.session),
        ),
    )


def _structure(run: _CandidateRun, values: PairValues, choice: Choice) -> Structure:
    """Return the structure with its error: noise, sampling, and the signal that was taken off."""
    weights = np.where(np.abs(values.pairs) > choice.threshold, 1.0, 0.0)
    if choice.taper is not None:
        weights = choice.taper.weights(values.columns - values.rows)
    there = weights > 0
    places = values.rows[there], values.columns[there]
    matrix = symmetric_sparse(places, (weights * values.pairs)[there], values.diagonal)
    norm = float(np.linalg.norm(matrix @ leading_direction(matrix)))
    noise = float(band_norm(choice.row, run.d) * values.noise_sd[0])
    typical = max(0.0, float(values.diagonal.mean()))
    sampling = 2 * math.sqrt(norm * typical * choice.row / run.sampled)
    return with_errors(
        "sparse",
        _why(run, values, choice),
        (noise, choice.lost),
        sampling,
        norm,
        matrix=matrix,
        noise_sd=values.noise_sd[1],
        n_records=run.sampled,
        given=run.given,
        kept=kept_of(noise, norm),
        known_zeros=True,
    )


def _why(run: _CandidateRun, values: PairValues, choice: Choice) -> str:
    """Say in a sentence which pairs were released and which are kept."""
    known, rest = f"only {run.parameters.candidates.words} were looked at", "all of them are kept"
    if run.ladder is not None:
        return (
            f"{known}, and of these the ones that stand out, with a correlation of "
            f"{number(min(1.0, run.ladder.finds()), 2)} or more"
        )
    width = int((values.columns - values.rows).max(initial=0))
    most = run.parameters.candidates.bandwidth
    if most is not None and width < most:
        known += f", and beyond {width:,} nothing but noise was seen"
        rest = "all others are kept"
    if choice.taper is not None:
        full, last = choice.taper.full, choice.taper.last
        if last == full + 1:
            return f"{known}; those more than {full:,} apart are as likely noise, and set to zero"
        return f"{known}; their weights fall from 1 at {full:,} columns apart to 0 at {last:,}"
    if choice.threshold:
        return f"{known}; those below {number(choice.threshold, 2)} are as likely noise"
    return f"{known}; {rest}"


@dataclass(frozen=True)
class PlannedCandidates(PlannedAdaptive):
    """A release of known candidates.

    `level` is a threshold of one's own for a single look; with `universal` it follows from noise.
    """

    parameters: CandidateParameters
    level: float = 0.0
    universal: bool = False
    detection_limit: ClassVar[float | None] = None  # no pair need stand out

    def release(self, prepared: Prepared) -> Release:
        """See `release_candidates`."""
        return release_candidates(prepared, self.parameters, sparse=self.sparse)

    @property
    def centres_signs(self) -> bool:
        """Signs are looked at where pairs are selected."""
        return self.parameters.selects

    def threshold(self, release: Release) -> float:
        """One's own, or what the values that were released ask for."""
        if not self.universal:
            return self.level or release.making.threshold
        assert release.noise_sd is not None
        deviation = detection_deviation(release.noise_sd[0], self.parameters.inputs.n_sampled)
        return deviation * math.sqrt(2 * math.log(max(2, self.parameters.candidates.n_pairs)))

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, inputs = self.parameters, self.parameters.inputs
        known = parameters.candidates
        shares: dict[str, float] = {}
        looked = f"all {known.n_pairs:,} of them are released"
        if parameters.adaptive_width:
            shares = {"a first release of the whole band": CHOICES.width_share}
            looked = f"how far they reach is found out, up to {known.reach:,} columns"
        elif parameters.selects:
            shares = {"a first release of all candidates": CHOICES.wide_share}
            shares["selections, at most"] = RULES.most_ladder_share
            looked = "whether all of them matter or few is found out"
        noise = value_noise(known.n_pairs, inputs, parameters.mu)
        found = [
            ("budget", budget_words(inputs, before, shares, "the values")),
            ("candidates", f"{known.words}; {looked}, and nothing else is looked for"),
            ("noise", noise_level(noise, inputs.n_sampled)),
        ]
        if self.universal:
            found.append(("threshold", "entries that noise alone may have made are set to zero"))
        elif self.level:
            kept = f"entries below a correlation of {number(self.level, 2)} are set to zero"
            found.append(("threshold", kept))
        return [*found, ("certified", certified_words(self.budget()))]


class KnownCandidates(Mechanism):
    """Values of pairs that may covary, where it is public which ones these are."""

    name = NAME
    title = "known candidates"
    predicted = True
    no_limit = "all candidates are released, and none need stand out"
    sparse = True
    takes_candidates = True
    estimator = ("PrivateSparseCovariance", {})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = True,
        adaptive_width: bool = False,
        single: bool = False,
        level: float = 0.0,
        universal: bool = False,
    ) -> PlannedCandidates:
        """See `Mechanism.plan`; `adaptive_width` and `single` as in `CandidateParameters`."""
        parameters = candidate_parameters(inputs, adaptive_width=adaptive_width, single=single)
        expected = predict_candidates(parameters)
        return PlannedCandidates(self, parameters, expected, sparse, level, universal)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Return the bytes of a dense output; those of candidates are counted by their number."""
        return 0 if sparse else DENSE_BYTES * n_features**2


CANDIDATES = KnownCandidates()
