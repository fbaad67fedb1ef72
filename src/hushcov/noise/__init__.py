"""Random bits and the exact samplers built on them."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.noise.entropy import Entropy, check_entropy, entropy_source
from hushcov.noise.normal import LARGEST_SIGMA, rounded_normal

if TYPE_CHECKING:
    from hushcov.noise.gumbel import LARGEST_SCORE, TAKEN, gumbel_top
    from hushcov.noise.laplace import discrete_laplace

__getattr__ = lazy(__name__, gumbel="LARGEST_SCORE TAKEN gumbel_top", laplace="discrete_laplace")
