"""The room of the screened release: pairs selected privately, then their values."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hushcov._words import noise_level, number
from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.room import (
    DENSE_BYTES,
    SCALES,
    Facts,
    Mechanism,
    MechanismPlan,
    budget_words,
    certified_words,
)
from hushcov.mechanisms.screened.mechanism import NAME, release_screened
from hushcov.mechanisms.screened.parameters import ScreenedParameters, candidate_pairs
from hushcov.mechanisms.screened.planner import (
    ScreenedPlan,
    detection_limit,
    plan_screened,
    predicted_errors,
)
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation
from hushcov.predicting import Forecast
from hushcov.release import Release
from hushcov.steps import Prepared
from hushcov.sums.gram import PANEL_BYTES
from hushcov.sums.signs import PACKED_PANEL_BYTES, TILE_BYTES, TILE_ROWS, signs_kept

_MOST_OFF = 16.0  # factor by which norms may differ from what the scales say


@dataclass(frozen=True)
class PlannedScreened(MechanismPlan[ScreenedParameters]):
    """A screened release, thresholded at a number of deviations, noise and sampling together."""

    sparse: bool = False
    searched: ScreenedPlan | None = None

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_screened`; the bound follows the typical norm, the scores the tilts."""
        norm, parameters = prepared.norm, replace(self.parameters, mu=budget.mu_left)
        if norm is not None:
            typical = min(_MOST_OFF, max(1 / _MOST_OFF, norm.typical))
            parameters = replace(
                parameters, norm_bound=max(1, int(parameters.norm_bound * typical))
            )
        if prepared.tilt is not None:
            parameters = parameters.tilted(tuple(prepared.tilt.tolist()))
        args = (prepared.records, prepared.feature_scale, parameters, entropy)
        return release_screened(*args, sparse=self.sparse, budget=budget)

    @property
    def tilts(self) -> bool:
        """Signs of skewed features agree by themselves: they are centred, too."""
        return bool(self.parameters.levels)

    def threshold(self, release: Release) -> float:
        """The planned number of deviations, with the noise as it came out."""
        assert release.noise_sd is not None
        deviation = detection_deviation(release.noise_sd[0], self.parameters.inputs.n_sampled)
        return self.parameters.design.keep_above * deviation

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, inputs = self.parameters, self.parameters.inputs
        screen_share = parameters.design.screen_share if parameters.levels else 0.0
        factor = number(parameters.design.norm_factor)
        found = [
            ("budget", budget_words(inputs, before, {"the screen": screen_share}, "the values")),
            ("screen", self._screen()),
            ("values", f"records are scaled down to at most {factor} times the typical norm"),
        ]
        if parameters.n_pairs:
            found.append(("noise", noise_level(parameters.noise_sd[0], inputs.n_sampled)))
            found.append(("threshold", self._kept()))
        return [*found, ("certified", certified_words(self.budget()))]

    def _screen(self) -> str:
        parameters = self.parameters
        if parameters.n_pairs == 0:
            return "none: at row sparsity 1 no pair is looked for, and variances are released alone"
        pairs = "pairs" if parameters.inputs.candidates is None else "candidate pairs"
        if not parameters.levels:
            return f"none: the values of all {parameters.n_pairs:,} {pairs} are released"
        sizes = " + ".join(f"{level.size:,}" for level in parameters.levels)
        rounds = "round" if len(parameters.levels) == 1 else "rounds, the strongest pairs first"
        total = "" if len(parameters.levels) == 1 else f" = {parameters.n_pairs:,}"
        return (
            f"pairs are scored by how often their signs agree; {len(parameters.levels)} {rounds}, "
            f"select {sizes}{total} of {candidate_pairs(parameters.inputs):,} {pairs}"
        )

    def _kept(self) -> str:
        keep, n = self.parameters.design.keep_above, self.parameters.inputs.n_sampled
        if keep == 0:
            return "none: all released pairs are kept"
        limit = keep * detection_deviation(self.parameters.noise_sd[0], n)
        return (
            f"released pairs below {number(keep)} standard deviations, a correlation of about "
            f"{number(limit, 2)}, are set to zero"
        )


class Screened(Mechanism):
    """Select pairs, release their values."""

    name = NAME
    title = NAME
    predicted = True
    no_limit = "at row sparsity 1 it releases variances alone"
    sparse = True
    takes_candidates = True
    estimator = ("ScreenedCovariance", {})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = False,
        keep_above: float | None = None,
    ) -> PlannedScreened:
        """See `Mechanism.plan`; `keep_above` replaces the planned number of deviations."""
        plan = self.search(inputs, keep_above=keep_above)
        limit = plan.detection_limit if plan.parameters.n_pairs else None  # no pair is looked for
        forecast = Forecast(self.name, plan.predicted_error, limit)
        return PlannedScreened(self, plan.parameters, forecast, sparse, plan)

    def search(self, inputs: ReleaseInputs, *, keep_above: float | None = None) -> ScreenedPlan:
        """The best design, and what to expect of it."""
        plan = plan_screened(inputs)
        if keep_above is None:
            return plan
        design = replace(plan.parameters.design, keep_above=keep_above)
        parameters = replace(plan.parameters, design=design)
        return ScreenedPlan(parameters, predicted_errors(parameters), detection_limit(parameters))

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """Signs and sums of a panel, and scores."""
        d = n_features
        kept = signs_kept(n_records, d)
        tile = min(TILE_BYTES, 2 * (min(n_records, TILE_ROWS) * d // 8 + 1))
        panel, signs = (PACKED_PANEL_BYTES, kept) if kept else (PANEL_BYTES, tile)
        scores = (4 if n_records < 2**31 else 8) * d * (d - 1) // 2
        screen = min(8 * d * d, panel) + signs + scores
        return max(screen, 0 if sparse else DENSE_BYTES * d * d)


SCREENED = Screened()
