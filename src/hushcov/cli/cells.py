"""Plans side by side: one for each number of records and reconstruction, and the smallest n."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from hushcov.cli.output import number
from hushcov.exceptions import PrivacyConditionError
from hushcov.mechanisms.multiscale import CalibratedInputs, certify
from hushcov.planning import MultiscalePlan, plan_multiscale

_DEFAULT_RUNGS = 7
_RATIO = 1.1  # the smallest n is found up to this factor
_LAST_RUNG = 20  # the search ends at 1e10 records
MOST_RECORDS = 10**10

Watch = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """What to expect of one reconstruction at one number of records."""

    inputs: CalibratedInputs
    reconstruction: str
    plan: MultiscalePlan | None
    refusal: PrivacyConditionError | None = None  # why there is no plan

    def error(self, model: str) -> float:
        """The predicted error of a reference model; infinite where nothing can be released."""
        return math.inf if self.plan is None else self.plan.predicted_error[model]

    def to_dict(self) -> dict[str, object]:
        """Return everything about the cell as plain, JSON-ready data."""
        result: dict[str, object] = {
            "inputs": asdict(self.inputs),
            "reconstruction": self.reconstruction,
            "predicted_error": None,
            "hopeless": None,
            "parameters": None,
        }
        if self.plan is None:
            return result | {"refusal": str(self.refusal)}
        parameters = self.plan.parameters
        guarantee = certify(parameters, private=True, exact_statistic=False)
        return result | {
            "predicted_error": self.plan.predicted_error,
            "hopeless": self.plan.hopeless,
            "advice": self.plan.advice,
            "guarantee": guarantee.to_dict(),
            "parameters": parameters.to_dict(),
        }


def plan_cell(inputs: CalibratedInputs, reconstruction: str) -> Cell:
    """Plan one cell; plans are cached, so asking twice costs nothing."""
    try:
        return Cell(inputs, reconstruction, plan_multiscale(inputs, reconstruction))
    except PrivacyConditionError as error:
        return Cell(inputs, reconstruction, None, error)


def plan_cells(
    settings: Sequence[CalibratedInputs], reconstructions: Sequence[str], step: Watch
) -> list[Cell]:
    """Plan every setting with every reconstruction; `step` hears what is planned next."""
    cells = []
    for inputs in settings:
        for reconstruction in reconstructions:
            step(f"n = {number(inputs.n_records, 3)}, {reconstruction}")
            cells.append(plan_cell(inputs, reconstruction))
    return cells


def default_records(inputs: CalibratedInputs) -> list[int]:
    """Numbers of records from about where the zero matrix is as good, over three decades."""
    first = _starting_rung(inputs)
    return [_rung(first + i) for i in range(_DEFAULT_RUNGS)]


def smallest_records(
    inputs: CalibratedInputs, reconstruction: str, model: str, target_error: float, step: Watch
) -> int | None:
    """The smallest n with a predicted error of at most the target, up to a factor 1.1.

    Between two neighbouring numbers of a coarse walk, the first of which misses the target and
    the second keeps it. None where the walk finds no such number.
    """

    def reached(n_records: int) -> bool:
        step(f"{reconstruction}, {model}: trying n = {number(n_records, 3)}")
        cell = plan_cell(replace(inputs, n_records=n_records), reconstruction)
        return cell.error(model) <= target_error

    position = _starting_rung(inputs)
    while reached(_rung(position)):
        if _rung(position) == 1:
            return 1
        position -= 1
    while not reached(_rung(position)):
        position += 1
        if position > _LAST_RUNG:
            return None
    return _bisect(reached, _rung(position - 1), _rung(position))


def _bisect(reached: Callable[[int], bool], low: int, high: int) -> int:
    """Narrow down low < n <= high to a factor 1.1; numbers are tried to three digits."""
    while high > _RATIO * low and high - low > 1:
        middle = int(float(f"{math.sqrt(low * high):.3g}"))
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _starting_rung(inputs: CalibratedInputs) -> int:
    """Where Gaussian noise on the d k entries that matter has about the norm of the covariance.

    That noise is for entries clipped at three scales, of sensitivity 18 / n; a matrix with k
    such entries in a row has norm 2 sqrt(k) times their deviation.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    deviation = 18 * math.sqrt(d * k) * math.sqrt(2 * math.log(1.25 / inputs.delta))
    n = 2 * math.sqrt(k) * deviation / inputs.epsilon
    return min(max(0, round(2 * math.log10(n))), _LAST_RUNG)


def _rung(position: int) -> int:
    """1, 3, 10, 30, ...: round numbers half a decade apart."""
    return (1, 3)[position % 2] * int(10 ** (position // 2))
