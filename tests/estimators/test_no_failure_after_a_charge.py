"""No combination of public settings fails after a charge: it is refused before, or released.

Settings are drawn at random, with the largest and smallest numbers that are allowed among them.
"""

from __future__ import annotations

import random
from contextlib import contextmanager

import numpy as np
import pytest

from hushcov import PrivateSparseCovariance
from hushcov.bounds import check_bounds
from hushcov.estimators.base import PrivateCovariance
from hushcov.exceptions import DataError, HushcovError, ParameterError, TooFewCompleteError
from statistics_helpers import short_and_long

N, D = 60, 3
_RNG = np.random.default_rng(0)
TABLES = {
    "normal": _RNG.normal(size=(N, D)),
    "positive": np.exp(_RNG.normal(size=(N, D))),
    "zeros": np.zeros((N, D)),
    "mixed": np.column_stack([np.ones(N), np.arange(N) % 2, 1e6 * _RNG.normal(size=N)]),
    "huge": 1e300 * _RNG.normal(size=(N, D)),
}
TRANSFORMS = (
    *("none", "log:0.01", "log:1e-300", "log", "log1p", "sqrt", "square", "square:0.5"),
    *("square:1e200", "winsorise", "winsorise:0.25", "rank"),
)
BOUNDS = (
    *((None, None), (0, 1), (None, 1), (0, None), (-3, 3), (2, 2), (0, 1e90), (-1e90, 1e90)),
    *((0, 1e-90), (1e89, None), (None, -1e50), (1e60, 2e60), (0, 1e-44), (0, 1e300), (0, 5e-324)),
)
MECHANISMS = (
    *({}, {"mechanism": "screened", "row_sparsity": 2}, {"mechanism": "gaussian"}),
    *({"bandwidth": 1}, {"candidate_pairs": [(0, 1)]}, {"mechanism": "separate"}),
    *({"mechanism": name, "row_sparsity": 2} for name in ("row-top-k", "pace", "multiscale")),
    *({"mechanism": name} for name in ("coinpress", "eigen-sampling", "gaussian-threshold")),
)
WHOSE = {
    "records": ({}, {}),
    "units": ({}, {"unit": np.arange(N) // 3}),
    "few rows of a unit": ({"max_rows_per_unit": 2}, {"unit": np.arange(N) // 3}),
    "means of units": ({"estimand": "unit-means"}, {"unit": np.arange(N) // 3}),
    "weights": ({"max_sample_weight": 2.0}, {"sample_weight": np.ones(N)}),
}
OTHERS = (
    *({"assume_centered": True}, {"feature_scale": 1.0}, {"feature_scale": [0, 1e-100, 1e100]}),
    *({"neighbours": "add-remove"}, {"transforms": "rank"}, {"marginals": 0.1}, {"device": "cpu"}),
    *({"drop_nulls": False}, {"positive_semidefinite": True}, {"sparse_output": True}),
)


def drawn(seed):
    """Options of an estimator, arguments of `fit`, and the name of a table."""
    rng = random.Random(seed)
    options = {"epsilon": rng.choice([1e-300, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0])}
    options |= {"delta": rng.choice([1e-300, 1e-9, 1e-2]), "random_state": seed}
    options |= {"on_hopeless": "warn", "on_large_delta": "warn"} | rng.choice(MECHANISMS)
    if rng.random() < 0.7:
        options["transforms"] = [rng.choice(TRANSFORMS) for _ in range(D)]
    if rng.random() < 0.7:
        usual = rng.random() < 0.9  # else some that are refused
        options["bounds"] = {i: rng.choice(BOUNDS[:-2] if usual else BOUNDS) for i in range(D)}
    for each in OTHERS:
        options |= each if rng.random() < 0.15 else {}
    more, given = rng.choice(list(WHOSE.values()))
    return options | more, given, rng.choice(list(TABLES))


@pytest.fixture
def charged(monkeypatch):
    """How many charges were made."""
    found, right = [], PrivateCovariance._charged

    @contextmanager
    def noted(self, *given, **named):
        with right(self, *given, **named):
            found.append(1)
            yield

    monkeypatch.setattr(PrivateCovariance, "_charged", noted)
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@short_and_long("seeds", range(25), range(100, 700))
def test_settings_are_refused_before_a_charge_or_not_at_all(charged, seeds):
    released, failed = 0, []
    for seed in seeds:
        options, given, table = drawn(seed)
        charged.clear()
        try:
            PrivateSparseCovariance(**options).fit(TABLES[table], **given)
            released += 1
        except TooFewCompleteError:
            pass  # that is what was released: too few for an estimate
        except HushcovError as error:
            failed += [(seed, options, list(given), table, str(error))] if charged else []
    assert not failed
    assert released > len(seeds) / 10


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_squares_of_an_unbounded_column():
    """Bounds of another column made theirs 1e300, and the fit stopped after its first charge."""
    about = {"epsilon": 1.0, "delta": 1e-3, "on_hopeless": "warn", "on_large_delta": "warn"}
    known = {"bounds": {0: (-3, 3)}, "transforms": {1: "square:0"}, "random_state": 0}
    est = PrivateSparseCovariance(**about, **known).fit(TABLES["normal"])
    assert est.release_.making.bounds[3] == (0.0, None)


@pytest.mark.parametrize("pair", [(0, 1e91), (-1e91, None), (0, 1e-91), (1e-300, 2e-300)])
def test_bounds_between_which_no_scale_can_be_are_refused(pair):
    with pytest.raises(ParameterError, match=r"bounds must be from -1e\+90 to 1e\+90, and equal"):
        check_bounds({0: pair}, 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_noise_that_cannot_be_drawn_is_refused_before_the_charge(charged):
    about = {"delta": 1e-9, "on_hopeless": "warn", "on_large_delta": "warn"}
    for epsilon, more, words in (
        (1e-12, {}, "epsilon must be larger to find means and scales of 3 features"),
        (1e-9, {"neighbours": "add-remove"}, "epsilon must be at least 2e-07 where the number"),
    ):
        with pytest.raises(ParameterError, match=words):
            PrivateSparseCovariance(epsilon=epsilon, **about, **more).fit(TABLES["normal"])
    means = PrivateSparseCovariance(epsilon=1.0, **about, estimand="unit-means", device="cpu")
    with pytest.raises(DataError, match="got others or a device"):
        means.fit(TABLES["normal"], unit=np.arange(N) // 3)
    assert not charged
