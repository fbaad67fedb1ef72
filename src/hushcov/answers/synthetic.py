"""Synthetic rows: drawn from a release, with its correlations, means, scales and marginals.

The numbers of a row are normal ones (a Gaussian copula), each mapped to the law of its column; how
these are correlated follows from the released correlations. Levels of categories follow, given the
numbers, by a logistic model with the released correlations. Nothing but the document is read.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy import linalg, optimize, special

from hushcov._arrays import FloatArray, IntArray
from hushcov._files import as_path, os_errors
from hushcov._validation import check_integer, meant, repeated, shown
from hushcov._version import __version__
from hushcov._words import counted, number, some_of
from hushcov.answers.columns import adds_up
from hushcov.answers.files import Table, check_parquet, table_writer
from hushcov.answers.names import feature_names
from hushcov.answers.tables import Answer
from hushcov.exceptions import CapacityError, ParameterError, printable
from hushcov.kernel.accounting import RECORD
from hushcov.kernel.transforms import LOG, LOG1P, RANK, SQRT, SQUARE, WINSORISE, Transform
from hushcov.postprocess import is_sparse
from hushcov.release import Release
from hushcov.release.coverage import not_found
from hushcov.release.document import Kind
from hushcov.release.findings import constant_features
from hushcov.release.view import View, view
from hushcov.tables.codebook import BINARY, CATEGORY, Codebook
from hushcov.text.description import MOST_NAMED
from hushcov.text.printing import AnswerPage

#: Features of which rows are drawn, at most: the whole matrix is made.
MOST_FEATURES = 10_000
MOST_ROWS = 10**9
#: The value of a category in rows that have none of the levels that were released.
OTHER = "(other)"
_BLOCK = 2**22  # numbers drawn at a time
_SHOWN = 8  # rows of a notebook's table
_NOT_RECORDS = (
    "Do not analyse these rows as if they were records: intervals and tests computed from them "
    "ignore the noise of the release, and their number is arbitrary. Ask the release instead "
    "('hushcov ask', est.regression, est.pairs): it costs nothing, and its intervals count the "
    "noise."
)
_FAR = 8.2  # no normal number is further from zero
_Z = np.linspace(-_FAR, _FAR, 4101)
_NORMAL = np.exp(-(_Z**2) / 2) / np.exp(-(_Z**2) / 2).sum()  # weights of these
_DEGREE = 40  # of Hermite polynomials, which are normalised
_HERMITE = hermevander(_Z, _DEGREE) / np.sqrt(special.factorial(np.arange(_DEGREE + 1)))
_LATENT = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 129))  # correlations of normal numbers
_AT_BOUNDS = 0.9  # share of the largest variance within bounds from which on values are at both
_BEYOND_BOUNDS = 6.0  # deviations from the mean at which bounds do not matter
_LEAST_OTHER = 0.03  # share of records that have none of the levels of a category
# Rows that are drawn on trial for categories, and numbers of these; and what keeps weights finite.
_LEAST_TRIED, _TRIED, _TRIED_NUMBERS, _RIDGE = 2**13, 2**17, 2**24, 1e-5
_MOST_BEFORE = 500  # features that a category follows
_ENOUGH = {"gtol": 2e-4, "ftol": 1e-12, "maxiter": 100}
# The share that is cut off released quantiles far away, or the variance, over the released one, at
# which it is enough.
_CUT, _ROOM = 0.01, 1.02
# Deviations that are kept, and kept in part, and how many bins may be as wide as one.
_NEAR, _FARTHEST, _BINS_OF_SD = 3.0, 12.0, 8.0
_DIGITS = 3  # of a number, beyond the first digit of its deviation
_ASSUMED = ("normal", "bounds")  # shapes that are not known
_ENDINGS = (".csv", ".parquet")
_CURE = "it is how many rows are drawn, such as 20000; their number says nothing of the records."

_NO_MAP = Transform("")
_NO_OF = {"yes": "no", "y": "n", "true": "false", "t": "f", "1": "0"}
_OPPOSITES = _NO_OF | {no: yes for yes, no in _NO_OF.items()}

Knots = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class _Number:
    """A column of numbers: one normal number mapped by a table, then to the unit of the records.

    `law` has normal numbers and the values at them, `scored` the same for what was correlated;
    straight lines lie between. `shape` says where the law is from: all of it is "known", its
    quantiles were "released", or it is "normal" or within the "bounds" by mean and deviation.
    """

    name: str
    places: IntArray
    law: Knots
    scored: Knots
    shape: str
    inverse: Callable[[FloatArray], FloatArray]
    ends: tuple[float, float]
    whole: bool
    words: tuple[str, str] | None = None  # for the two ends, where the table has words for them

    def values(self, z: FloatArray) -> Any:
        """Return the column for normal numbers, in the unit of the records."""
        spread = float(np.ptp(self.inverse(np.interp([-1.0, 1.0], *self.law)))) / 2
        found = self.inverse(np.interp(z, *self.law))
        if 0 < spread < np.inf:
            digits = 0 if self.whole else int(_DIGITS - np.floor(np.log10(spread)))
            found = np.round(found, min(max(digits, 0), 300))
        found = np.clip(found, *self.ends) + 0.0  # no -0.0
        if self.words is not None:
            return np.array(self.words, dtype=object)[(found == self.ends[1]).astype(np.intp)]
        return np.clip(found, -(2.0**62), 2.0**62).astype(np.int64) if self.whole else found

    def standardised(self, z: FloatArray) -> FloatArray:
        """Return what was correlated, with mean 0 and variance 1."""
        values = np.interp(_Z, *self.scored)
        mean = _NORMAL @ values
        deviation = max(float(np.sqrt(_NORMAL @ (values - mean) ** 2)), 1e-300)
        return np.asarray((np.interp(z, *self.scored) - mean) / deviation)


@dataclass(frozen=True, eq=False)
class _Category:
    """A category: the chances of its levels given the standardised features before it.

    `places` are those of the levels but for `OTHER`, which comes last. `weights` has a row of
    constants, and one for each of these features.
    """

    name: str
    places: IntArray
    levels: tuple[str, ...]
    shares: FloatArray
    weights: FloatArray | None = None

    @property
    def values(self) -> Any:
        """The levels as the table has them: whole numbers where all are written so, else text."""
        if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", each) for each in self.levels):
            return np.array(self.levels, dtype=np.int64)
        return np.array(self.levels, dtype=object)

    def drawn(self, before: FloatArray, uniform: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return places of levels, by uniform numbers, and the features with those of the category.

        That is a standardised column of zeros and ones for each level but the last.
        """
        assert self.weights is not None
        chances = special.softmax(before @ self.weights[1:] + self.weights[0], axis=1)
        below = np.cumsum(chances, axis=1)[:, :-1]
        codes, share = (uniform[:, None] > below).sum(axis=1), self.shares[:-1]
        hot = codes[:, None] == np.arange(len(share))
        own = (hot - share) / np.maximum(np.sqrt(share * (1 - share)), 1e-12)
        return codes, np.concatenate([before, own], axis=1)

    def fitted(self, before: FloatArray, target: FloatArray) -> _Category:
        """Return the category whose levels have these correlations (rows) with features before it.

        It has the most entropy of those: a logistic regression with moments in place of records.
        Of many features those count that have the strongest correlations.
        """
        share, width = self.shares[: len(self.places)], before.shape[1]
        used = np.argsort(-np.abs(target).max(axis=0, initial=0.0), kind="stable")[:_MOST_BEFORE]
        before, target = before[:, used], target[:, used]
        moments = np.zeros((before.shape[1] + 1, len(self.levels)))
        moments[1:, : len(share)] = (target * np.sqrt(share * (1 - share))[:, None]).T
        rest = np.eye(len(self.levels))[-1] if OTHER in self.levels else self.shares
        moments -= np.multiply.outer(moments.sum(axis=1), rest)  # those of all levels add up to 0
        moments[0] = self.shares
        # Features that are not correlated are found in far fewer steps.
        root = np.linalg.cholesky(before.T @ before / len(before) + 1e-6 * np.eye(before.shape[1]))
        plain = _solved(root, before.T)
        moments[1:] = _solved(root, moments[1:])

        def off(flat: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
            weights = flat.reshape(moments.shape)
            scores = weights[1:].T @ x + weights[0][:, None]
            total = special.logsumexp(scores, axis=0)
            chances = np.exp(scores - total)
            slope = np.concatenate([chances.mean(axis=1)[None], x @ chances.T / x.shape[1]])
            slope += _RIDGE * weights - moments
            value = total.mean() - (weights * moments).sum()
            return float(value + _RIDGE / 2 * (flat @ flat)), slope.ravel()

        found = np.zeros_like(moments)
        found[0] = np.log(np.maximum(self.shares, 1e-12))
        for n in (_LEAST_TRIED, len(before)):  # some rows say about where it is
            known: Any = {"args": (plain[:, -n:],), "method": "L-BFGS-B", "options": _ENOUGH}
            found = optimize.minimize(off, found.ravel(), jac=True, **known).x
        weights, found = np.zeros((width + 1, len(self.levels))), found.reshape(moments.shape)
        weights[0] = found[0]
        weights[1 + used] = _solved(root, found[1:], trans="T")
        return replace(self, weights=weights)


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRows(Answer):
    """Rows drawn from a release; `frame()`, `table()` and `save()` give the same ones.

    Parameters
    ----------
    release : Release
        The document; nothing else is read.
    n_rows : int
        How many rows are drawn.
    seed : int
        Of the draws; the release is no less private where it is known.
    columns : tuple of str
        Names of the columns.
    kept, not_kept : tuple of str
        What the rows have of the release, and what they lack, in sentences.
    """

    release: Release
    n_rows: int
    seed: int
    columns: tuple[str, ...]
    kept: tuple[str, ...]
    not_kept: tuple[str, ...]
    _numbers: list[_Number] = field(repr=False)
    _categories: list[_Category] = field(repr=False)
    _root: FloatArray = field(repr=False)

    def blocks(self) -> Iterator[Table]:
        """Return the rows, some at a time."""
        normal, uniform = (np.random.default_rng([self.seed, k]) for k in (0, 1))
        width = self._root.shape[1]
        size = max(1, _BLOCK // (width + sum(len(each.levels) for each in self._categories) + 1))
        for start in range(0, self.n_rows, size):
            n = min(size, self.n_rows - start)
            z = normal.standard_normal((n, width)) @ self._root.T
            found = {x.name: x.values(z[:, k]) for k, x in enumerate(self._numbers)}
            features = _features(self._numbers, z) if self._categories else z
            chances = uniform.random((n, len(self._categories)))
            for each, own in zip(self._categories, chances.T, strict=True):
                codes, features = each.drawn(features, own)
                found[each.name] = each.values[codes]
            yield {name: found[name] for name in self.columns}

    def page(self) -> AnswerPage:
        """Show the first rows, and what rows do not keep."""
        first = {name: column[:_SHOWN] for name, column in next(self.blocks()).items()}
        facts = [("rows", f"{self.n_rows:,}; the first {min(_SHOWN, self.n_rows)} are shown")]
        facts += [("not kept", each) for each in self.not_kept]
        return AnswerPage("Synthetic rows", facts, first, _NOT_RECORDS)

    def table(self) -> Table:
        """Return all rows as named columns."""
        blocks = list(self.blocks())
        return {name: np.concatenate([each[name] for each in blocks]) for name in self.columns}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the rows as CSV or Parquet, by the ending, and `NAME.txt` on what they keep.

        Both files are there when all is written, or neither is.
        """
        path, beside = check_output(path, overwrite=overwrite)
        with os_errors(path, "written", ParameterError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".hushcov-", dir=path.parent) as folder:
                drafts = [Path(folder, each.name) for each in (path, beside)]
                with table_writer(drafts[0]) as write:
                    for block in self.blocks():
                        write(block)
                drafts[1].write_text(str(self) + "\n", encoding="utf-8")
                for draft, final in zip(drafts, (path, beside), strict=True):
                    draft.replace(final)
        return path

    def __str__(self) -> str:
        about, promise = self.release.making, self.release.guarantee
        of = "" if about.dataset is None else f" of {printable(about.dataset)}"
        private = f"epsilon {number(promise.epsilon)}, delta {number(promise.delta)}"
        if not promise.private:
            private = "NOT PRIVATE: the noise of this release came from a seed or a simulation"
        size = f"{counted(self.n_rows, 'row')} of {counted(len(self.columns), 'column')}"
        paragraphs = [
            f"Synthetic rows, drawn by hushcov {__version__} from a release{of}: {size}.",
            f"Guarantee: that of the release ({private}). The rows are computed from it alone: no "
            "record was read, nothing more is spent, and no row is copied from one.",
            f"Seed of the draws: {self.seed}. It may be known: no privacy rests on it.",
            *("", "Kept:", *(f"- {each}" for each in self.kept)),
            *("", "Not kept:", *(f"- {each}" for each in self.not_kept)),
            "",
            _NOT_RECORDS,
        ]
        indent = ("", "  ")
        return "\n".join(
            textwrap.fill(each, 90, subsequent_indent=indent[each.startswith("- ")])
            for each in paragraphs
        )


def check_output(path: object, *, overwrite: bool = False, name: str = "path") -> tuple[Path, Path]:
    """Return where rows are written, and the text beside them; or refuse."""
    rows = as_path(name, path, "it is the file that rows are written to.")
    if rows.suffix not in _ENDINGS:
        raise ParameterError(
            f"{name} must end in {' or '.join(_ENDINGS)}, got {shown(str(rows))}: name such a file."
        )
    if rows.suffix == ".parquet":
        check_parquet()
    for each in (rows, rows.with_suffix(".txt")):
        if each.is_dir() or (each.exists() and not overwrite):
            cure = "choose another name" + ("." if each.is_dir() else ", or --overwrite.")
            raise ParameterError(f"{name} must be a new file, got {each}, which exists: {cure}")
    return rows, rows.with_suffix(".txt")


def _features(numbers: list[_Number], z: FloatArray) -> FloatArray:
    """Return standardised features of columns of numbers."""
    if not numbers:
        return np.zeros((len(z), 0))
    return np.stack([x.standardised(z[:, k]) for k, x in enumerate(numbers)], axis=1)


def synthesize(
    release: Release, n: int, *, random_state: object = None, codebook: Codebook | None = None
) -> SyntheticRows:
    """Draw synthetic rows from a release; `Answers.synthesize` has the parameters.

    The draws need not be secret.
    """
    n_rows = check_integer("n", n, at_least=1, at_most=MOST_ROWS, cure=_CURE)
    if random_state is None or isinstance(random_state, np.random.Generator):
        seed = int(np.random.default_rng(random_state).integers(2**62))
    else:
        cure = "any number, None or a Generator will do, and the release is as private."
        seed = check_integer("random_state", random_state, at_least=0, cure=cure)
    if release.n_features > MOST_FEATURES:
        raise CapacityError(
            f"rows are drawn of at most {MOST_FEATURES:,} features, got {release.n_features:,}: "
            "release fewer columns (--columns), or write the matrix for other programs "
            "('hushcov export')."
        )
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        model = _Model(release, view(release), codebook)
        drawn = model.columns()
        numbers = [each for each in drawn if isinstance(each, _Number)]
        categories = [each for each in drawn if isinstance(each, _Category)]
        target = model.correlations([*numbers, *categories])
        fitted, root = _fitted(numbers, categories, target)
    return SyntheticRows(
        release=release,
        n_rows=n_rows,
        seed=seed,
        columns=tuple(each.name for each in drawn),
        kept=tuple(model.kept(numbers, categories)),
        not_kept=tuple(model.not_kept(numbers, categories)),
        _numbers=numbers,
        _categories=fitted,
        _root=root,
    )


# ---- the law of each column ----


@dataclass(eq=False)
class _Model:
    """Columns of a table, by all that its release says of them."""

    release: Release
    seen: View
    codebook: Codebook | None
    lost: list[str] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        release, d = self.release, self.release.n_features
        making = release.making
        self.maps = [own or _NO_MAP for own in making.transforms or (None,) * d]
        self.bought = [own or _NO_MAP for own in making.marginals or (None,) * d]
        self.names = [
            name.removeprefix(f"{own.name}(").removesuffix(")") if own.name else name
            for own, name in zip(self.maps, feature_names(release).tolist(), strict=True)
        ]
        location = release.location
        self.mean = np.zeros(d) if location is None else np.array(location, dtype=np.float64)
        self.variance = np.where(self.seen.lost, 0.0, self.seen.unit**2)
        self.ranked: dict[int, Knots] = {}
        for place, own in enumerate(self.maps):
            if own.name == RANK and own.edges:
                self.ranked[place] = law = _between_edges(
                    self.bought[place] if self.bought[place].edges else own
                )
                values = np.interp(_Z, *law)  # before they were scored, as bounds are
                self.mean[place] = _NORMAL @ values
                self.variance[place] = _NORMAL @ (values - self.mean[place]) ** 2
        self.constant = set(constant_features(release))
        self.genotypes = release.mechanism == "genotypes"
        known = {} if self.codebook is None else self.codebook.kinds
        self.kinds = [own or Kind("") for own in making.kinds or (None,) * d]
        for place, name in enumerate(self.names):
            if described := meant(name, known):
                self.kinds[place] = Kind(*known[described])

    def columns(self) -> tuple[_Number | _Category, ...]:
        """Return the columns of the table, in their order, without those that were not found."""
        found: dict[int, _Number | _Category] = {}
        bounds = self.release.making.bounds or ((None, None),) * self.release.n_features
        for name, places in self.release.categories.items():
            plain = all(self.maps[i] is _NO_MAP for i in places)
            # A column that is named like smoker=yes may be the one level of a category.
            level = self.kinds[places[0]].name == CATEGORY or bounds[places[0]] == (0.0, 1.0)
            several = len(places) > 1 or level
            category = self._category(name, places) if plain and several else None
            found |= {} if category is None else dict.fromkeys(places.tolist(), category)
        missing = set(not_found(self.release))
        for place, own in enumerate(self.maps):
            if place in found or own.name == SQUARE:
                continue
            column = None if place in missing else self._number(place)
            if column is None:
                self.lost.append(self.names[place])
            else:
                found[place] = column
        drawn = tuple(dict.fromkeys(each for _, each in sorted(found.items())))
        names = [each.name for each in drawn]
        if not drawn:
            raise ParameterError(
                "release must have found a column, and nothing was found in this one: all of it is "
                "noise, and no rows can be drawn. See its verdict."
            )
        if len(set(names)) < len(names):
            raise ParameterError(
                "release must have columns whose names differ, got "
                f"{some_of(repeated(names), MOST_NAMED)} twice: rename columns before a fit."
            )
        return drawn

    def _category(self, name: str, places: IntArray) -> _Category | None:
        """Return a category by its levels; None where these cannot be shares."""
        mean, bounds = self.mean[places], self.release.making.bounds
        ends = [(0.0, 1.0)] * len(places) if bounds is None else [bounds[i] for i in places]
        fits = all(pair in ((0.0, 1.0), (None, None)) for pair in ends)
        if self.release.location is None or not fits or not (np.abs(mean - 0.5) < 0.6).all():
            return None
        order = np.argsort(-mean, kind="stable")
        order = order[mean[order] > 0]
        self.rare += [self.names[i] for i in places if i not in places[order]]
        share, levels = mean[order], [self.names[i].partition("=")[2] for i in places[order]]
        rest = 1 - float(share.sum())
        if len(places) == 1:  # all other records have the opposite, as no is that of yes
            word = self.names[places[0]].partition("=")[2]
            as_this = str.upper if word.isupper() else str.capitalize if word.istitle() else str
            other = _OPPOSITES.get(word.casefold())
            opposite = OTHER if other is None else as_this(other)
            share, levels = np.append(share, max(rest, 0.0)), [*levels, opposite]
        elif not levels or (rest > _LEAST_OTHER and not adds_up(self.release, places[order])):
            share, levels = np.append(share, max(rest, 0.0)), [*levels, OTHER]
        return _Category(name, places[order], tuple(levels), share / share.sum())

    def _number(self, place: int) -> _Number | None:
        """Return a column of numbers; None where its variation is not known."""
        own, name = self.maps[place], self.names[place]
        kind, low_high = self.kinds[place].name, self.kinds[place].values
        low, high = self._ends(place)
        found = self._law(place, low, high, binary=kind == BINARY)
        if found is None:
            return None
        law, shape = found
        ranked = shape == "released" and place in self.ranked
        scored = _steps(np.cumsum(own.shares)[:-1], own.scores) if ranked else law
        several = shape == "known" and len(law[0]) > 1
        whole = kind == "integer" or (several and np.array_equal(law[1], np.rint(law[1])))
        inverse = _INVERSES.get(own.name, np.asarray)
        ends = np.array([low, high])
        ends = np.where(np.isfinite(ends), inverse(ends), ends).tolist()
        at, words = np.array([place]), None
        if kind == BINARY and len(low_high) == 2 and own is _NO_MAP and np.isfinite(ends).all():
            one, other = low_high
            if _OPPOSITES.get(one.casefold()) == other.casefold() and not one.isdigit():
                words = (other, one) if one.casefold() in _NO_OF else (one, other)
        return _Number(name, at, law, scored, shape, inverse, (ends[0], ends[1]), whole, words)

    def _ends(self, place: int) -> tuple[float, float]:
        """Return the least and the largest value of a column, by public bounds or released caps."""
        own, bounds = self.maps[place], self.release.making.bounds
        low, high = (None, None) if bounds is None else bounds[place]
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        if self.codebook is not None and own is _NO_MAP:
            said = self.codebook.bounds
            least, most = said.get(meant(self.names[place], said) or "", (None, None))
            least, most = (
                max(low, low if least is None else least),
                min(high, high if most is None else most),
            )
            low, high = (least, most) if least <= most else (low, high)
        if own.name == WINSORISE and own.edges:
            low, high = max(low, own.edges[0]), min(high, own.edges[1])
        if own.name == LOG:
            low = max(low, float(np.log(own.number or 1.0)))
        return (0.0, 2.0) if self.genotypes else (float(low), float(high))

    def _law(
        self, place: int, low: float, high: float, *, binary: bool
    ) -> tuple[Knots, str] | None:
        """Return the law of a column, and its shape; None where its variation is not known."""
        mean, variance = float(np.clip(self.mean[place], low, high)), float(self.variance[place])
        if self.genotypes:
            below = np.array([(1 - mean / 2) ** 2, 1 - (mean / 2) ** 2])
            return _steps(below, np.arange(3.0)), "known"
        if low == high or (place in self.constant and (low, high) != (0.0, 1.0)):
            return (np.zeros(1), np.array([mean])), "known"
        most, noise = (high - mean) * (mean - low), 0.0
        if self.release.noise_sd is not None and place not in self.ranked:
            noise = self.release.noise_sd[1] * float(self.seen.scale[place]) ** 2
        both = 0 < most <= (variance + 2 * noise) / _AT_BOUNDS
        if np.isfinite(most) and (both or binary):
            share = np.array([(high - mean) / (high - low)])
            return _steps(share, np.array([low, high])), "known"
        law, bought = self.ranked.get(place), self.bought[place]
        if law is None and bought.edges:
            law = _between_edges(bought, mean, variance)
        if law is not None:
            return (law[0], np.clip(law[1], low, high)), "released"
        if not 0 < variance < np.inf or not np.isfinite(mean):
            return None
        if min(mean - low, high - mean) <= _BEYOND_BOUNDS * np.sqrt(variance):
            law, shape = (_Z[::10], _bounded(mean, variance, low, high)), "bounds"
        else:
            z = np.array([-_FAR, _FAR])
            law, shape = (z, mean + np.sqrt(variance) * z), "normal"
        return law, shape

    def correlations(self, drawn: list[_Number | _Category]) -> FloatArray:
        """Return released correlations of columns; at most 1 in size."""
        places, seen = np.concatenate([each.places for each in drawn]), self.seen
        matrix = seen.matrix[places][:, places]
        matrix = matrix.toarray() if is_sparse(matrix) else np.array(matrix)
        unit = np.where(seen.lost[places], np.inf, seen.unit[places])
        found = np.clip(np.nan_to_num(matrix / np.multiply.outer(unit, unit)), -1.0, 1.0)
        np.fill_diagonal(found, 1.0)
        return np.asarray(found)

    # ---- in words ----

    def kept(self, numbers: list[_Number], categories: list[_Category]) -> Iterator[str]:
        """Say what the rows have of the release."""
        mapped = any(own.name not in ("", SQUARE) for own in self.maps)
        of = ", of columns under their transforms (log, rank, ...)" if mapped else ""
        yield f"the released correlations{of}, moved as little as makes them those of a table"
        if any(each.shape in _ASSUMED for each in numbers):
            zero = "; means of zero, as none were released" * (self.release.location is None)
            yield f"released means and standard deviations{zero}"
        bought = [each.name for each in numbers if each.shape == "released"]
        yield from _about("released quantiles of {}", bought)
        bounded = [each.name for each in numbers if np.isfinite(each.ends).any()]
        yield from _about("public bounds, or released caps, of {}", bounded)
        each_row = "shares of the levels of {}: each row has exactly one level"
        yield from _about(each_row, [each.name for each in categories])
        if self.genotypes:
            yield "allele frequencies, in Hardy-Weinberg proportions: 0, 1 or 2 alleles"

    def not_kept(self, numbers: list[_Number], categories: list[_Category]) -> Iterator[str]:
        """Say what the rows lack."""
        yield from _about(
            "shapes of columns: only mean and scale are known, and values are drawn from a normal "
            "law, or one within the bounds (beta, gamma), for {}. A line 'marginals = 0.05' in "
            "the settings of 'hushcov fit' buys quantiles",
            [each.name for each in numbers if each.shape in _ASSUMED],
        )
        yield "tails: values beyond the last released quantile, and values that were cut down"
        yield "interactions, curves and anything else that pairs of columns do not show"
        yield "nulls: every row is complete, and records that miss a value were left out"
        yield from _about("columns that were not found, which are left out: {}", self.lost)
        yield from _about("levels that were not found, which no row has: {}", self.rare)
        others = [each.name for each in categories if OTHER in each.levels]
        yield from _about(f"levels that are in no list: they are {OTHER} in {{}}", others)
        if any(own.name == SQUARE for own in self.maps):
            yield "squares of columns, which are left out: compute them from the columns"
        if self.release.selected is not None:
            yield "pairs that were not released, which count as zero"
        promise = self.release.guarantee
        if promise.unit != RECORD and promise.rows_per_unit > 1:
            yield f"which rows belong to one {promise.unit}: rows are independent"
        elif promise.unit != RECORD:
            yield f"single records: a row is like the mean of the records of one {promise.unit}"
        elif promise.rows_per_unit > 1:
            yield "survey weights: all rows count alike"


def _about(words: str, names: list[str]) -> list[str]:
    """Return a sentence about these columns, if there are any."""
    return [words.format(some_of(names, MOST_NAMED))] if names else []


_INVERSES: dict[str, Callable[[FloatArray], FloatArray]] = {
    LOG: lambda x: np.exp(np.minimum(x, 700.0)),
    LOG1P: lambda x: np.sign(x) * np.expm1(np.minimum(np.abs(x), 700.0)),
    SQRT: lambda x: np.sign(x) * x**2,
}


def _steps(below: FloatArray, values: FloatArray) -> Knots:
    """Return the law that takes each value up to a share of the records, and the next beyond."""
    z = np.clip(special.ndtri(np.clip(below, 0.0, 1.0)), -_FAR, _FAR)
    return np.repeat(z, 2), np.repeat(values, 2)[1:-1]


def _between_edges(own: Transform, mean: float = 0.0, variance: float = 0.0) -> Knots:
    """Return the law of released quantiles: records of a bin lie just below its upper edge.

    Bins without records were joined to the next: one is no wider than the bins of the release are
    (`fit/quantiles.py`), about a sixteenth of the scale, or a quarter octave far out. Noise
    leaves some records far away: those furthest from the mean are cut off until the variance is
    about the released one; where none is known, a hundredth that is furthest from the median.
    """
    edges, shares = np.array(own.edges), np.array(own.shares) / sum(own.shares)
    upper = np.append(edges, edges[-1])
    middle = mean if variance > 0 else upper[np.searchsorted(np.cumsum(shares), 0.5)]
    order = np.argsort(np.abs(upper - middle), kind="stable")
    deviation = np.sqrt(variance)
    near = np.maximum(np.abs(upper[order] - middle) - deviation / _BINS_OF_SD, 0.0)
    held, square = shares[order], near**2
    most = _ROOM * variance if variance > 0 else np.inf
    reached = np.cumsum(held * square) / np.maximum(np.cumsum(held), 1e-300)
    inside = (reached <= most) | (near <= _NEAR * deviation)
    inside = inside if variance > 0 else np.cumsum(held) <= 1 - _CUT
    last = int(np.count_nonzero(inside))
    if last < len(held) and most < square[last] < (_FARTHEST * deviation) ** 2:  # a part is kept
        part = most * held[:last].sum() - held[:last] @ square[:last]
        held[last] = min(held[last], max(part / (square[last] - most), 0.0))
        last += 1
    held[last + (variance == 0) :] = 0.0
    shares[order] = held / held.sum()
    centre = shares @ upper
    far = np.abs(upper - centre)
    scale = max(float(np.sqrt(shares @ far**2)), float(np.abs(upper).max()) * 1e-9)
    width = np.where(far > 6 * scale, 0.19 * far, scale / 16)
    lower = upper - np.append(width[0], np.minimum(np.diff(upper), width[1:]))
    lower[-1], upper[-1] = edges[-1], edges[-1] + width[-1]
    z = np.clip(special.ndtri(np.clip(np.cumsum(shares)[:-1], 0.0, 1.0)), -_FAR, _FAR)
    knots = np.concatenate([[-_FAR], np.repeat(z, 2), [_FAR]])
    return knots, np.stack([lower, upper], axis=1).ravel()


def _bounded(mean: float, variance: float, low: float, high: float) -> FloatArray:
    """Return quantiles at `_Z[::10]` of a law within bounds: beta, or gamma with one of them."""
    share = special.ndtr(_Z[::10])
    if np.isfinite(low) and np.isfinite(high):
        middle = float(np.clip((mean - low) / (high - low), 1e-3, 1 - 1e-3))
        size = max(middle * (1 - middle) * (high - low) ** 2 / variance - 1, 1e-2)
        found = special.betaincinv(middle * size, (1 - middle) * size, share)
        return np.asarray(low + (high - low) * found)
    if np.isfinite(high):
        return np.asarray(-_bounded(-mean, variance, -high, np.inf)[::-1])
    above = max(mean - low, 1e-3 * np.sqrt(variance))
    shape = above**2 / variance
    found = special.gammaincinv(shape, share)
    far = ~np.isfinite(found)
    found[far] = found[~far].max(initial=0.0)
    return np.asarray(low + found * variance / above)


# ---- how normal numbers are correlated ----


def _solved(root: Any, right: FloatArray, **options: Any) -> FloatArray:
    """Return the solution of a triangular system, which SciPy 1.13 refuses if there is no row."""
    if not len(root):
        return right
    return np.asarray(linalg.solve_triangular(root, right, lower=True, **options))


def _fitted(
    numbers: list[_Number], categories: list[_Category], target: FloatArray
) -> tuple[list[_Category], FloatArray]:
    """Return categories with their weights, and a root of the correlations of normal numbers.

    Weights are found for rows that are drawn on trial, always by the same numbers.
    """
    root = _root(_latent(numbers, target))
    made: list[_Category] = []
    if not categories:
        return made, root
    n = max(_LEAST_TRIED, min(_TRIED, _TRIED_NUMBERS // len(target)))
    rng = np.random.default_rng(0)
    z = rng.standard_normal((n // 2, root.shape[1])) @ root.T
    features = _features(numbers, np.concatenate([z, -z]))
    used, start = list(range(len(numbers))), len(numbers)
    for each in categories:
        made.append(each.fitted(features, target[start : start + len(each.places)][:, used]))
        used += range(start, start + len(each.levels) - 1)  # the last level follows from others
        start += len(each.places)
        features = made[-1].drawn(features, rng.permutation((np.arange(n) + 0.5) / n))[1]
    return made, root


def _latent(numbers: list[_Number], target: FloatArray) -> FloatArray:
    """Return correlations of normal numbers whose columns have these, by their Hermite series."""
    found = np.eye(len(numbers))
    if all(each.shape == "normal" for each in numbers):
        return target[: len(found), : len(found)]
    series = np.stack([(_NORMAL * each.standardised(_Z)) @ _HERMITE for each in numbers])[:, 1:]
    powers = _LATENT ** np.arange(1, _DEGREE + 1)[:, None]
    for i in range(len(found) - 1):
        reached = np.maximum.accumulate((series[i] * series[i + 1 :]) @ powers, axis=1)
        wanted = np.clip(target[i, i + 1 : len(found)], reached[:, 0], reached[:, -1])
        above = np.clip((reached < wanted[:, None]).sum(axis=1), 1, len(_LATENT) - 1)
        own = np.arange(len(above))
        low, high = reached[own, above - 1], reached[own, above]
        part = (wanted - low) / np.where(high > low, high - low, np.inf)
        between = _LATENT[above - 1] + part * (_LATENT[above] - _LATENT[above - 1])
        found[i, i + 1 :] = np.where(np.ptp(reached, axis=1) > 1e-9, between, 0.0)
    return found + np.triu(found, 1).T


def _root(matrix: FloatArray) -> FloatArray:
    """Return a root of the matrix without its negative eigenvalues, with a diagonal of ones."""
    matrix = (matrix + matrix.T) / 2
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.maximum(np.linalg.norm(root, axis=1, keepdims=True), 1e-12))
