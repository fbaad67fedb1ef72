"""One planned run of a mechanism on features at scale 1: everything an estimator asks of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hushcov.accounting import Guarantee
from hushcov.mechanisms.gaussian import GaussianParameters, certify_gaussian, release_gaussian
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.multiscale import (
    CalibratedParameters,
    certify,
    grid_for,
    release_multiscale,
)
from hushcov.mechanisms.screened import ScreenedParameters, certify_screened, release_screened
from hushcov.noise import Entropy
from hushcov.planning import multiscale_inputs, plan_multiscale
from hushcov.postprocess import detection_deviation
from hushcov.records import Records, ScaledRecords, second_moments
from hushcov.release import Release

FloatArray = npt.NDArray[np.float64]


class Run(Protocol):
    """What has been planned from public inputs, and can be certified and run."""

    def certify(self, *, private: bool) -> Guarantee:
        """Refuse, before any record is read, what cannot be certified."""

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """Run the mechanism."""

    def threshold(self, release: Release) -> float:
        """What an off-diagonal entry must exceed to be kept, in units of its features' scales."""


@dataclass(frozen=True)
class ScreenedRun:
    """A screened release, thresholded as its design says."""

    parameters: ScreenedParameters
    sparse: bool = False

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_screened`."""
        return certify_screened(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_screened`."""
        return release_screened(
            records, feature_scale, self.parameters, entropy, sparse=self.sparse
        )

    def threshold(self, release: Release) -> float:
        """A number of standard deviations, noise and sampling together."""
        assert release.noise_sd is not None
        n_records = self.parameters.inputs.n_records
        deviation = detection_deviation(release.noise_sd[0], n_records)
        return self.parameters.design.keep_above * deviation


@dataclass(frozen=True)
class GaussianRun:
    """The Gaussian mechanism, thresholded at `level`."""

    parameters: GaussianParameters
    level: float

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_gaussian`."""
        return certify_gaussian(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_gaussian`."""
        return release_gaussian(records, feature_scale, self.parameters, entropy)

    def threshold(self, release: Release) -> float:
        """A number given or computed before."""
        return self.level


@dataclass(frozen=True)
class MultiscaleRun:
    """The multiscale mechanism with calibrated values, which thresholds by itself."""

    parameters: CalibratedParameters

    @classmethod
    def planned(cls, inputs: ReleaseInputs) -> MultiscaleRun:
        """The run that the planner chooses."""
        return cls(plan_multiscale(multiscale_inputs(inputs), "value").parameters)

    def certify(self, *, private: bool) -> Guarantee:
        """See `hushcov.mechanisms.multiscale.certify`."""
        return certify(self.parameters, private=private, exact_statistic=False)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_multiscale`."""
        scaled = ScaledRecords(records, feature_scale)
        moments = second_moments(scaled, grid_for(self.parameters))
        release = release_multiscale(moments, self.parameters, entropy)
        return dataclasses.replace(release, feature_scale=feature_scale)

    def threshold(self, release: Release) -> float:
        """None: what is released was kept by the mechanism."""
        return 0.0
