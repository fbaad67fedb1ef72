"""The room of the adaptive release: nothing is assumed of the structure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hushcov._arrays import FloatArray
from hushcov.accounting import Clocked, Guarantee
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.mechanism import certify_adaptive, release_adaptive
from hushcov.mechanisms.adaptive.parameters import (
    MOST_LADDER,
    NAME,
    PROBE,
    AdaptiveParameters,
    adaptive_parameters,
)
from hushcov.mechanisms.adaptive.prediction import predict_adaptive
from hushcov.mechanisms.room import (
    DENSE_BYTES,
    SCALES,
    Facts,
    Mechanism,
    PooledPlan,
    budget_words,
    certified_words,
    pool_of,
    shared,
)
from hushcov.mechanisms.screened import SCREENED
from hushcov.noise import Entropy
from hushcov.predicting import FACTOR, Forecast
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.sums.records import Records


@dataclass(frozen=True)
class PlannedAdaptive(PooledPlan[AdaptiveParameters]):
    """An adaptive release."""

    sparse: bool = False

    def certify(self, *, private: bool) -> Guarantee:
        """See `certify_adaptive`."""
        return certify_adaptive(self.parameters, private=private)

    def release(self, records: Records, feature_scale: FloatArray, entropy: Entropy) -> Release:
        """See `release_adaptive`."""
        return release_adaptive(
            records, feature_scale, self.parameters, entropy, sparse=self.sparse
        )

    @property
    def pool(self) -> float:
        """The root of the time on the clock, and of what the plan set aside for steps before."""
        return pool_of(self.parameters.inputs, self.parameters.event.mu)

    def after(self, prepared: Prepared) -> PlannedAdaptive:
        """See `PooledPlan.after`; steps before took time from the same clock."""
        parameters = self.parameters
        left = self.pool**2 - sum(event.mu**2 for _, event in prepared.taken)
        tilt = prepared.tilt
        parameters = replace(
            parameters,
            inputs=shared(self, prepared),
            event=Clocked(math.sqrt(left) * (1 - 2.0**-40), parameters.event.late),
            norm=prepared.norm,
            tilt=None if tilt is None else tuple(tilt.tolist()),
        )
        return replace(self, parameters=parameters)

    @property
    def tilts(self) -> bool:
        """Signs of skewed features agree by themselves: they are centred, too."""
        return True

    def threshold(self, release: Release) -> float:
        """What the structure that was found asks for."""
        return release.making.threshold

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        shares = {"a look at all pairs": PROBE, "selections, at most": MOST_LADDER}
        return [
            (
                "budget",
                budget_words(self.parameters.inputs, before, shares, "the values, at least"),
            ),
            (
                "search",
                "few pairs, few factors or neither: decided by what is released on the way, and "
                "what one step saves the next one spends",
            ),
            ("certified", certified_words(self.certify(private=True))),
        ]


class Adaptive(Mechanism):
    """Whatever the structure is."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "what it looks for depends on what it finds"
    sparse = True
    pooled = True
    estimator = ("PrivateSparseCovariance", {"mechanism": NAME})

    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> PlannedAdaptive:
        """See `Mechanism.plan`; where the output is sparse, no factor is looked for."""
        expected = self.forecast(inputs)
        if sparse:
            errors = {name: e for name, e in expected.predicted_error.items() if name != FACTOR}
            expected = replace(expected, predicted_error=errors)
        return PlannedAdaptive(self, adaptive_parameters(inputs), expected, sparse)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `predict_adaptive`; it takes a fraction of a second."""
        return predict_adaptive(inputs)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Those of the screen; for the whole matrix its sums, its mean and what is left of it."""
        least = SCREENED.work(n_records, n_features, rows, sparse)
        return least if sparse else max(least, 3 * DENSE_BYTES * n_features**2)


ADAPTIVE = Adaptive()
