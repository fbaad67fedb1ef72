"""The room of the adaptive release: nothing is assumed of the structure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive.mechanism import release_adaptive
from hushcov.mechanisms.adaptive.parameters import (
    MOST_LADDER,
    NAME,
    PROBE,
    AdaptiveParameters,
)
from hushcov.mechanisms.adaptive.prediction import predict_adaptive
from hushcov.mechanisms.room import (
    DENSE_BYTES,
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    budget_words,
    certified_words,
)
from hushcov.mechanisms.screened import SCREENED
from hushcov.noise import Entropy
from hushcov.predicting import FACTOR, Forecast
from hushcov.release import Release
from hushcov.steps import Prepared


@dataclass(frozen=True)
class PlannedAdaptive(MechanismPlan[AdaptiveParameters]):
    """An adaptive release."""

    sparse: bool = False

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_adaptive`."""
        return release_adaptive(prepared, self.parameters, budget, entropy, sparse=self.sparse)

    @property
    def tilts(self) -> bool:
        """Signs of skewed features agree by themselves: they are centred, too."""
        return True

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
            ("certified", certified_words(self.budget())),
        ]


class Adaptive(Mechanism):
    """Whatever the structure is."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "what it looks for depends on what it finds"
    sparse = True
    estimator = ("PrivateSparseCovariance", {"mechanism": NAME})

    def plan(self, inputs: ReleaseInputs, *, sparse: bool = False) -> PlannedAdaptive:
        """See `Mechanism.plan`; where the output is sparse, no factor is looked for."""
        expected = self.forecast(inputs)
        if sparse:
            errors = {name: e for name, e in expected.predicted_error.items() if name != FACTOR}
            expected = replace(expected, predicted_error=errors)
        return PlannedAdaptive(self, AdaptiveParameters(inputs), expected, sparse)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `predict_adaptive`; it takes a fraction of a second."""
        return predict_adaptive(inputs)

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Those of the screen; for the whole matrix its sums, its mean and what is left of it."""
        least = SCREENED.work(n_records, n_features, rows, sparse)
        return least if sparse else max(least, 3 * DENSE_BYTES * n_features**2)


ADAPTIVE = Adaptive()
