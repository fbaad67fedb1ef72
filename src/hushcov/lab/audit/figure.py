"""The figure of `hushcov audit`: what each mechanism claims, and what attacks measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hushcov.lab.audit import AuditResult
from hushcov.report.style import BLUE, ORANGE, VERMILION, caption, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CURVE, _RATES, _BROKEN = BLUE, ORANGE, VERMILION
_CAPTION_WIDTH = 125
_SPREAD = 0.12  # between attacks on one mechanism, in units of the distance between mechanisms


def audit_figure(results: Sequence[AuditResult]) -> Figure:
    """Return claimed and measured epsilons with a caption; attacks on one mechanism share a row."""
    rows = _by_mechanism(results)
    figure = new_figure(9.5, 2.0 + 0.6 * len(rows))
    axes = figure.subplots()
    for position, attacks in enumerate(rows.values()):
        _row(axes, position, attacks)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=-0.02 * axes.get_xlim()[1])
    axes.set_xlabel("epsilon (at the claimed delta)")
    axes.tick_params(axis="y", length=0)
    tidy(axes, "x")
    _legend(axes, results)
    caption(figure, describe(results), width=_CAPTION_WIDTH)
    return figure


def describe(results: Sequence[AuditResult]) -> str:
    """Say what the figure shows, from the numbers themselves."""
    broken = [result for result in results if not result.survives]
    if broken:
        worst = max(broken, key=lambda result: result.ratio)
        verdict = (
            f"{len(broken)} of {len(results)} attacks break a claim; the worst is {worst.mechanism}"
            f" ({worst.pair}), at least {worst.measured_epsilon:.2g} where "
            f"{worst.claimed_epsilon:.2g} is claimed"
        )
    else:
        closest = max(results, key=lambda result: result.ratio)
        verdict = (
            f"no attack of {len(results)} passes its claim, and the closest ({closest.mechanism}) "
            f"reaches {100 * closest.ratio:.0f} % of it"
        )
    runs = max(result.runs for result in results)
    return (
        f"What to see: {verdict}. A point is a lower bound on epsilon from up to {runs:,} runs on "
        "each of two neighbouring datasets. Far to the left of the claim, either the claim is "
        "generous or the attack is weak. If all claims are true, at most one audit in a thousand "
        "has a point beyond a claim."
    )


def _by_mechanism(results: Sequence[AuditResult]) -> dict[str, list[AuditResult]]:
    rows: dict[str, list[AuditResult]] = {}
    for result in results:
        rows.setdefault(result.mechanism, []).append(result)
    return rows


def _row(axes: Axes, position: int, attacks: Sequence[AuditResult]) -> None:
    claimed = max(result.claimed_epsilon for result in attacks)
    axes.barh(position, claimed, height=0.78, color="0.94", zorder=1)
    axes.plot([claimed] * 2, [position - 0.39, position + 0.39], color="black", zorder=3)
    for order, result in enumerate(attacks):
        offset = _SPREAD * (order - (len(attacks) - 1) / 2)
        axes.plot(
            result.measured_epsilon,
            position + offset,
            linestyle="none",
            marker="X" if not result.survives else "o" if _is_curve(result) else "s",
            color=_colour(result),
            markersize=6,
            zorder=4,
        )


def _legend(axes: Axes, results: Sequence[AuditResult]) -> None:
    axes.plot([], [], color="black", label="claimed")
    if any(_is_curve(result) for result in results):
        axes.plot([], [], "o", color=_CURVE, label="measured (Gaussian curve)")
    if not all(_is_curve(result) for result in results):
        axes.plot([], [], "s", color=_RATES, label="measured (error rates)")
    if not all(result.survives for result in results):
        axes.plot([], [], "X", color=_BROKEN, label="claim broken")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=9)


def _is_curve(result: AuditResult) -> bool:
    return result.method == "Gaussian curve"


def _colour(result: AuditResult) -> str:
    if not result.survives:
        return _BROKEN
    return _CURVE if _is_curve(result) else _RATES
