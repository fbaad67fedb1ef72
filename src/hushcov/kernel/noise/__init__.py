"""Random bits and the exact samplers built on them."""

from typing import TYPE_CHECKING

from hushcov._lazy import lazy
from hushcov.kernel.noise.entropy import Entropy, check_entropy, entropy_source
from hushcov.kernel.noise.normal import LARGEST_SIGMA, rounded_normal

if TYPE_CHECKING:
    from hushcov.kernel.noise.gumbel import LARGEST_SCORE, TAKEN, gumbel_top
    from hushcov.kernel.noise.laplace import discrete_laplace

__getattr__ = lazy(__name__, gumbel="LARGEST_SCORE TAKEN gumbel_top", laplace="discrete_laplace")
