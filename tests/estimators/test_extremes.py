"""Data that nobody hopes for: the smallest tables, constants, duplicates, outliers, any size."""

import numpy as np
import pytest

from estimators.settings import (
    BUDGET,
    KNOWN,
    OURS,
    RECORDS,
    SCALING,
    TRUTH,
    D,
    correlations,
    each_class,
    each_scaling,
    each_setting,
    fit,
    setting,
)
from estimators.stand_ins import UntouchableRecords
from hushcov import GaussianCovariance, Ledger
from hushcov.exceptions import AccuracyWarning, HushcovError, ParameterError
from hushcov.fit.scales import FeatureScales, trusted_scale
from hushcov.metrics import operator_norm_error
from hushcov.simulate import gaussian_records

pytestmark = pytest.mark.usefixtures("no_search")

CENTRED = {"assume_centered": True}  # `test_centre.py` has the extremes of means that are found
MANY = gaussian_records(TRUTH, 40_000)
MANY.setflags(write=False)
selecting = pytest.mark.parametrize("name", ["screened", "sparse"])


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


@each_setting
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 4), (3, 1)])
def test_a_few_records(name, n, k):
    known = KNOWN if n == 1 else CENTRED
    estimator = fit(setting(name, **known | {"row_sparsity": k}), RECORDS[:n, :4], hopeless=True)
    assert (estimator.n_records_, estimator.release_.making.n_records) == (n, n)
    assert np.isfinite(estimator.covariance_).all()
    assert np.isfinite(estimator.precision_).all()
    assert estimator.release_.guarantee.transcript_epsilon <= 1
    if name in OURS and estimator.release_.mechanism != "multiscale":
        assert np.isfinite([np.diag(end) for end in estimator.covariance_interval()]).all()


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


@selecting
def test_a_row_sparsity_of_one_is_the_diagonal(name):
    estimator = fit(by_screening(name, row_sparsity=1), RECORDS)
    np.testing.assert_array_equal(estimator.support_, np.eye(D, dtype=bool))
    np.testing.assert_array_equal(estimator.release_.released, np.eye(D, dtype=bool))
    np.testing.assert_allclose(np.diag(estimator.covariance_), 1.0, atol=0.15)
    assert np.isnan(estimator.noise_sd_[0, 1])


@each_setting
def test_every_entry_may_be_there(name):
    estimator = fit(setting(name, row_sparsity=D), RECORDS)
    assert estimator.release_.released.all()
    assert name not in OURS or operator_norm_error(estimator.covariance_, TRUTH) < 0.6
    with pytest.raises(ParameterError, match=r"got 11.*n_features = 10"):
        setting(name, row_sparsity=11).fit(RECORDS)


def test_more_partners_than_declared():
    """Blocks of 6 declared as 2: as many pairs as declared come out, and they are true ones."""
    d, n = 30, 20_000
    truth = correlations("block", d, 6)
    estimator = fit(setting("screened", **KNOWN), gaussian_records(truth, n))
    pairs = np.count_nonzero(np.triu(estimator.selected_, 1))
    assert pairs == estimator.plan_.parameters.n_pairs < np.count_nonzero(np.triu(truth, 1))
    assert pairs >= d * (2 - 1) / 2
    found = np.triu(estimator.support_, 1)
    assert np.count_nonzero(found & (truth != 0)) > 0.95 * np.count_nonzero(found) > 0
    np.testing.assert_allclose(estimator.covariance_[found], truth[found], atol=0.1)


def test_what_cannot_be_found_is_said_beforehand():
    """Ten times as many partners to look for: the plan sees weak pairs lost, and larger errors."""
    few, many = (setting("screened", row_sparsity=k).plan(10_000, 100) for k in (2, 20))
    assert 0 < few.detection_limit < many.detection_limit <= 1
    assert few.predicted_error["random"] < many.predicted_error["random"]
    lost = setting("screened", row_sparsity=20).plan(100, 100)
    assert lost.detection_limit == 1.0
    assert min(lost.predicted_error.values()) >= 1


@each_scaling
def test_constant_columns_are_found_out(name):
    """Others are estimated as if they were not there."""
    X, truth = MANY.copy(), TRUTH.copy()
    X[:, [0, 5]] = 0.0
    truth[[0, 5]] = truth[:, [0, 5]] = 0.0
    estimator = fit(setting(name, **CENTRED), X)
    assert estimator.feature_scale_[[0, 5]].tolist() == [0.0, 0.0]
    assert not estimator.support_[[0, 5]].any()
    largest = 0.06 if name in OURS else 0.12
    assert operator_norm_error(estimator.covariance_, truth) < largest
    assert np.isfinite(estimator.precision_).all()


@each_setting
def test_a_table_of_constants(name):
    estimator = fit(setting(name, **CENTRED), np.zeros((20_000, D)))
    assert np.abs(estimator.covariance_).max() < (1e-9 if name in SCALING else 0.03)


@pytest.mark.parametrize("name", OURS)
def test_constant_columns_of_a_known_scale_and_mean_zero(name):
    """Declared with scale 1, they are noise around zero."""
    X = RECORDS.copy()
    X[:, 0] = 0.0
    estimator = fit(setting(name, **KNOWN), X)
    assert abs(estimator.covariance_[0, 0]) < 6 * estimator.noise_sd_[0, 0]
    assert not estimator.covariance_[0, 1:].any() or name == "gaussian"


def test_uncertain_scales_are_no_larger_than_certain_ones():
    scale = np.array([0.0, 2.0, 5.0, 1e12, 0.1, 0.0])
    uncertain = np.array([False, False, False, True, True, True])
    counts = np.zeros((6, 2), dtype=np.int64)
    trusted = trusted_scale(FeatureScales(scale, uncertain, counts))
    np.testing.assert_array_equal(trusted, [0.0, 2.0, 5.0, 5.0, 0.1, 0.0])
    nobody = FeatureScales(scale, np.ones(6, dtype=bool), counts)
    # Where all are uncertain, none is larger than the median of those that are not zero.
    np.testing.assert_array_equal(trusted_scale(nobody), [0.0, 2.0, 3.5, 3.5, 0.1, 0.0])
    nothing = FeatureScales(np.zeros(6), np.ones(6, dtype=bool), counts)
    np.testing.assert_array_equal(trusted_scale(nothing), np.zeros(6))


@pytest.mark.parametrize("seed", range(3))
def test_no_scale_of_a_fit_is_off_by_orders_of_magnitude(seed):
    """One feature in noise used to get a scale of 1e16 in every third fit."""
    X = gaussian_records(np.eye(500), 2_000, random_state=seed)
    estimator = GaussianCovariance(**BUDGET, **CENTRED)
    estimator = fit(estimator, X, seed, hopeless=True)
    assert 1 < estimator.feature_scale_.max() < 10


@each_scaling
def test_duplicated_columns(name):
    X = MANY[:, [0, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    estimator = fit(setting(name, positive_semidefinite=True), X)
    np.testing.assert_allclose(estimator.covariance_[:2, :2], 1.0, atol=0.12)
    assert name not in OURS or fit(setting(name), X).support_[0, 1]


@each_setting
@pytest.mark.parametrize("exponents", [-330, 330, np.linspace(-330, 330, D).astype(int)])
def test_units_are_a_matter_of_taste(name, exponents):
    """Powers of two, from 1e-100 to 1e100 and one for each feature, change nothing but the unit."""
    units = np.broadcast_to(2.0 ** np.asarray(exponents, dtype=float), D)
    outer = np.multiply.outer(units, units)
    options = {"positive_semidefinite": True, **CENTRED}
    plain = fit(setting(name, **options | {"feature_scale": 1.0}), RECORDS)
    moved = fit(setting(name, **options | {"feature_scale": units}), RECORDS * units)
    np.testing.assert_array_equal(moved.release_.integers, plain.release_.integers)
    np.testing.assert_array_equal(moved.covariance_, plain.covariance_ * outer)
    np.testing.assert_allclose(moved.precision_ * outer, plain.precision_, rtol=1e-9)
    if hasattr(plain, "noise_sd_"):
        np.testing.assert_array_equal(moved.noise_sd_, plain.noise_sd_ * outer)
        for ends in zip(moved.covariance_interval(), plain.covariance_interval(), strict=True):
            np.testing.assert_array_equal(ends[0], ends[1] * outer)


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
@pytest.mark.parametrize("known", [{}, {"feature_scale": 1.0}])
def test_a_few_records_of_any_size_change_little(name, known):
    """Five of 40,000 records, at the ends of what a double holds."""
    X = MANY.copy()
    X[100], X[200], X[300] = 1e300, -1e300, np.finfo(float).max
    X[400], X[500] = 1e-300, np.resize([1e300, -1e-300], D)
    estimator = fit(setting(name, **known), X)
    largest = 0.15 if name in SCALING else 0.75
    assert operator_norm_error(estimator.covariance_, TRUTH) < largest


@each_setting
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_values_beyond_the_range_of_scales(name, size):
    """Tiny ones count as constant, and huge ones are clipped: no error, warning or overflow."""
    assert np.isfinite(fit(setting(name, **KNOWN), size * RECORDS).covariance_).all()
    if name not in SCALING:
        return
    estimator = fit(setting(name, **CENTRED), size * RECORDS)
    assert np.isfinite(estimator.covariance_).all()
    if size < 1:
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


@each_setting
def test_more_budget_and_more_records_are_better(name):
    errors = [
        operator_norm_error(
            fit(setting(name, epsilon=epsilon, **{**KNOWN}), X, hopeless=True).covariance_, TRUTH
        )
        for epsilon, X in ((0.1, RECORDS[:500]), (10.0, MANY))
    ]
    assert errors[1] < min(0.3, errors[0] / 3)


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
