"""Parameters of every class: which there are, how they are described, and what they refuse."""

import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import hushcov
from estimators.settings import BUDGET, PURE, RECORDS, D, setting, skip_search
from estimators.stand_ins import UntouchableRecords
from hushcov import Ledger
from hushcov._validation import shown
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import documented, with_options
from hushcov.estimators.scaled import ApproximateCovariance
from hushcov.exceptions import ParameterError

CLASSES = {name: getattr(hushcov, name) for name in dir(hushcov) if name.endswith("Covariance")}
PRIVATE = {name: cls for name, cls in CLASSES.items() if issubclass(cls, PrivateCovariance)}
each_class = pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
UNREAD = UntouchableRecords(*RECORDS.shape)

EVERYWHERE = {
    *("epsilon", "row_sparsity", "assume_centered", "device", "random_state"),
    *("ledger", "dataset"),
}
WHOSE = {"neighbours", "max_rows_per_unit", "estimand", "max_sample_weight"}
SCALED = WHOSE | {"feature_scale", "positive_semidefinite"}
APPROXIMATE = SCALED | {"delta", "on_large_delta", "drop_nulls", "on_invalid"}
CENTRED = APPROXIMATE | {"bounds", "transforms", "marginals", "on_hopeless"}
TOLD = CENTRED | {"bandwidth", "candidate_pairs"}
OPTIONS = {
    "PrivateSparseCovariance": TOLD | {"sparse_output", "mechanism", "purpose", "target", "basis"},
    "ScreenedCovariance": TOLD | {"sparse_output", "threshold"},
    "GaussianCovariance": TOLD | {"row_norm", "threshold", "purpose", "target", "basis"},
    "MultiscaleCovariance": {
        *("delta", "on_large_delta", "on_hopeless", "scale", "target_error"),
        *("failure_probability", "constants", "reconstruction"),
    },
    "RowTopKCovariance": CENTRED | {"radius"},
    "PaceCovariance": CENTRED | {"radius", "n_rounds"},
    "SeparateCovariance": CENTRED | {"method", "row_norm"},
    "CoinPressCovariance": CENTRED | {"n_steps", "eigenvalue_bounds"},
    "GenotypeCovariance": {
        *("delta", "on_large_delta", "on_hopeless", "bandwidth", "candidate_pairs", "window_bp"),
        *("frequencies", "positions", "chromosomes", "neighbours"),
    },
    "EigenSamplingCovariance": SCALED | {"row_norm", "allocation"},
}
# Options that mean nothing to a class.
FIXED = {"GenotypeCovariance": {"row_sparsity", "assume_centered", "device"}}


@pytest.mark.parametrize("name", PRIVATE)
def test_each_class_takes_the_options_that_mean_something_to_it(name):
    shared = EVERYWHERE - FIXED.get(name, set())
    assert set(inspect.signature(PRIVATE[name]).parameters) == shared | OPTIONS[name]


@each_class
def test_the_constructor_stores_what_it_gets_and_nothing_else(cls):
    given = {name: object() for name in cls().get_params()}
    estimator = cls(**given)
    assert vars(estimator) == given
    assert all(estimator.get_params()[name] is value for name, value in given.items())
    with pytest.raises(TypeError):
        cls(1.0)
    with pytest.raises(TypeError, match="'sparsity'"):
        cls(sparsity=2)


@each_class
def test_every_option_and_only_those_are_described(cls):
    described = documented(cls.__doc__, "Parameters")
    assert set(described) == set(inspect.signature(cls).parameters)
    assert all("\n    " in entry for entry in described.values())
    for section in ("Parameters", "Attributes"):
        assert cls.__doc__.count(f"{section}\n---") == 1
    assert documented(cls.__doc__, "Attributes").keys() > {"covariance_", "precision_", "support_"}


@with_options
class _Own(ApproximateCovariance):
    """An estimator of one's own.

    Parameters
    ----------
    ledger : str
        Other words.
    knob : int, default=3
        An option.

    Notes
    -----
    The end.
    """

    knob: int = 3
    device: str | None = "cuda"
    not_an_option = 5


def test_an_estimator_of_ones_own_has_the_options_of_its_bases():
    estimator = _Own(epsilon=1.0, knob=4)
    copies: list[Any] = [clone(estimator), pickle.loads(pickle.dumps(estimator))]
    for copy in copies:
        assert copy.get_params() == estimator.get_params()
        assert repr(copy) == "_Own(epsilon=1.0, knob=4)"
    assert estimator.get_params().keys() == EVERYWHERE | CENTRED | {"knob"}
    assert estimator.device == "cuda"
    assert len({estimator, clone(estimator)}) == 2
    described = documented(_Own.__doc__, "Parameters")
    assert list(described)[:3] == ["epsilon", "delta", "row_sparsity"]
    assert list(described)[-2:] == ["random_state", "knob"]
    assert described["ledger"] == "ledger : str\n    Other words."
    shared = documented(PrivateCovariance.__doc__, "Parameters")
    assert described["dataset"] == shared["dataset"]
    assert _Own.__doc__.startswith("An estimator of one's own.\n\nParameters\n----------\nepsilon")
    assert "\n\nNotes\n-----\nThe end." in _Own.__doc__


ODD = [math.nan, math.inf, "1", True, [1.0], np.ones(2)]
ROW_NORMS = [0, -1.0, *ODD[:5], 1j]
SCALES = {
    " be 0": [-1.0, np.nan, 1e-200, [None] * D, np.where(np.arange(D) == 3, np.inf, 1.0)],
    "one for each of 10 features": [np.ones(D - 1), np.ones((D, 1))],
    "got list": [[[1.0], [1.0, 2.0]]],
    "got str": ["1.0"],
    "got bool": [True],
    "got ndarray": [np.ones(D, dtype=bool), np.ones(D) + 1j],
    "got MaskedArray": [np.ma.masked_array(np.ones(D), mask=np.eye(D)[0])],
    "got dict": [{"gene 0": 1.0}],
}
FLAG, WORD = [1, 0, "no", None], ["best", None, 7, ["auto"]]
BAD = {
    "epsilon": [None, 0, -1.0, 10.5, *ODD],
    "delta": [None, 0, 0.2, 1, math.nan, "1e-6", [1e-6], np.array([1e-6])],
    "row_sparsity": [0, D + 1, 10**6, 2.0, "2", True, [2], np.arange(3)],
    **dict.fromkeys(("positive_semidefinite", "assume_centered"), FLAG),
    "drop_nulls": FLAG,
    "random_state": [-1, 1.5, "seed", True, [1]],
    **dict.fromkeys(("on_hopeless", "on_large_delta", "on_invalid"), WORD),
    **dict.fromkeys(("neighbours", "estimand", "purpose"), WORD),
    **dict.fromkeys(("mechanism", "method", "allocation", "constants", "reconstruction"), WORD),
    "target": [-1, D, 1.5, "nobody", True],
    "basis": [np.eye(D - 1), 7],
    "max_rows_per_unit": [0, 2.0, "2", True, [2]],
    "max_sample_weight": [0, -1.0, *ODD],
    "feature_scale": [value for values in SCALES.values() for value in values],
    "row_norm": ROW_NORMS,
    "threshold": [-0.1, math.nan, math.inf, True, False, [0.1]],
    "sparse_output": ["yes", None, 7],
    "bandwidth": [-1, 2.0, "2", True, [2]],
    "candidate_pairs": [7, np.ones((D - 1, D - 1), dtype=bool)],
    "bounds": [7, np.ones((D - 1, 2)), "wide"],
    "transforms": [7, "ln", ["log1p"], {0: "log"}, {D: "sqrt"}, ["sqrt:2"] * D],
    "marginals": [0, -1.0, 0.6, *ODD],
    "radius": [0, -1.0, 1e-9, 1e9, math.nan, "4", True, [4.0]],
    "n_rounds": [0, -1, 10**7, 2.0, "3", True],
    "n_steps": [0, -1, 21, 2.0, "3", True, None],
    "eigenvalue_bounds": [
        *(3.0, "ab", (1.0,), (1, 2, 3), {1.0, 2.0}, {0: 1.0, 1: 2.0}, np.array(1.0), iter("ab"))
    ],
    "scale": [None, 0, -1.0, *ODD],
    "target_error": [None, 0, -1.0, *ODD],
    "failure_probability": [None, 0, -1.0, *ODD],
}
OWN = {
    ("ScreenedCovariance", "row_sparsity"): [None],
    ("RowTopKCovariance", "row_sparsity"): [None],
    ("MultiscaleCovariance", "row_sparsity"): [None],
    ("EigenSamplingCovariance", "feature_scale"): [None],
    ("GaussianCovariance", "threshold"): ["auto"],
    ("ScreenedCovariance", "threshold"): [101, "universal"],
}
# Tests of their own: test_ledger_fit.py, the tensors of sums, and genotypes/tests.
ELSEWHERE = {"device", "ledger", "dataset"}
REFUSING = {
    **{name: BUDGET for name in PRIVATE if name != "GenotypeCovariance"},
    "EigenSamplingCovariance": PURE,
    "MultiscaleCovariance": BUDGET | {"scale": 1.0, "constants": "calibrated"},
}
UNSAID = ("feature_scale", "bounds", "transforms", "candidate_pairs", "max_sample_weight")


def test_every_parameter_has_values_that_mean_nothing():
    known = {name for cls in REFUSING for name in inspect.signature(PRIVATE[cls]).parameters}
    assert known - ELSEWHERE == set(BAD)
    defaults = {}
    for cls in PRIVATE.values():
        for name, option in inspect.signature(cls).parameters.items():
            defaults.setdefault(name, set()).add(option.default)
    different = {name for name, values in defaults.items() if len(values) > 1}
    # The paper assumes that means are zero.
    assert different == {"assume_centered", "threshold"}


@pytest.mark.filterwarnings("ignore::hushcov.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize(
    ("cls", "name"),
    [(cls, name) for cls in REFUSING for name in BAD if name in CLASSES[cls]().get_params()],
)
def test_what_means_nothing_is_refused_uncharged_and_unread(cls, name, tmp_path, monkeypatch):
    """With the name of the parameter, its value, a cure, and no trace of a fit."""
    skip_search(monkeypatch)
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=1.0, delta=1e-6)
    for value in (*BAD[name], *OWN.get((cls, name), ())):
        given = REFUSING[cls] | {"ledger": ledger, "dataset": "people", name: value}
        estimator = CLASSES[cls](**given)
        with pytest.raises(ParameterError, match=rf"^{name}(\S*) (must|is required)") as info:
            estimator.fit(UNREAD)
        assert value is None or name in UNSAID or shown(value) in str(info.value)
        assert ": " in str(info.value)  # a cure follows
        assert vars(estimator) == given | {
            k: v for k, v in CLASSES[cls]().get_params().items() if k not in given
        }
    assert ledger.history("people") == ()


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
        setting("coinpress", eigenvalue_bounds=bounds).fit(UNREAD)
