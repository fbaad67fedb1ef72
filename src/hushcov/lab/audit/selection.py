"""Attacks on mechanisms that select: the screened release, row top-k, and the multiscale tests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.candidates import Candidates
from hushcov.inputs import CalibratedInputs, PublicInputs
from hushcov.lab.audit.attack import (
    DELTA,
    EPSILON,
    FEATURES,
    FITTED,
    HUGE,
    RECORDS,
    Attack,
    Draw,
    Handmade,
    Pair,
    Statistic,
    Target,
    Turn,
    Turned,
    along_change,
    bounded_gram,
    changing_pairs,
    edge_of_selection,
    flat,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    records_of,
    remembered,
    replaced,
    sign_flips,
    sign_flips_among_others,
    summed,
)
from hushcov.mechanisms.screened import mechanism as screened
from hushcov.mechanisms.screened.mechanism import release_screened, select_pairs
from hushcov.mechanisms.screened.values import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    ScreenedDesign,
    ScreenedParameters,
    integers_per_square,
    product_map,
    screened_parameters,
    sum_sigma,
)
from hushcov.noise import Entropy, rounded_normal
from hushcov.paper import mechanism as multiscale
from hushcov.paper.mechanism import (
    Design,
    Moments,
    Parameters,
    calibrated_parameters,
    grid_for,
    release_multiscale,
)
from hushcov.paper.parameters import TheoremParameters, theorem_parameters
from hushcov.peers import row_top_k
from hushcov.peers.row_top_k import (
    RowTopKParameters,
    release_row_top_k,
    row_top_k_parameters,
)
from hushcov.simulate import SimulatedMoments
from hushcov.sums.gram import second_moments
from hushcov.sums.grids import FeatureGrid
from hushcov.tables.sources import ArrayRecords

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
_DESIGN = Design(
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

    @property
    def n_pairs(self) -> int:
        """Pairs of features."""
        d = self.parameters.inputs.n_features
        return d * (d - 1) // 2

    def quick(self, rows: FloatArray) -> Draw:
        """Exact sums are kept by what was selected; selection and noise are drawn each time."""
        p = self.parameters
        records = records_of(rows, p.inputs.n_records)
        grid = FeatureGrid(np.ones(rows.shape[1]), RADIUS, p.half_width)

        @remembered
        def exact_sums(first: IntArray, second: IntArray) -> IntArray:
            return product_map(grid, first, second, p.norm_bound).sum(records)

        def draw(generator: np.random.Generator) -> FloatArray:
            selected = select_pairs(records, p, Entropy(generator, private=False))
            sums = exact_sums(*selected)
            sigma = sum_sigma(p.norm_bound, p.mu, p.inputs.neighbours)
            noise = rounded_normal(generator, sigma, len(sums))
            return self._output(*selected, sums + noise)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the selection, and the noisy sums of pairs and of the diagonal."""
        release, upper = self.release(rows, entropy), np.triu_indices(rows.shape[1], 1)
        sums = release.integers[upper] // DIAGONAL_WEIGHT
        shrinkage = release.parameters["shrinkage"]
        assert isinstance(shrinkage, float)
        centre = (
            round(integers_per_square(self.parameters.half_width))
            * self.parameters.inputs.n_records
        )
        centre = round(centre * PAIR_WEIGHT * DIAGONAL_WEIGHT * shrinkage)  # added to every square
        squares = (np.diag(release.integers) - centre) // PAIR_WEIGHT
        return flat(release.released[upper], sums, squares)

    def _output(self, rows: IntArray, columns: IntArray, sums: IntArray) -> FloatArray:
        d, n_pairs = self.parameters.inputs.n_features, self.n_pairs
        place = rows * (2 * d - rows - 1) // 2 + columns - rows - 1
        output = np.zeros(2 * n_pairs + d + 2)
        output[place] = 1
        output[n_pairs + place] = sums[: len(rows)]
        output[2 * n_pairs :] = sums[len(rows) :]
        return output


def _screened(name: str, turn: Turn = replaced, *, known: bool = False) -> tuple[Attack, ...]:
    """Attacks on values and selections; `known` says that pairs that change are all candidates."""

    def attack(title: str, pair: Pair, **design: Any) -> Attack:
        pair = turn(pair)
        changed, inputs = replace(_SCREENED, **design), inputs_of(pair, 2)
        if known:
            d = pair.n_features
            places = np.array(changing_pairs(d)).T
            inputs = replace(inputs, candidates=Candidates.of_pairs(d, *places))
        target = ScreenedTarget(screened_parameters(inputs, changed))
        statistics = (*_screened_statistics(target), FITTED)
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


def _screened_statistics(target: ScreenedTarget) -> tuple[Statistic, ...]:
    """The value of the first pair; pairs whose score the first record raises, if selected."""
    d, n_pairs = target.parameters.inputs.n_features, target.n_pairs
    place = {pair: index for index, pair in enumerate(combinations(range(d), 2))}
    favoured = [place[i, j] for i, j in changing_pairs(d) if (i + j) % 2 == 0]
    n_columns = 2 * n_pairs + d + 2
    return (
        summed("pair value", [n_pairs], n_columns),
        summed("pair selected", favoured[:1], n_columns),
        summed("pairs selected", favoured, n_columns),
    )


@dataclass(frozen=True)
class RowTopKTarget(Target):
    """`release_row_top_k`: released integers and where they are, then who picked whom.

    An output holds all entries of the released integers, row by row, then for each whether it was
    released (0 or 1), then for each whether its row picked its column. The last are no part of a
    release, but the accountant charges for them, so they are attacked too.
    """

    parameters: RowTopKParameters
    release_by = release_row_top_k

    def quick(self, rows: FloatArray) -> Draw:
        """Clip and sum once; select and draw the noise each time."""
        parameters = self.parameters
        gram = bounded_gram(rows, parameters, None)

        def draw(generator: np.random.Generator) -> FloatArray:
            picked = row_top_k.pick_partners(gram, parameters, generator)
            mutual = row_top_k.mutual_pairs(picked)
            sigma = row_top_k.value_sigma(*mutual, parameters)
            integers = row_top_k.noisy_values(gram, *mutual, sigma, generator)
            released = (picked & picked.T) | np.eye(len(gram), dtype=bool)
            return flat(integers, released, picked)

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, and where they are."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.released)


def _row_attacks(mechanism: str) -> tuple[Attack, ...]:
    """With every pair released, or none, nothing is selected and only values are attacked.

    These pairs attain the sensitivity of a pair, of two groups at once, of an odd group, and of
    features that are alone. In the others two partners have tied scores in every row: one is raised
    and the other lowered, all the way. In one attack nearly all of the budget is for selecting, in
    the other as much as is usual.
    """
    n = RECORDS
    one, four, odd = (sign_flips(n, d, HUGE) for d in (2, 4, 3))
    alone, tied = huge_or_zero(n, 4), edge_of_selection(4, HUGE, 60, 0)
    return (
        _row_attack(mechanism, replace(one, name="one pair, flips"), 2),
        _row_attack(mechanism, replace(four, name="all pairs, flips"), 4),
        _row_attack(mechanism, replace(odd, name="3 features, flips"), 3),
        _row_attack(mechanism, replace(alone, name="variances, huge or 0"), 1),
        _row_attack(mechanism, replace(tied, name="edge, only picks"), 2, selection_share=0.95),
        _row_attack(mechanism, replace(tied, name="edge, usual shares"), 2),
    )


def _row_attack(mechanism: str, pair: Pair, row_sparsity: int, **options: float) -> Attack:
    d = pair.n_features
    target = RowTopKTarget(row_top_k_parameters(inputs_of(pair, row_sparsity), **options))
    change = along_change(pair.first[0], pair.second[0])
    favoured = [
        2 * d**2 + i * d + j
        for a, b in changing_pairs(d)
        for i, j in ((a, b), (b, a))
        if (i + j) % 2 == 0
    ]
    picks = summed("picks", favoured, 3 * d**2)
    statistics = (change, FITTED) if target.parameters.rate is None else (change, picks, FITTED)
    return Attack(mechanism, target, pair, statistics)


@dataclass(frozen=True, eq=False)
class MultiscaleTarget(Target):
    """`release_multiscale`: all entries of the released integers, then which are not zero.

    The paper's constants need more records than can be stored. There the records of a pair are
    few, and `background` is the second-moment matrix of all others.
    """

    parameters: Parameters
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
        release = release_multiscale(self._moments(rows), self.parameters, entropy)
        return _with_support(release.integers)

    def _moments(self, rows: FloatArray) -> Moments:
        if not isinstance(self.parameters, TheoremParameters):
            return second_moments(ArrayRecords(rows), grid_for(self.parameters))
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
        target = MultiscaleTarget(calibrated_parameters(inputs, changed, reconstruction))
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


HANDMADE: Handmade = {
    multiscale.NAME: {
        "theorem": _theorem,
        "gate": partial(_calibrated, reconstruction="gate"),
        "value": partial(_calibrated, reconstruction="value"),
    },
    screened.NAME: {
        "": _screened,
        "candidates": partial(_screened, known=True),
    },
    row_top_k.NAME: {"": _row_attacks},
}

TURNED: dict[str, Turned] = {
    screened.NAME: _screened,
    f"{screened.NAME}-candidates": partial(_screened, known=True),
}
