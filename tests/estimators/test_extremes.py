"""Data that nobody hopes for: the smallest tables, constants, duplicates, outliers, any size."""

import numpy as np
import pytest

from estimators.settings import (
    KNOWN,
    OURS,
    RECORDS,
    SCALING,
    TRUTH,
    D,
    each_class,
    each_scaling,
    each_setting,
    fit,
    setting,
)
from estimators.stand_ins import UntouchableRecords
from hushcov import Ledger
from hushcov.exceptions import AccuracyWarning, HushcovError
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records

pytestmark = pytest.mark.usefixtures("no_search")

CENTRED = {"assume_centered": True}  # `test_centre.py` has the extremes of means that are found
MANY = gaussian_records(TRUTH, 40_000)
MANY.setflags(write=False)


def by_screening(name, **changes):
    return setting(name, **changes | ({"mechanism": "screened"} if name == "sparse" else {}))


@each_setting
@pytest.mark.parametrize("known", [{}, KNOWN])
def test_one_feature(name, known):
    scale = 1.0 if known or name not in SCALING else 3.0
    own = {"eigenvalue_bounds": (0.5, 2.0)} if "coinpress" in name else {}
    estimator = fit(setting(name, **known | own | {"row_sparsity": 1}), scale * MANY[:, :1])
    assert estimator.covariance_.shape == (1, 1)
    assert estimator.covariance_[0, 0] == pytest.approx(scale**2, rel=0.15)
    np.testing.assert_allclose(estimator.precision_, 1 / estimator.covariance_)
    if name in OURS:
        lower, upper = estimator.covariance_interval()
        assert lower < estimator.covariance_ < upper


@each_scaling
def test_too_few_records_are_said_to_be_too_few(name):
    insisting = {"on_hopeless": "warn"} if name in OURS else {}
    with pytest.warns(AccuracyWarning, match="20 records") as caught:
        by_screening(name, **CENTRED | insisting).fit(RECORDS[:20])
    words = [str(warning.message) for warning in caught]
    assert any("scales" in sentence for sentence in words)
    assert len(words) == (2 if name in OURS else 1)  # the error is predicted, too
    assert {warning.filename for warning in caught} == {__file__}
    if name not in OURS:
        setting(name, feature_scale=1.0).fit(RECORDS[:20])


@each_scaling
def test_duplicated_columns(name):
    X = MANY[:, [0, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    estimator = fit(setting(name, positive_semidefinite=True), X)
    np.testing.assert_allclose(estimator.covariance_[:2, :2], 1.0, atol=0.12)
    assert name not in OURS or fit(setting(name), X).support_[0, 1]


@each_scaling
def test_scales_over_twelve_orders_of_magnitude(name):
    """They are estimated, and what is true of correlations is true of each feature."""
    units = np.geomspace(1e-6, 1e6, D)
    outer = np.multiply.outer(units, units)
    estimator = fit(setting(name, positive_semidefinite=True), MANY * units)
    np.testing.assert_allclose(np.log2(estimator.feature_scale_ / units), 0.0, atol=1.0)
    assert operator_norm_error(estimator.covariance_ / outer, TRUTH) < 0.12
    inverse = estimator.precision_ * outer
    largest = 0.2 if name in OURS else 0.5
    assert operator_norm_error(inverse, np.linalg.inv(TRUTH)) < largest


@each_setting
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_values_beyond_the_range_of_scales(name, size):
    """Tiny ones count as constant, and huge ones are clipped: no error, warning or overflow."""
    assert np.isfinite(fit(setting(name, **KNOWN), size * RECORDS).covariance_).all()
    if name not in SCALING:
        return
    estimator = fit(setting(name, **CENTRED), size * RECORDS, hopeless=size < 1)
    assert np.isfinite(estimator.covariance_).all()
    if size < 1:
        assert estimator.release_.making.unresolved == tuple(range(D))
        assert not estimator.covariance_.any()
    else:
        assert 2.0**60 < estimator.feature_scale_.min() < estimator.feature_scale_.max() < 2.0**68


@each_setting
@pytest.mark.parametrize("budget", [(1e-6, 1e-9), (1e-3, 0.1), (10.0, 0.1), (10.0, 1e-11)])
def test_the_ends_of_the_budget(name, budget):
    epsilon, delta = budget
    given = {"epsilon": epsilon, "delta": delta} if name in SCALING else {"epsilon": epsilon}
    estimator = fit(setting(name, **given), RECORDS, hopeless=True)
    guarantee = estimator.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, given.get("delta", 0.0))
    assert guarantee.transcript_epsilon <= epsilon
    assert np.isfinite(estimator.covariance_).all()


# At the ends of what integers hold, and norms that make grids as fine as they get.
SIZES = [(1, 1), (10**10, 3), (10**12, 50), (10**15, 3), (10**18, 2), (10**18, 900), (10**19, 3)]


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")  # of delta at such n
@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@each_class
def test_sizes_are_refused_before_they_are_charged_or_not_at_all(tmp_path, name):
    """What fails after the charge would be paid for."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=10.0, delta=0.1)
    known = {**KNOWN, "row_sparsity": 1, "epsilon": 1e-3, "ledger": ledger, "dataset": "people"}
    options = set(setting(name).get_params())
    known |= dict.fromkeys({"on_large_delta", "on_hopeless"} & options, "warn")
    tiny = [{"row_norm": 1e-9}] if "row_norm" in options else []
    for size in SIZES:
        for changes in ({}, *tiny):
            before = len(ledger.history("people"))
            with pytest.raises((AssertionError, HushcovError)) as info:
                setting(name, **known, **changes).fit(UntouchableRecords(*size))
            read = isinstance(info.value, AssertionError)
            assert len(ledger.history("people")) - before == read
            assert read or size[0] > 2**33  # more records than there are people
