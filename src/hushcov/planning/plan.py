"""A fit settled before any record is read: how the budget is divided, and what is run.

Everything here follows from public inputs. Estimators, the command line and the report plan with
the same functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hushcov._arrays import FloatArray
from hushcov._validation import check_real
from hushcov.accounting import ONE_REPLACED, Budget, Neighbours
from hushcov.exceptions import HopelessError
from hushcov.inputs import DELTA_WORDS, ReleaseInputs
from hushcov.mechanisms.room import SCALES, MechanismPlan
from hushcov.noise import Entropy
from hushcov.planning.cautions import (
    Caution,
    hopeless,
    large_delta,
    noisy_scales,
    nothing_found,
)
from hushcov.planning.registry import check_memory, check_told, with_missing
from hushcov.predicting import Forecast
from hushcov.release import Release
from hushcov.steps import Prepared, Stage
from hushcov.steps.complete import CompleteParameters, complete_parameters
from hushcov.steps.preparation import Preparation
from hushcov.steps.scales import ScaleParameters, scale_parameters
from hushcov.sums.grids import Bounds
from hushcov.sums.records import Records

if TYPE_CHECKING:
    from hushcov.candidates import Candidates

# Measured: the share at which errors of the scales and of the release balance; see
# docs/proofs/scales.md.
_SHARE, _LARGEST_SHARE = 5.0, 0.2
_DELTA = f"{DELTA_WORDS} The eigen-sampling mechanism (EigenSamplingCovariance) needs none."


@dataclass(frozen=True)
class Request:
    """Public request: the budget, and what is known of the records.

    Parameters
    ----------
    row_sparsity : int
        Most nonzero entries in a row of the covariance.
    epsilon, delta : float
        The budget.
    known_mean, known_scale : bool
        Whether means are zero, and whether scales are given. A share of the budget finds means
        that are not known, with scales and norms, and scales that are not given.
    pure : bool
        Whether there is to be no delta, which is 0 then. Means and scales are known then.
    bounds : Bounds, optional
        Public bounds of the features, within which the records are.
    neighbours : Neighbours
        Whose privacy it is.
    candidates : Candidates, optional
        The pairs that may covary, where that is public.
    """

    row_sparsity: int
    epsilon: float
    delta: float
    known_mean: bool = False
    known_scale: bool = False
    pure: bool = False
    bounds: Bounds | None = None
    neighbours: Neighbours = ONE_REPLACED
    candidates: Candidates | None = None

    def __post_init__(self) -> None:
        if not self.pure:
            check_real("delta", self.delta, above=0, at_most=0.1, cure=_DELTA)

    @property
    def found_before(self) -> str:
        """Name of what the steps find of complete records."""
        return SCALES if self.known_mean else Preparation.released

    def divide(
        self, n_records: int, n_features: int, *, gaps: bool = False
    ) -> tuple[ReleaseInputs, tuple[Stage, ...]]:
        """The stages before the mechanism, and the inputs that say what they leave of the budget.

        `gaps` says that some records may miss a value.
        """
        budget, neighbours = (self.epsilon, self.delta), self.neighbours
        size = n_records, n_features, self.row_sparsity
        inputs = ReleaseInputs(*size, *budget, neighbours=neighbours, candidates=self.candidates)
        stages: list[Stage] = []
        if gaps:
            counted = complete_parameters(inputs)
            counted.check_possible()
            stages.append(counted)
        if not self.known_mean:
            cost = math.hypot(*(stage.cost for stage in stages))
            total = replace(inputs, before=cost).largest_mu()
            # A table of plans is for other numbers of features, too.
            same = self.bounds is not None and len(self.bounds) == n_features
            bounds = self.bounds if same else None
            known = self.known_scale
            args = (n_records, n_features, total, known)
            stages.append(Preparation(*args, bounds=bounds, neighbours=neighbours))
        elif not self.pure and not self.known_scale:
            rho = inputs.rho
            # What errors of scales cost is balanced against what is left.
            share = min(_LARGEST_SHARE, _SHARE * math.sqrt(n_features / rho) / n_records)
            mu = math.sqrt(2 * share * rho)
            stages.append(scale_parameters(n_records, n_features, mu, self.neighbours))
        last = stages[-1] if stages else None
        found = last.expected if isinstance(last, Preparation) else inputs.found
        before = math.hypot(*(stage.cost for stage in stages))
        most = math.hypot(*(stage.most_cost for stage in stages))
        return replace(inputs, before=before, most_before=most, found=found), tuple(stages)

    def inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Inputs of the mechanism, where no record misses a value."""
        return self.divide(n_records, n_features)[0]

    def cautions(
        self, inputs: ReleaseInputs, stages: tuple[Stage, ...], expected: Forecast | None
    ) -> tuple[Caution, ...]:
        """Return warnings about a fit with this expected error."""
        found = [large_delta(inputs.delta, inputs.n_sampled)]
        for stage in stages:
            if isinstance(stage, ScaleParameters):
                found.append(noisy_scales(stage))
            if isinstance(stage, Preparation) and stage.expected.share == 0:
                found.append(nothing_found(inputs))
        little = None if expected is None else hopeless(inputs, expected)
        lost = any(each is not None and each.error is HopelessError for each in found)
        if little is not None and not lost:  # it is said better why
            found.append(little)
        return tuple(caution for caution in found if caution is not None)

    def plan(
        self,
        inputs: ReleaseInputs,
        stages: tuple[Stage, ...],
        chosen: MechanismPlan[Any],
        feature_scale: FloatArray,
        *,
        sparse: bool = False,
    ) -> Plan:
        """The whole fit; one that this computer cannot hold is refused."""
        n, d = inputs.n_records, inputs.n_features
        if not self.known_mean:
            last = stages[-1]
            assert isinstance(last, Preparation)
            alone = not chosen.mechanism.takes_rest
            stages = (*stages[:-1], replace(last, tilts=chosen.tilts, alone=alone))
        if chosen.forecast is not None:
            chosen = replace(chosen, forecast=with_missing(chosen.forecast, inputs))
        name = chosen.mechanism.name
        check_told(name, self.candidates)
        prepared, candidates = not self.known_mean, self.candidates
        check_memory(name, n, d, sparse=sparse, prepared=prepared, candidates=candidates)
        # A mechanism without a delta spends none, whatever was allowed.
        spends = replace(inputs, delta=0.0) if chosen.mechanism.pure else inputs
        cautions = self.cautions(spends, stages, chosen.forecast)
        return Plan(self, inputs, stages, chosen, feature_scale, cautions)


@dataclass(frozen=True, eq=False)
class Plan:
    """A fit, settled from public inputs alone: its stages, its mechanism, and what to heed.

    Parameters
    ----------
    request : Request
        What was asked for.
    inputs : ReleaseInputs
        What the mechanism gets: the size, the budget, and what the stages spend of it.
    stages : tuple of Stage
        Private steps before the mechanism, in the order in which they run.
    chosen : MechanismPlan
        The mechanism with its numbers.
    feature_scale : ndarray
        Public scales; ones where a stage finds them.
    cautions : tuple of Caution
        What people should know before anything is charged.
    """

    request: Request
    inputs: ReleaseInputs
    stages: tuple[Stage, ...]
    chosen: MechanismPlan[Any]
    feature_scale: FloatArray
    cautions: tuple[Caution, ...] = ()

    @property
    def gaps(self) -> bool:
        """Whether records with nulls are left out, and the others counted."""
        return any(isinstance(stage, CompleteParameters) for stage in self.stages)

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the budget of stages and mechanism, or raise; before any record is read."""
        return self.chosen.budget(private=private)

    def release(self, records: Records, budget: Budget, entropy: Entropy) -> Release:
        """Run the stages, then the mechanism, and complete the document.

        Privacy
        -------
        Stages and mechanism spend the same budget, each step before its noise is drawn, and the
        mechanism has what the stages leave: `docs/proofs/preparation.md`.
        """
        prepared = Prepared(records, self.feature_scale, making={"scales": "given"})
        for stage in self.stages:
            prepared = stage.run(prepared, budget, entropy)
        release = self.chosen.release(prepared, budget, entropy)
        if prepared.share != 1.0:  # of the complete records alone: all others counted as zeros
            share, noise_sd, making = prepared.share, release.noise_sd, release.making
            if noise_sd is not None:
                noise_sd = noise_sd[0] / share, noise_sd[1] / share
            making = replace(making, threshold=making.threshold / share)
            unit = release.unit / share
            release = replace(release, unit=unit, noise_sd=noise_sd, making=making)
        making = replace(
            release.making,
            n_records=records.n_records,
            threshold=self.chosen.threshold(release),
            bounds=None if self.request.bounds is None else self.request.bounds.plain(),
            **prepared.making,
        )
        if release.making.shrunk is not None:  # at a bound that the mechanism chose later
            making = replace(making, shrunk=release.making.shrunk)
        return replace(release, making=making, location=prepared.location)
