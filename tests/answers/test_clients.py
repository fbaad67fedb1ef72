"""Exports for programs: the law of the entries, the files, and the programs themselves."""

import ast
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from answer_documents import document, sparse_document
from scipy import stats
from test_any_release import any_release

from command_line import PATIENCE
from hushcov import GaussianCovariance
from hushcov.answers.clients import CLIENTS, client_files, law_of_entries
from hushcov.answers.export import export
from hushcov.answers.uncertain import missing_sd, uncertain
from hushcov.estimators.answering import LoadedCovariance
from hushcov.exceptions import CapacityError, ParameterError, SeededNoiseWarning
from hushcov.release.coverage import coverage
from statistics_helpers import FALSE_ALARM

LOADINGS = np.array([0.5, 0.6, 0.7, 0.8, 0.6, 0.7])
D = len(LOADINGS)
ALL = np.arange(D)
NOISE, N = 0.02, 10_000


def one_factor(scale=1.0):
    covariance = np.multiply.outer(LOADINGS, LOADINGS)
    np.fill_diagonal(covariance, 1.0)
    scale = np.broadcast_to(scale, D)
    return covariance * np.multiply.outer(scale, scale)


def vech(matrix):
    columns, rows = np.triu_indices(len(matrix))
    return matrix[rows, columns]


# ---- the law ----


def test_the_law_is_that_of_all_other_questions():
    release = document(one_factor(np.arange(1, D + 1)), noise=NOISE)
    law = law_of_entries(release, ALL)
    gradient = np.random.default_rng(0).standard_normal((D, D))
    gradient += gradient.T
    weights = vech(gradient * (2 - np.eye(D)))  # an entry off the diagonal stands there twice
    deviation = uncertain(release, ALL).deviation(gradient)
    assert weights @ law.total() @ weights / N == pytest.approx(deviation**2)
    for whole, part in zip((law.sampling(), law.total()), law.variances(), strict=True):
        np.testing.assert_allclose(np.diag(whole), part)
    np.testing.assert_allclose(law.total(), law.sampling() + law.added())
    said = client_files(release, "semopy").statement
    directions = np.trace(np.linalg.solve(law.sampling(), law.total())) / len(law.rows)
    assert said["standard_error_factor_regressions"] ** 2 == pytest.approx(directions)
    assert said["n_effective_regressions"] == round(N / directions) < said["n_effective"]


def test_errors_of_releases_follow_the_law_and_not_that_of_sampling():
    """Squared lengths of errors, in units of the law, are chi-square; false alarms: 1e-6."""
    truth, rng, runs = one_factor(), np.random.default_rng(1), 60
    lengths = {"sampling": 0.0, "total": 0.0}
    exact = law_of_entries(document(truth, noise=NOISE), ALL)  # at the truth
    for _ in range(runs):
        found = law_of_entries(document(truth, noise=NOISE, rng=rng), ALL)
        error = vech(found.part.values - truth)
        for name in lengths:
            lengths[name] += N * error @ np.linalg.solve(getattr(exact, name)(), error)
    degrees = runs * len(error)
    assert abs(stats.norm.isf(stats.chi2.sf(lengths["total"], degrees))) < -stats.norm.ppf(
        FALSE_ALARM / 2
    )
    assert stats.chi2.sf(lengths["sampling"], degrees) < FALSE_ALARM


def test_pairs_that_were_not_released_are_unsure_unless_they_are_public_zeros():
    covariance = one_factor()
    covariance[:3, 3:] = covariance[3:, :3] = 0.0
    selected = sparse_document(covariance, noise_sd=(NOISE, NOISE))
    law = law_of_entries(selected, ALL)
    gone = ~law.released
    assert gone.sum() == 9
    total = law.total()
    assert not (total[gone] - np.diag(np.diag(total))[gone]).any()
    np.testing.assert_allclose(np.diag(total)[gone], N * missing_sd(selected) ** 2)
    public = law_of_entries(replace(selected, mechanism="candidates"), ALL)
    assert not public.total()[gone].any()
    found = replace(selected, mechanism="candidates", parameters={"adaptive_width": True})
    assert np.diag(law_of_entries(found, ALL).total())[gone].all()  # zeros beyond it are a guess
    assert "count as zero for sure" in str(client_files(public_of(selected), "lavaan").statement)
    assert "give or take" in str(client_files(selected, "lavaan").statement)


def public_of(release):
    return replace(release, mechanism="candidates")


def test_what_bounds_took_off_is_one_error_of_all_entries():
    """Entries lose in common: their mean is less sure than that of independent errors."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((20_000, D)) @ np.linalg.cholesky(one_factor()).T
    with pytest.warns(SeededNoiseWarning):
        release = (
            GaussianCovariance(epsilon=1.0, delta=1e-6, random_state=1, purpose="covariance")
            .fit(rows)
            .release_
        )
    assert release.making.tails.lost_sd > 0
    law = law_of_entries(release, ALL)
    assert (law.shared_sd * vech(law.part.values) > 0).all()
    shared = np.multiply.outer(law.shared_sd, law.shared_sd)
    rest = law.added() / law.part.n - shared
    np.testing.assert_allclose(rest, np.diag(law.noise_sd**2), atol=1e-12)
    errors, _ = coverage(release).errors((ALL, ALL), release.variances)
    scale = release.feature_scale**2
    own = law.rows == law.columns
    np.testing.assert_allclose(np.sqrt(law.variances()[1][own] / law.part.n), errors * scale, 0.1)


# ---- files and refusals ----


@pytest.mark.parametrize("to", CLIENTS)
def test_every_client_gets_a_matrix_a_script_and_a_statement(to, tmp_path):
    names = ("age", "blood pressure", "3rd", "if", 'a"""\nstop("no")', "blood_pressure")
    release = document(one_factor(), noise=NOISE, column_names=names)
    out = LoadedCovariance(release).export(tmp_path / "out", to=to)
    said = json.loads((out.folder / "export.json").read_text())
    assert said == out.statement
    assert said["n"] == N > said["n_effective"] > 0
    assert said["standard_error_factor_largest"] >= said["standard_error_factor"] > 1
    assert said["n_effective"] == pytest.approx(N / said["standard_error_factor"] ** 2, abs=1)
    matrix = "correlation.csv" if CLIENTS[to].correlation else "covariance.csv"
    assert {matrix, "features.csv", CLIENTS[to].script} < set(out.files)
    lines = (out.folder / matrix).read_text().splitlines()
    plain = ["age", "blood_pressure", "x3rd", "if_", "a____stop__no__", "blood_pressure_2"]
    assert lines[0].split(",")[1:] == [line.split(",")[0] for line in lines[1:]] == plain
    script = (out.folder / CLIENTS[to].script).read_text()
    assert "<<" not in script
    if CLIENTS[to].script.endswith(".py"):
        ast.parse(script)


def test_names_in_notes_end_no_comment():
    names = ("a", "b", "c", "d", "e", 'f"""\nimport os')
    release = document(one_factor(), noise=NOISE, column_names=names)
    integers = release.integers.copy()
    integers[5] = integers[:, 5] = 0  # it is left out, and named in a note
    release = replace(release, integers=integers)
    for to, client in CLIENTS.items():
        script = client_files(release, to).texts[client.script]
        (line,) = (line for line in script.splitlines() if "import os" in line)
        assert "left out" in line
        if client.script.endswith(".py"):
            ast.parse(script)
        else:
            assert line.startswith("# ")


def test_a_matrix_with_negative_eigenvalues_is_mended_and_the_change_is_said():
    covariance = one_factor()
    covariance[0, 1] = covariance[1, 0] = 0.999
    covariance[0, 3] = covariance[3, 0] = -0.5
    found = client_files(document(covariance, noise=0.05), "psych")
    assert found.statement["smallest_eigenvalue"] < 0 < found.statement["largest_change"]
    assert "to make the matrix positive definite" in found.statement["notes"][-1]
    lines = found.texts["correlation.csv"].splitlines()[1:]
    matrix = np.array([line.split(",")[1:] for line in lines], dtype=float)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    change = np.abs(matrix - covariance).max()
    assert change == pytest.approx(found.statement["largest_change"], rel=1e-6)


def test_what_cannot_be_exported_says_what_to_do(tmp_path):
    release = document(one_factor(), noise=NOISE)

    def refused(error, words, known=release, **options):
        with pytest.raises(error, match=words):
            export(known, tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()

    refused(ParameterError, "must be one of .*'lavaan'.*got 'mplus'", to="mplus")
    unsaid = replace(release, noise_sd=None)
    refused(ParameterError, "must say how much noise it has", unsaid, to="lavaan")
    wide = document(np.eye(60), noise=NOISE)
    words = "at most 50 for lavaan, got 60, whose 1,830 entries .* 3.3e.06 numbers: name those"
    refused(CapacityError, words, wide, to="lavaan")
    export(wide, tmp_path / "few", to="lavaan", features=[0, 5, 59])
    export(wide, tmp_path / "all", to="psych")
    refused(ParameterError, "psd and block_size must be left out", to="lavaan", psd=False)
    refused(ParameterError, "psd and block_size must be left out", to="psych", block_size=3)
    refused(ParameterError, "features must be left out for npz", to="npz", features=[0, 1])
    refused(ParameterError, "at least 2 that vary", to="lavaan", features=[0])
    refused(ParameterError, "features must be names or positions", to="lavaan", features=["nobody"])


def test_any_release_is_exported_or_refused():
    rng, written = np.random.default_rng(4), 0
    for place in range(200):
        release = any_release(rng)
        to = list(CLIENTS)[place % len(CLIENTS)]
        try:
            found = client_files(release, to)
        except (ParameterError, CapacityError):
            continue
        written += 1
        json.dumps(found.statement, allow_nan=False)
        for name, text in found.texts.items():
            if name.endswith(".csv"):
                words = {cell for line in text.splitlines() for cell in line.split(",")}
                assert not {"nan", "inf", "-inf"} & words, name
        assert found.statement["n_effective"] <= found.statement["n"]
    assert written > 50


# ---- the programs ----


@pytest.fixture(scope="module")
def rscript():
    """A function that runs a script of R and returns what it printed."""
    needed = "stopifnot(requireNamespace('lavaan'), requireNamespace('psych'))"
    path = shutil.which("Rscript")
    options = {"text": True, "capture_output": True, "timeout": PATIENCE}
    if path is None or subprocess.run([path, "-e", needed], check=False, **options).returncode:
        pytest.skip("no R with lavaan and psych: 'make rclients' installs them on Debian")

    def run(script, text, *args):
        script.write_text(text)
        done = subprocess.run([path, script, *map(str, args)], check=False, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


SCALE = np.array([1.0, 2.0, 0.1, 5.0, 1.0, 30.0])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """An export of one noisy release for each program."""
    release = document(
        one_factor(SCALE),
        noise=NOISE,
        rng=np.random.default_rng(5),
        column_names=tuple(f"item {i}" for i in range(D)),
    )
    root = tmp_path_factory.mktemp("clients")
    return {to: export(release, root / to, to=to).folder for to in CLIENTS}


_IN_R = r"""
path <- commandArgs(TRUE); suppressMessages(library(lavaan))
source(file.path(path[1], "model.R"), chdir = TRUE)
numbers <- function(fit) {
  e <- parameterEstimates(fit); e <- e[e$op == "=~", ]; e <- e[order(e$rhs), ]
  c(e$est, e$se, fit@test[[2]]$pvalue)
}
whole <- fit_release(model, path[1], std.lv = TRUE)
turned <- fit_release("f =~ item_5 + item_3 + item_0 + item_4 + item_1 + item_2", path[1],
                      std.lv = TRUE)
few <- fit_release("f =~ item_4 + item_1 + item_2 + item_3", path[1], std.lv = TRUE)
S <- as.matrix(read.csv(file.path(path[1], "covariance.csv"), row.names = 1))
exact <- sem(model, sample.cov = S, sample.nobs = 10000, std.lv = TRUE)
cat(numbers(whole), "\n"); cat(numbers(turned), "\n"); cat(numbers(few), "\n")
cat(fitMeasures(exact, "pvalue"), "\n")
wrong <- try(fit_release("f =~ item_0 + nobody", path[1]), silent = TRUE)
cat(grepl("not in features.csv: nobody", wrong), "\n")
source(file.path(path[2], "model.R"), chdir = TRUE)
found <- suppressMessages(psych::fa(R, n.factors, n.obs = n.effective))
cat(psych::alpha(R[scale, scale])$total$raw_alpha, abs(found$loadings[, 1]), "\n")
"""


def test_lavaan_and_psych_run_what_they_get(folders, tmp_path, rscript):
    """In one process of R; lavaan reads the law in any order and of any of the features."""
    lines = rscript(tmp_path / "all.R", _IN_R, folders["lavaan"], folders["psych"])
    whole, turned, few, exact, wrong, psych = lines
    whole, turned, few, psych = (
        np.array(line.split(), dtype=float) for line in (whole, turned, few, psych)
    )
    np.testing.assert_allclose(turned, whole, rtol=1e-3, atol=1e-4)
    assert (np.abs(whole[:D] - LOADINGS * SCALE) < 5 * whole[D : 2 * D]).all()
    assert (np.abs(few[:4] - (LOADINGS * SCALE)[1:5]) < 5 * few[4:8]).all()
    assert whole[-1] > FALSE_ALARM  # the model holds
    assert float(exact) < FALSE_ALARM  # noise counts as misfit where it is not told
    assert wrong.strip() == "TRUE"
    k, covariance = D, one_factor()
    alpha = k / (k - 1) * (1 - np.trace(covariance) / covariance.sum())
    assert psych[0] == pytest.approx(alpha, abs=0.03)
    np.testing.assert_allclose(psych[1:], LOADINGS, atol=0.1)


_IN_PYTHON = """
import runpy, sys
for path in sys.argv[1:]:
    print("<", path.split("/")[-2])
    sys.path.insert(0, path.rsplit("/", 1)[0])
    runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.slow
def test_programs_of_python_run_what_they_get(folders):
    """In one process, which takes seconds to load them."""
    names = ("semopy", "statsmodels", "graphical-lasso", "skfolio")
    for name in ("semopy", "statsmodels", "skfolio"):
        if find_spec(name) is None:
            pytest.skip(f"no {name}: pip install 'hushcov[clients]'")
    scripts = [str(folders[name] / "model.py") for name in names]
    command = [sys.executable, "-c", _IN_PYTHON, *scripts]
    done = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("< ")[1:]
    found = {part.split()[0]: part.splitlines()[1:] for part in parts}
    semopy = [line.split() for line in found["semopy"] if line.split()[2:4] == ["~", "common"]]
    standardized = [float(line[5]) for line in semopy]
    np.testing.assert_allclose(standardized, LOADINGS, atol=0.1)
    loading, error, own = np.array([line.split()[1:] for line in found["statsmodels"][1:]], float).T
    np.testing.assert_allclose(np.abs(loading), LOADINGS, atol=0.1)
    assert (error > 1 / np.sqrt(N) / 2).all()
    np.testing.assert_allclose(own, 1 - loading**2, atol=1e-3)
    precision = np.array([line.split()[1:] for line in found["graphical-lasso"][1:]], float)
    assert np.linalg.eigvalsh(precision)[0] > 0
    weights = np.array([line.split()[1] for line in found["skfolio"]], float)
    assert weights.sum() == pytest.approx(1, abs=1e-3)
    assert weights[2] > 0.9  # by far the least variance
