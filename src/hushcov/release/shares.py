"""Shares of 0/1 columns: makes released means, variances and covariances agree on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hushcov.postprocess import is_sparse
from hushcov.postprocess.indicators import agree, combine_shares
from hushcov.release.document import Release

# Deviation of what bounds on norms take off the squares of a flag whose records were all shrunk, as
# a share of them; fitted by `benchmarks/studies/means.py`. And a share that is not noise.
_CUT, _LEAST_SHARE = 0.2, 1e-6


def with_shares(release: Release) -> Release:
    """Return the release in which means and second moments of 0/1 columns agree.

    A 0/1 column is its own square, and levels of a category exclude each other and add up, so that
    several released numbers say the same share: they are combined by their precision. Variances
    are p (1 - p) then, and covariances with the levels of a category add up to zero.

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
    integers = release.integers
    if every:
        matrix = agree(release.integers * release.unit, scale, centre - location, location, found)
        integers = np.rint(matrix / release.unit).astype(np.int64)
    else:
        inside = np.concatenate(groups)
        own = location[inside] * (1 - location[inside]) / scale[inside] ** 2
        integers = integers.copy()
        integers[inside, inside] = np.rint(own / release.unit).astype(np.int64)
    return replace(release, integers=integers, location=location, making=made)
