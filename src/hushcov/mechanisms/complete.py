"""How many records are complete, where some may miss a value: one noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushcov._validation import check_integer
from hushcov.accounting import Gaussian, calibrate_zcdp
from hushcov.exceptions import ParameterError
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.noise import Entropy, check_entropy, rounded_normal
from hushcov.records import Progress, Records, count_complete

# Of the budget. At epsilon 1 the count is off by about 60, whatever the number of records.
_SHARE = 0.005
_FEWEST = 0.01  # a share of complete records below this is taken for it: it divides the estimate


@dataclass(frozen=True)
class CompleteParameters:
    """The number of records and the deviation of the noise, an integer."""

    n_records: int
    sigma: int

    def __post_init__(self) -> None:
        check_integer("n_records", self.n_records, at_least=1, cure="give the number of records.")
        check_integer("sigma", self.sigma, at_least=1, cure="use complete_parameters.")

    @property
    def event(self) -> Gaussian:
        """What is charged."""
        return Gaussian(1 / self.sigma)  # proof: step 1


def complete_parameters(inputs: ReleaseInputs) -> CompleteParameters:
    """Noise for a small share of the budget."""
    if inputs.delta == 0:
        raise ParameterError(
            "drop_nulls must be left out where delta is 0: counting the complete records privately "
            "is not pure DP. Impute beforehand, by a rule that treats each record on its own, or "
            "use an estimator with a delta."
        )
    rho = _SHARE * calibrate_zcdp(inputs.epsilon, inputs.delta)
    return CompleteParameters(inputs.n_records, math.ceil(1 / math.sqrt(2 * rho)))


def release_complete_share(
    records: Records,
    parameters: CompleteParameters,
    entropy: Entropy,
    *,
    progress: Progress | None = None,
) -> float:
    """Return about which share of the records is complete, from 0.01 to 1.

    Privacy
    -------
    Neighbours: replace one record; no precondition. The count moves by at most 1, and its noise is
    a rounded normal: the event `parameters.event`. See `docs/proofs/complete.md`.
    """
    check_entropy(entropy)
    count = count_complete(records, progress=progress)  # proof: step 1
    noisy = count + int(rounded_normal(entropy.generator, parameters.sigma, 1)[0])  # proof: step 1
    return min(1.0, max(noisy / parameters.n_records, _FEWEST))  # proof: step 2
