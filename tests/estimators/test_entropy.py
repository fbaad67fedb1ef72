"""Whole fits draw from one secret source, which is gone afterwards; seeds are said everywhere."""

import gc
import json
import random
import sys
import types
import warnings

import numpy as np
import pytest

from estimators.settings import KNOWN, RECORDS, SETTINGS, make, setting, skip_search
from estimators.site_settings import BILLION, BLOCK, multiscale, summed
from estimators.stand_ins import RepeatedRecords
from hushcov import GenotypeCovariance, Ledger, MultiscaleCovariance, PrivateSparseCovariance
from hushcov.exceptions import AccuracyWarning, PrivacyWarning, SeededNoiseWarning
from hushcov.kernel.accounting.ledger import as_charge
from hushcov.kernel.noise import entropy
from hushcov.postprocess import structure

MANY = RepeatedRecords(BLOCK, 10**6)
GENOTYPES = (RECORDS > 0).astype(np.int8) + (RECORDS > 1)
INSIST = {"on_hopeless": "warn", "on_large_delta": "warn"}


def calibrated(**options):
    known = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2, "scale": 1.0}
    return MultiscaleCovariance(**known, constants="calibrated", **options)


def genotypes(**options):
    return GenotypeCovariance(epsilon=1.0, delta=1e-6, bandwidth=1, **INSIST, **options)


def nothing_known(name):
    """Of classes that find means; others are told that there are none."""
    known = {} if "eigen_sampling" in name else {"assume_centered": False}
    return lambda **options: setting(name, **known, **options)


MAKE = {
    **{name: nothing_known(name) for name in SETTINGS},
    **{
        f"sparse, {name}": lambda name=name, **o: make(PrivateSparseCovariance, mechanism=name, **o)
        for name in ("screened", "gaussian-threshold", "gaussian", "multiscale")
    },
    "multiscale": lambda **options: calibrated(reconstruction="value", **options),
    "candidates": lambda **o: make(PrivateSparseCovariance, bandwidth=2, sparse_output=False, **o),
    "genotypes": genotypes,
    "genotypes, add-remove": lambda **o: genotypes(neighbours="add-remove", **o),
}


def rows_of(name):
    return GENOTYPES if name.startswith("genotypes") else RECORDS


def of_statistics(make_estimator, X, total):
    """From sums that were taken by an estimator of the same kind, without a ledger."""

    def release(**options):
        sums = summed(make_estimator(), X, total=total)
        return make_estimator(**options).fit_statistics(sums)

    return release


WAYS = {
    **{
        name: lambda name=name, **o: MAKE[name](**o).fit(rows_of(name))
        for name in MAKE
        if "add-remove" not in name  # charged in two parts
    },
    "multiscale, gates": lambda **options: calibrated(**options).fit(RECORDS),
    "multiscale, theorem": lambda **options: multiscale(**options).fit(MANY),
    "gaussian, sums": of_statistics(
        lambda **options: setting("gaussian", **KNOWN, **options), RECORDS, len(RECORDS)
    ),
    "multiscale, sums": of_statistics(calibrated, RECORDS, len(RECORDS)),
    "multiscale, theorem, sums": of_statistics(multiscale, MANY, BILLION),
}
SEEDS = {
    "none": lambda: None,
    "integer": lambda: 3,
    "generator": lambda: np.random.default_rng(3),
    "state": lambda: np.random.RandomState(3),
}


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch):
    skip_search(monkeypatch)
    with warnings.catch_warnings():
        for expected in (AccuracyWarning, PrivacyWarning):
            warnings.simplefilter("ignore", expected)
        yield


def forbid_generators(monkeypatch):
    """Make all of `random` and `np.random` raise, but where released numbers are processed."""
    bits = np.random.PCG64

    def refuse(*args, **_):
        if sys._getframe(1).f_globals["__name__"] == structure.__name__:
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
    estimator, rows = MAKE[name](), rows_of(name)
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
            each.integers if rows is RECORDS else each.integers.toarray()
            for each in (first, second)
        )
        assert not np.array_equal(*integers)


@pytest.fixture
def options(tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("people", epsilon=3.0, delta=0.1)
    return {"ledger": ledger, "dataset": "people"}


def released(way, seed, options):
    if seed == "none":
        return way(random_state=None, **options)
    with pytest.warns(SeededNoiseWarning, match="NOT private"):
        return way(random_state=SEEDS[seed](), **options)


# Every way in with and without a seed; all kinds of seeds where a fit takes milliseconds.
PAIRS = [
    *((way, seed) for way in WAYS for seed in ("none", "integer")),
    *((way, seed) for way in ("gaussian", "gaussian, sums") for seed in ("generator", "state")),
]


@pytest.mark.parametrize(("way", "seed"), PAIRS)
def test_receipt_release_and_file_agree_on_what_is_private(way, seed, options, tmp_path):
    estimator = released(WAYS[way], seed, options)
    (receipt,) = options["ledger"].history("people")
    private, guarantee = seed == "none", estimator.release_.guarantee
    assert guarantee.private is private
    assert ("NOT PRIVATE" in str(guarantee)) is not private
    assert receipt.charge.private is estimator.receipt_.charge.private is private
    assert receipt.charge.promise == as_charge(guarantee).promise
    written = estimator.release_.write(tmp_path / "release") / "release.json"
    assert json.loads(written.read_text())["guarantee"]["private"] is private
