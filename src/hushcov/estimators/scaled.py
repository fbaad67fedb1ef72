"""Estimators on features brought to scale 1, by public scales or by private ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_choice, check_real
from hushcov.accounting import calibrate_zcdp
from hushcov.estimators.base import FloatArray, PrivateCovariance
from hushcov.estimators.runs import Run
from hushcov.exceptions import ParameterError
from hushcov.mechanisms import Release
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.scales import ScaleParameters, release_scales, scale_parameters
from hushcov.noise import entropy_source
from hushcov.postprocess import (
    hard_threshold,
    normal_interval,
    project_psd,
    sampling_sd,
    thresholded_interval,
)
from hushcov.records import check_feature_scale

# Measured: the share at which errors of the scales and of the release balance; see
# docs/proofs/scales.md.
_SHARE, _LARGEST_SHARE = 5.0, 0.2


class ScaledCovariance(PrivateCovariance):
    """Base of estimators that divide features by their scales first; not for use by itself."""

    epsilon: float | None
    delta: float | None
    feature_scale: Any
    scale_share: Any
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
        public_scale = self._public_scale(records.n_features)
        run = self._planned(inputs)
        run.certify(private=self.random_state is None)
        # Nothing has been read from the records so far, and all that follows is certified.
        entropy = entropy_source(self.random_state)
        if scales is None:
            self.feature_scale_ = public_scale
        else:
            self.feature_scale_ = release_scales(records, scales, entropy).scale
        release = run.release(records, self.feature_scale_, entropy)
        self.n_records_ = records.n_records
        self._threshold = run.threshold(release)
        covariance = hard_threshold(release.covariance(), self._threshold_matrix(release))
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
        if self.release_.noise_sd is None:
            raise ParameterError(
                f"the {self.release_.mechanism} mechanism has no single noise level: use "
                "mechanism='screened' for noise_sd_ and covariance_interval."
            )
        off_diagonal, diagonal = self.release_.noise_sd
        deviation = np.full_like(self.covariance_, off_diagonal)
        np.fill_diagonal(deviation, diagonal)
        deviation *= np.multiply.outer(self.feature_scale_, self.feature_scale_)
        return np.where(self.release_.released, deviation, np.nan)

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
        threshold = self._threshold_matrix(self.release_)
        at = np.nonzero(np.triu(hard_threshold(estimate, threshold), 1))
        threshold = threshold[at]
        ends = thresholded_interval(estimate[at], deviation[at], threshold, level)
        plain = normal_interval(np.diag(estimate), np.diag(deviation), level)
        for matrix, entries, diagonal in zip((lower, upper), ends, plain, strict=True):
            matrix[at] = matrix.T[at] = entries
            np.fill_diagonal(matrix, diagonal)
        return lower, upper

    def _threshold_matrix(self, release: Release) -> FloatArray:
        """What an off-diagonal entry must exceed to be kept."""
        assert release.feature_scale is not None
        scale = release.feature_scale
        return self._threshold * np.multiply.outer(scale, scale)

    def _public_scale(self, n_features: int) -> FloatArray:
        """The scales given; ones where they are still to be estimated."""
        given = 1.0 if self.feature_scale is None else self.feature_scale
        return check_feature_scale(given, n_features)

    def _scale_parameters(self, n_records: int, n_features: int) -> ScaleParameters | None:
        """Parameters of the private scales, if there are to be any."""
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_given("epsilon", "delta")
        rho = calibrate_zcdp(self.epsilon, self.delta)
        share = self._scale_share(n_records, n_features, rho)
        if self.feature_scale is not None:
            return None
        return scale_parameters(n_records, n_features, math.sqrt(2 * share * rho))

    def _scale_share(self, n_records: int, n_features: int, rho: float) -> float:
        """Share of the budget for scales; "auto" balances their errors against what is left."""
        if isinstance(self.scale_share, str):
            check_choice("scale_share", self.scale_share, ("auto",))
            return min(_LARGEST_SHARE, _SHARE * math.sqrt(n_features / rho) / n_records)
        cure = 'it is the share of the budget that estimating scales spends; "auto" chooses it.'
        return check_real("scale_share", self.scale_share, above=0, at_most=0.9, cure=cure)

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
    def _planned(self, inputs: ReleaseInputs) -> Run:
        """Choose what to run, from public inputs alone, and store what is to be known of it."""
