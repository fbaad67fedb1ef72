"""A release of genotypes settled before any record is read, and what to expect of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hushcov._arrays import FloatArray
from hushcov._words import number
from hushcov.accounting import Budget
from hushcov.genotypes.mechanism import release_genotypes
from hushcov.genotypes.parameters import GenotypeParameters, genotype_parameters
from hushcov.genotypes.reading import GenotypeRecords
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import SCALES, Facts, budget_words, certified_words
from hushcov.noise import Entropy
from hushcov.release import Release
from hushcov.sums.protocol import Progress

# Standard deviations that a correlation must have, to be told from noise nine times out of ten.
_SEEN = 3.2
# Bytes for each pair: its sum, places, value, and the matrix while it is made; for each variant.
_PAIR_BYTES, _VARIANT_BYTES = 120, 400
_BLOCKS = 3  # packed, that are there at the same time


@dataclass(frozen=True, eq=False)
class GenotypePlan:
    """A release with all its numbers, from public inputs alone.

    `frequencies` are public ones, if there are any.
    """

    parameters: GenotypeParameters
    frequencies: FloatArray | None = None

    @property
    def noise(self) -> float:
        """About the standard deviation of the noise of each correlation."""
        return self.parameters.noise

    @property
    def detection_limit(self) -> float:
        """About the smallest correlation that is told from noise nine times out of ten."""
        sampling = 1 / math.sqrt(self.parameters.inputs.n_records)
        return min(1.0, _SEEN * math.hypot(self.noise, sampling))

    def budget(self, *, private: bool = True) -> Budget:
        """See `GenotypeParameters.budget`."""
        return self.parameters.budget(private=private)

    def release(
        self,
        records: GenotypeRecords,
        budget: Budget,
        entropy: Entropy,
        progress: Progress | None = None,
    ) -> Release:
        """See `release_genotypes`."""
        known: Any = {"frequencies": self.frequencies, "progress": progress}
        return release_genotypes(records, self.parameters, entropy, budget=budget, **known)

    @property
    def memory(self) -> int:
        """About the bytes that a fit takes beside what is there before it."""
        inputs, windows = self.parameters.inputs, self.parameters.candidates
        variants = self.parameters.block + windows.reach
        packed = _BLOCKS * variants * inputs.n_records // 4
        return packed + _PAIR_BYTES * windows.n_pairs + _VARIANT_BYTES * inputs.n_features

    def facts(self) -> Facts:
        """The design in words."""
        parameters, inputs = self.parameters, self.parameters.inputs
        total = sum(mu**2 for mu in (parameters.count_mu, parameters.norm_mu, parameters.value_mu))
        counts, norms, products = parameters.part_names
        shares = {
            counts: parameters.count_mu**2 / total,
            norms: parameters.norm_mu**2 / total,
        }
        pairs = f"{parameters.candidates.n_pairs:,} pairs ({parameters.candidates.words})"
        blocks = f"{parameters.n_blocks:,} of {parameters.block:,} variants"
        return [
            ("budget", budget_words(inputs, SCALES, shares, products)),
            ("pairs", f"{pairs}, all of which are released"),
            ("blocks", f"{blocks}; in each, the longest records are left out"),
            ("noise", f"about {number(self.noise, 2)} for each correlation"),
            ("certified", certified_words(self.budget())),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Parameters and what to expect, as plain data."""
        expected = {"noise": self.noise, "detection_limit": self.detection_limit}
        return self.parameters.to_dict() | expected | {"memory_bytes": self.memory}


def plan_genotypes(
    inputs: ReleaseInputs, *, frequencies: FloatArray | None = None, block: int | None = None
) -> GenotypePlan:
    """Choose every number from public inputs; see `genotype_parameters`."""
    known = frequencies is not None
    return GenotypePlan(genotype_parameters(inputs, known=known, block=block), frequencies)
