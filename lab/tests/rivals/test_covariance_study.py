"""The study of covariances with public bounds: cells are measured, and ratios are what they say."""

import math

import numpy as np
import pytest

from hushcov_lab.rivals import covariance_study as study


def test_cells_are_plain_and_tables_keep_their_bounds():
    found = study.cells("quick", None)
    assert len(found) == 4 * len(study.SETTINGS) < len(study.cells("full", None))
    assert {cell["table"] for cell in found} == {"chain", "factors", "blocks", "mixed"}
    for name in ("chain", "mixed"):
        X = study.bounded_table(name, None, 0)
        np.testing.assert_allclose(np.abs(X).max(axis=0), 1.0)
        np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-12)


def test_every_method_is_measured_and_drawn(monkeypatch):
    monkeypatch.setattr(study, "_RECORDS", 3_000)
    cell = {"table": "chain", "folder": None, "epsilon": 10.0, "slack": 1.0, "seed": 0}
    rows = study.measure(cell)
    errors = {row["method"]: row["frobenius"] for row in rows}
    assert len(errors) == 7
    assert all(0 < error < 0.8 for error in errors.values())
    assert errors[study.RIVAL] < 0.15
    figure = study.draw(rows)
    assert [axes.get_title() for axes in figure.axes] == ["epsilon 10"]
    assert study.table_of(rows).splitlines()[2].startswith(f"| {study.RIVAL} | 1.00")


def test_ratios_are_geometric_means_over_seeds_and_tables():
    def row(method, table, seed, error):
        known = {"epsilon": 1.0, "slack": 1.0, "seed": seed}
        return {"method": method, "table": table, "frobenius": error} | known

    rows = [row(study.RIVAL, table, seed, 1.0) for table in "ab" for seed in (0, 1)]
    rows += [row("ours", "a", 0, 0.5), row("ours", "a", 1, 2.0)]
    rows += [row("ours", "b", 0, 0.25), row("ours", "b", 1, 0.25)]
    found = study.ratios(rows)
    assert found["ours", "a", (1.0, 1.0)] == pytest.approx(1.0)
    assert found["ours", "b", (1.0, 1.0)] == pytest.approx(0.25)
    mean = math.sqrt(0.25)
    assert study.table_of(rows).splitlines()[3] == f"| ours | {mean:.2f} | {mean:.2f} | 1 of 2 |"
