"""Shares of 0/1 columns: makes released means, variances and covariances agree on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.postprocess import is_sparse, symmetric_sparse, values_at
from hushcov.postprocess.indicators import agree, combine_shares, mirrored
from hushcov.release.document import Release

# Deviation of what bounds on norms take off the squares of a flag whose records were all shrunk, as
# a share of them; fitted by `benchmarks/studies/means.py`. And a share that is not noise.
_CUT, _LEAST_SHARE = 0.2, 1e-6


def with_shares(release: Release) -> Release:
    """Return the release in which means and second moments of 0/1 columns agree.

    A 0/1 column is its own square, and levels of a category exclude each other and add up, so that
    several released numbers say the same share: they are combined by their precision. Variances
    are p (1 - p) then, and covariances with the levels of a category add up to zero. The two levels
    of a category get one scale, so that a threshold treats them alike, and where only some pairs
    were released, one level has the pairs of the other.

    Privacy
    -------
    Post-processing of what was released; which columns hold 0 and 1 alone is public.
    """
    making, centre, scale = release.making, release.location, release.feature_scale
    known = making.means_sd is not None and release.noise_sd is not None
    groups = release.share_groups if known else []
    if not groups or centre is None or scale is None:
        return release
    assert making.means_sd is not None
    assert release.noise_sd is not None
    every = release.selected is None and not is_sparse(release.integers)
    put_back = release.parameters.get("unexplained")
    put_back = put_back if isinstance(put_back, float) else 0.0
    location, means_sd, found = centre.copy(), np.array(making.means_sd), []
    for places in groups:
        size = np.multiply.outer(scale[places], scale[places])
        second = np.diag(release.variances[places])
        if every:
            second = release.integers[np.ix_(places, places)] * release.unit
        noise = np.where(
            np.eye(len(places), dtype=bool),
            release.noise_sd[1],
            release.noise_sd[0] if every else np.inf,
        )
        # Scales keep records of a 0/1 column short, so that hardly anything was to be put back,
        # but some of the records that were shrunk may have it.
        second = second * (1 - put_back) * size
        rare = np.minimum(1.0, (making.shrunk or 0.0) / np.maximum(centre[places], _LEAST_SHARE))
        lost = np.hypot(put_back, _CUT * np.maximum.outer(rare, rare))
        noise = np.hypot(noise * size, lost * np.abs(second))
        shares = combine_shares(centre[places], means_sd[places], second, noise)
        location[places], means_sd[places] = shares.values, shares.noise_sd
        found.append((places, shares.whole))
    made = replace(making, means_sd=tuple(means_sd.tolist()))
    twins = [places for places, whole in found if whole and len(places) == 2]
    even = scale.copy()
    for pair in twins:  # what noise their opposite values have says this mean
        even[pair] = np.sqrt(2) / np.linalg.norm(1 / scale[pair])
    ratio = np.divide(scale, even, out=np.ones_like(even), where=even > 0)
    release = replace(release, feature_scale=even, location=location, making=made)
    if every:
        matrix = agree(release.integers * release.unit, scale, centre - location, location, found)
        matrix = matrix * np.multiply.outer(ratio, ratio)
        return replace(release, integers=np.rint(matrix / release.unit).astype(np.int64))
    if twins:
        release = _mirrored(release, ratio, twins)
    inside = np.concatenate(groups)
    own = location[inside] * (1 - location[inside]) / even[inside] ** 2
    integers = release.integers.copy()
    integers[inside, inside] = np.rint(own / release.unit).astype(np.int64)
    return replace(release, integers=integers)


def _mirrored(release: Release, ratio: FloatArray, twins: list[IntArray]) -> Release:
    """Return selected pairs in which two levels have opposite values.

    `ratio` is that of the scales before to those now. Candidate pairs are public: none is added.
    """
    assert release.selected is not None
    pairs = release.selected
    values = values_at(release.integers, *pairs) * ratio[pairs[0]] * ratio[pairs[1]]
    for two in twins:
        pairs, values = mirrored(pairs, values, two, add=not release.has_candidates)
    diagonal = release.integers.diagonal()
    matrix = symmetric_sparse((pairs[0], pairs[1]), np.rint(values).astype(np.int64), diagonal)
    integers = matrix if is_sparse(release.integers) else matrix.toarray()
    return replace(release, integers=integers, selected=pairs)
