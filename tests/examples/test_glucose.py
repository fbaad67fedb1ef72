"""Glucose along the day: what the example computes is right, and it runs."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODULES = ("glucose", "glucose_tables")


@pytest.fixture(scope="module")
def glucose():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("glucose")


@pytest.fixture(scope="module")
def rows(glucose):
    return glucose.simulate(4_000, seed=1)[1]


def test_gaps_are_filled_as_by_regression(glucose, rows):
    covariance = np.cov(rows.T)
    gap, known, weights, unknown = glucose.gap_weights(covariance, 0.0, 32)
    centred = rows - rows.mean(axis=0)
    expected, *_ = np.linalg.lstsq(centred[:, known], centred[:, gap])
    assert weights == pytest.approx(expected, abs=1e-9)
    left = centred[:, gap] - centred[:, known] @ expected
    assert unknown == pytest.approx(left.std(axis=0, ddof=1), rel=1e-9)


def test_gaps_and_alarms_are_better_than_without_a_covariance(glucose, rows):
    covariance = np.cov(rows.T)
    _, days = glucose.simulate(1_000, seed=2)
    straight = glucose.straight_errors(days)
    for when, error in glucose.gap_errors(covariance, 0.0, days).items():
        assert error < straight[when]
    assert glucose.alarms(covariance, 0.0, glucose.lain_on(days, seed=3)) > 0.8
    assert glucose.alarms(covariance, 0.0, days) < 0.03


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
def test_the_example_runs_and_a_band_is_wrong_where_people_differ(
    glucose, monkeypatch, tmp_path, capsys
):
    seeded = partial(PrivateSparseCovariance, random_state=0)
    monkeypatch.setattr(glucose, "PrivateSparseCovariance", seeded)
    glucose.main(["--records", "20000", "--figure", str(tmp_path / "figure.png")])
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    lines = capsys.readouterr().out.splitlines()
    assert "NOT PRIVATE" in lines[0]
    gaps = {line[5:29].strip(): line.split()[-3:] for line in lines if line.startswith("     ")}
    assert float(gaps["the release"][2]) < float(gaps["a straight line"][2])
    off = {line[5:29].strip(): line for line in lines if "is off by" in line}
    band, without = (
        float(off[name].partition("is off by ")[2].split()[0])
        for name in ("with the band", "without")
    )
    assert band > 30
    assert without < 15
