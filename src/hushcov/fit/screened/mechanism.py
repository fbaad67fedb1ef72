"""Screened release: select pairs privately, then release their values and the diagonal."""

from __future__ import annotations

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.fit.screened.values import (
    RADIUS,
    ScreenedParameters,
    Values,
    norm_spread,
    possible_pairs,
    product_map,
    release_unit_values,
    release_values,
    shrunk_part,
)
from hushcov.kernel.grids import FeatureGrid, check_feature_scale
from hushcov.kernel.session import Session
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, parts_of

NAME = "screened"


def release_screened(
    session: Session,
    feature_scale: FloatArray,
    parameters: ScreenedParameters,
    *,
    sparse: bool = False,
) -> Release:
    """Screen, and release the values of the selected pairs and the diagonal.

    With `sparse` the same integers come as a sparse matrix: nothing of size n_features^2 is left
    after the screen.

    Privacy
    -------
    See `ScreenedParameters.budget`, which is that of the session. `feature_scale` is public or was
    released by steps on the same budget. Selected pairs are part of the release, also those whose
    value comes out as zero.
    """
    parameters.inputs.check_size(session)
    inputs = parameters.inputs
    scale = check_feature_scale(feature_scale, inputs.n_features)
    places = select_pairs(session, parameters)
    session.name_parts(parameters.part)
    grid = FeatureGrid(scale, RADIUS, parameters.half_width)
    if inputs.neighbours.together > 1:
        size = float(min(len(places[0]), possible_pairs(inputs))), (inputs.row_sparsity + 1) / 2
        values = release_unit_values(session, grid, places, size)  # proof: step 11
    else:
        products = product_map(grid, *places, parameters.norm_bound)
        values = release_values(session, products, session.mu_left)  # proof: step 6
    return _document(session, values, parameters, sparse=sparse)  # proof: step 8


def select_pairs(session: Session, parameters: ScreenedParameters) -> tuple[IntArray, IntArray]:
    """Rows and columns of the selected pairs, i < j, in order.

    Each level peels the largest of rate * |score| + Gumbel noise from the pairs still there, by
    exact comparison.

    Privacy
    -------
    Neighbours: replace one record. No score moves by more than its query says, so a level is `size`
    bounded-range steps, and all levels together cost `parameters.selections`. What an earlier level
    selected is released, so skipping it is free. Candidates are public, and so is where the pairs
    that were picked stand among them.
    """
    d, candidates = parameters.inputs.n_features, parameters.inputs.candidates
    if not parameters.n_pairs:  # at row sparsity 1
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if not parameters.levels:  # every pair that may covary
        if candidates is not None:
            return candidates.pairs  # proof: step 12
        rows, columns = np.triu_indices(d, 1)
        return rows.astype(np.int64), columns.astype(np.int64)
    scores, selected = parameters.scoring, np.empty(0, dtype=np.int64)
    named = zip(parameters.levels, parameters.selections, strict=True)
    for level, (part, _) in named:
        best = session.select(scores, level.size, level.rate, part)  # proof: step 2
        selected = np.concatenate([selected, best])
    selected.sort()
    return pair_of(selected, d) if candidates is None else candidates.pairs_at(selected)


def _document(
    session: Session, values: Values, parameters: ScreenedParameters, *, sparse: bool
) -> Release:
    pairs, variances = np.asarray(values.pairs, float), np.asarray(values.diagonal, float)
    found = pairs * values.unit, variances * values.unit
    expected = values.shrinkage  # of units, whose norms also follow how many records they have
    if parameters.inputs.neighbours.together == 1:
        expected = expected_shrinkage(parameters, found, values.noise_sd)
    unexplained = max(0.0, expected / values.shrinkage - 1) + abs(values.correction - 1)
    made = {"shrinkage": values.shrinkage, "unexplained": unexplained}
    matrix = symmetric_sparse((values.rows, values.columns), values.pairs, values.diagonal)
    return Release(
        mechanism=NAME,
        integers=matrix if sparse else matrix.toarray(),
        unit=values.unit,
        guarantee=session.guarantee,
        parameters=parameters.to_dict() | made,
        feature_scale=values.feature_scale,
        noise_sd=values.noise_sd,
        selected=np.stack([values.rows, values.columns]),
        making=Making(n_records=parameters.inputs.n_records, parts=parts_of(session)),
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
