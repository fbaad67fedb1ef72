"""A seed takes privacy away, whichever way a release is made: receipt and release both say so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from estimators.settings import ESTIMATORS, RECORDS, make, skip_search
from estimators.site_settings import BILLION, BLOCK, multiscale, summed
from estimators.stand_ins import RepeatedRecords
from hushcov import (
    GaussianCovariance,
    GenotypeCovariance,
    Ledger,
    MultiscaleCovariance,
    PrivateSparseCovariance,
)
from hushcov.accounting.ledger import as_charge
from hushcov.exceptions import AccuracyWarning, PrivacyWarning, SeededNoiseWarning
from hushcov.simulate import SimulatedMoments
from peers.estimators import SETTINGS, peer

MANY = RepeatedRecords(BLOCK, 10**6)
CALIBRATED = {"constants": "calibrated", "epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2}


def fitting(make_estimator, X=RECORDS):
    return lambda **options: make_estimator(**options).fit(X)


def releasing(make_estimator, X, total):
    """From sums that were taken by an estimator of the same kind, without a ledger."""

    def release(**options):
        sums = summed(make_estimator(), X, total=total)
        return make_estimator(**options).fit_statistics(sums)

    return release


def gaussian(**options):
    return make(GaussianCovariance, feature_scale=1.0, assume_centered=True, **options)


def calibrated(**options):
    return MultiscaleCovariance(scale=1.0, **CALIBRATED, **options)


def genotypes(**options):
    return GenotypeCovariance(
        epsilon=1.0, delta=1e-6, bandwidth=1, on_hopeless="warn", on_large_delta="warn", **options
    )


GENOTYPES = (RECORDS > 0).astype(np.int8) + (RECORDS > 1)
WAYS = {
    "genotypes.fit": fitting(genotypes, GENOTYPES),
    "candidates.fit": fitting(lambda **o: make(PrivateSparseCovariance, bandwidth=1, **o)),
    **{f"{cls.__name__}.fit": fitting(lambda cls=cls, **o: make(cls, **o)) for cls in ESTIMATORS},
    **{f"{name}.fit": fitting(lambda name=name, **o: peer(name, **o)) for name in SETTINGS},
    "multiscale.fit, calibrated": fitting(calibrated),
    "multiscale.fit, theorem": fitting(multiscale, MANY),
    "gaussian.fit_statistics": releasing(gaussian, RECORDS, len(RECORDS)),
    "multiscale.fit_statistics, calibrated": releasing(calibrated, RECORDS, len(RECORDS)),
    "multiscale.fit_statistics, theorem": releasing(multiscale, MANY, BILLION),
}
SEEDS = {
    "none": lambda: None,
    "integer": lambda: 3,
    "generator": lambda: np.random.default_rng(3),
    "state": lambda: np.random.RandomState(3),
}


@pytest.fixture
def options(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=3.0, delta=0.1)
    return {"ledger": ledger, "dataset": "people"}


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch):
    skip_search(monkeypatch)


def quietly(release, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", AccuracyWarning)
        warnings.simplefilter("ignore", PrivacyWarning)  # the budget of a theorem at a billion
        return release(**options)


# Every way in with and without a seed; all kinds of seeds where a fit takes milliseconds.
PAIRS = [
    *((way, seed) for way in WAYS for seed in ("none", "integer")),
    *(("GaussianCovariance.fit", seed) for seed in ("generator", "state")),
    *(("gaussian.fit_statistics", seed) for seed in ("generator", "state")),
]


@pytest.mark.parametrize(("way", "seed"), PAIRS)
def test_receipt_and_release_agree_on_what_is_private(way, seed, options):
    estimator = quietly(WAYS[way], random_state=SEEDS[seed](), **options)
    (receipt,) = options["ledger"].history("people")
    private = seed == "none"
    assert estimator.release_.guarantee.private is private
    assert estimator.receipt_.charge.private is private
    assert receipt.charge.private is private
    assert receipt.charge.promise == as_charge(estimator.release_.guarantee).promise


@pytest.mark.parametrize("seed", ["none", "integer"])
def test_simulated_moments_are_private_in_no_case(seed, options):
    moments = SimulatedMoments(np.eye(2), BILLION)
    estimator = multiscale(random_state=SEEDS[seed](), **options)
    quietly(lambda: estimator.fit_statistics(moments))
    assert not estimator.release_.guarantee.private
    assert not estimator.receipt_.charge.private
