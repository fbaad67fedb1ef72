"""What tests of genotypes share."""

from __future__ import annotations

import numpy as np

from hushcov.candidates import Candidates
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ADD_REMOVE, ONE_REPLACED, Neighbours
from hushcov.kernel.session import Session
from hushcov_genotypes.mechanism import genotype_parameters, release_genotypes
from hushcov_genotypes.reading import open_genotypes

KINDS = {"replace": ONE_REPLACED, "add-remove": Neighbours(ADD_REMOVE)}


def planned(n, d, width, *, epsilon=3.0, neighbours=ONE_REPLACED, **options):
    band = Candidates.band(d, width)
    k = min(d, 2 * width + 1)
    inputs = ReleaseInputs(n, d, k, epsilon, 1e-6, neighbours=neighbours, candidates=band)
    return genotype_parameters(inputs, **options)


def released(genotypes, parameters, entropy, **known):
    """What is released of a table, or of records."""
    records = open_genotypes(genotypes) if isinstance(genotypes, np.ndarray) else genotypes
    budget = parameters.budget(private=entropy.private)
    return release_genotypes(Session(records, budget, entropy), parameters, **known)
