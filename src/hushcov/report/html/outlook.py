"""The error to expect for these public inputs, and what more records would have bought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hushcov.exceptions import HushcovError
from hushcov.inputs import LARGEST_CALIBRATED_N, ReleaseInputs
from hushcov.planning import COMPARED_MODELS, Forecast, Request, compare, forecast, predicted
from hushcov.report.html.markup import (
    Markup,
    count,
    figure,
    join,
    number,
    table,
    tag,
)
from hushcov.report.html.plot import Axis, dots, frame, line, picture, text
from hushcov.report.html.subject import Subject

MULTIPLES = (0.25, 0.5, 1, 2, 4, 10)
_MODELS = {"block": "blocks", "banded": "a band", "random": "random pairs"}
_WIDTH, _HEIGHT = 420, 320
_PLOT = (52, 392, 268, 34)  # left, right, bottom, top


@dataclass(frozen=True)
class Outlook:
    """Forecasts at multiples of the number of records; `mechanism` is not always the one run."""

    mechanism: str
    here: Forecast
    rows: tuple[tuple[int, Forecast], ...]


def outlook(subject: Subject) -> Outlook | None:
    """What the planner says; None where it has nothing to say of these inputs."""
    if subject.theorem:
        return None
    try:
        inputs = _inputs(subject)
        mechanism = subject.release.name
        if mechanism not in predicted():
            mechanism = compare(inputs(1.0), refine=False).best.mechanism
        here = forecast(inputs(1.0), mechanism)
        rough = predicted()[mechanism].slow  # its search takes seconds
        at = [inputs(multiple) for multiple in MULTIPLES]
        rows = tuple((each.n_records, forecast(each, mechanism, rough=rough)) for each in at)
    except HushcovError:
        return None
    return Outlook(mechanism, here, rows)


def _inputs(subject: Subject) -> Callable[[float], ReleaseInputs]:
    """The public inputs of the release, as a function of the multiple of its records."""
    guarantee = subject.release.guarantee
    spent = subject.before
    here = ReleaseInputs(
        n_records=subject.n_records or 0,
        n_features=subject.n_features,
        row_sparsity=subject.row_sparsity or 0,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        spent=tuple(event for part in spent for event in part.events),
    )
    request = Request(here.row_sparsity, here.epsilon, here.delta)

    def automatic(n_records: int) -> ReleaseInputs:
        return request.inputs(n_records, here.n_features)

    scaled = subject.release.making.scales == "released"
    # The share for scales falls with the number of records, unless it was given.
    falls = scaled and automatic(here.n_records).spent == here.spent[-1:]

    def at(multiple: float) -> ReleaseInputs:
        n = min(max(1, round(multiple * here.n_records)), LARGEST_CALIBRATED_N)
        before = (*here.spent[:-1], *automatic(n).spent) if falls else here.spent
        return replace(here, n_records=n, spent=before)

    return at


def outlook_section(subject: Subject, found: Outlook | None) -> Markup:
    """Predicted error, then a curve and a table of what other numbers of records would give."""
    if subject.theorem:
        return _theorem(subject)
    if found is None:
        return tag("p", "The planner has no prediction for these public inputs.")
    return join(
        *_expected(subject, found),
        tag("h3", "What other numbers of records would have bought"),
        _curve(subject, found),
        _table(subject, found),
        tag(
            "p",
            "These figures are rough: the mechanism's own search, which takes seconds for each, "
            "would improve them.",
        )
        if any(each.rough for _, each in found.rows)
        else None,
    )


def _expected(subject: Subject, found: Outlook) -> list[Markup]:
    error = number(found.here.typical_error, 2)
    models = ", ".join(
        f"{_MODELS[model]} {number(found.here.predicted_error[model], 2)}"
        for model in COMPARED_MODELS
    )
    other = (
        ""
        if subject.release.mechanism in predicted()
        else f"The planner has no prediction for {subject.release.mechanism}; these figures are "
        f"for {found.mechanism}, the best it can plan for the same public inputs. "
    )
    hopeless = (
        "No better than the zero matrix: with so few records, there is little to be had. "
        if found.here.hopeless
        else ""
    )
    limit = found.here.detection_limit
    finds = (
        "There is no prediction of which correlations are found."
        if limit is None
        else "Hardly any pair is found with so few records."
        if limit >= 1
        else f"Correlations of {number(limit, 2)} or more are found nine times out of ten."
    )
    return [
        tag(
            "p",
            f"{other}Expected error: about {error} of the covariance's norm. {hopeless}The zero "
            "matrix has error 1. This was known before any record was read. It is the mean over "
            f"three models of which features are related: {models}, with features brought to "
            f"equal scales. {finds}",
        ),
        tag(
            "p",
            "How wrong this very release is cannot be said without spending more budget: the "
            "difference to the true matrix is not covered by the guarantee.",
        ),
    ]


def _rows_counted(subject: Subject, n_records: int) -> int:
    """Records, where it is known that two of them make one difference."""
    return 2 * n_records if subject.known_mean is False else n_records


def _label(subject: Subject) -> str:
    return "records" if subject.known_mean is not None else "records averaged"


def _table(subject: Subject, found: Outlook) -> Markup:
    limits = any(each.detection_limit is not None for _, each in found.rows)
    head = ["multiple", _label(subject), "error", *COMPARED_MODELS]
    head += ["smallest correlation found"] if limits else []
    rows = []
    for multiple, (n, each) in zip(MULTIPLES, found.rows, strict=True):
        row = [f"\N{MULTIPLICATION SIGN} {number(multiple)}", count(_rows_counted(subject, n))]
        row += [number(each.typical_error, 2)]
        row += [number(each.predicted_error[model], 2) for model in COMPARED_MODELS]
        if limits:
            limit = each.detection_limit
            row.append("\N{EN DASH}" if limit is None or limit >= 1 else number(limit, 2))
        rows.append(row)
    caption = f"Predicted error of {found.mechanism}, as a share of the covariance's norm"
    return table(caption, head, rows, marked=MULTIPLES.index(1))


def _curve(subject: Subject, found: Outlook) -> Markup:
    xs = [float(_rows_counted(subject, n)) for n, _ in found.rows]
    ys = [each.typical_error for _, each in found.rows]
    left, right, bottom, top = _PLOT
    x = Axis(0.8 * min(xs), 1.25 * max(xs), left, right, log=True)
    y = Axis(0.7 * min(ys), 1.6 * max(*ys, 1.0), bottom, top, log=True)
    points = [(x.at(a), y.at(b)) for a, b in zip(xs, ys, strict=True)]
    here = points[MULTIPLES.index(1)]
    zero = [(left, y.at(1.0)), (right, y.at(1.0))]
    parts = [
        frame(x, y, f"number of {_label(subject)}", "predicted error / norm of the covariance"),
        line(zero, "reference"),
        text(right, y.at(1.0) - 5, "the zero matrix", anchor="end"),
        line(points, "curve"),
        dots(points, "dot"),
        dots([here], "dot here", radius=6.0),
        text(here[0] + 9, here[1] - 7, "this release", class_="strong"),
    ]
    saved = found.rows[MULTIPLES.index(1)][1].typical_error / found.rows[-1][1].typical_error
    caption = (
        f"What to see: with ten times the records the error is expected to be "
        f"{number(saved, 2)} times smaller. Both axes are logarithmic; at the dashed line the "
        "estimate is no better than the zero matrix."
    )
    label = f"Predicted error of {found.mechanism} against the number of records"
    return figure(picture(_WIDTH, _HEIGHT, label, *parts), caption)


def _theorem(subject: Subject) -> Markup:
    """What the paper's theorem says; its error is a target, not a forecast."""
    parameters, inputs = subject.release.parameters, subject.inputs
    target, missed = subject.real("target_error"), subject.real("failure_probability")
    needed = parameters.get("smallest_accurate_n")
    said = ["The planner has no prediction for the constants of the paper's proof."]
    if target is not None and missed is not None and isinstance(needed, int):
        verdict = "hold here" if parameters.get("accurate") is True else "do not hold here"
        n = inputs.get("n_records")
        there = f", and there are {count(n)}" if isinstance(n, int) else ""
        said.append(
            f"The theorem promises an error of at most {number(target)} in units of the squared "
            f"scale, with probability at least {number(1 - missed)}, from "
            f"{count(needed)} records on{there}: its conditions {verdict}. More records bring "
            "nothing more at the same target; a smaller target needs more records."
        )
    return join(*(tag("p", each) for each in said))
