"""Bases of all estimators: opening records, charges, storing a release, sums of several sites."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import validate_data

from hushcov._arrays import FloatArray
from hushcov._charged import NOTHING_CHARGED, stated_charges
from hushcov._validation import check_integer, listed, repeated, shown
from hushcov._words import number
from hushcov.bounds import Bounds, check_bounds
from hushcov.estimators.answering import Answers, FrameChoice, library_of
from hushcov.estimators.options import with_options
from hushcov.exceptions import (
    CapacityError,
    DataError,
    ForeignError,
    ParameterError,
    TooFewCompleteError,
    own_errors,
)
from hushcov.kernel.accounting import ONE_REPLACED, Guarantee
from hushcov.kernel.records.base import ClippedRecords, Records
from hushcov.options import ESTIMANDS, INVALID, check_parameters
from hushcov.release import Release
from hushcov.release.document import Kind
from hushcov.tables.sources import ArrayRecords, check_enough, open_records, refuse_stated_nulls

if TYPE_CHECKING:
    from hushcov.fit import Caution
    from hushcov.kernel.sums.statistics import RecordMap, Statistics
    from hushcov.kernel.transforms import Transforms

# What a fit leaves beside public attributes.
_PRIVATE = ("_precision", "_compared", "_frames", "_frames_in", "_began", "_kinds")
_NO_SCORE = (
    "{name} has no score: searches and cross-validation would score held-out rows with it, which "
    "are records that no guarantee covers then. Use log_likelihood(rows) for rows that are public, "
    "and choose parameters by `hushcov plan` or PrivateSparseCovariance.plan."
)

_AFTER = (
    "partial_fit must come before the release, and this {name} has released: sums with more "
    "records are a new release, which is charged again. Call partial_fit on a new estimator "
    "(sklearn.base.clone), and merge with statistics that were kept."
)
_KEPT = "The release was made and is kept: write it with release_.write(folder)."
_PICKLED = (
    "{name} must not be pickled or copied while it holds statistics, which are exact and not "
    "private: keep them with statistics_.save(path), or release them with fit_statistics() first."
)
# Options about the unit of privacy, at their values for one replaced record.
_ONE_REPLACED = {
    "neighbours": ONE_REPLACED.relation,
    "max_rows_per_unit": None,
    "estimand": ESTIMANDS[0],
    "max_sample_weight": None,
    "marginals": None,
}


class _Absent:
    """A method of classes that raises an error when an object is asked for it.

    scikit-learn before 1.8 routes metadata only if it finds the arguments of `score` in the class.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: object, owner: type) -> Any:
        return self._method if instance is None else self._method(instance, None)


@with_options
class PrivateCovariance(FrameChoice, Answers, EmpiricalCovariance):
    """Base of the private estimators, with the options of all of them; not for use by itself.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The released estimate.
    precision_ : ndarray
        Inverse of the estimate, with zeros in directions where there is none. It is computed when
        it is first asked for, and kept. Sparse estimates have none.
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

    Warns
    -----
    SeededNoiseWarning
        If `random_state` is given.
    """

    epsilon: float | None = None
    row_sparsity: int | None = None
    assume_centered: bool = False
    device: str | None = None
    random_state: object = None
    ledger: Any = None
    dataset: str | None = None

    store_precision: ClassVar[bool] = True  # for scikit-learn: `precision_` is computed on use
    bounds: ClassVar[Any] = None  # options of some estimators
    transforms: ClassVar[Any] = None
    marginals: ClassVar[float | None] = None

    def _repr_html_inner(self) -> str:
        """Show the release to a notebook; before the fit, what scikit-learn shows."""
        shown: str = super()._repr_html_inner()
        if not hasattr(self, "release_"):
            return shown
        from hushcov.report.notebook import release_html

        return release_html(self.release_, more=shown)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return text, and HTML where `sklearn.set_config(display=...)` has it."""
        html = getattr(self, "_repr_html_", None)
        return {"text/plain": repr(self)} | ({} if html is None else {"text/html": html()})

    @_Absent
    def score(self, X_test: Any, y: Any = None) -> Any:
        """Raise an error, so that scikit-learn scores no held-out rows: see `log_likelihood`."""
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
        """Return rows that scikit-learn can score, or refuse them and unfitted estimators."""
        self._released()
        # Pass over the rows once, for typed refusals that quote no value.
        open_records(X).map_sum(lambda _: np.zeros(0, dtype=np.int64))
        if not hasattr(X, "column_names"):
            return X
        try:  # an Arrow table: scikit-learn checks names of pandas
            return X.to_pandas()
        except ImportError:
            return np.asarray(X)

    @contextmanager
    def _fresh(self, X: Any = None) -> Iterator[None]:
        """Fit `X` without what an earlier fit left, and bring that back if this one is refused.

        A release that was made is paid for, and stays whatever fails after it.
        """
        earlier, frames = dict(vars(self)), self._frames_in
        try:
            for name in self._fitted():
                delattr(self, name)
            self.warnings_: tuple[str, ...] = ()
            self._frames_in = frames if X is None else library_of(X)
            self._choose_frames()
            with stated_charges(lambda: _KEPT * ("release_" in vars(self))), own_errors():
                yield
        except BaseException as error:
            if "release_" not in vars(self):
                self.__dict__ = earlier
                if isinstance(error, ForeignError) and not hasattr(error, "__notes__"):
                    error.add_note(f"{NOTHING_CHARGED} Nothing was released.")
            raise

    def _fitted(self) -> dict[str, Any]:
        """Return the attributes that fits have left."""
        found = vars(self).items()
        return {name: each for name, each in found if name.endswith("_") or name in _PRIVATE}

    def _open(self, X: Any, *, counts: bool = False, drop_nulls: bool = False) -> Records:
        """Open rows as Records. Shape and names are read; values are not, beyond conversion.

        `counts` says that how many there are is not public, and released first; `drop_nulls` that
        records which miss a value are left out.
        """
        records = open_named(self, X, drop_nulls=drop_nulls)
        if not counts:
            check_enough("X", records)
        if self.device is not None:
            from hushcov.engines.records import DeviceRecords

            records = DeviceRecords(records, self.device)
        bounds = self._public_bounds(records.n_features)
        transforms = self._transforms(records.n_features)
        records = records if bounds is None else ClippedRecords(records, bounds)
        return records if transforms is None else transforms.view(records)

    @property
    def _names(self) -> list[str] | None:
        """Names of the features, where the records had some."""
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else list(map(str, names))

    def _public_bounds(self, n_features: int) -> Bounds | None:
        """Return the bounds of features that were given; checked."""
        if self.bounds is None:
            return None
        return check_bounds(self.bounds, n_features, self._names)

    def _transforms(self, n_features: int) -> Transforms | None:
        """Return the transforms of columns that were given; checked."""
        if self.transforms is None:
            return None
        from hushcov.transforms import check_transforms

        bounds = self._public_bounds(n_features)
        return check_transforms(self.transforms, n_features, self._names, bounds)

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
        from hushcov.release.shares import with_shares

        names: Sequence[str] | None = self._names
        known = getattr(self, "_kinds", {})
        kinds = [known.get(name) for name in names or ()]
        transforms = self._transforms(self.n_features_in_)
        if transforms is not None:
            names = transforms.named(names)
            kinds += [None] * (len(transforms) - len(kinds))  # of squares
        about = replace(
            release.making,
            kinds=tuple(own and Kind(*own) for own in kinds) if any(kinds) else None,
            made=self.__dict__.pop("_began", None),
            dataset=self.dataset,
            **making,
        )
        named = replace(
            release,
            warnings=self.warnings_,
            column_names=None if names is None else tuple(names),
            making=about,
        )
        self.release_ = with_shares(named)
        self._keep_estimate()
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

    def _enforce_cautions(self, *cautions: Caution | None, stacklevel: int = 3) -> None:
        """Raise for forbidden settings; warn of the rest and store warnings with the release."""
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
        """Charge the ledger, if there is one, before any record is read; then release.

        `whole` is the epsilon of a release of which this is the first part.
        """
        try:
            began = datetime.now(UTC).isoformat(timespec="seconds")
            if self.ledger is not None and self.dataset is not None:
                from hushcov.ledger import Ledger

                ledger = self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)
                label = f"{type(self).__name__} of {self.n_features_in_} features"
                self.receipt_ = ledger.charge(self.dataset, guarantee, label=label, whole=whole)
                began = self.receipt_.time
            self._began: str = getattr(self, "_began", began)  # of a count before it
            with own_errors("after the charge"):
                yield
        except (DataError, CapacityError) as error:
            before = getattr(self, "counted_", None)
            if self.ledger is None and before is not None:
                error.add_note(before.paid)
            elif self.ledger is None and not isinstance(error, TooFewCompleteError):
                error.add_note("There is no ledger: nothing was charged, and nothing was released.")
            raise


def open_named(estimator: BaseEstimator, X: Any, *, drop_nulls: bool = False) -> Records:
    """Open rows, and keep their number and the names of their features as scikit-learn does."""
    records = open_records(X)
    estimator._kinds = records.kinds
    strict = getattr(estimator, "on_invalid", INVALID[0]) != INVALID[0]
    if strict or records.gaps != drop_nulls:
        records = records.with_gaps(drop_nulls, strict=strict)
    if not drop_nulls:
        refuse_stated_nulls(X, records)
    if not isinstance(records, ArrayRecords) or isinstance(X, Records):
        name_features(estimator, records.n_features, records.feature_names)
        return records
    # What Arrow calls columns are their values.
    arrow = getattr(X, "column_names", None)
    names = list(getattr(X, "columns", ()) if arrow is None else arrow)
    twice = repeated(names)
    if twice:
        raise DataError(
            f"X must have column names that all differ, got {listed(twice)} more than once: rename "
            "columns."
        )
    if arrow is not None:
        name_features(estimator, records.n_features, names)
    else:
        # Column names and their number only: scikit-learn's own checks of the values quote
        # them in messages, and finiteness is checked in the one pass over the data.
        validate_data(estimator, X, skip_check_array=True)
    return records


def name_features(estimator: Any, n_features: int, names: Sequence[str] | None) -> None:
    """Keep the number and the names of features under the names that scikit-learn gives them."""
    estimator.n_features_in_ = n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


@with_options
class SummedCovariance(PrivateCovariance):
    """Base of estimators that release exact sums over records; not for use by itself.

    Attributes
    ----------
    statistics_ : Statistics
        After `partial_fit`, until the release: exact sums of the records. NOT private.
    total_records_ : int
        After `partial_fit`, until the release: the number of rows that is planned.
    """

    def partial_fit(self, X: Any, y: Any = None, *, total_records: int | None = None) -> Self:
        """Add the records in `X` to the sums that `fit_statistics` releases.

        Nothing is released and nothing is charged. The sums are `statistics_`: exact, NOT private,
        as sensitive as the records themselves. Call it once for each part of the records, here or
        at other sites, whose `statistics_` are merged (`Statistics.merge`). An estimator that has
        released takes no more records, and `fit` starts anew without the sums. The records must
        have mean zero (`assume_centered=True`), and any missing value is an error.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a .npy file, or Records
            Anything that `fit` takes.
        y : ignored
        total_records : int
            Public number of rows that all calls at all sites are planned to have together.
            Required in the first call: with the other parameters it decides how records are
            clipped and rounded, which must be the same for all of them and fixed before any is
            read. See `fit_statistics` on what happens if it turns out to be another number.
        """
        from hushcov.kernel.sums.gram import record_statistics

        if hasattr(self, "release_"):
            raise ParameterError(_AFTER.format(name=type(self).__name__))
        self._check_sums()
        earlier: Statistics | None = getattr(self, "statistics_", None)
        declared: int | None = getattr(self, "total_records_", None)
        with self._fresh(X):
            records = self._open(X)
            if earlier is not None and records.n_features != earlier.n_features:
                # In the words scikit-learn uses for the same refusal.
                raise DataError(
                    f"X has {records.n_features} features, but {type(self).__name__} is expecting "
                    f"{earlier.n_features} features as input, as in earlier calls: pass the same "
                    "columns."
                )
            total = self._total(total_records, declared)
            names = None if self._names is None else tuple(self._names)
            record_map = self._record_map(total, records.n_features, feature_names=names)
            if earlier is not None:
                earlier.record_map.check_same(record_map)
                record_map.check_capacity(earlier.n_records + records.n_records)
            # Everything was fixed and checked from public numbers. Only now are records read.
            site = record_statistics(records, record_map)
            self.statistics_ = site if earlier is None else earlier.merge(site)
            self.total_records_ = total
        return self

    def _check_sums(self) -> None:
        """Refuse what one pass over the records of several sites cannot do."""
        check_parameters(self)
        self._need_known_mean(
            "for partial_fit and fit_statistics",
            "finding means privately reads the records several times",
        )
        for name, usual in _ONE_REPLACED.items():
            if getattr(self, name, usual) != usual:
                raise ParameterError(
                    f"{name} must be left out for partial_fit and fit_statistics, got "
                    f"{shown(getattr(self, name))}: sums of several sites are those of records "
                    "that are replaced one by one. Use fit on all records at once."
                )
        for name in ("bandwidth", "candidate_pairs"):
            if getattr(self, name, None) is not None:
                raise ParameterError(
                    f"{name} must be left out for partial_fit and fit_statistics: sums of several "
                    "sites are of all pairs. Use fit on all records at once."
                )
        for name, done in (("bounds", "clipped"), ("transforms", "mapped")):
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"{name} must be None for partial_fit and fit_statistics, got some: sums of "
                    f"several sites do not say how their records were {done}. Use fit on all "
                    "records at once."
                )

    @abstractmethod
    def fit_statistics(self, statistics: Any = None) -> Self:
        """Charge, and release the covariance of the records that were summed."""

    @abstractmethod
    def _record_map(self, n_records: int, n_features: int, **known: Any) -> RecordMap:
        """Certify what is declared, and return the map of the records that follows from it."""

    def _total(self, total_records: object, declared: int | None) -> int:
        """Return the planned number of rows, given now or in an earlier call."""
        if total_records is None and declared is not None:
            return declared
        cure = (
            "it is the public number of rows that all calls of partial_fit, at all sites, will "
            "have together."
        )
        total = check_integer("total_records", total_records, at_least=1, cure=cure)
        if declared not in (None, total):
            raise ParameterError(
                f"total_records must be {declared:,} as in the first call, got {total:,}: leave it "
                "out, or start with a new estimator."
            )
        return total

    def _held(self, statistics: object) -> Statistics:
        """Return the statistics to release: those given, or those of `partial_fit`."""
        from hushcov.kernel.sums.statistics import Statistics

        self._check_sums()
        if statistics is None:
            statistics = getattr(self, "statistics_", None)
        if statistics is None:
            raise DataError(
                f"statistics is required, and this {type(self).__name__} holds none: call "
                "partial_fit first, or pass Statistics.load(path)."
            )
        if not isinstance(statistics, Statistics):
            raise DataError(
                f"statistics must be Statistics, got {type(statistics).__name__}: use partial_fit, "
                "Statistics.load or hushcov.kernel.sums.gram.second_moments."
            )
        return statistics

    def __sklearn_is_fitted__(self) -> bool:
        # Sums that are not released yet are no estimate.
        return hasattr(self, "release_")

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "statistics_"):
            raise DataError(_PICKLED.format(name=type(self).__name__))
        state: dict[str, Any] = super().__getstate__()
        return state
