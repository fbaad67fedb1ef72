"""The room of row-wise top-k selection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice, shown
from hushcov.accounting import Guarantee
from hushcov.exceptions import ParameterError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.gaussian import WITHIN
from hushcov.mechanisms.peers.row_top_k.mechanism import (
    NAME,
    RowTopKParameters,
    certify_row_top_k,
    release_row_top_k,
    row_top_k_parameters,
)
from hushcov.mechanisms.peers.row_top_k.printed import (
    PrintedParameters,
    claim_printed,
    printed_parameters,
    release_printed,
)
from hushcov.mechanisms.room import (
    CONSTANTS,
    Mechanism,
    MechanismPlan,
    PooledPlan,
    left_of,
    pool_of,
    shared,
)
from hushcov.noise import Entropy
from hushcov.records import Records
from hushcov.release import Release
from hushcov.stages import Prepared


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


@dataclass(frozen=True)
class PlannedPrinted(MechanismPlan[PrintedParameters]):
    """The noise as it is printed, which is not certified."""

    def certify(self, *, private: bool) -> Guarantee:
        """What the paper claims; it is never marked as private."""
        return claim_printed(self.parameters)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_printed`."""
        return release_printed(records, feature_scale, self.parameters, entropy)


class RowTopK(Mechanism):
    """Rows select their partners; pairs that select each other are released."""

    name = NAME
    title = "row top-k (Kumar et al.)"
    pooled = True
    estimator = ("RowTopKCovariance", {})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        constants: str = "sound",
        radius: float | None = None,
    ) -> MechanismPlan[Any]:
        """See `Mechanism.plan` and `row_top_k_parameters`."""
        check_choice("constants", constants, CONSTANTS)
        if constants == "sound":
            return PlannedRowTopK(self, row_top_k_parameters(inputs, radius=radius))
        if radius is not None:
            raise ParameterError(
                f"radius must be left out with constants='paper', got {shown(radius)}: the "
                "paper prints its own. Use constants='sound' to choose one."
            )
        return PlannedPrinted(self, printed_parameters(inputs))


ROW_TOP_K = RowTopK()
