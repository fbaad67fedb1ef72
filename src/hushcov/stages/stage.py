"""What every stage is: one private step before a mechanism, and what it hands on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Event, Gaussian
from hushcov.noise import Entropy
from hushcov.records import Records

_FINER = 4  # bounds that are tried, for each bin


@dataclass(frozen=True)
class NormBound:
    """What was released of the norms of records, in units of the scales.

    `norm` is the bound that balances noise and what is cut off, `shrunk` about which share of the
    records is beyond it, and `typical` the median of the squared norm over the number of features.
    `lost` is about which share of the squared norms, summed over records, lies beyond the bound,
    and the standard deviation of that number.
    `squares` and `shares` are the histogram behind them: squared norms, and shares of the records.
    The first `sure` of them are seen, the others guessed.
    """

    norm: float
    shrunk: float
    typical: float
    lost: tuple[float, float] = (0.0, 0.0)
    squares: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    sure: int = 0

    @property
    def cut(self) -> float:
        """About which share of the squared norms is surely beyond the bound, from 0 to 1/2."""
        squares = np.array(self.squares[: self.sure])
        shares = np.array(self.shares[: self.sure])
        total = float(squares @ shares)
        beyond = float(np.maximum(squares - self.norm**2, 0.0) @ shares)
        return min(0.5, beyond / total) if total > 0 else 0.0

    @property
    def variance(self) -> float:
        """The variance of the squared norms."""
        squares, shares = np.array(self.squares), np.array(self.shares)
        return float(squares**2 @ shares - (squares @ shares) ** 2) if len(squares) else 0.0

    def beyond(self, squared_bounds: FloatArray) -> FloatArray:
        """The mean over records of what their squared norms have beyond each bound."""
        over = np.maximum(np.array(self.squares) - squared_bounds[:, None], 0.0)
        return np.asarray(over @ np.array(self.shares))

    def moved(self, noise: float, counted: float) -> NormBound:
        """The bound at which `noise` times its square and what it cuts off are least together.

        `counted` is the share of what is cut off that counts.
        """
        if not self.squares:
            return self
        squares, shares = np.array(self.squares), np.array(self.shares)
        finest = np.arange(_FINER * (len(squares) - 1) + 1) / _FINER
        bounds = np.exp(np.interp(finest, np.arange(len(squares)), np.log(squares)))
        lost = self.beyond(bounds)
        best = float(bounds[np.argmin(np.hypot(noise * bounds, counted * lost))])
        beyond = float(shares[squares > best].sum())
        moved = replace(self, norm=math.sqrt(best), shrunk=beyond)
        return replace(moved, lost=(moved.cut, self.lost[1]))


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a stage or a mechanism starts with: records, and what was released before.

    Parameters
    ----------
    records : Records
        As they are to be read.
    feature_scale : ndarray
        Scales of the features, public or released; ones before they are known.
    counted : str
        What the records are called in messages: they may be differences of two.
    share : float
        About which share of the records is complete; sums count the others as zeros.
    location : ndarray, optional
        What was taken off the features, where that was released.
    norm : NormBound, optional
        What was released of the norms of records.
    tilt : ndarray of int, optional
        About how much more often each feature lies above its centre than below, in 1024ths.
    taken : tuple of str and Gaussian
        What adaptive steps released, in words, and what each took of the Gaussian part.
    making : mapping
        What the document of the release is to say of it, see `hushcov.release.Making`.
    """

    records: Records
    feature_scale: FloatArray
    counted: str = "records"
    share: float = 1.0
    location: FloatArray | None = None
    norm: NormBound | None = None
    tilt: IntArray | None = None
    taken: tuple[tuple[str, Gaussian], ...] = ()
    making: Mapping[str, Any] = field(default_factory=dict)


class Stage(ABC):
    """One private step with its public parameters, fixed before any record is read.

    `released` says what it releases in a few words, and `unknown` what is not known without it.
    The proof is a page of `docs/proofs/` of the name of its module.
    """

    released: ClassVar[str]
    unknown: ClassVar[str]

    @property
    @abstractmethod
    def event(self) -> Event:
        """What is charged, whatever the records are."""

    @abstractmethod
    def run(self, prepared: Prepared, entropy: Entropy) -> Prepared:
        """Release, and hand on what the next step starts with."""
