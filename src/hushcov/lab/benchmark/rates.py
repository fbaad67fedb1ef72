"""How many records the two theorems ask for, against row sparsity and number of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from hushcov.planning.rates import fitted_slope, kumar_smallest_n, multiscale_smallest_n

TARGET_ERROR, EPSILON, RATE_DELTA, FAILURE_PROBABILITY = 0.25, 1.0, 1e-6, 0.1
_FEATURES, _SPARSITY = 10_000, 5
_ALL_FEATURES = tuple(2**power for power in range(10, 31, 2))
_ALL_SPARSITIES = tuple(2**power for power in range(1, 9))
THEOREMS: dict[str, Callable[..., int]] = {
    "multiscale": multiscale_smallest_n,
    "kumar": kumar_smallest_n,
}


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
        return asdict(self) | {
            "target_error": TARGET_ERROR,
            "epsilon": EPSILON,
            "delta": RATE_DELTA,
            "failure_probability": FAILURE_PROBABILITY,
            "exponents": EXPONENTS,
        }


def predicted_rates() -> Rates:
    """Evaluate both theorems along both axes."""
    return Rates(
        _curve("row_sparsity", _ALL_SPARSITIES, {"n_features": _FEATURES}),
        _curve("n_features", _ALL_FEATURES, {"row_sparsity": _SPARSITY}),
    )


def _curve(quantity: str, values: tuple[int, ...], fixed: dict[str, int]) -> Curve:
    n_records = {
        name: tuple(
            smallest(
                **fixed,
                **{quantity: value},
                target_error=TARGET_ERROR,
                epsilon=EPSILON,
                delta=RATE_DELTA,
                failure_probability=FAILURE_PROBABILITY,
            )
            for value in values
        )
        for name, smallest in THEOREMS.items()
    }
    slopes = {name: fitted_slope(values, found) for name, found in n_records.items()}
    return Curve(quantity, values, fixed, n_records, slopes)
