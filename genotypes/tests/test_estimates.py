"""What is released of genotypes has its law; `GenotypeCovariance` and what it refuses."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from coupling import coupled
from fit.settings import seeded
from genotype_settings import KINDS, planned, released
from hushcov import GenotypeCovariance, Ledger, load
from hushcov.exceptions import (
    BudgetError,
    DataError,
    HopelessError,
    ParameterError,
    SeededNoiseWarning,
)
from hushcov_genotypes import mechanism
from hushcov_genotypes.estimator import window_ends
from hushcov_genotypes.reading import write_bed
from literal_genotypes import LiteralGenotypes, linked_genotypes
from statistics_helpers import FALSE_ALARM

N, D, WIDTH = 2000, 300, 12


@pytest.fixture(scope="module")
def table():
    return linked_genotypes(N, D, 5)


def scores(release, table, means):
    """Released values less those of the sample, in deviations of their noise."""
    rows, columns = release.selected
    scale, matrix = release.feature_scale, release.covariance()
    about = table - means
    exact = about.T @ about / len(table)
    pairs = matrix[rows, columns] - exact[rows, columns]
    pairs = pairs / (scale[rows] * scale[columns] * release.noise_sd[0])
    own = (matrix.diagonal() - exact.diagonal()) / (scale**2 * release.noise_sd[1])
    return np.asarray(pairs), own


def spread_p_value(z):
    """Two-sided p-value of the sum of squares of standard normal scores."""
    tail = stats.chi2.cdf(float(z @ z), len(z))
    return 2 * min(tail, 1 - tail)


def keep_all(monkeypatch):
    """A squared norm of 32 times the usual one, which nobody has here."""
    monkeypatch.setattr(mechanism, "chosen_bin", lambda *_: 88)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [None, 100])
def test_noise_has_the_size_that_is_said(monkeypatch, table, kind, block):
    """Nobody left out, means known: what is left is noise. 10 % more or less are rejected."""
    keep_all(monkeypatch)
    parameters = planned(N, D, WIDTH, neighbours=KINDS[kind], known=True, block=block)
    frequencies = table.mean(axis=0) / 2
    release = released(table, parameters, seeded(3), frequencies=frequencies)
    z = np.concatenate(scores(release, table, 2 * frequencies))
    assert spread_p_value(z) > FALSE_ALARM
    assert abs(z.mean()) * np.sqrt(len(z)) < stats.norm.isf(FALSE_ALARM / 2)
    assert spread_p_value(1.1 * z) < FALSE_ALARM
    assert spread_p_value(0.9 * z) < FALSE_ALARM


def test_means_that_are_found_and_missing_calls_leave_no_bias(monkeypatch, table):
    """Pairs and variances, on average over all of them; a forgotten share of calls is rejected."""
    keep_all(monkeypatch)
    gaps = table.copy()
    gaps[np.random.default_rng(1).random(table.shape) < 0.3] = np.nan
    parameters = planned(N, D, WIDTH, epsilon=10.0)

    def bias(records):
        release = released(records, parameters, seeded(4))
        return [
            abs(z.mean()) * np.sqrt(len(z)) / z.std()
            for z in scores(release, table, table.mean(axis=0))
        ]

    limit = stats.norm.isf(FALSE_ALARM / 4)
    assert max(bias(table)) < limit
    assert max(bias(gaps)) < limit
    monkeypatch.setattr(mechanism, "call_shares", lambda calls, *_: np.ones(len(calls)))
    assert max(bias(gaps)) > limit


@pytest.mark.parametrize("options", [{}, {"block": 7}, {"neighbours": KINDS["add-remove"]}])
def test_packed_records_give_the_release_of_their_definition(options):
    table = linked_genotypes(200, 30, 2, missing=0.1)
    parameters = planned(200, 30, 4, epsilon=8.0, **options)
    packed = released(table, parameters, seeded(1))
    assert packed == released(LiteralGenotypes(table), parameters, seeded(1))


def test_few_records_are_left_out_and_correlations_are_close(table):
    """By the real bound: the noise is near the plan, and correlations near those of the sample."""
    parameters = planned(N, D, WIDTH, epsilon=8.0)
    release = released(table, parameters, seeded(2))
    assert release.making.shrunk < 0.1
    assert 0.5 < release.noise_sd[0] / parameters.noise < 1.5
    matrix, (rows, columns) = release.covariance(), release.selected
    own = np.sqrt(matrix.diagonal())
    errors = matrix[rows, columns] / (own[rows] * own[columns])
    errors = errors - np.corrcoef(table.T)[rows, columns]
    assert np.sqrt(np.mean(errors**2)) < 2 * release.noise_sd[0]
    mean_error = (release.location - table.mean(axis=0)) * N / parameters.count_sigma
    assert spread_p_value(mean_error) > FALSE_ALARM
    assert spread_p_value(1.5 * mean_error) < FALSE_ALARM


def test_scales_are_floored_and_values_stay_small():
    variants = mechanism.Variants.unknown(5, 0.0)
    variants.fill(np.ones(5), np.array([0.0, 1e-9, 0.02, 1.0, 2.0]))
    values = [abs(g * variants.slopes - variants.offsets).max() for g in range(3)]
    assert max(values) < 2**10
    assert variants.slopes[0] == variants.slopes[1] > variants.slopes[2] > variants.slopes[3]
    noisy = mechanism.Variants.unknown(1, 0.2)  # a frequency of 0.2 at least, by its noise
    noisy.fill(np.ones(1), np.array([0.01]))
    assert noisy.slopes[0] == round(32 / np.sqrt(2 * 0.2 * 0.8))


# `GenotypeCovariance`.


FIT_N, FIT_D = 3000, 40
USUAL = {"epsilon": 5.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def fit_table():
    return linked_genotypes(FIT_N, FIT_D, 1, missing=0.02)


def fitted(fit_table, **options):
    made = GenotypeCovariance(**{**USUAL, "random_state": 7, "bandwidth": 5, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return made.fit(fit_table)


def test_a_fit_has_what_others_have(tmp_path, fit_table):
    positions, chromosomes = np.arange(FIT_D) * 10, ("1",) * 25 + ("2",) * 15
    names = [f"rs{i}" for i in range(FIT_D)]
    frame = pd.DataFrame(fit_table, columns=names)
    est = fitted(frame, positions=positions, chromosomes=chromosomes)
    assert est.covariance_.nnz == FIT_D + 2 * est.plan_.candidates.n_pairs
    assert list(est.feature_names_in_) == names
    assert est.frequencies_ == pytest.approx(np.nanmean(fit_table, axis=0) / 2, rel=0.5)
    assert est.location_ == pytest.approx(2 * est.frequencies_)
    assert est.n_records_ == FIT_N
    r = est.correlation_
    truth = pd.DataFrame(fit_table).corr().to_numpy()
    assert abs(r[10, 11] - truth[10, 11]) < 6 * est.release_.noise_sd[0]
    assert {"feature_1", "correlation"} <= set(est.pairs().columns)
    assert est.release_.guarantee.transcript_epsilon <= 5
    read = load(est.save(tmp_path / "release"))
    assert read.release_ == est.release_
    assert np.array_equal(read.release_.positions, positions)
    assert read.release_.chromosomes == chromosomes
    parts = [part.name for part in est.release_.making.parts]
    assert parts[0] == "allele frequencies and calls"


def test_a_fit_refers_to_no_record_and_scores_none(fit_table):
    est = fitted(fit_table.astype(np.float32))
    assert not hasattr(est, "score")
    assert len(pickle.dumps(est)) < fit_table.size
    assert pickle.loads(pickle.dumps(est)).release_ == est.release_


def test_bed_files_and_arrays_give_the_same_release(tmp_path, fit_table):
    path = tmp_path / "cohort.bed"
    write_bed(
        path, np.nan_to_num(fit_table, nan=-1).astype(np.int8), positions=np.arange(FIT_D) * 100
    )
    one, other = fitted(path, bandwidth=None, window_bp=500), fitted(fit_table)
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


def test_a_person_who_is_not_there(tmp_path, fit_table):
    """The number of records is released first, and charged with the rest."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("cohort", epsilon=12, delta=1e-5)
    options = {"neighbours": "add-remove", "ledger": ledger.path, "dataset": "cohort"}
    est = GenotypeCovariance(**USUAL, bandwidth=5, **options).fit(fit_table)
    assert est.release_.guarantee.adjacency == "add-remove-one"
    assert est.release_.making.counted["released"] == est.n_records_
    assert abs(est.n_records_ - FIT_N) < 2000
    assert est.release_.guarantee.epsilon == pytest.approx(5.0)
    removed = fitted(fit_table, neighbours="add-remove")
    assert removed.release_.noise_sd[0] < 0.7 * fitted(fit_table).release_.noise_sd[0]
    with pytest.raises(BudgetError):
        est.fit(fit_table)


def test_nothing_follows_from_the_exact_number_of_persons(monkeypatch, fit_table):
    """Two tables of different length, and noise that makes all noisy numbers the same."""
    fewer = fit_table[: FIT_N - 500]

    def release(rows):
        monkeypatch.setattr(
            "hushcov.kernel.session.discrete_laplace", lambda *_: [2_800 - len(rows)]
        )
        found = fitted(rows, neighbours="add-remove").release_
        return replace(found, making=replace(found.making, made=None))

    one, other = coupled(release, fit_table, fewer)
    assert one == other
    assert one.making.n_records == one.parameters["inputs"]["n_records"] == 2_800


def test_other_values_are_refused_after_the_charge(tmp_path, fit_table):
    """Whether all values are genotypes is not looked at before, and no value is said."""
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open_dataset("cohort", epsilon=12, delta=1e-5)
    wrong = fit_table.copy()
    wrong[-1, -1] = 77
    est = GenotypeCovariance(**USUAL, bandwidth=5, ledger=ledger.path, dataset="cohort")
    with pytest.raises(DataError, match="must hold genotypes") as refusal:
        est.fit(wrong)
    assert "77" not in str(refusal.value)
    assert "was charged epsilon 5" in "".join(refusal.value.__notes__)
    assert len(ledger.history("cohort")) == 1
    assert not hasattr(est, "release_")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bandwidth": None}, "one of bandwidth, window_bp, candidate_pairs"),
        ({"window_bp": 5}, "one of bandwidth, window_bp, candidate_pairs"),
        ({"bandwidth": None, "window_bp": 5}, "positions are required"),
        ({"bandwidth": None, "candidate_pairs": [[0, 2]]}, "must be windows"),
        ({"frequencies": np.full(3, 0.5)}, "frequencies must be 40 numbers"),
        ({"frequencies": np.full(FIT_D, 1.5)}, "frequencies must be 40 numbers"),
        ({"frequencies": "many"}, "frequencies must be numbers"),
        ({"positions": np.arange(3)}, "positions must be one integer"),
        ({"chromosomes": "1"}, "chromosomes must be one name"),
        ({"neighbours": "all"}, "neighbours must be"),
        ({"epsilon": None}, "epsilon is required"),
        ({"ledger": "x"}, "dataset is required"),
    ],
)
def test_what_means_nothing_is_refused(fit_table, options, words):
    with pytest.raises(ParameterError, match=words):
        fitted(fit_table, **options)


def test_units_weights_and_hopeless_budgets_are_refused(fit_table):
    est = GenotypeCovariance(**USUAL, bandwidth=5)
    for name in ("unit", "sample_weight"):
        with pytest.raises(ParameterError, match=f"{name} must be left out"):
            est.fit(fit_table, **{name: np.ones(FIT_N)})
    with pytest.raises(HopelessError, match="3,000 records are too few"):
        GenotypeCovariance(epsilon=0.01, delta=1e-6, bandwidth=5).fit(fit_table)
    with pytest.raises(ParameterError, match="delta"):
        GenotypeCovariance(epsilon=1, delta=1e-3, bandwidth=5).fit(fit_table)
