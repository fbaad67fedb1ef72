"""What to expect of each mechanism at many numbers of records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hushcov._validation import check_integer
from hushcov.estimators.scaled import LARGEST_DENSE
from hushcov.exceptions import HushcovError
from hushcov.inputs import ReleaseInputs
from hushcov.planning import (
    Caution,
    Forecast,
    Request,
    compare,
    fit_memory,
    forecast,
    predicted,
    smallest_n,
)

MOST_RECORDS = 10**12  # where the search for the smallest number of records ends too
_DEFAULT_RUNGS = 8
_LAST_RUNG = 24


@dataclass(frozen=True)
class Row:
    """All forecasts for one number of records, in the order they were asked for."""

    n_records: int
    inputs: ReleaseInputs
    forecasts: tuple[Forecast, ...]
    refusals: dict[str, HushcovError]  # of mechanisms that cannot be planned here
    cautions: tuple[Caution, ...] = ()

    @property
    def best(self) -> Forecast | None:
        """The smallest error; a rough figure is too weak a reason to prefer a mechanism."""
        known = [each for each in self.forecasts if not each.rough] or self.forecasts
        return min(known, key=lambda each: each.typical_error, default=None)

    def find(self, mechanism: str) -> Forecast | None:
        """The forecast of a mechanism, if there is one."""
        return next((each for each in self.forecasts if each.mechanism == mechanism), None)

    def memory(self, mechanism: str) -> int:
        """Bytes that a fit needs."""
        n, d = self.inputs.n_records, self.inputs.n_features
        return fit_memory(mechanism, n, d, sparse=d > LARGEST_DENSE)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "n_records": self.n_records,
            "n_averaged": self.inputs.n_records,
            "best": None if self.best is None else self.best.mechanism,
            "forecasts": [
                forecast_dict(each) | {"memory_bytes": self.memory(each.mechanism)}
                for each in self.forecasts
            ],
            "refusals": {name: str(error) for name, error in self.refusals.items()},
            "warnings": [caution.sentence for caution in self.cautions],
        }


def forecast_dict(each: Forecast) -> dict[str, object]:
    """A forecast as plain, JSON-ready data."""
    return {
        "mechanism": each.mechanism,
        "predicted_error": dict(each.predicted_error),
        "typical_error": each.typical_error,
        "detection_limit": each.detection_limit,
        "rough": each.rough,
    }


@dataclass(frozen=True)
class Planner:
    """Forecasts of some mechanisms for a budget and what is known of the records.

    Where a mechanism's own search takes seconds, its figures are rough without `refine`.
    """

    request: Request
    n_features: int
    mechanisms: tuple[str, ...] = tuple(predicted())
    refine: bool = False

    def inputs(self, n_records: int) -> ReleaseInputs:
        """What a fit would plan with; half the records if they are taken in pairs."""
        fewest = self.request.rows_averaged
        cure = "differences of pairs need two records." if fewest == 2 else "give their number."
        check_integer("n_records", n_records, at_least=fewest, at_most=MOST_RECORDS, cure=cure)
        return self.request.inputs(n_records // fewest, self.n_features)

    def row(self, n_records: int) -> Row:
        """Forecasts at one number of records; what a mechanism refuses is kept with its reason."""
        inputs, forecasts, refusals = self.inputs(n_records), [], {}
        for name in self.mechanisms:
            try:
                forecasts.append(forecast(inputs, name, rough=self._rough(name)))
            except HushcovError as error:
                refusals[name] = error
        return self._heeded(Row(n_records, inputs, tuple(forecasts), refusals))

    def chosen(self, n_records: int) -> Row:
        """The same as a fit sees it: searched where the rough figures do not decide."""
        if self.refine or set(self.mechanisms) != set(predicted()):
            return self.row(n_records)
        inputs = self.inputs(n_records)
        try:
            forecasts = compare(inputs).forecasts
        except HushcovError:
            return self.row(n_records)
        in_order = sorted(forecasts, key=lambda each: self.mechanisms.index(each.mechanism))
        return self._heeded(Row(n_records, inputs, tuple(in_order), {}))

    def _heeded(self, row: Row) -> Row:
        """With what a fit by the best mechanism would warn of, or refuse."""
        inputs, stages = self.request.divide(row.inputs.n_records, self.n_features)
        return replace(row, cautions=self.request.cautions(inputs, stages, row.best))

    def smallest(self, mechanism: str, model: str, target_error: float) -> int | None:
        """The fewest records that reach a target error on a model; None beyond 1e12."""
        found = smallest_n(
            lambda n: self.request.inputs(n, self.n_features),
            mechanism,
            model,
            target_error,
            rough=self._rough(mechanism),
        )
        return None if found is None else self.request.rows_averaged * found

    def default_records(self) -> Sequence[int]:
        """Round numbers over three and a half decades, from hopeless to accurate.

        They start below where Gaussian noise on the d k entries that matter, of records scaled
        down to the norm sqrt(d k) of these entries, has about the norm of the covariance.
        """
        inputs = self.inputs(2)
        d, k = inputs.n_features, inputs.row_sparsity
        sensitivity = 2 * math.sqrt(d * k) * self.request.rows_averaged
        noise = sensitivity * math.sqrt(2 * math.log(1.25 / inputs.delta)) / inputs.epsilon
        first = math.floor(2 * math.log10(2 * math.sqrt(k) * noise))
        first = min(max(1, first), _LAST_RUNG - _DEFAULT_RUNGS + 1)
        return tuple(_rungs(first, _DEFAULT_RUNGS))

    def _rough(self, mechanism: str) -> bool:
        return predicted()[mechanism].slow and not self.refine


def _rungs(first: int, number: int) -> Iterator[int]:
    """1, 3, 10, 30, ...: round numbers half a decade apart."""
    for position in range(first, first + number):
        yield (1, 3)[position % 2] * int(10 ** (position // 2))
