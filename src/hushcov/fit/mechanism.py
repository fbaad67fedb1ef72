"""Interfaces: private steps, mechanisms, which plan, and plans, which certify and release."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._compiled import threads
from hushcov._words import number
from hushcov.inputs import CalibratedInputs, Found, ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.release import Release

if TYPE_CHECKING:
    from hushcov.fit.location import Location
    from hushcov.fit.norms import NormBound
    from hushcov.kernel.queries import SignedOctaves
    from hushcov.kernel.session import Session

REFERENCE_MODELS = ("block", "banded", "random", "diagonal")
COMPARED_MODELS = ("block", "banded", "random")
#: What else is predicted of a mechanism that finds out what a covariance is like: one factor that
#: explains a third of the variance, and pairs that are all related a little.
FACTOR, DENSE = "factor", "dense"
#: A predicted error at which the zero matrix, whose error is 1, does as well.
HOPELESS_ERROR = 0.99
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


@dataclass(frozen=True, eq=False)
class Prepared:
    """Input of a step or a mechanism: a session, and what was released before.

    Parameters
    ----------
    session : Session
        Access to the records as they are to be read, and to the budget.
    feature_scale : ndarray
        Scales of the features, public or released; ones before they are known.
    share : float
        About which share of the records is complete; sums count the others as zeros.
    location : ndarray, optional
        What was taken off the features, where that was released.
    place : Location, optional
        Centres, scales and reaches of the features, where these were released before.
    norm : NormBound, optional
        What was released of the norms of records.
    tilt : ndarray of int, optional
        Means of the signs of the centred features, in 1024ths.
    indicators : tuple of int
        Features that hold 0 and 1 alone, by public knowledge.
    making : mapping
        What the document of the release is to say of it, see `hushcov.release.Making`.
    wanted : SignedOctaves, optional
        `Stage.first_octaves` of the next step: one that reads the records may read them meanwhile.
    first : SignedOctaves, optional
        The same of this step, which the session may hold.
    centre_signs : bool
        Whether the mechanism needs the means of the signs of the features.
    fixed_shares : bool
        Whether steps take shares of the budget as planned, and not of what is left of it.
    basis : ndarray, optional
        A covariance that was released before or is public, in whose basis further looks begin.
    """

    session: Session
    feature_scale: FloatArray
    share: float = 1.0
    location: FloatArray | None = None
    place: Location | None = None
    norm: NormBound | None = None
    tilt: IntArray | None = None
    indicators: tuple[int, ...] = ()
    making: Mapping[str, Any] = field(default_factory=dict)
    wanted: SignedOctaves | None = None
    first: SignedOctaves | None = None
    centre_signs: bool = False
    fixed_shares: bool = False
    basis: FloatArray | None = None


@dataclass(frozen=True)
class StageCost:
    """Cost of a step and its expected result, from public numbers.

    `mu` is about what it takes of the budget, of one record, and `most` what it takes at most,
    whatever is in the records. `found` is what it is expected to find of means and scales;
    `drowns` says that this may be off by orders of magnitude.
    """

    mu: float
    most: float
    found: Found = field(default_factory=Found)
    drowns: bool = False


class Stage(ABC):
    """One private step with its public parameters, fixed before any record is read.

    `released` says what it releases in a few words. `first_octaves` are the counts of complete
    records that it begins with, where public numbers say which. The proof is a page of
    `docs/proofs/` of the name of its module.
    """

    released: ClassVar[str]

    @property
    @abstractmethod
    def unknown(self) -> str:
        """Description of what is not known without it."""

    @property
    def first_octaves(self) -> SignedOctaves | None:
        """Return the first counts; None where it begins with none, or they depend on records."""
        return None

    @abstractmethod
    def cost(self) -> StageCost:
        """Return its cost and its expected result, from public numbers."""

    @abstractmethod
    def run(self, prepared: Prepared) -> Prepared:
        """Release, and hand on what the next step starts with."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one mechanism.

    `predicted_error` is per reference model and relative to the operator norm of the covariance,
    so that 1 is the error of the zero matrix; of mechanisms that look for factors also for one
    strong factor and for a dense covariance (`FACTOR`, `DENSE`). `rough` says that the
    mechanism's own search was not run, because a quick prediction was far behind; it would improve
    the figures somewhat.
    """

    mechanism: str
    predicted_error: dict[str, float]
    detection_limit: float | None
    rough: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain, JSON-ready data."""
        return {
            "mechanism": self.mechanism,
            "predicted_error": dict(self.predicted_error),
            "typical_error": self.typical_error,
            "detection_limit": self.detection_limit,
            "rough": self.rough,
        }

    @property
    def typical_error(self) -> float:
        """Geometric mean over the block, banded and random models."""
        logs = (math.log(max(self.predicted_error[m], 1e-300)) for m in COMPARED_MODELS)
        return math.exp(statistics.fmean(logs))

    @property
    def hopeless(self) -> bool:
        """Whether releasing nothing, the zero matrix, is expected to do as well."""
        return self.drowns and not self.finds_factors

    @property
    def drowns(self) -> bool:
        """Whether noise exceeds the matrix where features have few partners."""
        return self.typical_error >= HOPELESS_ERROR

    @property
    def finds_factors(self) -> bool:
        """Whether one strong factor would be found."""
        return self.predicted_error.get(FACTOR, 1.0) < HOPELESS_ERROR


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
        return self.parameters.budget(private=private)  # type: ignore[attr-defined,no-any-return]

    @abstractmethod
    def release(self, prepared: Prepared) -> Release:
        """Release, with the budget that earlier steps left."""

    @property
    def centres_signs(self) -> bool:
        """Whether it needs the means of the signs of the features."""
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
    looks_further : bool
        Whether it takes further looks, so that purpose, target and basis mean something to it.
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
    looks_further: ClassVar[bool] = False
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

    def other_numbers(self, release: Release) -> IntArray | FloatArray:
        """Return the numbers that it releases beside the matrix, always in the same order.

        By default they are those of a further look. `hushcov audit` attacks the released integers,
        which pairs were released, and these: everything that depends on records and stands in
        `parameters`, for instance.
        """
        look = release.making.look
        return np.empty(0) if look is None else np.asarray(look.products * look.unit)

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


def screen_bytes(n_records: int, n_features: int) -> int:
    """Return the bytes of signs and sums of a panel, and of the scores of all pairs."""
    from hushcov.kernel import queries as sizes

    d = n_features
    kept = sizes.signs_kept(n_records, d)
    tile = min(sizes.TILE_BYTES, 2 * (min(n_records, sizes.TILE_ROWS) * d // 8 + 1))
    panel, signs = (sizes.PACKED_PANEL_BYTES, kept) if kept else (sizes.PANEL_BYTES, tile)
    scores = (4 if n_records < 2**31 else 8) * d * (d - 1) // 2
    return min(8 * d * d, panel) + signs + scores


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
