"""The interface of a mechanism, which plans, and of its plan, which certifies and releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from hushcov._compiled import threads
from hushcov._words import number
from hushcov.fit.reference import Forecast
from hushcov.fit.stage import Prepared
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.release import Release

Parameters = TypeVar("Parameters")
#: Bytes of an entry: its integer, its estimate, and a copy while that is made symmetric.
DENSE_BYTES = 3 * 8
#: Bytes of a candidate pair: two features, score, value and noise, twice in a symmetric matrix.
LISTED_BYTES = 10 * 8
#: Name of what earlier steps find where means are known.
SCALES = "the scales"
#: Labelled sentences, in the order in which they are read.
Facts = list[tuple[str, str]]
#: Titles of columns, and rows of text.
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class MechanismPlan(ABC, Generic[Parameters]):
    """One mechanism with its numbers, made from public inputs alone.

    `forecast` is the error to expect, where there is a prediction.
    """

    mechanism: Mechanism
    parameters: Parameters
    forecast: Forecast | None = None

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the budget of the release and of steps before it, or raise."""
        found: Budget = self.parameters.budget(private=private)  # type: ignore[attr-defined]
        return found

    @abstractmethod
    def release(self, prepared: Prepared) -> Release:
        """Release, with the budget that earlier steps left."""

    @property
    def tilts(self) -> bool:
        """Whether it needs to know how often features lie above their centre."""
        return False

    def threshold(self, release: Release) -> float:
        """Return the size that an off-diagonal entry must exceed to be kept, in scales."""
        return release.making.threshold

    def facts(self, before: str = SCALES) -> Facts:
        """Return the design in words; `before` names what earlier steps find."""
        return []

    def table(self) -> Table | None:
        """Return the part of the design that a table shows better, if there is one."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as plain, JSON-ready data."""
        made: dict[str, Any] = self.parameters.to_dict()  # type: ignore[attr-defined]
        return made


class Mechanism(ABC):
    """One mechanism on features at scale 1. `hushcov.fit.mechanisms()` lists them all.

    Attributes
    ----------
    name : str
        Its name on the command line, in Python and in releases.
    title : str
        Its name in figures and tables.
    predicted : bool
        Whether its error is predicted, so that the default may choose it.
    no_limit : str
        Reason why no detection limit is predicted, where none is.
    sparse : bool
        Whether it can release some pairs only, so that the output can be sparse.
    slow : bool
        Whether its own search takes seconds, so that it is first predicted roughly.
    takes_rest : bool
        Whether its values take all that earlier steps leave of the budget. Otherwise the most that
        these may take is set aside.
    takes_candidates : bool
        Whether it accepts candidate pairs.
    pure : bool
        Whether it is private without a delta, which needs public scales.
    estimator : tuple of str and dict, or None
        The class with its options, and which options make that class run this mechanism.
    most_features : int or None
        Above this many features it takes minutes, for the reason `limit`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    predicted: ClassVar[bool] = False
    no_limit: ClassVar[str] = "its error is not predicted"
    sparse: ClassVar[bool] = False
    slow: ClassVar[bool] = False
    takes_rest: ClassVar[bool] = True
    takes_candidates: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    estimator: ClassVar[tuple[str, dict[str, Any]] | None] = None
    most_features: ClassVar[int | None] = None
    limit: ClassVar[str] = ""

    @abstractmethod
    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> MechanismPlan[Any]:
        """Choose every number from public inputs; `sparse` asks for a sparse matrix.

        Mechanisms with options of their own take them by keyword.
        """

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """Predict the error; with `rough` a quick figure is enough."""
        found = self.plan(inputs).forecast
        assert found is not None, f"{self.name} is said to be predicted"
        return replace(found, mechanism=self.name)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Return the bytes of its working arrays, where blocks have so many rows.

        By default: the sum, and a block's sum as doubles and as integers.
        """
        return DENSE_BYTES * n_features**2

    def listed_work(self, n_records: int, n_features: int, n_pairs: int, sparse: bool) -> int:
        """Return the bytes of its working arrays where so many candidate pairs are known.

        These are places, sums of every thread, scores and released values of the pairs, and the
        matrix where the output is not sparse.
        """
        from hushcov.kernel.queries import TILE_BYTES, TILE_ROWS

        listed = LISTED_BYTES * n_pairs + (threads() + 2) * 8 * (n_pairs + n_features)
        signs = min(TILE_BYTES, 2 * (min(n_records, TILE_ROWS) * n_features // 8 + 1))
        return listed + signs + (0 if sparse else DENSE_BYTES * n_features**2)


def budget_words(
    inputs: ReleaseInputs | CalibratedInputs, before: str, shares: Mapping[str, float], rest: str
) -> str:
    """Say who gets how much of the budget: `before`, `shares` of what that leaves, the rest."""
    found = inputs.before**2 / 2 / inputs.rho
    parts = {before: found}
    parts |= {name: (1 - found) * share for name, share in shares.items()}
    parts[rest] = 1 - sum(parts.values())
    return ", ".join(f"{number(100 * part, 2)} % for {to}" for to, part in parts.items() if part)


def certified_words(budget: Budget) -> str:
    """Say what the accountant certifies."""
    guarantee = budget.certificate
    return (
        f"epsilon {number(guarantee.transcript_epsilon)} at delta "
        f"{number(guarantee.transcript_delta)}"
    )
