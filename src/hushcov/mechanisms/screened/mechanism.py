"""Screened release: select pairs privately, then release their values and the diagonal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.accounting import Guarantee
from hushcov.exceptions import CapacityError
from hushcov.mechanisms.screened.parameters import (
    RADIUS,
    ScreenedParameters,
    norm_spread,
    possible_pairs,
    shrunk_part,
)
from hushcov.mechanisms.screened.units import release_unit_values
from hushcov.mechanisms.screened.values import Values, product_map, release_values
from hushcov.noise import TAKEN, Entropy, check_entropy, gumbel_top
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, named_parts
from hushcov.sums.grids import FeatureGrid, check_feature_scale
from hushcov.sums.records import Progress, Records

NAME = "screened"
_LARGEST_N = 2**33  # for which sums and scores stay exact, with room for weights and noise


def certify_screened(parameters: ScreenedParameters, *, private: bool) -> Guarantee:
    """Let the accountant bound the events once more, from public inputs alone.

    Privacy
    -------
    Neighbours: replace one record; no precondition. Peeling steps are bounded-range events, the
    values are a Gaussian; `docs/proofs/screened.md`.
    """
    inputs = parameters.inputs
    check_exact(inputs.n_records)
    # proof: step 7
    # proof: step 9
    return inputs.certify(parameters.events, private=private)


def check_exact(n_records: int) -> None:
    """Refuse more records than scores and sums are exact for."""
    if n_records > _LARGEST_N:
        raise CapacityError(
            f"n_records must be at most 2**33 for exact sums, got {n_records:,}: release "
            "disjoint parts and average them."
        )


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
    guarantee = certify_screened(parameters, private=entropy.private)  # proof: step 7
    parameters.inputs.check_size(records)
    d = parameters.inputs.n_features
    scale = check_feature_scale(feature_scale, d)
    rows, columns = select_pairs(records, parameters, entropy, progress=progress)
    grid = FeatureGrid(scale, RADIUS, parameters.half_width)
    if parameters.inputs.neighbours.together > 1:
        values = _values_of_units(records, grid, (rows, columns), parameters, entropy, progress)
        return _document(values, parameters, guarantee, sparse=sparse)
    products = product_map(grid, rows, columns, parameters.norm_bound)
    values = release_values(
        records, products, parameters.mu, parameters.inputs.neighbours, entropy, progress=progress
    )
    return _document(values, parameters, guarantee, sparse=sparse)


def _values_of_units(
    records: Records,
    grid: FeatureGrid,
    places: tuple[IntArray, IntArray],
    parameters: ScreenedParameters,
    entropy: Entropy,
    progress: Progress | None,
) -> Values:
    """Values where the records of a unit are bounded as one; see `release_unit_values`."""
    inputs = parameters.inputs
    size = float(min(len(places[0]), possible_pairs(inputs))), (inputs.row_sparsity + 1) / 2
    args = (records, grid, places, size, parameters.mu, inputs.neighbours, entropy)
    return release_unit_values(*args, progress=progress)  # proof: step 11


def _document(
    values: Values, parameters: ScreenedParameters, guarantee: Guarantee, *, sparse: bool
) -> Release:
    release = _assemble(values, parameters, guarantee)  # proof: step 8
    return release if sparse else replace(release, integers=release.integers.toarray())


def select_pairs(
    records: Records,
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
    Candidates are public, and so is where the pairs that were picked stand among them.
    """
    d, candidates = parameters.inputs.n_features, parameters.inputs.candidates
    if not parameters.levels:
        return _all_pairs(parameters)  # proof: step 12
    # proof: step 1
    scores = parameters.scoring.scores(records, progress, candidates)
    selected = np.empty(0, dtype=np.int64)
    for level in parameters.levels:
        # proof: step 2
        best = gumbel_top(entropy.generator, scores, level.rate, level.size)
        selected = np.concatenate([selected, best])
        scores[best] = TAKEN  # proof: step 3
    selected.sort()
    return pair_of(selected, d) if candidates is None else candidates.pairs_at(selected)


def _all_pairs(parameters: ScreenedParameters) -> tuple[IntArray, IntArray]:
    """Every pair that may covary, where none is selected; none at row sparsity 1."""
    if not parameters.n_pairs:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if parameters.inputs.candidates is not None:
        return parameters.inputs.candidates.pairs
    rows, columns = np.triu_indices(parameters.inputs.n_features, 1)
    return rows.astype(np.int64), columns.astype(np.int64)


def _assemble(values: Values, parameters: ScreenedParameters, guarantee: Guarantee) -> Release:
    """The document of released values."""
    pairs, variances = np.asarray(values.pairs, float), np.asarray(values.diagonal, float)
    found = pairs * values.unit, variances * values.unit
    expected = values.shrinkage  # of units, whose norms also follow how many records they have
    if parameters.inputs.neighbours.together == 1:
        expected = expected_shrinkage(parameters, found, values.noise_sd)
    unexplained = max(0.0, expected / values.shrinkage - 1) + abs(values.correction - 1)
    made = {"shrinkage": values.shrinkage, "unexplained": unexplained}
    return Release(
        mechanism=NAME,
        integers=symmetric_sparse((values.rows, values.columns), values.pairs, values.diagonal),
        unit=values.unit,
        guarantee=guarantee,
        parameters=parameters.to_dict() | made,
        feature_scale=values.feature_scale,
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        making=Making(
            n_records=parameters.inputs.n_records,
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


def pair_of(flat: IntArray, d: int) -> tuple[IntArray, IntArray]:
    """Row and column of positions in the upper triangle without diagonal, row by row."""
    starts = np.concatenate([[0], np.cumsum(np.arange(d - 1, 0, -1))])
    rows = np.searchsorted(starts, flat, side="right") - 1
    return rows.astype(np.int64), (flat - starts[rows] + rows + 1).astype(np.int64)
