"""Every contender can be built from the same inputs, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import ParameterError
from hushcov.lab.benchmark import contenders
from hushcov.lab.benchmark.cells import Point
from hushcov.lab.benchmark.contenders import CONTENDERS, ContenderSetting, check_contenders
from hushcov.lab.benchmark.work import measure
from hushcov.mechanisms.gaussian.room import GaussianNoise
from hushcov.planning import mechanisms

POINT = Point("block", 2_000, 5, 2, 2.0)


@pytest.fixture(scope="module")
def fits():
    """Every contender on the same small records, twice."""
    found = measure(POINT, [(0, tuple(CONTENDERS)), (1, tuple(CONTENDERS))])
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


def test_private_ones_lie_between_the_references(fits):
    assert fits["zero", 0].error == pytest.approx(1.0, rel=1e-12, abs=0)
    assert fits["thresholded", 0].error < 0.1
    assert fits["empirical", 0].error < 0.1
    for name in ("auto", "screened", "gaussian", "gaussian-threshold"):
        assert fits["empirical", 0].error < fits[name, 0].error < 0.5


def test_a_seed_makes_cells_reproducible(fits):
    names = tuple(name for name in CONTENDERS if name != "multiscale")
    for again in measure(POINT, [(1, names)]):
        assert again.error == fits[again.contender, 1].error


def test_what_each_promises():
    privacy = {name: contender.privacy for name, contender in CONTENDERS.items()}
    assert {n for n, p in privacy.items() if p == "not private"} == {
        "thresholded",
        "empirical",
        "zero",
    }
    assert {n for n, p in privacy.items() if p == "pure epsilon"} == {"eigen-sampling"}
    assert [name for name, contender in CONTENDERS.items() if contender.chooses] == ["auto"]


def test_every_mechanism_of_the_registry_is_a_contender(monkeypatch):
    assert set(mechanisms()) <= set(CONTENDERS)

    class New(GaussianNoise):
        name, title, estimator = "brand-new", "brand new", None

    monkeypatch.setattr(contenders, "mechanisms", lambda: dict(mechanisms()) | {"brand-new": New()})
    new = {each.name: each for each in contenders._contenders()}["brand-new"]
    assert new.title == "brand new"
    assert new.private
    estimator = new.build(ContenderSetting(POINT, np.ones(POINT.n_features), 0))
    assert isinstance(estimator, PrivateSparseCovariance)
    assert estimator.mechanism == new.name
    assert new.look.colour not in {each.look.colour for each in CONTENDERS.values()}


def test_limits_name_their_reason():
    limited = CONTENDERS["eigen-sampling"]
    assert limited.refusal(200) is None
    assert limited.refusal(201) == (
        "at most 200 features: its time grows with the fourth power of their number, to minutes "
        "at 1,000."
    )
    assert CONTENDERS["screened"].refusal(10**6) is None


def test_names_are_checked_and_put_in_order():
    assert check_contenders(["zero", "screened", "zero"]) == ("screened", "zero")
    with pytest.raises(ParameterError, match=r"contenders must .*'laplace'"):
        check_contenders(["screened", "laplace"])
    with pytest.raises(ParameterError, match="at least one"):
        check_contenders([])


def test_every_contender_has_a_look_of_its_own():
    assert len({contender.look.colour for contender in CONTENDERS.values()}) == len(CONTENDERS)
    private = [contender.look.marker for contender in CONTENDERS.values() if contender.private]
    assert len(set(private)) == len(private)
