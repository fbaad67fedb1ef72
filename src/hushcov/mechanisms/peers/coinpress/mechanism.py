"""CoinPress as it runs: exact Gram matrices, their noise, and what is computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Guarantee
from hushcov.mechanisms.gaussian import symmetric_noise
from hushcov.mechanisms.peers.coinpress.parameters import (
    OUTPUT_BITS,
    REACH,
    ROOM,
    CoinPressParameters,
)
from hushcov.noise import Entropy, check_entropy
from hushcov.records import FeatureGrid, Progress, Records, TransformedRecords, row_bounded_gram
from hushcov.release import Making, Release, named_parts

#: The exact Gram matrix of the records times an integer matrix.
GramOf = Callable[[FloatArray], IntArray]


def certify_coinpress(parameters: CoinPressParameters, *, private: bool) -> Guarantee:
    """Let the accountant bound the events of these very parameters, or raise.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The release is post-processing of one
    Gaussian mechanism for each step, whose noise is drawn exactly; `docs/proofs/coinpress.md`.
    """
    return parameters.inputs.certify(parameters.events, private=private)  # proof: step 4


def release_coinpress(
    records: Records,
    feature_scale: npt.NDArray[np.float64],
    parameters: CoinPressParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> Release:
    """Certify, pass over the records once for each step, and return the last step's covariance.

    Privacy
    -------
    See `certify_coinpress`. `feature_scale` must be public, or released by the events in
    `parameters.inputs.spent`; it may be anything that is not computed from the records otherwise.
    """
    inputs = parameters.inputs
    inputs.check_size(records)
    check_entropy(entropy)
    guarantee = certify_coinpress(parameters, private=entropy.private)
    gram_of = transformed_gram(records, feature_scale, parameters, progress=progress)
    transcript = run_steps(gram_of, parameters, entropy.generator)
    return Release(
        mechanism="coinpress",
        integers=transcript.integers,
        unit=parameters.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict(),
        feature_scale=np.array(feature_scale, dtype=np.float64),
        making=Making(
            n_averaged=parameters.inputs.n_records,
            parts=named_parts(guarantee.events, parameters.part_names),
        ),
    )


def transformed_gram(
    records: Records,
    feature_scale: npt.NDArray[np.float64],
    parameters: CoinPressParameters,
    *,
    progress: Progress | None = None,
) -> GramOf:
    """The exact statistic of a step, as a function of its public integer matrix."""
    d = parameters.inputs.n_features
    radius = REACH * math.sqrt(parameters.eigenvalue_bounds[1])
    grid = FeatureGrid(feature_scale, radius, parameters.record_half_width)
    scale = np.full(d, 1 / (grid.step * parameters.matrix_step))
    bound = parameters.norm_bound
    transformed_grid = FeatureGrid(scale, ROOM * parameters.row_norm, ROOM * bound)

    def gram_of(matrix: FloatArray) -> IntArray:
        # proof: step 1
        transformed = TransformedRecords(records, grid, matrix)
        return row_bounded_gram(transformed, transformed_grid, bound, progress=progress)

    return gram_of


@dataclass(frozen=True, eq=False)
class Transcript:
    """All that the guarantee covers: each step's noisy Gram matrix, and the answer from them."""

    noisy_grams: tuple[IntArray, ...]
    integers: IntArray


def run_steps(
    gram_of: GramOf, parameters: CoinPressParameters, generator: np.random.Generator
) -> Transcript:
    """Draw the noise of every step and compute the rest, which depends on records no further."""
    d, high = parameters.inputs.n_features, parameters.eigenvalue_bounds[1]
    matrix = _rounded(np.eye(d) / math.sqrt(high), parameters)
    grams: list[IntArray] = []
    for sigmas in zip(parameters.sigmas, parameters.diagonal_sigmas, strict=True):
        gram = gram_of(matrix)
        grams.append(gram + symmetric_noise(generator, d, *sigmas))  # proof: step 3
        inverse = np.asarray(np.linalg.inv(matrix * parameters.matrix_step), dtype=np.float64)
        # The noisy covariance is root root', in units of the scales.
        root = inverse @ _moment_root(grams[-1], parameters)
        if len(grams) < parameters.n_steps:
            matrix = _next_matrix(root, inverse, parameters)  # proof: step 5
    estimate = np.rint(root @ root.T / parameters.unit)
    largest = 2.0 ** (OUTPUT_BITS + 1)
    return Transcript(tuple(grams), np.clip(estimate, -largest, largest).astype(np.int64))


def _moment_root(noisy: IntArray, parameters: CoinPressParameters) -> FloatArray:
    """A matrix R such that R R' are the noisy second moments without negative eigenvalues."""
    moments = noisy * (parameters.step**2 / parameters.inputs.n_records)
    values, vectors = np.linalg.eigh(moments)
    # The published code takes singular values: negative eigenvalues change their sign there.
    values = np.abs(values) if parameters.constants == "paper" else np.maximum(values, 0.0)
    return np.asarray(vectors * np.sqrt(values))


def _next_matrix(
    root: FloatArray, inverse: FloatArray, parameters: CoinPressParameters
) -> FloatArray:
    """The matrix that makes the identity of an upper estimate of the covariance.

    Any M^(-1/2) times a rotation would do. The symmetric one needs no transposes, and its
    eigenvalues are kept within what the bounds allow for the covariance.
    """
    upper = root @ root.T + parameters.slack * (inverse @ inverse.T)
    values, vectors = np.linalg.eigh(upper)
    half = vectors * np.clip(values, *parameters.eigenvalue_bounds) ** -0.25
    return _rounded(half @ half.T, parameters)  # times its own transpose: exactly symmetric


def _rounded(matrix: FloatArray, parameters: CoinPressParameters) -> FloatArray:
    """In units of `matrix_step`, integers."""
    return np.rint(matrix / parameters.matrix_step)
