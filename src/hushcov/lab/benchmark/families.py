"""One picture of every structure that nobody was told: who is near the best of the others."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from hushcov.cli.drawing import finish, short
from hushcov.lab.benchmark.contenders import CONTENDERS, ZERO
from hushcov.lab.benchmark.results import Results
from hushcov.report.style import new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 4.0  # errors above that of the zero matrix are all the same


def families_figure(results: Results) -> Figure:
    """Return the error of each contender on each family, with a caption that says what to see."""
    families = results.benchmark.preset.families
    figure = new_figure(12.5, 3.0 + 0.36 * len(families))
    axes = figure.subplots()
    for name in results.benchmark.contenders:
        if name == ZERO:
            continue
        look = CONTENDERS[name].look
        found = [(place, _error(results, family, name)) for place, family in enumerate(families)]
        known = [(error, place) for place, error in found if error is not None]
        axes.plot(
            [min(error, TOP) for error, _ in known],
            [place for _, place in known],
            **look.plot() | {"linestyle": "none", "markersize": 7},
            label=CONTENDERS[name].title,
        )
    axes.axvline(1.0, color="black", linestyle=(0, (6, 3)), linewidth=1)
    axes.set(xscale="log", xlabel="operator-norm error (relative to the covariance's norm)")
    axes.set_yticks(range(len(families)), families)
    axes.set_ylim(len(families) - 0.4, -0.6)
    axes.grid(axis="y", color="0.92")
    figure.legend(loc="outside right center", frameon=False, fontsize=10)
    tidy(axes)
    return finish(figure, _caption(results), width=150, headline=_headline(results))


def over_best(results: Results, contender: str) -> dict[str, float]:
    """The error on each family over that of the best private contender besides."""
    found = {}
    for family in results.benchmark.preset.families:
        error = _error(results, family, contender)
        point = results.benchmark.preset.family(family)
        others = [each for name, each in results.ranking(point) if name != contender]
        if error is not None and others:
            found[family] = error / min(others)
    return found


def _error(results: Results, family: str, contender: str) -> float | None:
    return results.spread(results.benchmark.preset.family(family), contender).median


def _headline(results: Results) -> str:
    private = [each.name for each in results.contenders if each.private and not each.chooses]
    means = {}
    for name in private:
        ratios = over_best(results, name)
        if ratios:
            means[name] = statistics.fmean(map(math.log, ratios.values()))
    if not means:
        return "Structures that nobody was told"
    best = min(means, key=means.__getitem__)
    return (
        "Structures that nobody was told: "
        f"{CONTENDERS[best].title} is nearest to the best of the others,\n"
        f"{math.exp(means[best]):.2f} times its error in geometric mean"
    )


def _caption(results: Results) -> str:
    preset = results.benchmark.preset
    base = preset.base
    return (
        "What to see: the leftmost marker of a row is the best estimate; right of the dashed line "
        "the zero matrix, which needs no data, is better. Each row is one structure, sparse or "
        f"not, with n = {base.n_records:,}, d = {base.n_features} and epsilon = "
        f"{short(base.epsilon)}. Contenders that ask for a sparsity are told {base.row_sparsity}, "
        f"which is wrong for most. Medians of {preset.grid_seeds} seeds."
    )
