"""All figures of `hushcov bench`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushcov.lab.benchmark.bench_cost import cost_figure
from hushcov.lab.benchmark.bench_rates import rates_figure
from hushcov.lab.benchmark.crossover import crossover_figure
from hushcov.lab.benchmark.figures import error_figure
from hushcov.lab.benchmark.results import Results
from hushcov.simulate import MODELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ERROR, _RATES, _CROSSOVER, _COST = "error.png", "rates.png", "crossover.png", "cost.png"
_OTHER_MODELS = {model: f"error-{model}.png" for model in MODELS}

#: Every file that `write_figures` may write.
FIGURES = (_ERROR, *_OTHER_MODELS.values(), _RATES, _CROSSOVER, _COST)


def write_figures(folder: Path, results: Results) -> list[Path]:
    """Write every figure into `folder` as a PNG file, and return their paths.

    `error.png` is for the model of the base point; other models have files of their own.
    """
    first, *others = results.benchmark.preset.models
    figures: dict[str, Callable[[], Figure]] = {_ERROR: partial(error_figure, results, first)}
    figures |= {_OTHER_MODELS[model]: partial(error_figure, results, model) for model in others}
    figures |= {
        _RATES: partial(rates_figure, results.rates),
        _CROSSOVER: partial(crossover_figure, results),
        _COST: partial(cost_figure, results),
    }
    written = []
    for name, draw in figures.items():
        draw().savefig(folder / name, format="png", dpi=150)
        written.append(folder / name)
    return written
