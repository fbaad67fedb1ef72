"""Row-wise top-k: every row selects its partners; pairs that select each other are released."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.accounting import Guarantee, smallest_sigma
from hushcov.mechanisms.peers.row_top_k.parameters import RowTopKParameters
from hushcov.mechanisms.peers.row_top_k.sensitivity import values_squared_sensitivity
from hushcov.noise import Entropy, check_entropy, gumbel_top, rounded_normal
from hushcov.records import FeatureGrid, Progress, Records, row_bounded_gram
from hushcov.release import Making, Release, named_parts


def certify_row_top_k(parameters: RowTopKParameters, *, private: bool) -> Guarantee:
    """Let the accountant bound the events of these very parameters, or raise.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The picks of the rows are bounded-range
    events, the values one Gaussian whose noise follows from what was picked;
    `docs/proofs/row_top_k.md`.
    """
    # proof: step 7
    # proof: step 8
    return parameters.inputs.certify(parameters.events, private=private)


def release_row_top_k(
    records: Records,
    feature_scale: FloatArray,
    parameters: RowTopKParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> Release:
    """Certify, sum the clipped records, select in every row, and release what is selected twice.

    Privacy
    -------
    See `certify_row_top_k`. `feature_scale` must be public, or released by the events in
    `parameters.inputs.spent`. Selected pairs are part of the release, also those whose value comes
    out as zero.
    """
    parameters.inputs.check_size(records)
    check_entropy(entropy)
    guarantee = certify_row_top_k(parameters, private=entropy.private)
    grid = FeatureGrid(feature_scale, parameters.radius, parameters.half_width)
    gram = row_bounded_gram(records, grid, None, progress=progress)  # proof: step 1
    rows, columns = mutual_pairs(pick_partners(gram, parameters, entropy.generator))
    sigma = value_sigma(rows, columns, parameters)
    deviation = sigma * parameters.unit
    return Release(
        mechanism="row_top_k",
        integers=noisy_values(gram, rows, columns, sigma, entropy.generator),
        unit=parameters.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict() | {"sigma": sigma},
        feature_scale=grid.feature_scale,
        noise_sd=(deviation, deviation),
        selected=np.stack([rows, columns]),
        making=Making(
            n_averaged=parameters.inputs.n_records,
            parts=named_parts(guarantee.events, parameters.part_names),
        ),
    )


def pick_partners(
    gram: IntArray, parameters: RowTopKParameters, generator: np.random.Generator
) -> BoolArray:
    """Which columns each row picks: the largest of rate * |entry| + Gumbel noise, exactly.

    A row picks one column less than its declared nonzeros, never its own. Where it may pick all
    others it does, without noise and without looking.

    Privacy
    -------
    Neighbours: replace one record. No score moves by more than `score_sensitivity`, so every pick
    is one bounded-range step of `parameters.events`.
    """
    d, k = parameters.inputs.n_features, parameters.inputs.row_sparsity
    if parameters.rate is None:
        return np.full((d, d), k > 1) & ~np.eye(d, dtype=bool)
    picked = np.zeros((d, d), dtype=bool)
    for i in range(d):
        others = np.delete(np.arange(d), i)
        scores = np.abs(gram[i, others])  # proof: step 2
        # proof: step 3
        picked[i, others[gumbel_top(generator, scores, parameters.rate, k - 1)]] = True
    return picked


def mutual_pairs(picked: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of the pairs that pick each other, i < j, in order."""
    rows, columns = np.nonzero(np.triu(picked & picked.T, 1))  # proof: step 4
    return rows.astype(np.int64), columns.astype(np.int64)


def value_sigma(rows: IntArray, columns: IntArray, parameters: RowTopKParameters) -> int:
    """The least noise that makes the values of these pairs and the squares cost `mu`."""
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    d = parameters.inputs.n_features
    square = values_squared_sensitivity(d, parameters.half_width, pairs)
    return smallest_sigma(square, parameters.mu)  # proof: step 6


def noisy_values(
    gram: IntArray,
    rows: IntArray,
    columns: IntArray,
    sigma: int,
    generator: np.random.Generator,
) -> IntArray:
    """The matrix of noisy sums: the given pairs and the diagonal, zero elsewhere.

    Privacy
    -------
    Neighbours: replace one record. With `value_sigma` of the same pairs as noise this is one
    Gaussian event, `Gaussian(mu)`, for any pairs that are known already.
    """
    noise = rounded_normal(generator, sigma, len(rows) + len(gram))  # proof: step 6
    released = np.zeros_like(gram)
    released[rows, columns] = released[columns, rows] = gram[rows, columns] + noise[: len(rows)]
    np.fill_diagonal(released, np.diag(gram) + noise[len(rows) :])
    return released
