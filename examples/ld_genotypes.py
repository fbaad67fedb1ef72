"""Genotypes of a growing population, simulated by msprime: the tables of `ld.py`.

Founders come from a coalescent with recombination. Thirty generations later everybody's two copies
of a chromosome are mosaics of founders' ones, drawn at random: a population that grew without
bounds since. So there can be more people than founders, in seconds, and far-away variants hardly
correlate; in a small population that did not grow they would, by kinship alone.

Another population split off long before. A panel is of 500 people of one of them and is public.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HOW_TO_INSTALL = "msprime is needed: pip install 'hushcov-genotypes[examples]'"
FOUNDERS, PANEL = 10_000, 500
RATE = 1e-8  # of recombination and of mutation, by base pair and generation
GENERATIONS = 30  # since the founders
ANCESTORS, FOUNDING, FAR = 10_000, 100_000, 10_000  # sizes of populations
GREW, SPLIT = 400, 1_000  # generations before the founders
MOST_BREAKS = 16  # of one copy of a chromosome
CHUNK = 2_000  # people drawn at a time
Calls = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Population:
    """Copies of chromosomes of founders, and two public panels of genotypes.

    `positions` are in base pairs, of variants that are common in the panel; `chromosomes` says
    which piece of the genome each lies on. `far` is a panel of the population that split off.
    """

    positions: npt.NDArray[np.int64]
    chromosomes: npt.NDArray[np.int64]
    founders: Calls
    panel: Calls
    far: Calls

    def people(self, number: int, seed: int) -> Iterator[Calls]:
        """Genotypes of so many people, some rows at a time."""
        generator = np.random.default_rng(seed)
        for start in range(0, number, CHUNK):
            copies = self._copies(2 * min(CHUNK, number - start), generator)
            yield copies[0::2] + copies[1::2]

    def _copies(self, number: int, generator: np.random.Generator) -> Calls:
        """Mosaics of founders' copies, chromosome by chromosome."""
        made = np.empty((number, len(self.positions)), dtype=np.int8)
        rows = np.arange(number)[:, None]
        for chromosome in np.unique(self.chromosomes):
            columns = np.flatnonzero(self.chromosomes == chromosome)
            places = self.positions[columns]
            length = int(places[-1]) + 1
            breaks = np.minimum(generator.poisson(GENERATIONS * RATE * length, number), MOST_BREAKS)
            most = int(breaks.max())
            ends = generator.integers(0, length, (number, most))
            ends[np.arange(most) >= breaks[:, None]] = length
            piece = np.zeros((number, len(columns)), dtype=np.int8)
            for each in range(most):
                piece += places >= ends[:, [each]]
            whose = generator.integers(0, len(self.founders), (number, most + 1))
            made[:, columns] = self.founders[whose[rows, piece], columns]
        return made

    def table(self, number: int, seed: int, path: Path | None = None) -> Calls:
        """All of them, in memory or in a file with variant after variant (`.npy`)."""
        shape = number, len(self.positions)
        if path is None:
            made: Calls = np.empty(shape, dtype=np.int8)
        else:
            made = np.lib.format.open_memmap(path, "w+", np.int8, shape, fortran_order=True)
        start = 0
        for rows in self.people(number, seed):
            made[start : start + len(rows)] = rows
            start += len(rows)
        return made


def simulate(
    n_variants: int,
    *,
    rarest: float = 0.05,
    n_chromosomes: int = 1,
    length: float = 3e6,
    founders: int = FOUNDERS,
    seed: int = 1,
    done: Callable[[], object] = lambda: None,
) -> Population:
    """Variants whose rarer allele has at least this share in the panel, evenly spread.

    Which variants are studied is decided by the public panel: a choice by the frequencies of the
    people to protect would be one more release.
    """
    pieces = []
    for chromosome in range(n_chromosomes):
        wanted = n_variants * (chromosome + 1) // n_chromosomes
        wanted -= n_variants * chromosome // n_chromosomes
        pieces.append(_chromosome(wanted, rarest, length, founders, seed + chromosome))
        done()
    which = np.repeat(np.arange(n_chromosomes), [len(piece[0]) for piece in pieces])
    positions, *calls = zip(*pieces, strict=True)
    return Population(np.concatenate(positions), which, *(np.hstack(each) for each in calls))


def _chromosome(wanted: int, rarest: float, length: float, founders: int, seed: int) -> Any:
    """Positions, copies of founders, and the two panels."""
    try:
        import msprime
        import tskit
    except ModuleNotFoundError:
        sys.exit(HOW_TO_INSTALL)
    past = msprime.Demography()
    growth = math.log(FOUNDING / ANCESTORS) / GREW
    past.add_population(name="here", initial_size=FOUNDING, growth_rate=growth)
    past.add_population(name="far", initial_size=FAR)
    past.add_population(name="before", initial_size=ANCESTORS)
    past.add_population_parameters_change(
        time=GREW, population="here", initial_size=ANCESTORS, growth_rate=0
    )
    past.add_population_split(time=SPLIT, derived=["here", "far"], ancestral="before")
    trees = msprime.sim_ancestry(
        {"here": founders + PANEL, "far": PANEL},
        demography=past,
        sequence_length=length,
        recombination_rate=RATE,
        random_seed=seed,
    )
    trees = msprime.sim_mutations(trees, rate=RATE, random_seed=seed, model="binary")
    panel = np.arange(2 * founders, 2 * (founders + PANEL))
    share = trees.simplify(panel, filter_sites=False).genotype_matrix().mean(axis=1)
    common = np.flatnonzero((share >= rarest) & (share <= 1 - rarest))
    if len(common) < wanted:
        sys.exit(f"only {len(common):,} of {wanted:,} common variants: simulate a longer piece.")
    sites = common[np.linspace(0, len(common) - 1, wanted).astype(int)]
    variant = tskit.Variant(trees)
    calls = np.empty((trees.num_samples, wanted), dtype=np.int8)
    for place, site in enumerate(sites):
        variant.decode(site)
        calls[:, place] = variant.genotypes
    people = calls[2 * founders :].reshape(2, PANEL, 2, wanted).sum(axis=2, dtype=np.int8)
    return trees.sites_position[sites].astype(np.int64), calls[: 2 * founders], *people


def ld(genotypes: Calls) -> npt.NDArray[np.float64]:
    """Correlations of genotypes, without privacy; 0 for variants that do not vary."""
    n, d = genotypes.shape
    sums, squares = np.zeros(d), np.zeros((d, d))
    for start in range(0, n, 10_000):
        rows = genotypes[start : start + 10_000].astype(np.float32)  # sums stay exact: below 2^24
        sums += rows.sum(axis=0, dtype=np.float64)
        squares += rows.T @ rows
    covariance = squares / n - np.multiply.outer(sums / n, sums / n)
    unit = np.sqrt(np.diag(covariance))
    unit[unit < 1e-9] = np.inf
    found = covariance / np.multiply.outer(unit, unit)
    np.fill_diagonal(found, 1.0)
    return found
