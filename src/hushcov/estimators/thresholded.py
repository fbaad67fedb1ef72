"""`ThresholdedCovariance`: the thresholded sample covariance, without any privacy."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from hushcov._arrays import FloatArray, IntArray, is_tensor
from hushcov._validation import check_choice, check_integer, check_real, shown
from hushcov.estimators.base import open_named
from hushcov.estimators.options import with_options
from hushcov.exceptions import DataError, ParameterError
from hushcov.kernel.records.base import PartitionedRecords
from hushcov.options import check_parameters
from hushcov.postprocess import RULES, pseudo_inverse, shrink

_THRESHOLDS = ("universal", "adaptive")
_MOST, _MOST_CONSTANTS = 1e100, 10**6  # products with them do not overflow
_LARGEST_CONSTANT = 4.0  # the end of the grid of Cai and Liu, whose theory asks for 2


@with_options
class ThresholdedCovariance(EmpiricalCovariance):
    """Thresholded sample covariance. NOT PRIVATE: a reference for comparisons.

    Nothing here is released under a guarantee and nothing is charged to a ledger: what is fitted
    to sensitive records must not be published. It is what the sparse private estimators would
    ideally find: the sample covariance with all small entries set to zero, by the universal
    threshold of Bickel and Levina or the entry-adaptive one of Cai and Liu.

    Parameters
    ----------
    rule : {"hard", "soft", "scad", "adaptive_lasso"}, default="hard"
        What becomes of an entry: see `hushcov.postprocess`. The diagonal is kept.
    threshold : {"universal", "adaptive"}, default="universal"
        With p features, n records and the constant c, entry (i, j) is thresholded at
        c sqrt(theta_ij log(p) / n). `"universal"` takes theta_ij = 1 for features divided by their
        sample standard deviations, in which unit everything is done, so that the fit follows any
        change of units; in the unit of the data theta_ij is the product of the two variances.
        (Bickel and Levina's threshold is one number in the unit of the data, which suits features
        of equal variance; those are treated as they do.) `"adaptive"` estimates by theta_ij the
        variance of the product of the two centred features.
    constant : float or "cv", default=2.0
        The constant c >= 0; 0 keeps the sample covariance. `"cv"` takes from an equally spaced
        grid on [0, 4] the one with the least cross-validated error: the squared Frobenius distance
        of the thresholded covariance of the training records from the sample covariance of the
        held-out ones. It is taken in the unit of the data for `"adaptive"`, as by Cai and Liu, so
        that features of large variance count most; divide by the scales if that is not meant.
    n_splits : int, default=5
        Folds of the cross-validation; each must have two records or more.
    n_constants : int, default=41
        Points of the grid of the cross-validation; 41 are 0.1 apart.
    assume_centered : bool, default=False
        Whether the features have mean zero, so that no mean is subtracted.
    random_state : None, int or RandomState
        How the records are shuffled into folds; for `constant="cv"` only.

    Attributes
    ----------
    covariance_ : ndarray of shape (n_features, n_features)
        The estimate. It need not be positive semidefinite; `hushcov.postprocess.project_psd`
        makes it so.
    precision_ : ndarray of shape (n_features, n_features)
        Its inverse, with zeros in directions where there is none.
    support_ : boolean ndarray of shape (n_features, n_features)
        Where the estimate is not zero.
    threshold_ : ndarray of shape (n_features, n_features)
        The threshold of each entry in the unit of the data; zero on the diagonal.
    constant_ : float
        The constant, as given or as chosen.
    location_ : ndarray of shape (n_features,)
        The sample mean; zeros if `assume_centered`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,), where the columns have names

    References
    ----------
    Bickel and Levina, "Covariance regularization by thresholding", Ann. Statist. 36 (2008).
    Rothman, Levina and Zhu, "Generalized thresholding of large covariance matrices", JASA 104
    (2009).
    Cai and Liu, "Adaptive thresholding for sparse covariance matrix estimation", JASA 106 (2011).

    Examples
    --------
    >>> from hushcov import ThresholdedCovariance
    >>> from hushcov.simulate import gaussian_records, sparse_covariance
    >>> X = gaussian_records(sparse_covariance("block", 20, 5), 2_000)
    >>> est = ThresholdedCovariance(rule="adaptive_lasso", threshold="adaptive").fit(X)
    >>> int(est.support_.sum())
    100
    """

    rule: str = "hard"
    threshold: str = "universal"
    constant: Any = 2.0
    n_splits: int = 5
    n_constants: int = 41
    store_precision: ClassVar[bool] = True  # for scikit-learn
    assume_centered: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Estimate the covariance of the records in `X`, without privacy.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a .npy file, or Records
            With two records or more.
        y : ignored
        """
        self._check_parameters()
        X = self._table(X)
        location, standard, deviation = _standardised(X, self.assume_centered)
        constant = (
            self._cross_validated(standard, deviation) if self._cv() else float(self.constant)
        )
        covariance, levels = self._moments(standard)
        levels *= constant
        np.fill_diagonal(levels, 0.0)
        unit = np.multiply.outer(deviation, deviation)
        self.location_ = location
        self.constant_ = constant
        with np.errstate(over="ignore"):  # nothing exceeds an infinite threshold
            self.threshold_ = levels * unit
        self.covariance_ = RULES[self.rule](covariance, levels) * unit
        self.support_ = self.covariance_ != 0
        self.precision_ = pseudo_inverse(self.covariance_)
        return self

    def _cv(self) -> bool:
        return isinstance(self.constant, str) and self.constant == "cv"

    def _check_parameters(self) -> None:
        check_choice("rule", self.rule, tuple(RULES))
        check_choice("threshold", self.threshold, _THRESHOLDS)
        if not self._cv():
            cure = "pass a number that is not negative, or 'cv' to choose one by cross-validation."
            if check_real("constant", self.constant, at_most=_MOST, cure=cure) < 0:
                raise ParameterError(
                    f"constant must be at least 0, got {shown(self.constant)}: {cure}"
                )
        check_integer("n_splits", self.n_splits, at_least=2, cure="5 is customary.")
        most, cure = _MOST_CONSTANTS, "41 is customary."
        check_integer("n_constants", self.n_constants, at_least=2, at_most=most, cure=cure)
        check_parameters(self)
        self._generator()

    def _generator(self) -> Any:
        try:
            return check_random_state(self.random_state)
        except Exception:  # the refusal shows the object, whose own repr may raise anything
            raise ParameterError(
                "random_state must be None, a non-negative integer or a numpy RandomState, got "
                f"{shown(self.random_state)}: pass one of them."
            ) from None

    def _table(self, X: Any) -> FloatArray:
        """Return all rows in one array; opened as Records, whose refusals quote no value."""
        blocks: list[FloatArray] = []

        def keep(block: FloatArray) -> IntArray:
            blocks.append(block)
            return np.zeros(0, dtype=np.int64)

        records = open_named(self, X)
        if isinstance(records, PartitionedRecords) or is_tensor(X):
            raise DataError(
                f"X must be an array or in files, got a {type(X).__name__}: this estimator needs "
                "all records in memory; convert it to an array."
            )
        if records.n_records < 2:
            raise DataError(
                "X must have at least 2 records, got 1 sample while a minimum of 2 is required: "
                "one record has no variance."
            )
        records.map_sum(keep)
        return np.concatenate(blocks)

    def _moments(self, records: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sample covariance of standardised records, and the thresholds for the constant 1."""
        if not self.assume_centered:
            records = records - records.mean(axis=0)
        n, p = records.shape
        S = records.T @ records / n
        if self.threshold == "universal":
            theta = np.ones_like(S)
        else:
            # The mean over records of (x_i x_j - s_ij)^2, multiplied out.
            squares = np.square(records)
            theta = np.maximum(squares.T @ squares / n - np.square(S), 0.0)
        return S, np.sqrt(theta * (math.log(p) / n))

    def _cross_validated(self, standard: FloatArray, deviation: FloatArray) -> float:
        """Return the constant of the grid with the least error on held-out records."""
        n, p = standard.shape
        if n < 2 * self.n_splits:
            raise DataError(
                f"X must have at least 2 n_splits = {2 * self.n_splits} records for "
                f"constant='cv', got {n}: give more records or fewer splits."
            )
        pairs = np.triu_indices(p, 1)
        # By what standardised features are multiplied where errors of the estimate are summed up.
        weights, largest = np.ones_like(deviation), deviation.max()
        if self.threshold != "universal":
            weights = deviation / largest if largest > 0 else deviation
        weights = weights[pairs[0]] * weights[pairs[1]]
        constants = np.linspace(0.0, _LARGEST_CONSTANT, self.n_constants)
        losses = np.zeros(self.n_constants)
        folds = KFold(self.n_splits, shuffle=True, random_state=self._generator())
        for train, held_out in folds.split(standard):
            covariance, levels = self._moments(standard[train])
            target = self._moments(standard[held_out])[0][pairs]
            entries, levels = covariance[pairs], levels[pairs]
            for index, constant in enumerate(constants):
                error = weights * (shrink(self.rule, entries, constant * levels) - target)
                losses[index] += error @ error
        return float(constants[np.argmin(losses)])


def _standardised(
    X: FloatArray, assume_centered: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, records divided by their standard deviations, and these; 0 for constant features.

    Rules and thresholds follow a change of units, so that nothing but the choice of the constant
    depends on the unit; in this one no product over- or underflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        location = np.zeros(X.shape[1]) if assume_centered else X.mean(axis=0)
        centred = X - location
        if not assume_centered:
            # The mean of equal numbers may differ from them by a rounding, which is no variance.
            centred[:, np.equal(X, X[0]).all(axis=0)] = 0.0
        variance = np.einsum("ij,ij->j", centred, centred) / len(X)
    if not np.isfinite(variance).all():
        raise DataError(
            "X must have variances that a double can hold, got one that is too large: divide the "
            "features by a constant."
        )
    deviation = np.sqrt(variance)
    centred /= np.where(deviation > 0, deviation, 1.0)
    return location, centred, deviation
