"""Records whose means, scales and norms nobody knows, made ready for a mechanism.

Three private steps after each other: centres and scales of the features (`steps.location`), the
mean of what is left (`release_centre`), and a bound on the norm of records (`release_norms`). What
each spends is decided by public and released numbers; together with the values of the mechanism
they spend what was certified before (`docs/proofs/preparation.md`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, BoolArray, FloatArray, IntArray
from hushcov._validation import check_integer, check_real
from hushcov.bounds import Bounds, check_bounds
from hushcov.exceptions import ParameterError
from hushcov.fit.norms import HALF_WIDTH, WIDEST, NormBound, choose_norm, norm_counts
from hushcov.fit.stage import Prepared, Stage
from hushcov.inputs import Found
from hushcov.kernel import views
from hushcov.kernel.accounting import ONE_REPLACED, Neighbours
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.queries import (
    LARGEST_SIGMA,
    TILT_UNIT,
    BoundedSums,
    FourthPowers,
    ProductMap,
    Products,
    Query,
    SignedOctaves,
    SignSums,
    UnitSums,
)
from hushcov.kernel.session import Session
from hushcov.release import FOURTH_POWERS, Tails
from hushcov.release.document import MEANS

if TYPE_CHECKING:
    from hushcov.fit.location import Location, LocationParameters


# Fourth powers, in squared variances: the largest that counts follows from the noise that it brings
# to a mean of them, within bounds. Their unit has so many bits of the grid at variance 1.
_TAIL_NOISE, _LEAST_TAIL, _MOST_TAIL = 0.4, 32.0, 1024.0
_TAIL_BITS, _FEWEST_BITS, _MOST_BITS = 30, 20, 36
# Scales are refined by mean squares of values within a few scales, where these are not too noisy.
_MOST_SQUARE_NOISE = 0.3
_SQUARE_RADIUS, _SQUARE_WIDTH = 16.0, 2**10 - 1
_SQUARE_NOISE = 0.2  # that is aimed at
_SQUARE_LOOKS = 2  # at most
_USUAL_REACH = 16.1  # in scales; columns that reach farther have values there
_TILT_EVIDENCE = 4.0
# What mean squares may say that the variance of a feature is, in squared scales.
_LEAST_TYPICAL, _MOST_TYPICAL = 2.0**-4, 2.0**4
_ABOVE = 1 + 2.0**-40  # makes up for roundings
# Least mu of a release, times the largest noise that can be drawn, over the root of the number of
# features. Bounds are lowered to what can be drawn, and counts need a thousandth of it.
_LEAST_TOTAL = 2**15
_MOST_CENTRE_NOISE = 1.0  # scales; a noisier mean would not help
# Shares of the pool (in mu^2): of the first look at least, and of all looks together that are
# planned for; of the centre and of the norms, at least and at most.
_LOOK, _MOST_LOOK, _LOOK_RATIO = 0.04, 0.25, 27.0
_LEAST_CENTRE, _MOST_CENTRE, _CENTRE_ERROR, _CENTRE_PART = 0.03, 0.08, 0.05, 0.1
# Squared bound on norms for the means, over the number of features, and the noise of a mean, in
# deviations of sampling, up to which it is raised: a low one makes means of skewed columns wrong
# (`benchmarks/studies/means.py`).
_CENTRE_BOUNDS, _CENTRE_NOISE = (2.0, 16.0), 3.0
# Largest squared value of a 0/1 column in squared scales, over the number of features: so the
# records of a rare flag are within the bounds on norms.
_FLAG_SQUARE = 0.75
_NORMS, _NORMS_RATIO = (0.01, 0.1), 3e-4
_FACTOR_PART = 4  # norm bound over the range of the number that says how far a unit was shrunk
_LEAST_KEPT = 0.02  # of units on average, for means
#: Of tilts, of tails and of mean squares.
OF_TILTS, OF_TAILS, OF_SQUARES = 0.01, 0.01, 0.03
#: Bounds on the norms of squares, over typical ones.
SQUARE_NORMS = (1.5, 128.0)
# The factors by which a scale may be moved, how many deviations of noise a mean square is at
# least taken to be, and how far off the logarithm of a scale usually is before.
_FACTORS, _SQUARE_DOUBT, _USUALLY_OFF = (0.3, 4.0), 2.0, (0.35, 0.25)

SQUARES = "scales of the features, refined"
NORMS = "bound on the norms of records"
TILTS = "how often features lie above their centre"


@dataclass(frozen=True)
class Preparation(Stage):
    """The stage: the size, and of what it takes shares.

    `total` is the mu of the whole release. Steps take shares of what is left of the budget when
    they begin, or of `total` where they are `alone` on the clock. Public scales are used as they
    are where `known_scale` says so. `tilts` asks how often features lie above their centre.
    `bounds` are public bounds of the features; records are to be within them. `located` says that
    centres and scales are found before it. `neighbours` says whose privacy it is.
    """

    released: ClassVar[str] = "centres, scales and norms"
    unknown: ClassVar[str] = "the features' means and scales, and the norms of records"

    n_records: int
    n_features: int
    total: float
    known_scale: bool = False
    tilts: bool = False
    alone: bool = False
    bounds: Bounds | None = None
    located: bool = False
    neighbours: Neighbours = ONE_REPLACED

    def __post_init__(self) -> None:
        cure = "leave it to a plan."
        if self.bounds is not None:
            check_bounds(self.bounds, self.n_features)
        check_integer("n_records", self.n_records, at_least=1, cure=cure)
        check_integer("n_features", self.n_features, at_least=1, cure=cure)
        check_real("total", self.total, above=0, cure=cure)

    def check_noise(self) -> None:
        """Refuse a total whose noise can hardly be drawn; `run` has a part of it, and never does.

        It is for plans, before a charge.
        """
        if self.total * LARGEST_SIGMA < _LEAST_TOTAL * math.sqrt(self.n_features):
            raise ParameterError(
                f"epsilon must be larger to find means and scales of {self.n_features:,} features, "
                "got one whose noise cannot be drawn: choose a larger epsilon or delta, fewer rows "
                "of a unit, or pass assume_centered=True with a feature_scale."
            )

    @property
    def cost(self) -> float:
        """See `Stage.cost`."""
        n, d, total = self.n_records, self.n_features, self.total
        look = min(_MOST_LOOK, max(_LOOK, 2 * d * (_LOOK_RATIO / (n * total)) ** 2))
        look = 0.0 if self.located else look
        share = look + centre_share(n, d, total) + norm_share(n, d, total) + OF_TAILS + OF_SQUARES
        return math.sqrt(share) * total

    @property
    def most_cost(self) -> float:
        """See `Stage.most_cost`; where no tilts are asked for."""
        size = self.n_records, self.n_features, self.total
        share = centre_share(*size) + (norm_share(*size) + OF_TAILS + OF_SQUARES)
        looks = 0.0 if self.located else self._looks.largest_mu
        return math.hypot(looks, math.sqrt(share) * self.total) * _ABOVE  # proof: step 7

    @property
    def expected(self) -> Found:
        """Expected result, from public numbers."""
        if self.bounds is None or self.bounds.constant.all():
            return self._looks.expected()
        return self._looks.expected(float(np.mean(self.bounds.finite[~self.bounds.constant])))

    def for_mechanism(self, *, tilts: bool, alone: bool) -> Preparation:
        """See `Stage.for_mechanism`."""
        return replace(self, tilts=tilts, alone=alone)

    @property
    def _looks(self) -> LocationParameters:
        from hushcov.fit.location import LocationParameters

        size = self.n_records, self.n_features
        return LocationParameters(*size, self.total, neighbours=self.neighbours)

    @property
    def first_octaves(self) -> SignedOctaves | None:
        """See `Stage.first_octaves`."""
        return None if self.located else self._looks.first_octaves(self.bounds)

    def run(self, prepared: Prepared) -> Prepared:
        """Find centres, scales and norms, and hand on records that are centred and clipped.

        Privacy
        -------
        Everything is measured by the session: `docs/proofs/preparation.md`.
        """
        from hushcov.fit.location import find_location

        session = prepared.session
        step = self if self.alone else replace(self, total=session.mu_left)  # proof: step 1
        found = prepared.place
        if found is None:
            found = find_location(
                session,
                step._looks,
                share=prepared.share,
                bounds=self.bounds,
                first=prepared.first,
            )
        scale = prepared.feature_scale if self.known_scale else found.scale
        scale = np.where(found.found, scale, 0.0)
        flags = np.zeros(len(scale), dtype=bool)
        flags[list(prepared.indicators)] = not self.known_scale
        scale = step._limited(scale, flags)
        reach = np.minimum(found.reach, WIDEST * scale) if self.known_scale else found.reach
        some = bool(scale.any())
        wide = np.maximum(reach, WIDEST * scale)
        compact = session.view(views.compact(found.centre, wide, scale))  # proof: step 9
        ready, centre = compact.view(views.centred(np.zeros_like(scale), reach)), found.centre
        bound = tilt = typical = means_sd = None
        if some:
            refined = step._refined(replace(prepared, session=compact), found, scale, flags)
            centre, means_sd, moved, typical, stretch = refined
            moved = step._limited(moved, flags)
            grown = np.divide(moved, scale, out=np.ones_like(scale), where=scale > 0)
            scale, reach = moved, np.minimum(reach * np.maximum(grown, 1.0), wide)
            ready = compact.view(views.centred(centre - found.centre, reach))
        unresolved = tuple(np.flatnonzero(~found.found).tolist())
        making = {**prepared.making, "unresolved": unresolved}
        if means_sd is not None:
            making["means_sd"] = tuple(means_sd.tolist())
        if not self.known_scale:
            making["scales"] = "released"
        if some:
            bound, tilt, tails = step._measured(
                replace(prepared, session=ready, feature_scale=scale), typical
            )
            if (stretch != 1).any():
                tails = replace(tails, stretch=tuple(stretch.tolist()))
            making |= {"shrunk": bound.shrunk, "tails": tails}
        return replace(
            prepared,
            session=ready,
            feature_scale=scale,
            location=centre,
            norm=bound,
            tilt=tilt,
            making=making,
            first=None,
        )

    def _refined(
        self, prepared: Prepared, found: Location, scale: FloatArray, flags: BoolArray
    ) -> tuple[FloatArray, FloatArray | None, FloatArray, float | None, FloatArray]:
        """Return centres and scales nearer to means and deviations, from one or two readings.

        After the centres the deviations of their noise, None where they are too noisy to be used.
        At last about the variance of a feature in squared scales, where squares were released, and
        the factors by which scales were moved. The first of two looks counts by half: it also mends
        scales that were wrong, where heavy tails go on. It comes before the means, which skewed
        columns would lose to a bound in units of scales that are too small.
        """
        from hushcov.fit.location import inside

        session, share = prepared.session, prepared.share
        n_found, n_scaled = found.found.sum(), np.count_nonzero(scale)
        mu = math.sqrt(centre_share(self.n_records, int(n_found), self.total)) * self.total
        looks, square_mu = self._square_looks(share, int(n_scaled))
        first, now = np.ones_like(scale), scale
        if looks == _SQUARE_LOOKS:
            squares, doubt = release_squares(
                session, squares_of(session, now, square_mu), square_mu
            )
            far = _farthest(found, found.centre, scale, self.bounds)
            first = self._factor(squares / share, doubt / share, far, now, square_mu, look=0)
            now = self._limited(now * first, flags)
        sums = centre_sums(session, now, mu)
        wanted: list[Query] = [sums] if isinstance(sums, BoundedSums) else []
        if looks:
            products = squares_of(session, now, square_mu)
            wanted.append(products)
        session.read(*wanted)
        mean, noise = release_centre(session, sums, mu)
        mean, noise = mean / share, noise / share  # missing ones count as zeros
        counted = prepared.making.get("complete", {}).get("noise_sd", 0) / (share * self.n_records)
        means_sd: FloatArray | None = np.hypot(noise * now, np.abs(mean) * counted)
        if noise > _MOST_CENTRE_NOISE:
            mean, means_sd = np.zeros_like(mean), None
        centre = inside(found.centre + mean, self.bounds)
        if not looks:
            return centre, means_sd, scale, None, first
        squares, doubt = release_squares(session, products, square_mu)
        # About the mean rather than the centre of the looks; its noise has a square too.
        off = np.divide(mean, now, out=np.zeros_like(mean), where=now > 0)
        squares = squares / share - np.maximum(off**2 - noise**2, 0.0)
        far = _farthest(found, centre, scale, self.bounds)
        moved = self._factor(squares, doubt / share, far, now, square_mu, look=looks - 1)
        typical = float(np.median((squares / moved**2)[scale > 0]))
        typical = min(_MOST_TYPICAL, max(_LEAST_TYPICAL, typical))
        return centre, means_sd, now * moved, typical, np.sqrt(first) * moved

    def _square_looks(self, share: float, n_scaled: int) -> tuple[int, float]:
        """Return how many looks at mean squares are worth their noise, and the mu of each."""
        for looks in range(0 if self.known_scale else _SQUARE_LOOKS, 0, -1):
            mu = math.sqrt(OF_SQUARES / looks) * self.total
            if square_noise(self.n_records * share, n_scaled, mu) <= _MOST_SQUARE_NOISE:
                return looks, mu
        return 0, 0.0

    def _factor(
        self,
        squares: FloatArray,
        noise: float,
        far: FloatArray,
        scale: FloatArray,
        mu: float,
        *,
        look: int,
    ) -> FloatArray:
        """Return by which factors mean squares move scales nearer to deviations.

        They do by as much as the noise of the squares allows.
        """
        seen = np.maximum(squares, _SQUARE_DOUBT * noise)
        trust = 1 / (1 + (noise / seen / (2 * _USUALLY_OFF[look])) ** 2)
        moved = np.where(scale > 0, np.clip(seen ** (trust / 2), *_FACTORS), 1.0)
        # Values too far away were cut down: that their squares are small says nothing.
        cut = far**2 > _square_norm(self.n_records, int(np.count_nonzero(scale)), mu) * scale**2
        return np.where(cut, np.maximum(moved, 1.0), moved)

    def _limited(self, scale: FloatArray, flags: BoolArray) -> FloatArray:
        """Limit the scales by public knowledge.

        Those of 0/1 columns are so large that bounds on norms do not cut them, and none exceeds
        half the width of its public bounds, which no standard deviation does.
        """
        least = (_FLAG_SQUARE * max(int(np.count_nonzero(scale)), 2)) ** -0.5
        scale = np.where(flags & (scale > 0), np.maximum(scale, min(least, 0.5)), scale)
        if self.bounds is None or self.known_scale:
            return scale
        half = (self.bounds.highs - self.bounds.lows) / 2
        return np.where(half > 0, np.minimum(scale, half), scale)

    def _measured(
        self, prepared: Prepared, typical: float | None
    ) -> tuple[NormBound, IntArray | None, Tails]:
        """Norms, tilts if asked for, and tails of centred records.

        One reading where about the variance of a feature is known; else the norms say it first.
        """
        session, scale, share = prepared.session, prepared.feature_scale, prepared.share
        mu = math.sqrt(OF_TAILS) * self.total
        norms, signs = norm_counts(scale), SignSums(len(scale))
        wanted: list[Query] = [signs, norms] if self.tilts else [norms]
        if typical is not None:
            fourths = fourths_of(session, scale, typical, mu)
            wanted.append(fourths)
        session.read(*wanted)
        tilt = None
        if self.tilts:
            tilt = release_tilts(session, signs, math.sqrt(OF_TILTS) * self.total)
        norm_mu = math.sqrt(norm_share(self.n_records, self.n_features, self.total)) * self.total
        noisy = session.measure(norms, norm_mu, NORMS)  # proof: step 3
        counts = noisy.integers
        counts[0] -= round(self.n_records * (1 - share))  # zeros that stand for missing ones
        rest = session.remaining - OF_TAILS * self.total**2
        rest = math.sqrt(max(rest, 1e-6 * self.total**2)) / self.neighbours.outer_product
        n_found = int(np.count_nonzero(scale))
        bound = choose_norm(counts, noisy.sd, self.n_records, n_found, rest)  # proof: step 4
        if typical is None:
            fourths = fourths_of(session, scale, bound.typical, mu)
        powers, noise = release_tails(session, fourths, mu)
        fourth = np.where(scale > 0, powers, 0.0)
        tails = Tails(tuple((fourth / share).tolist()), noise / share, *bound.lost)
        return bound, tilt, tails


def centre_sums(session: Session, scale: FloatArray, mu: float) -> BoundedSums | UnitSums:
    """Return the sums that the centre is released from; see `release_centre`.

    Where units are bounded as one, the bound is what independent records add up to. Those of a unit
    that are alike are shrunk, and means divided by what the mean record is shrunk by, so that they
    have the noise of one record.
    """
    grid = FeatureGrid(scale, WIDEST, HALF_WIDTH)
    bound = centre_bound(grid, int(np.count_nonzero(scale)), session.n_records, mu)
    together = session.relation.together
    if together == 1:
        return BoundedSums(grid, bound)  # proof: step 2
    bound = max(_FACTOR_PART, math.floor(bound * math.sqrt(together)))
    return UnitSums(grid, bound, bound // _FACTOR_PART, together)  # proof: step 10


def release_centre(
    session: Session, sums: BoundedSums | UnitSums, mu: float
) -> tuple[FloatArray, float]:
    """Means of records, each with its norm bounded; and their noise in units of the scales.

    Privacy
    -------
    Neighbours: those of the session; no precondition. A record, or a unit, adds an integer vector
    of norm at most B to the sums, so they move by at most 2 B.
    """
    noisy = session.measure(sums, mu, MEANS)
    numbers, n = noisy.integers, float(session.n_records)
    if isinstance(sums, UnitSums):  # proof: step 11
        kept = numbers[-1] * sums.most_rows / (session.n_records * sums.factor_range)
        n, numbers = n * min(1.0, max(_LEAST_KEPT, kept)), numbers[:-1]
    step = noisy.unit / n
    return np.asarray(numbers * step * sums.grid.feature_scale), noisy.sd * step


def squares_of(session: Session, scale: FloatArray, mu: float) -> Products:
    """Return the query that squares are released from; its bound follows from the noise."""
    d = int(np.count_nonzero(scale))
    width = min(_SQUARE_WIDTH, math.floor((LARGEST_EXACT_FLOAT / len(scale)) ** 0.25) - 1)
    grid = FeatureGrid(scale, _SQUARE_RADIUS, width)  # sums of fourth powers are exact
    unit = round(1 / grid.step**2)
    bound = min(_square_norm(session.n_records, d, mu) * unit, LARGEST_SIGMA * mu / 4)
    bound = max(1, math.floor(bound))
    nowhere = np.empty(0, dtype=np.int64)
    return Products(
        ProductMap(grid, nowhere, nowhere, 1, 1, unit, bound, bound // 4, size_range=1, size_cap=1)
    )


def _farthest(
    found: Location, centre: FloatArray, scale: FloatArray, bounds: Bounds | None
) -> FloatArray:
    """How far from the centre a feature surely may have values; 0 where they are not known."""
    far = np.where(found.reach > _USUAL_REACH * scale, found.reach / 2, 0.0)
    if bounds is None:
        return far
    ends = np.maximum(bounds.highs - centre, centre - bounds.lows)
    return np.where(bounds.finite, ends, far)


def _square_norm(n_records: int, n_found: int, mu: float) -> float:
    """The bound on the norm of a record's squares, in squared scales, at the noise aimed at."""
    factor = _SQUARE_NOISE * SQUARE_NORMS[0] / square_noise(n_records, n_found, mu)
    return min(SQUARE_NORMS[1], max(SQUARE_NORMS[0], factor)) * math.sqrt(2 * n_found)


def release_squares(session: Session, query: Products, mu: float) -> tuple[FloatArray, float]:
    """Mean squares of centred records in squared scales, and their noise.

    Privacy
    -------
    Neighbours: those of the session; no precondition. What a record adds has norm at most B but for
    two numbers of a smaller range, so that the sums move by at most what step 8 of the proof says.
    """
    noisy = session.measure(query, mu, SQUARES)  # proof: step 8
    sums, n = noisy.integers, session.n_records
    unit, bound = query.products.centre, query.products.norm_bound
    kept = min(1.0, max(0.1, sums[-2] / (n * (bound // 4)))) if bound >= 4 else 1.0
    return 1 + sums[:-2] / (n * unit * kept), noisy.sd / (n * unit * kept)


def release_tilts(session: Session, query: SignSums, mu: float) -> IntArray:
    """The means of the signs of centred records, in units of 1 / `TILT_UNIT`.

    Those that noise may have made are zero: the noise of two tilts would stand in for a pair.

    Privacy
    -------
    Neighbours: those of the session; no precondition. Each of the d sums moves by at most 2, all of
    them by at most 2 sqrt(d).
    """
    noisy = session.measure(query, mu, TILTS)  # proof: step 5
    sums = noisy.integers
    sums[np.abs(sums) < _TILT_EVIDENCE * noisy.sd] = 0
    tilt = np.rint(TILT_UNIT * sums / session.n_records)
    return np.asarray(np.clip(tilt, 1 - TILT_UNIT, TILT_UNIT - 1), dtype=np.int64)


def fourths_of(session: Session, scale: FloatArray, typical: float, mu: float) -> FourthPowers:
    """Return the query of fourth powers that tails are released from.

    `typical` is about the variance of a feature, in scales. The bound follows from the noise that
    it brings, within bounds.
    """
    n, d = session.n_records, int(np.count_nonzero(scale))
    grid = FeatureGrid(scale, WIDEST, HALF_WIDTH)
    bits = _TAIL_BITS + round(2 * math.log2(typical))
    bits = min(_MOST_BITS, max(_FEWEST_BITS, bits))
    unit = 2.0**bits * grid.step**4
    largest = min(_MOST_TAIL, max(_LEAST_TAIL, _TAIL_NOISE * n * mu / math.sqrt(2 * d)))
    exact = min(2 ** (52 - bits), math.isqrt(2**52 // session.n_features))
    exact = min(exact, math.floor(LARGEST_SIGMA * mu / 2))  # its noise can be drawn
    bound = max(1, min(exact, math.floor(largest * typical**2 * math.sqrt(d) / unit)))
    return FourthPowers(grid, bits, bound)


def release_tails(session: Session, query: FourthPowers, mu: float) -> tuple[FloatArray, float]:
    """Means of fourth powers of centred features, in scales, and the deviation of their noise.

    Privacy
    -------
    Neighbours: those of the session; no precondition. A record adds integers that are not negative,
    of norm at most B, so the sums move by at most sqrt(2) B.
    """
    noisy = session.measure(query, mu, FOURTH_POWERS)  # proof: step 6
    unit = noisy.unit / session.n_records
    return np.asarray(noisy.integers * unit), noisy.sd * unit


def centre_bound(grid: FeatureGrid, n_found: int, n_records: int, mu: float) -> int:
    """Return the bound on the norm of a record, in steps of the grid, for the means.

    It is sqrt(2) to 4 times the typical norm: as large as a noise of `_CENTRE_NOISE` deviations of
    sampling allows, so that few records of skewed columns are shrunk.
    """
    least, most = _CENTRE_BOUNDS
    square = (_CENTRE_NOISE * mu / 2) ** 2 * n_records / max(n_found, 1)
    bound = math.sqrt(min(most, max(least, square)) * n_found) / grid.step
    return max(1, math.floor(min(bound, LARGEST_SIGMA * mu / 2)))  # its noise can be drawn


def centre_share(n_records: int, n_features: int, total: float) -> float:
    """The share at which the error of the centre hardly matters, within bounds.

    At the lowest bound a feature is off by b = sqrt(8 d / share) / (n mu) scales, by at most
    `_CENTRE_ERROR`. All of them together add a matrix of rank one to the second moments, whose norm
    is d b^2: at most
    `_CENTRE_PART` of that of the noise of a whole matrix, about 4 d^(3/2) / (n mu).
    """
    size = n_records * total
    share = 8 * n_features / (_CENTRE_ERROR * size) ** 2
    share = max(share, 2 * math.sqrt(n_features) / (_CENTRE_PART * size))
    return min(_MOST_CENTRE, max(_LEAST_CENTRE, share))


def norm_share(n_records: int, n_features: int, total: float) -> float:
    """The share for norms: the more, the less noise there will be beside what a bound cuts off."""
    least, most = _NORMS
    return min(most, max(least, _NORMS_RATIO * n_records * total / (2 * n_features)))


def square_noise(n_records: float, n_found: int, mu: float) -> float:
    """About the noise of mean squares, in squared scales."""
    return 2 * SQUARE_NORMS[0] * math.sqrt(2 * n_found) / (n_records * mu)
