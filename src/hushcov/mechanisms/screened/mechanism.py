"""Screened release: select pairs privately, then release their values and the diagonal."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Guarantee, smallest_sigma
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.screened.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    RADIUS,
    ScreenedParameters,
    norm_spread,
    ranges,
    shrinking_bias,
    shrunk_part,
    size_cap,
    sum_sigma,
)
from hushcov.noise import TAKEN, Entropy, check_entropy, gumbel_top, rounded_normal
from hushcov.postprocess import symmetric_sparse
from hushcov.records import (
    FeatureGrid,
    ProductMap,
    Progress,
    Records,
    check_feature_scale,
)
from hushcov.release import Making, Release, named_parts

NAME = "screened"
_LARGEST_N = 2**33  # for which sums and scores stay exact, with room for weights and noise
_SURE = 4.0  # standard deviations beyond which the size of the records corrects the estimate


def certify_screened(parameters: ScreenedParameters, *, private: bool) -> Guarantee:
    """Let the accountant bound the events once more, from public inputs alone.

    Privacy
    -------
    Neighbours: replace one record; no precondition. Peeling steps are bounded-range events, the
    histogram of norms and the values are Gaussians; `docs/proofs/screened.md`.
    """
    inputs = parameters.inputs
    if inputs.n_records > _LARGEST_N:
        raise CapacityError(
            f"n_records must be at most 2**33 for exact sums, got {inputs.n_records:,}: release "
            "disjoint parts and average them."
        )
    # proof: step 8
    # proof: step 10
    return inputs.certify(parameters.events, private=private)


def release_screened(
    records: Records,
    feature_scale: FloatArray,
    parameters: ScreenedParameters,
    entropy: Entropy,
    *,
    sparse: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Certify, screen, and release the values of the selected pairs and the diagonal.

    With `sparse` the same integers come as a sparse matrix: nothing of size n_features^2 is left
    after the screen.

    Privacy
    -------
    See `certify_screened`. `feature_scale` is public or was released before. Selected pairs are
    part of the release, also those whose value comes out as zero.
    """
    check_entropy(entropy)
    guarantee = certify_screened(parameters, private=entropy.private)  # proof: step 8
    parameters.inputs.check_size(records)
    d = parameters.inputs.n_features
    scale = check_feature_scale(feature_scale, d)
    rows, columns = select_pairs(records, scale, parameters, entropy, progress=progress)
    grid = FeatureGrid(scale, RADIUS, parameters.half_width)
    products = product_map(grid, rows, columns, parameters, parameters.norm_bound)
    if parameters.norm_mu is not None:
        bound = release_norm_bound(records, products, parameters, entropy, progress=progress)
        products = product_map(grid, rows, columns, parameters, bound)
    sigma = sum_sigma(products.norm_bound, parameters.mu)  # proof: step 7
    sums = products.sum(records, progress=progress)  # proof: step 5
    sums += rounded_normal(entropy.generator, sigma, len(sums))  # proof: step 7
    release = _assemble(sums, products, sigma, parameters, guarantee)  # proof: step 9
    return release if sparse else replace(release, integers=release.integers.toarray())


def select_pairs(
    records: Records,
    feature_scale: FloatArray,
    parameters: ScreenedParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> tuple[IntArray, IntArray]:
    """Rows and columns of the selected pairs, i < j, in order.

    Each level peels the largest of rate * |score| + Gumbel noise from the pairs still there, by
    exact comparison.

    Privacy
    -------
    Neighbours: replace one record. No score moves by more than `score_sensitivity`, so a level is
    `size` bounded-range steps, and all levels together cost the bounded-range events of
    `parameters.events`. What an earlier level selected is released, so skipping it is free.
    """
    d = parameters.inputs.n_features
    if not parameters.levels:
        rows, columns = np.triu_indices(d, 1) if parameters.n_pairs else ([], [])
        return np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
    # proof: step 1
    scores = parameters.scoring.scores(records, feature_scale, progress)
    selected = np.empty(0, dtype=np.int64)
    for level in parameters.levels:
        # proof: step 2
        best = gumbel_top(entropy.generator, scores, level.rate, level.size)
        selected = np.concatenate([selected, best])
        scores[best] = TAKEN  # proof: step 3
    return _pair_of(np.sort(selected), d)


def release_norm_bound(
    records: Records,
    products: ProductMap,
    parameters: ScreenedParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> int:
    """A norm bound from the noisy median of the records' norms.

    Privacy
    -------
    Neighbours: replace one record. Each record adds one to one bin of the histogram, which moves
    by at most sqrt(2); the noise makes that `norm_mu` standard deviations. All else is
    post-processing.
    """
    assert parameters.norm_mu is not None
    counts = products.norm_histogram(records, progress=progress)
    sigma = smallest_sigma(2, parameters.norm_mu)  # proof: step 4
    noisy = counts + rounded_normal(entropy.generator, sigma, len(counts))
    above = np.cumsum(noisy[::-1])[::-1]  # records in this bin or a higher one, about
    median = int(np.flatnonzero(above >= parameters.inputs.n_records / 2)[-1:].sum())
    return products.norm_of_bin(median, parameters.design.norm_factor)  # proof: step 4


def product_map(
    grid: FeatureGrid,
    rows: IntArray,
    columns: IntArray,
    parameters: ScreenedParameters,
    norm_bound: int,
) -> ProductMap:
    """What each record contributes to the sums, bounded in norm."""
    factor_range, size_range = ranges(norm_bound)  # proof: step 6
    d, unit = parameters.inputs.n_features, parameters.integers_per_square
    return ProductMap(
        grid=grid,
        rows=rows,
        columns=columns,
        pair_weight=PAIR_WEIGHT,
        diagonal_weight=DIAGONAL_WEIGHT,
        centre=round(unit),
        norm_bound=norm_bound,
        factor_range=factor_range,
        size_range=size_range,
        size_cap=math.ceil(size_cap(d) * d * unit),
    )


def _assemble(
    sums: IntArray,
    products: ProductMap,
    sigma: int,
    parameters: ScreenedParameters,
    guarantee: Guarantee,
) -> Release:
    """Undo weights, centre and shrinkage: post-processing of the noisy sums, in a sparse matrix."""
    n, d = parameters.inputs.n_records, parameters.inputs.n_features
    unit = n * parameters.integers_per_square
    n_pairs = len(products.rows)
    shrinkage = min(1.0, max(sums[-2] / (n * products.factor_range), 1e-3))
    # One unit for all: pairs are multiples of 1 / PAIR_WEIGHT, the diagonal of 1 / DIAGONAL_WEIGHT.
    off_diagonal = sums[:n_pairs] * DIAGONAL_WEIGHT
    weight = PAIR_WEIGHT * DIAGONAL_WEIGHT
    centre = round(products.centre * n * weight * shrinkage)
    diagonal = sums[n_pairs : n_pairs + d] * PAIR_WEIGHT + centre
    pairs = products.rows, products.columns
    value = 1 / (weight * unit * shrinkage)
    value *= 1 + shrinking_bias(shrinkage, d)
    trace = float(diagonal.sum(dtype=np.float64)) * value
    trace_sd = math.sqrt(d) * sigma * PAIR_WEIGHT * value
    correction = _size_correction(sums, products, sigma, (trace, trace_sd), n)
    value *= correction
    found = off_diagonal * value, diagonal * value
    noise = sigma * DIAGONAL_WEIGHT * value, sigma * PAIR_WEIGHT * value
    expected = expected_shrinkage(parameters, found, noise)
    unexplained = max(0.0, expected / shrinkage - 1) + abs(correction - 1)
    return Release(
        mechanism=NAME,
        integers=symmetric_sparse(pairs, off_diagonal, diagonal),
        unit=value,
        guarantee=guarantee,
        parameters=parameters.to_dict() | {"shrinkage": shrinkage, "unexplained": unexplained},
        feature_scale=products.grid.feature_scale,
        noise_sd=noise,
        selected=np.stack([products.rows, products.columns]),
        making=Making(
            n_averaged=parameters.inputs.n_records,
            parts=named_parts(guarantee.events, parameters.part_names),
        ),
    )


def expected_shrinkage(
    parameters: ScreenedParameters,
    values: tuple[FloatArray, FloatArray],
    noise: tuple[float, float],
) -> float:
    """The mean shrinkage of normal records with these covariances and variances.

    Norms of correlated records spread as those of fewer independent features: (tr S)^2 / tr S^2.
    """
    pairs, variances = values
    d = len(variances)
    own = float(variances @ variances) - d * noise[1] ** 2
    square = own + 2 * (float(pairs @ pairs) - len(pairs) * noise[0] ** 2)
    trace = float(variances.sum())
    features = min(float(d), max(1.0, trace**2 / square)) if square > 0 else float(d)
    return shrunk_part(parameters.design.norm_factor, norm_spread(features))[0]


def _size_correction(
    sums: IntArray,
    products: ProductMap,
    sigma: int,
    trace: tuple[float, float],
    n_records: int,
) -> float:
    """The released mean size of the records over the trace, where they differ beyond doubt.

    Heavy-tailed records lose more to shrinking than their mean shrinkage says, all entries alike.
    """
    per_record = products.size_cap / products.size_range * products.grid.step**2 / n_records
    size, deviation = float(sums[-1]) * per_record, math.hypot(sigma * per_record, trace[1])
    # Beyond half of what is counted, many records are beyond all of it, and the mean says little.
    saturated = float(sums[-1]) > n_records * products.size_range / 2
    if saturated or trace[0] <= 0 or abs(size - trace[0]) < _SURE * deviation:
        return 1.0
    return min(4.0, max(0.25, size / trace[0]))


def _pair_of(flat: IntArray, d: int) -> tuple[IntArray, IntArray]:
    """Row and column of positions in the upper triangle without diagonal, row by row."""
    starts = np.concatenate([[0], np.cumsum(np.arange(d - 1, 0, -1))])
    rows = np.searchsorted(starts, flat, side="right") - 1
    return rows.astype(np.int64), (flat - starts[rows] + rows + 1).astype(np.int64)
