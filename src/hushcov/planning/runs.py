"""One planned run of a mechanism on features at scale 1: everything an estimator asks of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from hushcov._arrays import FloatArray
from hushcov.accounting import Guarantee
from hushcov.mechanisms.gaussian import GaussianParameters, certify_gaussian, release_gaussian
from hushcov.mechanisms.multiscale import (
    CalibratedParameters,
    certify,
    grid_for,
    release_multiscale,
)
from hushcov.mechanisms.screened import ScreenedParameters, certify_screened, release_screened
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation
from hushcov.records import Records, ScaledRecords, second_moments
from hushcov.release import Release

Parameters = TypeVar("Parameters")


def _keep_all(_: Release) -> float:
    return 0.0


@dataclass(frozen=True)
class Run(Generic[Parameters]):
    """A mechanism with the parameters that were planned from public inputs."""

    parameters: Parameters
    certified_by: Callable[..., Guarantee]
    released_by: Callable[[Records, FloatArray, Parameters, Entropy], Release]
    threshold_of: Callable[[Release], float] = _keep_all

    def certify(self, *, private: bool) -> Guarantee:
        """Refuse, before any record is read, what cannot be certified."""
        return self.certified_by(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """Run the mechanism."""
        return self.released_by(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """What an off-diagonal entry must exceed to be kept, in units of its features' scales."""
        return self.threshold_of(release)


def screened_run(parameters: ScreenedParameters, *, sparse: bool) -> Run[ScreenedParameters]:
    """A screened release, thresholded at a number of deviations, noise and sampling together."""

    def threshold(release: Release) -> float:
        assert release.noise_sd is not None
        deviation = detection_deviation(release.noise_sd[0], parameters.inputs.n_records)
        return parameters.design.keep_above * deviation

    release = partial(release_screened, sparse=sparse)
    return Run(parameters, certify_screened, release, threshold)


def gaussian_run(parameters: GaussianParameters, level: float) -> Run[GaussianParameters]:
    """The Gaussian mechanism, thresholded at `level`."""
    return Run(parameters, certify_gaussian, release_gaussian, lambda _: level)


def multiscale_run(parameters: CalibratedParameters) -> Run[CalibratedParameters]:
    """The multiscale mechanism with calibrated values, which thresholds by itself."""
    return Run(parameters, partial(certify, exact_statistic=False), _release_scaled)


def _release_scaled(
    records: Records, feature_scale: FloatArray, parameters: CalibratedParameters, entropy: Entropy
) -> Release:
    """See `release_multiscale`, which knows one scale for all features."""
    moments = second_moments(ScaledRecords(records, feature_scale), grid_for(parameters))
    release = release_multiscale(moments, parameters, entropy)
    return replace(release, feature_scale=feature_scale)
