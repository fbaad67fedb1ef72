"""Finished cells as answers: medians, winners and headline; and the rates of two theorems."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
import sklearn

from hushcov._version import __version__
from hushcov.exceptions import ParameterError
from hushcov.fit import default_mechanism
from hushcov.inputs import PublicInputs
from hushcov.paper.parameters import smallest_n, theorem_parameters
from hushcov_lab.benchmark.cells import AXES, DELTA, Cell, Cost, Fit, Point, PredictedErrors
from hushcov_lab.benchmark.contenders import CONTENDERS, ZERO, Contender
from hushcov_lab.benchmark.work import Benchmark

_NEAR = 1.1  # an error within this factor of the best one is as good
_FIT_COLUMNS = ("error", "recall", "precision", "seconds", "skipped")
#: What both theorems are asked for.
DECLARED = {"target_error": 0.25, "epsilon": 1.0, "delta": 1e-6, "failure_probability": 0.1}
_FEATURES, _SPARSITY = 10_000, 5
_ALL_FEATURES = tuple(2**power for power in range(10, 31, 2))
_ALL_SPARSITIES = tuple(2**power for power in range(1, 9))
#: Exponents of the theorems' leading terms, without logarithms, by what they are against.
EXPONENTS = {
    "row_sparsity": {"multiscale": 1.0, "kumar": 1.5},
    "n_features": {"multiscale": 0.5, "kumar": 0.5},
}


@dataclass(frozen=True)
class Curve:
    """Records against one quantity, and the slope on logarithmic axes, by theorem."""

    quantity: str
    values: tuple[int, ...]
    fixed: dict[str, int]
    n_records: dict[str, tuple[int, ...]]
    slopes: dict[str, float]


@dataclass(frozen=True)
class Rates:
    """Predicted numbers of records at the constants of the theorems."""

    against_sparsity: Curve
    against_features: Curve

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return asdict(self) | DECLARED | {"exponents": EXPONENTS}


def predicted_rates() -> Rates:
    """Evaluate both theorems along both axes."""
    return Rates(
        _curve("row_sparsity", _ALL_SPARSITIES, {"n_features": _FEATURES}),
        _curve("n_features", _ALL_FEATURES, {"row_sparsity": _SPARSITY}),
    )


def _curve(quantity: str, values: tuple[int, ...], fixed: dict[str, int]) -> Curve:
    n_records = {
        name: tuple(smallest(**fixed, **{quantity: value}, **DECLARED) for value in values)
        for name, smallest in THEOREMS.items()
    }
    slopes = {name: fitted_slope(values, found) for name, found in n_records.items()}
    return Curve(quantity, values, fixed, n_records, slopes)


@dataclass(frozen=True)
class ErrorSpread:
    """Results of one contender at one point over the seeds, or why it was skipped."""

    point: Point
    contender: str
    runs: int
    median: float | None = None
    smallest: float | None = None
    largest: float | None = None
    recall: float | None = None
    precision: float | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class Size:
    """One size of the grid: who was predicted to win, who did, and whether that is as good.

    `agrees` is None where the predicted mechanism was not measured.
    """

    point: Point
    predicted: str
    measured: str
    agrees: bool | None


class Results:
    """All finished cells of a benchmark."""

    def __init__(self, benchmark: Benchmark, cells: Iterable[Cell]) -> None:
        self.benchmark = benchmark
        self._cells = {cell.key: cell for cell in cells}
        self._seeds = benchmark.preset.measured()

    @property
    def cells(self) -> list[Cell]:
        """Every finished cell."""
        return list(self._cells.values())

    @property
    def contenders(self) -> list[Contender]:
        """The contenders measured, in the order of `CONTENDERS`."""
        return [CONTENDERS[name] for name in self.benchmark.contenders]

    @cached_property
    def rates(self) -> Rates:
        """Records that the two theorems ask for."""
        return predicted_rates()

    def spread(self, point: Point, contender: str) -> ErrorSpread:
        """Median and range over the seeds."""
        fits = self._fits(point, contender)
        reasons = [fit.skipped for fit in fits if fit.skipped is not None]
        if reasons:
            return ErrorSpread(point, contender, 0, skipped=reasons[0])
        errors = [fit.error for fit in fits if fit.error is not None]
        return ErrorSpread(
            point,
            contender,
            len(fits),
            median=statistics.median(errors),
            smallest=min(errors),
            largest=max(errors),
            recall=statistics.median(fit.recall for fit in fits if fit.recall is not None),
            precision=statistics.median(fit.precision for fit in fits if fit.precision is not None),
        )

    def cost(self, contender: str) -> Cost:
        """Time and memory at the base point."""
        cell = self._cells[Cost(self.benchmark.preset.base, contender).key]
        assert isinstance(cell, Cost)
        return cell

    def predicted_errors(self, point: Point) -> dict[str, float]:
        """Predicted error of each mechanism at a point of the map or of the grid."""
        cell = self._cells[PredictedErrors(point, {}).key]
        assert isinstance(cell, PredictedErrors)
        return dict(cell.errors)

    def predicted_winner(self, point: Point) -> str:
        """Return the mechanism of the smallest predicted error; `ZERO` if none is below 1."""
        return _best(self.predicted_errors(point))

    def measured_winner(self, point: Point) -> str:
        """Return the private contender of the smallest median error; `ZERO` if none is below 1."""
        return _best(dict(self.ranking(point)))

    @property
    def ranked(self) -> list[Contender]:
        """Private contenders; the automatic choice only where what it runs is not among them."""
        runs = default_mechanism().name in self.benchmark.contenders
        return [each for each in self.contenders if each.private and not (each.chooses and runs)]

    def ranking(self, point: Point) -> list[tuple[str, float]]:
        """Private contenders by median error, smallest first; none is there under two names."""
        medians = [(each.name, self.spread(point, each.name).median) for each in self.ranked]
        known = [(name, median) for name, median in medians if median is not None]
        return sorted(known, key=lambda item: item[1])

    def sizes(self, row_sparsity: int) -> list[Size]:
        """Prediction and measurement at every size of the grid."""
        found = []
        for point in self.benchmark.preset.grid(row_sparsity):
            predicted, measured = self.predicted_winner(point), self.measured_winner(point)
            errors = dict(self.ranking(point)) | {ZERO: 1.0}
            if predicted == default_mechanism().name and predicted not in errors:
                predicted = next((x.name for x in self.ranked if x.chooses), predicted)  # runs it
            near = predicted in errors and bool(errors[predicted] <= _NEAR * errors[measured])
            found.append(Size(point, predicted, measured, near if predicted in errors else None))
        return found

    def headline(self) -> list[dict[str, Any]]:
        """Error, seconds and memory of every contender at the base point."""
        rows = []
        for contender in self.contenders:
            spread = self.spread(self.benchmark.preset.base, contender.name)
            cost = self.cost(contender.name)
            rows.append(
                {
                    "contender": contender.name,
                    "privacy": contender.privacy,
                    "error": spread.median,
                    "recall": spread.recall,
                    "precision": spread.precision,
                    "seconds": cost.seconds,
                    "megabytes": cost.megabytes,
                    "skipped": spread.skipped or cost.skipped,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single cells as plain, JSON-ready data."""
        preset = self.benchmark.preset
        spreads = [
            self.spread(point, contender.name)
            for point in self._seeds
            for contender in self.contenders
        ]
        return {
            "benchmark": self.benchmark.identity(),
            "environment": {
                "hushcov": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "scikit-learn": sklearn.__version__,
                "machine": platform.machine(),
                "cores": os.cpu_count(),
            },
            "preset": asdict(preset) | {"delta": DELTA, "axes": list(AXES)},
            "contenders": [
                {
                    name: getattr(each, name)
                    for name in ("name", "title", "privacy", "most_features")
                }
                | {"limit": each.limit or None}
                for each in self.contenders
            ],
            "headline": self.headline(),
            "errors": [_flat(asdict(each)) for each in spreads if each.skipped is None],
            "skipped": [
                _flat({"point": asdict(s.point), "contender": s.contender, "reason": s.skipped})
                for s in spreads
                if s.skipped is not None
            ],
            "crossover": [
                _flat(asdict(size)) for k in preset.grid_sparsities for size in self.sizes(k)
            ],
            "predictions": [
                asdict(point) | {"errors": self.predicted_errors(point)}
                for point in preset.predicted()
            ],
            "rates": self.rates.to_dict(),
        }

    def to_csv(self) -> str:
        """Return one row for each fit, in the order of the design."""
        text = io.StringIO()
        writer = csv.DictWriter(
            text, [*asdict(self.benchmark.preset.base), "contender", "seed", *_FIT_COLUMNS]
        )
        writer.writeheader()
        for point, contender in itertools.product(self._seeds, self.contenders):
            fits = self._fits(point, contender.name)
            writer.writerows(_flat(asdict(fit)) for fit in fits)
        return text.getvalue()

    def _fits(self, point: Point, contender: str) -> list[Fit]:
        keys = (Fit(point, seed, contender).key for seed in range(self._seeds[point]))
        cells = (self._cells[key] for key in keys)
        return [cell for cell in cells if isinstance(cell, Fit)]


def _best(errors: dict[str, float]) -> str:
    best = min(errors, key=errors.__getitem__, default=ZERO)
    return best if errors.get(best, 1.0) < 1 else ZERO


def _flat(content: dict[str, Any]) -> dict[str, Any]:
    """Return a point's fields beside the others."""
    return dict(content.pop("point")) | content


# How many records two published theorems ask for at their own constants, and at which rate.


def kumar_smallest_n(n_features: int, row_sparsity: int, **declared: float) -> int:
    """Fewest records at which Algorithm 2, noise as printed, surely reaches the target error.

    The paper states its rate up to constants. This is the bound that its own steps give, with
    explicit ones. Records are independent, sub-Gaussian of scale 1 and mean zero, with d features
    and at most k nonzeros in a row of Sigma, the diagonal included. The error is relative to
    scale^2, and beta is the failure probability, a third for each of three events.

    *Clipping.* A coordinate passes R = sqrt(2 log(6 n d/beta)) with probability at most
    2 exp(-R^2/2) = beta/(3 n d): with probability 1 - beta/3 nothing is clipped.

    *Sampling.* Let Y = (u'x)^2 for a unit vector u. Sub-Gaussian tails give E Y^r <= 2 r! 2^r, so
    E exp(s (Y - EY)) <= exp(16 s^2) for all s <= 1/4: for s > 0 the terms from r = 2 on add up to
    8 s^2/(1 - 2 s), and for s < 0 use e^-x <= 1 - x + x^2/2. By Chernoff's bound a mean of n such
    Y is off by more than t <= 8 with probability at most 2 exp(-n t^2/64). x_i x_j is half the
    difference of two such Y, at u = (e_i +- e_j)/sqrt(2). So with probability 1 - beta/3 all
    d (d + 1)/2 entries satisfy |S_ij - Sigma_ij| <= tau = 8 sqrt(log(6 d (d + 1)/beta)/n).

    *Noise.* P(|Lap(b)| > t) = e^(-t/b). With probability 1 - beta/3 all 2 d^2 draws are below
    lambda = b log(6 d^2/beta).

    *One row.* Then noisy entries are within g = tau + lambda of Sigma, so released values are,
    the diagonal included. A nonzero entry (i, j) that row i does not select leaves room there for
    an entry that is zero in Sigma, whose noisy value is at most g; the noisy value of (i, j) is
    no larger, so |Sigma_ij| <= 2 g. A row holds at most k selected pairs off the diagonal, k - 1
    nonzeros that are lost, and the diagonal: its errors add up to (k + 2 (k - 1) + 1) g < 3 k g.

    *Norm.* The largest row sum bounds the operator norm of a symmetric matrix: the error is below
    3 k (tau + lambda). With b as printed,

        b = (2 Delta/eps_row) sqrt(k log(d/delta_row)),    Delta = 2 R^2/n,
        eps_row = (epsilon/4)/sqrt(2 d log(2/delta)),      delta_row = delta/(2 d),

    lambda is k^(1/2) d^(1/2)/(n epsilon) up to logarithms, and the two terms ask for
    k^2/alpha^2 and k^(3/2) d^(1/2)/(alpha epsilon) records. 3 k (tau + lambda) falls with n.
    """
    inputs = PublicInputs(1, n_features, row_sparsity, scale=1.0, **declared)
    k, target = inputs.row_sparsity, inputs.target_error
    return smallest_n(lambda n: 3 * k * _entry_error(inputs, n) <= target)


def multiscale_smallest_n(n_features: int, row_sparsity: int, **declared: float) -> int:
    """Fewest records at which the multiscale theorem is both private and accurate.

    At the paper's own constants: the condition of its privacy proof, and the bounds on its noises
    that its accuracy proof asks for. Its third condition, that n is at least a universal constant
    times (k/alpha)^2 log(80 d/beta), has no number in the paper; it binds only where k^2/alpha^2
    outgrows k sqrt(d)/(alpha epsilon) times the constants of the other two.
    """
    inputs = PublicInputs(1, n_features, row_sparsity, scale=1.0, **declared)
    return theorem_parameters(inputs).smallest_accurate_n


THEOREMS: dict[str, Callable[..., int]] = {
    "multiscale": multiscale_smallest_n,
    "kumar": kumar_smallest_n,
}


def fitted_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y against log x: the exponent of a power law."""
    # Counts may have hundreds of digits, beyond doubles: math.log takes them as they are.
    if len(x) != len(y) or len(set(x)) < 2 or min(*x, *y) <= 0:
        raise ParameterError(
            "x and y must be equally many positive numbers, with two different ones in x: pass "
            "the points of a curve."
        )
    log_x, log_y = (np.array([math.log(value) for value in values]) for values in (x, y))
    centred = log_x - log_x.mean()
    return float(centred @ log_y / (centred @ centred))


def _entry_error(inputs: PublicInputs, n: int) -> float:
    """Return the bound tau + lambda on the error of every noisy entry."""
    d, beta = inputs.n_features, inputs.failure_probability
    radius = printed_radius(n, d, beta)
    noise = printed_laplace_scale(
        2 * radius**2 / n, d, inputs.row_sparsity, inputs.epsilon, inputs.delta
    )
    sampling = 8 * math.sqrt(math.log(6 * d * (d + 1) / beta) / n)
    return sampling + noise * math.log(6 * d**2 / beta)


def printed_radius(n_records: int, n_features: int, failure_probability: float) -> float:
    """R = sqrt(2 log(6 n d/beta)) in units of the scale."""
    return math.sqrt(2 * math.log(6 * n_records * n_features / failure_probability))


def printed_laplace_scale(
    sensitivity: float, n_features: int, row_sparsity: int, epsilon: float, delta: float
) -> float:
    """b = (2 Delta/eps_row) sqrt(k log(d/delta_row)) for entries that move by Delta."""
    d = n_features
    delta_row = delta / (2 * d)
    epsilon_row = epsilon / 4 / math.sqrt(2 * d * math.log(2 / delta))
    return 2 * sensitivity / epsilon_row * math.sqrt(row_sparsity * math.log(d / delta_row))
