"""The plan of a fit, made from public inputs before any record is read.

It says how the budget is divided, what is run and what to warn of. Estimators and the command line
make one plan and hand it down. Each caution is one sentence or two: estimators warn of it, or
refuse, before anything is charged; the same words stand in the announcement of `hushcov fit`, in
`release.json` and on the report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hushcov._arrays import FloatArray
from hushcov._words import counted, number
from hushcov.bounds import Bounds
from hushcov.exceptions import (
    AccuracyWarning,
    HopelessError,
    HushcovError,
    ParameterError,
    PrivacyWarning,
)
from hushcov.fit.looks import fewest_records
from hushcov.fit.mechanism import Forecast, MechanismPlan, Prepared, Stage
from hushcov.fit.registry import check_candidates, check_memory, with_missing
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ONE_REPLACED, Budget, Neighbours
from hushcov.options import FOR_BOTH
from hushcov.release import Release

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.kernel.session import Session
    from hushcov.kernel.transforms import Transforms


_USUAL_DELTA = 1e-6
_WARNED_SHARE = 0.1  # of 1 / n, above which delta is warned of


@dataclass(frozen=True)
class Caution:
    """A warning, and the error that refuses the fit instead.

    `title` says what is wrong in a few words, without numbers. `error` is raised unless the
    estimator's `option` is "warn"; None where nothing is refused. `insist` says how to fit anyway.
    """

    title: str
    sentence: str
    category: type[Warning]
    error: type[HushcovError] | None = None
    option: str = ""
    insist: str = ""

    def refused_by(self, estimator: object) -> bool:
        """Return whether the options of an estimator make an error of it."""
        return self.error is not None and getattr(estimator, self.option) == "raise"

    def refusal(self, spent: str = "") -> HushcovError:
        """Return the error: what is wrong, the cure, what a count spent before, how to insist."""
        assert self.error is not None
        read = "Nothing was read or charged."
        if spent:
            read = f"Their number was released, and epsilon {spent} is spent."
        return self.error(f"{self.sentence} {read} {self.insist}")


def hopeless(inputs: ReleaseInputs, forecast: Forecast) -> Caution | None:
    """Warn that zeros are expected to do as well, or do unless there is a strong factor."""
    if not forecast.drowns:
        return None
    if forecast.finds_factors:
        return Caution(
            "Hopeless unless there is a strong factor",
            f"{_too_few(inputs)} to find pairs: only factors that move many features together "
            "would be found. Without any the estimate is no better than the zero matrix.",
            AccuracyWarning,
        )
    return hopeless_because(
        f"{_too_few(inputs)}: the predicted error of {forecast.mechanism} is "
        f"{forecast.typical_error:.2g} of the covariance's norm, no better than the zero matrix. "
        "Use more records, fewer features, or a larger budget; regressions need about "
        f"{fewest_records(inputs):,} records."
    )


def _too_few(inputs: ReleaseInputs) -> str:
    size = f"{counted(inputs.n_records, 'record')} of {inputs.n_features:,} features"
    return f"{size} are too few at this budget"


def hopeless_because(sentence: str) -> Caution:
    """Warn that the release is hopeless, in the given words."""
    title = "Hopeless, no better than the zero matrix"
    insist = "To release it all the same, pass on_hopeless='warn' (--allow hopeless on the command "
    insist += "line)."
    return Caution(title, sentence, AccuracyWarning, HopelessError, "on_hopeless", insist)


def nothing_found(inputs: ReleaseInputs, share: float) -> Caution:
    """Warn that means and scales drown in noise: too few features are found to find a pair."""
    found = "nothing could be told from noise, and only zeros would be released"
    if share > 0:
        found = (
            f"means and scales of about {1 - share:.0%} of the features could not be told from "
            "noise, and hardly any pair would be found"
        )
    return hopeless_because(
        f"{_too_few(inputs)}: {found}. Use more records ('hushcov plan' says what to expect), "
        "fewer features or a larger budget. Where all means are known to be zero, "
        "assume_centered=True (--known-mean on the command line) needs fewer records."
    )


def large_delta(delta: float, n_rows: int) -> Caution | None:
    """Warn that delta is so large that whole records could be published.

    Publishing each record with probability delta is (0, delta)-private, and publishes one of n
    on average where delta is 1 / n.
    """
    if delta <= _WARNED_SHARE / n_rows:
        return None
    refused, most = delta >= 1 / n_rows, _WARNED_SHARE / n_rows
    usual = min(_USUAL_DELTA, 10.0 ** math.floor(math.log10(_WARNED_SHARE * most)))
    bound, compared = (1 / n_rows, "at least 1") if refused else (most, "above 0.1")
    sentence = (
        f"delta = {number(delta)} is {compared} / records = {number(bound, 2)} ({n_rows:,} "
        "records): publishing each record as it is with probability delta would keep the same "
        f"promise. Choose delta well below {number(most, 2)}, such as {number(usual)}."
    )
    if not refused:
        return Caution("delta is above 0.1 / n", sentence, PrivacyWarning)
    insist = (
        "For records that need no protection: on_large_delta='warn' "
        "(--allow large-delta on the command line)."
    )
    title = "delta is 1 / n or more"
    return Caution(title, sentence, PrivacyWarning, ParameterError, "on_large_delta", insist)


# A fit is refused where fewer than half of the features, and fewer than eight, are expected to be
# found: a pair needs two of them, and so few show no factor either. The expected share is that of
# columns a few scales from zero, and true of these to 0.1 (tests/fit/test_detection.py).
_LEAST_FOUND, _FEWEST_FOUND = 0.5, 8


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
        Public bounds of the features, within which the records are; after public transforms.
    transforms : Transforms, optional
        Transforms of the columns; a share of the budget finds the quantiles that some follow.
    marginals : float, optional
        Share of the budget, in mu^2, from which quantiles of all columns are released.
    neighbours : Neighbours
        Whose privacy it is.
    candidates : Candidates, optional
        The pairs that may covary, where that is public.
    drop_nulls : bool
        Whether records that miss a value are left out, and the others counted.
    purpose : str
        What the release is to be precise for.
    target : int, optional
        Place of a declared target of a regression.
    told : bool
        Whether the row sparsity was given, rather than assumed.
    takes_norms : bool
        Whether norms, signs and tails are released even where means and scales are known.
    basis : ndarray, optional
        A covariance that was released or is public, in whose basis further looks begin.
    """

    row_sparsity: int
    epsilon: float
    delta: float
    known_mean: bool = False
    known_scale: bool = False
    pure: bool = False
    bounds: Bounds | None = None
    transforms: Transforms | None = None
    marginals: float | None = None
    neighbours: Neighbours = ONE_REPLACED
    candidates: Candidates | None = None
    drop_nulls: bool = False
    purpose: str = FOR_BOTH
    target: int | None = None
    told: bool = False
    takes_norms: bool = False
    basis: FloatArray | None = field(default=None, compare=False)

    @property
    def prepares(self) -> bool:
        """Whether there is something to find of means and scales before the mechanism."""
        return not self.pure and (self.takes_norms or not (self.known_mean and self.known_scale))

    @property
    def found_before(self) -> str:
        """Name of what the steps before the mechanism find."""
        from hushcov.fit.complete import CompleteParameters
        from hushcov.fit.preparation import Preparation

        found = [f"the {CompleteParameters.released}"] * self.drop_nulls
        if self.prepares:
            found.append("scales and norms" if self.known_mean else Preparation.released)
        return " and ".join(found)

    def divide(self, n_records: int, n_features: int) -> tuple[ReleaseInputs, tuple[Stage, ...]]:
        """Return the inputs of the mechanism, and the stages before it, which share the budget."""
        from hushcov.fit.complete import complete_parameters

        inputs = ReleaseInputs(
            n_records,
            n_features,
            self.row_sparsity,
            self.epsilon,
            self.delta,
            neighbours=self.neighbours,
            candidates=self.candidates,
            purpose=self.purpose,
            target=self.target,
            told=self.told,
        )
        stages: list[Stage] = [complete_parameters(inputs)] if self.drop_nulls else []
        if self.prepares:
            stages += self._preparation(inputs, stages)
        costs = [stage.cost() for stage in stages]
        found = costs[-1].found if costs else inputs.found
        before = math.hypot(*(cost.mu for cost in costs))
        most = math.hypot(*(cost.most for cost in costs))
        return inputs.changed(before=before, most_before=most, found=found), tuple(stages)

    def _preparation(self, inputs: ReleaseInputs, stages: list[Stage]) -> list[Stage]:
        """Return the stages that find means, scales and norms after `stages`."""
        from hushcov.fit.preparation import Preparation

        n, d, found = inputs.n_records, inputs.n_features, list[Stage]()
        cost = math.hypot(*(stage.cost().mu for stage in stages))
        total = inputs.changed(before=cost).largest_mu()
        # A table of plans is for other numbers of features, too.
        bounds, maps = self.bounds, self.transforms
        bounds = None if bounds is None or len(bounds) != d else bounds
        maps = None if maps is None or len(maps) != d else maps
        located = self.marginals is not None or (maps is not None and len(maps.by_quantiles) > 0)
        if located:
            from hushcov.fit.quantiles import Quantiles
            from hushcov.kernel.transforms import Transforms
            from hushcov.transforms import score_bounds

            columns = Transforms((None,) * d) if maps is None else maps
            quantiles = Quantiles(
                n,
                d,
                total,
                columns,
                bounds=bounds,
                neighbours=self.neighbours,
                marginals=self.marginals,
            )
            found.append(quantiles)
            total = inputs.changed(before=math.hypot(cost, quantiles.cost().mu)).largest_mu()
            bounds = bounds if maps is None else score_bounds(maps, bounds)
        preparation = Preparation(
            n,
            d,
            total,
            self.known_scale,
            self.known_mean,
            bounds=bounds,
            located=located,
            neighbours=self.neighbours,
        )
        return [*found, preparation]

    def inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Return the inputs of the mechanism."""
        return self.divide(n_records, n_features)[0]

    def cautions(
        self, inputs: ReleaseInputs, stages: tuple[Stage, ...], expected: Forecast | None
    ) -> tuple[Caution, ...]:
        """Return warnings about a fit with this expected error."""
        found = [large_delta(inputs.delta, inputs.n_sampled)]
        for cost in (stage.cost() for stage in stages):
            if cost.drowns:
                title = "Too few to find the scales of the features"
                words = (
                    f"{inputs.n_records:,} records are too few to find the scales of "
                    f"{inputs.n_features:,} features at this budget: they may be off by orders of "
                    "magnitude, and the estimate with them. Pass feature_scale, or use more "
                    "records."
                )
                found.append(Caution(title, words, AccuracyWarning))
            share = cost.found.share
            if share == 0 or (share < _LEAST_FOUND and share * inputs.n_features < _FEWEST_FOUND):
                found.append(nothing_found(inputs, share))
        little = None if expected is None else hopeless(inputs, expected)
        lost = any(each is not None and each.error is HopelessError for each in found)
        if little is not None and not lost:  # the other caution says why
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
        """Return the plan of a fit, or refuse one that this computer cannot hold."""
        if chosen.forecast is not None:
            chosen = replace(chosen, forecast=with_missing(chosen.forecast, inputs))
        name = chosen.mechanism.name
        if self.candidates is not None:
            check_candidates(name, self.candidates)
        check_memory(
            name,
            inputs.n_records,
            inputs.n_features,
            sparse=sparse,
            prepared=self.prepares,
            candidates=self.candidates,
        )
        # A mechanism without a delta spends none, whatever was allowed.
        spends = inputs.changed(delta=0.0) if chosen.mechanism.pure else inputs
        cautions = self.cautions(spends, stages, chosen.forecast)
        return Plan(self, inputs, stages, chosen, feature_scale, cautions)


@dataclass(frozen=True, eq=False)
class Plan:
    """A fit as it follows from public inputs alone: its stages, its mechanism and cautions.

    Parameters
    ----------
    request : Request
        The request that was planned for.
    inputs : ReleaseInputs
        Input of the mechanism: the size, the budget, and what the stages spend of it.
    stages : tuple of Stage
        Private steps before the mechanism, in the order in which they run.
    chosen : MechanismPlan
        The mechanism with its numbers.
    feature_scale : ndarray
        Public scales; ones where a stage finds them.
    cautions : tuple of Caution
        Warnings and refusals, before anything is charged.
    """

    request: Request
    inputs: ReleaseInputs
    stages: tuple[Stage, ...]
    chosen: MechanismPlan[Any]
    feature_scale: FloatArray
    cautions: tuple[Caution, ...] = ()

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the budget of stages and mechanism, or raise; before any record is read."""
        return self.chosen.budget(private=private)

    def release(self, session: Session) -> Release:
        """Run the stages, then the mechanism, and complete the document.

        Privacy
        -------
        Stages and mechanism spend the budget of the session, and the mechanism has what the stages
        leave: `docs/proofs/preparation.md`.
        """
        bounds, transforms = self.request.bounds, self.request.transforms
        names, indicators = session.feature_names, list[int]()
        if bounds is not None and names is not None:
            # Columns that hold 0 and 1 alone, by public knowledge: they lie between 0 and 1, and
            # are binary or of a category by a codebook, or boolean by their type. A name such as
            # region=north does not say so.
            for i in range(len(bounds)) if transforms is None else transforms.as_they_are:
                if (bounds.low[i], bounds.high[i]) == (0, 1) and names[i] in session.indicators:
                    indicators.append(i)
        prepared = Prepared(
            session,
            self.feature_scale,
            indicators=tuple(indicators),
            making={"scales": "given"},
            centre_signs=self.chosen.centres_signs,
            basis=self.request.basis,
            fixed_shares=not self.chosen.mechanism.takes_rest,
        )
        for i, stage in enumerate(self.stages):
            following = self.stages[i + 1 :]
            wanted = following[0].first_octaves if following else None
            prepared = stage.run(replace(prepared, wanted=wanted))
        release = self.chosen.release(prepared)
        if prepared.share != 1.0:  # of the complete records alone: all others counted as zeros
            share, noise_sd, making = prepared.share, release.noise_sd, release.making
            if noise_sd is not None:  # variances, about 1, have that of the share, too
                doubt = prepared.making["complete"]["noise_sd"] / (share * session.n_records)
                noise_sd = noise_sd[0] / share, math.hypot(noise_sd[1] / share, doubt)
            making = replace(making, threshold=making.threshold / share)
            unit = release.unit / share
            release = replace(release, unit=unit, noise_sd=noise_sd, making=making)
        making = replace(
            release.making,
            n_records=session.n_records,
            threshold=self.chosen.threshold(release),
            bounds=None if bounds is None else bounds.plain(),
            indicators=prepared.indicators,
            **{"transforms": None if transforms is None else transforms.columns}
            | dict(prepared.making),
        )
        if release.making.shrunk is not None:  # at a bound that the mechanism chose later
            making = replace(making, shrunk=release.making.shrunk)
        return replace(release, making=making, location=prepared.location)
