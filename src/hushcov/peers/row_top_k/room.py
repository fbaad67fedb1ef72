"""The room of row-wise top-k selection."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushcov._arrays import FloatArray
from hushcov.accounting import Guarantee
from hushcov.inputs import ReleaseInputs
from hushcov.accounting import WITHIN
from hushcov.mechanisms.room import (
    Mechanism,
    PooledPlan,
    left_of,
    pool_of,
    shared,
)
from hushcov.noise import Entropy
from hushcov.peers.row_top_k.mechanism import (
    NAME,
    RowTopKParameters,
    certify_row_top_k,
    release_row_top_k,
    row_top_k_parameters,
)
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.sums.protocol import Records


@dataclass(frozen=True)
class PlannedRowTopK(PooledPlan[RowTopKParameters]):
    """Selection and values with noise that is proved to be private."""

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_row_top_k`."""
        return certify_row_top_k(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_row_top_k`."""
        return release_row_top_k(records, feature_scale, self.parameters, entropy)

    @property
    def pool(self) -> float:
        """The mu of the values and of what the plan set aside before them."""
        return pool_of(self.parameters.inputs, self.parameters.mu)

    def after(self, prepared: Prepared) -> PlannedRowTopK:
        """See `PooledPlan.after`; the rows select as planned."""
        inputs = shared(self, prepared)
        mu = left_of(self, prepared) * WITHIN
        return replace(self, parameters=self.parameters.with_values(inputs, mu))


class RowTopK(Mechanism):
    """Rows select their partners; pairs that select each other are released."""

    name = NAME
    title = "row top-k (Kumar et al.)"
    pooled = True
    estimator = ("RowTopKCovariance", {})

    def plan(
        self, inputs: ReleaseInputs, *, sparse: bool = False, radius: float | None = None
    ) -> PlannedRowTopK:
        """See `Mechanism.plan` and `row_top_k_parameters`."""
        return PlannedRowTopK(self, row_top_k_parameters(inputs, radius=radius))


ROW_TOP_K = RowTopK()
