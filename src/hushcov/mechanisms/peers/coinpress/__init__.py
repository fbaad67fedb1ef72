"""CoinPress: the covariance in a few steps, each of which rescales the records for the next.

Biswas, Dong, Kamath and Ullman, "CoinPress: Practical Private Mean and Covariance Estimation"
(NeurIPS 2020, arXiv 2006.06618). A step multiplies the records by a matrix A, bounds their norms
and releases their second moments with Gaussian noise. What it finds makes the A of the next
step, under which the covariance is closer to the identity and the same noise does less harm.
"""

from hushcov.mechanisms.peers.coinpress.mechanism import (
    Transcript,
    certify_coinpress,
    release_coinpress,
    run_steps,
    transformed_gram,
)
from hushcov.mechanisms.peers.coinpress.parameters import (
    CONSTANTS,
    CoinPressParameters,
    budget_shares,
    coinpress_parameters,
    row_norm,
)

__all__ = [
    "CONSTANTS",
    "CoinPressParameters",
    "Transcript",
    "budget_shares",
    "certify_coinpress",
    "coinpress_parameters",
    "release_coinpress",
    "row_norm",
    "run_steps",
    "transformed_gram",
]
