"""The error that the planner expects of a release with other numbers of records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from hushcov.candidates import Candidates
from hushcov.exceptions import HushcovError
from hushcov.fit.comparison import compare
from hushcov.fit.preparation import Preparation
from hushcov.fit.registry import comparable, forecast
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.kernel.accounting import Gaussian
from hushcov.release import Release
from hushcov.release.document import FOURTH_POWERS

#: Multiples of the records of a release, for which errors are predicted.
MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
#: Place of the release itself among them.
HERE = MULTIPLES.index(1)


@dataclass(frozen=True)
class Outlook:
    """Predicted errors at multiples of the records of a release.

    `mechanism` is that of the forecasts, which is not always the one that was run. `limits` are
    correlations that are found nine times out of ten.
    """

    mechanism: str
    rough: bool
    records: list[int]
    errors: list[float]
    limits: list[float | None]


def outlook(release: Release, error: float | None) -> Outlook | None:
    """Return errors at other numbers of records; None where the planner cannot predict them.

    `error` is that of the release, by its verdict; without one the prediction itself is returned.
    With other numbers of records its noise changes in the proportion that the planner predicts;
    what was cut off large values stays.
    """
    listed, selected = release.inputs.get("candidate_pairs"), release.selected
    if listed is not None and (selected is None or selected.shape[1] != listed):
        return None
    try:
        mechanism, known = release.name, comparable(_candidates(release))
        inputs = _inputs(release)
        at = [inputs(multiple) for multiple in MULTIPLES]
        if mechanism not in known:
            mechanism = compare(at[HERE], refine=False).best.mechanism
        found = [forecast(each, mechanism, rough=known[mechanism].slow) for each in at]
    except HushcovError:
        return None
    structure = release.making.structure
    by_noise = error if structure is None or error is None else min(error, structure.noise)
    unit = 1.0 if by_noise is None else by_noise / found[HERE].typical_error
    rest = 0.0 if error is None or by_noise is None else math.sqrt(error**2 - by_noise**2)
    return Outlook(
        mechanism=mechanism,
        rough=any(each.rough for each in found),
        records=[each.n_records for each in at],
        errors=[min(1.0, math.hypot(unit * each.typical_error, rest)) for each in found],
        limits=[each.detection_limit for each in found],
    )


def _inputs(release: Release) -> Callable[[float], ReleaseInputs]:
    """Return the public inputs of the release as a function of the multiple of its records.

    Steps before the mechanism keep the share of the budget that they took in this release.
    """
    guarantee, parts = release.guarantee, release.making.parts
    sparsity, n_before = (
        release.inputs.get("row_sparsity"),
        int(release.making.complete is not None),
    )
    known = release.location is None, release.making.scales == "given"
    names = [part.name for part in parts]
    prepared = FOURTH_POWERS in names or not all(known)
    if prepared:
        n_before = names.index(FOURTH_POWERS) + 1 if FOURTH_POWERS in names else 0
    events = [event for part in parts[:n_before] for event in part.events]
    spent = math.hypot(*(event.mu for event in events if isinstance(event, Gaussian)))
    here = ReleaseInputs(
        n_records=release.making.n_records or 0,
        n_features=release.n_features,
        row_sparsity=sparsity
        if type(sparsity) is int and 0 < sparsity <= LARGEST_CALIBRATED_N
        else 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        before=spent,
        most_before=spent,
        candidates=_candidates(release),
    )

    def at(multiple: float) -> ReleaseInputs:
        n = min(max(1, round(multiple * here.n_records)), LARGEST_CALIBRATED_N)
        if not prepared:
            return here.changed(n_records=n)
        mu = here.changed(before=0.0).largest_mu()
        stage = Preparation(n, here.n_features, mu, known_mean=known[0], known_scale=known[1])
        cost = stage.cost()
        return here.changed(n_records=n, most_before=max(spent, cost.most), found=cost.found)

    return at


def _candidates(release: Release) -> Candidates | None:
    """Return the pairs that alone may covary, as far as the release says."""
    width, selected = release.inputs.get("bandwidth"), release.selected
    if isinstance(width, int):
        return Candidates.band(release.n_features, width)
    if "candidate_pairs" not in release.inputs or selected is None:
        return None
    return Candidates.of_pairs(release.n_features, selected[0], selected[1])
