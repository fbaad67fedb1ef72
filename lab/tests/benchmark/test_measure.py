"""What a cell says is what was measured, of every contender."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.estimators import GaussianCovariance
from hushcov.exceptions import ParameterError, PrivacyConditionError, SeededNoiseWarning
from hushcov.fit import mechanisms
from hushcov.fit.gaussian.plan import GaussianNoise
from hushcov.metrics import operator_norm, operator_norm_error, support_recovery
from hushcov.simulate import gaussian_records, sparse_covariance
from hushcov_lab.benchmark import contenders
from hushcov_lab.benchmark.cells import DELTA, Point
from hushcov_lab.benchmark.contenders import (
    CONTENDERS,
    Contender,
    ContenderSetting,
    PlotStyle,
    check_contenders,
)
from hushcov_lab.benchmark.work import measure, measure_cost

POINT = Point("random", 300, 6, 2, 1.0)


class Refuses:
    def fit(self, X):
        raise PrivacyConditionError("epsilon is too small: use more.")


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
    known = {"feature_scale": np.sqrt(np.diag(truth)), "assume_centered": True}
    budget = {"epsilon": 1.0, "delta": DELTA, "row_sparsity": 2}
    seed = np.random.default_rng([7, 3])
    estimator = GaussianCovariance(**budget, **known, random_state=seed)
    with pytest.warns(SeededNoiseWarning):
        estimate = estimator.fit(X).covariance_
    (fit,) = measure(POINT, [(3, ("gaussian",))])
    assert fit.error == pytest.approx(
        operator_norm_error(estimate, truth) / operator_norm(truth), rel=1e-12, abs=0
    )
    assert (fit.recall, fit.precision) == support_recovery(estimate, truth)
    assert (fit.point, fit.seed, fit.contender, fit.skipped) == (POINT, 3, "gaussian", None)


def test_refusals_are_cells_with_a_reason(contender):
    contender(Refuses)
    (fit,), (cost,) = measure(POINT, [(0, ("new",))]), measure_cost(POINT, "new")
    for cell in (fit, cost):
        assert cell.skipped == "epsilon is too small: use more."
        assert cell.seconds is None
    contender(Refuses, most_features=5, limit="it is slow.")
    (fit,), (cost,) = measure(POINT, [(0, ("new",))]), measure_cost(POINT, "new")
    assert fit.skipped == cost.skipped == "at most 5 features: it is slow."


# Contenders.


LARGER = Point("block", 2_000, 5, 2, 2.0)


@pytest.fixture(scope="module")
def fits():
    """Every contender on the same small records, twice."""
    found = measure(LARGER, [(0, tuple(CONTENDERS)), (1, tuple(CONTENDERS))])
    return {(fit.contender, fit.seed): fit for fit in found}


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_is_fitted(fits, name):
    fit = fits[name, 0]
    assert fit.skipped is None
    assert fit.seconds > 0
    assert 0 <= fit.recall <= 1
    assert 0 <= fit.precision <= 1
    assert np.isfinite(fit.error)
    # Other records and other noise.
    assert (fit.error != fits[name, 1].error) == (name != "zero")


def test_a_seed_makes_cells_reproducible(fits):
    names = tuple(name for name in CONTENDERS if name != "multiscale")
    for again in measure(LARGER, [(1, names)]):
        assert again.error == fits[again.contender, 1].error


def test_every_mechanism_of_the_registry_is_a_contender(monkeypatch):
    assert set(mechanisms()) <= set(CONTENDERS)

    class New(GaussianNoise):
        name, title, estimator = "brand-new", "brand new", None

    monkeypatch.setattr(contenders, "mechanisms", lambda: dict(mechanisms()) | {"brand-new": New()})
    new = {each.name: each for each in contenders._contenders()}["brand-new"]
    assert new.title == "brand new"
    assert new.private
    estimator = new.build(ContenderSetting(LARGER, np.ones(LARGER.n_features), 0))
    assert isinstance(estimator, PrivateSparseCovariance)
    assert estimator.mechanism == new.name
    assert new.look not in {each.look for each in CONTENDERS.values()}


def test_names_are_checked_and_put_in_order():
    assert check_contenders(["zero", "screened", "zero"]) == ("screened", "zero")
    with pytest.raises(ParameterError, match=r"contenders must .*'laplace'"):
        check_contenders(["screened", "laplace"])
    with pytest.raises(ParameterError, match="at least one"):
        check_contenders([])
