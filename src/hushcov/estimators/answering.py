"""Answer questions about a release: the methods of fitted estimators and loaded releases.

Nothing but `release_` is read, so everything is post-processing: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from hushcov._arrays import BoolArray, FloatArray
from hushcov._validation import LIBRARIES, check_choice, check_level
from hushcov.exceptions import ParameterError
from hushcov.postprocess import Matrix, is_sparse, pseudo_inverse
from hushcov.release import Release
from hushcov.release.coverage import coverage
from hushcov.release.estimate import estimate, noise_deviation
from hushcov.release.view import covariance_intervals, view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hushcov.answers.association import Association
    from hushcov.answers.components import Components
    from hushcov.answers.conditional import Conditional
    from hushcov.answers.export import Exported
    from hushcov.answers.odds import OddsRatios
    from hushcov.answers.partial import PartialCorrelations
    from hushcov.answers.regression import Regression
    from hushcov.answers.synthetic import SyntheticRows
    from hushcov.answers.tables import Window
    from hushcov.release import PublicKey, SigningKey
    from hushcov.tables.codebook import Codebook


_DEFAULT = "default"  # frames of the library that came in


def library_of(table: object) -> str | None:
    """Return the library of a data frame, by its class alone; None for all else."""
    roots = (cls.__module__.partition(".")[0] for cls in type(table).__mro__)
    return next((root for root in roots if root in LIBRARIES), None)


class FrameChoice(BaseEstimator):
    """An estimator that returns tables as frames of the library that came in, or was chosen."""

    _frames: str | None = None  # library of the frames returned; None where nothing says
    _frames_in: str | None = None
    _frames_asked: str | None = None

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the library of data frames that tables such as `labelled_covariance()` have.

        It is scikit-learn's way to say so, and kept by `clone`. There is no `transform` here.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" is the library of the rows that were fitted, else pandas; None changes
            nothing. Where it is not called, `sklearn.set_config(transform_output=...)` counts.
        """
        if transform is not None:
            check_choice("transform", transform, (_DEFAULT, *LIBRARIES))
            self._frames_asked = transform
            self._choose_frames()
        return self

    def __sklearn_clone__(self) -> Self:
        """Copy as scikit-learn does, and with what was asked of frames."""
        copy: Self = super().__sklearn_clone__()
        if self._frames_asked is not None:
            copy.set_output(transform=self._frames_asked)
        return copy

    def _choose_frames(self) -> None:
        asked = self._frames_asked or get_config()["transform_output"]
        self._frames = self._frames_in if asked == _DEFAULT else asked


class Answers:
    """Questions to a release, for classes that have a `release_`."""

    release_: Release
    _frames: str | None = None  # library of the data frames that came in, and go out

    def _keep_estimate(self) -> None:
        """Store the estimate of `release_` and what follows from it as attributes."""
        covariance = estimate(self.release_)
        self.covariance_ = covariance
        self.support_ = covariance != 0
        location = self.release_.location
        self.location_ = np.zeros(covariance.shape[0]) if location is None else location
        self.unresolved_features_ = np.array(self.release_.making.unresolved, dtype=np.intp)

    def _released(self) -> Release:
        if not hasattr(self, "release_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} has released nothing yet: call fit first.")
        return self.release_

    def _frame(self, table: Any, library: str | None) -> Any:
        from hushcov.answers.files import frame

        return frame(table, self._frames if library is None else library)

    # ---- tables ----

    @property
    def correlation_(self) -> Matrix:
        """The estimate as correlations; NaN where they were not found.

        That is for features whose variance is not positive, and where noise puts one beyond 1.
        """
        return view(self._released()).correlation_matrix()

    def pairs(self, level: float = 0.95, library: str | None = None) -> Any:
        """Return the pairs that were released, the strongest first, as a data frame.

        Parameters
        ----------
        level : float, default=0.95
            Probability with which an interval covers.
        library : {"pandas", "polars"}, optional
            Library of the frame; by default that of the rows that were fitted, else pandas.

        Returns
        -------
        DataFrame
            feature_1, feature_2; covariance with lower and upper; correlation with
            correlation_lower and correlation_upper; noise_sd, the standard error of the covariance
            from privacy noise alone; status, which is "nonzero" (the pair stands out of the noise,
            and its intervals exclude zero), "indistinguishable from zero", "interval unreliable"
            (so much was cut off the large values of a column that its intervals may not cover),
            "constant column" (one of the two does not vary beyond noise), "column not found" (noise
            hides the mean and scale of one) or "not known" (the mechanism has no single level of
            noise).
            Intervals count noise and sampling, and are those of `covariance_interval`. They are NaN
            where the mechanism has no single level of noise. Pairs that were not released have no
            row; of more than 600,000 the strongest are listed.
        """
        from hushcov.answers.tables import pairs_table

        return self._frame(pairs_table(self._released(), check_level(level)), library)

    def variances(self, level: float = 0.95, library: str | None = None) -> Any:
        """Return one row for each feature, as a data frame; parameters are those of `pairs`.

        Columns: feature; where means were released, mean with mean_lower, mean_upper and its
        standard error mean_se, which counts privacy noise, sampling and what bounds may have cut
        off; the mean of a 0/1 column is the share of 1. Then variance with lower and upper;
        standard_deviation with sd_lower and sd_upper; noise_sd and status of the variance.
        """
        from hushcov.answers.tables import variances_table

        return self._frame(variances_table(self._released(), check_level(level)), library)

    def window(self, first: str | int, last: str | int, *, level: float = 0.95) -> Window:
        """Return the columns from one to another: a small matrix of correlations with intervals.

        Parameters
        ----------
        first, last : str or int
            Names or positions, both included, in either order; at most 2,000 columns.
        level : float, default=0.95
            Probability with which each interval covers.

        Returns
        -------
        Window
            `matrix()` is a square frame, `frame()` has a line for each released pair;
            `correlation`, `lower` and `upper` are arrays. See `docs/scale.md`.
        """
        from hushcov.answers.tables import window

        return window(self._released(), first, last, level=check_level(level)).of(self._frames)

    def labelled_covariance(self, library: str | None = None) -> Any:
        """Return the released covariance with the names of the features.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            Library of the frame; by default as in `pairs`. Polars has no row labels: its first
            column, `feature`, has the names, so that no feature may be called that.
        """
        from hushcov.answers.names import feature_names
        from hushcov.answers.tables import square_frame

        names = feature_names(self._released()).tolist()
        return square_frame(names, self.covariance_, library or self._frames)

    # ---- questions ----

    def regression(
        self,
        target: str | int,
        on: Any = None,
        *,
        level: float = 0.95,
        limit: float = 2.0,
        ridge: float | str = "auto",
    ) -> Regression:
        """Regress one feature on others, with intervals; see `docs/questions.md`.

        Parameters
        ----------
        target : str or int
            Name or position of the feature to explain; a category of one or two levels will do.
        on : names or positions, optional
            The features to regress on, where a category stands for all its levels but one; those
            that were not found are left out with a warning. None takes those whose pair with the
            target was found, "all" every other one that was found.
        level : float, default=0.95
            Probability with which each interval covers.
        limit : float, default=2.0
            Root of the sum of squared standardized coefficients up to which intervals are right
            where noise hides what tells features apart.
        ridge : "auto" or float, default="auto"
            Number added to the standardized variances for the coefficients; 0 is least squares.
            "auto" keeps 0 unless another ridge is expected to predict better, and shrinks to the
            mean where noise is as large as what is explained. The answer says what was used in
            `ridge`, `multiplier` and `ridge_reason`.
        """
        from hushcov.answers.regression import regress

        found = regress(self._released(), target, on, level=level, limit=limit, ridge=ridge)
        return found.of(self._frames)

    def logistic(
        self,
        target: str | int,
        on: Any = None,
        *,
        level: float = 0.95,
        limit: float = 2.0,
        ridge: float | str = "auto",
    ) -> OddsRatios:
        """Return odds ratios of a 0/1 column by others, with intervals; see `docs/questions.md`.

        They are computed from the linear regression (the discriminant-function estimator), and are
        those of a logistic regression where features are normal in both groups.

        Parameters
        ----------
        target : str or int
            A column of 0 and 1, or a category of one or two levels; odds are those of 1. Other
            parameters are those of `regression`.
        """
        from hushcov.answers.odds import logistic

        found = logistic(self._released(), target, on, level=level, limit=limit, ridge=ridge)
        return found.of(self._frames)

    def association(
        self, category: str | int, other: str | int, *, level: float = 0.95
    ) -> Association:
        """Return the mean of a column in each level of a category, beside that of all others.

        Parameters
        ----------
        category : str or int
            Name of a category, or a column of 0 and 1 by its public bounds.
        other : str or int
            Name of a column or of another category.
        level : float, default=0.95
            Probability with which each interval covers.
        """
        from hushcov.answers.association import associate

        return associate(self._released(), category, other, level=level).of(self._frames)

    def conditional(
        self,
        given: Mapping[Any, float],
        features: Any = None,
        *,
        means: Mapping[Any, float] | None = None,
        level: float = 0.95,
    ) -> Conditional:
        """Predict features from values of others; see `docs/questions.md`.

        Parameters
        ----------
        given : mapping of names or positions to numbers
        features : names or positions, optional
            Features to predict; None is every other feature that was found.
        means : mapping, optional
            Public means, where they are known or none were released.
        level : float, default=0.95
            Probability with which each interval covers.
        """
        from hushcov.answers.conditional import conditional

        found = conditional(self._released(), given, features, means=means, level=level)
        return found.of(self._frames)

    def components(
        self,
        n_components: int | None = None,
        *,
        correlation: bool = True,
        features: Any = None,
        level: float = 0.95,
    ) -> Components:
        """Return principal components, with intervals; see `docs/questions.md`.

        Parameters
        ----------
        n_components : int, optional
            How many, the largest first; None takes those that stand out of the noise.
        correlation : bool, default=True
            Whether they are those of the correlation matrix, or else of the covariance.
        features : names or positions, optional
            Features to look at; None is all whose variance stands out of the noise.
        level : float, default=0.95
            Probability with which each interval covers.
        """
        from hushcov.answers.components import components

        found = components(
            self._released(), n_components, correlation=correlation, features=features, level=level
        )
        return found.of(self._frames)

    def partial_correlations(
        self, features: Any = None, *, level: float = 0.95
    ) -> PartialCorrelations:
        """Return partial correlations and their graph; see `docs/questions.md`.

        `warning` says so where noise drowns them. Parameters are those of `components`.
        """
        from hushcov.answers.partial import partial_correlations

        return partial_correlations(self._released(), features, level=level).of(self._frames)

    def synthesize(
        self, n: int, *, random_state: object = None, codebook: Codebook | None = None
    ) -> SyntheticRows:
        """Draw synthetic rows from the release, without a charge; see `docs/outputs.md`.

        Parameters
        ----------
        n : int
            How many rows.
        random_state : None, int or Generator
            Seed of the draws. The release is as private with it: nothing is drawn about records.
        codebook : Codebook, optional
            Public knowledge of columns (`hushcov.read_codebook`): integers are rounded, and binary
            columns have their two values. By default that of the fit, which the release keeps.

        Returns
        -------
        SyntheticRows
            `frame()` has the rows, `save("synthetic.csv")` writes them with a text beside them, and
            `print` says what they keep and what they do not.
        """
        from hushcov.answers.synthetic import synthesize

        rows = synthesize(self._released(), n, random_state=random_state, codebook=codebook)
        return rows.of(self._frames)

    # ---- pictures and files ----

    def plot(self) -> Figure:
        """Draw the heat map as a matplotlib Figure, which a notebook shows and `savefig` writes.

        Needs the extra `report`.
        """
        from hushcov.report.figures import release_figure

        return release_figure(self._released())

    def report(self, path: str | PathLike[str]) -> Path:
        """Write the report of the release, one HTML page, and return its path.

        Needs the extra `report`.
        """
        from hushcov.report import write_report

        return write_report(Path(path), self._released())

    def save(
        self,
        folder: str | PathLike[str],
        *,
        tables: str = "csv",
        overwrite: bool = False,
        sign: SigningKey | str | Path | None = None,
    ) -> Path:
        """Write the release, the estimate and its tables into a folder; `hushcov.load` reads it.

        Parameters
        ----------
        folder : path
            A new or empty folder. It holds all of the release or nothing, whenever the program
            ends; a failure to write the estimate or a table beside it is a warning.
        tables : {"csv", "parquet", "none"}
            Format of pairs, variances and the matrix with its names.
        overwrite : bool, default=False
            Whether a release that is there is replaced.
        sign : SigningKey or path, optional
            Private Ed25519 key to sign all files with.
        """
        from hushcov.answers.files import check_parquet
        from hushcov.answers.tables import FORMATS, write_estimate, write_tables

        if check_choice("tables", tables, FORMATS) == "parquet":
            check_parquet()
        release = self._released()

        def attach(draft: Path) -> None:
            write_estimate(draft, self.covariance_)
            write_tables(draft, release, self.covariance_, tables)

        return release.write(Path(folder), overwrite=overwrite, attach=attach, sign=sign)

    def export(
        self,
        path: str | PathLike[str],
        *,
        to: str,
        covariance: bool = False,
        psd: bool = True,
        block_size: int | str | None = None,
        features: Any = None,
        overwrite: bool = False,
        level: float = 0.95,
    ) -> Exported:
        """Write the estimate for other programs, without a charge; see `docs/outputs.md`.

        Parameters
        ----------
        path : path
            A new or empty folder.
        to : str
            "npz", "zarr", "parquet" or "csv": sparse triangles with a table of features, zarr, or
            tidy pairs with intervals. "lavaan", "semopy", "statsmodels", "psych",
            "graphical-lasso" or "skfolio": what the program takes, with the noise of this release
            counted, and a script that runs it.
        covariance : bool, default=False
            Covariances instead of correlations with a diagonal of ones.
        psd : bool, default=True
            Make the matrix positive semidefinite; `export.json` says what that changed.
        block_size : int or "chromosome", optional
            Features of a block; pairs across blocks are left out. None is one matrix.
        features : sequence of str or int, optional
            Features that a program gets; all that were found if None.
        overwrite : bool, default=False
            Whether an export that is there is replaced.
        level : float, default=0.95
            Probability with which intervals of pairs cover.
        """
        from hushcov.answers.export import export

        return export(
            self._released(),
            path,
            to=to,
            covariance=covariance,
            psd=psd,
            block_size=block_size,
            features=features,
            overwrite=overwrite,
            level=level,
        )

    # ---- matrices ----

    @property
    def precision_(self) -> FloatArray:
        """The inverse of the estimate, computed when it is first asked for; see `Attributes`."""
        self._released()
        if is_sparse(self.covariance_):
            raise AttributeError(
                "sparse_output must be False for a precision matrix, which is dense: solve linear "
                "systems with scipy.sparse.linalg instead, or pass sparse_output=False."
            )
        if not hasattr(self, "_precision"):
            self._precision = pseudo_inverse(self.covariance_)
        return self._precision

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
        """Return ends of an interval for every entry of the covariance that was released and kept.

        They count privacy noise and sampling error, and each covers the true entry with probability
        `level`, given that the entry passed the threshold. Where means were found, the sampling
        error is that of the columns' released fourth moments, and the far end is moved by what may
        have been cut off values far away; where even that is not enough, `interval_holds_` says so.
        Entries of features that were not found have infinite intervals.

        **Where means and scales are both public, they are those of normal columns. Skewed
        columns, heavy tails and rare events are covered less often, and the less the more records
        there are:** at level 0.95 and 100,000 records 0.77 of the pairs for t with 5 degrees of
        freedom, none for lognormal ones. `docs/questions.md` has the tables.

        An estimate that barely passed the threshold may lie outside its own interval, which allows
        for having been shown and lies closer to zero. A projection on the positive semidefinite
        matrices moves estimates and not intervals. NaN where the threshold set the estimate to
        zero, or not stored in a sparse matrix. Post-processing: it costs no privacy.

        Returns
        -------
        lower, upper : ndarray or sparse array of shape (n_features, n_features)
        """
        self._check_noise()
        return covariance_intervals(self.release_, check_level(level))

    @property
    def interval_holds_(self) -> BoolArray:
        """For every feature, whether intervals of its entries can be believed.

        False where most of a feature's variance may have been cut off with values far away, and for
        all features where a few records are so long that nobody knows how much was cut off them; by
        what was released of the records. Lesser losses make intervals wider instead. An entry has
        an interval to be believed where both of its features do. Where means and scales are both
        public, nothing of that was released, and all are True. `docs/questions.md` says how it is
        found.
        """
        self._released()
        return coverage(self.release_).holds

    def _check_noise(self) -> None:
        """Refuse what needs one noise level for all entries."""
        self._released()
        if self.release_.noise_sd is None:
            raise ParameterError(
                f"the {self.release_.mechanism} mechanism has no single noise level: use "
                "ScreenedCovariance for noise_sd_ and covariance_interval."
            )


class LoadedCovariance(Answers):
    """A release that was read from its folder, with what an estimator has after its fit."""

    def __init__(self, release: Release) -> None:
        self.release_ = release
        self._keep_estimate()
        self.n_features_in_ = release.n_features
        if release.column_names is not None:
            self.feature_names_in_ = np.array(release.column_names, dtype=object)

    def __repr__(self) -> str:
        guarantee = self.release_.guarantee
        return (
            f"<release of {self.n_features_in_:,} features by {self.release_.name}, "
            f"epsilon {guarantee.epsilon:g}, delta {guarantee.delta:g}>"
        )

    def __str__(self) -> str:
        from hushcov.answers.tables import overview

        with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
            return str(overview(self.release_))

    def _repr_html_(self) -> str:
        from hushcov.report.notebook import release_html

        return release_html(self.release_)


def load(
    folder: str | PathLike[str], *, verify: PublicKey | str | Path | None = None
) -> LoadedCovariance:
    """Read a release that `save` or `hushcov fit` wrote; files that are damaged are an error.

    Parameters
    ----------
    folder : path
        The folder of the release.
    verify : PublicKey or path, optional
        Public Ed25519 key: a release that its private half did not sign is an error, too.
    """
    return LoadedCovariance(Release.read(Path(folder), verify=verify))
