"""The error that the planner expects of a release with other numbers of records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hushcov.candidates import Candidates
from hushcov.exceptions import HushcovError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.kernel.accounting import Gaussian
from hushcov.planning.comparison import compare
from hushcov.planning.plan import Request
from hushcov.planning.registry import comparable, forecast
from hushcov.release import Release

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
        if mechanism not in known:
            mechanism = compare(_inputs(release)(1.0), refine=False).best.mechanism
        inputs, rough = _inputs(release), known[mechanism].slow
        at = [inputs(multiple) for multiple in MULTIPLES]
        found = [forecast(each, mechanism, rough=rough) for each in at]
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
    """Return the public inputs of the release as a function of the multiple of its records."""
    guarantee = release.guarantee
    sparsity, scales = release.inputs.get("row_sparsity"), release.making.scales
    before = (scales == "released") + (release.making.complete is not None)
    if release.location is not None:  # what was taken for means is not set aside again
        before = 0
    events = [event for part in release.making.parts[:before] for event in part.events]
    mus = [event.mu for event in events if isinstance(event, Gaussian)]
    here = ReleaseInputs(
        n_records=release.making.n_records or 0,
        n_features=release.n_features,
        row_sparsity=sparsity
        if type(sparsity) is int and 0 < sparsity <= LARGEST_CALIBRATED_N
        else 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        before=math.hypot(*mus),
        most_before=math.hypot(*mus),
        candidates=_candidates(release),
    )

    def number_of(multiple: float) -> int:
        return min(max(1, round(multiple * here.n_records)), LARGEST_CALIBRATED_N)

    if release.location is not None:  # the share for means falls with the records, too
        sought = Request(
            here.row_sparsity,
            here.epsilon,
            here.delta,
            known_scale=scales == "given",
            candidates=here.candidates,
            drop_nulls=release.making.complete is not None,
        )
        return lambda multiple: sought.inputs(number_of(multiple), here.n_features)
    # The share for scales falls with the number of records, unless it was given.
    usual = _usual_inputs(here, here.n_records).before
    falls = scales == "released" and mus[-1:] != [] and math.isclose(mus[-1], usual)

    def at(multiple: float) -> ReleaseInputs:
        n = number_of(multiple)
        found = [*mus[:-1], _usual_inputs(here, n).before] if falls else mus
        return replace(here, n_records=n, before=math.hypot(*found), most_before=math.hypot(*found))

    return at


def _candidates(release: Release) -> Candidates | None:
    """Return the pairs that alone may covary, as far as the release says."""
    width, selected = release.inputs.get("bandwidth"), release.selected
    if isinstance(width, int):
        return Candidates.band(release.n_features, width)
    if "candidate_pairs" not in release.inputs or selected is None:
        return None
    return Candidates.of_pairs(release.n_features, selected[0], selected[1])


def _usual_inputs(here: ReleaseInputs, n_records: int) -> ReleaseInputs:
    """Return the inputs that a fit of so many records plans with, given its budget alone."""
    request = Request(here.row_sparsity, here.epsilon, here.delta, known_mean=True)
    return request.inputs(n_records, here.n_features)
