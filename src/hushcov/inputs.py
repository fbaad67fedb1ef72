"""Public inputs of a release, checked against the ranges that are proved."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from hushcov._validation import (
    BUDGET_WORDS,
    DELTA_WORDS,
    LARGEST_DELTA,
    LARGEST_EPSILON,
    check_integer,
    check_real,
)
from hushcov.calibration import calibrate_zcdp, full_budget, largest_mu
from hushcov.exceptions import DataError, ParameterError
from hushcov.kernel.accounting import ONE_REPLACED, Budget, Neighbours

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.kernel.records.base import Records
    from hushcov.kernel.session import Session
    from hushcov.kernel.sums.statistics import Statistics

LARGEST_N = 10**100  # far beyond any data, and safe in doubles
LARGEST_CALIBRATED_N = 10**18
LARGEST_FEATURES = 10**9
_LEAST_LEFT = 1e-3  # of a budget, for plans that could not be run
_PAPER_WORDS = f"the paper's mechanism is proved up to 1, the others run up to 10; {BUDGET_WORDS}"


@dataclass(frozen=True)
class PublicInputs:
    """Public inputs of the paper's mechanism, in the ranges of its Section 2."""

    n_records: int
    n_features: int
    row_sparsity: int
    target_error: float
    epsilon: float
    delta: float
    failure_probability: float
    scale: float

    def __post_init__(self) -> None:
        _check(self)


class _ZcdpBudget:
    """The budget of public inputs in zCDP of one record."""

    epsilon: float
    delta: float
    before: float
    neighbours: Neighbours

    @property
    def rho(self) -> float:
        """The approximate whole budget in zCDP; the accountant certifies the exact one."""
        return calibrate_zcdp(self.epsilon, self.delta) / self.neighbours.most_rows**2

    @property
    def rho_left(self) -> float:
        """The approximate budget that steps before the mechanism leave."""
        rho = self.rho
        return max(rho - self.before**2 / 2, _LEAST_LEFT * rho)


@dataclass(frozen=True)
class CalibratedInputs(_ZcdpBudget):
    """Public inputs of the mechanism with calibrated constants.

    `before` is the mu that steps before it may take of the budget, which is set aside.
    """

    n_records: int
    n_features: int
    row_sparsity: int
    epsilon: float
    delta: float
    scale: float
    before: float = 0.0
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Found:
    """Expected result of a search for means and scales, from public numbers.

    `share` of the features are, all of them with the probability `every`, and `strain` is how much
    larger errors of an adaptive release are because it barely succeeds.
    """

    share: float = 1.0
    every: float = 1.0
    strain: float = 1.0


@dataclass(frozen=True)
class ReleaseInputs(_ZcdpBudget):
    """Public inputs of a mechanism on records whose features have been brought to scale 1.

    `delta` may be 0, for mechanisms that are private without one. `before` is about the mu, of one
    record, that steps before the mechanism take of the budget, and `most_before` what they take at
    most: plans and forecasts are for what that leaves. `found` is what is expected to be known of
    means and scales by then. `candidates` are the pairs that may covary, where that is public: no
    others are released. `purpose` is one of `hushcov.options.PURPOSES`: relations, such as
    regressions, are more precise where a part of the budget is spent on further looks. `target` is
    the place of a declared target of a regression. `told` says that the row sparsity was given,
    rather than assumed.
    """

    n_records: int
    n_features: int
    row_sparsity: int
    epsilon: float
    delta: float
    before: float = 0.0
    most_before: float = 0.0
    neighbours: Neighbours = ONE_REPLACED
    found: Found = Found()
    candidates: Candidates | None = None
    purpose: str = "both"
    target: int | None = None
    told: bool = False

    def __post_init__(self) -> None:
        _check(self)
        if self.candidates is not None and self.candidates.n_features != self.n_features:
            raise ParameterError(
                f"candidates must be pairs of {self.n_features:,} features, got "
                f"{self.candidates.n_features:,}: make them for this table."
            )

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, which follow from checked ones and are not checked."""
        found = copy.copy(self)
        vars(found).update(values)
        return found

    @property
    def n_sampled(self) -> int:
        """The number of surely independent records: rows of one unit may be alike."""
        return max(1, self.n_records // self.neighbours.most_rows)

    def largest_mu(self, *, selects: bool = False) -> float:
        """The mu of one record that steps before the mechanism are expected to leave.

        `selects` as in `Budget`.
        """
        whole = largest_mu(self.epsilon, self.delta, self.neighbours, selects=selects)
        return math.sqrt(max(whole**2 - self.before**2, _LEAST_LEFT * whole**2))

    def budget(self, **kinds: Any) -> Budget:
        """Certify the budget of a release with these inputs; see `Budget` for its kinds."""
        certify = Budget if "mu" in kinds else full_budget
        return certify(self.epsilon, self.delta, self.neighbours, **kinds)

    def to_dict(self) -> dict[str, Any]:
        """Size and budget as plain data; the guarantee says whose privacy it is."""
        names = ("n_records", "n_features", "row_sparsity", "epsilon", "delta")
        known = {} if self.candidates is None else self.candidates.to_dict()
        return {name: getattr(self, name) for name in names} | known

    def check_size(self, records: Records | Statistics | Session) -> None:
        """Refuse records that are not as many, or not as wide, as was declared."""
        if (records.n_records, records.n_features) != (self.n_records, self.n_features):
            raise DataError(
                f"records must be {self.n_records:,} of {self.n_features} features as declared, "
                f"got {records.n_records:,} of {records.n_features}: declare their true size."
            )


def _check(inputs: PublicInputs | CalibratedInputs | ReleaseInputs) -> None:
    """Replace every field by its checked, plain Python value, or raise `ParameterError`."""
    paper = isinstance(inputs, PublicInputs)
    features = (2, None) if paper else (1, LARGEST_FEATURES)
    largest_n = LARGEST_N if paper else LARGEST_CALIBRATED_N
    budget = (0.0, 1.0, _PAPER_WORDS) if paper else (0.0, LARGEST_EPSILON, BUDGET_WORDS)
    integers = {
        "n_features": (*features, "it is the number of columns."),
        "n_records": (1, largest_n, "give the number of records."),
    }
    for name, (least, most, cure) in integers.items():
        number = check_integer(name, getattr(inputs, name), at_least=least, at_most=most, cure=cure)
        object.__setattr__(inputs, name, number)
    sparsity = check_integer(
        "row_sparsity",
        inputs.row_sparsity,
        at_least=1,
        at_most=inputs.n_features,
        cure="it counts the nonzero entries of a row, the diagonal included.",
    )
    object.__setattr__(inputs, "row_sparsity", sparsity)
    reals = {
        "epsilon": budget,
        "delta": (0.0, LARGEST_DELTA, DELTA_WORDS),
        "target_error": (0.0, 0.25, "it is the error sought, in units of scale**2."),
        "failure_probability": (0.0, 0.1, "it is how often the target error may be missed."),
        "scale": (
            1e-60,
            1e60,
            "it is a public sub-Gaussian scale (a bound on every standard deviation), never "
            "inferred from X.",
        ),
    }
    for name in (field.name for field in fields(inputs) if field.name in reals):
        above, at_most, cure = reals[name]
        # Mechanisms without a delta are private at 0.
        zero, value = name == "delta" and isinstance(inputs, ReleaseInputs), getattr(inputs, name)
        value = check_real(name, value, above=above, at_most=at_most, or_zero=zero, cure=cure)
        object.__setattr__(inputs, name, value)
