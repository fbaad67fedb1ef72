"""The rates of two theorems: records for a target error, at their own constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushcov.lab.benchmark.bench_look import LOOKS, short, tidy
from hushcov.lab.benchmark.rates import (
    EPSILON,
    EXPONENTS,
    FAILURE_PROBABILITY,
    RATE_DELTA,
    TARGET_ERROR,
    Curve,
    Rates,
)
from hushcov.report.backend import caption, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {"multiscale": "multiscale threshold tests", "kumar": "Kumar et al."}
_LINES = {"multiscale": LOOKS["multiscale"], "kumar": LOOKS["row-top-k"]}
_LABELS = {"row_sparsity": "nonzeros of a row k", "n_features": "number of features d"}
_SYMBOLS = {"row_sparsity": "k", "n_features": "d"}
_CAPTION_WIDTH = 140


def rates_figure(rates: Rates) -> Figure:
    """Return records against k and against d, with a caption that says what to see."""
    figure = new_figure(11.5, 5.8)
    left, right = figure.subplots(1, 2, sharey=True)
    _panel(left, rates.against_sparsity)
    _panel(right, rates.against_features)
    left.set_ylabel("records that the theorem asks for")
    figure.suptitle(headline(rates), fontsize=12)
    caption(figure, describe(rates), width=_CAPTION_WIDTH)
    return figure


def headline(rates: Rates) -> str:
    """Say which theorem grows faster in k, and which one starts from more records."""
    slopes = rates.against_sparsity.slopes
    first = {name: found[0] for name, found in rates.against_sparsity.n_records.items()}
    larger = "and from larger" if first["multiscale"] < first["kumar"] else "but from smaller"
    return (
        f"Kumar et al. need records that grow faster in k (exponent {slopes['kumar']:.2f} against "
        f"{slopes['multiscale']:.2f}), {larger} constants"
    )


def describe(rates: Rates) -> str:
    """Say what the figure shows, from the numbers themselves."""
    sparsity, features = rates.against_sparsity, rates.against_features
    found = zip(sparsity.n_records["multiscale"], sparsity.n_records["kumar"], strict=True)
    ratios = [multiscale / kumar for multiscale, kumar in found]
    return (
        "What to see: on logarithmic axes a slope is an exponent. In k the multiscale theorem has "
        f"{sparsity.slopes['multiscale']:.2f} and that of Kumar et al. "
        f"{sparsity.slopes['kumar']:.2f}; in d they have {features.slopes['multiscale']:.2f} and "
        f"{features.slopes['kumar']:.2f}. That is with logarithms; dotted lines have the exponents "
        "of the rates without them: 1, 3/2 and twice 1/2. At its own constants the multiscale "
        f"theorem asks for {_power(ratios[0])} times the records of Kumar et al. at k = "
        f"{sparsity.values[0]}, and for {_power(ratios[-1])} times at k = {sparsity.values[-1]}. "
        "Theirs is for the noise they print, whose privacy proof has gaps. Nothing is measured "
        f"here: error {short(TARGET_ERROR)}, epsilon = {short(EPSILON)}, delta = "
        f"{short(RATE_DELTA)}, failure probability {short(FAILURE_PROBABILITY)}."
    )


def _power(value: float) -> str:
    """A number of one or two digits: 6.9, or 1e7 as mathematical text."""
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"${mantissa}\\times10^{{{int(exponent)}}}$"


def _panel(axes: Axes, curve: Curve) -> None:
    for name, n_records in curve.n_records.items():
        slope = f"{_TITLES[name]}: slope {curve.slopes[name]:.2f}"
        axes.plot(curve.values, n_records, label=slope, **_LINES[name].plot())
        exponent = EXPONENTS[curve.quantity][name]
        bare = [n_records[0] * (value / curve.values[0]) ** exponent for value in curve.values]
        axes.plot(curve.values, bare, color=_LINES[name].colour, linestyle="dotted")
    axes.set(xscale="log", yscale="log", xlabel=_LABELS[curve.quantity])
    ((name, value),) = curve.fixed.items()
    axes.set_title(f"{_SYMBOLS[name]} = {value:,}", fontsize=11)
    axes.legend(frameon=False, loc="upper left", fontsize=10)
    tidy(axes)
