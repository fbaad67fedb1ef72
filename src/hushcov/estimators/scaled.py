"""Estimators on features brought to scale 1, by public scales or by private ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_real
from hushcov.accounting import Guarantee, calibrate_zcdp
from hushcov.estimators.base import FloatArray, PrivateCovariance
from hushcov.mechanisms import Release
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.scales import ScaleParameters, release_scales, scale_parameters
from hushcov.noise import Entropy, entropy_source
from hushcov.postprocess import normal_interval, project_psd, sampling_sd, thresholded_interval
from hushcov.records import Records, check_feature_scale


class ScaledCovariance(PrivateCovariance):
    """Base of estimators that divide features by their scales first; not for use by itself."""

    epsilon: float | None
    delta: float | None
    feature_scale: Any
    scale_share: float
    positive_semidefinite: bool
    random_state: object

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the covariance of the records in `X`.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a .npy file, or Records
        y : ignored
        """
        records = self._open(X)
        scales = self._scale_parameters(records.n_records, records.n_features)
        inputs = self._inputs(records.n_records, records.n_features, scales)
        self._public_scale(records.n_features)
        self._certify(inputs, private=self.random_state is None)
        # Nothing has been read from the records so far, and all that follows is certified.
        entropy = entropy_source(self.random_state)
        self.feature_scale_ = (
            self._public_scale(records.n_features)
            if scales is None
            else release_scales(records, scales, entropy).scale
        )
        release = self._run(records, inputs, entropy)
        self.n_records_ = records.n_records
        covariance = self._threshold(release)
        if self.positive_semidefinite:
            covariance = project_psd(covariance)
        return self._store(release, covariance)

    def public_inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Every public input for this size, with the privacy events of estimating scales.

        `n_records` counts what is averaged: half the rows if not `assume_centered`.
        """
        return self._inputs(n_records, n_features, self._scale_parameters(n_records, n_features))

    @property
    def noise_sd_(self) -> FloatArray:
        """Standard deviation of the privacy noise of each released entry, NaN elsewhere."""
        check_is_fitted(self, "release_")
        off_diagonal, diagonal = self._noise
        deviation = np.full_like(self.covariance_, off_diagonal)
        np.fill_diagonal(deviation, diagonal)
        deviation *= np.multiply.outer(self.feature_scale_, self.feature_scale_)
        return np.where(self._released, deviation, np.nan)

    def covariance_interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Ends of an interval for every entry of the covariance that is not zero in the estimate.

        They count sampling error (as for Gaussian records) and privacy noise, and each covers
        the true entry with probability `level`, given that the entry passed the threshold. NaN
        where the estimate is zero. Post-processing: it costs no privacy.

        Returns
        -------
        lower, upper : ndarray of shape (n_features, n_features)
        """
        check_is_fitted(self, "release_")
        level = check_real("level", level, above=0, at_most=1, cure="0.95 is usual.")
        estimate = self.release_.covariance()
        # A constant feature has neither noise nor spread.
        deviation = np.hypot(self.noise_sd_, sampling_sd(estimate, self.n_records_))
        deviation = np.maximum(deviation, np.finfo(float).tiny)
        lower, upper = np.full_like(estimate, np.nan), np.full_like(estimate, np.nan)
        at = np.nonzero(np.triu(self._threshold(self.release_), 1))
        threshold = self._threshold_matrix(self.release_)[at]
        ends = thresholded_interval(estimate[at], deviation[at], threshold, level)
        plain = normal_interval(np.diag(estimate), np.diag(deviation), level)
        for matrix, entries, diagonal in zip((lower, upper), ends, plain, strict=True):
            matrix[at] = matrix.T[at] = entries
            np.fill_diagonal(matrix, diagonal)
        return lower, upper

    @property
    def _noise(self) -> tuple[float, float]:
        assert self.release_.noise_sd is not None, "mechanisms on scaled features state their noise"
        return self.release_.noise_sd

    @property
    def _released(self) -> Any:
        """Where the release holds a noisy value."""
        return np.ones(self.release_.integers.shape, dtype=bool)

    def _threshold_matrix(self, release: Release) -> FloatArray:
        """What an off-diagonal entry must exceed to be kept."""
        assert release.feature_scale is not None
        scale = release.feature_scale
        return self._threshold_in_scales(release) * np.multiply.outer(scale, scale)

    def _threshold(self, release: Release) -> FloatArray:
        """The released matrix without off-diagonal entries that noise alone may have made."""
        covariance = release.covariance()
        small = np.abs(covariance) <= self._threshold_matrix(release)
        np.fill_diagonal(small, False)
        covariance[small] = 0.0
        return covariance

    def _public_scale(self, n_features: int) -> FloatArray:
        """The scales given; ones where they are still to be estimated."""
        given = 1.0 if self.feature_scale is None else self.feature_scale
        return check_feature_scale(given, n_features)

    def _scale_parameters(self, n_records: int, n_features: int) -> ScaleParameters | None:
        """Parameters of the private scales, if there are to be any."""
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_given("epsilon", "delta")
        cure = "it is the share of the budget that estimating scales may spend."
        share = check_real("scale_share", self.scale_share, above=0, at_most=0.9, cure=cure)
        if self.feature_scale is not None:
            return None
        rho = calibrate_zcdp(self.epsilon, self.delta)  # type: ignore[arg-type]
        return scale_parameters(n_records, n_features, math.sqrt(2 * share * rho))

    def _inputs(
        self, n_records: int, n_features: int, scales: ScaleParameters | None
    ) -> ReleaseInputs:
        return ReleaseInputs(
            n_records=n_records,
            n_features=n_features,
            row_sparsity=self._row_sparsity(n_features),
            epsilon=self.epsilon,  # type: ignore[arg-type]
            delta=self.delta,  # type: ignore[arg-type]
            spent=() if scales is None else (scales.event,),
        )

    @abstractmethod
    def _row_sparsity(self, n_features: int) -> int:
        """Declared nonzeros of a row."""

    @abstractmethod
    def _certify(self, inputs: ReleaseInputs, *, private: bool) -> Guarantee:
        """Refuse, from public inputs alone, what cannot be certified."""

    @abstractmethod
    def _run(self, records: Records, inputs: ReleaseInputs, entropy: Entropy) -> Release:
        """Run the mechanism on features at `self.feature_scale_`."""

    @abstractmethod
    def _threshold_in_scales(self, release: Release) -> float:
        """Threshold of off-diagonal entries, in units of their features' scales."""
