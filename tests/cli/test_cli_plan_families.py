"""`hushcov plan` without a sparsity."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np

from command_line import words
from hushcov import PrivateSparseCovariance
from hushcov.simulate import gaussian_records, sparse_covariance

BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_one_number_of_records_has_families_guesses_and_the_design(run):
    result = run("plan", "--features", 12, "--records", 8_000, *BUDGET)
    assert (result.exit_code, result.stderr) == (0, "")
    text = words(result.stdout)
    for part in (
        "whatever the structure: 8,000 records of 12 features, epsilon 1, delta 1e-6",
        "k = 3 2 partners of each feature",
        "k = 10 9 partners of each feature",
        "factor one factor, a third of the variance",
        "dense all pairs related, a little",
        "true k told 3 told 5 told 10 not told",
        "--row-sparsity is advice",
        "nine times out of ten",
        "The design, from public inputs alone budget",
    ):
        assert part in text
    assert "k = 20" not in text


def test_many_numbers_of_records_have_one_row_each(run):
    text = run("plan", "--features", 6, *BUDGET, "--records", 2_000, "--records", 40_000).stdout
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ["2,000"]]
    assert len(rows) == 1
    assert len(rows[0]) == 5  # k = 3 and 5, factor, dense
    assert "What a guess" not in text
    assert "The design" not in text


def test_json_has_everything(run):
    found = json.loads(run("plan", "--features", 6, "--records", 8_000, *BUDGET, "--json").stdout)
    assert (found["row_sparsity"], found["mechanism"]) == (None, "adaptive")
    (plan,) = found["plans"]
    assert [each["family"] for each in plan["families"]] == ["k = 3", "k = 5", "factor", "dense"]
    assert all(0 < each["predicted_error"] < 1 for each in plan["families"])
    assert {(each["row_sparsity"], each["told"]) for each in found["guesses"]} == {
        (3, 3),
        (3, 5),
        (5, 3),
        (5, 5),
    }
    assert found["smallest_records"] is None


def test_a_sparsity_or_a_mechanism_compares_mechanisms_as_before(run):
    options = ("plan", "--features", 6, "--records", 8_000, *BUDGET)
    text = run(*options, "--mechanism", "gaussian").stdout
    assert "row sparsity 5" in text
    assert "whatever the structure" not in text
    assert "row sparsity 2" in run(*options, "--row-sparsity", 2, "--mechanism", "gaussian").stdout


def test_what_fit_found_is_said_by_fit_and_show_alike(run):
    """Whatever it found: the noise is secret, so that the kind may differ."""
    np.save("x.npy", gaussian_records(sparse_covariance("block", 12, 3), 8_000))
    result = run("fit", "x.npy", *BUDGET, "-o", "out", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    structure = found["structure"]
    assert structure["kind"] in ("sparse", "factors", "dense")
    assert structure["error_interval"][0] <= structure["error_estimate"]
    assert [each["family"] for each in found["families"]][-2:] == ["factor", "dense"]
    said = words(result.stderr)
    assert "row sparsity" not in said
    assert "adaptive: finds out whether few pairs, few factors or neither matter" in said
    assert "where each feature is related to 2 to 9 others" in said
    assert json.loads(run("show", "out", "--json").stdout)["structure"] == structure
    shown = words(run("show", "out").stdout)
    for text in (said, shown):
        assert f"structure {structure['kind']}: " in text
        assert structure["why"] in text
        assert "of the covariance's size (its norm)" in text


def test_factors_are_shown_and_terminals_are_safe(run):
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((8_000, 24)) + 0.7 * generator.standard_normal((8_000, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, random_state=0).fit(rows)
    structure = replace(est.release_.making.structure, kind="factors", rank=1, why="it \x1b[31m")
    making = replace(est.release_.making, structure=structure)
    names = ("\x1b[2Jfirst", *(f"item{i}" for i in range(23)))
    replace(est.release_, making=making, column_names=names).write("out")
    result = run("show", "out")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    text = words(result.stdout)
    assert "structure factors: 1 factor that many features follow. Why: it" in text
    assert "% of the variance; most correlated with it: " in text
    (factor,) = json.loads(run("show", "out", "--json").stdout)["structure"]["factors"]
    assert 0.2 < factor["share_of_variance"] < 0.5


def test_a_sparsity_is_advice_and_mechanisms_that_need_one_say_what_they_assume(run):
    np.save("x.npy", gaussian_records(sparse_covariance("block", 6, 2), 4_000))
    options = ("fit", "x.npy", *BUDGET, "--dry-run")
    assert "row sparsity 2 (as advice)" in words(run(*options, "--row-sparsity", 2).stdout)
    text = words(run(*options, "--mechanism", "screened").stdout)
    assert "row sparsity 5 (assumed; give --row-sparsity)" in text
