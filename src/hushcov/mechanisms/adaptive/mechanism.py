"""Adaptive release: look at the whole, climb the ladder, and spend the rest where it helps most.

Every decision follows from public or released numbers, and every step takes its time from one
clock before it is run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import FloatArray, IntArray, Matrix
from hushcov._triangle import pairs_beyond
from hushcov._words import number
from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.errors import FINE, kept_of, with_errors
from hushcov.mechanisms.adaptive.ladder import Ladder
from hushcov.mechanisms.adaptive.matrix import LEAST_SHARE, WholeMatrix, uneven_noise
from hushcov.mechanisms.adaptive.pairs import PairValues, release_pairs, value_noise
from hushcov.mechanisms.adaptive.parameters import (
    FIRST_LOOK,
    KEEP,
    NAME,
    NORMS,
    PROBE,
    WEAKEST,
    AdaptiveParameters,
    clock_dict,
)
from hushcov.mechanisms.adaptive.probe import (
    Probe,
    look_at_matrix,
    look_at_signs,
    missing_share,
    sees,
)
from hushcov.mechanisms.gaussian import (
    RADIUS,
    exact_half_width,
)
from hushcov.mechanisms.screened import CentredSigns, SignScreen, pair_of
from hushcov.noise import Entropy, check_entropy
from hushcov.postprocess import (
    Candidate,
    beside,
    best_candidate,
    coherent_norm,
    detection_deviation,
    entry_deviation,
    largest,
    leading_direction,
    over_rows,
    signal_norm,
    symmetric_sparse,
)
from hushcov.release import Making, Release, Structure, parts_of
from hushcov.steps.norms import (
    WIDEST,
    NormBound,
    UnitBound,
    choose_norm,
    release_norms,
    release_unit_bound,
)
from hushcov.steps.stage import Prepared
from hushcov.sums.grids import FeatureGrid, check_feature_scale
from hushcov.sums.records import Records

_WORTH = 1.4  # noise of the whole matrix over that of few pairs, from which pairs are selected
_CLEANED = 4.0  # deviations beyond which an entry of the probe is left to the ladder
_NARROWED, _FULL_LADDER, _DEAR = 2, 0.1, 0.01  # when the whole matrix may be taken early
_CLEARLY = 1.2  # pairs not selected yet may be hidden, too
_LEAN = 0.75  # a whole matrix is cleaned afterwards, and better than its noise by about this
_FARTHER = 1.05  # a bound on norms moved by more is worth another pass over the records
_CLEANEST = 0.1  # what cleaning leaves of noise, at least
_PUT_BACK = 0.5  # of what a bound takes off: how far what is put back may be off
_SMALL = 500  # features up to which all eigenvectors are quick


@dataclass
class _Run:
    """One release under way: what is fixed, and what was released so far."""

    records: Records
    scale: FloatArray
    parameters: AdaptiveParameters
    entropy: Entropy
    budget: Budget
    norm: NormBound
    given: Prepared
    units: UnitBound | None = None

    @property
    def n(self) -> int:
        return self.parameters.inputs.n_records

    @property
    def sampled(self) -> int:
        if self.units is None:
            return self.parameters.inputs.n_sampled
        return round(self.n / (self.alike or 1.0))

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
    budget: Budget,
    entropy: Entropy,
    *,
    sparse: bool = False,
) -> Release:
    """Look, select and release; with `sparse` the whole matrix is never looked at.

    Privacy
    -------
    See `AdaptiveParameters.budget`. Scales, norms and tilts are public, or were released by steps
    on the same budget.
    """
    check_entropy(entropy)
    records, inputs = prepared.records, parameters.inputs
    inputs.check_size(records)
    scale = check_feature_scale(prepared.feature_scale, inputs.n_features)
    budget.part = parameters.part
    parameters.expect(budget)
    norm = prepared.norm or _released_norm(records, scale, inputs, budget, entropy)
    run = _Run(records, scale, parameters, entropy, budget, norm, prepared)
    if inputs.neighbours.together > 1 and not sparse:
        run.units = _unit_bound(run)
    if not (sparse or _worth_selecting(run)):
        return _of_whole(run, None)
    ladder, probe = _scored(run, probed=not sparse)
    if _climb(run, ladder, probe):
        return _of_whole(run, probe)
    hidden = 0.0 if probe is None else _hidden(run, ladder.pairs, probe)
    noise = _pair_noise(run, ladder)
    if probe is not None and math.hypot(hidden, noise) > _LEAN * _whole_noise(run):
        return _of_whole(run, probe)
    norm_of = 1.0 if probe is None else largest(_taken(probe, ladder.pairs))
    values = release_pairs(
        records, scale, inputs, ladder.pairs, ladder.real, norm_of, budget, entropy
    )
    return _of_pairs(run, ladder, values, hidden, sparse=sparse)


def _released_norm(
    records: Records, scale: FloatArray, inputs: ReleaseInputs, budget: Budget, entropy: Entropy
) -> NormBound:
    """A bound on the norm of records, where no step before released one."""
    mu = math.sqrt(NORMS * budget.left)
    found = int(np.count_nonzero(scale))
    if found == 0:
        return NormBound(1.0, 0.0, 1.0)
    args = (records, scale, mu, inputs.neighbours, budget, entropy)
    counts, sigma = release_norms(*args)  # proof: step 5
    mu = budget.mu_left / inputs.neighbours.outer_product
    return choose_norm(counts, sigma, inputs.n_records, found, mu)


def _unit_bound(run: _Run) -> UnitBound:
    """A bound on what a unit adds to the whole matrix."""
    inputs, budget = run.parameters.inputs, run.budget
    radius = RADIUS if run.given.norm is None else WIDEST
    least = math.sqrt(LEAST_SHARE * budget.left)
    grid = FeatureGrid(
        run.scale, radius, exact_half_width(inputs, radius, radius * math.sqrt(run.d), least)
    )
    mu = math.sqrt(NORMS * budget.left)
    args = (run.records, grid, inputs, run.norm.typical, mu, budget, run.entropy)
    return release_unit_bound(*args)  # proof: step 8


def _worth_selecting(run: _Run) -> bool:
    """Whether few pairs would have much less noise than all; from released and public numbers."""
    mu = run.budget.mu_left
    all_pairs = _entry_noise(run, mu)
    few = value_noise(run.d, run.parameters.inputs, 0.6 * mu, run.alike)
    n = run.sampled
    return detection_deviation(all_pairs, n) > _WORTH * detection_deviation(few, n)


def _scored(run: _Run, *, probed: bool) -> tuple[Ladder, Probe | None]:
    """A ladder on the scores of all pairs, whose first rung follows the advice on sparsity.

    With `probed`, a noisy look at all of them before.
    """
    tilt, d = run.given.tilt, run.d
    screen = SignScreen() if tilt is None else CentredSigns(tuple(tilt.tolist()))
    sums = screen.sums(run.records)  # proof: step 2
    probe = None
    if probed:
        mu = math.sqrt(PROBE * run.budget.left)
        if sees(screen, d) and run.units is None:
            inputs, typical = run.parameters.inputs, run.norm.typical
            probe = look_at_signs(sums, screen, inputs, typical, mu, run.budget, run.entropy)
        else:
            probe = look_at_matrix(_whole(run), mu, run.budget, run.entropy)
    first = d * max(1, run.parameters.inputs.row_sparsity - 1) // 16
    return Ladder(np.abs(sums, out=sums), screen, run.parameters.inputs, first), probe


def _climb(run: _Run, ladder: Ladder, probe: Probe | None) -> bool:
    """Climb until the end, or until the whole matrix is clearly better; True where it is."""
    strong: IntArray | None = None
    while ladder.climb(run.budget, run.entropy, WEAKEST * _pair_noise(run, ladder)):
        enough = ladder.narrowed >= _NARROWED or ladder.spent_share > _FULL_LADDER
        if probe is not None and enough and ladder.next_share > _DEAR:
            if strong is None:
                deviation = entry_deviation(probe.mean, probe.noise_sd, run.sampled)
                strong = pairs_beyond(probe.mean, _CLEANED * deviation)
            both = np.union1d(ladder.selected, strong)
            if _hidden(run, pair_of(both, run.d), probe) > _CLEARLY * _whole_noise(run):
                return True
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
    noise = _entry_noise(run, run.budget.mu_left)
    return 2 * math.sqrt(run.d) * math.hypot(noise, run.norm.typical / math.sqrt(run.sampled))


def _entry_noise(run: _Run, mu: float) -> float:
    """About the noise of an entry of the whole matrix."""
    neighbours = run.parameters.inputs.neighbours
    square = run.norm.norm**2 if run.units is None else run.units.norm / neighbours.together
    return square * neighbours.outer_product / (run.n * mu)


def _pair_noise(run: _Run, ladder: Ladder) -> float:
    """The norm of the noise if the selected pairs got all that is left."""
    real = max(ladder.real, run.d / 4)
    mu = math.sqrt(0.8 * run.budget.left)
    noise = value_noise(round(1.3 * real), run.parameters.inputs, mu, run.alike)
    return 2 * math.sqrt(2 * real / run.d + 1) * detection_deviation(noise, run.sampled)


def _whole(run: _Run) -> WholeMatrix:
    """Exact sums of records with the bound on their norms."""
    return WholeMatrix(
        run.records,
        run.scale,
        run.parameters.inputs,
        run.norm,
        run.budget.left,
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
        mu = math.sqrt(FIRST_LOOK * run.budget.left)
        probe = look_at_matrix(_whole(run), mu, run.budget, run.entropy)
    if run.units is not None:
        assert probe.whole is not None
        probe.whole.look(run.budget.mu_left, run.budget, run.entropy)
        return probe.whole
    found = best_candidate(probe.mean, probe.noise_sd, run.sampled, rough=True)
    all_of_it = 2 * math.sqrt(run.d) * entry_deviation(probe.mean, probe.noise_sd, run.sampled)
    cleaned = min(1.0, max(_CLEANEST, found.noise / all_of_it))
    counted = missing_share(probe, run.norm)
    noise = 2 * math.sqrt(run.d) / (run.n * run.budget.mu_left) * cleaned
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
    whole.look(run.budget.mu_left, run.budget, run.entropy)
    return whole


def _of_whole(run: _Run, probe: Probe | None) -> Release:
    """The document of a whole matrix, with what it was found to be."""
    whole = _released(run, probe)
    noise_sd = whole.noise_sd
    found = best_candidate(whole.mean, noise_sd[0], run.sampled)
    return _document(
        run,
        integers=_rounded(whole.mean, noise_sd[0] / FINE),
        noise_sd=noise_sd,
        selected=None,
        threshold=found.threshold,
        structure=_structure_of_whole(run, whole, found),
        unexplained=_PUT_BACK * (run.norm.cut if run.units is None else run.units.cut),
    )


def _rounded(matrix: FloatArray, unit: float) -> IntArray:
    """A matrix in units, rounded."""
    integers = np.empty(matrix.shape, dtype=np.int64)

    def fill(rows: slice) -> None:
        integers[rows] = np.rint(matrix[rows] / unit)

    over_rows(fill, len(matrix))
    return integers


def _structure_of_whole(run: _Run, whole: WholeMatrix, found: Candidate) -> Structure:
    norm = largest(whole.mean)
    if found.rank:
        many = f"{found.rank} eigenvalues stand" if found.rank > 1 else "one eigenvalue stands"
        kind, why = "factors", f"{many} out of the noise"
    elif found.threshold > 0:
        kind, why = "sparse", "what is left beside the strong pairs looks like noise"
    else:
        kind, why = "dense", "many weak pairs matter together, and no threshold would keep them"
    cut = _cut(run) * missing_share(Probe(whole.mean, whole.noise_sd[0]), run.norm)
    errors = found.noise * uneven_noise(whole, norm), found.hidden, cut
    return _structure(run, kind, found.rank, why, errors, norm)


def _cut(run: _Run) -> float:
    """What bounding norms may have taken off the trace."""
    if run.units is not None:
        return max(run.units.doubt, run.units.cut) * run.d * run.norm.typical
    return max(sum(run.norm.lost), run.norm.cut) * run.d * run.norm.typical


def _structure(
    run: _Run,
    kind: str,
    rank: int,
    why: str,
    errors: tuple[float, float, float],
    norm: float,
    kept: float = 1.0,
) -> Structure:
    """With the error over the norm; the guard stands behind whole matrices, `kept` behind pairs.

    `errors` are norms: of noise, of what is hidden, and of what bounding records may have cut off.

    Sampling errors of related features add up: their norm is about 2 sqrt(norm trace / n).
    """
    sampling = 2 * math.sqrt(max(norm, 0.0) * run.d * run.norm.typical / run.sampled)
    every = np.count_nonzero(run.scale) == run.d
    return with_errors(
        Structure(kind, rank, why, 1.0, 0.0, 1.0, kept), errors, sampling, norm, every
    )


def _of_pairs(
    run: _Run,
    ladder: Ladder,
    values: PairValues,
    hidden: float,
    *,
    sparse: bool,
) -> Release:
    """The document of selected pairs."""
    deviation = detection_deviation(values.noise_sd[0], run.sampled)
    threshold = KEEP * deviation
    unit = values.noise_sd[0] / FINE
    pairs = np.rint(values.pairs / unit).astype(np.int64)
    diagonal = np.rint(values.diagonal / unit).astype(np.int64)
    matrix = symmetric_sparse((values.rows, values.columns), pairs, diagonal)
    n_kept = int(np.count_nonzero(np.abs(values.pairs) > threshold))
    row = 1 + 2 * n_kept / run.d
    missed = min(1.0, ladder.finds()) if ladder.rungs else 0.0
    noise = 2 * math.sqrt(row) * deviation
    norm = _sparse_norm(values, threshold)
    beside = "nothing else was looked for" if sparse else "what is beside them is below noise"
    why = (
        f"{n_kept:,} pairs stand out, of those with a correlation of {number(missed, 2)} or more, "
        f"and {beside}"
    )
    kept = kept_of(noise, norm)
    structure = _structure(
        run, "sparse", 0, why, (noise, max(hidden, missed / 2), run.norm.cut * norm), norm, kept
    )
    return _document(
        run,
        integers=matrix if sparse else matrix.toarray(),
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        threshold=threshold,
        structure=structure,
        unexplained=values.unexplained,
    )


def _sparse_norm(values: PairValues, threshold: float) -> float:
    kept = np.abs(values.pairs) > threshold
    places = values.rows[kept], values.columns[kept]
    matrix = symmetric_sparse(places, values.pairs[kept], values.diagonal)
    return float(np.linalg.norm(matrix @ leading_direction(matrix)))


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
    made: dict[str, object] = {"unexplained": unexplained}
    return Release(
        mechanism=NAME,
        integers=integers,
        unit=noise_sd[0] / FINE,
        guarantee=run.budget.guarantee,
        parameters=run.parameters.to_dict() | clock_dict(run.budget, run.given) | made,
        feature_scale=run.scale,
        noise_sd=noise_sd,
        selected=selected,
        making=Making(
            n_records=run.n,
            threshold=threshold,
            shrunk=run.norm.shrunk,
            structure=structure,
            parts=parts_of(run.budget),
        ),
    )
