"""Options: what each class takes, that it stores them as they are, and that it describes them."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest
from sklearn.base import clone

import hushcov
from hushcov.estimators.base import PrivateCovariance
from hushcov.estimators.options import documented, with_options
from hushcov.estimators.scaled import ApproximateCovariance

CLASSES = [getattr(hushcov, name) for name in hushcov.__all__ if name.endswith("Covariance")]
PRIVATE = [cls for cls in CLASSES if issubclass(cls, PrivateCovariance)]
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)

EVERYWHERE = {
    *("epsilon", "row_sparsity", "store_precision", "assume_centered", "device", "random_state"),
    *("ledger", "dataset"),
}
WHOSE = {"neighbours", "max_rows_per_unit", "estimand", "max_sample_weight"}
SCALED = WHOSE | {"feature_scale", "positive_semidefinite"}
APPROXIMATE = SCALED | {"delta", "on_large_delta", "drop_nulls"}
CENTRED = APPROXIMATE | {"bounds", "on_hopeless"}
TOLD = CENTRED | {"bandwidth", "candidate_pairs"}
OPTIONS = {
    "PrivateSparseCovariance": TOLD | {"sparse_output", "mechanism", "adaptive_width"},
    "ScreenedCovariance": TOLD | {"sparse_output", "threshold"},
    "GaussianCovariance": TOLD | {"row_norm", "threshold"},
    "MultiscaleCovariance": {
        *("delta", "on_large_delta", "on_hopeless", "scale", "target_error"),
        *("failure_probability", "constants", "reconstruction"),
    },
    "RowTopKCovariance": CENTRED | {"radius"},
    "SeparateCovariance": CENTRED | {"method", "row_norm"},
    "CoinPressCovariance": CENTRED | {"n_steps", "eigenvalue_bounds"},
    "GenotypeCovariance": {
        *("delta", "on_large_delta", "on_hopeless", "bandwidth", "candidate_pairs", "window_bp"),
        *("frequencies", "positions", "chromosomes", "neighbours"),
    },
    "EigenSamplingCovariance": SCALED | {"row_norm", "allocation"},
}

# Options that mean nothing to a class.
FIXED = {
    "GenotypeCovariance": {"row_sparsity", "store_precision", "assume_centered", "device"},
}


@pytest.mark.parametrize("cls", PRIVATE, ids=lambda cls: cls.__name__)
def test_each_class_takes_the_options_that_mean_something_to_it(cls):
    shared = EVERYWHERE - FIXED.get(cls.__name__, set())
    assert set(inspect.signature(cls).parameters) == shared | OPTIONS[cls.__name__]


def test_shared_options_have_one_default():
    defaults = {}
    for cls in PRIVATE:
        for name, option in inspect.signature(cls).parameters.items():
            defaults.setdefault(name, set()).add(option.default)
    different = {name for name, values in defaults.items() if len(values) > 1}
    # The paper assumes that means are zero.
    assert different == {"assume_centered", "threshold"}


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
    for name, entry in described.items():
        assert entry.count("\n    ") >= 1, name
    assert cls.__doc__.count("Parameters\n---") == 1
    assert cls.__doc__.count("Attributes\n---") == 1
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
    assert estimator.get_params().keys() == EVERYWHERE | APPROXIMATE | {"knob"}
    assert estimator.device == "cuda"
    assert estimator != clone(estimator)
    assert len({estimator, clone(estimator)}) == 2


def test_its_docstring_is_completed_in_place():
    described = documented(_Own.__doc__, "Parameters")
    names = ["epsilon", "delta", "row_sparsity", "feature_scale", "ledger", "knob"]
    assert list(described)[: len(names)] == names
    assert described["ledger"] == "ledger : str\n    Other words."
    shared = documented(PrivateCovariance.__doc__, "Parameters")
    assert described["dataset"] == shared["dataset"]
    assert _Own.__doc__.startswith("An estimator of one's own.\n\nParameters\n----------\nepsilon")
    assert "\n\nNotes\n-----\nThe end." in _Own.__doc__
