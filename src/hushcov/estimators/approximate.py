"""Estimators with a delta: what is not known of the features may be estimated privately."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hushcov._validation import check_choice, check_real
from hushcov.accounting import calibrate_zcdp
from hushcov.estimators.options import DeltaOptions, with_options
from hushcov.estimators.scaled import ScaledCovariance
from hushcov.inputs import ReleaseInputs
from hushcov.stages.scales import ScaleParameters, scale_parameters

# Measured: the share at which errors of the scales and of the release balance; see
# docs/proofs/scales.md.
_SHARE, _LARGEST_SHARE = 5.0, 0.2
_DELTA = "choose it well below 1 / n_records; EigenSamplingCovariance needs none."


@with_options
class ApproximateCovariance(DeltaOptions, ScaledCovariance):
    """Base of (epsilon, delta)-private estimators on scaled features; not for use by itself.

    Parameters
    ----------
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None; "auto" is
        at most 0.2 and falls with the number of records.
    drop_nulls : bool, default=False
        Leave out records with nulls, which otherwise are an error. About how many are complete is
        released with the rest, from 0.5 % of the budget.
    """

    scale_share: Any = "auto"
    drop_nulls: bool = False

    def _inputs(
        self, n_records: int, n_features: int
    ) -> tuple[ReleaseInputs, ScaleParameters | None]:
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_reactions()
        self._check_given("epsilon", "delta")
        n_features, row_sparsity = self._check_sizes(n_features)
        inputs = ReleaseInputs(
            n_records=n_records,
            n_features=n_features,
            row_sparsity=row_sparsity,
            epsilon=self.epsilon,  # type: ignore[arg-type]
            delta=check_real("delta", self.delta, above=0, at_most=0.1, cure=_DELTA),
        )
        rho = calibrate_zcdp(inputs.epsilon, inputs.delta)
        share = self._scale_share(n_records, n_features, rho)
        if self.feature_scale is not None:
            return inputs, None
        scales = scale_parameters(n_records, n_features, math.sqrt(2 * share * rho))
        return replace(inputs, spent=(scales.event,)), scales

    def _scale_share(self, n_records: int, n_features: int, rho: float) -> float:
        """Share of the budget for scales; "auto" balances their errors against what is left."""
        if isinstance(self.scale_share, str):
            check_choice("scale_share", self.scale_share, ("auto",))
            return min(_LARGEST_SHARE, _SHARE * math.sqrt(n_features / rho) / n_records)
        cure = 'it is the share of the budget that estimating scales spends; "auto" chooses it.'
        return check_real("scale_share", self.scale_share, above=0, at_most=0.9, cure=cure)
