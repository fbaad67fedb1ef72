"""The error to expect for these public inputs, and what more records would have bought."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hushcov.accounting import Gaussian
from hushcov.candidates import Candidates
from hushcov.exceptions import HushcovError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.planning import COMPARED_MODELS, Forecast, Request, comparable, compare, forecast
from hushcov.report.charts import error_chart
from hushcov.report.pages import count, number
from hushcov.report.subject import Subject

if TYPE_CHECKING:
    from markupsafe import Markup

#: Of the records of a release, for which errors are predicted.
MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
_HERE = MULTIPLES.index(1)


@dataclass(frozen=True)
class Outlook:
    """Forecasts at multiples of the number of records; `mechanism` is not always the one run."""

    subject: Subject
    mechanism: str
    here: Forecast
    rows: tuple[tuple[int, Forecast], ...]

    @property
    def own(self) -> bool:
        """Whether the forecasts are for the mechanism of the release."""
        return self.mechanism == self.subject.release.name

    @property
    def rough(self) -> bool:
        """Whether some forecasts were made without the mechanism's own search."""
        return any(each.rough for _, each in self.rows)

    @property
    def saved(self) -> float:
        """By how much the last multiple of the records would divide the error."""
        return self.rows[_HERE][1].typical_error / self.rows[-1][1].typical_error

    def table(self) -> tuple[list[str], list[list[str]], int]:
        """Titles, a row for each number of records, and the place of the release among them."""
        found = []
        for multiple, (n, each) in zip(MULTIPLES, self.rows, strict=True):
            errors = [each.typical_error, *(each.predicted_error[m] for m in COMPARED_MODELS)]
            row = [f"\N{MULTIPLICATION SIGN} {number(multiple)}", count(n)]
            row += [number(error, 2) for error in errors]
            limit = each.detection_limit
            row.append("\N{EN DASH}" if limit is None or limit >= 1 else number(limit, 2))
            found.append(row)
        head = ["multiple", "records", "error", *COMPARED_MODELS, "smallest correlation found"]
        if all(each.detection_limit is None for _, each in self.rows):
            head, found = head[:-1], [row[:-1] for row in found]
        return head, found, _HERE

    def chart(self) -> Markup:
        """Predicted error against the number of records."""
        return error_chart(
            [n for n, _ in self.rows],
            [each.typical_error for _, each in self.rows],
            _HERE,
            label=f"Predicted error of {self.mechanism} against the number of records",
        )


def outlook(subject: Subject) -> Outlook | None:
    """What the planner says; None where it has nothing to say of these inputs."""
    if subject.theorem or _pairs_lost(subject):
        return None
    try:
        mechanism, known = subject.release.name, comparable(_candidates(subject))
        if mechanism not in known:
            mechanism = compare(_inputs(subject)(1.0), refine=False).best.mechanism
        inputs = _inputs(subject)
        here = forecast(inputs(1.0), mechanism)
        rough = known[mechanism].slow
        at = [inputs(multiple) for multiple in MULTIPLES]
        rows = tuple((each.n_records, forecast(each, mechanism, rough=rough)) for each in at)
    except HushcovError:
        return None
    return Outlook(subject, mechanism, here, rows)


def _inputs(subject: Subject) -> Callable[[float], ReleaseInputs]:
    """The public inputs of the release, as a function of the multiple of its records."""
    guarantee = subject.release.guarantee
    here = ReleaseInputs(
        n_records=subject.n_records or 0,
        n_features=subject.n_features,
        row_sparsity=subject.row_sparsity or 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        before=_before(subject),
        most_before=_before(subject),
        candidates=_candidates(subject),
    )
    if subject.release.location is not None:  # the share for means falls with the records, too
        known = subject.release.making.scales == "given"
        sought = Request(
            here.row_sparsity,
            here.epsilon,
            here.delta,
            known_scale=known,
            candidates=here.candidates,
        )
        return lambda multiple: sought.inputs(_multiple(here, multiple), here.n_features)
    scaled = subject.release.making.scales == "released"
    # The share for scales falls with the number of records, unless it was given.
    usual = _usual_inputs(here, here.n_records).before
    others = math.sqrt(max(0.0, here.before**2 - usual**2))
    falls = scaled and math.isclose(_before(subject, last=True), usual)

    def at(multiple: float) -> ReleaseInputs:
        n = _multiple(here, multiple)
        before = math.hypot(others, _usual_inputs(here, n).before) if falls else here.before
        return replace(here, n_records=n, before=before, most_before=before)

    return at


def _before(subject: Subject, *, last: bool = False) -> float:
    """Return the mu of what was released before the mechanism, or of the last of that."""
    parts = subject.before[-1:] if last else subject.before
    events = [event for part in parts for event in part.events]
    return math.hypot(*(event.mu for event in events if isinstance(event, Gaussian)))


def _public(subject: Subject) -> Mapping[str, Any]:
    """What a release says of its public inputs."""
    found = subject.release.parameters.get("inputs")
    return found if isinstance(found, Mapping) else {}


def _candidates(subject: Subject) -> Candidates | None:
    """The pairs that were said to be the only ones that may covary, as far as the release says."""
    width, selected = _public(subject).get("bandwidth"), subject.release.selected
    if width is not None:
        return Candidates.band(subject.n_features, width)
    if "candidate_pairs" not in _public(subject) or selected is None:
        return None
    return Candidates.of_pairs(subject.n_features, selected[0], selected[1])


def _pairs_lost(subject: Subject) -> bool:
    """Whether candidate pairs were listed of which the release has some only."""
    listed, selected = _public(subject).get("candidate_pairs"), subject.release.selected
    return listed is not None and (selected is None or selected.shape[1] != listed)


def _multiple(here: ReleaseInputs, multiple: float) -> int:
    return min(max(1, round(multiple * here.n_records)), LARGEST_CALIBRATED_N)


def _usual_inputs(here: ReleaseInputs, n_records: int) -> ReleaseInputs:
    """What a fit of so many records would plan with, if nothing but its budget was given."""
    request = Request(here.row_sparsity, here.epsilon, here.delta, known_mean=True)
    return request.inputs(n_records, here.n_features)
