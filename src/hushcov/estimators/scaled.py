"""Estimators on features brought to scale 1, by public scales or by private ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hushcov._validation import check_choice, check_integer, check_real
from hushcov.accounting import calibrate_zcdp
from hushcov.estimators.base import FloatArray, Preview, PrivateCovariance
from hushcov.estimators.runs import Run
from hushcov.exceptions import ParameterError, TooFewCompleteError
from hushcov.mechanisms.complete import (
    COMPLETE,
    CompleteCount,
    CompleteParameters,
    complete_parameters,
    complete_words,
    release_complete_count,
)
from hushcov.mechanisms.inputs import ReleaseInputs
from hushcov.mechanisms.scales import (
    SCALES,
    FeatureScales,
    ScaleParameters,
    release_scales,
    scale_parameters,
)
from hushcov.noise import Entropy, entropy_source
from hushcov.planning import Caution, Forecast, hopeless, noisy_scales
from hushcov.postprocess import Matrix
from hushcov.records import CompleteRecords, Records, check_feature_scale
from hushcov.release import Part, Release
from hushcov.release.findings import intervals, noise_deviation

# Measured: the share at which errors of the scales and of the release balance; see
# docs/proofs/scales.md.
_SHARE, _LARGEST_SHARE = 5.0, 0.2
_DELTA = "choose it well below 1 / n_records; EigenSamplingCovariance needs none."
#: Features up to which an estimate is a dense matrix where nothing else is asked for.
LARGEST_DENSE = 10_000


@dataclass(frozen=True)
class _Settled:
    """Everything that is fixed before any record is read."""

    run: Run
    scale: FloatArray
    scales: ScaleParameters | None
    counted: CompleteParameters | None
    cautions: tuple[Caution, ...]


class ScaledCovariance(PrivateCovariance):
    """Base of estimators that divide features by their scales first; not for use by itself."""

    epsilon: float | None
    delta: float | None
    feature_scale: Any
    scale_share: Any
    positive_semidefinite: bool
    random_state: object
    sparse_output: Any = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the covariance of the records in `X`.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a .npy file, or Records
        y : ignored
        """
        with self._fresh():
            self._check_ledger()
            records = self._open(X)
            settled = self._settled(records.n_records, records.n_features, records.gaps)
            self._heed(*settled.cautions)
            guarantee = settled.run.certify(private=self.random_state is None)
            entropy = entropy_source(self.random_state)
            # Nothing has been read from the records and no noise has been drawn so far, and all
            # that follows is certified. Charge first, then release.
            with self._charged(guarantee):
                return self._released(records, settled, entropy)

    def _released(self, records: Records, settled: _Settled, entropy: Entropy) -> Self:
        """Read the records, and release."""
        count, share, scale = None, 1.0, settled.scale
        if settled.counted is not None:
            count = release_complete_count(records, settled.counted, entropy)
            if not count.enough:
                raise self._too_few(count)
            records, share = CompleteRecords(records), count.share
        if settled.scales is not None:
            released = release_scales(records, settled.scales, entropy)
            # The zeros of missing records made scales smaller than complete ones have.
            scale = trusted_scale(released) / math.sqrt(share)
        release = _for_complete(settled.run.release(records, scale, entropy), count)
        before = [SCALES] * (settled.scales is not None) + [COMPLETE] * (count is not None)
        return self._estimate(
            release,
            records.n_records,
            settled.run.threshold(release),
            parts=_renamed(release.making.parts, before),
            scales="given" if settled.scales is None else "released",
            complete=None if count is None else count.to_dict(),
        )

    def _settled(self, n_records: int, n_features: int, gaps: bool) -> _Settled:
        """Plan from public inputs alone; what is to be known of the plan is stored."""
        inputs, scales = self._inputs(n_records, n_features)
        counted = complete_parameters(inputs) if gaps else None
        if counted is not None:
            counted.check_possible()
            inputs = replace(inputs, spent=(*inputs.spent, counted.event))
        scale = self._public_scale(n_features)
        run = self._planned(inputs)
        cautions = self._cautions(inputs, scales, self._forecast(inputs))
        return _Settled(run, scale, scales, counted, cautions)

    def preview(self, n_records: int, n_features: int, *, gaps: bool = False) -> Preview:
        """What a fit of this size would charge, and what it would warn of or refuse.

        All that `fit` checks before its charge is checked, from public inputs alone. `n_records`
        counts what is averaged: half the rows if not `assume_centered`. `gaps`: records with nulls
        are left out.
        """
        settled = clone(self)._settled(n_records, n_features, gaps)
        guarantee = settled.run.certify(private=self.random_state is None)
        return Preview(guarantee, settled.cautions)

    def cautions(
        self, n_records: int, n_features: int, expected: Forecast | None
    ) -> tuple[Caution, ...]:
        """What people should know of a fit of this size, with this error to expect."""
        return self._cautions(*self._inputs(n_records, n_features), expected)

    def _cautions(
        self, inputs: ReleaseInputs, scales: ScaleParameters | None, expected: Forecast | None
    ) -> tuple[Caution, ...]:
        paired = not self.assume_centered
        found = (
            self._large_delta(inputs.delta, inputs.n_records),
            None if scales is None else noisy_scales(scales, paired=paired),
            None if expected is None else hopeless(inputs, expected, paired=paired),
        )
        return tuple(caution for caution in found if caution is not None)

    def _forecast(self, inputs: ReleaseInputs) -> Forecast | None:
        """The error to expect, where there is a prediction."""
        return None

    def _too_few(self, count: CompleteCount) -> TooFewCompleteError:
        """That nearly all records miss a value, which is all that is released."""
        counted = "records" if self.assume_centered else "pairs of records"
        words = complete_words(count.to_dict(), counted)
        spent = f" It spent at most epsilon {self.epsilon:g} and delta {self.delta:g}."
        return TooFewCompleteError(
            f"{words}: too few to release anything useful. This count is a release by itself."
            f"{spent if self.ledger is None else ''} Use columns that have more values, or impute "
            "each value by a rule that uses its own record alone."
        )

    def _estimate(self, release: Release, n_averaged: int, threshold: float, **making: Any) -> Self:
        """Keep a release, and the estimate made of it."""
        self.feature_scale_ = release.feature_scale
        self.n_records_ = n_averaged
        projected = bool(self.positive_semidefinite)
        return self._store(release, n_averaged, threshold=threshold, projected=projected, **making)

    def public_inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Every public input for this size, with the privacy events of estimating scales.

        `n_records` counts what is averaged: half the rows if not `assume_centered`.
        """
        return self._inputs(n_records, n_features)[0]

    @property
    def noise_sd_(self) -> Matrix:
        """Standard deviation of the privacy noise of each released entry.

        Elsewhere NaN, or not stored in a sparse matrix. The multiscale mechanism has no single
        noise level: there is no such attribute then.
        """
        try:
            self._check_noise()
        except ParameterError as error:
            raise AttributeError(str(error)) from None  # what Python expects, and hasattr and dir
        return noise_deviation(self.release_)

    def covariance_interval(self, level: float = 0.95) -> tuple[Matrix, Matrix]:
        """Ends of an interval for every entry of the covariance that was released and kept.

        They count sampling error (as for Gaussian records) and privacy noise, and for columns that
        are nearly normal each covers the true entry with probability `level`, given that the entry
        passed the threshold. What bounding the records takes off large values is not counted:
        with 10 features and high correlations, intervals of level 0.95 cover 90 % of the time.

        **Skewed columns, heavy tails and rare events are covered less often, and the less the more
        records there are.** Measured at level 0.95 and 100,000 records: 0.77 of the pairs for
        t with 5 degrees of freedom, 0.60 for exponential columns, none for lognormal ones and for
        columns of mostly zeros; `docs/intervals.md` has the table.

        An estimate that barely passed the threshold may lie outside its own interval, which allows
        for having been shown and lies closer to zero. `positive_semidefinite` moves estimates and
        not intervals. NaN where the threshold set the estimate to zero, or not stored in a sparse
        matrix. Post-processing: it costs no privacy.

        Returns
        -------
        lower, upper : ndarray or sparse array of shape (n_features, n_features)
        """
        self._check_noise()
        level = check_real("level", level, above=0, at_most=0.9999, cure="0.95 is usual.")
        return intervals(self.release_, level)

    def _check_noise(self) -> None:
        """Refuse what needs one noise level for all entries."""
        check_is_fitted(self, "release_")
        if self.release_.noise_sd is None:
            raise ParameterError(
                f"the {self.release_.mechanism} mechanism has no single noise level: use "
                "ScreenedCovariance for noise_sd_ and covariance_interval."
            )

    def _sparse(self, n_features: int) -> bool:
        """Whether the estimate is to be a sparse matrix."""
        given = self.sparse_output
        if not isinstance(given, bool | np.bool_):
            check_choice("sparse_output", given, ("auto",))
        sparse = n_features > LARGEST_DENSE if isinstance(given, str) else bool(given)
        if sparse and self.positive_semidefinite:
            raise ParameterError(
                "positive_semidefinite must be False where the output is sparse, got True: the "
                "projection fills in zeros. Pass sparse_output=False, or project what you need."
            )
        return sparse

    def _public_scale(self, n_features: int) -> FloatArray:
        """The scales given; ones where they are still to be estimated."""
        given = 1.0 if self.feature_scale is None else self.feature_scale
        odd = isinstance(given, str | bool | np.ma.MaskedArray)
        if odd or (isinstance(given, np.ndarray) and given.dtype.kind not in "iufO"):
            raise ParameterError(
                "feature_scale must be None, a number or one number for each feature, got "
                f"{type(given).__name__}: pass standard deviations that are public."
            )
        return check_feature_scale(given, n_features)

    def _inputs(
        self, n_records: int, n_features: int
    ) -> tuple[ReleaseInputs, ScaleParameters | None]:
        """Every public input, and the parameters of private scales if there are to be any."""
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_reactions()
        self._check_given("epsilon", "delta")
        cure = "it is the number of columns."
        n_features = check_integer("n_features", n_features, at_least=1, at_most=10**9, cure=cure)
        cure = f"it counts the nonzeros of a row, the diagonal included; n_features = {n_features}."
        row_sparsity = self._row_sparsity(n_features)
        inputs = ReleaseInputs(
            n_records=n_records,
            n_features=n_features,
            row_sparsity=check_integer(
                "row_sparsity", row_sparsity, at_least=1, at_most=n_features, cure=cure
            ),
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

    def _check_threshold(self, value: Any, word: str, *, at_most: float, cure: str) -> float | None:
        """A threshold as a number, or None for the one that `word` stands for."""
        if isinstance(value, str) and value == word:
            return None
        if value is None or (isinstance(value, Real) and value == 0 and value is not False):
            return 0.0
        cure = f"None and 0 keep every entry, {word!r} {cure}"
        return check_real("threshold", value, above=0, at_most=at_most, cure=cure)

    @abstractmethod
    def _row_sparsity(self, n_features: int) -> int:
        """Declared nonzeros of a row."""

    @abstractmethod
    def _planned(self, inputs: ReleaseInputs) -> Run:
        """Choose what to run, from public inputs alone, and store what is to be known of it."""


def trusted_scale(scales: FeatureScales) -> FloatArray:
    """Released scales to work with: no uncertain one is larger than the largest certain one.

    Where all are uncertain, none is larger than the median.

    An uncertain scale may be off by many orders of magnitude, and the noise of a feature grows with
    its scale: one that is far too large would drown all others. One that is too small clips the
    feature.
    """
    if not scales.uncertain.all():
        largest = scales.scale[~scales.uncertain].max()
    else:
        largest = np.median(scales.scale[scales.scale > 0]) if scales.scale.any() else 0.0
    return np.where(scales.uncertain, np.minimum(scales.scale, largest), scales.scale)


def _for_complete(release: Release, count: CompleteCount | None) -> Release:
    """The release of the complete records alone, where all others counted as zeros."""
    if count is None:
        return release
    noise_sd, share = release.noise_sd, count.share
    if noise_sd is not None:
        noise_sd = (noise_sd[0] / share, noise_sd[1] / share)
    return replace(release, unit=release.unit / share, noise_sd=noise_sd)


def _renamed(parts: tuple[Part, ...], before: list[str]) -> tuple[Part, ...]:
    """The parts, the first ones by these names."""
    first = [Part(name, part.events) for name, part in zip(before, parts, strict=False)]
    return (*first, *parts[len(before) :])
