"""The room of a release whose candidate pairs are public."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushcov._words import noise_level, number
from hushcov.accounting import Budget
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive import PlannedAdaptive, value_noise
from hushcov.mechanisms.adaptive.parameters import MOST_LADDER
from hushcov.mechanisms.candidates.mechanism import release_candidates
from hushcov.mechanisms.candidates.parameters import (
    NAME,
    WIDE_LOOK,
    WIDTH_LOOK,
    CandidateParameters,
    candidate_parameters,
)
from hushcov.mechanisms.candidates.prediction import predict_candidates
from hushcov.mechanisms.room import (
    DENSE_BYTES,
    SCALES,
    Facts,
    Mechanism,
    budget_words,
    certified_words,
)
from hushcov.noise import Entropy
from hushcov.postprocess import detection_deviation
from hushcov.predicting import Forecast
from hushcov.release import Release
from hushcov.steps import Prepared


@dataclass(frozen=True)
class PlannedCandidates(PlannedAdaptive):
    """A release of known candidates.

    `level` is a threshold of one's own for a single look; with `universal` it follows from noise.
    """

    parameters: CandidateParameters
    level: float = 0.0
    universal: bool = False

    def release(self, prepared: Prepared, budget: Budget, entropy: Entropy) -> Release:
        """See `release_candidates`."""
        return release_candidates(prepared, self.parameters, budget, entropy, sparse=self.sparse)

    @property
    def tilts(self) -> bool:
        """Signs are looked at where pairs are selected."""
        return self.parameters.wide

    def threshold(self, release: Release) -> float:
        """One's own, or what the values that were released ask for."""
        if not self.universal:
            return self.level or release.making.threshold
        assert release.noise_sd is not None
        deviation = detection_deviation(release.noise_sd[0], self.parameters.inputs.n_sampled)
        return deviation * math.sqrt(2 * math.log(max(2, self.parameters.candidates.n_pairs)))

    @property
    def detection_limit(self) -> float | None:
        """None: no pair need stand out."""
        return None

    def facts(self, before: str = SCALES) -> Facts:
        """See `MechanismPlan.facts`."""
        parameters, inputs = self.parameters, self.parameters.inputs
        known = parameters.candidates
        shares: dict[str, float] = {}
        looked = f"all {known.n_pairs:,} of them are released"
        if parameters.adaptive_width:
            shares = {"a look at the whole band": WIDTH_LOOK}
            looked = f"how far they reach is found out, up to {known.reach:,} columns"
        elif parameters.wide:
            shares = {"a look at all candidates": WIDE_LOOK, "selections, at most": MOST_LADDER}
            looked = "whether all of them matter or few is found out"
        mu = parameters.mu
        noise = value_noise(known.n_pairs, inputs, mu)
        found = [
            ("budget", budget_words(inputs, before, shares, "the values")),
            ("candidates", f"{known.words}; {looked}, and nothing else is looked for"),
            ("noise", noise_level(noise, inputs.n_sampled)),
        ]
        if self.universal:
            found.append(("threshold", "entries that noise alone may have made are set to zero"))
        elif self.level:
            kept = f"entries below a correlation of {number(self.level, 2)} are set to zero"
            found.append(("threshold", kept))
        return [*found, ("certified", certified_words(self.budget()))]


class CandidatesRoom(Mechanism):
    """Values of pairs that may covary, where it is public which ones these are."""

    name = NAME
    title = "known candidates"
    predicted = True
    no_limit = "all candidates are released, and none need stand out"
    sparse = True
    takes_candidates = True
    estimator = ("PrivateSparseCovariance", {})

    def plan(
        self,
        inputs: ReleaseInputs,
        *,
        sparse: bool = True,
        adaptive_width: bool = False,
        single: bool = False,
        level: float = 0.0,
        universal: bool = False,
    ) -> PlannedCandidates:
        """See `Mechanism.plan`; `adaptive_width` and `single` as in `CandidateParameters`."""
        parameters = candidate_parameters(inputs, adaptive_width=adaptive_width, single=single)
        expected = predict_candidates(parameters)
        return PlannedCandidates(self, parameters, expected, sparse, level, universal)

    def forecast(self, inputs: ReleaseInputs, *, rough: bool = False) -> Forecast:
        """See `predict_candidates`; it is quick."""
        return predict_candidates(candidate_parameters(inputs))

    def work(self, n_records: int, n_features: int, rows: int, sparse: bool) -> int:
        """What all candidates take is counted apart, by their number."""
        return 0 if sparse else DENSE_BYTES * n_features**2


CANDIDATES = CandidatesRoom()
