"""Expected errors where the structure is unknown: one figure for each family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.screened import plan_screened, predicted_errors
from hushcov.planning.comparison import smallest_error
from hushcov.planning.plan import Request
from hushcov.planning.registry import default_mechanism, forecast
from hushcov.predicting import COMPARED_MODELS, DENSE, FACTOR, Forecast

#: Nonzeros of a row, the diagonal included, for which errors are predicted.
SPARSITIES = (3, 5, 10, 20)
#: The one that is assumed where nothing depends on it.
USUAL_SPARSITY = 5


@dataclass(frozen=True)
class Family:
    """One kind of covariance: few partners of each feature, one strong factor, or dense.

    `row_sparsity` is the number of nonzeros of a row where there are few.
    """

    name: str
    words: str
    row_sparsity: int | None = None


@dataclass(frozen=True)
class Families:
    """Predicted errors of the default for one number of records, by family of structure."""

    inputs: ReleaseInputs
    errors: dict[Family, float]
    usual: Forecast  # at the usual sparsity

    def to_dict(self) -> list[dict[str, object]]:
        """Return everything as plain, JSON-ready data."""
        return [
            {"family": each.name, "row_sparsity": each.row_sparsity, "predicted_error": error}
            for each, error in self.errors.items()
        ]


def families(n_features: int) -> tuple[Family, ...]:
    """The families there can be among so many features."""
    few = tuple(
        Family(f"k = {k}", f"{k - 1} partners of each feature", k)
        for k in SPARSITIES
        if k <= n_features
    )
    few = few or (Family("k = 1", "no partners", 1),)
    others = (
        Family(FACTOR, "one factor, a third of the variance"),
        Family(DENSE, "all pairs related, a little"),
    )
    return (*few, *(others if n_features > 1 else ()))


def forecast_families(request: Request, n_records: int, n_features: int) -> Families:
    """Predict the error of the default for each family, from public inputs alone.

    The sparsity of the request does not matter.
    """
    usual = min(USUAL_SPARSITY, n_features)
    errors = {
        each: family_error(request, n_records, n_features, each) for each in families(n_features)
    }
    inputs = _inputs(request, n_records, n_features, usual)
    return Families(inputs, errors, forecast(inputs, default_mechanism().name))


def family_error(request: Request, n_records: int, n_features: int, family: Family) -> float:
    """Forecast the error of one family."""
    k = min(USUAL_SPARSITY, n_features) if family.row_sparsity is None else family.row_sparsity
    found = forecast(_inputs(request, n_records, n_features, k), default_mechanism().name)
    if family.row_sparsity is None:
        return found.predicted_error[family.name]
    return found.typical_error


def smallest_for(
    request: Request,
    n_features: int,
    family: Family,
    target: float,
    tried: set[int] | None = None,
) -> int | None:
    """The fewest records that reach a target error in a family; None beyond 1e12.

    `tried` are numbers of records that were planned before.
    """
    return smallest_error(lambda n: family_error(request, n, n_features, family), target, tried)


def _inputs(request: Request, n_records: int, n_features: int, k: int) -> ReleaseInputs:
    return replace(request, row_sparsity=k).inputs(n_records, n_features)


@lru_cache(maxsize=256)
def guess_error(inputs: ReleaseInputs, guess: int) -> float:
    """The error of a screened release that is told `guess` instead of the sparsity of `inputs`."""
    told = plan_screened(replace(inputs, row_sparsity=guess), short=True)
    errors = told.predicted_error
    if guess != inputs.row_sparsity:
        errors = predicted_errors(replace(told.parameters, inputs=inputs), COMPARED_MODELS)
    return Forecast("screened", errors, None).typical_error


def guesses(request: Request, n_records: int, n_features: int) -> dict[int, dict[int, float]]:
    """Errors of screened releases by the true sparsity and by what they were told."""
    known = [each.row_sparsity for each in families(n_features) if each.row_sparsity]
    return {
        true: {
            told: guess_error(_inputs(request, n_records, n_features, true), told) for told in known
        }
        for true in known
    }
