"""Release of known candidates: the values of pairs of which it is public that they may covary.

Every decision follows from public or released numbers, and every step takes its time from one
clock before it is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._words import number
from hushcov.accounting import Budget
from hushcov.mechanisms.adaptive import (
    FINE,
    Ladder,
    Narrowing,
    PairValues,
    kept_of,
    release_narrowed,
    value_noise,
    with_errors,
)
from hushcov.mechanisms.adaptive.parameters import (
    DROPPED,
    FIRST_OF_UNITS,
    FIRST_VALUES,
    KEEP,
    WEAKEST,
    clock_dict,
)
from hushcov.mechanisms.candidates.parameters import (
    NAME,
    WIDE_LOOK,
    WIDTH_LOOK,
    CandidateParameters,
)
from hushcov.mechanisms.candidates.width import (
    Choice,
    Lags,
    band_norm,
    best_taper,
    choose,
    dense,
    hidden_norm,
)
from hushcov.mechanisms.screened import CentredSigns, SignScreen
from hushcov.noise import Entropy, check_entropy
from hushcov.postprocess import detection_deviation, leading_direction, symmetric_sparse
from hushcov.release import Making, Release, Structure, parts_of
from hushcov.steps import Prepared
from hushcov.sums.grids import check_feature_scale
from hushcov.sums.records import Records

_FIRST_RUNG = 16  # of as many pairs as are expected, in the first selection


@dataclass
class _CandidateRun:
    """One release under way: what is fixed, and what is known of its ladder."""

    records: Records
    scale: FloatArray
    parameters: CandidateParameters
    entropy: Entropy
    budget: Budget
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
    prepared: Prepared,
    parameters: CandidateParameters,
    budget: Budget,
    entropy: Entropy,
    *,
    sparse: bool = True,
) -> Release:
    """Look at the candidates, and release; nothing of size n_features^2 is made.

    Privacy
    -------
    See `CandidateParameters.budget` and `docs/proofs/candidates.md`. Scales and tilts are public,
    or were released by steps on the same budget.
    """
    check_entropy(entropy)
    inputs, known = parameters.inputs, parameters.candidates
    inputs.check_size(prepared.records)
    scale = check_feature_scale(prepared.feature_scale, inputs.n_features)
    budget.part = parameters.part  # proof: step 1
    if parameters.selects:
        parameters.expect(budget)
    run = _CandidateRun(prepared.records, scale, parameters, entropy, budget, prepared)
    size = float(known.n_pairs), math.sqrt(1 + parameters.partners)
    values = release_narrowed(  # proof: step 2
        prepared.records, scale, inputs, known.pairs, _steps(run), size, budget, entropy
    )
    return _document(run, values, sparse=sparse)


def _steps(run: _CandidateRun) -> list[Narrowing]:
    """The looks before the last one; what each leaves follows from what was released by then."""
    parameters = run.parameters
    units = parameters.inputs.neighbours.together > 1
    if parameters.adaptive_width and parameters.candidates.n_pairs:
        return [Narrowing(WIDTH_LOOK, _up_to_a_width(run), norms=True)]  # proof: step 3
    if parameters.wide:
        share = FIRST_OF_UNITS if units else FIRST_VALUES
        return [
            Narrowing(WIDE_LOOK, _that_matter(run), norms=True),  # proof: step 4
            Narrowing(share, _that_stand_out(run)),  # proof: step 3
        ]
    every = Narrowing(FIRST_OF_UNITS, lambda values: np.ones(len(values.pairs), dtype=bool))
    return [every] if units else []


def _up_to_a_width(run: _CandidateRun) -> Callable[[PairValues], BoolArray]:
    """Keep the width whose estimated risk is least, with the noise that it will have."""

    def keep(first: PairValues) -> BoolArray:
        width = run.parameters.candidates.reach
        lags = Lags.of(first, run.deviation(first), width)
        inputs, mu = run.parameters.inputs, run.budget.mu_left
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
        ladder, selected = _climbed(run, (first.rows, first.columns)), ~every
        selected[ladder.selected] = True
        run.hidden = hidden_norm(first.only(~selected), deviation, run.d)
        if run.hidden > _noise_norm(run, len(every)):  # many weak ones matter after all
            return every
        run.ladder = ladder
        return selected

    return keep


def _climbed(run: _CandidateRun, places: tuple[IntArray, IntArray]) -> Ladder:
    """A ladder over the signs of the candidates, climbed to its end."""
    inputs, tilt = run.parameters.inputs, run.given.tilt
    screen = SignScreen() if tilt is None else CentredSigns(tuple(tilt.tolist()))
    sums = screen.sums_of(run.records, *places)  # proof: step 4
    first = run.d * max(1, inputs.row_sparsity - 1) // _FIRST_RUNG
    ladder = Ladder(np.abs(sums, out=sums), screen, inputs, first)
    while ladder.climb(run.budget, run.entropy, WEAKEST * _noise_norm(run, ladder.real)):
        pass
    return ladder


def _noise_norm(run: _CandidateRun, real: float) -> float:
    """The norm of the noise if so many pairs got most of what is left."""
    real = max(real, run.d / 4)
    noise = value_noise(round(1.3 * real), run.parameters.inputs, math.sqrt(0.8 * run.budget.left))
    return band_norm(2 * real / run.d + 1, run.d) * detection_deviation(noise, run.sampled)


def _that_stand_out(run: _CandidateRun) -> Callable[[PairValues], BoolArray]:
    """Drop what looks like noise, after a ladder."""

    def keep(found: PairValues) -> BoolArray:
        if run.ladder is None:
            return np.ones(len(found.pairs), dtype=bool)
        return np.asarray(np.abs(found.pairs) > DROPPED * run.deviation(found))

    return keep


def _document(run: _CandidateRun, values: PairValues, *, sparse: bool) -> Release:
    """The released values, and what they were found to be."""
    unit = values.noise_sd[0] / FINE
    pairs = np.rint(values.pairs / unit).astype(np.int64)
    diagonal = np.rint(values.diagonal / unit).astype(np.int64)
    matrix = symmetric_sparse((values.rows, values.columns), pairs, diagonal)
    made: dict[str, object] = {
        "unexplained": values.unexplained,
        "known_pairs": run.ladder is None,  # no single one of them need stand out
    }
    structure, threshold = None, 0.0
    if not run.parameters.single:
        choice = _choice(run, values)
        structure, threshold = _structure(run, values, choice), choice.threshold
        if choice.taper is not None:
            made["taper"] = [choice.taper.full, choice.taper.last]
    return Release(
        mechanism=NAME,
        integers=matrix if sparse else matrix.toarray(),
        unit=unit,
        guarantee=run.budget.guarantee,
        parameters=run.parameters.to_dict() | clock_dict(run.budget, run.given) | made,
        feature_scale=run.scale,
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        making=Making(
            n_records=run.parameters.inputs.n_records,
            threshold=threshold,
            structure=structure,
            parts=parts_of(run.budget),
        ),
    )


def _choice(run: _CandidateRun, values: PairValues) -> Choice:
    """What becomes of the values: all are kept, or tapered, or those above a threshold."""
    deviation = run.deviation(values)
    if run.ladder is not None:
        kept = np.count_nonzero(np.abs(values.pairs) > KEEP * deviation)
        missed = min(1.0, run.ladder.finds()) if run.ladder.rungs else 0.0
        return Choice(None, KEEP * deviation, 1 + 2 * kept / run.d, max(missed / 2, run.hidden))
    band = run.parameters.candidates.bandwidth is not None
    width = int((values.columns - values.rows).max(initial=0)) if band else None
    return choose(values, deviation, run.d, width)


def _structure(run: _CandidateRun, values: PairValues, choice: Choice) -> Structure:
    """What was found, with its error: noise, sampling, and what was taken off."""
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
    kept = kept_of(noise, norm)
    found = Structure("sparse", 0, _why(run, values, choice), 1.0, 0.0, 1.0, kept)
    cut = 0.0 if run.given.norm is None else run.given.norm.cut * norm
    every = np.count_nonzero(run.scale) == run.d
    return with_errors(found, (noise, choice.lost, cut), sampling, norm, every)


def _why(run: _CandidateRun, values: PairValues, choice: Choice) -> str:
    """What was looked at and what is kept of it, in a sentence."""
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
