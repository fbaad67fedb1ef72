"""What is refused or warned of before a charge, and what is said when a fit fails after it."""

import dataclasses

import numpy as np
import pytest

from estimators.settings import D, make
from estimators.stand_ins import UntouchableRecords
from hushcov import (
    CoinPressCovariance,
    GaussianCovariance,
    MultiscaleCovariance,
    PaceCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import (
    AccuracyWarning,
    DataError,
    HopelessError,
    ParameterError,
    PrivacyWarning,
)
from hushcov.fit import Caution, large_delta
from hushcov.ledger import Ledger
from hushcov.tables.sources import ArrayRecords

pytestmark = pytest.mark.usefixtures("no_search")

PLANNED = {
    "gaussian": (GaussianCovariance, {}),
    "gaussian, thresholded": (GaussianCovariance, {"threshold": "universal"}),
    "screened": (ScreenedCovariance, {}),
    "sparse": (PrivateSparseCovariance, {}),
    "multiscale": (MultiscaleCovariance, {"constants": "calibrated", "scale": 1.0}),
}
WITH_DELTA = (
    *(GaussianCovariance, ScreenedCovariance, PrivateSparseCovariance),
    *(RowTopKCovariance, PaceCovariance, SeparateCovariance, CoinPressCovariance),
)
KNOWN = {"feature_scale": 1.0, "assume_centered": True}


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "budget.db")
    book.open_dataset("people", epsilon=1.5, delta=0.1)
    return book


@pytest.mark.parametrize("name", PLANNED)
def test_a_hopeless_design_is_refused_before_it_is_charged_or_read(ledger, name):
    cls, changes = PLANNED[name]
    few = UntouchableRecords(10, D)
    known = {"assume_centered": True} if cls is MultiscaleCovariance else KNOWN
    est = make(cls, **changes, **known, ledger=ledger, dataset="people")
    with pytest.raises(HopelessError, match="on_hopeless='warn'"):
        est.fit(few)
    assert ledger.history("people") == ()
    with (
        pytest.warns(AccuracyWarning, match="zero matrix"),
        pytest.raises(AssertionError, match="records were read"),
    ):
        est.set_params(on_hopeless="warn").fit(few)
    assert len(ledger.history("people")) == 1


def test_no_prediction_is_no_refusal():
    """Bounds and thresholds of one's own are not what the planner predicts."""
    for changes in ({"row_norm": 3.0}, {"threshold": 0.5}):
        est = make(GaussianCovariance, **KNOWN, **changes).fit(np.ones((10, D)))
        assert est.warnings_ == ()
    est = make(PrivateSparseCovariance, delta=0.1)
    assert est.plan(4_000, D).best.typical_error < 1
    assert est._fit_plan(4_000, D).cautions[0].category is PrivacyWarning


def test_sums_are_refused_at_their_release(ledger):
    est = make(GaussianCovariance, **KNOWN, ledger=ledger, dataset="people")
    est.partial_fit(np.ones((10, D)), total_records=10)
    with pytest.raises(HopelessError):
        est.fit_statistics()
    assert est.statistics_.n_records == 10  # they are still there
    est.set_params(on_hopeless="warn", delta=0.1)
    with pytest.raises(ParameterError, match="on_large_delta"):
        est.fit_statistics()
    assert ledger.history("people") == ()


@pytest.mark.parametrize(
    ("delta", "n_rows", "kind"),
    [
        *((1e-3, 1_000, ParameterError), (0.99e-3, 1_000, None), (1.01e-4, 1_000, None)),
        *((1e-6, 100_000, False), (0.0, 1_000, False)),
    ],
)
def test_where_delta_is_large(delta, n_rows, kind):
    found = large_delta(delta, n_rows)
    assert (found is None) if kind is False else (found.error is kind)
    if found is not None:
        assert f"{n_rows:,} records" in found.sentence
        assert "below 0.0001" in found.sentence


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("cls", WITH_DELTA)
def test_a_delta_of_one_in_n_rows_is_refused_before_it_is_charged_or_read(ledger, cls, centred):
    rows = UntouchableRecords(4_000, D)
    inputs = {"feature_scale": 1.0, "assume_centered": centred}
    est = make(cls, **inputs, delta=1 / 4_000, ledger=ledger, dataset="people")
    with pytest.raises(ParameterError, match="on_large_delta='warn'"):
        est.fit(rows)
    assert ledger.history("people") == ()
    with (
        pytest.warns(PrivacyWarning, match="at least 1 / records") as caught,
        pytest.raises(AssertionError, match="records were read"),
    ):
        est.set_params(on_large_delta="warn").fit(rows)
    assert caught[0].filename == __file__
    with (
        pytest.warns(PrivacyWarning, match=r"above 0.1 / records"),
        pytest.raises(AssertionError, match="records were read"),
    ):
        est.set_params(on_large_delta="raise", delta=0.99 / 4_000, ledger=None, dataset=None).fit(
            rows
        )


def test_a_plan_is_what_a_fit_charges_and_heeds(ledger):
    charged = {"ledger": ledger, "dataset": "people"}
    est = make(ScreenedCovariance, on_hopeless="warn", assume_centered=True, **charged)
    before = est._fit_plan(50, D)
    assert [type(each) for each in before.cautions] == [Caution, Caution]
    assert not [name for name in vars(est) if name.endswith("_")]
    with pytest.warns(AccuracyWarning):
        est.fit(np.ones((50, D)))
    assert tuple(each.sentence for each in before.cautions) == est.warnings_
    certified, found = before.budget().certificate, est.release_.guarantee
    assert dataclasses.replace(found, events=()) == dataclasses.replace(certified, events=())
    counts = est._fit_plan(4_000, D)
    plain = est.set_params(drop_nulls=False)._fit_plan(4_000, D)
    assert counts.inputs.before > plain.inputs.before


class Interrupted(ArrayRecords):
    def _blocks(self):
        raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning")
@pytest.mark.parametrize("cls", [PrivateSparseCovariance, MultiscaleCovariance])
def test_what_fails_after_the_charge_says_what_was_charged(ledger, cls):
    changes = {"constants": "calibrated", "scale": 1.0} if cls is MultiscaleCovariance else {}
    X = np.random.default_rng(0).normal(size=(4_000, D))
    bad = np.where(np.arange(X.size).reshape(X.shape) == 173, np.nan, X)
    changes |= {} if cls is MultiscaleCovariance else {"drop_nulls": False}
    failures = ((bad, DataError), (Interrupted(X), KeyboardInterrupt))
    for number, (X, kind) in enumerate(failures):
        est = make(cls, **changes, epsilon=0.5, on_hopeless="warn", ledger=ledger, dataset="people")
        with pytest.raises(kind) as info:
            est.fit(X)
        (note,) = info.value.__notes__
        receipt = ledger.history("people")[number]
        assert note == (
            f"Dataset 'people' in the ledger {ledger.path} was charged epsilon 0.5 and delta 1e-6 "
            f"before any record was read, as release {receipt.number}: that stands. No estimate "
            "was released."
        )
        assert not hasattr(est, "receipt_")
