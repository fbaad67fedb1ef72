"""The error that the planner expects of a release with other numbers of records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hushcov._words import count, finite, number
from hushcov.candidates import Candidates
from hushcov.exceptions import HushcovError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.kernel.accounting import Gaussian
from hushcov.planning import Request, comparable, compare, forecast
from hushcov.report.pages import LARGEST, Subject

#: Of the records of a release, for which errors are predicted.
MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
_HERE = MULTIPLES.index(1)


def outlook(subject: Subject, error: float | None) -> dict[str, Any] | None:
    """Return what other numbers of records would bring; None where the planner cannot say.

    `error` is that of the release, by its verdict; without one the prediction itself is returned.
    With other numbers of records its noise changes in the proportion that the planner predicts for
    `mechanism`, which is not always the one that was run; what was cut off large values stays.
    """
    listed, selected = subject.inputs.get("candidate_pairs"), subject.release.selected
    lost = listed is not None and (selected is None or selected.shape[1] != listed)
    if subject.theorem or lost:
        return None
    try:
        mechanism, known = subject.release.name, comparable(_candidates(subject))
        if mechanism not in known:
            mechanism = compare(_inputs(subject)(1.0), refine=False).best.mechanism
        inputs, rough = _inputs(subject), known[mechanism].slow
        at = [inputs(multiple) for multiple in MULTIPLES]
        found = [forecast(each, mechanism, rough=rough) for each in at]
    except HushcovError:
        return None
    structure = subject.release.making.structure
    by_noise = error if structure is None or error is None else min(error, structure.noise)
    unit = 1.0 if by_noise is None else by_noise / found[_HERE].typical_error
    rest = 0.0 if error is None or by_noise is None else math.sqrt(error**2 - by_noise**2)
    records = [each.n_records for each in at]
    errors = [min(1.0, math.hypot(unit * each.typical_error, rest)) for each in found]
    limits = [each.detection_limit for each in found]  # correlations found nine times out of ten
    rows = []
    for multiple, n, off, limit in zip(MULTIPLES, records, errors, limits, strict=True):
        row = [f"\N{MULTIPLICATION SIGN} {number(multiple, 3)}", count(n), finite(off, 2)]
        row.append("\N{EN DASH}" if limit is None or limit >= 1 else finite(limit, 2))
        rows.append(row)
    head = ["multiple", "records", "error", "smallest correlation found"]
    if all(limit is None for limit in limits):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return {
        "mechanism": mechanism,
        "own": mechanism == subject.release.name,
        "rough": any(each.rough for each in found),
        "rows": list(zip(records, errors, limits, strict=True)),
        "error": errors[_HERE],
        "table": (head, rows, _HERE),
    }


def _inputs(subject: Subject) -> Callable[[float], ReleaseInputs]:
    """Return the public inputs of the release as a function of the multiple of its records."""
    release, guarantee = subject.release, subject.release.guarantee
    sparsity, scales = subject.inputs.get("row_sparsity"), release.making.scales
    before = (scales == "released") + (release.making.complete is not None)
    if release.location is not None:  # what was taken for means is not set aside again
        before = 0
    events = [event for part in release.making.parts[:before] for event in part.events]
    mus = [event.mu for event in events if isinstance(event, Gaussian)]
    here = ReleaseInputs(
        n_records=release.making.n_records or 0,
        n_features=subject.n_features,
        row_sparsity=sparsity if type(sparsity) is int and 0 < sparsity <= LARGEST else 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        before=math.hypot(*mus),
        most_before=math.hypot(*mus),
        candidates=_candidates(subject),
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


def _candidates(subject: Subject) -> Candidates | None:
    """The pairs that were said to be the only ones that may covary, as far as the release says."""
    width, selected = subject.inputs.get("bandwidth"), subject.release.selected
    if isinstance(width, int):
        return Candidates.band(subject.n_features, width)
    if "candidate_pairs" not in subject.inputs or selected is None:
        return None
    return Candidates.of_pairs(subject.n_features, selected[0], selected[1])


def _usual_inputs(here: ReleaseInputs, n_records: int) -> ReleaseInputs:
    """Return the inputs that a fit of so many records plans with, given its budget alone."""
    request = Request(here.row_sparsity, here.epsilon, here.delta, known_mean=True)
    return request.inputs(n_records, here.n_features)
