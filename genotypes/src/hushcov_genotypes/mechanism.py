"""Release of genotypes: one pass over blocks of variants, each noisy before the next is read.

Every number of it is certified from public inputs before data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from hushcov._arrays import LARGEST_SUM, FloatArray, IntArray
from hushcov._validation import check_integer
from hushcov._words import number
from hushcov.candidates import Candidates
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.fit.mechanism import SCALES, Facts, budget_words, certified_words
from hushcov.fit.norms import Mass
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import WITHIN, Budget, Neighbours
from hushcov.kernel.noise import LARGEST_SIGMA
from hushcov.kernel.records.base import Progress
from hushcov.kernel.session import Reserve, Session
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, parts_of
from hushcov_genotypes.queries import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    BlockNormCounts,
    CallCounts,
    KeptProducts,
    ScaledBlock,
    next_block,
    streamed,
)

#: One Hardy-Weinberg deviation of a genotype, in integers.
SCALE = 2**5
# Squared norms of records in a block are counted on a grid about their usual size.
_PER_OCTAVE, _OCTAVES_BELOW, _OCTAVES_ABOVE = 8, 6, 10
# Packed bytes of a block, and how many variants it has at least and at most.
_BLOCK_BYTES, _FEWEST, _MOST = 2**28, 1024, 16384
_REACHES = 4  # of a window, that a block has at least
# Shares of the squared mu: norms; counts where frequencies are public, and the range elsewhere.
_NORMS, _CALLS, _LEAST_COUNTS, _MOST_COUNTS = 0.01, 0.01, 0.02, 0.25
_STRAIN = 32.0  # what errors of means do to pairs: 2 over the fourth power of a usual deviation
# A bound on the norms of records over their usual size; measured on simulated genotypes.
_USUAL_BOUND = 1.5
# Of the bound on norms that the number of records kept weighs, where a record is removed.
_LIGHT = 4
_LARGE = 2**20  # a bound at which rounding is nothing
# Standard deviations that a correlation must have, to be told from noise nine times out of ten.
_SEEN = 3.2
# Bytes for each pair: its sum, places, value, and the matrix while it is made; for each variant.
_PAIR_BYTES, _VARIANT_BYTES = 120, 400
_BLOCKS = 3  # packed, that are there at the same time


@dataclass(frozen=True)
class GenotypeParameters:
    """Every public quantity of a release of genotypes.

    Parameters
    ----------
    inputs : ReleaseInputs
        Public inputs, with windows of variants as candidates.
    block : int
        Variants of a block.
    known : bool
        Whether allele frequencies are public, so that only calls are counted.
    count_mu, norm_mu, value_mu : float
        What counts of alleles and calls, norms of records, and sums of products spend, all blocks
        together.
    """

    inputs: ReleaseInputs
    block: int
    known: bool
    count_mu: float
    norm_mu: float
    value_mu: float

    @property
    def candidates(self) -> Candidates:
        """The windows."""
        assert self.inputs.candidates is not None
        return self.inputs.candidates

    @cached_property
    def ends(self) -> IntArray:
        """The variant after the last one that each variant is paired with."""
        return self.candidates.ends

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.inputs.n_features // self.block)

    def span(self, number: int) -> tuple[int, int, int]:
        """Return where a block starts and stops, and where the windows of its variants end."""
        start, d = number * self.block, self.inputs.n_features
        stop = min(start + self.block, d)
        return start, stop, min(stop + self.candidates.reach, d)

    def size(self, number: int) -> int:
        """Return how many pairs and variances a block has."""
        start, stop, _ = self.span(number)
        starts = self.candidates.starts
        return int(starts[stop] - starts[start]) + stop - start

    def share(self, number: int) -> float:
        """Return the root of a block's share of what norms, or sums, spend."""
        total = self.candidates.n_pairs + self.inputs.n_features
        return math.sqrt(self.size(number) / total) * WITHIN  # proof: step 6

    @property
    def count_sigma(self) -> int:
        """The noise of each number of alleles and of calls."""
        counts = CallCounts(0, self.inputs.n_features, alleles=not self.known)
        return counts.deviations(self.count_mu, self.inputs.neighbours)[0]  # proof: step 2

    def norm_sigma(self, number: int) -> int:
        """Return the noise of counts of records by their norm in a block."""
        counts, mu = BlockNormCounts(self.edges(number)), self.norm_mu * self.share(number)
        return counts.deviations(mu, self.inputs.neighbours)[0]  # proof: step 3

    def sum_sigma(self, number: int, bound: int) -> int:
        """Return the noise of a block's sums, for records of at most this norm."""
        sums, mu = kept_products(bound, self.inputs.neighbours), self.value_mu * self.share(number)
        return sums.deviations(mu, self.inputs.neighbours)[0]  # proof: step 5

    def edges(self, number: int) -> IntArray:
        """Return upper ends of the bins of squared norms in a block; longer records are cut."""
        steps = np.arange((_OCTAVES_BELOW + _OCTAVES_ABOVE) * _PER_OCTAVE + 1) / _PER_OCTAVE
        usual = float(usual_square(self.size(number)))
        ends = np.minimum(np.ceil(usual * 2.0 ** (steps - _OCTAVES_BELOW)), LARGEST_SUM)
        return np.asarray(ends, dtype=np.int64)  # proof: step 4

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the whole budget; each kind of number is spent before its noise is drawn.

        Privacy
        -------
        Neighbours: those of the inputs; no precondition. Every number that is released is an
        integer with exact Gaussian noise; `docs/proofs/genotypes.md`.
        """
        return self.inputs.budget(private=private)  # proof: step 6

    @property
    def part_names(self) -> tuple[str, str, str]:
        """Names of what each own event released."""
        counts = "calls of the variants" if self.known else "allele frequencies and calls"
        return counts, "norms of records, block by block", "products of variants in windows"

    @property
    def noise(self) -> float:
        """Approximate deviation of the noise of a correlation, before any record is read."""
        inputs = self.inputs
        size = self.candidates.n_pairs + inputs.n_features
        moved = _USUAL_BOUND * relative_movement(inputs.neighbours) * math.sqrt(size)
        return moved / (inputs.n_records * self.value_mu)

    @property
    def detection_limit(self) -> float:
        """Approximate smallest correlation that stands out from noise nine times out of ten."""
        sampling = 1 / math.sqrt(self.inputs.n_records)
        return min(1.0, _SEEN * math.hypot(self.noise, sampling))

    @property
    def memory(self) -> int:
        """Approximate bytes that a fit takes beside what is there before it."""
        windows = self.candidates
        packed = _BLOCKS * (self.block + windows.reach) * self.inputs.n_records // 4
        return packed + _PAIR_BYTES * windows.n_pairs + _VARIANT_BYTES * self.inputs.n_features

    def facts(self) -> Facts:
        """Return the design in words."""
        total = sum(mu**2 for mu in (self.count_mu, self.norm_mu, self.value_mu))
        counts, norms, products = self.part_names
        shares = {counts: self.count_mu**2 / total, norms: self.norm_mu**2 / total}
        pairs = f"{self.candidates.n_pairs:,} pairs ({self.candidates.words})"
        blocks = f"{self.n_blocks:,} of {self.block:,} variants"
        return [
            ("budget", budget_words(self.inputs, SCALES, shares, products)),
            ("pairs", f"{pairs}, all of which are released"),
            ("blocks", f"{blocks}; in each, the longest records are left out"),
            ("noise", f"about {number(self.noise, 2)} for each correlation"),
            ("certified", certified_words(self.budget())),
        ]

    def expected(self) -> dict[str, Any]:
        """Return the parameters and what to expect of them, as plain data."""
        expected = {"noise": self.noise, "detection_limit": self.detection_limit}
        return self.to_dict() | expected | {"memory_bytes": self.memory}

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        names = ("block", "n_blocks", "known", "count_mu", "norm_mu", "value_mu", "count_sigma")
        weights = {"pair_weight": PAIR_WEIGHT, "diagonal_weight": DIAGONAL_WEIGHT, "scale": SCALE}
        return {"inputs": self.inputs.to_dict()} | {n: getattr(self, n) for n in names} | weights


def usual_square(size: int) -> int:
    """Return the usual squared norm of what a record adds, for so many pairs and variances."""
    return PAIR_WEIGHT**2 * SCALE**4 * size


def kept_products(bound: int, neighbours: Neighbours) -> KeptProducts:
    """Return the sums of records of at most this norm, and the weight of one in their number.

    Where a record is replaced, by one that is kept as well or by one that is not, it is free.
    """
    weight = neighbours.moved(replaced=bound, removed=max(1, bound // _LIGHT))
    return KeptProducts(bound, weight)  # proof: step 5


def relative_movement(neighbours: Neighbours) -> float:
    """Return how far one record moves them over the bound on norms, about."""
    return math.sqrt(kept_products(_LARGE, neighbours).squared_distance(neighbours)) / _LARGE


def genotype_parameters(
    inputs: ReleaseInputs, *, known: bool = False, block: int | None = None
) -> GenotypeParameters:
    """Divide the budget and the variants, from public inputs alone.

    `known`: allele frequencies are public. `block`: variants of a block, if not as many as
    memory allows.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Nothing here depends on records. The events
    of the answer compose to at most (epsilon, delta); `docs/proofs/genotypes.md`, step 6.
    """
    windows = inputs.candidates
    if windows is None or not windows.contiguous or np.any(np.diff(windows.ends) < 0):
        raise ParameterError(
            "candidate_pairs must be windows: each variant with all those after it up to some "
            "other, which never comes earlier again. Pass bandwidth, or window_bp with known "
            "positions."
        )
    if block is None:  # as many variants as fit, so that blocks are about alike
        most = min(_MOST, 4 * _BLOCK_BYTES // inputs.n_records)
        most = max(_FEWEST, _REACHES * windows.reach, most)
        block = -(-inputs.n_features // -(-inputs.n_features // most))
    block = check_integer("block", block, at_least=1, cure="it is how many variants a block has.")
    mu = inputs.largest_mu()
    counts = _CALLS if known else _count_share(inputs, mu)
    shares = (counts, _NORMS, 1 - counts - _NORMS)
    mus = (mu * math.sqrt(share) * WITHIN for share in shares)  # proof: step 6
    parameters = GenotypeParameters(inputs, min(block, inputs.n_features), known, *mus)
    _check_room(parameters)
    return parameters


def _count_share(inputs: ReleaseInputs, mu: float) -> float:
    """Return the share at which errors of means and the noise of pairs do the same harm, about."""
    assert inputs.candidates is not None
    d = inputs.n_features
    noise = float(inputs.neighbours.moved(replaced=4, removed=2)) * d / (inputs.n_records * mu) ** 2
    width = (inputs.candidates.n_pairs + d) / d
    return min(_MOST_COUNTS, max(_LEAST_COUNTS, math.cbrt(_STRAIN * noise / width)))


def _check_room(parameters: GenotypeParameters) -> None:
    """Refuse noise that is larger than what can be drawn, whatever bound is chosen."""
    sizes = {parameters.size(place): place for place in range(parameters.n_blocks)}
    for place in sizes.values():
        widest = math.isqrt(int(parameters.edges(place)[-1]))
        needed = parameters.sum_sigma(place, widest), parameters.norm_sigma(place)
        if max(*needed, parameters.count_sigma) > LARGEST_SIGMA:
            raise CapacityError(
                f"{parameters.inputs.n_features:,} variants at epsilon "
                f"{parameters.inputs.epsilon:g} and delta {parameters.inputs.delta:g} need more "
                "noise than can be drawn: use fewer variants, or a larger budget."
            )


# Calls, frequencies and integers of variants, from released counts; and the bound on norms.


#: Frequencies of the rarer allele below this have its scale: values stay below 2**10.
LEAST_FREQUENCY = 0.005
_LEAST_SHARE = 0.05  # of records that have a call
_NOISY = 2.0  # deviations of its noise, which a frequency counts as at least
_LARGEST_SPOILT = 0.5  # of a variance, that noise of its mean is taken to have added
_SPREAD_EVIDENCE = 2.0  # deviations by which calls must spread more than noise does
_LEAST_KEPT = 0.5  # of the records seen
_HARM = 2.0  # what shorter records on average do, over noise: they shift all pairs alike
_UNSEEN = 2.0  # squared bound over the usual squared norm, where nothing is seen


@dataclass(eq=False)
class Variants:
    """Released or public frequencies of the variants, filled in block by block.

    `shares` are those of records with a call, `means` those of genotypes. A value of genotype g is
    the integer slope * g - offset. `mean_noise` is the deviation of a mean for a share of 1.
    """

    shares: FloatArray
    means: FloatArray
    slopes: IntArray
    offsets: IntArray
    mean_noise: float
    filled: int = 0

    @classmethod
    def unknown(cls, n_features: int, mean_noise: float) -> Variants:
        """Return variants of which nothing is known yet."""
        shares, means = np.zeros((2, n_features))
        slopes, offsets = np.zeros((2, n_features), dtype=np.int64)
        return cls(shares, means, slopes, offsets, mean_noise)

    def fill(self, shares: FloatArray, means: FloatArray) -> None:
        """Keep what is known of the next variants."""
        part = slice(self.filled, self.filled + len(shares))
        self.shares[part], self.means[part] = shares, means
        least = min(0.5, max(LEAST_FREQUENCY, _NOISY * self.mean_noise / 2))
        frequency = np.clip(means / 2, least, 1 - least)
        scale = np.sqrt(2 * frequency * (1 - frequency))
        self.slopes[part] = np.rint(SCALE / scale)
        self.offsets[part] = np.rint(self.slopes[part] * means)
        self.filled = part.stop

    @property
    def shift(self) -> FloatArray:
        """Distance of the integers' centre from the means, in units of `SCALE`."""
        return np.asarray((self.slopes * self.means - self.offsets) / SCALE)

    @property
    def spoilt(self) -> FloatArray:
        """Return the part of the variances that is noise of the means, in squared units."""
        added = (self.slopes * self.mean_noise / (SCALE * self.shares)) ** 2
        return np.minimum(added, _LARGEST_SPOILT)


def call_shares(noisy_calls: IntArray, sigma: int, n_records: int) -> FloatArray:
    """Return the share of records with a call by variant, drawn to the mean as noise asks."""
    raw, noise = noisy_calls / n_records, (sigma / n_records) ** 2
    mean, d = float(raw.mean()), len(raw)
    spread = float(np.mean((raw - mean) ** 2)) - noise
    if spread <= _SPREAD_EVIDENCE * noise * math.sqrt(2 / d):
        spread = 0.0
    weight = spread / (spread + noise)
    return np.clip(mean + weight * (raw - mean), _LEAST_SHARE, 1.0)


def chosen_bin(
    noisy_counts: IntArray, sigma: int, edges: IntArray, usual: int, noise_per_bound: float
) -> int:
    """Choose the bin up to which records are kept, where noise and what is left out are least.

    `noise_per_bound` is the deviation of a correlation for a bound of 1 on norms.
    """
    bounds = np.sqrt(edges.astype(np.float64))
    mass = Mass.of(noisy_counts[: len(edges)], sigma, bounds)  # the last one is never kept
    if mass is None:
        return int(np.searchsorted(edges, _UNSEEN * usual))
    kept, size = np.cumsum(mass.shares), np.cumsum(mass.shares * bounds)
    there = np.maximum(kept, _LEAST_KEPT)
    noise = noise_per_bound * bounds / there
    lost = _HARM * (1 - size / (there * size[-1]))
    harm = np.where(kept >= _LEAST_KEPT, noise**2 + lost**2, np.inf)
    return int(np.argmin(harm))


NAME = "genotypes"
_FEWEST_KEPT = 0.05  # of the records, where noise says fewer
_STEPS = 2**8  # of a released integer, for one deviation of noise


@dataclass(eq=False)
class Sums:
    """Noisy sums of the blocks so far: of pairs, of squares, and what each block kept.

    `kept` is about how many records a block kept, `sigma` its noise.
    """

    pairs: IntArray
    squares: IntArray
    kept: list[float]
    sigma: list[int]

    @classmethod
    def none(cls, parameters: GenotypeParameters) -> Sums:
        """Return sums of no blocks yet."""
        sizes = parameters.candidates.n_pairs, parameters.inputs.n_features
        pairs, squares = (np.zeros(size, dtype=np.int64) for size in sizes)
        return cls(pairs, squares, [], [])


def release_genotypes(
    session: Session,
    parameters: GenotypeParameters,
    *,
    frequencies: FloatArray | None = None,
    progress: Progress | None = None,
) -> Release:
    """Pass over the variants once, and release covariances within windows.

    `frequencies` are public allele frequencies, if the parameters say that they are known.
    `progress` is told how many variants are done.

    Privacy
    -------
    See `GenotypeParameters.budget`, which is that of the session. Frequencies, if given, must be
    public.
    """
    inputs = parameters.inputs
    inputs.check_size(session)
    if parameters.known != (frequencies is not None):
        raise ParameterError(
            "frequencies must be given where the parameters say that they are known, and only "
            "then: make the parameters for them."
        )
    mus = parameters.count_mu, parameters.norm_mu, parameters.value_mu
    counts, norms, products = (
        session.reserve(mu, name=part)  # proof: step 6
        for mu, part in zip(mus, parameters.part_names, strict=True)
    )
    noise = 0.0 if parameters.known else parameters.count_sigma / inputs.n_records
    variants, sums = Variants.unknown(inputs.n_features, noise), Sums.none(parameters)
    reach = parameters.candidates.reach
    blocks = session.view(partial(streamed, n_variants=parameters.block, reach=reach))
    for place in range(parameters.n_blocks):
        start, stop, end = span = parameters.span(place)
        block = blocks.view(partial(next_block, span=span))
        _measure_calls(block, place, variants, parameters, counts, frequencies)
        here, ends = slice(start, end), parameters.ends[start:stop]
        scaled = partial(
            ScaledBlock, slopes=variants.slopes[here], offsets=variants.offsets[here], ends=ends
        )
        block = block.view(scaled)  # proof: step 4
        _measure_products(block, place, sums, parameters, norms, products)
        if progress is not None:
            progress(stop - start)
    del block, blocks  # before there is a matrix
    return document(variants, sums, parameters, session)  # proof: step 7


def _measure_calls(
    block: Session,
    number: int,
    variants: Variants,
    parameters: GenotypeParameters,
    reserve: Reserve,
    frequencies: FloatArray | None = None,
) -> None:
    """Release alleles and calls of the variants of a block of which nothing is known yet."""
    start, _, end = parameters.span(number)
    first, size = variants.filled, end - variants.filled
    if size == 0:
        return
    sigma, n = parameters.count_sigma, parameters.inputs.n_records
    query = CallCounts(first - start, size, alleles=frequencies is None)
    found = reserve.measure(query, (sigma,), of=block).integers  # proof: step 2
    shares = call_shares(found[:size], sigma, n)
    if frequencies is None:
        means = np.clip(1 + found[size:] / (n * shares), 0.0, 2.0)  # of genotypes less 1
    else:
        means = 2 * frequencies[first:end]
    variants.fill(shares, means)


def _measure_products(
    block: Session,
    number: int,
    sums: Sums,
    parameters: GenotypeParameters,
    norms: Reserve,
    products: Reserve,
) -> None:
    """Choose a bound on norms from their noisy counts, and release sums of records up to it."""
    inputs, (start, stop, _) = parameters.inputs, parameters.span(number)
    edges, sigma = parameters.edges(number), parameters.norm_sigma(number)
    counts = norms.measure(BlockNormCounts(edges), (sigma,), of=block).integers  # proof: step 3
    mu = parameters.value_mu * parameters.share(number)
    noise = relative_movement(inputs.neighbours) / mu / (PAIR_WEIGHT * SCALE**2 * inputs.n_records)
    usual = usual_square(parameters.size(number))
    bound = math.isqrt(int(edges[chosen_bin(counts, sigma, edges, usual, noise)]))
    query, sigma = kept_products(bound, inputs.neighbours), parameters.sum_sigma(number, bound)
    noisy = products.measure(query, (sigma,), of=block).integers  # proof: step 5
    first, last = parameters.candidates.starts[[start, stop]]
    sums.pairs[first:last] = noisy[: last - first]
    sums.squares[start:stop] = noisy[last - first : -1]
    sums.kept.append(max(_FEWEST_KEPT * inputs.n_records, float(noisy[-1]) / query.weight))
    sums.sigma.append(sigma)


def document(
    variants: Variants, sums: Sums, parameters: GenotypeParameters, session: Session
) -> Release:
    """Return the document of noisy sums: covariances, in units in which all have one noise."""
    inputs, shares = parameters.inputs, variants.shares
    kept = _by_variant(np.array(sums.kept), parameters)
    # The deviation of each block's noise, in units of the scales.
    level = np.array(sums.sigma) / (SCALE**2 * np.array(sums.kept))
    usual = float(np.median(level))
    # What brings the noise of each block to that of the others.
    even = _by_variant(np.sqrt(level / usual), parameters)
    noise_sd = usual / PAIR_WEIGHT, usual / DIAGONAL_WEIGHT
    unit = noise_sd[0] / _STEPS
    rows, columns = parameters.candidates.pairs
    shift = variants.shift * shares / even
    pairs = sums.pairs / (PAIR_WEIGHT * SCALE**2 * kept * even)[rows]
    pairs /= even[columns]
    pairs -= shift[rows] * shift[columns]
    own = shares * sums.squares / (DIAGONAL_WEIGHT * SCALE**2 * kept * even**2)
    own -= shift**2 + variants.spoilt * (shares / even) ** 2
    values = (np.rint(each / unit).astype(np.int64) for each in (pairs, own))
    left_out = 1 - float(np.mean(sums.kept)) / inputs.n_records
    made = {"kept": sums.kept, "sigma": sums.sigma}
    return Release(
        mechanism=NAME,
        integers=symmetric_sparse((rows, columns), *values),
        unit=unit,
        guarantee=session.guarantee,
        parameters=parameters.to_dict() | made,
        feature_scale=SCALE * even / (variants.slopes * shares),
        location=variants.means,
        noise_sd=noise_sd,
        selected=np.stack([rows, columns]),
        making=Making(
            n_records=inputs.n_records,
            scales="given" if parameters.known else "released",
            shrunk=min(1.0, max(0.0, left_out)),
            parts=parts_of(session),
        ),
    )


def _by_variant(of_blocks: FloatArray, parameters: GenotypeParameters) -> FloatArray:
    """Return a number for each variant, which is that of its block."""
    every = np.repeat(of_blocks, parameters.block)
    return np.asarray(every[: parameters.inputs.n_features])
