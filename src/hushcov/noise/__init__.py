"""Random bits and the exact samplers built on them."""

from hushcov.noise.binomial import binomial
from hushcov.noise.entropy import Entropy, check_entropy, entropy_source
from hushcov.noise.gumbel_top import TAKEN, gumbel_top
from hushcov.noise.order_statistics import FEW_POINTS, Band, PointFamily, Selection, select_largest
from hushcov.noise.rounded_normal import LARGEST_SIGMA, rounded_normal

__all__ = [
    "FEW_POINTS",
    "LARGEST_SIGMA",
    "TAKEN",
    "Band",
    "Entropy",
    "PointFamily",
    "Selection",
    "binomial",
    "check_entropy",
    "entropy_source",
    "gumbel_top",
    "rounded_normal",
    "select_largest",
]
