"""Quantiles of columns, for caps, scores and marginals: counts between edges, at three levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov.bounds import Bounds
from hushcov.fit.location import Location, SearchStage, find_location
from hushcov.fit.mechanism import Prepared, StageCost
from hushcov.kernel import views
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours
from hushcov.kernel.queries import LevelCounts
from hushcov.kernel.views import RANK, Transform, Transforms

# Shares of the budget in mu^2, and n / sigma that is aimed at: beyond it, what is left of the error
# of scores is far below the sampling error of their correlations.
_LEAST, _MOST, _AIM = 0.02, 0.15, 300.0
_USUAL_LOOKS = 0.07  # about what the looks at centres and scales take
# Edges of bins, in scales: about the centre, even ones and beyond these quarter octaves; and about
# zero, quarter octaves.
_EVEN = np.arange(-96, 97) / 16
_BEYOND = 6 * 2.0 ** (np.arange(1, 17) / 4)
_ABOUT_CENTRE = np.concatenate([-_BEYOND[::-1], _EVEN, _BEYOND])
_OCTAVES = 2.0 ** (np.arange(-120, 23) / 4)
_ABOUT_ZERO = np.concatenate([-_OCTAVES[::-1], _OCTAVES])
# Each bin of a level has so many of the next: 8, 64 and 512.
_CHILDREN, _LEVELS = 8, 3
_DECIMALS = 6  # of a share
_CLEAR = 2.5  # deviations of the noise below which a bin of a marginal is taken to be empty


@dataclass(frozen=True)
class Quantiles(SearchStage):
    """The stage: sizes, the mu of which it takes shares, and the transforms that it completes.

    `total`, `bounds` and `neighbours` are as in `Preparation`; bounds are those of columns
    before they are capped or scored. `marginals` is the share of the budget, in mu^2, from which
    quantiles of all columns are released; None where those of the transforms alone are.
    """

    released: ClassVar[str] = "quantiles of the features"
    unknown = "centres, scales and quantiles of the features"

    n_records: int
    n_features: int
    total: float
    transforms: Transforms
    bounds: Bounds | None = None
    neighbours: Neighbours = ONE_REPLACED
    marginals: float | None = None

    def cost(self) -> StageCost:
        """See `Stage.cost`."""
        planned = math.hypot(math.sqrt(_USUAL_LOOKS) * self.total, self._mu)
        most = math.hypot(self.looks.largest_mu, self._mu) * (1 + 2.0**-40)  # for roundings
        return StageCost(planned, most)

    @property
    def _mu(self) -> float:
        """The mu of the counts: what was bought, and that of `_AIM` in bounds at least."""
        bought, mapped = self.marginals or 0.0, len(self.transforms.by_quantiles)
        share = count_square(mapped, self.neighbours) * (_AIM / (self.n_records * self.total)) ** 2
        needed = min(_MOST, max(_LEAST, share)) if mapped else 0.0
        return math.sqrt(max(bought, needed)) * self.total

    def run(self, prepared: Prepared) -> Prepared:
        """Find centres and scales, then release counts, and hand on capped and scored records.

        Privacy
        -------
        Everything is measured by the session: `docs/proofs/quantiles.md`.
        """
        session, share = prepared.session, prepared.share
        step = self if prepared.fixed_shares else replace(self, total=session.mu_left)
        place = find_location(
            session, step.looks, share=share, bounds=self.bounds, first=prepared.first
        )
        every, mapped = self.marginals is not None, set(self.transforms.by_quantiles.tolist())
        columns = np.arange(self.n_features) if every else self.transforms.by_quantiles
        centre, scale = place.centre[columns], place.scale[columns]
        edges = bin_edges(centre, scale)
        noisy = session.measure(
            level_counts(columns, edges), step._mu, self.released
        )  # proof: step 3
        counts, sigma = noisy.integers.astype(np.float64), noisy.sd  # proof: step 2
        likely = reference_shares(edges, centre, scale)
        n = share * session.n_records
        shares = read_shares(counts, sigma, n, likely)  # proof: step 4
        clear = read_shares(counts, sigma, n, likely, _CLEAR) if every else shares
        made: list[Any] = list(self.transforms.columns)
        applied: list[Any] = [None] * len(made)
        marginals: list[Any] = [None] * len(made)
        moments = place.centre.copy(), place.scale.copy(), place.reach.copy(), place.found.copy()
        for own, sure, between, i in zip(shares, clear, edges, columns.tolist(), strict=True):
            lasting = between if place.scale[i] > 0 else between[:0]
            if every and len(lasting):
                marginals[i] = complete(Transform(RANK), lasting, sure)[0]
            if i not in mapped:
                continue
            made[i], *found = complete(made[i], lasting, own)
            applied[i] = made[i]
            for array, value in zip(moments, (*found, found[1] > 0), strict=True):
                array[i] = value
        making = dict(prepared.making) | ({"transforms": tuple(made)} if any(made) else {})
        if any(marginals):
            making["marginals"] = tuple(marginals)
        return replace(
            prepared,
            session=session.view(views.transformed(Transforms(tuple(applied)))),  # proof: step 5
            place=Location(*moments),
            making=making,
            first=None,
        )


def count_square(n_columns: int, neighbours: Neighbours) -> int:
    """Return the square of how far a record moves the counts of so many columns."""
    return _LEVELS * n_columns * neighbours.moved(replaced=2, removed=1)  # proof: step 1


def bin_edges(centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Return edges of bins for columns (rows) of these centres and scales, of twelve digits."""
    about = [centre[:, None] + scale[:, None] * _ABOUT_CENTRE, scale[:, None] * _ABOUT_ZERO]
    edges = np.sort(np.concatenate(about, axis=1), axis=1)
    return np.array([float(f"{edge:.12g}") for edge in edges.ravel()]).reshape(edges.shape)


def reference_shares(edges: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the share of each bin under a Cauchy law, with which bins of too few records go."""
    unit = np.where(scale > 0, scale, 1.0)[:, None]
    below = np.arctan((edges - centre[:, None]) / unit) / math.pi + 0.5
    below = np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    return np.maximum(np.diff(below, axis=1), 1e-12)


def level_counts(columns: IntArray, edges: FloatArray) -> LevelCounts:
    """Return the query that counts columns (rows) between edges: in 8, then in 64 and 512 bins.

    A record adds one count to each level of a column, so that k columns move by at most sqrt(6 k)
    where it is replaced, and by sqrt(3 k) where it is removed.
    """
    sizes = tuple(_CHILDREN**level for level in range(1, _LEVELS + 1))
    return LevelCounts(columns, edges, sizes)  # proof: step 1


def read_shares(
    counts: FloatArray, sigma: float, n: float, likely: FloatArray, least: float = 0.0
) -> FloatArray:
    """Return the shares of the finest bins of every column, from noisy counts of all levels.

    From the top down, the records of a bin go to the bins in it: as the reference has it, and from
    there towards the counts as far as these stand out of the noise (James and Stein). Bins of the
    upper levels with fewer records than `least` deviations of the noise are taken to have none.
    """
    held, start = np.full((len(likely), 1), n), 0
    for level in range(_LEVELS):
        shape = (*held.shape, _CHILDREN)
        parts = likely.reshape(*shape, -1).sum(axis=3)
        usual = held[..., None] * parts / parts.sum(axis=2, keepdims=True)
        end = start + held.shape[1] * _CHILDREN
        seen = counts[:, start:end].reshape(shape)
        seen = seen + (held - seen.sum(axis=2))[..., None] / _CHILDREN
        square = ((seen - usual) ** 2).sum(axis=2)
        trust = np.maximum(0.0, 1 - (_CHILDREN - 3) * sigma**2 / np.maximum(square, 1e-9))
        found = np.maximum(usual + trust[..., None] * (seen - usual), 0.0)
        if least > 0 and level < _LEVELS - 1:
            seen = np.where(found >= least * sigma, found, 0.0)
            found = np.where(seen.any(axis=2, keepdims=True), seen, found)
        total = np.maximum(found.sum(axis=2), 1e-300)
        held, start = (found * (held / total)[..., None]).reshape(len(likely), -1), end
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def complete(
    asked: Transform, edges: FloatArray, shares: FloatArray
) -> tuple[Transform, float, float, float]:
    """Return a transform with its edges, and centre, scale and reach of what it makes.

    Without edges nothing is known of the column: it becomes constant, or stays as it is.
    """
    if not len(edges):
        return replace(asked, shares=(1.0,) if asked.name == RANK else ()), 0.0, 0.0, 0.0
    if asked.name == RANK:
        rounded = np.round(shares, _DECIMALS)
        kept = np.flatnonzero(rounded[:-1])  # edges with records below; the last bin has the rest
        held = np.diff(np.cumsum(rounded)[kept], prepend=0.0)
        shares = np.round(np.append(held, max(0.0, 1 - held.sum())), _DECIMALS)
        made = replace(asked, edges=tuple(edges[kept].tolist()), shares=tuple(shares.tolist()))
        values = made.scores
    else:
        below, share = np.cumsum(shares)[:-1], asked.number or 0.0
        low = edges[max(int(np.searchsorted(below, share, side="right")) - 1, 0)]
        high = edges[min(int(np.searchsorted(below, 1 - share)), len(edges) - 1)]
        ends = np.concatenate([edges[:1], edges, edges[-1:]])
        values = np.clip((ends[1:] + ends[:-1]) / 2, low, high)
        made = replace(asked, edges=(float(low), float(high)))
    centre = float(shares @ values)
    scale = math.sqrt(float(shares @ (values - centre) ** 2))
    return made, centre, scale, float(np.abs(values - centre).max())
