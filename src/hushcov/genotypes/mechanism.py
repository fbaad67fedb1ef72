"""Release of genotypes: one pass over blocks of variants, each noisy before the next is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov.accounting import REPLACE, Budget
from hushcov.exceptions import DataError, ParameterError, PrivacyConditionError
from hushcov.genotypes.parameters import (
    DIAGONAL_WEIGHT,
    PAIR_WEIGHT,
    SCALE,
    GenotypeParameters,
    Variants,
    call_shares,
    chosen_bin,
    count_weight,
    genotype_means,
    noise_of_bound,
    relative_movement,
    usual_square,
)
from hushcov.genotypes.reading import GenotypeBlock, GenotypeRecords
from hushcov.noise import Entropy, check_entropy, rounded_normal
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Release, parts_of
from hushcov.sums.protocol import Progress

NAME = "genotypes"
_LEAST_KEPT = 0.05  # of the records, where noise says fewer
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
        """Nothing summed yet."""
        sizes = parameters.candidates.n_pairs, parameters.inputs.n_features
        pairs, squares = (np.zeros(size, dtype=np.int64) for size in sizes)
        return cls(pairs, squares, [], [])


def release_genotypes(
    records: GenotypeRecords,
    parameters: GenotypeParameters,
    entropy: Entropy,
    *,
    frequencies: FloatArray | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Release:
    """Pass over the variants once, and release covariances within windows.

    `frequencies` are public allele frequencies, if the parameters say that they are known.
    `progress` is told how many variants are done.

    Privacy
    -------
    See `GenotypeParameters.budget`, which is the budget if none is given. Frequencies, if given,
    must be public.
    """
    check_entropy(entropy)
    budget = parameters.budget(private=entropy.private) if budget is None else budget
    _check_size(records, parameters)
    if parameters.known != (frequencies is not None):
        raise ParameterError(
            "frequencies must be given where the parameters say that they are known, and only "
            "then: make the parameters for them."
        )
    mus = parameters.count_mu, parameters.norm_mu, parameters.value_mu
    for mu, part in zip(mus, parameters.part_names, strict=True):
        budget.gaussian(mu, part)  # proof: step 6
    variants, sums = run_blocks(records, parameters, entropy, frequencies, progress)
    return document(variants, sums, parameters, budget)  # proof: step 7


def run_blocks(
    records: GenotypeRecords,
    parameters: GenotypeParameters,
    entropy: Entropy,
    frequencies: FloatArray | None = None,
    progress: Progress | None = None,
) -> tuple[Variants, Sums]:
    """All noisy numbers, block by block; see `release_genotypes`, which spends them first."""
    n, sums = parameters.inputs.n_records, Sums.none(parameters)
    noise = 0.0 if parameters.known else parameters.count_sigma / n
    variants = Variants.unknown(parameters.inputs.n_features, noise)
    blocks = records.blocks(parameters.block, parameters.candidates.reach)
    for number, block in enumerate(blocks):
        _check_block(block, number, parameters)
        release_counts(block, variants, parameters, entropy, frequencies)
        release_block(block, number, variants, sums, parameters, entropy)
        if progress is not None:
            progress(block.stop - block.start)
    if len(sums.kept) != parameters.n_blocks:
        raise DataError("the genotypes ended before the last variant: check the file.")
    return variants, sums


def release_counts(
    block: GenotypeBlock,
    variants: Variants,
    parameters: GenotypeParameters,
    entropy: Entropy,
    frequencies: FloatArray | None = None,
) -> None:
    """Release alleles and calls of the variants of a block of which nothing is known yet.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Every variant is counted once, and all counts
    of all blocks move together by no more than the noise is for.
    """
    new, done = slice(variants.filled, block.end), variants.filled - block.start
    if new.start >= new.stop:
        return
    sigma, n = parameters.count_sigma, parameters.inputs.n_records
    sums, calls = (each[done:] for each in block.counts())  # proof: step 1
    calls = calls + rounded_normal(entropy.generator, sigma, len(calls))  # proof: step 2
    shares = call_shares(calls, sigma, n)
    if frequencies is not None:
        variants.fill(shares, 2 * frequencies[new])
        return
    sums = sums + rounded_normal(entropy.generator, sigma, len(sums))  # proof: step 2
    variants.fill(shares, genotype_means(sums, shares, n))


def release_block(
    block: GenotypeBlock,
    number: int,
    variants: Variants,
    sums: Sums,
    parameters: GenotypeParameters,
    entropy: Entropy,
) -> None:
    """Choose a bound on norms, leave longer records out, and release sums of what is left.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. Integers of the variants were released or
    are public; the bound follows from noisy counts.
    """
    here = slice(block.start, block.end)
    maps = variants.slopes[here], variants.offsets[here], parameters.ends[block.start : block.stop]
    norms = block.squared_norms(*maps, PAIR_WEIGHT, DIAGONAL_WEIGHT, 0)  # proof: step 4
    bound = release_bound(norms, number, parameters, entropy)
    kept: BoolArray = norms <= bound**2  # proof: step 4
    n_kept, weight = int(kept.sum()), count_weight(bound, parameters.inputs.neighbours)
    pairs, squares = block.products(kept, *maps)
    exact = np.concatenate([PAIR_WEIGHT * pairs, DIAGONAL_WEIGHT * squares, [weight * n_kept]])
    sigma = parameters.sum_sigma(number, bound)  # proof: step 5
    noisy = exact + rounded_normal(entropy.generator, sigma, len(exact))  # proof: step 5
    least = _LEAST_KEPT * parameters.inputs.n_records
    about = max(least, float(noisy[-1]) / weight)
    first = int(parameters.candidates.starts[block.start])
    sums.pairs[first : first + len(pairs)] = noisy[: len(pairs)]
    sums.squares[block.start : block.stop] = noisy[len(pairs) : -1]
    sums.kept.append(about)
    sums.sigma.append(sigma)


def release_bound(
    norms: IntArray, number: int, parameters: GenotypeParameters, entropy: Entropy
) -> int:
    """A bound on the norms of records in a block, from their noisy histogram.

    Privacy
    -------
    Neighbours: those of the inputs; no precondition. A record is in one bin.
    """
    edges, sigma = parameters.edges(number), parameters.norm_sigma(number)  # proof: step 3
    bins = np.searchsorted(edges, norms)
    counts = np.bincount(bins, minlength=len(edges) + 1)
    counts = counts + rounded_normal(entropy.generator, sigma, len(counts))  # proof: step 3
    inputs, usual = parameters.inputs, usual_square(parameters.size(number))
    mu = parameters.value_mu * parameters.share(number)
    per_bound = relative_movement(inputs.neighbours) / mu
    noise = noise_of_bound(per_bound, inputs.n_records)
    return math.isqrt(int(edges[chosen_bin(counts, sigma, edges, usual, noise)]))


def _check_size(records: GenotypeRecords, parameters: GenotypeParameters) -> None:
    """Refuse other variants than planned for, and, where it is public, another number of people."""
    inputs = parameters.inputs
    public = inputs.neighbours.relation == REPLACE
    sizes = [("variants", records.n_features, inputs.n_features)]
    sizes += [("records", records.n_records, inputs.n_records)] if public else []
    for what, found, declared in sizes:
        if found != declared:
            raise DataError(
                f"genotypes must have {declared:,} {what} as declared, got {found:,}: declare "
                "their true size."
            )


def _check_block(block: GenotypeBlock, number: int, parameters: GenotypeParameters) -> None:
    """Refuse blocks that are not those for which the budget was divided."""
    start, stop = parameters.span(number) if number < parameters.n_blocks else (-1, -1)
    last = int(parameters.ends[start:stop].max(initial=0))
    if (block.start, block.stop) != (start, stop) or block.end < last:
        raise PrivacyConditionError(  # proof: step 6
            f"blocks must be of {parameters.block:,} variants, one after the other, with the "
            "windows of all of them: noise was divided among these."
        )


def document(
    variants: Variants, sums: Sums, parameters: GenotypeParameters, budget: Budget
) -> Release:
    """The document of noisy sums: covariances, in units in which all of them have one noise."""
    inputs, shares = parameters.inputs, variants.shares
    kept, level = _by_variant(np.array(sums.kept), parameters), _noise_levels(sums)
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
        guarantee=budget.guarantee,
        parameters=parameters.to_dict() | made,
        feature_scale=SCALE * even / (variants.slopes * shares),
        location=variants.means,
        noise_sd=noise_sd,
        selected=np.stack([rows, columns]),
        making=Making(
            n_records=inputs.n_records,
            scales="given" if parameters.known else "released",
            shrunk=min(1.0, max(0.0, left_out)),
            parts=parts_of(budget),
        ),
    )


def _noise_levels(sums: Sums) -> FloatArray:
    """The deviation of each block's noise, in units of the scales."""
    return np.asarray(np.array(sums.sigma) / (SCALE**2 * np.array(sums.kept)))


def _by_variant(of_blocks: FloatArray, parameters: GenotypeParameters) -> FloatArray:
    """A number for each variant, which is that of its block."""
    every = np.repeat(of_blocks, parameters.block)
    return np.asarray(every[: parameters.inputs.n_features])
