"""Random bits and the exact samplers built on them."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.noise.entropy import Entropy, check_entropy, entropy_source
from hushcov.noise.normal import LARGEST_SIGMA, rounded_normal

if TYPE_CHECKING:
    from hushcov.noise.bingham import MOST_CONCENTRATED, Bingham
    from hushcov.noise.gumbel import LARGEST_SCORE, TAKEN, gumbel_top
    from hushcov.noise.laplace import discrete_laplace
    from hushcov.noise.order_statistics import (
        FEW_POINTS,
        Band,
        PointFamily,
        Selection,
        binomial,
        select_largest,
    )

__all__ = [
    "FEW_POINTS",
    "LARGEST_SCORE",
    "LARGEST_SIGMA",
    "MOST_CONCENTRATED",
    "TAKEN",
    "Band",
    "Bingham",
    "Entropy",
    "PointFamily",
    "Selection",
    "binomial",
    "check_entropy",
    "discrete_laplace",
    "entropy_source",
    "gumbel_top",
    "rounded_normal",
    "select_largest",
]

__getattr__ = lazy(
    __name__,
    bingham="Bingham MOST_CONCENTRATED",
    gumbel="LARGEST_SCORE TAKEN gumbel_top",
    laplace="discrete_laplace",
    order_statistics="FEW_POINTS Band PointFamily Selection binomial select_largest",
)
