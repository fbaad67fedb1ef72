"""No order of two calls leaves a certificate that does not fit what ran.

Every public method of every estimator is called before every call that plans or releases. The
second call must do exactly what it does on a new estimator: the same release bit by bit, the same
plan, the same refusal. And whatever is released must have been read through the view that the
relation of its certificate needs.
"""

import inspect
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest

import hushcov
from hushcov import GaussianCovariance, GenotypeCovariance, PrivateSparseCovariance
from hushcov.estimators.scaled import PrivacyUnit
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.fit import Plan
from hushcov.kernel.accounting import ADD_REMOVE, RECORD
from hushcov.kernel.records.base import CountedRecords
from hushcov.ledger import Ledger

pytestmark = [
    pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::hushcov.exceptions.AccuracyWarning"),
    pytest.mark.filterwarnings("ignore::hushcov.exceptions.PrivacyWarning"),
]
BUDGET = {"epsilon": 2.0, "delta": 1e-3, "random_state": 3}
N, D, ROWS = 600, 4, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
IDS = np.repeat(np.arange(N // ROWS), ROWS)
CALLS = RNG.integers(0, 3, (N, D))
INSISTS = {"on_hopeless": "warn", "on_large_delta": "warn"}
CASES = {
    "PrivateSparseCovariance": INSISTS,
    "GaussianCovariance": {**INSISTS, "assume_centered": True, "feature_scale": 1.0},
    "ScreenedCovariance": {**INSISTS, "row_sparsity": 2},
    "RowTopKCovariance": {**INSISTS, "row_sparsity": 2},
    "PaceCovariance": INSISTS,
    "SeparateCovariance": INSISTS,
    "CoinPressCovariance": INSISTS,
    "EigenSamplingCovariance": {"feature_scale": 1.0, "assume_centered": True},
    "MultiscaleCovariance": {
        **INSISTS,
        **{"row_sparsity": 2, "scale": 1.0, "constants": "calibrated"},
    },
    "GenotypeCovariance": {**INSISTS, "bandwidth": 2},
}
FAST = ("GaussianCovariance",)


def made(name):
    cls = getattr(hushcov, name)
    known = set(inspect.signature(cls).parameters)
    return cls(**{key: each for key, each in BUDGET.items() if key in known}, **CASES[name])


def rows_of(est):
    return CALLS if isinstance(est, GenotypeCovariance) else X


def units(est, **changes):
    est.set_params(**changes)
    return PrivacyUnit.checked(est, "patient", IDS)


def planned(est, n=N, **options):
    return est._fit_plan(n, D, **options)


def fit(est, **given):
    return est.fit(rows_of(est), **given)


def plan_removed(est):
    return planned(est.set_params(neighbours=ADD_REMOVE))


def plan_units(est):
    return planned(est, privacy_unit=units(est, max_rows_per_unit=2))


def count_and_fit(est):
    if isinstance(est, GenotypeCovariance):
        return est._fit_counted(est.set_params(neighbours=ADD_REMOVE)._count(CALLS))
    return est._fit_counted(est._count(X, units(est, max_rows_per_unit=2)))


def count_twice_and_fit_the_first(est):
    if isinstance(est, GenotypeCovariance):
        first = est.set_params(neighbours=ADD_REMOVE)._count(CALLS)
        est._count(CALLS[: N // 2])
        return est._fit_counted(first)
    first = est._count(X, units(est, max_rows_per_unit=2))
    est._count(X[: N // 2], PrivacyUnit.checked(est.set_params(max_rows_per_unit=None)))
    return est._fit_counted(first)


# What plans or releases, in every way that the options of a fit allow. Each is one call.
RUNS = {
    "fit": fit,
    "fit_removed": lambda est: fit(est.set_params(neighbours=ADD_REMOVE)),
    "fit_units": lambda est: fit(est.set_params(max_rows_per_unit=2), unit=IDS),
    "fit_units_found": lambda est: fit(est, unit=IDS),
    "fit_weights": lambda est: fit(est.set_params(max_sample_weight=2.0), sample_weight=np.ones(N)),
    "fit_no_nulls": lambda est: fit(est.set_params(drop_nulls=False)),
    "plan": planned,
    "plan_removed": plan_removed,
    "plan_units": plan_units,
    "plan_no_nulls": lambda est: planned(est.set_params(drop_nulls=False)),
    "count_and_fit": count_and_fit,
    "count_twice_and_fit_the_first": count_twice_and_fit_the_first,
    "sum_and_fit": lambda est: est.partial_fit(X, total_records=N).fit_statistics(),
}
# Everything else that is public, with arguments. Most need a release, so a fit comes first there.
ASKS = {
    "_chosen_mechanism": lambda est: est._chosen_mechanism(D),
    "plan": lambda est: est.plan(N, D),
    "_public_inputs": lambda est: est._public_inputs(N, D),
    "public_parameters": lambda est: est.public_parameters(N, D),
    "grid": lambda est: est.grid(N, D),
    "_request": lambda est: est._request(D),
    "open": lambda est: est.open(CALLS[:50]),
    "fit_watched": lambda est: est.fit_watched(CALLS),
    "_count": lambda est: est._count(X, PrivacyUnit.checked(est)),
    "partial_fit": lambda est: est.partial_fit(X[:10], total_records=10),
    "fit_statistics": lambda est: est.fit_statistics(),
    "certified": lambda est: est.certified(planned(est)),
    "cautions": lambda est: est.cautions(planned(est)),
    "components": lambda est: fit(est).components(2),
    "conditional": lambda est: fit(est).conditional({1: 0.0}, features=[0]),
    "covariance_interval": lambda est: fit(est).covariance_interval(),
    "error_norm": lambda est: fit(est).error_norm(np.eye(D)),
    "get_precision": lambda est: fit(est).get_precision(),
    "labelled_covariance": lambda est: fit(est).labelled_covariance(),
    "log_likelihood": lambda est: fit(est).log_likelihood(X[:3]),
    "mahalanobis": lambda est: fit(est).mahalanobis(X[:3]),
    "pairs": lambda est: fit(est).pairs(),
    "plot": lambda est: fit(est).plot(),
    "synthesize": lambda est: fit(est).synthesize(3, random_state=1).table(),
    "partial_correlations": lambda est: fit(est).partial_correlations(),
    "regression": lambda est: fit(est).regression(0),
    "association": lambda est: fit(est).association(0, 1),
    "logistic": lambda est: fit(est).logistic(0, [1]),
    "variances": lambda est: fit(est).variances(),
    "window": lambda est: fit(est).window(0, 2),
    "set_output": lambda est: est.set_output(transform="pandas"),
}
# Called by the runs above, or without any effect on a fit: files, pages, and scikit-learn's own.
CALLED = {"fit", "set_params"}
ASIDE = {
    *("export", "report", "save", "get_params", "get_metadata_routing"),
    *("set_fit_request", "set_partial_fit_request"),
    "score",  # shown by the class alone: it raises an error in an object
}


def outcome(call, est):
    """Everything that a call releases, plans or refuses, without the time at which it did."""
    with watched_releases() as seen:
        try:
            found = call(est)
        except (HushcovError, TypeError, AttributeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
    if isinstance(found, Plan) or hasattr(found, "budget"):
        return found.budget(private=False).certificate.to_dict()
    release = found.release_
    if seen:
        check_view(release.guarantee, *seen)
    return (
        getattr(release.integers, "toarray", release.integers.copy)().tolist(),
        release.guarantee.to_dict(),
        repr(replace(release.making, made=None)),
        dict(release.parameters),
    )


@contextmanager
def watched_releases():
    seen, release = [], Plan.release

    def watched(self, records, entropy):
        seen[:] = [self.request.neighbours, records]
        return release(self, records, entropy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "release", watched)
        yield seen


def check_view(guarantee, neighbours, records):
    """What is certified for units or removed records is read through a count and bounded units."""
    relation = "add-remove" in guarantee.adjacency
    assert (neighbours.relation == ADD_REMOVE) == relation
    assert (neighbours.unit, neighbours.most_rows) == (guarantee.unit, guarantee.rows_per_unit)
    single = (relation, guarantee.unit, guarantee.rows_per_unit) == (False, RECORD, 1)
    assert isinstance(records, CountedRecords) != single
    if guarantee.unit != RECORD:
        assert records.n_rows == N // ROWS * min(ROWS, guarantee.rows_per_unit)


def every_first_call(est):
    public = {
        name
        for name in dir(type(est))
        if not name.startswith("_") and callable(getattr(type(est), name))
    }
    private = {name for name in ASKS if name.startswith("_") and hasattr(est, name)}
    unknown = public - set(ASKS) - CALLED - ASIDE
    assert not unknown, f"call these before every run, too: {unknown}"
    asks = [(name, ASKS[name]) for name in sorted(public & set(ASKS) | private)]
    return asks + list(RUNS.items())


def search(name, firsts=None):
    """Every first call before every run; what differs from a run on a new estimator."""
    fresh = {each: outcome(run, made(name)) for each, run in RUNS.items()}
    found, n_pairs = [], 0
    for first, call in every_first_call(made(name)):
        if firsts and first not in firsts:
            continue
        options = made(name).get_params()
        for second, run in RUNS.items():
            est = made(name)
            with suppress(HushcovError, TypeError, AttributeError, ValueError):
                call(est)
            est.set_params(**options)
            summed = hasattr(est, "statistics_") or second == "sum_and_fit"
            if summed and first in ("partial_fit", "sum_and_fit", "fit_statistics"):
                continue  # sums are kept for the next call on purpose
            n_pairs += 1
            again = outcome(run, est)
            # Who has released takes no more sums; a new estimator would.
            if again != fresh[second] and "must come before the release" not in str(again):
                found.append(f"{first}, then {second}: {str(again)[:200]}")
    return found, n_pairs, fresh


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in FAST else pytest.mark.slow) for each in CASES]
)
def test_two_calls_are_as_the_second_alone(name):
    found, n_pairs, fresh = search(name)
    assert not found
    assert n_pairs > 100
    assert sum(not isinstance(each, str) for each in fresh.values()) >= 1  # some do release


def test_the_search_finds_state_that_is_kept(monkeypatch):
    """The defect that it was written for: plans made with what the last fit had counted."""
    honest = GaussianCovariance._request_for

    def forgetful(self, n_features, privacy_unit):
        kept, request = self.__dict__.get("counted_"), honest(self, n_features, privacy_unit)
        return request if kept is None else replace(request, neighbours=kept.neighbours)

    monkeypatch.setattr(GaussianCovariance, "_request_for", forgetful)
    found, *_ = search("GaussianCovariance", ("fit", "fit_units"))
    assert any("fit_units, then plan:" in each for each in found)
    assert not any(each.startswith("fit,") for each in found)
    found = {name for name in dir(hushcov) if name.endswith("Covariance")}
    assert {*CASES, "ThresholdedCovariance"} == found


def test_certificates_know_their_noise_and_wrong_options_are_refused_before_the_count(tmp_path):
    est = PrivateSparseCovariance(**BUDGET, **INSISTS, neighbours=ADD_REMOVE)
    opened = est._count(X, PrivacyUnit.checked(est))
    est.set_params(random_state=None)._fit_counted(opened)
    assert not est.release_.guarantee.private
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=9.0, delta=1e-2, neighbours=ADD_REMOVE)
    est = GaussianCovariance(
        **{**BUDGET, "random_state": None}, threshold="loud", neighbours=ADD_REMOVE
    ).set_params(ledger=ledger, dataset="people")
    with pytest.raises(ParameterError, match="threshold"):
        est.fit(X)
    with pytest.raises(ParameterError, match=r"epsilon must be .* got 20"):
        est.set_params(epsilon=20.0, threshold=None).fit(X)
    assert not ledger.history("people")
