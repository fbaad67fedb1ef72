"""Base of all estimators: opening records, storing a release, and its limits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from hushcov._arrays import FloatArray
from hushcov._charged import stated_charges
from hushcov._validation import listed
from hushcov._words import number
from hushcov.accounting import Guarantee
from hushcov.estimators.answering import Answers, FrameChoice, library_of
from hushcov.estimators.options import with_options
from hushcov.exceptions import DataError, ParameterError
from hushcov.options import check_parameters
from hushcov.release import Release
from hushcov.sums.grids import Bounds, check_bounds
from hushcov.sums.records import ClippedRecords, DeviceRecords, Records, check_enough
from hushcov.tables.sources import ArrayRecords, open_records

if TYPE_CHECKING:
    from hushcov.planning import Caution

# What a fit leaves beside public attributes.
_PRIVATE = ("_stores_precision", "_precision", "_compared", "_frames", "_frames_in")
_NO_SCORE = (
    "{name} has no score: searches and cross-validation would score held-out rows with it, which "
    "are records that no guarantee covers then. Use log_likelihood(rows) for rows that are public, "
    "and choose parameters by `hushcov plan` or PrivateSparseCovariance.plan."
)


@with_options
class PrivateCovariance(FrameChoice, Answers, EmpiricalCovariance):
    """Base of the private estimators, with the options of all of them; not for use by itself.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate.
    precision_ : ndarray
        Inverse of the estimate, if `store_precision`; zero in directions where there is none. It
        is computed when it is first asked for, and kept.
    support_ : ndarray of bool
        Where the estimate is not zero.
    release_ : Release
        The released integers with `release_.guarantee`.
    location_ : ndarray
        Zeros: no mean is released.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, when X has column names
    receipt_ : Receipt, when a ledger was charged
    warnings_ : tuple of str
        What was warned of before the release, which keeps it.
    """

    epsilon: float | None = None
    row_sparsity: int | None = None
    store_precision: bool = True
    assume_centered: bool = False
    device: str | None = None
    random_state: object = None
    ledger: Any = None
    dataset: str | None = None

    drop_nulls = False  # options of some estimators
    bounds: ClassVar[Any] = None

    @property
    def score(self) -> Any:
        """Not there, so that scikit-learn scores no held-out rows: see `log_likelihood`."""
        raise AttributeError(_NO_SCORE.format(name=type(self).__name__))

    def log_likelihood(self, X: Any) -> float:
        """Gaussian log-likelihood of the rows `X` under the released covariance and `location_`.

        Where no mean is released, that is zero: subtract a public one from the rows beforehand.
        Not covered by the guarantee: that of sensitive rows is a new, uncharged release.
        """
        return float(super().score(self._checked_rows(X)))

    def mahalanobis(self, X: Any) -> FloatArray:
        """Squared Mahalanobis distances of rows from `location_` under the released covariance.

        Where no mean is released, that is zero: subtract a public one from the rows beforehand.
        Not covered by the guarantee: distances of sensitive rows are a new, uncharged release.
        """
        return np.asarray(super().mahalanobis(self._checked_rows(X)))

    def _checked_rows(self, X: Any) -> Any:
        """Rows that scikit-learn can score; others are refused, and so is what was not fitted."""
        self._released()
        _refuse_bad_rows(X)
        if not hasattr(X, "column_names"):
            return X
        try:  # an Arrow table: scikit-learn checks names of pandas
            return X.to_pandas()
        except ImportError:
            return np.asarray(X)

    @contextmanager
    def _fresh(self, X: Any = None) -> Iterator[None]:
        """Fit `X` without what an earlier fit left, and bring that back if this one is refused."""
        earlier, frames = dict(vars(self)), self._frames_in
        for name in self._fitted():
            delattr(self, name)
        self.warnings_: tuple[str, ...] = ()
        self._frames_of(frames if X is None else library_of(X))
        with stated_charges(_unreleased):
            try:
                yield
            except BaseException:
                self.__dict__ = earlier
                raise

    def _fitted(self) -> dict[str, Any]:
        """Return the attributes that fits have left."""
        found = vars(self).items()
        return {name: each for name, each in found if name.endswith("_") or name in _PRIVATE}

    def _open(self, X: Any, *, counts: bool = False) -> Records:
        """Rows as Records. Shape and names are read; values are not, beyond conversion.

        `counts` says that how many there are is not public, and released first.
        """
        check_parameters(self)
        records = open_named(self, X, drop_nulls=self.drop_nulls)
        if not counts:
            check_enough("X", records)
        if self.device is not None:
            records = DeviceRecords(records, self.device)
        bounds = self._public_bounds(records.n_features)
        return records if bounds is None else ClippedRecords(records, bounds)

    def _public_bounds(self, n_features: int) -> Bounds | None:
        """The bounds of features that were given; checked."""
        if self.bounds is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        return check_bounds(self.bounds, n_features, None if names is None else list(names))

    def _need_known_mean(self, where: str, why: str) -> None:
        """Refuse means that are not known where they cannot be found privately."""
        if not self.assume_centered:
            raise ParameterError(
                f"assume_centered must be True {where}, got False: {why}. Subtract means that are "
                "public from the records and pass assume_centered=True (--known-mean on the "
                "command line), or use PrivateSparseCovariance at its defaults, which finds them."
            )

    def _store(self, release: Release, **making: Any) -> Self:
        """Complete the document, keep it, and the estimate that it gives."""
        names = getattr(self, "feature_names_in_", None)
        about = replace(
            release.making,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            dataset=self.dataset,
            **making,
        )
        self.release_ = replace(
            release,
            warnings=self.warnings_,
            column_names=None if names is None else tuple(map(str, names)),
            making=about,
        )
        self._keep_estimate(store_precision=bool(self.store_precision))
        return self

    def _check_ledger(self) -> None:
        """Refuse a ledger without a dataset, or the other way round."""
        if (self.ledger is None) != (self.dataset is None):
            given, missing = (
                ("ledger", "dataset") if self.dataset is None else ("dataset", "ledger")
            )
            raise ParameterError(
                f"{missing} is required where {given} is given: a release is charged to a dataset "
                f"of a ledger. Pass both to {type(self).__name__}, or neither."
            )

    def _heed(self, *cautions: Caution | None, stacklevel: int = 3) -> None:
        """Refuse, or warn and keep the words for the release; before anything is charged."""
        found = [caution for caution in cautions if caution is not None]
        for caution in found:
            if caution.refused_by(self):
                before = getattr(self, "counted_", None)
                spent = "" if before is None else number(before.guarantee.epsilon)
                raise caution.refusal(spent)
        for caution in found:
            self.warnings_ = (*self.warnings_, caution.sentence)
            warnings.warn(caution.sentence, caution.category, stacklevel=stacklevel)

    @contextmanager
    def _charged(self, guarantee: Guarantee, whole: float = 0.0) -> Iterator[None]:
        """Charge, then release; whatever fails in between says what was charged.

        `whole` is the epsilon of a release of which this is the first part.
        """
        with stated_charges(_unreleased):
            try:
                self._charge(guarantee, whole)
                yield
            except DataError as error:
                if self.ledger is None:
                    before = getattr(self, "counted_", None)
                    nothing = "There is no ledger: nothing was charged, and nothing was released."
                    error.add_note(nothing if before is None else before.paid)
                raise

    def _charge(self, guarantee: Guarantee, whole: float = 0.0) -> None:
        """Charge the release to the ledger, if there is one; before any record is read."""
        if self.ledger is None or self.dataset is None:
            return
        from hushcov.accounting.ledger import Ledger

        ledger = self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)
        label = f"{type(self).__name__} of {self.n_features_in_} features"
        self.receipt_ = ledger.charge(self.dataset, guarantee, label=label, whole=whole)


def _unreleased() -> str:
    return "No estimate was released."


def open_named(estimator: BaseEstimator, X: Any, *, drop_nulls: bool = False) -> Records:
    """Open rows, and keep their number and the names of their features as scikit-learn does."""
    if isinstance(X, Records):
        if drop_nulls and not X.gaps:
            raise ParameterError(
                "drop_nulls must be False for a Records that was made without it, got True: pass "
                "drop_nulls=True where the Records is made, as open_records(..., drop_nulls=True)."
            )
        drop_nulls = False  # done where it was made
    records = open_records(X, drop_nulls=bool(drop_nulls))
    if not isinstance(records, ArrayRecords) or isinstance(X, Records):
        estimator.n_features_in_ = records.n_features
        if records.feature_names is not None:
            estimator.feature_names_in_ = np.array(records.feature_names, dtype=object)
        return records
    # What Arrow calls columns are their values.
    arrow = getattr(X, "column_names", None)
    names = list(getattr(X, "columns", ()) if arrow is None else arrow)
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise DataError(
            f"X must have column names that all differ, got {listed(twice)} more than once: rename "
            "columns."
        )
    if arrow is not None:
        estimator.n_features_in_ = records.n_features
        estimator.feature_names_in_ = np.array(names, dtype=object)
        return records
    # Column names and their number only: scikit-learn's own checks of the values quote
    # them in messages, and finiteness is checked in the one pass over the data.
    validate_data(estimator, X, skip_check_array=True)
    return records


def _refuse_bad_rows(X: Any) -> None:
    """Pass over the rows once, for typed refusals that quote no value."""
    open_records(X).map_sum(lambda _: np.zeros(0, dtype=np.int64))
