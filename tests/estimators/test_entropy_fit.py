"""Whole fits draw from one secret source, which is gone afterwards; seeded fits say so on disk."""

from __future__ import annotations

import gc
import json
import math
import random
import sys
import types
import warnings

import numpy as np
import pytest

from estimators.settings import RECORDS
from hushcov import (
    CoinPressCovariance,
    EigenSamplingCovariance,
    GaussianCovariance,
    GenotypeCovariance,
    MultiscaleCovariance,
    PrivateSparseCovariance,
    RowTopKCovariance,
    ScreenedCovariance,
    SeparateCovariance,
)
from hushcov.exceptions import AccuracyWarning, SeededNoiseWarning
from hushcov.noise import entropy
from hushcov.paper import (
    CalibratedInputs,
    Design,
    calibrated_parameters,
    grid_for,
    release_multiscale,
)
from hushcov.postprocess import eigen
from hushcov.sums.gram import second_moments
from hushcov.tables.sources import ArrayRecords

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2}
MAKE = {
    "screened": lambda: ScreenedCovariance(**BUDGET),
    "gaussian": lambda: GaussianCovariance(**BUDGET),
    "row_top_k": lambda: RowTopKCovariance(**BUDGET),
    "coinpress": lambda: CoinPressCovariance(**BUDGET),
    **{
        f"separate, {name}": lambda name=name: SeparateCovariance(**BUDGET, method=name)
        for name in ("gauss", "separate", "adaptive")
    },
    "eigen_sampling": lambda: EigenSamplingCovariance(
        epsilon=1.0, feature_scale=1.0, assume_centered=True
    ),
    **{
        f"sparse, {name}": lambda name=name: PrivateSparseCovariance(**BUDGET, mechanism=name)
        for name in ("auto", "screened", "gaussian-threshold", "gaussian", "multiscale")
    },
    "multiscale": lambda: MultiscaleCovariance(
        **BUDGET, scale=1.0, constants="calibrated", reconstruction="value"
    ),
    "candidates": lambda: PrivateSparseCovariance(**BUDGET, bandwidth=2, sparse_output=False),
    "genotypes": lambda: GenotypeCovariance(
        epsilon=1.0, delta=1e-6, bandwidth=1, neighbours="add-remove", on_hopeless="warn"
    ),
}
ROWS = {"genotypes": (RECORDS > 0).astype(np.int8) + (RECORDS > 1)}


@pytest.fixture(autouse=True)
def _few_records_will_do():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        yield


def forbid_generators(monkeypatch):
    """Make every function and class of `random` and `np.random` raise, but for `Generator`.

    What is made of released numbers may draw from fixed seeds (tests/noise/test_entropy_guard.py).
    """
    bits = np.random.PCG64

    def refuse(*args, **_):
        if sys._getframe(1).f_globals["__name__"] == eigen.__name__:
            return np.random.Generator(bits(*args))
        raise AssertionError("a private fit asked for another generator")

    for module in (np.random, random):
        for name, item in vars(module).copy().items():
            kept = name.startswith("_") or name == "Generator"
            if not kept and callable(item) and not isinstance(item, types.ModuleType):
                monkeypatch.setattr(module, name, refuse)


@pytest.fixture
def _what_is_there_stays():
    """Looking for garbage then takes no time: only objects made from here on are looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_what_is_there_stays")
@pytest.mark.parametrize("name", MAKE)
def test_a_private_fit_asks_one_secret_source_and_keeps_it_not(name, monkeypatch):
    """Plans draw from seeds; they are public, and the first fit leaves them in their caches."""
    estimator, rows = MAKE[name](), ROWS.get(name, RECORDS)
    first = estimator.fit(rows).release_
    global_states = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    gc.collect()
    living, keys, draw_key = len(entropy._living), [], entropy.secrets.randbits
    with monkeypatch.context() as patched:
        patched.setattr(entropy.secrets, "randbits", lambda n: keys.append(n) or draw_key(n))
        forbid_generators(patched)
        with pytest.raises(AssertionError):
            np.random.default_rng()
        second = estimator.fit(rows).release_
    assert keys == [256]
    gc.collect()
    assert len(entropy._living) == living
    assert np.array_equal(global_states[0], np.random.get_state()[1])  # noqa: NPY002
    assert global_states[1] == random.getstate()
    assert first.guarantee.private
    assert second.guarantee.private
    if "multiscale" not in name:  # whose entries are zero where little was found
        integers = (
            each.integers.toarray() if name == "genotypes" else each.integers
            for each in (first, second)
        )
        assert not np.array_equal(*integers)


def test_a_release_by_gates_asks_no_other_generator(monkeypatch):
    inputs = CalibratedInputs(len(RECORDS), 10, 2, 1.0, 1e-6, 1.0)
    design = Design(3.0, 2.0**-5, 5, 0.25, 1.0, 0.5, 0.7, math.inf, 0.0)
    parameters = calibrated_parameters(inputs, design, "gate")
    moments = second_moments(ArrayRecords(RECORDS), grid_for(parameters))
    with monkeypatch.context() as patched:
        forbid_generators(patched)
        release = release_multiscale(moments, parameters, entropy.entropy_source())
    assert release.guarantee.private


@pytest.mark.parametrize("name", MAKE)
def test_a_seeded_fit_says_on_disk_that_it_is_not_private(name, tmp_path):
    states = ((None, True), (0, False), (np.random.default_rng(0), False))
    for number, (random_state, private) in enumerate(states):
        estimator = MAKE[name]().set_params(random_state=random_state)
        rows = ROWS.get(name, RECORDS)
        if private:
            estimator.fit(rows)
        else:
            with pytest.warns(SeededNoiseWarning, match="NOT private"):
                estimator.fit(rows)
        assert estimator.release_.guarantee.private is private
        assert ("NOT PRIVATE" in str(estimator.release_.guarantee)) is not private
        written = estimator.release_.write(tmp_path / str(number)) / "release.json"
        assert json.loads(written.read_text())["guarantee"]["private"] is private
