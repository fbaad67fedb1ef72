"""Records made ready for a mechanism: what is known of them is skipped, the rest is found.

Three private steps after each other: centres and scales of the features (`find_location`), the
mean of what is left, with scales nearer to deviations, and a bound on the norms of records. Where
means are known to be zero, nothing is centred, and what that saves is left for the mechanism. What
each step spends is decided by public and released numbers; together with the values of the
mechanism they spend what was certified before (`docs/proofs/preparation.md`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hushcov._arrays import LARGEST_EXACT_FLOAT, BoolArray, FloatArray, IntArray
from hushcov.bounds import Bounds
from hushcov.exceptions import ParameterError
from hushcov.fit.location import Location, SearchStage, find_location
from hushcov.fit.mechanism import Prepared, StageCost
from hushcov.fit.norms import HALF_WIDTH, WIDEST, NormBound, choose_norm, norm_counts
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
    SignSums,
    UnitSums,
)
from hushcov.kernel.session import Session
from hushcov.release import FOURTH_POWERS, Tails
from hushcov.release.document import MEANS


@dataclass(frozen=True)
class PreparationRules:
    """Shares of the budget and bounds of the steps before a mechanism.

    Shares are of mu^2 of the whole budget. Unless a comment names another study, the numbers were
    chosen by `benchmarks/studies/nothing_known.py`.
    """

    # Centres and scales, as planned: the least and the most, and where between them.
    least_location_share: float = 0.04
    most_location_share: float = 0.25
    location_ratio: float = 27.0
    # The mean: the least and the most; the error in scales, and the part of the noise of a whole
    # matrix, that are aimed at between them.
    centre_shares: tuple[float, float] = (0.03, 0.08)
    centre_error: float = 0.05
    centre_part: float = 0.1
    # Norms: the least and the most, and how fast the share grows with the number of records.
    norm_shares: tuple[float, float] = (0.01, 0.1)
    norm_ratio: float = 3e-4
    # Signs, fourth powers and mean squares.
    sign_share: float = 0.01
    tail_share: float = 0.01
    square_share: float = 0.03
    # Squared bound on norms for the means, over the number of features, and the noise of a mean, in
    # deviations of sampling, up to which it is raised: a low one makes means of skewed columns
    # wrong (`means.py`).
    centre_bounds: tuple[float, float] = (2.0, 16.0)
    centre_noise: float = 3.0
    # Noise of a mean, in scales, from which it would not help.
    most_centre_noise: float = 1.0
    # Share of the units on average that are counted for means, at least.
    least_kept_units: float = 0.02
    # Largest squared value of a 0/1 column in squared scales, over the number of features: so the
    # records of a rare flag are within the bounds on norms (`raw_tables.py`).
    flag_square: float = 0.75
    # Mean squares: bounds on the norm of a record's squares over typical ones, values that count,
    # in scales, the noise that is aimed at and the most with which they are released, and how
    # often they are, at most.
    square_norms: tuple[float, float] = (1.5, 128.0)
    square_radius: float = 16.0
    square_noise: float = 0.2
    most_square_noise: float = 0.3
    most_square_looks: int = 2
    # The factors by which a mean square may move a scale, the deviations of noise that it is taken
    # to be at least, and how far off the logarithm of a scale usually is before each of them.
    scale_factors: tuple[float, float] = (0.3, 4.0)
    least_square: float = 2.0
    usually_off: tuple[float, float] = (0.35, 0.25)
    # Reach of usual columns, in scales: those that reach farther have values there.
    usual_reach: float = 16.1
    # Variances of features in squared scales that mean squares may report.
    typical_variances: tuple[float, float] = (2.0**-4, 2.0**4)
    # Deviations of noise from which a column is taken for skewed.
    sign_evidence: float = 4.0
    # Fourth powers, in squared variances: the largest that counts follows from the noise that it
    # brings to a mean of them, within bounds (`error_estimate.py`). Their unit has so many bits of
    # the grid at variance 1, within what is exact.
    tail_noise: float = 0.4
    largest_tails: tuple[float, float] = (32.0, 1024.0)
    tail_bits: int = 30
    tail_bit_limits: tuple[int, int] = (20, 36)


RULES = PreparationRules()
_UP = 1 + 2.0**-40  # makes up for roundings
# Least mu of a release, times the largest noise that can be drawn, over the root of the number of
# features. Bounds are lowered to what can be drawn, and counts need a thousandth of it.
_LEAST_TOTAL = 2**15
_FACTOR_PART = 4  # norm bound over the range of the number that says how far a unit was shrunk
_SQUARE_WIDTH = 2**10 - 1  # half the steps of the grid of squares

SQUARES = "scales of the features, refined"
NORMS = "bound on the norms of records"
SIGNS = "how often features lie above their centre"


@dataclass(frozen=True)
class Preparation(SearchStage):
    """The stage: the size, and the budget of which it takes shares.

    `total` is the mu of the whole release. Steps take shares of what is left of the budget when
    they begin, or of `total` where shares are fixed. Public scales are used as they are where
    `known_scale` says so, and means are zero where `known_mean` does. `bounds` are public bounds of
    the features; records are to be within them. `located` says that centres and scales are found
    before it. `neighbours` is the relation.
    """

    released: ClassVar[str] = "centres, scales and norms"

    n_records: int
    n_features: int
    total: float
    known_scale: bool = False
    known_mean: bool = False
    bounds: Bounds | None = None
    located: bool = False
    neighbours: Neighbours = ONE_REPLACED

    @property
    def unknown(self) -> str:
        """See `Stage.unknown`."""
        of = ["means"] * (not self.known_mean) + ["scales"] * (not self.known_scale)
        return f"the features' {' and '.join(of)}, and the norms of records"

    def cost(self) -> StageCost:
        """See `Stage.cost`; refuses a total whose noise can hardly be drawn.

        Plans ask before a charge. `run` has a part of the total, and never refuses.
        """
        n, d, total = self.n_records, self.n_features, self.total
        if total * LARGEST_SIGMA < _LEAST_TOTAL * math.sqrt(d):
            raise ParameterError(
                f"epsilon must be larger to find means and scales of {d:,} features, got one whose "
                "noise cannot be drawn: choose a larger epsilon or delta, fewer rows of a unit, or "
                "pass assume_centered=True with a feature_scale."
            )
        planned = most = 0.0
        if not self.located and not (self.known_mean and self.known_scale):
            planned = 2 * d * (RULES.location_ratio / (n * total)) ** 2
            planned = min(RULES.most_location_share, max(RULES.least_location_share, planned))
            most = self.looks.largest_mu
        centre = 0.0 if self.known_mean else centre_share(n, d, total)
        norms = norm_share(n, d, total)
        share = centre + (norms + RULES.tail_share + RULES.square_share)
        known, bounds = 0.0, self.bounds
        if bounds is not None and not bounds.constant.all():
            known = float(np.mean(bounds.finite[~bounds.constant]))
        return StageCost(
            math.sqrt(planned + centre + norms + RULES.tail_share + RULES.square_share) * total,
            math.hypot(most, math.sqrt(share) * total) * _UP,  # proof: step 7
            self.looks.expected(known),
            drowns=self.known_mean and not self.known_scale and self.looks.drowns,
        )

    def run(self, prepared: Prepared) -> Prepared:
        """Find centres, scales and norms, and hand on records that are centred and clipped.

        Privacy
        -------
        Everything is measured by the session: `docs/proofs/preparation.md`.
        """
        session = prepared.session
        step = self
        if not prepared.fixed_shares:
            step = replace(self, total=session.mu_left)  # proof: step 1
        scale = prepared.feature_scale
        if self.known_mean and self.known_scale:
            every = np.ones(len(scale), dtype=bool)
            found = Location(np.zeros_like(scale), scale, WIDEST * scale, every)
        else:
            found = prepared.place or find_location(
                session, step.looks, share=prepared.share, bounds=self.bounds, first=prepared.first
            )
            scale = scale if self.known_scale else found.scale
        scale = np.where(found.found, scale, 0.0)
        flags = np.zeros(len(scale), dtype=bool)
        flags[list(prepared.indicators)] = not self.known_scale
        scale = step._limited(scale, flags)
        reach = np.minimum(found.reach, WIDEST * scale) if self.known_scale else found.reach
        wide = np.maximum(reach, WIDEST * scale)
        compact = session.view(views.compact(found.centre, wide, scale))  # proof: step 9
        ready, centre = compact.view(views.centred(np.zeros_like(scale), reach)), found.centre
        making = {**prepared.making, "unresolved": tuple(np.flatnonzero(~found.found).tolist())}
        if not self.known_scale:
            making["scales"] = "released"
        bound = tilt = None
        if scale.any():
            refined = step._refined(replace(prepared, session=compact), found, scale, flags)
            centre, means_sd, moved, typical, stretch = refined
            if means_sd is not None:
                making["means_sd"] = tuple(means_sd.tolist())
            moved = step._limited(moved, flags)
            grown = np.divide(moved, scale, out=np.ones_like(scale), where=scale > 0)
            scale, reach = moved, np.minimum(reach * np.maximum(grown, 1.0), wide)
            ready = compact.view(views.centred(centre - found.centre, reach))
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
            location=None if self.known_mean else centre,
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
        the factors by which scales were moved. The first of two releases of mean squares counts by
        half: it also mends scales that were wrong, where heavy tails go on. It comes before the
        means, which skewed columns would lose to a bound in units of scales that are too small.
        """
        session, share = prepared.session, prepared.share
        n_found, n_scaled = found.found.sum(), int(np.count_nonzero(scale))
        mu = math.sqrt(centre_share(self.n_records, int(n_found), self.total)) * self.total
        looks, square_mu = 0, 0.0  # how many releases of mean squares are worth their noise
        for number in range(0 if self.known_scale else RULES.most_square_looks, 0, -1):
            each = math.sqrt(RULES.square_share / number) * self.total
            if square_noise(self.n_records * share, n_scaled, each) <= RULES.most_square_noise:
                looks, square_mu = number, each
                break
        first, now, bounds = np.ones_like(scale), scale, self.bounds

        def farthest(centre: FloatArray) -> FloatArray:
            """Return how far from the centre a feature surely may have values; 0 if unknown."""
            far = np.where(found.reach > RULES.usual_reach * scale, found.reach / 2, 0.0)
            if bounds is None:
                return far
            ends = np.maximum(bounds.highs - centre, centre - bounds.lows)
            return np.where(bounds.finite, ends, far)

        if looks > 1:
            query = squares_of(session, now, square_mu)
            squares, doubt = release_squares(session, query, square_mu)
            far = farthest(found.centre)
            first = self._factor(squares / share, doubt / share, far, now, square_mu, look=0)
            now = self._limited(now * first, flags)
        wanted: list[Query] = []
        if not self.known_mean:
            sums = centre_sums(session, now, mu)
            wanted += [sums] if isinstance(sums, BoundedSums) else []
        if looks:
            query = squares_of(session, now, square_mu)
            wanted.append(query)
        session.read(*wanted)
        mean, noise, means_sd = np.zeros_like(scale), 0.0, None
        if not self.known_mean:
            mean, noise = release_centre(session, sums, mu)
            mean, noise = mean / share, noise / share  # missing ones count as zeros
            counted = prepared.making.get("complete", {}).get("noise_sd", 0)
            means_sd = np.hypot(noise * now, np.abs(mean) * counted / (share * self.n_records))
        if noise > RULES.most_centre_noise:
            mean, means_sd = np.zeros_like(mean), None
        centre = found.centre + mean
        if bounds is not None and not self.known_mean:
            centre = np.clip(centre, bounds.lows, bounds.highs)
        if not looks:
            return centre, means_sd, scale, None, first
        squares, doubt = release_squares(session, query, square_mu)
        # About the mean rather than the centre found before; its noise has a square too.
        off = np.divide(mean, now, out=np.zeros_like(mean), where=now > 0)
        squares = squares / share - np.maximum(off**2 - noise**2, 0.0)
        far = farthest(centre)
        moved = self._factor(squares, doubt / share, far, now, square_mu, look=looks - 1)
        least, most = RULES.typical_variances
        typical = min(most, max(least, float(np.median((squares / moved**2)[scale > 0]))))
        return centre, means_sd, now * moved, typical, np.sqrt(first) * moved

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

        They do by as much as the noise of the squares allows. Features surely have values `far`
        from their centre.
        """
        seen = np.maximum(squares, RULES.least_square * noise)
        trust = 1 / (1 + (noise / seen / (2 * RULES.usually_off[look])) ** 2)
        moved = np.where(scale > 0, np.clip(seen ** (trust / 2), *RULES.scale_factors), 1.0)
        # Values too far away were cut down: that their squares are small says nothing.
        cut = far**2 > square_norm(self.n_records, int(np.count_nonzero(scale)), mu) * scale**2
        return np.where(cut, np.maximum(moved, 1.0), moved)

    def _limited(self, scale: FloatArray, flags: BoolArray) -> FloatArray:
        """Limit the scales by public knowledge.

        Those of 0/1 columns are so large that bounds on norms do not cut them, and none exceeds
        what standard deviations within its public bounds can be.
        """
        least = (RULES.flag_square * max(int(np.count_nonzero(scale)), 2)) ** -0.5
        scale = np.where(flags & (scale > 0), np.maximum(scale, min(least, 0.5)), scale)
        if self.bounds is None or self.known_scale:
            return scale
        most = self.bounds.largest_deviation(known_mean=self.known_mean)
        return np.where(most > 0, np.minimum(scale, most), scale)

    def _measured(
        self, prepared: Prepared, typical: float | None
    ) -> tuple[NormBound, IntArray | None, Tails]:
        """Release norms, means of signs if asked for, and tails of centred records.

        They are read at once where about the variance of a feature is known; else the norms say it
        first.
        """
        session, scale, share = prepared.session, prepared.feature_scale, prepared.share
        mu = math.sqrt(RULES.tail_share) * self.total
        norms, signs = norm_counts(scale), SignSums(len(scale))
        wanted: list[Query] = [signs, norms] if prepared.centre_signs else [norms]
        if typical is not None:
            fourths = fourths_of(session, scale, typical, mu)
            wanted.append(fourths)
        session.read(*wanted)
        tilt = None
        if prepared.centre_signs:
            sign_mu = math.sqrt(RULES.sign_share) * self.total
            noisy = session.measure(signs, sign_mu, SIGNS)  # proof: step 5
            sums = noisy.integers
            # Those that noise may have made are zero: the noise of two would stand in for a pair.
            sums[np.abs(sums) < RULES.sign_evidence * noisy.sd] = 0
            tilt = np.rint(TILT_UNIT * sums / session.n_records).astype(np.int64)
            tilt = np.clip(tilt, 1 - TILT_UNIT, TILT_UNIT - 1)
        norm_mu = math.sqrt(norm_share(self.n_records, self.n_features, self.total)) * self.total
        noisy = session.measure(norms, norm_mu, NORMS)  # proof: step 3
        counts = noisy.integers
        counts[0] -= round(self.n_records * (1 - share))  # zeros that stand for missing ones
        rest = session.remaining - RULES.tail_share * self.total**2
        rest = math.sqrt(max(rest, 1e-6 * self.total**2)) / self.neighbours.outer_product
        n_found = int(np.count_nonzero(scale))
        bound = choose_norm(counts, noisy.sd, self.n_records, n_found, rest)  # proof: step 4
        if typical is None:
            fourths = fourths_of(session, scale, bound.typical, mu)
        noisy = session.measure(fourths, mu, FOURTH_POWERS)  # proof: step 6
        unit = noisy.unit / session.n_records
        fourth, noise = np.where(scale > 0, noisy.integers * unit, 0.0), noisy.sd * unit
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
    """Release means of records of bounded norm; also return their noise in units of the scales.

    Privacy
    -------
    Neighbours: those of the session; no precondition. A record, or a unit, adds an integer vector
    of norm at most B to the sums, so they move by at most 2 B.
    """
    noisy = session.measure(sums, mu, MEANS)
    numbers, n = noisy.integers, float(session.n_records)
    if isinstance(sums, UnitSums):  # proof: step 11
        kept = numbers[-1] * sums.most_rows / (session.n_records * sums.factor_range)
        n, numbers = n * min(1.0, max(RULES.least_kept_units, kept)), numbers[:-1]
    step = noisy.unit / n
    return np.asarray(numbers * step * sums.grid.feature_scale), noisy.sd * step


def squares_of(session: Session, scale: FloatArray, mu: float) -> Products:
    """Return the query that squares are released from; its bound follows from the noise."""
    d = int(np.count_nonzero(scale))
    width = min(_SQUARE_WIDTH, math.floor((LARGEST_EXACT_FLOAT / len(scale)) ** 0.25) - 1)
    grid = FeatureGrid(scale, RULES.square_radius, width)  # sums of fourth powers are exact
    unit = round(1 / grid.step**2)
    bound = min(square_norm(session.n_records, d, mu) * unit, LARGEST_SIGMA * mu / 4)
    bound = max(1, math.floor(bound))
    nowhere = np.empty(0, dtype=np.int64)
    return Products(
        ProductMap(grid, nowhere, nowhere, 1, 1, unit, bound, bound // 4, size_range=1, size_cap=1)
    )


def square_norm(n_records: int, n_found: int, mu: float) -> float:
    """Return the bound on the norm of a record's squares, in squared scales."""
    factor = RULES.square_noise * RULES.square_norms[0] / square_noise(n_records, n_found, mu)
    return min(RULES.square_norms[1], max(RULES.square_norms[0], factor)) * math.sqrt(2 * n_found)


def release_squares(session: Session, query: Products, mu: float) -> tuple[FloatArray, float]:
    """Release mean squares of centred records in squared scales; also return their noise.

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


def fourths_of(session: Session, scale: FloatArray, typical: float, mu: float) -> FourthPowers:
    """Return the query of fourth powers that tails are released from.

    `typical` is about the variance of a feature, in scales. The bound follows from the noise that
    it brings, within bounds.
    """
    n, d = session.n_records, int(np.count_nonzero(scale))
    grid = FeatureGrid(scale, WIDEST, HALF_WIDTH)
    bits = RULES.tail_bits + round(2 * math.log2(typical))
    fewest, most = RULES.tail_bit_limits
    bits = min(most, max(fewest, bits))
    unit = 2.0**bits * grid.step**4
    least, largest = RULES.largest_tails
    largest = min(largest, max(least, RULES.tail_noise * n * mu / math.sqrt(2 * d)))
    exact = min(2 ** (52 - bits), math.isqrt(2**52 // session.n_features))
    exact = min(exact, math.floor(LARGEST_SIGMA * mu / 2))  # its noise can be drawn
    bound = max(1, min(exact, math.floor(largest * typical**2 * math.sqrt(d) / unit)))
    return FourthPowers(grid, bits, bound)


def centre_bound(grid: FeatureGrid, n_found: int, n_records: int, mu: float) -> int:
    """Return the bound on the norm of a record, in steps of the grid, for the means.

    It is sqrt(2) to 4 times the typical norm: as large as a noise of `centre_noise` deviations of
    sampling allows, so that few records of skewed columns are shrunk.
    """
    least, most = RULES.centre_bounds
    square = (RULES.centre_noise * mu / 2) ** 2 * n_records / max(n_found, 1)
    bound = math.sqrt(min(most, max(least, square)) * n_found) / grid.step
    return max(1, math.floor(min(bound, LARGEST_SIGMA * mu / 2)))  # its noise can be drawn


def centre_share(n_records: int, n_features: int, total: float) -> float:
    """Return the share at which the error of the centre hardly matters, within bounds.

    At the lowest bound a feature is off by b = sqrt(8 d / share) / (n mu) scales, by at most
    `centre_error`. All of them together add a matrix of rank one to the second moments, whose norm
    is d b^2: at most
    `centre_part` of that of the noise of a whole matrix, about 4 d^(3/2) / (n mu).
    """
    size = n_records * total
    share = 8 * n_features / (RULES.centre_error * size) ** 2
    share = max(share, 2 * math.sqrt(n_features) / (RULES.centre_part * size))
    least, most = RULES.centre_shares
    return min(most, max(least, share))


def norm_share(n_records: int, n_features: int, total: float) -> float:
    """Return the share for norms: it grows as noise shrinks beside what a bound cuts off."""
    least, most = RULES.norm_shares
    return min(most, max(least, RULES.norm_ratio * n_records * total / (2 * n_features)))


def square_noise(n_records: float, n_found: int, mu: float) -> float:
    """Approximate the noise of mean squares, in squared scales."""
    return 2 * RULES.square_norms[0] * math.sqrt(2 * n_found) / (n_records * mu)
