"""What a cell says is what was measured."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hushcov.estimators import GaussianCovariance
from hushcov.exceptions import PrivacyConditionError, SeededNoiseWarning
from hushcov.inputs import ReleaseInputs
from hushcov.lab.benchmark.cells import DELTA, Point
from hushcov.lab.benchmark.contenders import CONTENDERS, Contender, PlotStyle
from hushcov.lab.benchmark.work import measure, measure_cost, predict
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.planning import forecast, predicted
from hushcov.simulate import gaussian_records, sparse_covariance

POINT = Point("random", 300, 6, 2, 1.0)
_MEGABYTE = 2**20 // 8  # float64 entries


class Hog:
    """Takes 80 MB for a moment while it fits."""

    def fit(self, X):
        self.seen = X
        self.covariance_ = np.eye(X.shape[1]) * np.ones(80 * _MEGABYTE)[0]
        return self


class Refuses:
    def fit(self, X):
        raise PrivacyConditionError("epsilon is too small: use more.")


class NotFinite:
    def fit(self, X):
        self.covariance_ = np.full((X.shape[1], X.shape[1]), np.inf)
        return self


@pytest.fixture
def contender(monkeypatch):
    """Put a contender into the registry, and return what it is told."""
    told = []

    def install(kind, **options):
        def build(setting):
            told.append((setting, kind()))
            return told[-1][1]

        contender = Contender("new", "new", build, PlotStyle("black", "x"), **options)
        monkeypatch.setitem(CONTENDERS, "new", contender)
        return told

    return install


def test_error_and_support_of_a_known_fit():
    truth = sparse_covariance("random", 6, 2)
    X = gaussian_records(truth, 300, random_state=3)
    estimator = GaussianCovariance(
        epsilon=1.0,
        delta=DELTA,
        row_sparsity=2,
        feature_scale=np.sqrt(np.diag(truth)),
        assume_centered=True,
        random_state=np.random.default_rng([7, 3]),
    )
    with pytest.warns(SeededNoiseWarning):
        estimate = estimator.fit(X).covariance_
    (fit,) = measure(POINT, [(3, ("gaussian",))])
    assert fit.error == pytest.approx(
        operator_norm_error(estimate, truth) / operator_norm(truth), rel=1e-12, abs=0
    )
    assert (fit.recall, fit.precision) == support_recovery(estimate, truth)
    assert (fit.point, fit.seed, fit.contender, fit.skipped) == (POINT, 3, "gaussian", None)


def test_all_contenders_see_the_same_records(contender):
    told = contender(Hog)
    list(measure(POINT, [(0, ("new", "new")), (1, ("new",))]))
    (first, one), (_, two), (last, three) = told
    assert one.seen is two.seen
    assert not np.array_equal(one.seen, three.seen)
    assert np.array_equal(one.seen, gaussian_records(sparse_covariance("random", 6, 2), 300))
    assert (first.point, first.seed, last.seed) == (POINT, 0, 1)
    truth = sparse_covariance("random", 6, 2)
    assert np.array_equal(first.feature_scale, np.sqrt(np.diag(truth)))


def test_refusals_are_cells_with_a_reason(contender):
    contender(Refuses)
    (fit,), (cost,) = measure(POINT, [(0, ("new",))]), measure_cost(POINT, "new")
    for cell in (fit, cost):
        assert cell.skipped == "epsilon is too small: use more."
        assert cell.seconds is None
    contender(Refuses, most_features=5, limit="it is slow.")
    (fit,), (cost,) = measure(POINT, [(0, ("new",))]), measure_cost(POINT, "new")
    assert fit.skipped == cost.skipped == "at most 5 features: it is slow."


def test_an_estimate_that_is_not_finite_is_a_bug(contender):
    contender(NotFinite)
    with pytest.raises(ArithmeticError, match=r"new .*not finite"):
        list(measure(POINT, [(0, ("new",))]))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read where Linux tells it")
def test_peak_memory_is_that_of_the_fit(contender):
    told = contender(Hog)
    (cost,) = measure_cost(POINT, "new")
    assert 75 < cost.megabytes < 100
    assert cost.seconds > 0
    # The small fit first, which took as much, and does not count.
    assert [estimator.seen.shape for _, estimator in told] == [(500, 20), (300, 6)]
    (cost,) = measure_cost(POINT, "zero")
    assert cost.megabytes < 5


def test_memory_is_unknown_where_nothing_tells(monkeypatch, tmp_path):
    monkeypatch.setattr("hushcov.lab.benchmark.work._PROCESS", tmp_path / "nowhere")
    (cost,) = measure_cost(POINT, "zero")
    assert cost.megabytes is None
    assert cost.skipped is None


def test_predictions_are_the_planners(monkeypatch):
    (found,) = predict([POINT])
    inputs = ReleaseInputs(300, 6, 2, 1.0, DELTA)
    assert list(found.errors) == list(predicted())
    for name, error in found.errors.items():
        expected = forecast(inputs, name, rough=name == "multiscale")
        assert error == expected.predicted_error["random"]
