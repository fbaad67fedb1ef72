"""`GenotypeCovariance`: options, ledger, files, neighbours, and what it refuses."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from coupling import coupled
from genotypes.literal import linked_genotypes
from hushcov import GenotypeCovariance, Ledger, load
from hushcov.exceptions import (
    BudgetError,
    DataError,
    HopelessError,
    ParameterError,
    SeededNoiseWarning,
)
from hushcov.genotypes.estimator import window_ends
from hushcov.genotypes.reading import write_bed
from hushcov.steps import counting

N, D = 3000, 40
USUAL = {"epsilon": 5.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def table():
    return linked_genotypes(N, D, 1, missing=0.02)


def fitted(table, **options):
    made = GenotypeCovariance(**{**USUAL, "random_state": 7, "bandwidth": 5, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return made.fit(table)


def test_a_fit_has_what_others_have(tmp_path, table):
    positions, chromosomes = np.arange(D) * 10, ("1",) * 25 + ("2",) * 15
    names = [f"rs{i}" for i in range(D)]
    frame = pd.DataFrame(table, columns=names)
    est = fitted(frame, positions=positions, chromosomes=chromosomes)
    assert est.covariance_.nnz == D + 2 * est.plan_.candidates.n_pairs
    assert list(est.feature_names_in_) == names
    assert est.frequencies_ == pytest.approx(np.nanmean(table, axis=0) / 2, rel=0.5)
    assert est.location_ == pytest.approx(2 * est.frequencies_)
    assert est.n_records_ == N
    r = est.correlation_
    truth = pd.DataFrame(table).corr().to_numpy()
    assert abs(r[10, 11] - truth[10, 11]) < 6 * est.release_.noise_sd[0]
    assert {"feature_1", "correlation"} <= set(est.pairs().columns)
    assert est.release_.guarantee.transcript_epsilon <= 5
    read = load(est.save(tmp_path / "release"))
    assert read.release_ == est.release_
    assert np.array_equal(read.release_.positions, positions)
    assert read.release_.chromosomes == chromosomes
    parts = [part.name for part in est.release_.making.parts]
    assert parts[0] == "allele frequencies and calls"


def test_a_fit_refers_to_no_record_and_scores_none(table):
    est = fitted(table.astype(np.float32))
    assert not hasattr(est, "score")
    assert len(pickle.dumps(est)) < table.size
    assert pickle.loads(pickle.dumps(est)).release_ == est.release_


def test_options_are_those_of_genotypes():
    names = set(GenotypeCovariance().get_params())
    assert not names & {"row_sparsity", "assume_centered", "device", "store_precision"}
    assert {"window_bp", "frequencies", "positions", "bandwidth", "ledger"} <= names
    assert "assume_centered" not in GenotypeCovariance.__doc__
    assert clone(GenotypeCovariance(bandwidth=3)).bandwidth == 3


def test_bed_files_and_arrays_give_the_same_release(tmp_path, table):
    path = tmp_path / "cohort.bed"
    write_bed(path, np.nan_to_num(table, nan=-1).astype(np.int8), positions=np.arange(D) * 100)
    one, other = fitted(path, bandwidth=None, window_bp=500), fitted(table)
    assert (one.covariance_ != other.covariance_).nnz == 0
    assert one.plan_.candidates == other.plan_.candidates
    assert one.release_.column_names is not None


def test_windows_by_position_end_with_the_chromosome():
    positions = np.array([1, 5, 9, 2, 4, 100])
    ends = window_ends(positions, ("1", "1", "1", "2", "2", "2"), 4)
    assert ends.tolist() == [2, 3, 3, 5, 5, 6]
    assert window_ends(np.array([3, 3, 3]), None, 0).tolist() == [3, 3, 3]
    with pytest.raises(DataError, match="positions must not decrease"):
        window_ends(positions, None, 4)
    with pytest.raises(DataError, match="chromosomes must follow each other"):
        window_ends(positions[:3], ("1", "2", "1"), 4)


def test_a_person_who_is_not_there(tmp_path, table):
    """The number of records is released first, and charged with the rest."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("cohort", epsilon=12, delta=1e-5)
    options = {"neighbours": "add-remove", "ledger": ledger.path, "dataset": "cohort"}
    est = GenotypeCovariance(**USUAL, bandwidth=5, **options).fit(table)
    assert est.release_.guarantee.adjacency == "add-remove-one"
    assert est.release_.making.counted["released"] == est.n_records_
    assert abs(est.n_records_ - N) < 2000
    assert est.release_.guarantee.epsilon == pytest.approx(5.0)
    removed = fitted(table, neighbours="add-remove")
    assert removed.release_.noise_sd[0] < 0.7 * fitted(table).release_.noise_sd[0]
    with pytest.raises(BudgetError):
        est.fit(table)


def test_nothing_follows_from_the_exact_number_of_persons(monkeypatch, table):
    """Two tables of different length, and noise that makes all noisy numbers the same."""
    fewer = table[: N - 500]

    def release(rows):
        monkeypatch.setattr(counting, "discrete_laplace", lambda *_: [2_800 - len(rows)])
        found = fitted(rows, neighbours="add-remove").release_
        return replace(found, making=replace(found.making, made=None))

    one, other = coupled(release, table, fewer)
    assert one == other
    assert one.making.n_records == one.parameters["inputs"]["n_records"] == 2_800


def test_other_values_are_refused_after_the_charge(tmp_path, table):
    """Whether all values are genotypes is not looked at before, and no value is said."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("cohort", epsilon=12, delta=1e-5)
    wrong = table.copy()
    wrong[-1, -1] = 77
    est = GenotypeCovariance(**USUAL, bandwidth=5, ledger=ledger.path, dataset="cohort")
    with pytest.raises(DataError, match="must hold genotypes") as refusal:
        est.fit(wrong)
    assert "77" not in str(refusal.value)
    assert "was charged epsilon 5" in "".join(refusal.value.__notes__)
    assert len(ledger.history("cohort")) == 1
    assert not hasattr(est, "release_")


def test_public_frequencies_are_taken_as_they_are(table):
    frequencies = np.nanmean(table, axis=0) / 2
    est = fitted(table, frequencies=frequencies)
    assert np.array_equal(est.frequencies_, frequencies)
    assert est.release_.making.parts[0].name == "calls of the variants"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bandwidth": None}, "one of bandwidth, window_bp, candidate_pairs"),
        ({"window_bp": 5}, "one of bandwidth, window_bp, candidate_pairs"),
        ({"bandwidth": None, "window_bp": 5}, "positions are required"),
        ({"bandwidth": None, "candidate_pairs": [[0, 2]]}, "must be windows"),
        ({"frequencies": np.full(3, 0.5)}, "frequencies must be 40 numbers"),
        ({"frequencies": np.full(D, 1.5)}, "frequencies must be 40 numbers"),
        ({"frequencies": "many"}, "frequencies must be numbers"),
        ({"positions": np.arange(3)}, "positions must be one integer"),
        ({"chromosomes": "1"}, "chromosomes must be one name"),
        ({"neighbours": "all"}, "neighbours must be"),
        ({"epsilon": None}, "epsilon is required"),
        ({"ledger": "x"}, "dataset is required"),
    ],
)
def test_what_means_nothing_is_refused(table, options, words):
    with pytest.raises(ParameterError, match=words):
        fitted(table, **options)


def test_units_weights_and_hopeless_budgets_are_refused(table):
    est = GenotypeCovariance(**USUAL, bandwidth=5)
    for name in ("unit", "sample_weight"):
        with pytest.raises(ParameterError, match=f"{name} must be left out"):
            est.fit(table, **{name: np.ones(N)})
    with pytest.raises(HopelessError, match="3,000 records are too few"):
        GenotypeCovariance(epsilon=0.01, delta=1e-6, bandwidth=5).fit(table)
    with pytest.raises(ParameterError, match="delta"):
        GenotypeCovariance(epsilon=1, delta=1e-3, bandwidth=5).fit(table)
