"""What all estimators share: opening records, storing a release, and what it says on its limits."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import linalg
from sklearn.covariance import EmpiricalCovariance
from sklearn.utils.validation import check_is_fitted, validate_data

from hushcov._validation import check_choice
from hushcov.exceptions import ParameterError
from hushcov.mechanisms import Release
from hushcov.records import PairDifferences, Records, open_records

FloatArray = npt.NDArray[np.float64]


class PrivateCovariance(EmpiricalCovariance):
    """Base of the estimators; not for use by itself."""

    assume_centered: bool
    store_precision: bool

    def score(self, X_test: Any, y: Any = None) -> float:
        """Gaussian log-likelihood of `X_test` under the released covariance.

        Not covered by the guarantee: the score of sensitive rows is a new, uncharged release.
        """
        _refuse_bad_rows(X_test)
        return float(super().score(X_test, y))

    def mahalanobis(self, X: Any) -> FloatArray:
        """Squared Mahalanobis distances of rows under the released covariance.

        Not covered by the guarantee: distances of sensitive rows are a new, uncharged release.
        """
        _refuse_bad_rows(X)
        return np.asarray(super().mahalanobis(X))

    def labelled_covariance(self, library: str = "pandas") -> Any:
        """The released covariance with the names of the features.

        Parameters
        ----------
        library : {"pandas", "polars"}
            Whose DataFrame to return. Polars has no row labels: its first column, `feature`,
            has the names.
        """
        check_is_fitted(self, "covariance_")
        check_choice("library", library, ("pandas", "polars"))
        d = len(self.covariance_)
        names = [str(n) for n in getattr(self, "feature_names_in_", [f"x{i}" for i in range(d)])]
        if library == "pandas":
            import pandas as pd

            return pd.DataFrame(self.covariance_, index=names, columns=names)
        import polars as pl

        columns = {name: self.covariance_[:, i] for i, name in enumerate(names)}
        return pl.DataFrame({"feature": names} | columns)

    def _open(self, X: Any) -> Records:
        """Rows as Records. Shape and names are read; values are not, beyond conversion."""
        records = open_records(X)
        if isinstance(X, Records | str | os.PathLike):
            self.n_features_in_ = records.n_features
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        else:
            # Column names and their number only: scikit-learn's own checks of the values quote
            # them in messages, and finiteness is checked in the one pass over the data.
            validate_data(self, X, skip_check_array=True)
        return records if self.assume_centered else PairDifferences(records)

    def _store(self, release: Release, covariance: FloatArray) -> Self:
        """Keep the release and the estimate made from it."""
        self.release_ = release
        self.covariance_ = covariance
        self.support_ = covariance != 0
        self.location_ = np.zeros(len(covariance))
        self.precision_ = (
            linalg.pinvh(covariance, check_finite=False) if self.store_precision else None
        )
        return self

    def _check_flags(self, *names: str) -> None:
        for name in names:
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ParameterError(
                    f"{name} must be True or False, got {getattr(self, name)!r}: choose one."
                )

    def _check_given(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is None:
                raise ParameterError(
                    f"{name} is required: it is a public input and is never inferred from X. "
                    f"Pass {name}=... to {type(self).__name__}."
                )


def _refuse_bad_rows(X: Any) -> None:
    """Pass over the rows once, for typed refusals that quote no value."""
    open_records(X).map_sum(lambda _: np.zeros(0, dtype=np.int64))
