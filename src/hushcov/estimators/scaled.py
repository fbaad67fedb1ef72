"""Estimators on features brought to scale 1, by public scales or by private ones."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._profile import PLANNING, timed
from hushcov._validation import check_choice, check_integer, check_real
from hushcov.accounting import ONE_REPLACED, RECORD, REPLACE
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import DeltaOptions, with_options
from hushcov.estimators.whose import ESTIMANDS, Whose, completed, paid_count
from hushcov.exceptions import AccuracyWarning, ParameterError
from hushcov.inputs import BUDGET_WORDS, LARGEST_FEATURES, ReleaseInputs
from hushcov.mechanisms.room import MechanismPlan
from hushcov.noise import entropy_source
from hushcov.planning import Plan, Request
from hushcov.planning.memory import LARGEST_DENSE
from hushcov.records import Records, check_feature_scale
from hushcov.release import Release

if TYPE_CHECKING:
    from hushcov.candidates import Candidates
    from hushcov.stages.counting import Counted

# Not proved for units of several rows, nor where the number of records is not public.
_SPENT = "This is known after the release: its budget is spent"
_ONE_ROW_ONLY = ("multiscale",)
_CALLER = 4  # whoever called `fit`, seen from what warns
_WARNED = 3  # the same, seen from `_run`


@with_options
class ScaledCovariance(PrivateCovariance):
    """Base of estimators that divide features by their scales first; not for use by itself.

    Parameters
    ----------
    feature_scale : None, float or array of shape (n_features,)
        Public standard deviations of the features in the order of the columns, or numbers close
        to them; 0 marks a constant feature, whose covariances are zero. A number that is wrong by
        a factor costs accuracy, never privacy. None estimates them privately: from 1e-17 to 1e19,
        smaller ones count as constant and larger ones are clipped.
    positive_semidefinite : bool, default=False
        Whether to project the estimate, in units of the scales, on the positive semidefinite
        matrices, which fills in zeros.
    neighbours : {"replace", "add-remove"}, default="replace"
        What becomes of one unit in a neighbouring dataset: it has other records, or it is not there
        at all. With "add-remove" there is about half the noise at the same epsilon, and the number
        of records is not public: 2 % of epsilon release it first. Replacing costs at most
        twice the epsilon of removing.
    max_rows_per_unit : int, optional
        How many rows of one unit are summed, at most, where `fit` gets a `unit`. Noise grows by how
        far units are from having so many, not with the number itself. None finds a
        number from 1 % of epsilon.
    estimand : {"rows", "unit-means"}, default="rows"
        What is estimated where `fit` gets a `unit`: the covariance of rows, each of which counts,
        or that of the means of units.
    max_sample_weight : float, optional
        The largest survey weight that any record can have; public. Required with `sample_weight`.

    Attributes
    ----------
    feature_scale_ : ndarray
        The scales used; 0 for a feature given or found as constant.
    n_records_ : int
        Rows, also where differences of two are averaged; the released number where how many there
        are is not public.
    """

    feature_scale: Any = None
    positive_semidefinite: bool = False
    neighbours: str = REPLACE
    max_rows_per_unit: int | None = None
    estimand: str = ESTIMANDS[0]
    max_sample_weight: float | None = None

    sparse_output = False  # options of some estimators
    bandwidth: ClassVar[int | None] = None
    candidate_pairs: ClassVar[Any] = None
    scale_share = "auto"
    #: Nonzeros of a row that are assumed where none are declared; None where they must be.
    assumed_row_sparsity: ClassVar[float | None] = 5

    def fit(self, X: Any, y: Any = None, *, unit: Any = None, sample_weight: Any = None) -> Self:
        """Release the covariance of the records in `X`.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), path of a file, or Records
        y : ignored
        unit : str, int or array-like of shape (n_records,), optional
            Whose the rows are: the name or the position of a column with identifiers, which is no
            feature then, or the identifiers themselves. All rows of a unit are protected together.
            Identifiers are compared, and reach no release, log or message.
        sample_weight : str, int or array-like of shape (n_records,), optional
            Public survey weights, up to `max_sample_weight`; larger ones count as that. A column is
            no feature then.
        """
        with self._fresh(X):
            self._check_ledger()
            X, whose = self._whose(X, unit, sample_weight)
            records = self.counted(self._open(X, counts=whose.counts), whose)
            size = self._rows(records.n_records), records.n_features
            with paid_count(self):
                plan = self.fit_plan(*size, gaps=records.gaps)
            return self._run(records, plan)

    def _whose(self, X: Any, unit: Any, weights: Any) -> tuple[Any, Whose]:
        """The table without the column of identifiers, and whose privacy it is."""
        identifiers, word, gaps = None, RECORD, bool(self.drop_nulls)
        if unit is not None:
            from hushcov.records import split_columns

            X, identifiers, word = split_columns(X, unit, drop_nulls=gaps)
        if weights is not None and unit is None:
            from hushcov.records import split_columns

            X, weights, _ = split_columns(X, weights, what="sample_weight", drop_nulls=gaps)
        return X, Whose.checked(self, word, identifiers, weights)

    def count(self, X: Any, whose: Whose) -> Records:
        """The first half of `fit`: charge and release how many records there are, if need be.

        `fit_plan` plans for these records then, and `fit_counted` is the other half.
        """
        with self._fresh(X):
            self._check_ledger()
            return self.counted(self._open(X, counts=whose.counts), whose)

    def fit_counted(self, records: Records, plan: Plan) -> Self:
        """The second half of `fit`, of what `count` returned, by a plan that was made after it."""
        plan.inputs.check_size(records)
        return self._run(records, plan)

    @property
    def counted_(self) -> Counted | None:
        """What was released of the number of records; None where that is public."""
        return getattr(self, "_before", None)

    def counted(self, records: Records, whose: Whose) -> Records:
        """Records of which as many as the released number are said to be, where it is not public.

        Nothing is charged, read or released where it is.
        """
        self._whose_privacy, self._entropy = whose.neighbours, None
        counting = whose.counting(self._budget())
        if self._paired and counting is not None:
            raise ParameterError(
                "centre must be 'private', or assume_centered True, with a unit, with weights and "
                "with neighbours='add-remove', got centre='pairs': a record more would shift all "
                "pairs after it, and pairs would mix units."
            )
        whose.check_length(records.n_records)
        if counting is None:
            return records
        self._check_able(whose)
        self._entropy = entropy_source(self.random_state, stacklevel=_CALLER)
        with self._charged(counting.certify(private=self._entropy.private), counting.epsilon):
            found = counting.run(*whose.prepared(records), self._entropy)
        self._before, self._whose_privacy = found.alone(), found.neighbours
        self._n_rows = found.released
        return found.records

    def _budget(self) -> float:
        self._check_given("epsilon")
        return check_real("epsilon", self.epsilon, above=0, cure=BUDGET_WORDS)

    def _check_able(self, whose: Whose) -> None:
        """Refuse units with several rows where the mechanism's noise is not known for them."""
        name = getattr(self, "mechanism", None) or type(self).__name__
        if whose.neighbours != ONE_REPLACED and name in _ONE_ROW_ONLY:
            raise ParameterError(
                f"unit, sample_weight and neighbours='add-remove' must be left out with {name}, "
                "which was not proved for them: use PrivateSparseCovariance, ScreenedCovariance or "
                "GaussianCovariance."
            )

    def fit_planned(self, X: Any, plan: Plan) -> Self:
        """The same by a plan that `fit_plan` made before, for records of this size."""
        with self._fresh(X):
            self._check_ledger()
            records = self._open(X)
            plan.inputs.check_size(records)
            return self._run(records, plan)

    def fit_plan(
        self, n_records: int, n_features: int, *, gaps: bool = False, whose: Whose | None = None
    ) -> Plan:
        """Everything that a fit of this size settles before it reads a record.

        All that `fit` checks before its charge is checked, from public inputs alone. The plan says
        what would be charged (`certify`), run, and warned of or refused (`cautions`). `n_records`
        counts rows. `gaps`: records with nulls are left out. `whose`: plan as if so many records
        had been counted.
        """
        with timed(PLANNING):
            request = replace(self.request(n_features), bounds=self._public_bounds(n_features))
            request = self._after_count(request, whose)
            inputs, stages = request.divide(request.averaged(n_records), n_features, gaps=gaps)
            scale = self._public_scale(n_features)
            chosen = self._planned(inputs, request.apart(inputs))
            sparse = self._sparse(n_features)
            return request.plan(inputs, stages, chosen, scale, sparse=sparse)

    def _after_count(self, request: Request, whose: Whose | None) -> Request:
        """The same with what a count before it left, and whose privacy it is."""
        if whose is not None:
            counting = whose.counting(request.epsilon)
            left = request.epsilon if counting is None else counting.left
            return replace(request, epsilon=left, neighbours=whose.neighbours)
        before = getattr(self, "_before", None)
        epsilon = request.epsilon if before is None else before.left
        neighbours = getattr(self, "_whose_privacy", None) or ONE_REPLACED
        return replace(request, epsilon=epsilon, neighbours=neighbours)

    def _run(self, records: Records, plan: Plan) -> Self:
        self._keep(plan)
        self._heed(*plan.cautions, stacklevel=_CALLER)
        guarantee = plan.certify(private=self.random_state is None)
        entropy = getattr(self, "_entropy", None) or entropy_source(
            self.random_state, stacklevel=_CALLER
        )
        self._entropy = None  # a source of noise is not kept, and cannot be pickled
        # Nothing but a count has been read from the records, and all that follows is certified.
        # Charge first, then release.
        with self._charged(guarantee):
            release = plan.release(records, entropy)
            before = getattr(self, "_before", None)
            self._estimate(release if before is None else completed(release, before))
        if self.release_.making.unresolved:
            from hushcov.release.preparation import UNRESOLVED, preparation_words

            sentence = dict(preparation_words(self.release_))[UNRESOLVED]
            warnings.warn(f"{sentence}. {_SPENT}", AccuracyWarning, stacklevel=_WARNED)
        return self

    def _estimate(self, release: Release) -> Self:
        """Keep a release, and the estimate made of it."""
        n_averaged = release.making.n_averaged
        assert n_averaged is not None
        self.feature_scale_ = release.feature_scale
        self._store(release, n_averaged, projected=bool(self.positive_semidefinite))
        self.n_records_ = self.release_.making.n_rows
        return self

    def public_inputs(self, n_records: int, n_features: int) -> ReleaseInputs:
        """Every public input for this size, with the privacy events of estimating scales.

        `n_records` counts rows; `n_records` of the inputs what is averaged, which is half of them
        with `centre="pairs"`.
        """
        request = self.request(n_features)
        return request.inputs(request.averaged(n_records), n_features)

    def _sparse(self, n_features: int) -> bool:
        """Whether the estimate is to be a sparse matrix."""
        given = self.sparse_output
        if not isinstance(given, bool | np.bool_):
            check_choice("sparse_output", given, ("auto",))
        large = self._told or n_features > LARGEST_DENSE
        return self._sparse_checked(large if isinstance(given, str) else bool(given))

    def _sparse_checked(self, sparse: bool) -> bool:
        if sparse and self.positive_semidefinite:
            raise ParameterError(
                "positive_semidefinite must be False where the output is sparse, got True: the "
                "projection fills in zeros. Pass sparse_output=False, or leave it out and use "
                "'hushcov export', which keeps the zeros."
            )
        return sparse

    @property
    def _told(self) -> bool:
        """Whether it was said which pairs may covary."""
        return self.bandwidth is not None or self.candidate_pairs is not None

    def _candidates(self, n_features: int) -> Candidates | None:
        """The pairs that may covary, where that was said."""
        if not self._told:
            return None
        from hushcov.candidates import read_candidates

        names = getattr(self, "feature_names_in_", None)
        if names is not None and len(names) != n_features:
            names = None  # of an earlier fit
        return read_candidates(
            n_features,
            bandwidth=self.bandwidth,
            candidate_pairs=self.candidate_pairs,
            names=None if names is None else list(map(str, names)),
        )

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

    def _check_sizes(self, n_features: int) -> tuple[int, int, Candidates | None]:
        """The number of features, of nonzeros of a row, and the pairs that may covary."""
        cure = "it is the number of columns."
        n_features = check_integer(
            "n_features", n_features, at_least=1, at_most=LARGEST_FEATURES, cure=cure
        )
        cure = f"it counts the nonzeros of a row, the diagonal included; n_features = {n_features}."
        declared: Any = self.row_sparsity
        candidates = self._candidates(n_features)
        if candidates is not None:
            return n_features, candidates.row_sparsity_of(declared), candidates
        if self.assumed_row_sparsity is None:
            self._check_given("row_sparsity")
        elif declared is None:
            declared = min(self.assumed_row_sparsity, n_features)
        most = check_integer("row_sparsity", declared, at_least=1, at_most=n_features, cure=cure)
        return n_features, most, None

    def _check_threshold(self, value: Any, word: str, *, at_most: float, cure: str) -> float | None:
        """A threshold as a number, or None for the one that `word` stands for."""
        if isinstance(value, str) and value == word:
            return None
        if value is None or (isinstance(value, Real) and value == 0 and value is not False):
            return 0.0
        cure = f"None and 0 keep every entry, {word!r} {cure}"
        return check_real("threshold", value, above=0, at_most=at_most, cure=cure)

    def _keep(self, plan: Plan) -> None:
        """Keep what is to be known of a plan."""
        self.parameters_: Any = plan.chosen.parameters

    def request(self, n_features: int) -> Request:
        """What is asked for, all of it public; options that mean nothing are refused."""
        self._check_flags("store_precision", "assume_centered", "positive_semidefinite")
        self._check_reactions()
        self._check_given("epsilon", *(("delta",) if hasattr(self, "delta") else ()))
        _, row_sparsity, candidates = self._check_sizes(n_features)
        return Request(
            row_sparsity,
            self.epsilon,  # type: ignore[arg-type]
            getattr(self, "delta", 0.0),
            known_mean=bool(self.assume_centered),
            centre=self._way_to_centre,
            known_scale=self.feature_scale is not None,
            scale_share=self.scale_share,
            pure=not hasattr(self, "delta"),
            candidates=candidates,
        )

    @abstractmethod
    def _planned(self, inputs: ReleaseInputs, apart: ReleaseInputs) -> MechanismPlan[Any]:
        """What to run, from public inputs alone; and among which mechanisms it was chosen.

        `apart` are the inputs of plans that are not `PooledPlan`.
        """


@with_options
class ApproximateCovariance(DeltaOptions, ScaledCovariance):
    """Base of (epsilon, delta)-private estimators on scaled features; not for use by itself.

    Parameters
    ----------
    scale_share : "auto" or float, default="auto"
        Share of the budget that estimating scales spends when `feature_scale` is None and no means
        are sought (`centre="pairs"` or `assume_centered=True`); "auto" is at most 0.2 and falls
        with the number of records.
    drop_nulls : bool, default=False
        Leave out records with nulls, which otherwise are an error. About how many are complete is
        released with the rest, from 0.5 % of the budget.
    """

    scale_share: Any = "auto"
    drop_nulls: bool = False
