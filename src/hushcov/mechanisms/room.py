"""What every mechanism is: a room that plans a release, certifies it, and makes it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from hushcov._arrays import FloatArray
from hushcov._compiled import threads
from hushcov._words import number
from hushcov.accounting import Gaussian, Guarantee
from hushcov.inputs import CalibratedInputs, ReleaseInputs, spent_rho
from hushcov.noise import Entropy
from hushcov.predicting import Forecast
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.sums.records import Records

Parameters = TypeVar("Parameters")
#: For an entry of a release: its integer, its estimate, and that while it is made symmetric.
DENSE_BYTES = 3 * 8
#: For a candidate pair: its two features, score, value and noise, twice in a symmetric matrix.
LISTED_BYTES = 10 * 8
#: What is found before a mechanism where means need not be.
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

    @abstractmethod
    def certify(self, *, private: bool) -> Guarantee:
        """Let the accountant bound the events, or raise; before any record is read."""

    @abstractmethod
    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """Certify, read the records, and release."""

    def threshold(self, release: Release) -> float:
        """What an off-diagonal entry must exceed to be kept, in units of its features' scales."""
        return 0.0

    def facts(self, before: str = SCALES) -> Facts:
        """The design in words; `before` says what is found from what was spent before."""
        return []

    def table(self) -> Table | None:
        """The rest of the design, where a table says it better."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The parameters as plain, JSON-ready data."""
        made: dict[str, Any] = self.parameters.to_dict()  # type: ignore[attr-defined]
        return made


class PooledPlan(MechanismPlan[Parameters]):
    """A plan whose Gaussian part steps before it may share: what they do not take is its own."""

    @property
    @abstractmethod
    def pool(self) -> float:
        """The mu of that part."""

    @abstractmethod
    def after(self, prepared: Prepared) -> PooledPlan[Parameters]:
        """The same release, where steps before it took what they did from its Gaussian part.

        `docs/proofs/preparation.md` says why that costs nothing.
        """

    @property
    def tilts(self) -> bool:
        """Whether it wants to know how often features lie above their centre."""
        return False


class Mechanism(ABC):
    """One mechanism on features at scale 1. `hushcov.planning.mechanisms()` lists them all.

    Attributes
    ----------
    name : str
        Its name, everywhere.
    title : str
        What figures and tables call it.
    predicted : bool
        Whether its error is predicted, so that the default may choose it.
    no_limit : str
        Why no smallest correlation is predicted to be found, where none is.
    sparse : bool
        Whether it can release some pairs only, so that the output can be sparse.
    slow : bool
        Whether its own search takes seconds, so that it is first predicted roughly.
    pooled : bool
        Whether its plans are `PooledPlan`, so that a search for means shares their budget.
    takes_candidates : bool
        Whether it can be told which pairs may covary.
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
    pooled: ClassVar[bool] = False
    takes_candidates: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    estimator: ClassVar[tuple[str, dict[str, Any]] | None] = None
    most_features: ClassVar[int | None] = None
    limit: ClassVar[str] = ""

    @abstractmethod
    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> MechanismPlan[Any]:
        """Choose every number from public inputs; `sparse` asks for a sparse matrix.

        Rooms with options of their own take them by keyword.
        """

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """The error to expect; with `rough` a quick figure will do."""
        found = self.plan(inputs).forecast
        assert found is not None, f"{self.name} is said to be predicted"
        return found

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Bytes of its working arrays, where blocks have so many rows.

        Here: the sum, and a block's sum as doubles and as integers.
        """
        return DENSE_BYTES * n_features**2

    def listed_work(self, n_records: int, n_features: int, n_pairs: int, sparse: bool) -> int:
        """The same where so many candidate pairs are known: nothing is as large as all pairs.

        Places, sums of every thread and scores of pairs, and what a release holds of them; where
        the output is not sparse, the matrix, too.
        """
        from hushcov.sums.signs import TILE_BYTES, TILE_ROWS

        listed = LISTED_BYTES * n_pairs + (threads() + 2) * 8 * (n_pairs + n_features)
        signs = min(TILE_BYTES, 2 * (min(n_records, TILE_ROWS) * n_features // 8 + 1))
        return listed + signs + (0 if sparse else DENSE_BYTES * n_features**2)


def pool_of(inputs: ReleaseInputs, *mus: float) -> float:
    """The mu of a mechanism's Gaussian steps and of what was set aside before them, last of all."""
    before = inputs.spent[-1:]
    return math.hypot(*mus, *(event.mu for event in before if isinstance(event, Gaussian)))


def left_of(plan: PooledPlan[Any], prepared: Prepared) -> float:
    """The mu that steps before a mechanism left of its pool."""
    return math.sqrt(plan.pool**2 - sum(event.mu**2 for _, event in prepared.taken))


def shared(plan: PooledPlan[Any], prepared: Prepared) -> ReleaseInputs:
    """Inputs of a plan, where what was taken stands in the place of what was set aside."""
    inputs: ReleaseInputs = plan.parameters.inputs
    taken, before = (event for _, event in prepared.taken), inputs.spent[:-1]
    pool = math.hypot(plan.pool, *(each.mu for each in before if isinstance(each, Gaussian)))
    # see docs/proofs/preparation.md
    return replace(inputs, spent=(*before, *taken), pool=pool)


def budget_words(
    inputs: ReleaseInputs | CalibratedInputs, before: str, shares: Mapping[str, float], rest: str
) -> str:
    """Who gets how much of the budget: `before`, these shares of what that leaves, the rest."""
    found = spent_rho(inputs.spent) / inputs.rho
    parts = {before: found}
    parts |= {name: (1 - found) * share for name, share in shares.items()}
    parts[rest] = 1 - sum(parts.values())
    return ", ".join(f"{number(100 * part, 2)} % for {to}" for to, part in parts.items() if part)


def certified_words(guarantee: Guarantee) -> str:
    """What the accountant certifies."""
    return (
        f"epsilon {number(guarantee.transcript_epsilon)} at delta "
        f"{number(guarantee.transcript_delta)}"
    )
