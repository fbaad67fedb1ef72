"""Random bits and the exact samplers built on them."""

from hushcov.noise.binomial import binomial
from hushcov.noise.entropy import Entropy, entropy_source
from hushcov.noise.order_statistics import Band, PointFamily, Selection, select_largest

__all__ = [
    "Band",
    "Entropy",
    "PointFamily",
    "Selection",
    "binomial",
    "entropy_source",
    "select_largest",
]
