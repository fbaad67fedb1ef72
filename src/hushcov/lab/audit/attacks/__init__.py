"""Which datasets, public parameters and statistics each mechanism is attacked with.

Sizes are small, so that one record matters and tens of thousands of runs are quick. Budgets are
large enough for a bound to be close, and small enough for few runs to break a false claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from hushcov._validation import check_choice
from hushcov.lab.audit import neighbours as pairs
from hushcov.lab.audit.attack import DELTA, EPSILON, FEATURES, RECORDS, Attack, matrix_statistics
from hushcov.lab.audit.attacks import coinpress, eigen_sampling, row_top_k, separate
from hushcov.lab.audit.attacks.screened import ScreenedTarget
from hushcov.lab.audit.neighbours import Pair
from hushcov.lab.audit.statistics import FITTED, Statistic, outer_change, summed
from hushcov.lab.audit.targets import (
    GaussianTarget,
    MultiscaleTarget,
    ScalesTarget,
)
from hushcov.mechanisms.gaussian import gaussian_parameters
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.multiscale import (
    CalibratedInputs,
    Design,
    PublicInputs,
    calibrated_parameters,
    theorem_parameters,
)
from hushcov.mechanisms.scales import scale_parameters
from hushcov.mechanisms.screened import ScreenedDesign, screened_parameters


def attacks_on(mechanism: str) -> tuple[Attack, ...]:
    """All attacks on one of `MECHANISMS`."""
    check_choice("mechanism", mechanism, MECHANISMS)
    return _BUILDERS[mechanism](mechanism)


def _gaussian_row(mechanism: str) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    found = [
        _gaussian(mechanism, pair)
        for pair in (
            pairs.sign_flips(n, d, pairs.HUGE),
            pairs.sign_flips_among_others(n, d, pairs.HUGE),
            pairs.axes(n, d, pairs.HUGE),
            pairs.huge_or_zero(n, d),
        )
    ]
    # At norms from four times the radius on, the noise is the same everywhere.
    wide = pairs.disjoint(2, 32, pairs.HUGE)
    inputs = ReleaseInputs(2, 32, 2, EPSILON, DELTA)
    parameters = gaussian_parameters(inputs, radius=1.0, row_norm=4.0)
    change = outer_change(wide.first[0], wide.second[0])
    target = GaussianTarget(parameters, weights=np.triu(change).ravel())
    found.append(Attack(mechanism, target, wide, (Statistic("along change", np.ones(1)),)))
    return tuple(found)


def _gaussian_coordinate(mechanism: str) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    odd, single = pairs.sign_flips(n, 3, pairs.HUGE), pairs.huge_or_zero(n, 1)
    neighbours = (
        pairs.sign_flips(n, d, pairs.HUGE),
        pairs.sign_flips_among_others(n, d, pairs.HUGE),
        replace(odd, name="flips, 3 features"),
        replace(single, name="huge or 0, 1 feat."),
        pairs.axes(n, d, pairs.HUGE),
        pairs.huge_or_zero(n, d),
    )
    return tuple(_gaussian(mechanism, pair) for pair in neighbours)


def _gaussian(mechanism: str, pair: Pair) -> Attack:
    inputs = ReleaseInputs(pair.n_records, pair.n_features, 1, EPSILON, DELTA)
    parameters = gaussian_parameters(inputs, clipping=mechanism.removeprefix("gaussian-"))
    return Attack(mechanism, GaussianTarget(parameters), pair, matrix_statistics(pair))


def _scales(mechanism: str) -> tuple[Attack, ...]:
    n, d = RECORDS, FEATURES
    # Noise is a whole number. At this budget, an epsilon of about 4, it is not rounded up.
    target = ScalesTarget(scale_parameters(n, d, math.sqrt(2 * d) / 3 * (1 + 1e-12)), DELTA)
    found = []
    for pair in (pairs.octaves(n, d), pairs.huge_or_zero(n, d)):
        first, second = target.exact_counts(pair)
        change = Statistic("along change", (second - first).astype(np.float64))
        found.append(Attack(mechanism, target, pair, (change, FITTED)))
    return tuple(found)


_SCREENED = ScreenedDesign(
    screen_share=0.5,
    selection_factor=1.0,
    n_levels=2,
    size_ratio=1.0,
    noise_ratio=0.7,
    norm_factor=0.5,
    keep_above=0.0,
)


def _screened(mechanism: str) -> tuple[Attack, ...]:
    screen = "clipped" if mechanism == "screened-clipped" else "sign"
    norm = "quantile" if mechanism == "screened-quantile" else "public"

    def attack(name: str, pair: Pair, **design: Any) -> Attack:
        inputs = ReleaseInputs(pair.n_records, pair.n_features, 2, EPSILON, DELTA)
        changed = replace(_SCREENED, **design)
        target = ScreenedTarget(screened_parameters(inputs, changed, screen=screen, norm=norm))
        statistics = (*_screened_statistics(target), FITTED)
        return Attack(mechanism, target, replace(pair, name=name), statistics)

    # Many records where the norm bound is read off them, so that it is nearly the same each time.
    n = 2000 if norm == "quantile" else RECORDS
    size = 1.5  # both screens see such coordinates at their largest
    one, two = pairs.edge_of_selection(3, size, 60, 4), pairs.edge_of_selection(4, size, 60, 0)
    return (
        # With two features there is nothing to select. Squares are at the centre: only the product
        # counts, which reaches the norm bound with either sign.
        attack("values, sign flips", pairs.sign_flips(n, 2, 1.0)),
        attack("values, huge or 0", pairs.huge_or_zero(RECORDS, 2)),
        attack("edge, one pair", one, screen_share=0.95),
        attack("edge, two pairs", two),
    )


def _screened_statistics(target: ScreenedTarget) -> tuple[Statistic, ...]:
    """The value of the first pair; pairs whose score the first record raises, if selected."""
    d, n_pairs = target.parameters.inputs.n_features, target.n_pairs
    place = {pair: index for index, pair in enumerate(combinations(range(d), 2))}
    favoured = [place[i, j] for i, j in pairs.changing_pairs(d) if (i + j) % 2 == 0]
    n_columns = 2 * n_pairs + d + 3
    return (
        summed("pair value", [n_pairs], n_columns),
        summed("pair selected", favoured[:1], n_columns),
        summed("pairs selected", favoured, n_columns),
    )


def _calibrated(mechanism: str) -> tuple[Attack, ...]:
    reconstruction = mechanism.split("-")[1]

    def attack(pair: Pair, **design: Any) -> Attack:
        inputs = CalibratedInputs(pair.n_records, pair.n_features, 2, EPSILON, DELTA, 1.0)
        threshold = _RADIUS**2 / pair.n_records  # what one product can reach
        changed = replace(_DESIGN, base_threshold=threshold, **design)
        target = MultiscaleTarget(calibrated_parameters(inputs, changed, reconstruction))
        corner = pair.n_features**2 + pair.n_features - 1  # whether the first row's last is zero
        kept = summed("entry not zero", [corner], 2 * pair.n_features**2)
        return Attack(mechanism, target, pair, (*matrix_statistics(pair), kept))

    n, d = RECORDS, FEATURES
    return (
        attack(pairs.sign_flips(n, d, pairs.HUGE)),
        attack(pairs.sign_flips_among_others(n, d, pairs.HUGE)),
        # One test of one entry is selected, at nearly all of the budget.
        attack(
            pairs.edge_of_selection(3, pairs.HUGE, 1, 0),
            base_tests=1.0,
            quota_factor=0.1,
            selection_ratio=0.2,
        ),
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


def _theorem(mechanism: str) -> tuple[Attack, ...]:
    """At the fewest records that the paper's proof covers, where one record hardly matters."""
    d = 2
    inputs = PublicInputs(1, d, 1, 0.25, 1.0, DELTA, 0.1, 1.0)
    n = theorem_parameters(inputs).smallest_private_n
    parameters = theorem_parameters(replace(inputs, n_records=n))
    pair = pairs.sign_flips(1, d, pairs.HUGE)
    # Off the diagonal at the smallest threshold, where gates open now and then.
    background = np.eye(d) + parameters.thresholds[0] * (1 - np.eye(d))
    target = MultiscaleTarget(parameters, background)
    return (Attack(mechanism, target, pair, matrix_statistics(pair), slowness=4),)


_BUILDERS: dict[str, Callable[[str], tuple[Attack, ...]]] = {
    "multiscale-theorem": _theorem,
    "multiscale-gate": _calibrated,
    "multiscale-value": _calibrated,
    "screened": _screened,
    "screened-clipped": _screened,
    "screened-quantile": _screened,
    "gaussian-row": _gaussian_row,
    "gaussian-coordinate": _gaussian_coordinate,
    "scales": _scales,
    **row_top_k.BUILDERS,
    **separate.BUILDERS,
    **coinpress.BUILDERS,
    **eigen_sampling.BUILDERS,
}

#: Every mechanism that can be attacked.
MECHANISMS = tuple(_BUILDERS)
