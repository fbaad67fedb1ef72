"""What goes into the published mechanisms: tables, scales, refusals, and the ledger's charges."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from estimators.settings import PEERS, RECORDS, D, fit
from estimators.stand_ins import UntouchableRecords
from estimators.test_scaled_input import BAD_DATA, SECRET
from fuzz.cases import messages
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    RowTopKCovariance,
    SeparateCovariance,
    ThresholdedCovariance,
)
from hushcov._validation import shown
from hushcov.accounting import compose
from hushcov.accounting.ledger import Ledger
from hushcov.exceptions import BudgetError, DataError, HushcovError, ParameterError
from hushcov.tables.sources import ArrayRecords
from peers.estimators import (
    CLASSES,
    SETTINGS,
    each_class,
    each_peer,
    make_class,
    peer,
)

NAMES = [f"gene {i}" for i in range(D)]
FRAME = pd.DataFrame(RECORDS, columns=NAMES)
UNREAD = UntouchableRecords(*RECORDS.shape)


def integers(estimator, X):
    """What is released, which a seed makes a function of the records."""
    return fit(estimator, X).release_.integers


# Tables.


SAME = {
    "lists": RECORDS.tolist(),
    "pandas": FRAME,
    "polars": pl.DataFrame(RECORDS, schema=NAMES),
    "Fortran order": np.asfortranarray(RECORDS),
    "objects": RECORDS.astype(object),
    "wider floats": RECORDS.astype(np.longdouble),
    "Records": ArrayRecords(RECORDS),
    "Records in blocks of three": ArrayRecords(RECORDS, block_rows=3),
}


@pytest.fixture(scope="module", params=SETTINGS)
def plain(request):
    return request.param, integers(peer(request.param), RECORDS)


@pytest.mark.parametrize("kind", SAME)
def test_the_same_numbers_in_another_form_give_the_same_release(plain, kind):
    name, expected = plain
    np.testing.assert_array_equal(integers(peer(name), SAME[kind]), expected)


def test_a_file_gives_the_same_release(plain, tmp_path):
    name, expected = plain
    np.save(tmp_path / "X.npy", RECORDS)
    for path in (tmp_path / "X.npy", str(tmp_path / "X.npy")):
        np.testing.assert_array_equal(integers(peer(name), path), expected)


@each_peer
def test_blocks_and_the_order_of_records_change_nothing(name):
    estimator = peer(name, assume_centered=True)
    expected = fit(estimator, RECORDS).release_
    order = np.random.default_rng(0).permutation(len(RECORDS))
    for rows, block_rows in ((RECORDS[order], 7), (RECORDS[order], 1000), (RECORDS[::-1], 1)):
        records = ArrayRecords(rows, block_rows=block_rows)
        assert fit(estimator, records).release_ == expected


@each_class
@pytest.mark.parametrize("frame", [FRAME, pl.DataFrame(RECORDS, schema=NAMES)])
def test_names_are_kept(cls, frame):
    estimator = fit(make_class(cls), frame)
    np.testing.assert_array_equal(estimator.feature_names_in_, NAMES)
    table = estimator.labelled_covariance("pandas")
    assert list(table.index) == list(table.columns) == NAMES
    np.testing.assert_array_equal(table.to_numpy(), estimator.covariance_)
    table = estimator.labelled_covariance("polars")
    assert table.columns == ["feature", *NAMES]
    np.testing.assert_array_equal(table.drop("feature").to_numpy(), estimator.covariance_)


def test_the_reference_without_privacy_takes_the_same_tables(tmp_path):
    expected = ThresholdedCovariance().fit(RECORDS)
    np.save(tmp_path / "X.npy", RECORDS)
    for X in (*SAME.values(), tmp_path / "X.npy"):
        estimator = ThresholdedCovariance().fit(X)
        np.testing.assert_array_equal(estimator.covariance_, expected.covariance_)
        assert estimator.n_features_in_ == D
    with pytest.raises(DataError, match=r"gene 4.* more than once"):
        ThresholdedCovariance().fit(FRAME.rename(columns={"gene 3": "gene 4"}))
    with pytest.raises(DataError, match="at least 2 records"):
        ThresholdedCovariance().fit(RECORDS[:1])


@pytest.fixture
def no_noise(monkeypatch):
    """Every sampler, as the mechanisms know it, is gone."""
    for sampler in (
        *("steps.scales.rounded_normal", "mechanisms.gaussian.mechanism.rounded_normal"),
        *(f"peers.row_top_k.{name}" for name in ("gumbel_top", "rounded_normal")),
        "peers.separate.rounded_normal",
        *(f"peers.eigen_sampling.{name}" for name in ("discrete_laplace", "Bingham")),
    ):
        monkeypatch.setattr(f"hushcov.{sampler}", None)


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize(
    "make",
    [*(lambda name=name: peer(name, row_sparsity=1) for name in SETTINGS), ThresholdedCovariance],
    ids=[*SETTINGS, "thresholded"],
)
def test_bad_data_are_refused_without_a_value_and_nothing_is_drawn(no_noise, make):
    """Noise is drawn after the first pass over the records, which is what finds NaN."""
    for what, X in BAD_DATA.items():
        estimator = make()
        with pytest.raises(DataError) as info:
            estimator.fit(X)
        assert not any(SECRET in text for text in messages(info.value)), what
        assert not hasattr(estimator, "covariance_")
        assert not hasattr(estimator, "release_")


# Scales.


SCALES = 1.0 + np.arange(D) / 10


@each_class
@pytest.mark.parametrize(
    "scales",
    [SCALES.tolist(), tuple(SCALES), pd.Series(SCALES, index=NAMES), pl.Series(SCALES)],
    ids=["list", "tuple", "pandas", "polars"],
)
def test_scales_come_in_any_form(cls, scales):
    expected = fit(make_class(cls, feature_scale=SCALES), RECORDS)
    estimator = fit(make_class(cls, feature_scale=scales), RECORDS)
    np.testing.assert_array_equal(estimator.feature_scale_, SCALES)
    assert estimator.release_ == expected.release_


@each_peer
def test_a_scale_of_zero_marks_a_constant_feature(name):
    """Its entries are zero without noise."""
    scales = np.ones(D)
    scales[[2, 7]] = 0.0
    estimator = fit(peer(name, feature_scale=scales, positive_semidefinite=True), RECORDS)
    assert not estimator.covariance_[[2, 7]].any()
    assert not np.signbit(estimator.covariance_[[2, 7]]).any()
    assert estimator.covariance_[[0, 1], [0, 1]].any()
    np.testing.assert_allclose(estimator.get_precision()[2], 0.0, atol=1e-9)


# Parameters.


EVERYWHERE = {
    "epsilon": [None, 0, -1.0, 10.5, math.nan, math.inf, "1", True, [1.0], np.ones(2)],
    "row_sparsity": [0, D + 1, 2.0, "2", True, [2], np.arange(3)],
    "positive_semidefinite": [1, "no", None],
    "store_precision": [0, "yes", None],
    "assume_centered": [0, "no", None],
    "random_state": [-1, 1.5, "seed", True, [1]],
}
UNLESS_PURE = {
    "delta": [None, 0, 0.2, 1, math.nan, "1e-6", [1e-6], np.array([1e-6])],
}
ROW_NORMS = [0, -1.0, math.inf, math.nan, "5", True, [5.0], 1j]
NO_PAIRS = [3.0, "ab", (1.0,), (1, 2, 3), {1.0, 2.0}, {0: 1.0, 1: 2.0}, np.array(1.0), iter("ab")]
ITS_OWN = {
    RowTopKCovariance: {
        "row_sparsity": [None],
        "radius": [0, -1.0, 1e-9, 1e9, math.nan, "4", True, [4.0]],
    },
    SeparateCovariance: {"method": ["both", None, ["gauss"]], "row_norm": ROW_NORMS},
    CoinPressCovariance: {
        "n_steps": [0, -1, 21, 2.0, "3", True, None],
        "eigenvalue_bounds": NO_PAIRS,
    },
    EigenSamplingCovariance: {
        "feature_scale": [None],
        "allocation": ["equal", None, ["uniform"]],
        "row_norm": ROW_NORMS,
    },
}
BAD_PARAMETERS = [
    (cls, name, value)
    for cls in CLASSES
    for table in (EVERYWHERE, UNLESS_PURE if cls in PEERS else {}, ITS_OWN[cls])
    for name, values in table.items()
    for value in values
]


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(("cls", "name", "value"), BAD_PARAMETERS)
def test_bad_parameters_are_refused_before_any_record_is_read(cls, name, value):
    """With the name of the parameter, what it was, and no trace of a fit."""
    estimator = make_class(cls, **{name: value})
    with pytest.raises(ParameterError, match=f"^{name} (must be|is required)") as info:
        estimator.fit(UNREAD)
    assert value is None or shown(value) in str(info.value)
    assert ": " in str(info.value)  # a cure follows
    assert vars(estimator) == vars(make_class(cls, **{name: value}))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((0.0, 1.0), r"eigenvalue_bounds\[0\] must be above"),
        ((0.5, math.inf), r"eigenvalue_bounds\[1\] must be above"),
        (("a", "b"), r"eigenvalue_bounds\[0\] must be a real number"),
        ((None, 1.0), r"eigenvalue_bounds\[0\] is required"),
        ((2.0, 1.0), "smaller one first"),
        ([[0.5], [2.0]], r"eigenvalue_bounds\[0\] must be a real number"),
    ],
)
def test_pairs_that_bound_nothing(bounds, message):
    with pytest.raises(ParameterError, match=message):
        make_class(CoinPressCovariance, eigenvalue_bounds=bounds).fit(UNREAD)


@pytest.mark.parametrize(
    "bounds", [[0.5, 2], np.array([0.5, 2.0]), pd.Series([0.5, 2.0], index=["a", "b"])]
)
def test_pairs_come_in_any_form(bounds):
    estimator = fit(make_class(CoinPressCovariance, eigenvalue_bounds=bounds), RECORDS)
    expected = fit(make_class(CoinPressCovariance, eigenvalue_bounds=(0.5, 2.0)), RECORDS)
    assert estimator.release_ == expected.release_


@each_class
@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ones(D - 1), r"one for each of 10 features, got shape \(9,\)"),
        ([[1.0], [1.0, 2.0]], "got list"),
        (-1.0, " be 0"),
        (np.nan, " be 0"),
        (np.where(np.arange(D) == 3, np.inf, 1.0), " be 0"),
        (1e-200, " be 0"),
        ("1.0", "got str"),
        (True, "got bool"),
        (np.ones(D) + 1j, "got ndarray"),
        (np.ma.masked_array(np.ones(D), mask=np.eye(D)[0]), "got MaskedArray"),
        ({"gene 0": 1.0}, "got dict"),
    ],
)
def test_scales_that_mean_nothing_are_refused_unread(cls, scale, message):
    with pytest.raises(ParameterError, match=f"feature_scale must.*{message}"):
        make_class(cls, feature_scale=scale).fit(UNREAD)


@each_peer
def test_good_parameters_go_on_to_read(name):
    with pytest.raises(AssertionError, match="records were read"):
        peer(name).fit(UNREAD)


# Ledgers.


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    return ledger


def charged(ledger):
    return {"ledger": ledger, "dataset": "people"}


@each_peer
def test_a_fit_is_charged_once_and_the_next_is_refused_unread(ledger, name):
    estimator = peer(name, **charged(ledger)).fit(RECORDS)
    (receipt,) = ledger.history("people")
    assert receipt == estimator.receipt_
    guarantee = estimator.release_.guarantee
    spent = compose(receipt.charge.events, delta=guarantee.delta)
    assert spent.epsilon == pytest.approx(guarantee.transcript_epsilon)
    assert receipt.charge.private
    assert receipt.label == f"{type(estimator).__name__} of {D} features"
    assert receipt.total.epsilon <= 1.0
    covariance = estimator.covariance_
    with pytest.raises(BudgetError, match="'people' has"):
        estimator.fit(UNREAD)
    assert estimator.covariance_ is covariance
    assert estimator.receipt_ == receipt
    assert ledger.history("people") == (receipt,)
    estimator.set_params(ledger=None, dataset=None)
    assert not hasattr(fit(estimator, RECORDS), "receipt_")


@each_peer
def test_the_charge_comes_before_the_records(ledger, name):
    with pytest.raises(AssertionError, match="records were read"):
        peer(name, **charged(ledger)).fit(UNREAD)
    assert len(ledger.history("people")) == 1


@each_peer
def test_seeded_fits_are_charged_too(ledger, name):
    fit(peer(name, **charged(ledger)), RECORDS)
    assert [receipt.charge.private for receipt in ledger.history("people")] == [False]


@pytest.mark.parametrize("changes", [{"epsilon": -1.0}, {"random_state": "x"}])
@each_class
def test_bad_parameters_cost_nothing(ledger, cls, changes):
    with pytest.raises(ParameterError):
        make_class(cls, **charged(ledger), **changes).fit(UNREAD)
    assert ledger.history("people") == ()


# Sizes at the ends of what integers hold, and norms that make grids as fine as they get.
SIZES = [(1, 1), (10**10, 3), (10**12, 50), (10**15, 3), (10**18, 2), (10**18, 900), (10**19, 3)]


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning")  # of delta at such n
@pytest.mark.parametrize("size", SIZES)
@each_class
def test_sizes_are_refused_before_they_are_charged_or_not_at_all(tmp_path, cls, size):
    """What fails after the charge would be paid for."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=10.0, delta=0.1)
    known = {"feature_scale": 1.0, "assume_centered": True, "row_sparsity": 1, "epsilon": 1e-3}
    known |= {"on_large_delta": "warn"} if "on_large_delta" in cls().get_params() else {}
    tiny = {"row_norm": 1e-9} if "row_norm" in cls().get_params() else {}
    for changes in ({}, tiny):
        before = len(ledger.history("people"))
        with pytest.raises((AssertionError, HushcovError)) as info:
            make_class(cls, **known, **changes, **charged(ledger)).fit(UntouchableRecords(*size))
        read = isinstance(info.value, AssertionError)
        assert len(ledger.history("people")) - before == read
        assert read or size[0] > 10**10  # as many records as there are people


def test_fits_of_all_kinds_share_a_budget(ledger):
    for name in SETTINGS:
        clone(peer(name, epsilon=0.15, feature_scale=1.0, **charged(ledger))).fit(RECORDS)
    events = [event for receipt in ledger.history("people") for event in receipt.charge.events]
    spent = ledger.spent("people").epsilon
    fixed = compose(events, delta=1e-6).epsilon
    assert fixed < spent < 1.15 * fixed  # a pure release is among them
    assert 0.15 < spent < len(SETTINGS) * 0.15
