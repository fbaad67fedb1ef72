"""Estimators that read each record once: sums of several sites, released together."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from hushcov._validation import check_integer, shown
from hushcov.accounting import ONE_REPLACED
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import with_options
from hushcov.exceptions import DataError, ParameterError
from hushcov.options import check_parameters
from hushcov.sums.gram import record_statistics
from hushcov.sums.records import Records
from hushcov.sums.statistics import RecordMap, Statistics

_AFTER = (
    "partial_fit must come before the release, and this {name} has released: sums with more "
    "records are a new release, which is charged again. Call partial_fit on a new estimator "
    "(sklearn.base.clone), and merge with statistics that were kept."
)
_PICKLED = (
    "{name} must not be pickled or copied while it holds statistics, which are exact and not "
    "private: keep them with statistics_.save(path), or release them with fit_statistics() first."
)
# Options of whose privacy it is, as they are where it is that of one replaced record.
_ONE_REPLACED = {
    "neighbours": ONE_REPLACED.relation,
    "max_rows_per_unit": None,
    "estimand": "rows",
    "max_sample_weight": None,
}


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
        released takes no more records, and `fit` starts anew without the sums.

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
        if hasattr(self, "release_"):
            raise ParameterError(_AFTER.format(name=type(self).__name__))
        self._check_sums()
        earlier: Statistics | None = getattr(self, "statistics_", None)
        declared: int | None = getattr(self, "total_records_", None)
        with self._fresh(X):
            records = self._open(X)
            if earlier is not None:
                self._check_features(records, earlier)
            total = self._total(total_records, declared)
            record_map = self._map_for(records, total)
            if earlier is not None:
                earlier.record_map.check_same(record_map)
                record_map.check_room(earlier.n_records + records.n_records)
            # Everything was fixed and checked from public numbers. Only now are records read.
            site = record_statistics(records, record_map)
            self.statistics_ = site if earlier is None else earlier.merge(site)
            self.total_records_ = total
        return self

    def _check_sums(self) -> None:
        """Refuse what one pass over the records of several sites cannot do."""
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
        if self.bounds is not None:
            raise ParameterError(
                "bounds must be None for partial_fit and fit_statistics, got some: sums of several "
                "sites do not say how their records were clipped. Use fit on all records at once."
            )

    @abstractmethod
    def fit_statistics(self, statistics: Any = None) -> Self:
        """Charge, and release the covariance of the records that were summed."""

    @abstractmethod
    def _record_map(self, n_records: int, n_features: int, **known: Any) -> RecordMap:
        """Certify what is declared, and return the map of the records that follows from it."""

    def _map_for(self, records: Records, total: int) -> RecordMap:
        if records.gaps:
            raise ParameterError(
                "drop_nulls must be left out with partial_fit: use fit of an estimator that counts "
                "the complete records privately, or impute each value by a rule that uses its own "
                "record alone."
            )
        names = getattr(self, "feature_names_in_", None)
        named = None if names is None else tuple(str(name) for name in names)
        return self._record_map(total, records.n_features, feature_names=named)

    def _total(self, total_records: object, declared: int | None) -> int:
        """The planned number of rows, given now or in an earlier call."""
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

    def _check_features(self, records: Records, earlier: Statistics) -> None:
        if records.n_features != earlier.n_features:
            # In the words scikit-learn uses for the same refusal.
            raise DataError(
                f"X has {records.n_features} features, but {type(self).__name__} is expecting "
                f"{earlier.n_features} features as input, as in earlier calls: pass the same "
                "columns."
            )

    def _held(self, statistics: object) -> Statistics:
        """The statistics to release: those given, or those of `partial_fit`."""
        check_parameters(self)
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
                "Statistics.load or hushcov.sums.gram.second_moments."
            )
        return statistics

    def _name_features(self, statistics: Statistics) -> None:
        """Keep the number and the names of the features as `fit` does."""
        self.n_features_in_ = statistics.n_features
        names = statistics.record_map.feature_names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        # Sums that are not released yet are no estimate.
        return hasattr(self, "release_")

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "statistics_"):
            raise DataError(_PICKLED.format(name=type(self).__name__))
        state: dict[str, Any] = super().__getstate__()
        return state
