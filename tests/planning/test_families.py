"""Predictions where nothing is known of the structure, and what a guess would change."""

from __future__ import annotations

import statistics
import warnings
from dataclasses import replace

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.exceptions import AccuracyWarning, HopelessError
from hushcov.mechanisms.adaptive.room import ADAPTIVE
from hushcov.mechanisms.screened.room import plan_screened
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.planning import Request, forecast_families
from hushcov.planning.cautions import hopeless
from hushcov.planning.comparison import families, family_error, guesses, smallest_for
from hushcov.predicting import DENSE, FACTOR, Forecast
from hushcov.simulate import gaussian_records

REQUEST = Request(1, 1.0, 1e-6)


def test_families_are_those_that_there_can_be():
    names = [each.name for each in families(1000)]
    assert names == ["k = 3", "k = 5", "k = 10", "k = 20", FACTOR, DENSE]
    assert [each.row_sparsity for each in families(7)] == [3, 5, None, None]
    assert [each.name for each in families(1)] == ["k = 1"]


def test_more_records_help_in_every_family_and_the_sparsity_asked_for_does_not_matter():
    few, many = (list(forecast_families(REQUEST, n, 40).errors.values()) for n in (5_000, 50_000))
    assert all(0 < after < before for before, after in zip(few, many, strict=True))
    other = forecast_families(replace(REQUEST, row_sparsity=17), 5_000, 40)
    assert list(other.errors.values()) == few


def test_a_short_search_is_nearly_as_good_and_never_better_by_much():
    for n, d, k in ((30_000, 200, 5), (100_000, 200, 20), (30_000, 50, 3)):
        inputs = replace(REQUEST, row_sparsity=k).inputs(n, d)
        short, full = (plan_screened(inputs, short=s).predicted_error for s in (True, False))
        ratio = Forecast("", short, None).typical_error / Forecast("", full, None).typical_error
        assert 0.95 < ratio < 1.25


def test_a_factor_and_a_dense_covariance_are_predicted_within_a_factor_of_2():
    """Medians of 3 seeded fits against the prediction; at most 1.7 and 1.2 were seen."""
    d, n = 40, 20_000
    found = {each.name: e for each, e in forecast_families(REQUEST, n, d).errors.items()}
    wide = np.random.default_rng(0).standard_normal((2 * d, d))
    wide = wide.T @ wide
    scale = np.sqrt(np.diag(wide))
    truths = {
        FACTOR: np.full((d, d), 1 / 3) + 2 / 3 * np.eye(d),
        DENSE: wide / np.multiply.outer(scale, scale),
    }
    for name, truth in truths.items():
        errors = []
        for seed in range(3):
            X = gaussian_records(truth, n, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(X)
            errors.append(operator_norm_error(est.covariance_, truth) / operator_norm(truth))
        assert 0.5 < found[name] / statistics.median(errors) < 2, (name, errors)


def test_a_guess_that_is_too_small_loses_pairs_and_the_right_one_is_best():
    found = guesses(REQUEST, 30_000, 100)
    for true, told in found.items():
        assert min(told.values()) == pytest.approx(told[true], rel=0.1)
    assert found[20][3] > 5 * found[20][20]
    assert found[3][20] < 4 * found[3][3]


def test_the_smallest_number_reaches_the_target_and_half_of_it_does_not():
    family = families(8)[-1]
    n = smallest_for(REQUEST, 8, family, 0.1)
    assert family_error(REQUEST, n, 8, family) <= 0.1
    assert family_error(REQUEST, n // 2, 8, family) > 0.1
    assert smallest_for(REQUEST, 8, family, 1e-9) is None


def _with(typical: float, factor: float | None) -> Forecast:
    errors = dict.fromkeys(("block", "banded", "random", "diagonal"), typical)
    return Forecast("adaptive", errors | ({} if factor is None else {FACTOR: factor}), None)


def test_nothing_is_hopeless_while_a_strong_factor_could_be_found():
    inputs = REQUEST.inputs(1_000, 50)
    assert _with(1.2, None).hopeless
    assert _with(1.2, 1.0).hopeless
    assert not _with(1.2, 0.4).hopeless
    refused = hopeless(inputs, _with(1.2, 1.0))
    assert refused.error is HopelessError
    warned = hopeless(inputs, _with(1.2, 0.4))
    assert (warned.error, warned.category) == (None, AccuracyWarning)
    assert "only factors" in warned.sentence
    assert hopeless(inputs, _with(0.5, 1.0)) is None


def test_the_default_looks_for_no_factor_where_the_output_is_sparse():
    inputs = REQUEST.inputs(20_000, 50)
    assert FACTOR in ADAPTIVE.plan(inputs).forecast.predicted_error
    assert FACTOR not in ADAPTIVE.plan(inputs, sparse=True).forecast.predicted_error


def test_few_records_of_many_features_still_find_a_factor():
    """At d = 1000 pairs drown long before a factor does."""
    many = ADAPTIVE.forecast(replace(REQUEST, row_sparsity=20).inputs(4_000, 1000))
    assert many.typical_error > 0.99
    assert many.predicted_error[FACTOR] < 0.6
    assert not many.hopeless
    assert ADAPTIVE.forecast(replace(REQUEST, row_sparsity=5).inputs(200, 50)).hopeless


def test_factors_are_no_comfort_where_not_even_scales_are_found():
    request = replace(REQUEST, row_sparsity=5)
    inputs, stages = request.divide(300, 50)
    (caution,) = request.cautions(inputs, stages, _with(1.2, 0.4))
    assert caution.error is HopelessError
    assert "nothing could be told from noise" in caution.sentence
