"""The number of complete records, where some may miss a value: one noisy count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from hushcov._validation import OF_COMPLETE
from hushcov.exceptions import TooFewCompleteError
from hushcov.fit.mechanism import Prepared, Stage, StageCost
from hushcov.inputs import ReleaseInputs
from hushcov.kernel import queries, views
from hushcov.release.document import ALL_WITHIN, complete_words

_FEWEST = 0.01  # a share of complete records below this is taken for it: it divides the estimate
# Deviations of the noise that a count must have to be of use: 2 of what is found, which leaves it
# wrong by half, and 5 of all records, so that complete ones fall below 2 once in 700 times.
_FEWEST_DEVIATIONS, _FEWEST_POSSIBLE = 2, 5


@dataclass(frozen=True)
class CompleteParameters(Stage):
    """The stage that leaves out records with nulls: the number of all, and the count's noise.

    `sigma` is the deviation of the noise; 0 says that all are too few for a count, and none is
    made. Then estimates are of all records, of which those with nulls count as zeros.
    """

    released: ClassVar[str] = "number of complete records"
    unknown = "the number of complete records"

    n_records: int
    sigma: int

    def cost(self) -> StageCost:
        """See `Stage.cost`."""
        mu = 1 / self.sigma if self.sigma else 0.0  # proof: step 1
        return StageCost(mu, mu)

    def run(self, prepared: Prepared) -> Prepared:
        """Release the count, and hand on the complete records alone.

        Privacy
        -------
        The count moves by at most 1: `docs/proofs/complete.md`.
        """
        session, count = prepared.session.view(views.complete()), self.n_records
        if self.sigma:
            query, noise = queries.CompleteRows(prepared.wanted), (self.sigma,)
            noisy = session.measure(query, self.cost().mu, self.released, deviations=noise)
            count = int(noisy.integers[0])  # proof: step 1
        released, share, enough = self.read(count)
        found = {"released": released, "of": self.n_records, "noise_sd": self.sigma}
        if not enough:
            raise TooFewCompleteError(
                f"{complete_words(found)}. These are too few to release anything useful. The count "
                "is a release by itself, and it is paid for."
            )
        making = {**prepared.making, "complete": found}
        return replace(prepared, session=session, share=share, first=prepared.wanted, making=making)

    def read(self, noisy: int) -> tuple[int, float, bool]:
        """Return what a noisy count says: the number, the share, and whether it is enough.

        The number lies between 0 and that of all records. The share of complete records is about
        that, from 0.01 to 1; it is 1 where the count lies within two deviations of all, because
        then mostly no record misses a value.
        """
        n, sigma = self.n_records, self.sigma
        every = noisy >= n - ALL_WITHIN * sigma
        share = 1.0 if every else max(noisy / n, _FEWEST)  # proof: step 2
        enough = noisy > max(_FEWEST * n, _FEWEST_DEVIATIONS * sigma)
        return min(max(noisy, 0), n), share, enough


def complete_parameters(inputs: ReleaseInputs) -> CompleteParameters:
    """Return noise for a small share of the budget; no count where it could be of no use."""
    # At epsilon 1 the count is off by about 60, whatever the number of records.
    rho = OF_COMPLETE * inputs.rho
    sigma = math.ceil(1 / math.sqrt(2 * rho))
    enough = inputs.n_records >= _FEWEST_POSSIBLE * sigma
    return CompleteParameters(inputs.n_records, sigma if enough else 0)
