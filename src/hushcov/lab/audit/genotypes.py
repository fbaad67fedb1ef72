"""Attacks on releases of genotypes: one person has other genotypes, or is not there at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.candidates import Candidates
from hushcov.genotypes.mechanism import (
    NAME,
    GenotypeParameters,
    document,
    genotype_parameters,
    release_genotypes,
    run_blocks,
)
from hushcov.genotypes.reading import GenotypeBlock, GenotypeRecords, open_genotypes
from hushcov.inputs import ReleaseInputs
from hushcov.lab.audit.attack import (
    DELTA,
    EPSILON,
    FITTED,
    Attack,
    Draw,
    Handmade,
    Pair,
    Statistic,
    Target,
    Turn,
    Turned,
    flat,
    remembered,
    replaced,
    replacement,
)
from hushcov.noise import Entropy
from hushcov.release import Release

_VARIANTS, _OTHERS = 8, 2000  # so many others that the bound on norms is sure


@dataclass(frozen=True, eq=False)
class GenotypeTarget(Target):
    """`release_genotypes`: pairs and variances as released, then means, scales and what was kept.

    Pairs are in units of their noise, in which the sums of products are whatever was kept.
    """

    parameters: GenotypeParameters
    frequencies: FloatArray | None = None

    def quick(self, rows: FloatArray) -> Draw:
        """Count and sum once for what comes again; draw all noise each time."""
        records: Any = _Remembered(open_genotypes(rows))
        budget = self.parameters.budget(private=False)

        def draw(generator: np.random.Generator) -> FloatArray:
            entropy = Entropy(generator, private=False)
            found = run_blocks(records, self.parameters, entropy, self.frequencies)
            return _seen(document(*found, self.parameters, budget))

        return draw

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return everything that a whole release contains."""
        return _seen(self.release(rows, entropy))

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """Return a whole release."""
        records, known = open_genotypes(rows), self.frequencies
        return release_genotypes(records, self.parameters, entropy, frequencies=known)


def _seen(release: Release) -> FloatArray:
    assert release.selected is not None
    rows, columns = release.selected
    pairs, own = release.integers[rows, columns], release.integers.diagonal()
    return flat(pairs, own, release.location, release.feature_scale, release.parameters["kept"])


class _Remembered:
    """Genotypes whose sums are computed once for each set of arguments."""

    def __init__(self, records: GenotypeRecords) -> None:
        self.n_records, self.n_features = records.n_records, records.n_features
        self._records, self._known = records, dict[tuple[int, int], list[_Block]]()

    def blocks(self, n_variants: int, reach: int) -> Iterator[Any]:
        key = n_variants, reach
        if key not in self._known:
            self._known[key] = [_Block(each) for each in self._records.blocks(*key)]
        return iter(self._known[key])


class _Block:
    def __init__(self, block: GenotypeBlock) -> None:
        self.start, self.stop, self.end = block.start, block.stop, block.end
        self.counts = remembered(block.counts)
        self.squared_norms = remembered(block.squared_norms)
        self.products = remembered(block.products)


def _pairs() -> tuple[Pair, ...]:
    """(2, 2, 2, ..) against (2, 0, 2, ..), against (0, 0, 0, ..), and against missing calls.

    In the first all products of neighbouring variants change sign, in the second all counts of
    alleles move as far as they can. Others have these, or 2 less each of these, so that sums are
    near zero and frequencies 1/2.
    """
    same = np.full(_VARIANTS, 2.0)
    flipped = np.where(np.arange(_VARIANTS) % 2 == 0, 2.0, 0.0)
    others = np.tile(np.stack([same, 2 - same]), (_OTHERS // 2, 1))
    mixed = np.tile(np.stack([same, flipped, 2 - same, 2 - flipped]), (_OTHERS // 4, 1))
    return (
        replacement("flips among others", same, flipped, mixed),
        replacement("opposite", same, 2 - same, others),
        replacement("called or missing", same, np.full(_VARIANTS, np.nan), others),
    )


def _statistics(pair: Pair) -> tuple[Statistic, ...]:
    """Along what one person moves: products of neighbours, and means; for frequencies of 1/2."""
    before, after = (np.nan_to_num(each - 1) for each in (pair.before, pair.after))
    if not pair.neighbours.public_size:
        after = np.zeros_like(after)
    products = after[1:] * after[:-1] - before[1:] * before[:-1]
    means = np.concatenate([np.zeros(2 * _VARIANTS - 1), after - before])
    found = {"along change": products, "means": means}
    return (*(Statistic(name, each) for name, each in found.items() if np.any(each)), FITTED)


def _attacks(name: str, turn: Turn = replaced, *, known: bool = False) -> tuple[Attack, ...]:
    """All attacks; with `known` frequencies are public, so that integers are known, too."""
    frequencies = np.full(_VARIANTS, 0.5) if known else None
    found = []
    for pair in map(turn, _pairs()):
        inputs = ReleaseInputs(
            pair.n_records,
            _VARIANTS,
            row_sparsity=3,
            epsilon=EPSILON,
            delta=DELTA,
            neighbours=pair.neighbours,
            candidates=Candidates.band(_VARIANTS, 1),
        )
        target = GenotypeTarget(genotype_parameters(inputs, known=known), frequencies)
        found.append(Attack(name, target, pair, _statistics(pair), slowness=3))
    return tuple(found)


_known = partial(_attacks, known=True)

HANDMADE: Handmade = {NAME: {"": _attacks, "frequencies": _known}}

TURNED: dict[str, Turned] = {NAME: _attacks, f"{NAME}-frequencies": _known}
