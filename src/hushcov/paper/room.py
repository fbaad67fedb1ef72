"""The room of the paper's mechanism, with calibrated constants and values."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from hushcov._words import count, number
from hushcov.accounting import Budget
from hushcov.inputs import CalibratedInputs, ReleaseInputs
from hushcov.mechanisms.room import (
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    Table,
    budget_words,
    certified_words,
)
from hushcov.noise import Entropy
from hushcov.paper.calibrated import CalibratedParameters
from hushcov.paper.mechanism import (
    NAME,
    calibrated_budget,
    grid_for,
    release_multiscale,
)
from hushcov.paper.planner import plan_multiscale, rough_multiscale
from hushcov.paper.samplers import check_capacity
from hushcov.paper.schedule import level_table
from hushcov.predicting import COMPARED_MODELS, Forecast, reference
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.sums.gram import second_moments
from hushcov.sums.views import ScaledRecords

_RECONSTRUCTION = "value"  # several times more accurate than gates
_REFERENCE = 100  # features of the references for norms of correlation matrices
# Bytes for a pair of features, measured: levels, exact moments, and four arrays of the sampler.
_BYTES = 65


@dataclass(frozen=True)
class PlannedMultiscale(MechanismPlan[CalibratedParameters]):
    """Calibrated values; the mechanism thresholds by itself."""

    def budget(self, *, private: bool = True) -> Budget:
        """See `calibrated_budget`."""
        check_capacity(self.parameters.schedule)
        return calibrated_budget(self.parameters, private=private)

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_multiscale`, which knows one scale for all features."""
        scaled = ScaledRecords(prepared.records, prepared.feature_scale)
        moments = second_moments(scaled, grid_for(self.parameters))
        release = release_multiscale(moments, self.parameters, entropy, budget=budget)
        return replace(release, feature_scale=prepared.feature_scale)

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, schedule = self.parameters, self.parameters.schedule
        radius, keep = number(parameters.clip_radius, 3), number(parameters.design.keep_above)
        tests, kept = sum(level.candidates for level in schedule.levels), schedule.total_quota
        best = "all of them kept" if kept == tests else f"of which the {count(kept)} best are kept"
        return [
            ("budget", budget_words(parameters.inputs, before, {}, "the values")),
            ("values", f"values of a record, in units of the scales, are clipped to +-{radius}"),
            ("tests", f"{count(tests)} tests of entries against random thresholds, {best}"),
            ("noise", f"{number(schedule.gate_noise, 3)} times the threshold of a kept test"),
            (
                "threshold",
                f"the kept tests of an entry are averaged; averages below {keep} standard "
                "deviations are set to zero",
            ),
            ("certified", certified_words(self.budget())),
        ]

    def table(self) -> Table:
        """One row a level."""
        return level_table(self.parameters.schedule)


class Multiscale(Mechanism):
    """Threshold tests at many scales."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "its tests have no single threshold"
    slow = True
    takes_rest = False

    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> PlannedMultiscale:
        """See `Mechanism.plan`."""
        plan = plan_multiscale(multiscale_inputs(inputs), _RECONSTRUCTION)
        forecast = Forecast(self.name, plan.predicted_error, None)
        return PlannedMultiscale(self, plan.parameters, forecast)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `Mechanism.forecast`."""
        if not rough:
            return super().forecast(inputs)
        return Forecast(self.name, rough_multiscale(multiscale_inputs(inputs)), None, rough=True)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Levels, exact moments, and arrays of the sampler."""
        return _BYTES * n_features**2


def multiscale_inputs(inputs: ReleaseInputs) -> CalibratedInputs:
    """Return the inputs of the multiscale mechanism, on features at scale 1.

    Its scale bounds the standard deviation in every direction: the root of the norm of the
    correlation matrix, taken from the reference models.
    """
    d, k = inputs.n_features, inputs.row_sparsity
    norms = [1 / reference(model, d, k, _REFERENCE).variance for model in COMPARED_MODELS]
    return CalibratedInputs(
        n_records=inputs.n_records,
        n_features=d,
        row_sparsity=k,
        epsilon=inputs.epsilon,
        delta=inputs.delta,
        scale=math.sqrt(statistics.fmean(norms)),
        before=inputs.most_before,
        neighbours=inputs.neighbours,
    )


MULTISCALE = Multiscale()
