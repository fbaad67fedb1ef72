"""What is checked: a covariance model and the paper's parameters for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hushcov.mechanisms.multiscale import (
    PublicInputs,
    Schedule,
    TheoremParameters,
    theorem_parameters,
)
from hushcov.simulate import sparse_covariance, wishart_moments

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A covariance model with the theorem's parameters; the smallest case that can be verified."""

    model: str
    parameters: TheoremParameters

    @cached_property
    def truth(self) -> FloatArray:
        """Sigma, with operator norm sigma^2: the largest the theorem allows."""
        inputs = self.parameters.inputs
        unit = sparse_covariance(self.model, inputs.n_features, inputs.row_sparsity)
        return np.asarray(inputs.scale**2 * unit)

    @cached_property
    def upper(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns of the upper triangle, in the samplers' order."""
        return np.triu_indices(self.parameters.inputs.n_features)

    @cached_property
    def entry_laws(self) -> tuple[FloatArray, npt.NDArray[np.intp]]:
        """The different laws of products X_i X_j, and how many entries have each.

        A law is a column: the covariance, and the product of the two variances.
        """
        (rows, columns), variances = self.upper, np.diag(self.truth)
        laws = np.stack([self.truth[rows, columns], variances[rows] * variances[columns]])
        unique, counts = np.unique(laws, axis=1, return_counts=True)
        return unique, counts

    @property
    def base_threshold(self) -> float:
        """t_0."""
        return self.parameters.thresholds[0]

    @property
    def target(self) -> float:
        """The operator-norm error alpha sigma^2 that Theorem 1 promises."""
        inputs = self.parameters.inputs
        return inputs.target_error * inputs.scale**2

    def draw_covariance(self, seed: int, truth: FloatArray | None = None) -> FloatArray:
        """The upper triangle of one S of n Gaussian records with covariance `truth`."""
        sigma = self.truth if truth is None else truth
        moments = wishart_moments(sigma, self.parameters.inputs.n_records, random_state=seed)
        return np.asarray(moments.covariance[self.upper])

    def symmetric(self, upper: FloatArray) -> FloatArray:
        """The full matrix of an upper triangle."""
        d = self.parameters.inputs.n_features
        matrix = np.zeros((d, d))
        rows, columns = self.upper
        matrix[rows, columns] = upper
        matrix[columns, rows] = upper
        return matrix


def make_setting(
    model: str,
    n_features: int,
    row_sparsity: int,
    *,
    n_records: int | None = None,
    target_error: float = 0.25,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    failure_probability: float = 0.1,
    scale: float = 1.0,
) -> Setting:
    """Build a setting; without `n_records` at the smallest n with the theorem's r and b."""
    inputs = PublicInputs(
        n_records=1 if n_records is None else n_records,
        n_features=n_features,
        row_sparsity=row_sparsity,
        target_error=target_error,
        epsilon=epsilon,
        delta=delta,
        failure_probability=failure_probability,
        scale=scale,
    )
    parameters = theorem_parameters(inputs)
    if n_records is None:
        parameters = theorem_parameters(replace(inputs, n_records=parameters.smallest_accurate_n))
    return Setting(model, parameters)


def at_records(setting: Setting, n_records: int) -> Setting:
    """The same model at another number of records."""
    inputs = replace(setting.parameters.inputs, n_records=n_records)
    return Setting(setting.model, theorem_parameters(inputs))


def ideal_schedule(schedule: Schedule) -> Schedule:
    """The same tests, all of them kept: the law of the ideal estimator."""
    levels = tuple(
        replace(level, quota=level.candidates, selection_scale=None) for level in schedule.levels
    )
    return replace(schedule, levels=levels)
