"""What tests of genotypes share."""

from __future__ import annotations

import numpy as np

from hushcov.accounting import ADD_REMOVE, ONE_REPLACED, Neighbours
from hushcov.candidates import Candidates
from hushcov.genotypes.mechanism import genotype_parameters
from hushcov.inputs import ReleaseInputs
from hushcov.noise import Entropy

KINDS = {"replace": ONE_REPLACED, "add-remove": Neighbours(ADD_REMOVE)}


def planned(n, d, width, *, epsilon=3.0, neighbours=ONE_REPLACED, **options):
    band = Candidates.band(d, width)
    k = min(d, 2 * width + 1)
    inputs = ReleaseInputs(n, d, k, epsilon, 1e-6, neighbours=neighbours, candidates=band)
    return genotype_parameters(inputs, **options)


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)
