"""A release: the one document that everything after it is computed from.

It holds integers, their unit, the guarantee they carry, and how they came about. Estimator
attributes, `hushcov show`, the report and the pictures read nothing else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._words import NULL_CURES, number
from hushcov._words import counted as number_of
from hushcov.kernel.accounting import RECORD, Budget, Event, Guarantee
from hushcov.postprocess import Matrix, is_sparse, multiply_outer, symmetric_sparse

if TYPE_CHECKING:
    from hushcov.kernel.session import Session
    from hushcov.kernel.transforms import Transform
    from hushcov.release.looks import FurtherLook, TargetStep
    from hushcov.release.signature import PublicKey, SigningKey


@dataclass(frozen=True)
class Part:
    """One private step of a release: what it released, in words, and what it is charged with."""

    name: str
    events: tuple[Event, ...]


#: What the part is called that releases `Tails`.
FOURTH_POWERS = "fourth powers of the features"
#: What a part is called where nobody named it.
UNNAMED = "a part released before"
#: What the part is called that released means.
MEANS = "means of the features, refined"
#: Deviations of the noise within which a count of complete records is taken for that of all.
ALL_WITHIN = 2
_MOST_COMPLETE = 0.9  # share of complete records below which people are warned


def named_parts(events: Sequence[Event], names: Sequence[str]) -> tuple[Part, ...]:
    """Return one part for each event, the last ones by these names."""
    earlier = [UNNAMED] * (len(events) - len(names))
    listed = zip([*earlier, *names], events, strict=True)
    return tuple(Part(name, (event,)) for name, event in listed)


def parts_of(spent: Budget | Session) -> tuple[Part, ...]:
    """Return the parts of a release as they were spent."""
    return tuple(Part(name, events) for name, events in spent.parts)


#: What is said of a released number of rows.
COUNTED = ("released", "noise_sd", "unit", "max_rows_per_unit", "relation")
#: Mechanisms that release every pair of a public set.
OF_CANDIDATES = ("candidates", "genotypes")
#: What a matrix can be found to be.
KINDS = ("sparse", "factors", "dense")


@dataclass(frozen=True)
class Structure:
    """Structure that an adaptive release found, from released numbers alone.

    Parameters
    ----------
    kind : {"sparse", "factors", "dense"}
        Few pairs; few factors and few pairs beside them; or neither.
    rank : int
        The number of factors.
    why : str
        The reason, in a sentence.
    error, least, most : float
        The estimated error over the norm of the covariance, and an interval for it.
    kept : float
        What the estimate was multiplied by so that it is hardly ever worse than zeros; 1 where
        noise is far below it.
    noise : float
        The part of the error that noise, sampling and what they hide make.
    """

    kind: str
    rank: int
    why: str
    error: float
    least: float
    most: float
    kept: float = 1.0
    noise: float = 0.0


@dataclass(frozen=True)
class Tails:
    """Released tails of the features, in units of their scales.

    `fourth` has the mean fourth power of each feature about its centre, large values cut down, and
    `noise_sd` the deviation of its noise. `lost` is about which share of the squared norms the
    bound that was chosen for them takes off, with `lost_sd`. `stretch` has the factors by
    which mean squares moved the scales of the features, the first of two by its root; None where
    they are all 1.
    """

    fourth: tuple[float, ...]
    noise_sd: float
    lost: float
    lost_sd: float
    stretch: tuple[float, ...] | None = None


#: What columns can be in a codebook.
COLUMN_KINDS = ("number", "integer", "binary", "category")


@dataclass(frozen=True)
class Kind:
    """Kind of a column by a codebook, with the words for the two values of a binary one."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Making:
    """Provenance of a release: public inputs, decisions made from them, released numbers.

    Parameters
    ----------
    n_records : int, optional
        Records that were averaged, incomplete ones among them; the released number where how many
        there are is not public.
    complete : mapping, optional
        The released number of complete records, where some may miss a value.
    counted : mapping, optional
        The released number of rows, where how many there are is not public, with the deviation of
        its noise; and of which units at most how many rows are summed, by which relation. Keys:
        released, noise_sd, unit, max_rows_per_unit, relation.
    scales : {"given", "released"}, optional
        Where the scales of the features come from; None without any.
    threshold : float
        What the value of a pair must exceed to be kept, in units of its features' scales.
    projected : bool
        Whether the estimate was made positive semidefinite.
    indicators : tuple of int
        Features that hold 0 and 1 alone, by public knowledge: their means and second moments were
        made to agree.
    means_sd : tuple of float, optional
        Standard deviation of the noise of each released mean, in the unit of the data; None where
        none were released.
    unresolved : tuple of int
        Features whose centre or scale could not be told from noise. Their entries are zero, and
        nothing is known of them.
    shrunk : float, optional
        About which share of the records was longer than the bound on their norm, where that was
        released.
    structure : Structure, optional
        What the matrix was found to be, where that was looked for.
    bounds : tuple of pairs, optional
        Public bounds of every feature, low and high, None where there is none; None where nobody
        gave any.
    transforms : tuple of Transform, optional
        The transform of every feature, with its released edges, None for those as they are; None
        where nobody asked for any.
    marginals : tuple of Transform, optional
        Released quantiles of every feature, as those of a rank, None where it was not found; None
        where nobody asked for any.
    kinds : tuple of Kind, optional
        Kind of each feature by the codebook, None where it says nothing; None without a codebook.
    tails : Tails, optional
        How far records and features reach, where that was released: intervals follow it.
    look : FurtherLook, optional
        The covariance measured again in another basis, where that was done: for regressions.
    step : TargetStep, optional
        The residual of a target that was declared, where one was.
    parts : tuple of Part
        The private steps in the order in which they were charged.
    made : str, optional
        When the fit began, like 2026-01-31T12:00:00+00:00: before it read any record, and with a
        ledger the time of its first charge. When it ended would say how long it took, which depends
        on the records. It does not count for equality.
    dataset : str, optional
        What the table is called: its name in a ledger, or that of its file. Like `made` it does not
        count for equality.
    """

    n_records: int | None = None
    complete: Mapping[str, int] | None = None
    counted: Mapping[str, Any] | None = None
    scales: Literal["given", "released"] | None = None
    threshold: float = 0.0
    projected: bool = False
    indicators: tuple[int, ...] = ()
    means_sd: tuple[float, ...] | None = None
    unresolved: tuple[int, ...] = ()
    shrunk: float | None = None
    structure: Structure | None = None
    bounds: tuple[tuple[float | None, float | None], ...] | None = None
    transforms: tuple[Transform | None, ...] | None = None
    marginals: tuple[Transform | None, ...] | None = None
    kinds: tuple[Kind | None, ...] | None = None
    tails: Tails | None = None
    look: FurtherLook | None = None
    step: TargetStep | None = None
    parts: tuple[Part, ...] = ()
    made: str | None = field(default=None, compare=False)
    dataset: str | None = field(default=None, compare=False)

    @property
    def n_complete(self) -> int | None:
        """Number of complete records; the released one where some miss a value."""
        return self.n_records if self.complete is None else self.complete["released"]

    @property
    def words(self) -> str | None:
        """Number of records in words; None where nobody said."""
        about = "about " if self.counted is not None else ""
        return None if self.n_records is None else f"{about}{self.n_records:,}"

    @property
    def counted_words(self) -> str | None:
        """Sentence on the released number of rows; None where it is public."""
        if self.counted is None:
            return None
        released, noise_sd, unit, most, _ = (self.counted[name] for name in COUNTED)
        bound = f"each counts {number_of(most, 'time')} at most" if most > 1 else "each counts once"
        if unit != RECORD:
            bound = f"each {unit} counts with {number_of(most, 'record')} at most"
        return (
            f"about {number_of(released, 'record')}, released with noise of standard deviation "
            f"{number(noise_sd, 2)}, because how many there are is not public; {bound}"
        )

    @property
    def few_complete(self) -> bool:
        """Whether so many records miss a value, by the released number, that people should know."""
        if self.complete is None:
            return False
        found, of = self.complete["released"], self.complete["of"]
        surely = 2 * ALL_WITHIN * math.hypot(self.complete["noise_sd"], self._noise_of_number)
        return of - found > max((1 - _MOST_COMPLETE) * of, surely)

    @property
    def _noise_of_number(self) -> float:
        """Deviation of the noise of the number of records; 0 where it is public."""
        return 0.0 if self.counted is None else float(self.counted["noise_sd"])

    @property
    def complete_words(self) -> str | None:
        """The released number of complete records, in words; None where none may be incomplete."""
        found = self.complete
        return None if found is None else complete_words(found, self._noise_of_number)


def complete_words(found: Mapping[str, int], doubt: float = 0.0) -> str:
    """Say how many records are complete, by the released number; `doubt` is the noise of all."""
    if not found["noise_sd"]:
        return (
            "too few records to count those that miss a value: such a record counts as zeros, "
            "which makes variances too small"
        )
    words = (
        f"about {found['released']:,} of {found['of']:,} records are complete, released with "
        f"noise of standard deviation {found['noise_sd']:,}"
    )
    if found["of"] - found["released"] <= ALL_WITHIN * math.hypot(found["noise_sd"], doubt):
        return words
    return (
        f"{words}. To use more of them, check how values are written (a codebook reads 1,234.56 "
        f"and other words for yes), {NULL_CURES}"
    )


@dataclass(frozen=True, eq=False)
class Release:
    """A released symmetric matrix: `integers * unit`, times the scales of its two features.

    Integers leave no floating-point fingerprint of the data, and everything computed from
    a release is covered by its guarantee. `noise_sd` is the standard deviation of the noise of
    off-diagonal and of diagonal entries, in the unit of the data over the features' scales.
    `selected` has the rows and columns of the pairs that were released, None for all of them.
    `warnings` has what people were told before it was made, from public inputs alone.
    `column_names` are those of the features, `making` says how the release came about. `location`
    is the released mean of each feature, None where none was released. `positions` and
    `chromosomes` say where features lie, where that is public: a whole number each, such as a place
    in a genome or a time, and the name of what it is counted along.
    With `selected`, `integers` may be a sparse array (`scipy.sparse.csr_array`) whose stored
    entries are the selected pairs and the diagonal; the other matrices are sparse then, too.
    """

    mechanism: str
    integers: Matrix
    unit: float
    guarantee: Guarantee
    parameters: Mapping[str, object]
    feature_scale: FloatArray | None = None
    location: FloatArray | None = None
    noise_sd: tuple[float, float] | None = None
    selected: IntArray | None = None
    warnings: tuple[str, ...] = ()
    column_names: tuple[str, ...] | None = None
    making: Making = Making()
    positions: IntArray | None = None
    chromosomes: tuple[str, ...] | None = None

    @property
    def n_sampled(self) -> int | None:
        """Number of complete records that are surely independent; None where nobody said."""
        n = self.making.n_complete
        return None if n is None else max(1, n // self.guarantee.rows_per_unit)

    @property
    def name(self) -> str:
        """The mechanism as `plan` and `fit` name it, which tell thresholded values from others."""
        chosen = self.making.structure is None  # where it was not found by the mechanism itself
        after = chosen and self.selected is None and self.making.threshold > 0
        return self.mechanism + "-threshold" * after

    @property
    def n_features(self) -> int:
        """Number of rows and columns."""
        return int(self.integers.shape[0])

    @property
    def labels(self) -> Sequence[str]:
        """Names of the features; their numbers, counted from 0, where they have none."""
        return self.column_names or tuple(map(str, range(self.n_features)))

    @property
    def variances(self) -> FloatArray:
        """Released variances, in units of the squared scales."""
        with np.errstate(over="ignore"):  # a release on disk may hold any finite numbers
            return np.asarray(self.integers.diagonal() * self.unit, dtype=np.float64)

    @property
    def of_candidates(self) -> bool:
        """Whether every pair of a public set was released: values say nothing of which."""
        return self.selected is not None and self.mechanism in OF_CANDIDATES

    @property
    def n_candidates(self) -> int | None:
        """Number of pairs that alone may covary, by public knowledge; None where nobody said.

        Of those that were all released, where a width was found, the ones within it.
        """
        if self.selected is not None and self.of_candidates:
            return int(self.selected.shape[1])
        match self.parameters.get("inputs"):
            case {"candidate_pairs": int(number)} if number >= 0:
                return number
            case {"bandwidth": int(width)} if width >= 0:
                width = min(width, self.n_features - 1)
                return self.n_features * width - width * (width + 1) // 2
        return None

    @property
    def has_candidates(self) -> bool:
        """Whether it is public which pairs may covary: all others count as zero."""
        return self.n_candidates is not None

    @property
    def in_order(self) -> bool:
        """Whether the order of the features means something: they have positions or a bandwidth."""
        return self.inputs.get("bandwidth") is not None or self.positions is not None

    @cached_property
    def categories(self) -> dict[str, IntArray]:
        """Places of columns that are named like region=north, by the name before the sign.

        A column such as =A1, which has no name before it, is not a level.
        """
        found: dict[str, list[int]] = {}
        maps = self.making.transforms or (None,) * self.n_features
        for place, name in enumerate(self.column_names or ()):
            category, sign, _ = name.partition("=")
            own = maps[place]
            plain = category if own is None else category.removeprefix(f"{own.name}(")
            if sign and any(map(str.isalnum, plain)):
                found.setdefault(category, []).append(place)
        return {name: np.array(places, dtype=np.int64) for name, places in found.items()}

    def exclude_each_other(self, rows: IntArray, columns: IntArray) -> BoolArray:
        """Return which pairs are levels of one category: their covariance is no finding."""
        return np.asarray(self._category_codes[rows] == self._category_codes[columns])

    def is_indicator(self, feature: int) -> bool:
        """Return whether a column is a level of a category, or has the public bounds 0 and 1."""
        bounds = self.making.bounds
        level = any(feature in places for places in self.categories.values())
        return level or (bounds is not None and bounds[feature] == (0.0, 1.0))

    @cached_property
    def share_groups(self) -> list[IntArray]:
        """Places of 0/1 columns that were found: all levels of a category, or one column."""
        found = set(self.making.indicators) - set(self.making.unresolved)
        if self.feature_scale is not None:
            found = {place for place in found if self.feature_scale[place] > 0}
        groups = []
        for places in self.categories.values():
            if found.issuperset(places.tolist()):
                groups.append(places)
                found -= set(places.tolist())
        return groups + [np.array([place]) for place in sorted(found)]

    @property
    def shared_places(self) -> IntArray:
        """Places of 0/1 columns whose variances are those of their shares."""
        known = None not in (self.making.means_sd, self.noise_sd) and self.location is not None
        return np.concatenate([*(self.share_groups if known else ()), np.empty(0, dtype=np.int64)])

    @cached_property
    def _category_codes(self) -> IntArray:
        """A number for each feature, which levels of one category have in common."""
        codes = np.arange(self.n_features)
        for places in self.categories.values():
            codes[places] = places[0]
        return codes

    @cached_property
    def bandwidth(self) -> int | None:
        """Largest distance of released pairs, in columns; None where all were released."""
        if self.selected is None:
            return None
        return int(np.abs(self.selected[0] - self.selected[1]).max(initial=0))

    @property
    def inputs(self) -> Mapping[str, object]:
        """The public inputs that the release names, of any kind."""
        found = self.parameters.get("inputs")
        return found if isinstance(found, Mapping) else {}

    def parameter(self, *names: str) -> float | None:
        """Return a positive number among the parameters, by the names that lead to it, or None.

        Parameters are what a mechanism wrote, of any kind, and a folder may come from others.
        """
        found: object = self.parameters
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        if not isinstance(found, int | float) or isinstance(found, bool):
            return None
        return float(found) if 0 < found <= sys.float_info.max else None

    def covariance(self) -> Matrix:
        """Return the released matrix in the unit of the data."""
        matrix = self.integers.astype(np.float64)
        matrix *= self.unit
        if self.feature_scale is not None:
            multiply_outer(matrix, self.feature_scale)
        return matrix

    @property
    def released(self) -> Matrix:
        """Entries that the release holds: selected pairs and the diagonal."""
        d = self.n_features
        if self.selected is None:
            return np.ones((d, d), dtype=bool)
        if is_sparse(self.integers):
            ones = np.ones(self.selected.shape[1], dtype=bool)
            return symmetric_sparse(tuple(self.selected), ones, np.ones(d, dtype=bool))
        mask = np.eye(d, dtype=bool)
        rows, columns = self.selected
        mask[rows, columns] = mask[columns, rows] = True
        return mask

    def write(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        attach: Callable[[Path], object] | None = None,
        sign: SigningKey | str | Path | None = None,
    ) -> Path:
        """Write the release into a new or empty `folder`, and return the folder.

        Whenever the program ends, the folder holds all of the release or nothing of it. A release
        that is there already is replaced only with `overwrite`, in one step. `attach` may write
        further files into the folder it is called with, which become part of the release. It is
        called when the release itself is on the disk, and an error in it is a warning. `sign` is a
        private Ed25519 key (`SigningKey`, or its PEM file), with which all files are signed; read
        the key before a fit, so that a wrong one does not cost a release.
        """
        from hushcov.release.files import write_release

        return write_release(self, folder, overwrite=overwrite, attach=attach, sign=sign)

    @classmethod
    def read(cls, folder: str | Path, *, verify: PublicKey | str | Path | None = None) -> Release:
        """Read a release that `write` wrote; files that do not match their checksums are an error.

        Checksums show damage. They are no proof of origin: whoever changes a file can change its
        checksum. `verify` is a public Ed25519 key (`PublicKey`, or its PEM file), and then a
        release that its private half did not sign is an error, too.
        """
        from hushcov.release.files import read_release

        return read_release(folder, verify=verify).release

    def __eq__(self, other: object) -> bool:
        """Return whether both are equal, bit for bit; lists and tuples in parameters are alike."""
        if not isinstance(other, Release):
            return NotImplemented
        return all(
            _same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays can change


def _same(one: Any, other: Any) -> bool:
    if is_sparse(one) and is_sparse(other):
        places = ("indptr", "indices")  # in four bytes or eight
        same = all(np.array_equal(getattr(one, x), getattr(other, x)) for x in places)
        return same and one.shape == other.shape and _same(one.data, other.data)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if any(is_sparse(each) or isinstance(each, np.ndarray) for each in (one, other)):
        return False
    return bool(plain(one) == plain(other) if isinstance(one, Mapping) else one == other)


def plain(value: Any) -> Any:
    """Return records and mappings as dicts, and tuples as lists: as JSON keeps them."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [each if type(each) in (float, int, str) else plain(each) for each in value]
    return value
