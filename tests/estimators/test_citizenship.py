"""scikit-learn's tools around the private estimators: what works, what is refused, what is kept."""

import dataclasses
import pickle

import numpy as np
import polars as pl
import pytest
from sklearn import config_context, model_selection
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import hushcov
from estimators.settings import BUDGET, RECORDS, D
from hushcov import Ledger
from hushcov.exceptions import ParameterError
from hushcov.kernel.records.base import Records

PUBLIC = np.random.default_rng(5).normal(size=(40, D))
PURE = {"epsilon": 1.0, "row_sparsity": 2, "feature_scale": 1.0, "assume_centered": True}
CALIBRATED = {"scale": 1.0, "constants": "calibrated", "reconstruction": "value"}
PARAMETERS = {"EigenSamplingCovariance": PURE, "MultiscaleCovariance": BUDGET | CALIBRATED}
PRIVATE = [
    name
    for name in dir(hushcov)
    if name.endswith("Covariance")
    # The one is not private, the other has other records, and tests of its own.
    and name not in ("ThresholdedCovariance", "GenotypeCovariance")
]
GRID = {"row_sparsity": [2, 3]}


def private(name, **changes):
    return getattr(hushcov, name)(**PARAMETERS.get(name, BUDGET) | changes)


def gaussian(**changes):
    return private("GaussianCovariance", feature_scale=1.0, **changes)


def of_public_rows(estimator, X, y=None):
    estimator = estimator[-1] if hasattr(estimator, "steps") else estimator
    return estimator.log_likelihood(PUBLIC)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=5.0, delta=1e-6)
    return ledger


def charges(ledger):
    return len(ledger.history("people"))


def test_a_ledger_pays_for_a_search_that_scores_public_rows(ledger):
    estimator = gaussian(ledger=ledger, dataset="people")
    search = model_selection.GridSearchCV(estimator, GRID, scoring=of_public_rows, cv=2)
    assert search.fit(RECORDS).best_params_["row_sparsity"] in (2, 3)
    assert charges(ledger) == 5  # two candidates, two folds, and the refit
    assert search.best_estimator_.receipt_ == ledger.history("people")[-1]
    # Noise may make an estimate singular, whose score is minus infinity.
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    pipeline = make_pipeline(FunctionTransformer(), estimator)
    options = {"cv": 2, "scoring": of_public_rows, "error_score": "raise"}
    assert not np.isnan(model_selection.cross_val_score(pipeline, RECORDS, **options)).any()
    assert charges(ledger) == 7


UNITS = np.repeat(np.arange(len(RECORDS) // 2), 2)
WEIGHTS = np.tile([1.0, 2.0], len(RECORDS) // 2)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"unit": UNITS}, {"max_rows_per_unit": 2}),
        ({"sample_weight": WEIGHTS}, {"max_sample_weight": 2.0}),
    ],
    ids=["unit", "sample_weight"],
)
def test_metadata_is_routed(given, options, ledger):
    """Through a pipeline, and cross-validation, which hands each fold its part of it."""
    (name,) = given
    estimator = gaussian(epsilon=1.0, ledger=ledger, dataset="people", **options)
    if name == "unit":
        ledger.open_dataset("visits", epsilon=15.0, delta=1e-6, unit="unit")
        estimator.set_params(dataset="visits", epsilon=3.0)
    with config_context(enable_metadata_routing=True):
        estimator.set_fit_request(**{name: True})
        pipeline = make_pipeline(FunctionTransformer(), estimator).fit(RECORDS, **given)
        found = model_selection.cross_validate(
            pipeline,
            RECORDS,
            params=given,
            cv=2,
            scoring=of_public_rows,
            return_estimator=True,
            error_score="raise",
        )
    fitted = [pipeline, *found["estimator"]]
    assert all(each[-1].counted_ is not None for each in fitted)  # rows were counted privately
    if name == "unit":
        assert {each[-1].release_.guarantee.rows_per_unit for each in fitted} == {2}


def frames_of(estimator):
    return type(estimator.labelled_covariance()).__module__.partition(".")[0]


def test_polars_in_polars_out():
    names = list("abcdefghij")
    table = pl.DataFrame(RECORDS, schema=names)
    estimator = gaussian().fit(table)
    assert frames_of(estimator) == "polars"
    assert list(estimator.feature_names_in_) == names
    assert estimator.labelled_covariance()["feature"].to_list() == names
    grouped = gaussian(max_rows_per_unit=2).fit(table.with_columns(who=UNITS), unit="who")
    assert frames_of(grouped) == "polars"
    assert list(grouped.feature_names_in_) == names
    assert frames_of(pickle.loads(pickle.dumps(estimator))) == "polars"
    assert frames_of(estimator.fit(RECORDS)) == "pandas"
    assert frames_of(estimator.fit(table.to_pandas())) == "pandas"
    estimator = gaussian().set_output(transform="polars")
    assert frames_of(estimator.fit(RECORDS)) == "polars"
    assert estimator.set_output() is estimator
    copy = clone(estimator)
    assert not hasattr(copy, "release_")
    assert frames_of(copy.fit(RECORDS)) == "polars"
    assert frames_of(estimator.set_output(transform="default")) == "pandas"
    with config_context(transform_output="polars"):
        assert frames_of(estimator.fit(RECORDS)) == "pandas"  # "default" was asked for
        assert frames_of(gaussian().fit(RECORDS)) == "polars"
    assert estimator.labelled_covariance("polars").shape == (D, D + 1)
    with pytest.raises(ParameterError, match="transform must be one of"):
        estimator.set_output(transform="arrow")
    make_pipeline(FunctionTransformer(), estimator).set_output(transform="pandas")


def reachable(value, seen):
    """Everything that an object refers to, through attributes, containers, arrays and closures."""
    if id(value) in seen or isinstance(value, type | str | bytes | int | float | bool | None):
        return
    seen[id(value)] = value  # kept, so that no other object gets its id
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif isinstance(value, np.ndarray):
        inner = [value.base, *(value.ravel() if value.dtype == object else ())]
    else:
        slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
        closure = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        inner = [getattr(value, name) for name in slots if hasattr(value, name)]
        inner += [*getattr(value, "__dict__", {}).values(), *closure]
        inner += [getattr(value, "__self__", None)]
    for each in inner:
        reachable(each, seen)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, {}) for name in PRIVATE),
        ("GaussianCovariance", {"unit": UNITS}),
        ("GaussianCovariance", {"sample_weight": WEIGHTS}),
    ],
)
def test_a_fitted_estimator_refers_to_no_record(name, given):
    X = RECORDS.copy()
    options = {"max_sample_weight": 2.0} if "sample_weight" in given else {}
    estimator = private(name, **options).fit(X, **given)
    pickle.dumps(estimator)
    found = {}
    reachable(vars(estimator), found)
    assert len(found) > 10
    assert any(isinstance(value, np.ndarray) for value in found.values())
    assert not any(isinstance(value, Records) for value in found.values())
    for array in (value for value in found.values() if isinstance(value, np.ndarray)):
        assert not np.shares_memory(array, X)
        assert not {len(X), len(X) // 2} & set(array.shape)


def test_the_search_for_references_finds_them():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Holder:
        rows: object

    rows = RECORDS.copy()
    for hidden in (Holder([rows]), lambda: rows, rows[3:5].T, {"a": (rows.sum,)}):
        found = {}
        reachable({"kept": hidden}, found)
        assert any(value is rows for value in found.values())
