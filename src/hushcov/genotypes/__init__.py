"""Genotypes: covariances within windows of variants, in one pass over blocks of them."""

from hushcov.genotypes.mechanism import (
    NAME,
    Sums,
    document,
    release_block,
    release_bound,
    release_counts,
    release_genotypes,
    run_blocks,
)
from hushcov.genotypes.parameters import (
    DIAGONAL_WEIGHT,
    LEAST_FREQUENCY,
    PAIR_WEIGHT,
    SCALE,
    GenotypeParameters,
    Variants,
    count_weight,
    genotype_parameters,
    relative_movement,
    squared_movement,
    usual_block,
    usual_square,
)
from hushcov.genotypes.room import GenotypePlan, plan_genotypes

__all__ = [
    "DIAGONAL_WEIGHT",
    "LEAST_FREQUENCY",
    "NAME",
    "PAIR_WEIGHT",
    "SCALE",
    "GenotypeParameters",
    "GenotypePlan",
    "Sums",
    "Variants",
    "count_weight",
    "document",
    "genotype_parameters",
    "plan_genotypes",
    "relative_movement",
    "release_block",
    "release_bound",
    "release_counts",
    "release_genotypes",
    "run_blocks",
    "squared_movement",
    "usual_block",
    "usual_square",
]
