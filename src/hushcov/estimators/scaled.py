"""Estimators on features brought to scale 1, by public scales or by private ones.

Here, too: units and neighbours of a fit, and the count of records that comes first where their
number is not public.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice, check_feature_scale, check_integer, check_real, shown
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import CentreOptions, DeltaOptions, with_options
from hushcov.exceptions import AccuracyWarning, DataError, ParameterError
from hushcov.fit.registry import LARGEST_DENSE, check_memory
from hushcov.inputs import LARGEST_FEATURES, ReleaseInputs
from hushcov.kernel.accounting import ONE_REPLACED, RECORD, Neighbours, is_counted
from hushcov.kernel.records.base import CountedRecords, PartitionedRecords, Records, source_of
from hushcov.options import (
    ESTIMANDS,
    FOR_COVARIANCE,
    INVALID,
    PURPOSES,
    check_given,
    check_parameters,
)
from hushcov.postprocess import is_sparse
from hushcov.release import Release

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.fit import Plan, Request
    from hushcov.fit.counting import Counted, Counting
    from hushcov.fit.mechanism import MechanismPlan
    from hushcov.kernel.noise import Entropy
    from hushcov.kernel.records.units import Units

_SPENT = "This is known after the release: its budget is spent"
# Not proved for units of several rows, nor where the number of records is not public.
_ONE_ROW_ONLY = ("multiscale",)
_TRIAL_RECORDS = 10**6  # a plan for so many shows what is refused at any number of records
_CALLER = 4  # whoever called `fit`, seen from what warns
_WARNED = 3  # the same, seen from `_run`


@dataclass(frozen=True, eq=False)
class PrivacyUnit:
    """Options for units and neighbours, from public inputs alone; nothing is read here.

    `identifiers` are those of the rows, or make them when they are called; `weights` are those of
    the rows over the most that one may have.
    """

    relation: str = ONE_REPLACED.relation
    unit: str = RECORD
    identifiers: Any = None
    most_rows: int | None = 1
    estimand: str = ESTIMANDS[0]
    weights: Any = None
    most_weight: float = 1.0

    @classmethod
    def checked(
        cls, options: Any, unit: str = RECORD, identifiers: Any = None, weights: Any = None
    ) -> PrivacyUnit:
        """Check the options of an estimator and return them."""
        check_parameters(options)
        most = None if options.max_rows_per_unit is None else int(options.max_rows_per_unit)
        if identifiers is None:
            for name in ("max_rows_per_unit", "estimand"):
                if getattr(options, name) not in (None, ESTIMANDS[0]):
                    raise ParameterError(
                        f"{name} must be left out without a unit, got "
                        f"{getattr(options, name)!r}: pass unit to fit, a column of identifiers."
                    )
            most_weight = options.max_sample_weight
            if (most_weight is None) != (weights is None):
                raise ParameterError(
                    "max_sample_weight must be given with sample_weight, and only then: it is the "
                    "largest weight that any record can have, a public number."
                )
            if weights is None:
                return cls(options.neighbours)
            from hushcov.tables.units import WEIGHT_LEVELS

            weighted = {"weights": weights, "most_weight": float(most_weight)}
            return cls(options.neighbours, most_rows=WEIGHT_LEVELS, **weighted)
        if weights is not None:
            raise ParameterError(
                "sample_weight must be left out with a unit: rows of one unit with weights of "
                "their own are not bounded together. Use one of them."
            )
        if options.estimand == ESTIMANDS[1]:
            if most is not None:
                raise ParameterError(
                    f"max_rows_per_unit must be left out with estimand='unit-means', got {most}: "
                    "all rows of a unit are averaged."
                )
            most = 1
        return cls(options.neighbours, unit, identifiers, most, options.estimand)

    @property
    def counts(self) -> bool:
        """Whether the number of records has to be released first.

        Units are counted from identifiers, and nothing is read of these before a charge.
        """
        given = self.identifiers is not None or self.weights is not None
        return is_counted(self.relation) or given

    @property
    def neighbours(self) -> Neighbours:
        """The relation, as far as it is public."""
        combined = self.identifiers is not None and self.estimand != ESTIMANDS[1]
        return Neighbours(self.relation, self.most_rows or 1, self.unit, combined)

    def counting(self, epsilon: float) -> Counting | None:
        """Return the first release, where there is to be one."""
        if not self.counts:
            return None
        from hushcov.fit.counting import Counting

        return Counting(epsilon, self.neighbours, chooses=self.most_rows is None)

    def prepared(self, records: Records) -> tuple[Records, Units | None]:
        """Return the records to count, and the units of their rows; this reads identifiers."""
        if self.estimand == ESTIMANDS[1]:
            return self._units(records).means(records), None
        if self.weights is not None:
            from hushcov.tables.units import weighted

            return weighted(records, self.weights, self.most_weight), None
        return records, None if self.identifiers is None else self._units(records)

    def _units(self, records: Records) -> Units:
        from hushcov.kernel.records.units import Units
        from hushcov.tables.units import units_of

        made = self.identifiers() if callable(self.identifiers) else self.identifiers
        return made if isinstance(made, Units) else units_of(made, records.n_records)

    def check_records(self, records: Records) -> None:
        """Refuse records that cannot be averaged, and others than there are identifiers for."""
        if self.estimand == ESTIMANDS[1]:
            from hushcov.kernel.records.units import check_means

            check_means(records, in_parts=isinstance(source_of(records), PartitionedRecords))
        for name, given in (("unit", self.identifiers), ("sample_weight", self.weights)):
            if given is not None and not callable(given) and len(given) != records.n_records:
                raise DataError(
                    f"{name} must have one entry for each of the rows, got more or fewer: pass as "
                    "many."
                )


@dataclass(frozen=True, eq=False)
class OpenedRecords:
    """The records of one fit, with everything that was settled when they were opened.

    An estimator keeps nothing of this between fits. The plan comes with the records that it was
    made for, so that they are read through the views that its certificate is about.

    Parameters
    ----------
    records : Records
        The records through the views that the plan needs: bounds, pairs, units, their count.
    plan : Plan
        The rest of the fit, with the relation and the budget that the count has left.
    counted : Counted or None
        The released number of records; None where it is public.
    entropy : Entropy or None
        The source of the count's noise, with which the release goes on.
    fitted : dict
        Attributes of the estimator that are known so far, such as the names of features.
    """

    records: Records
    plan: Plan
    counted: Counted | None = None
    entropy: Entropy | None = None
    fitted: dict[str, Any] = field(default_factory=dict)


@contextmanager
def paid_count(estimator: Any) -> Iterator[None]:
    """Add to every error after the count that the count is paid."""
    try:
        yield
    except BaseException as error:
        counted = getattr(estimator, "counted_", None)
        if counted is not None:
            error.add_note(counted.paid)
        raise


def completed(release: Release, counted: Counted) -> Release:
    """Add the count before a release to its document: its cost, its part and its words."""
    parts = (*counted.parts, *release.making.parts)
    making = replace(release.making, parts=parts, counted=counted.to_dict())
    guarantee = release.guarantee.after(counted.guarantee)
    return replace(release, guarantee=guarantee, making=making)


@with_options
class ScaledCovariance(PrivateCovariance):
    """Base of estimators that divide features by their scales first; not for use by itself.

    Attributes
    ----------
    feature_scale_ : ndarray
        The scales used; 0 for a feature given or found as constant.
    counted_ : Counted or None
        The released number of records and what it cost; None where the number is public.
    n_records_ : int
        Number of records; the released number where how many there are is not public.
    """

    feature_scale: Any = None
    positive_semidefinite: bool = False
    neighbours: str = ONE_REPLACED.relation
    max_rows_per_unit: int | None = None
    estimand: str = ESTIMANDS[0]
    max_sample_weight: float | None = None

    drop_nulls = sparse_output = False  # options of some estimators
    on_invalid = INVALID[0]
    bandwidth: ClassVar[Any] = None
    candidate_pairs: ClassVar[Any] = None
    #: Nonzeros of a row that are assumed where none are declared; None where they must be.
    assumed_row_sparsity: ClassVar[float | None] = 5

    def fit(self, X: Any, y: Any = None, *, unit: Any = None, sample_weight: Any = None) -> Self:
        """Release the covariance of the records in `X`.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a file, or Records
        y : ignored
        unit : str, int or array-like of shape (n_records,), optional
            Who the rows belong to: the name or position of a column of identifiers, which is no
            feature then, or the identifiers themselves. All rows of a unit are protected together.
            Identifiers are compared, and reach no release, log or message.
        sample_weight : str, int or array-like of shape (n_records,), optional
            Public survey weights, up to `max_sample_weight`; larger ones count as that. A column is
            no feature then.
        """
        with self._fresh(X):
            self._check_ledger()
            identifiers, word = None, RECORD
            if unit is not None or sample_weight is not None:
                from hushcov.tables.units import split_columns

                if unit is not None:
                    X, identifiers, word = split_columns(X, unit)
                else:
                    X, sample_weight, _ = split_columns(X, sample_weight, what="sample_weight")
            privacy_unit = PrivacyUnit.checked(self, word, identifiers, sample_weight)
            return self._run(self._opened(X, privacy_unit))

    def _count(self, X: Any, privacy_unit: PrivacyUnit) -> OpenedRecords:
        """Do the first half of `fit`: count the records if need be, and plan the other half."""
        with self._fresh(X):
            self._check_ledger()
            return self._opened(X, privacy_unit)

    def _fit_counted(self, opened: OpenedRecords) -> Self:
        """Do the second half of `fit`, for what `_count` returned."""
        with self._fresh():
            self.__dict__ |= opened.fitted
            return self._run(opened)

    def _opened(self, X: Any, privacy_unit: PrivacyUnit) -> OpenedRecords:
        """Open records through the views that their relation needs, and plan for them.

        Their number is charged and released first if it is not public; otherwise nothing is read.
        """
        name = getattr(self, "mechanism", None)
        one_row = isinstance(name, str) and name in _ONE_ROW_ONLY
        if privacy_unit.neighbours != ONE_REPLACED and one_row:
            raise ParameterError(
                f"unit, sample_weight and neighbours='add-remove' must be left out with {name}, "
                "which was not proved for them: use PrivateSparseCovariance, ScreenedCovariance or "
                "GaussianCovariance."
            )
        records = self._open(X, counts=privacy_unit.counts, drop_nulls=self._counts_complete)
        self.counted_: Counted | None = None
        privacy_unit.check_records(records)
        check_given(self, "epsilon")
        counting = privacy_unit.counting(float(self.epsilon))  # type: ignore[arg-type]
        request = self._request_for(self.n_features_in_, privacy_unit)
        if counting is None:
            plan = self._plan(request, records.n_records, records.n_features)
            return OpenedRecords(records, plan, fitted=self._fitted())
        # Options that are refused whatever the number of records are refused before the charge.
        self._plan(request, _TRIAL_RECORDS, records.n_features)
        from hushcov.kernel.noise import entropy_source
        from hushcov.kernel.session import Session, unwrap

        entropy = entropy_source(self.random_state, stacklevel=_CALLER)
        budget = counting.budget(private=entropy.private)
        with self._charged(budget.certificate, counting.epsilon):
            rows, units = privacy_unit.prepared(records)
            self.counted_, session = counting.run(Session(rows, budget, entropy, units))
            records = CountedRecords(unwrap(session)[0], self.counted_.released)
        request = replace(request, neighbours=self.counted_.neighbours)
        with paid_count(self):
            plan = self._plan(request, records.n_records, records.n_features)
        return OpenedRecords(records, plan, self.counted_, entropy, self._fitted())

    def _fit_plan(
        self, n_records: int, n_features: int, *, privacy_unit: PrivacyUnit | None = None
    ) -> Plan:
        """Plan a fit of this size as `fit` does before it reads a record.

        All that `fit` checks before its charge is checked, from public inputs alone. The plan says
        what would be charged (`plan.budget()`) and warned of or refused (`plan.cautions`).
        `n_records` counts rows; where their number is not public, the plan is for a count of so
        many. `privacy_unit`: units and weights, where `fit` gets them.
        """
        privacy_unit = PrivacyUnit.checked(self) if privacy_unit is None else privacy_unit
        transforms = self._transforms(n_features)
        size = n_records, n_features if transforms is None else len(transforms)
        return self._plan(self._request_for(n_features, privacy_unit), *size)

    def _plan(self, request: Request, n_records: int, n_features: int) -> Plan:
        inputs, stages = request.divide(n_records, n_features)
        scale = self._public_scale(n_features)
        chosen = self._planned(inputs)
        return request.plan(inputs, stages, chosen, scale, sparse=self._sparse(n_features))

    def _request_for(self, n_features: int, privacy_unit: PrivacyUnit) -> Request:
        """Return the request for these units, with the budget that counting them leaves."""
        bounds, transforms = self._public_bounds(n_features), self._transforms(n_features)
        request = self._request(n_features if transforms is None else len(transforms))
        counting = privacy_unit.counting(request.epsilon)
        if self.marginals is not None and (request.known_mean or request.known_scale):
            raise ParameterError(
                "marginals must be left out with assume_centered=True (--known-mean on the command "
                f"line) or a feature_scale, got {shown(self.marginals)}: quantiles are released "
                "where means and scales are found. Leave one of them out."
            )
        if transforms is not None:
            from hushcov.transforms import mapped_bounds

            bounds = mapped_bounds(transforms, bounds)
            if len(transforms.by_quantiles) and (request.known_mean or request.known_scale):
                raise ParameterError(
                    "transforms must not be 'rank' or 'winsorise' with assume_centered=True or a "
                    "feature_scale: means and scales of such columns follow from quantiles that "
                    "are released. Leave one of them out."
                )
        return replace(
            request,
            bounds=bounds,
            transforms=transforms,
            marginals=self.marginals,
            epsilon=request.epsilon if counting is None else counting.left,
            neighbours=privacy_unit.neighbours,
        )

    def _run(self, opened: OpenedRecords) -> Self:
        from hushcov.kernel.noise import entropy_source
        from hushcov.kernel.session import Session

        plan = opened.plan
        plan.inputs.check_size(opened.records)
        given = source_of(opened.records).memory
        if given is not None:
            check_memory(
                plan.chosen.mechanism.name,
                plan.inputs.n_records,
                plan.inputs.n_features,
                sparse=self._sparse(plan.inputs.n_features),
                prepared=plan.request.prepares,
                candidates=plan.inputs.candidates,
                given=given,
            )
        self._keep(plan)
        self._enforce_cautions(*plan.cautions, stacklevel=_CALLER)
        entropy = opened.entropy or entropy_source(self.random_state, stacklevel=_CALLER)
        budget = plan.budget(private=entropy.private)
        # Nothing but a count has been read from the records, and all that follows is certified.
        # Charge first, then release.
        with self._charged(budget.certificate):
            release = plan.release(Session(opened.records, budget, entropy))
            before = opened.counted
            self._estimate(release if before is None else completed(release, before))
        making, sentences = self.release_.making, []
        if making.few_complete:
            sentences.append(making.complete_words)
        if making.unresolved:
            from hushcov.text.description import CONSTANT, UNRESOLVED, preparation_words

            words = dict(preparation_words(self.release_))
            sentences += [words[label] for label in (UNRESOLVED, CONSTANT) if label in words]
        for sentence in sentences:
            warnings.warn(f"{sentence}. {_SPENT}", AccuracyWarning, stacklevel=_WARNED)
        return self

    def _estimate(self, release: Release) -> Self:
        """Keep a release, and the estimate made of it."""
        self.feature_scale_ = release.feature_scale
        self._store(release, projected=bool(self.positive_semidefinite))
        self.n_records_ = release.making.n_records
        return self

    def _public_inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Return every public input for this size, with the privacy events of estimating scales."""
        return self._request(n_features).inputs(n_records, n_features)

    def _sparse(self, n_features: int) -> bool:
        """Return whether the estimate is to be a sparse matrix."""
        given = self.sparse_output
        if not isinstance(given, bool | np.bool_):
            check_choice("sparse_output", given, ("auto",))
            given = self._has_candidates or n_features > LARGEST_DENSE
        return self._sparse_checked(bool(given))

    def _sparse_checked(self, sparse: bool) -> bool:
        if sparse and self.positive_semidefinite:
            raise ParameterError(
                "positive_semidefinite must be False where the output is sparse, got True: the "
                "projection fills in zeros. Pass sparse_output=False, or leave it out and use "
                "'hushcov export', which keeps the zeros."
            )
        return sparse

    @property
    def _width(self) -> Any:
        """The largest distance of columns that may covary."""
        return self.bandwidth

    @property
    def _has_candidates(self) -> bool:
        """Whether it was said which pairs may covary."""
        return self.bandwidth is not None or self.candidate_pairs is not None

    def _public_scale(self, n_features: int) -> FloatArray:
        """Return the scales given; ones where they are still to be estimated."""
        given = 1.0 if self.feature_scale is None else self.feature_scale
        odd = isinstance(given, str | bool | np.ma.MaskedArray)
        if odd or (isinstance(given, np.ndarray) and given.dtype.kind not in "iufO"):
            raise ParameterError(
                "feature_scale must be None, a number or one number for each feature, got "
                f"{type(given).__name__}: pass standard deviations that are public."
            )
        return check_feature_scale(given, n_features)

    def _row_sparsity(self, n_features: int) -> tuple[int, Candidates | None]:
        """Return the nonzeros of a row, and the pairs that may covary where that was said."""
        most, cure = LARGEST_FEATURES, "it is the number of columns."
        d = check_integer("n_features", n_features, at_least=1, at_most=most, cure=cure)
        declared: Any = self.row_sparsity
        if self._has_candidates:
            from hushcov.candidates import read_candidates

            named = self._names if len(self._names or ()) == d else None  # or of an earlier fit
            candidates = read_candidates(
                d, bandwidth=self._width, candidate_pairs=self.candidate_pairs, names=named
            )
            assert candidates is not None
            return candidates.row_sparsity_of(declared), candidates
        if self.assumed_row_sparsity is None:
            check_given(self, "row_sparsity")
        elif declared is None:
            declared = min(self.assumed_row_sparsity, d)
        cure = f"it counts the nonzeros of a row, the diagonal included; n_features = {d}."
        return check_integer("row_sparsity", declared, at_least=1, at_most=d, cure=cure), None

    def _check_threshold(self, value: Any, word: str, *, at_most: float, cure: str) -> float | None:
        """Return a threshold as a number, or None for the automatic one that `word` names."""
        if isinstance(value, str) and value == word:
            return None
        if value is None or (isinstance(value, Real) and value == 0 and value is not False):
            return 0.0
        cure = f"None and 0 keep every entry, {word!r} {cure}"
        return check_real("threshold", value, above=0, at_most=at_most, cure=cure)

    def _keep(self, plan: Plan) -> None:
        """Keep what is to be known of a plan."""
        self.parameters_: Any = plan.chosen.parameters

    def _request(self, n_features: int) -> Request:
        """Return the public request; options that mean nothing are refused."""
        from hushcov.fit import Request

        check_parameters(self)
        check_given(self, "epsilon", *(("delta",) if hasattr(self, "delta") else ()))
        row_sparsity, candidates = self._row_sparsity(n_features)
        if self._pure:
            self._need_known_mean("without a delta", "finding means privately is not pure DP")
        return Request(
            row_sparsity,
            self.epsilon,  # type: ignore[arg-type]
            getattr(self, "delta", 0.0),
            known_mean=bool(self.assume_centered),
            known_scale=self.feature_scale is not None,
            pure=not hasattr(self, "delta"),
            candidates=candidates,
            drop_nulls=self._counts_complete,
            purpose=getattr(self, "purpose", FOR_COVARIANCE),
            target=self._target(n_features),
            told=self.row_sparsity is not None and candidates is None,
            basis=self._basis(n_features),
        )

    def _basis(self, n_features: int) -> FloatArray | None:
        """Return the covariance whose basis was given, or refuse one that is none of these columns.

        Columns of a release are found by their names, where both have some.
        """
        given = getattr(self, "basis", None)
        if given is None:
            return None
        if isinstance(given, str | os.PathLike):
            given = Release.read(os.fspath(given))
        given = getattr(given, "release_", given)
        names = self._names
        if isinstance(given, Release):
            matrix = given.covariance()
            matrix = matrix.toarray() if is_sparse(matrix) else matrix
            if names is not None and given.column_names is not None:
                places = {name: place for place, name in enumerate(given.column_names)}
                found = [places[name] for name in names if name in places]
                matrix = matrix[np.ix_(found, found)]
        else:
            matrix = np.asarray(given)
        whole = matrix.shape == (n_features, n_features) and matrix.dtype.kind in "iuf"
        if not (whole and np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)):
            raise ParameterError(
                f"basis must be a symmetric matrix of the {n_features} columns, or a release that "
                f"has them all, got {shown(given)}: leave it out, or pass one of these columns."
            )
        return np.asarray(matrix, dtype=np.float64)

    def _check_related(self, able: bool, why: str) -> None:
        """Refuse options about relations where there are no further looks to change."""
        usual = {"purpose": PURPOSES[0], "target": None, "basis": None}
        for name, value in usual.items():
            given = getattr(self, name, value)
            same = given is None if value is None else isinstance(given, str) and given == value
            if not able and not same and not (name == "purpose" and given == FOR_COVARIANCE):
                raise ParameterError(
                    f"{name} must be left out {why}, got {shown(given)}: no further looks are "
                    "taken there, which it is about."
                )

    def _target(self, n_features: int) -> int | None:
        """Return the place of the declared target, or refuse one that there is not."""
        given = getattr(self, "target", None)
        if given is None:
            return None
        names = self._names or [f"x{place}" for place in range(n_features)]
        if isinstance(given, str):
            if given not in names:
                raise ParameterError(
                    f"target must be a column of the records, got {given!r}: pass its name, or its "
                    "position counted from 0."
                )
            return names.index(given)
        cure = "it is the position of a column, counted from 0, or its name."
        return check_integer("target", given, at_least=0, at_most=n_features - 1, cure=cure)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.drop_nulls)
        # Text that reads as a number is one, and other objects are missing.
        tags.input_tags.string = self._counts_complete and self.on_invalid == INVALID[0]
        return tags

    @property
    def _counts_complete(self) -> bool:
        """Whether records with nulls are left out; a count of the others needs a delta."""
        return bool(self.drop_nulls) and not self._pure

    @property
    def _pure(self) -> bool:
        """Whether what runs has no delta."""
        return not hasattr(self, "delta")

    @abstractmethod
    def _planned(self, inputs: ReleaseInputs) -> MechanismPlan[Any]:
        """Plan from public inputs alone; also return the comparison it was chosen from."""


@with_options
class ApproximateCovariance(CentreOptions, DeltaOptions, ScaledCovariance):
    """Base of (epsilon, delta)-private estimators on scaled features; not for use by itself."""

    drop_nulls: bool = True
    on_invalid: str = INVALID[0]
