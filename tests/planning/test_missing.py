"""Features that are not found count in plans, and what nobody can find is refused."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import HopelessError
from hushcov.inputs import Found
from hushcov.planning import Request, forecast
from hushcov.planning.registry import lost_error, mechanisms
from hushcov.predicting import DENSE, FACTOR
from hushcov.simulate import sparse_covariance

MEASURED = Path(__file__).parents[2] / "docs" / "figures" / "sizes.json"
MODELS = {"random": "random", "three-factors": FACTOR, "wishart": DENSE}


def inputs_at(n, d):
    return Request(min(5, d), 1.0, 1e-6).inputs(n, d)


def test_plans_of_few_rows_are_as_good_as_what_is_measured():
    """Within 1.5 of the geometric mean over structures; the plan without a search is not."""
    cells = {}
    for cell in json.loads(MEASURED.read_text()):
        if cell["records"] < 10_000 and cell["error"] is not None:
            inputs = inputs_at(cell["records"], cell["features"])
            said = forecast(inputs, "adaptive").predicted_error
            told = mechanisms()["adaptive"].forecast(inputs).predicted_error
            model, size = MODELS[cell["structure"]], (cell["records"], cell["features"])
            cells.setdefault(size, []).append(
                (math.log(said[model] / cell["error"]), math.log(told[model] / cell["error"]))
            )
    assert len(cells) == 5
    off = {size: np.abs(np.mean(each, axis=0)) for size, each in cells.items()}
    assert all(ours < math.log(1.5) for ours, _ in off.values()), off
    assert sum(without > math.log(1.5) for _, without in off.values()) >= 3, off


def test_large_plans_stay_as_they_were():
    inputs = inputs_at(100_000, 50)
    assert inputs.found == Found()
    assert forecast(inputs, "adaptive") == mechanisms()["adaptive"].forecast(inputs)
    sizes = (800, 1_500, 2_000, 3_000, 6_000, 20_000)
    errors = [forecast(inputs_at(n, 20), "adaptive").typical_error for n in sizes]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("size", [(500, 10), (800, 20), (300, 3)])
def test_what_nobody_can_find_is_refused_before_anything_is_read(size):
    X = np.random.default_rng(0).standard_normal(size)
    with pytest.raises(HopelessError, match=r"only zeros would be released.*Nothing was read"):
        PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(X)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        PrivateSparseCovariance(epsilon=1.0, delta=1e-6, on_hopeless="warn").fit(X)
    assert sum("only zeros would be released" in str(each.message) for each in heard) == 1
    assert not any("no better than the zero matrix" in str(each.message) for each in heard)


def test_what_is_lost_is_the_norm_of_the_missing_rows():
    matrix = sparse_covariance("block", 20, 5)
    lost = matrix.copy()
    kept = np.setdiff1d(np.arange(20), [10])
    lost[np.ix_(kept, kept)] = 0
    wanted = np.linalg.norm(lost, 2) / np.linalg.norm(matrix, 2)
    assert lost_error("block", 20, 5, 0.05) == pytest.approx(wanted)
    ones = np.ones((20, 20))
    ones[:15, :15] = 0
    assert lost_error(FACTOR, 20, 5, 0.25) == pytest.approx(np.linalg.norm(ones, 2) / 20)
    for model in ("block", "diagonal", FACTOR):
        assert lost_error(model, 20, 5, 1.0) == pytest.approx(1)
        assert lost_error(model, 20, 5, 0.0) == 0
