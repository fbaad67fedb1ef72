"""`GenotypeCovariance`: linkage disequilibrium within windows of variants, released privately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hushcov._arrays import FloatArray, IntArray
from hushcov._validation import BUDGET_WORDS, check_integer, check_real, shown
from hushcov.candidates import Candidates, read_candidates
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import CandidateOptions, DeltaOptions, ForecastOptions, with_options
from hushcov.estimators.scaled import completed, paid_count
from hushcov.exceptions import DataError, ParameterError
from hushcov.fit import Caution, hopeless_because, large_delta
from hushcov.fit.counting import Counted, Counting
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ONE_REPLACED, Guarantee, Neighbours, is_counted
from hushcov.kernel.noise import Entropy, entropy_source
from hushcov.kernel.session import Session
from hushcov.options import check_given, check_parameters
from hushcov.tables.sources import check_enough
from hushcov_genotypes.mechanism import GenotypeParameters, genotype_parameters, release_genotypes
from hushcov_genotypes.reading import GenotypeRecords, open_genotypes

_HOPELESS = 0.5  # deviation of a correlation's noise: hardly any stands out
_CALLER = 3  # whoever called `fit`, seen from what warns


@with_options
class GenotypeCovariance(DeltaOptions, ForecastOptions, CandidateOptions, PrivateCovariance):
    """Covariance of genotypes within windows: private LD matrices, (epsilon, delta)-private.

    A record is a person, a feature a variant with 0, 1 or 2 copies of an allele, or a missing call.
    Variants are read once, block by block. Of each block allele frequencies are released, then sums
    of products of all pairs within the windows, centred and scaled by what was released; the few
    records that are longest in a block are left out of it. `docs/genotypes.md` says how to use it.

    Parameters
    ----------
    bandwidth : int, optional
        Pairs of variants at most so many columns apart are released, and no others. One of
        `bandwidth`, `window_bp` and `candidate_pairs` is required.
    window_bp : int, optional
        The same by position: pairs at most so many base pairs apart on one chromosome. Variants
        must be sorted by position.
    candidate_pairs : sparse matrix, array, list, mapping, path or Candidates, optional
        The same pair by pair. They must be windows: each variant with all those after it up to
        some other, which never comes earlier again.
    frequencies : array of shape (n_features,), optional
        Public frequencies of the counted allele, as of a reference panel: then none are estimated.
        Covariances are about these frequencies, so those of another population shift them.
    positions : array of int of shape (n_features,), optional
        Where the variants lie on their chromosome; public. None takes those of a `.bim` file.
    chromosomes : sequence of str of length n_features, optional
        Their chromosomes; None takes those of a `.bim` file, or one for all.
    on_hopeless : {"raise", "warn"}, default="raise"
        What to do where noise is expected to drown nearly all correlations: refuse
        (`HopelessError`), or warn and release. Nothing is charged before.

    Attributes
    ----------
    covariance_ : scipy.sparse.csr_array of shape (n_features, n_features)
        Covariances of genotypes within the windows; `correlation_` has LD as r.
    frequencies_ : ndarray
        Released frequencies of the counted allele, or the public ones.
    location_ : ndarray
        Mean genotypes: twice the frequencies.
    feature_scale_ : ndarray
        The unit in which all covariances have the same noise: about the Hardy-Weinberg deviations.
    noise_sd_ : sparse array
        Standard deviation of the privacy noise of each entry.
    positions_, chromosomes_ : ndarray of int, tuple of str, or None
        As given, or as in the `.bim` file.
    n_records_ : int
        Persons; the released number with `neighbours="add-remove"`.
    plan_ : GenotypeParameters
        Every public number of the release, and the noise to expect.

    Notes
    -----
    Privacy. Neighbours: replace one record; no precondition. Guarantee:
    (epsilon, delta)-differential privacy of `release_` and everything computed from it, for every
    dataset; proof: `docs/proofs/genotypes.md`. One record is one person: relatives are not
    protected together. Numbers, names and positions of variants are public.

    Examples
    --------
    >>> import numpy as np
    >>> from hushcov import GenotypeCovariance
    >>> rng = np.random.default_rng(0)
    >>> haplotypes = rng.random((2, 20_000, 1)) < np.full(50, 0.3)
    >>> est = GenotypeCovariance(epsilon=3.0, delta=1e-6, bandwidth=5)
    >>> est = est.fit(haplotypes.sum(axis=0))
    >>> bool(abs(est.covariance_[10, 11] / 0.42 - 1) < 0.2)  # 2 * 0.3 * 0.7
    True
    """

    window_bp: int | None = None
    frequencies: Any = None
    positions: Any = None
    chromosomes: Any = None
    neighbours: str = ONE_REPLACED.relation

    # What other estimators may choose.
    row_sparsity: ClassVar[None] = None  # type: ignore[misc]
    assume_centered: ClassVar[bool] = True  # type: ignore[misc]
    device: ClassVar[None] = None  # type: ignore[misc]

    def fit(self, X: Any, y: Any = None, *, unit: Any = None, sample_weight: Any = None) -> Self:
        """Release covariances of the genotypes in `X` within windows.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), frame, path or GenotypeRecords
            0, 1 or 2 copies of an allele; NaN, null or a negative number is a missing call. A path
            is that of a PLINK `.bed` file with its `.bim` and `.fam`, of `.npy` or of `.parquet`.
        y : ignored
        unit, sample_weight : None
            Refused: every record is one person, and counts once.
        """
        for name, given in (("unit", unit), ("sample_weight", sample_weight)):
            if given is not None:
                why = "every record is one person, and counts once."
                raise ParameterError(f"{name} must be left out with genotypes: {why}")
        return self.fit_watched(X)

    def fit_watched(self, X: Any, progress: Callable[[int], object] | None = None) -> Self:
        """Fit, telling `progress` again and again how many variants are done."""
        with self._fresh(X):
            return self._run(self._counted(X), progress)

    def _count(self, X: Any) -> CountedGenotypes:
        """Do the first half of `fit`: charge and release the number of records, if need be."""
        with self._fresh(X):
            return self._counted(X)

    def _fit_counted(
        self, counted: CountedGenotypes, progress: Callable[[int], object] | None = None
    ) -> Self:
        """Do the second half of `fit`, for what `count` returned."""
        with self._fresh():
            self.__dict__ |= counted.fitted
            return self._run(counted, progress)

    def _counted(self, X: Any) -> CountedGenotypes:
        self._check_ledger()
        self._request()
        records = self.open(X)
        self.counted_: Counted | None = None
        d, found = records.n_features, None
        plan = self._fit_plan(d if is_counted(self.neighbours) else records.n_records, d)
        entropy = entropy_source(self.random_state, stacklevel=_CALLER + 1)
        if is_counted(self.neighbours):
            # The plan above refused what cannot be done before anything is charged.
            counting = self.counting
            budget = counting.budget(private=entropy.private)
            with self._charged(budget.certificate, counting.epsilon):
                session = Session(records, budget, entropy)
                found = counting.number(session, counting.neighbours)
            self.counted_, records = found, records.counted(found.released)
            with paid_count(self):
                plan = self._fit_plan(found.released, d)
        return CountedGenotypes(records, plan, found, entropy, self._fitted())

    def open(self, X: Any) -> GenotypeRecords:
        """Open genotypes; shape, names and positions are kept."""
        records = open_genotypes(X)
        if not is_counted(self.neighbours):
            check_enough("X", records)
        d = self.n_features_in_ = records.n_features
        if records.feature_names is not None:
            self.feature_names_in_ = np.array(records.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        positions = records.positions if self.positions is None else self.positions
        chromosomes = records.chromosomes if self.chromosomes is None else self.chromosomes
        self.positions_ = _positions(positions, d)
        self.chromosomes_ = _chromosomes(chromosomes, d)
        return records

    @property
    def counting(self) -> Counting:
        """Return what releasing the number of records spends, where it is not public."""
        epsilon = check_real("epsilon", self.epsilon, above=0, cure=BUDGET_WORDS)
        return Counting(epsilon, Neighbours(self.neighbours))

    def _request(self) -> None:
        check_given(self, "epsilon", "delta")
        check_parameters(self)

    def _fit_plan(self, n_records: int, n_features: int) -> GenotypeParameters:
        """Settle everything that a fit of this size settles before it reads a record.

        Where the number of records is not public, the plan is for a count of so many. With
        `window_bp` the positions are those that were given, or of the last `open`.
        """
        self._request()
        windows = self._windows(n_features)
        removed = is_counted(self.neighbours)
        inputs = ReleaseInputs(
            n_records,
            n_features,
            min(windows.row_sparsity, n_features),
            self.counting.left if removed else self.epsilon,  # type: ignore[arg-type]
            self.delta,  # type: ignore[arg-type]
            neighbours=Neighbours(self.neighbours),
            candidates=windows,
        )
        return genotype_parameters(inputs, known=self._known(n_features) is not None)

    def _known(self, n_features: int) -> FloatArray | None:
        """Return the public frequencies, if there are any; checked."""
        if self.frequencies is None:
            return None
        cure = "pass public frequencies of the counted allele, one for each variant."
        try:
            found = np.asarray(self.frequencies, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(
                f"frequencies must be numbers, got {shown(self.frequencies)}: {cure}"
            ) from None
        if found.shape != (n_features,) or not np.all((found >= 0) & (found <= 1)):
            raise ParameterError(
                f"frequencies must be {n_features:,} numbers from 0 to 1, got shape {found.shape}, "
                f"or numbers beyond: {cure}"
            )
        return found

    def _windows(self, n_features: int) -> Candidates:
        """Return the pairs to release; exactly one option says which."""
        names = ("bandwidth", "window_bp", "candidate_pairs")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ParameterError(
                f"one of {', '.join(names)} must be given, got {', '.join(given) or 'none'}: it "
                "says which pairs of variants are released, and is public. bandwidth=20 pairs each "
                "variant with the 20 after it."
            )
        if self.window_bp is None:
            known = getattr(self, "feature_names_in_", None)
            told: Any = {"bandwidth": self.bandwidth, "candidate_pairs": self.candidate_pairs}
            told["names"] = None if known is None else list(known)
            found = read_candidates(n_features, **told)
            assert found is not None
            return found
        cure = "it is how many base pairs apart two variants can be."
        reach = check_integer("window_bp", self.window_bp, at_least=0, cure=cure)
        positions = getattr(self, "positions_", None)
        positions = _positions(self.positions, n_features) if positions is None else positions
        chromosomes = getattr(self, "chromosomes_", None)
        if chromosomes is None:
            chromosomes = _chromosomes(self.chromosomes, n_features)
        if positions is None:
            raise ParameterError(
                "positions are required with window_bp: pass positions, read a .bed file with its "
                ".bim, or use bandwidth."
            )
        return Candidates.windows(window_ends(positions, chromosomes, reach))

    def certified(self, plan: GenotypeParameters) -> Guarantee:
        """Return the cost of a fit by this plan, with the count before it."""
        private = self.random_state is None
        guarantee = plan.budget(private=private).certificate
        if plan.inputs.neighbours.public_size:
            return guarantee
        return guarantee.after(self.counting.budget(private=private).certificate)

    def cautions(self, plan: GenotypeParameters) -> tuple[Caution, ...]:
        """Return warnings about a fit by this plan."""
        inputs = plan.inputs
        found = [large_delta(inputs.delta, inputs.n_records)]
        if plan.noise >= _HOPELESS:
            found.append(
                hopeless_because(
                    f"{inputs.n_records:,} records are too few for "
                    f"{plan.candidates.n_pairs:,} pairs at this budget: correlations "
                    f"would have noise of standard deviation {plan.noise:.2g}, in which nearly all "
                    "drown. Use more records, narrower windows, fewer variants or a larger budget."
                )
            )
        return tuple(each for each in found if each is not None)

    def _run(self, counted: CountedGenotypes, progress: Callable[[int], object] | None) -> Self:
        plan, entropy, before = counted.plan, counted.entropy, counted.counted
        self.plan_ = plan
        self._enforce_cautions(*self.cautions(plan), stacklevel=_CALLER + 1)
        budget = plan.budget(private=entropy.private)
        # Nothing but a count has been read from the records. Charge first, then release.
        with self._charged(budget.certificate):
            known: Any = {"frequencies": self._known(plan.inputs.n_features), "progress": progress}
            session = Session(counted.records, budget, entropy)
            release = release_genotypes(session, plan, **known)
            release = release if before is None else completed(release, before)
            known = {"positions": self.positions_, "chromosomes": self.chromosomes_}
            release = replace(release, **known)
            self.feature_scale_ = release.feature_scale
            self._store(release)
        self.n_records_ = self.release_.making.n_records
        return self

    @property
    def frequencies_(self) -> FloatArray:
        """Frequencies of the counted allele, as they were released or given."""
        check_is_fitted(self, "release_")
        return self.location_ / 2


@dataclass(frozen=True, eq=False)
class CountedGenotypes:
    """Genotypes of one fit with the plan for them, and the count that was released before.

    An estimator keeps nothing of this between fits: `fitted` holds the attributes of the estimator
    that are known so far, such as names and positions.
    """

    records: GenotypeRecords
    plan: GenotypeParameters
    counted: Counted | None
    entropy: Entropy
    fitted: dict[str, Any]


def window_ends(positions: IntArray, chromosomes: tuple[str, ...] | None, reach: int) -> IntArray:
    """Return for each variant the one after the last at most `reach` base pairs on."""
    d = len(positions)
    ends = np.empty(d, dtype=np.int64)
    names = np.zeros(d, dtype=np.int64) if chromosomes is None else np.array(chromosomes)
    borders = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1, [d]])
    if len(np.unique(names)) != len(borders) - 1:
        raise DataError("chromosomes must follow each other: sort the variants by chromosome.")
    for start, stop in pairwise(borders):
        part = positions[start:stop]
        if np.any(part[1:] < part[:-1]):
            raise DataError(
                "positions must not decrease along a chromosome for window_bp: sort the variants, "
                "or use bandwidth."
            )
        ends[start:stop] = start + np.searchsorted(part, part + reach, side="right")
    return ends


def _positions(given: Any, n_features: int) -> IntArray | None:
    if given is None:
        return None
    found = np.asarray(given)
    if found.dtype.kind not in "iu" or found.shape != (n_features,):
        raise ParameterError(
            f"positions must be one integer for each of {n_features:,} variants, got "
            f"{found.dtype} of shape {found.shape}: pass as many."
        )
    return found.astype(np.int64)


def _chromosomes(given: Any, n_features: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    try:
        found = (given,) if isinstance(given, str) else tuple(given)
    except Exception:  # whatever it is, it is no list of names
        found = ()
    if len(found) != n_features or not all(isinstance(each, str) for each in found):
        raise ParameterError(
            f"chromosomes must be one name for each of {n_features:,} variants, got "
            f"{len(found):,}: pass as many strings."
        )
    return found
