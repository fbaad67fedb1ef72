"""Attacks on mechanisms that select: screened, row top-k, PACE, multiscale, adaptive, genotypes.

Parts of the adaptive release take all of the time that was certified, so that what one leaks is to
be compared with the whole claim. They are the mechanism's own objects: an audit that runs them runs
the release. Of known candidates, whole releases of one pair are attacked, in one look or two. Of
genotypes, one person has others, or is not there at all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.candidates import Candidates
from hushcov.fit.adaptive.mechanism import WholeMatrix, probe_signs, release_adaptive
from hushcov.fit.adaptive.pairs import NAME as ADAPTIVE
from hushcov.fit.adaptive.pairs import AdaptiveParameters, Ladder, release_pairs
from hushcov.fit.adaptive.rules import RULES
from hushcov.fit.candidates import NAME as CANDIDATES
from hushcov.fit.candidates import candidate_parameters, release_candidates
from hushcov.fit.norms import NormBound
from hushcov.fit.screened import mechanism as screened
from hushcov.fit.screened.mechanism import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    ScreenedDesign,
    ScreenedParameters,
    integers_per_square,
    product_map,
    release_screened,
    screened_parameters,
    select_pairs,
    sum_sigma,
)
from hushcov.inputs import CalibratedInputs, PublicInputs, ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.noise import Entropy, rounded_normal
from hushcov.kernel.queries import PairSigns
from hushcov.kernel.session import Session
from hushcov.kernel.sums.gram import second_moments
from hushcov.paper import mechanism as multiscale
from hushcov.paper.parameters import TheoremParameters, theorem_parameters
from hushcov.release import Release
from hushcov.simulate import SimulatedMoments
from hushcov.tables.sources import ArrayRecords
from hushcov_genotypes import mechanism as genotypes
from hushcov_genotypes.reading import GenotypeBlock, GenotypeRecords, open_genotypes
from hushcov_lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Builder,
    Draw,
    Pair,
    Statistic,
    Target,
    Turn,
    WholeTarget,
    along_change,
    axes,
    changing_pairs,
    edge_of_selection,
    flat,
    grid_of,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    raised,
    records_of,
    remembered,
    replaced,
    replacement,
    session_of,
    sign_flips,
    sign_flips_among_others,
    summed,
    tied,
    tied_few,
)
from hushcov_lab.peers import pace, row_top_k
from hushcov_lab.peers.pace import PaceParameters, pace_parameters
from hushcov_lab.peers.queries import clipped_gram
from hushcov_lab.peers.row_top_k import RowTopKParameters, row_top_k_parameters

_SCREENED = ScreenedDesign(
    screen_share=0.5,
    selection_factor=1.0,
    n_levels=2,
    size_ratio=1.0,
    noise_ratio=0.7,
    norm_factor=0.5,
    keep_above=0.0,
)
_RADIUS = 2.0
_DESIGN = multiscale.Design(
    clip_radius=_RADIUS,
    base_threshold=1.0,
    n_levels=1,
    base_tests=4.0,
    quota_factor=1e6,  # every test is kept
    energy_factor=1.0,
    selection_ratio=1.0,
    gate_clip=math.inf,
    keep_above=0.0,
)


@dataclass(frozen=True)
class ScreenedTarget(Target):
    """`release_screened`: what was selected, and the noisy sums.

    An output holds for each pair of features whether it was selected (0 or 1), then for each
    pair its noisy sum (0 where it was not selected), then those of the diagonal, of shrinkage
    and of size.
    """

    parameters: ScreenedParameters
    release_by = release_screened

    def quick(self, rows: FloatArray) -> Draw:
        """Exact sums are kept by what was selected; selection and noise are drawn each time."""
        p, d = self.parameters, rows.shape[1]
        n_pairs = d * (d - 1) // 2
        records = records_of(rows, p.inputs.n_records)
        grid = FeatureGrid(np.ones(d), RADIUS, p.half_width)

        @remembered
        def exact_sums(first: IntArray, second: IntArray) -> IntArray:
            return product_map(grid, first, second, p.norm_bound).sum(records)

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            selected = select_pairs(session_of(records, p, entropy), p)
            sums = exact_sums(*selected)
            sigma = sum_sigma(p.norm_bound, p.mu, p.inputs.neighbours)
            noise = rounded_normal(generator, sigma, len(sums))
            rows, columns = selected
            place = rows * (2 * d - rows - 1) // 2 + columns - rows - 1
            output = np.zeros(2 * n_pairs + d + 2)
            output[place] = 1
            output[n_pairs + place] = (sums + noise)[: len(rows)]
            output[2 * n_pairs :] = (sums + noise)[len(rows) :]
            return output

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the selection, and the noisy sums of pairs and of the diagonal."""
        release, upper = self.release(rows, entropy), np.triu_indices(rows.shape[1], 1)
        sums = release.integers[upper] // DIAGONAL_WEIGHT
        shrinkage = release.parameters["shrinkage"]
        assert isinstance(shrinkage, float)
        per_square = integers_per_square(self.parameters.half_width)
        centre = round(per_square) * self.parameters.inputs.n_records
        centre = round(centre * PAIR_WEIGHT * DIAGONAL_WEIGHT * shrinkage)  # added to every square
        squares = (np.diag(release.integers) - centre) // PAIR_WEIGHT
        return flat(release.released[upper], sums, squares)


def _screened(name: str, turn: Turn = replaced, *, known: bool = False) -> tuple[Attack, ...]:
    """Attacks on values and selections; `known` says that pairs that change are all candidates."""

    def attack(title: str, pair: Pair, **design: Any) -> Attack:
        pair = turn(pair)
        changed, inputs = replace(_SCREENED, **design), inputs_of(pair, 2)
        if known:
            candidates = np.array(changing_pairs(pair.n_features)).T
            inputs = replace(inputs, candidates=Candidates.of_pairs(pair.n_features, *candidates))
        target = ScreenedTarget(screened_parameters(inputs, changed))
        # The value of the first pair; pairs whose score the first record raises, if selected.
        d, places = pair.n_features, list(combinations(range(pair.n_features), 2))
        favoured = [places.index(each) for each in changing_pairs(d) if sum(each) % 2 == 0]
        n_columns = 2 * len(places) + d + 2
        statistics = (
            summed("pair value", [len(places)], n_columns),
            summed("pair selected", favoured[:1], n_columns),
            summed("pairs selected", favoured, n_columns),
            FITTED,
        )
        return Attack(name, target, replace(pair, name=title), statistics)

    one = edge_of_selection(3, 1.5, 60, 4)
    two = edge_of_selection(4, 1.5, 60, 0)
    return (
        # With two features there is nothing to select. Squares are at the centre: only the product
        # counts, which reaches the norm bound with either sign.
        attack("values, sign flips", sign_flips(RECORDS, 2, 1.0)),
        attack("values, huge or 0", huge_or_zero(RECORDS, 2)),
        attack("edge, one pair", one, screen_share=0.95),
        attack("edge, two pairs", two),
    )


@dataclass(frozen=True)
class RowTopKTarget(Target):
    """`release_row_top_k`: released integers and where they are, then who picked whom.

    An output holds all entries of the released integers, row by row, then for each whether it was
    released (0 or 1), then for each whether its row picked its column. The last are no part of a
    release, but the accountant charges for them, so they are attacked too.
    """

    parameters: RowTopKParameters
    release_by = row_top_k.release_row_top_k

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; select and draw the noise each time."""
        parameters, session_of_draw = self.parameters, self.sessions(rows)
        gram = clipped_gram(grid_of(parameters))

        def draw(generator: np.random.Generator) -> FloatArray:
            session = session_of_draw(generator)
            picked = row_top_k.pick_partners(session, gram, parameters)
            _, integers = row_top_k.measure_values(session, gram, row_top_k.mutual_pairs(picked))
            released = (picked & picked.T) | np.eye(len(picked), dtype=bool)
            return flat(integers, released, picked)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, and where they are."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.released)


def _row_attacks(name: str) -> tuple[Attack, ...]:
    """With every pair released, or none, nothing is selected and only values are attacked.

    These pairs attain the sensitivity of a pair, of two groups at once, of an odd group, and of
    features that are alone. In the others two partners have tied scores in every row: one is raised
    and the other lowered, all the way. In one attack nearly all of the budget is for selecting, in
    the other as much as is usual.
    """

    def attack(title: str, pair: Pair, row_sparsity: int, **options: float) -> Attack:
        d = pair.n_features
        target = RowTopKTarget(row_top_k_parameters(inputs_of(pair, row_sparsity), **options))
        statistics: tuple[Statistic, ...] = (along_change(pair.first[0], pair.second[0]), FITTED)
        if target.parameters.rate is not None:
            favoured = [
                2 * d**2 + i * d + j
                for a, b in changing_pairs(d)
                for i, j in ((a, b), (b, a))
                if (i + j) % 2 == 0
            ]
            picks = summed("picks", favoured, 3 * d**2)
            statistics = (statistics[0], picks, FITTED)
        return Attack(name, target, replace(pair, name=title), statistics)

    tied = edge_of_selection(4, HUGE, 60, 0)
    return (
        attack("one pair, flips", sign_flips(RECORDS, 2, HUGE), 2),
        attack("all pairs, flips", sign_flips(RECORDS, 4, HUGE), 4),
        attack("3 features, flips", sign_flips(RECORDS, 3, HUGE), 3),
        attack("variances, huge or 0", huge_or_zero(RECORDS, 4), 1),
        attack("edge, only picks", tied, 2, selection_share=0.95),
        attack("edge, usual shares", tied, 2),
    )


@dataclass(frozen=True)
class PaceTarget(Target):
    """`release_pace`: all entries of the released integers."""

    parameters: PaceParameters
    release_by = pace.release_pace

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; select, draw the noise and complete each time."""
        parameters, session_of_draw = self.parameters, self.sessions(rows)
        grid = grid_of(parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            made, _ = pace.run_rounds(session_of_draw(generator), grid, parameters)
            return flat(np.rint(made.covariance * parameters.whole))

        return draw


def _pace_attacks(name: str) -> tuple[Attack, ...]:
    """One variance has the whole budget; of two features, half of it is for their entry."""

    def attack(title: str, pair: Pair) -> Attack:
        statistics = (along_change(pair.first[0], pair.second[0]), FITTED)
        target = PaceTarget(pace_parameters(inputs_of(pair)))
        return Attack(name, target, replace(pair, name=title), statistics)

    return (
        attack("one variance, huge or 0", huge_or_zero(RECORDS, 1)),
        attack("one pair, flips", sign_flips(RECORDS, 2, HUGE)),
    )


@dataclass(frozen=True, eq=False)
class MultiscaleTarget(Target):
    """`release_multiscale`: all entries of the released integers, then which are not zero.

    The paper's constants need more records than can be stored. There the records of a pair are
    few, and `background` is the second-moment matrix of all others.
    """

    parameters: multiscale.Parameters
    background: FloatArray | None = None

    def quick(self, rows: FloatArray) -> Draw:
        """Compute the statistic once; select and test each time."""
        statistic = multiscale.statistic_of(self._moments(rows), self.parameters)

        def draw(generator: np.random.Generator) -> FloatArray:
            upper, _ = multiscale.reconstruct(statistic, self.parameters, generator)
            return _with_support(multiscale.symmetric(upper, rows.shape[1]))

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, and which are not zero."""
        release = multiscale.release_multiscale(self._moments(rows), self.parameters, entropy)
        return _with_support(release.integers)

    def _moments(self, rows: FloatArray) -> multiscale.Moments:
        if not isinstance(self.parameters, TheoremParameters):
            return second_moments(ArrayRecords(rows), multiscale.grid_for(self.parameters))
        assert self.background is not None
        clipped = np.clip(rows, -self.parameters.clip_radius, self.parameters.clip_radius)
        n = self.parameters.inputs.n_records
        return SimulatedMoments(self.background + clipped.T @ clipped / n, n)


def _with_support(integers: IntArray) -> FloatArray:
    return flat(integers, integers != 0)


def _calibrated(name: str, *, reconstruction: str) -> tuple[Attack, ...]:
    def attack(pair: Pair, **design: Any) -> Attack:
        inputs = CalibratedInputs(pair.n_records, pair.n_features, 2, EPSILON, DELTA, 1.0)
        threshold = _RADIUS**2 / pair.n_records  # what one product can reach
        changed = replace(_DESIGN, base_threshold=threshold, **design)
        target = MultiscaleTarget(multiscale.calibrated_parameters(inputs, changed, reconstruction))
        corner = pair.n_features**2 + pair.n_features - 1  # whether the first row's last is zero
        kept = summed("entry not zero", [corner], 2 * pair.n_features**2)
        return Attack(name, target, pair, (*matrix_statistics(pair), kept))

    n, d = RECORDS, FEATURES
    edge = edge_of_selection(3, HUGE, 1, 0)
    return (
        attack(sign_flips(n, d, HUGE)),
        attack(sign_flips_among_others(n, d, HUGE)),
        # One test of one entry is selected, at nearly all of the budget.
        attack(edge, base_tests=1.0, quota_factor=0.1, selection_ratio=0.2),
    )


def _theorem(name: str) -> tuple[Attack, ...]:
    """At the fewest records that the paper's proof covers, where one record hardly matters."""
    d = 2
    inputs = PublicInputs(1, d, 1, 0.25, 1.0, DELTA, 0.1, 1.0)
    n = theorem_parameters(inputs).smallest_private_n
    parameters = theorem_parameters(replace(inputs, n_records=n))
    pair = sign_flips(1, d, HUGE)
    # Off the diagonal at the smallest threshold, where gates open now and then.
    background = np.eye(d) + parameters.thresholds[0] * (1 - np.eye(d))
    target = MultiscaleTarget(parameters, background)
    return (Attack(name, target, pair, matrix_statistics(pair), slowness=4),)


_SLOWNESS = 30  # a whole release looks for structures
_RUNGS = 16  # that an output has room for
# 128 features, whose rungs are few of their pairs. The fourth rung or so is full, and larger ones
# follow at its noise until half of the clock is taken.
_SIDE, _HEIGHT, _TIED_RATE = 8, 90, 500.0
# So few records that the noise of a selection may become small before its ladder ends.
_FEW, _MANY, _FEW_RATE = 3, 40, 80.0
_MORE_RECORDS, _WEAK = 8000, 0.05  # whose pair has this correlation
_TILT = 100  # of all features, in 1024ths
_AT_BOUND = 1.1  # the coordinate at which both products of a pair are about at their bound


@dataclass(frozen=True, eq=False)
class PartTarget(Target):
    """One part of the adaptive release with all of the time on its clock."""

    parameters: AdaptiveParameters
    part: Callable[[Session, ReleaseInputs], FloatArray]
    rate: float | None = None  # of the clock, where it is not the usual one

    def quick(self, rows: FloatArray) -> Draw:
        """Run the part each time, with a new clock."""
        inputs = self.parameters.inputs
        records = records_of(rows, inputs.n_records)

        def draw(generator: np.random.Generator) -> FloatArray:
            budget, entropy = copy.deepcopy(self._certified), Entropy(generator, private=False)
            session = Session(records, budget, entropy)
            self.parameters.set_rate(session)
            budget.rate = self.rate or budget.rate
            return self.part(session, inputs)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """See `Target.released`."""
        return self.quick(rows)(entropy.generator)

    @cached_property
    def _certified(self) -> Budget:
        """A budget of which nothing is spent."""
        return self.parameters.budget(private=False)


def _look_twice(session: Session, inputs: ReleaseInputs) -> FloatArray:
    """Return the mean of two releases of `WholeMatrix`: for the usual share, and for the rest."""
    bound, scale = NormBound(np.sqrt(inputs.n_features), 0.0, 1.0), np.ones(inputs.n_features)
    whole = WholeMatrix(session, scale, AdaptiveParameters(inputs), bound)
    whole.measure(np.sqrt(RULES.first_matrix_share * session.remaining))
    whole.measure(session.mu_left)
    return flat(whole.mean)


def _climb(session: Session, inputs: ReleaseInputs) -> FloatArray:
    """Return what each pair was selected by, then how many real pairs each rung had, about.

    The first is 0 for a pair that was not selected, and larger for less noise.
    """
    ladder = Ladder(session, PairSigns(inputs.n_features), inputs)
    weights = np.zeros((inputs.n_features,) * 2)
    while len(ladder.rungs) < _RUNGS and ladder.climb(weakest=0.0):
        rows, columns = screened.pair_of(ladder.selected, inputs.n_features)
        new = weights[rows, columns] == 0
        weights[rows[new], columns[new]] = 1 / ladder.rungs[-1].finds
    real = [rung.real for rung in ladder.rungs]
    upper = np.triu_indices(inputs.n_features, 1)
    return flat(weights[upper], real, np.zeros(_RUNGS - len(real)))


def _release_pair(session: Session, inputs: ReleaseInputs) -> FloatArray:
    """Return the value of one pair by `release_pairs`, 0 where it was dropped, and variances."""
    places: tuple[IntArray, IntArray] = np.array([0]), np.array([1])
    found = release_pairs(session, np.ones(2), AdaptiveParameters(inputs), places, 1.0, 1.0)
    return flat(found.pairs, np.zeros(1 - len(found.pairs)), found.diagonal)


def _parameters(pair: Pair) -> AdaptiveParameters:
    return AdaptiveParameters(inputs_of(pair, 2))


def _whole(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    def seen(release: Release) -> FloatArray:
        """Return the matrix in the unit of the records, and its noise."""
        return flat(release.integers * release.unit, release.noise_sd)

    found = []
    for pair in map(turn, (sign_flips(RECORDS, FEATURES, HUGE), huge_or_zero(RECORDS, FEATURES))):
        target = WholeTarget(_parameters(pair), release_adaptive, seen)
        found.append(Attack(name, target, pair, matrix_statistics(pair), _SLOWNESS))
    return tuple(found)


def _looks(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    found = []
    for make in (sign_flips, axes):
        pair = turn(make(RECORDS, FEATURES, HUGE))
        statistics = along_change(pair.before, pair.after), FITTED
        found.append(Attack(name, PartTarget(_parameters(pair), _look_twice), pair, statistics))
    return tuple(found)


def _signs(
    name: str, turn: Turn = replaced, *, tilt: tuple[int, ...] | None = None
) -> tuple[Attack, ...]:
    """Half of the signs flip: no other record is farther."""

    def look(session: Session, inputs: ReleaseInputs) -> FloatArray:
        scores = PairSigns(inputs.n_features, tilt)
        return flat(probe_signs(session, scores, inputs, 1.0, session.mu_left).mean)

    pair = turn(sign_flips(RECORDS, FEATURES, HUGE))
    target = PartTarget(_parameters(pair), look)
    change = along_change(pair.before, pair.after)
    return (Attack(name, target, pair, (change, FITTED)),)


def _ladder(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Attack the choice among pairs that are tied, and scores that all move the same way.

    Few records show a ladder that does not end.
    """
    level = turn(tied(_SIDE, _HEIGHT))
    few, higher = turn(tied_few(_FEW, _MANY)), turn(raised(_FEW, _MANY))
    short = _climbing(few, _FEW_RATE)
    n_pairs = _MANY * (_MANY - 1) // 2
    real = Statistic("real pairs", flat(np.zeros(n_pairs), np.ones(_RUNGS)))
    return (  # a fit of so many weights needs more runs
        Attack(name, _climbing(level, _TIED_RATE), level, (_favoured(level),)),
        Attack(name, short, few, (_favoured(few),)),
        Attack(name, short, higher, (real, FITTED)),
    )


def _climbing(pair: Pair, rate: float) -> PartTarget:
    return PartTarget(_parameters(pair), _climb, rate)


def _favoured(pair: Pair) -> Statistic:
    """Selected pairs whose scores the first record raises, less those that it lowers."""
    first, second = (np.abs(np.sign(rows).T @ np.sign(rows)) for rows in (pair.first, pair.second))
    upper = np.triu_indices(pair.n_features, 1)
    return Statistic("favoured pairs", np.sign(first - second)[upper])


def weak_pair(turn: Turn) -> Pair:
    """Return one pair that is real but weak, and a record at the bound on norms.

    So it is not dropped, and does not show how far records were shrunk, which is noisy, too.
    """
    flips = sign_flips(_MORE_RECORDS, 2, _AT_BOUND)
    others = np.ones((_MORE_RECORDS - 1, 2))
    others[round((1 + _WEAK) / 2 * _MORE_RECORDS) :, 1] = -1.0
    pair = replacement("pair among real ones", flips.first[0], flips.second[0], others)
    return turn(pair)


def _values(name: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Values of that pair."""
    pair = weak_pair(turn)
    target = PartTarget(_parameters(pair), _release_pair)
    return (Attack(name, target, pair, (summed("pair value", [0], 3), FITTED)),)


def _candidates(
    name: str, turn: Turn = replaced, *, adaptive_width: bool = False
) -> tuple[Attack, ...]:
    """Return a weak pair and a record at its bound; and a band whose record flips its signs.

    All candidates are looked at once, or twice, where the first look decides on the width.
    """

    def attack(pair: Pair, width: int, *statistics: Statistic) -> Attack:
        known = Candidates.band(pair.n_features, width)
        inputs = replace(inputs_of(pair, 2), candidates=known)
        parameters = candidate_parameters(inputs, adaptive_width=adaptive_width)
        target = WholeTarget(parameters, release_candidates, seen)
        return Attack(name, target, pair, statistics, slowness=3)

    def seen(release: Release) -> FloatArray:
        """Return the matrix in the unit of the records, zeros beside the pairs that are left."""
        return flat(np.asarray(release.integers.toarray() * release.unit))

    weak, flips = weak_pair(turn), turn(sign_flips(RECORDS, FEATURES, HUGE))
    return (
        attack(weak, 1, summed("pair value", [1, 2], weak.n_features**2), FITTED),
        attack(flips, 2, *matrix_statistics(flips)),
    )


_VARIANTS, _OTHERS = 8, 2000  # so many others that the bound on norms is sure


@dataclass(frozen=True, eq=False)
class GenotypeTarget(Target):
    """`release_genotypes`: pairs and variances as released, then means, scales and what was kept.

    Pairs are in units of their noise, in which the sums of products are whatever was kept.
    """

    parameters: genotypes.GenotypeParameters
    frequencies: FloatArray | None = None

    def quick(self, rows: FloatArray) -> Draw:
        """Count and sum once for what comes again; draw all noise each time."""
        records = _Remembered(self._records(rows))
        certified = self.parameters.budget(private=False)

        def draw(generator: np.random.Generator) -> FloatArray:
            budget, entropy = copy.deepcopy(certified), Entropy(generator, private=False)
            return _seen(self._release(Session(records, budget, entropy)))

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return everything that a whole release contains."""
        return _seen(self.release(rows, entropy))

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """Return a whole release."""
        budget = self.parameters.budget(private=entropy.private)
        return self._release(Session(self._records(rows), budget, entropy))

    def _records(self, rows: FloatArray) -> GenotypeRecords:
        return open_genotypes(rows).counted(self.parameters.inputs.n_records)

    def _release(self, session: Session) -> Release:
        known = self.frequencies
        return genotypes.release_genotypes(session, self.parameters, frequencies=known)


def _seen(release: Release) -> FloatArray:
    assert release.selected is not None
    rows, columns = release.selected
    pairs, own = release.integers[rows, columns], release.integers.diagonal()
    return flat(pairs, own, release.location, release.feature_scale, release.parameters["kept"])


class _Remembered:
    """Genotypes whose sums are computed once for each set of arguments."""

    def __init__(self, records: GenotypeRecords) -> None:
        self.n_records, self.n_features = records.n_records, records.n_features
        self._records, self._known = records, dict[tuple[int, int], list[_Block]]()

    def blocks(self, n_variants: int, reach: int) -> Iterator[Any]:
        key = n_variants, reach
        if key not in self._known:
            self._known[key] = [_Block(each) for each in self._records.blocks(*key)]
        return iter(self._known[key])


class _Block:
    def __init__(self, block: GenotypeBlock) -> None:
        self.start, self.stop, self.end = block.start, block.stop, block.end
        self.counts = remembered(block.counts)
        self.squared_norms = remembered(block.squared_norms)
        self.products = remembered(block.products)


def _genotype_pairs() -> tuple[Pair, ...]:
    """(2, 2, 2, ..) against (2, 0, 2, ..), against (0, 0, 0, ..), and against missing calls.

    In the first all products of neighbouring variants change sign, in the second all counts of
    alleles move as far as they can. Others have these, or 2 less each of these, so that sums are
    near zero and frequencies 1/2.
    """
    same = np.full(_VARIANTS, 2.0)
    flipped = np.where(np.arange(_VARIANTS) % 2 == 0, 2.0, 0.0)
    others = np.tile(np.stack([same, 2 - same]), (_OTHERS // 2, 1))
    mixed = np.tile(np.stack([same, flipped, 2 - same, 2 - flipped]), (_OTHERS // 4, 1))
    return (
        replacement("flips among others", same, flipped, mixed),
        replacement("opposite", same, 2 - same, others),
        replacement("called or missing", same, np.full(_VARIANTS, np.nan), others),
    )


def _genotype_statistics(pair: Pair) -> tuple[Statistic, ...]:
    """Along what one person moves: products of neighbours, and means; for frequencies of 1/2."""
    before, after = (np.nan_to_num(each - 1) for each in (pair.before, pair.after))
    if not pair.neighbours.public_size:
        after = np.zeros_like(after)
    products = after[1:] * after[:-1] - before[1:] * before[:-1]
    means = np.concatenate([np.zeros(2 * _VARIANTS - 1), after - before])
    found = {"along change": products, "means": means}
    return (*(Statistic(name, each) for name, each in found.items() if np.any(each)), FITTED)


def _genotypes(name: str, turn: Turn = replaced, *, known: bool = False) -> tuple[Attack, ...]:
    """Return all attacks; with `known` frequencies are public, so that integers are known, too."""
    frequencies = np.full(_VARIANTS, 0.5) if known else None
    found = []
    for pair in map(turn, _genotype_pairs()):
        inputs = ReleaseInputs(
            pair.n_records,
            _VARIANTS,
            row_sparsity=3,
            epsilon=EPSILON,
            delta=DELTA,
            neighbours=pair.neighbours,
            candidates=Candidates.band(_VARIANTS, 1),
        )
        target = GenotypeTarget(genotypes.genotype_parameters(inputs, known=known), frequencies)
        found.append(Attack(name, target, pair, _genotype_statistics(pair), slowness=3))
    return tuple(found)


#: Attacks on neighbours of any kind.
TURNED: dict[str, Builder] = {
    screened.NAME: _screened,
    f"{screened.NAME}-candidates": partial(_screened, known=True),
    ADAPTIVE: _whole,
    f"{ADAPTIVE}-looks": _looks,
    f"{ADAPTIVE}-signs": _signs,
    # Subtract tilts that the records do not have.
    f"{ADAPTIVE}-tilted-signs": partial(_signs, tilt=(_TILT,) * FEATURES),
    f"{ADAPTIVE}-ladder": _ladder,
    f"{ADAPTIVE}-values": _values,
    CANDIDATES: _candidates,
    f"{CANDIDATES}-width": partial(_candidates, adaptive_width=True),
    genotypes.NAME: _genotypes,
    f"{genotypes.NAME}-frequencies": partial(_genotypes, known=True),
}
#: Those that replace one record.
REPLACED: dict[str, Builder] = {
    f"{multiscale.NAME}-theorem": _theorem,
    f"{multiscale.NAME}-gate": partial(_calibrated, reconstruction="gate"),
    f"{multiscale.NAME}-value": partial(_calibrated, reconstruction="value"),
    row_top_k.NAME: _row_attacks,
    pace.NAME: _pace_attacks,
}
