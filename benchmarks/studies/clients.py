"""Models of private releases in the programs that fit them, told of the noise and not.

python benchmarks/studies/clients.py lavaan --runs 500
python benchmarks/studies/clients.py tests --runs 100 --epsilon 0.3
python benchmarks/studies/clients.py entries --runs 25
python benchmarks/studies/clients.py semopy --runs 100
python benchmarks/studies/clients.py psych --runs 20
python benchmarks/studies/clients.py skfolio --runs 20

Noise is seeded. lavaan, psych and psychTools are those of R.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hushcov import GaussianCovariance, PrivateSparseCovariance

N, D, HALF, DELTA = 20_000, 12, 6, 1e-6
NAMES = [f"x{i + 1}" for i in range(D)]
LOADINGS = np.linspace(0.5, 0.8, HALF)
BLOCKS = [NAMES[:HALF], NAMES[HALF:]]
RELEASES = "gaussian,candidates,adaptive"
MODELS = ("factors", "path")


def population(model: str, release: str) -> tuple[np.ndarray, str, dict[str, float]]:
    """The true covariance, the model in lavaan's words, and its true loadings or coefficients.

    Two factors of six features each, or two chains of regressions on the last two features. They
    are related but where only pairs within each half are candidates.
    """
    apart = release == "candidates"
    if model == "factors":
        loadings = np.zeros((D, 2))
        loadings[:HALF, 0] = loadings[HALF:, 1] = LOADINGS
        between = 0.0 if apart else 0.4
        covariance = loadings @ np.array([[1, between], [between, 1]]) @ loadings.T
        np.fill_diagonal(covariance, 1.0)
        words = [f"f{i + 1} =~ {' + '.join(names)}" for i, names in enumerate(BLOCKS)]
        pairs = zip(NAMES, [*LOADINGS, *LOADINGS], strict=True)
        truth = {f"f{1 + (int(name[1:]) > HALF)}=~{name}": value for name, value in pairs}
        return covariance, "\n".join(words), truth
    paths, words, truth = np.zeros((D, D)), [], {}
    for i in range(1, D):
        first = HALF if apart and i >= HALF else 0
        on = {j: value for j, value in ((i - 1, 0.5), (i - 2, 0.25)) if j >= first}
        if on:
            words.append(f"{NAMES[i]} ~ {' + '.join(NAMES[j] for j in on)}")
        for j, value in on.items():
            paths[i, j] = truth[f"{NAMES[i]}~{NAMES[j]}"] = value
    total = np.linalg.inv(np.eye(D) - paths)
    return total @ np.diag(np.where(np.arange(D) % 2, 0.6, 1.0)) @ total.T, "\n".join(words), truth


def released(
    covariance: np.ndarray, release: str, epsilon: float, seed: int
) -> PrivateSparseCovariance | GaussianCovariance:
    """A release of fresh records of this covariance."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, len(covariance))) @ np.linalg.cholesky(covariance).T
    known = {"epsilon": epsilon, "delta": DELTA, "random_state": seed}
    estimator = {
        "gaussian": lambda: GaussianCovariance(**known),
        "candidates": lambda: PrivateSparseCovariance(**known, candidate_pairs=BLOCKS),
        "adaptive": lambda: PrivateSparseCovariance(**known, on_hopeless="warn"),
    }[release]()
    names = [f"x{i + 1}" for i in range(len(covariance))]
    return estimator.fit(pd.DataFrame(rows, columns=names))


# One process of R fits all releases in all ways. A way is what lavaan is told beside the matrix.
FIT = r"""
suppressMessages(library(lavaan))
args <- commandArgs(TRUE)
folders <- readLines(args[1]); asked <- paste(readLines(args[2]), collapse = "\n")
truth <- read.csv(args[3]); ways <- strsplit(args[4], ",")[[1]]
source(file.path(folders[1], "model.R"), chdir = TRUE)
of <- function(folder, way) {
  if (way == "told") return(fit_release(asked, folder, std.lv = TRUE))
  S <- as.matrix(read.csv(file.path(folder, "covariance.csv"), row.names = 1))
  n <- scan(file.path(folder, "n.csv"), quiet = TRUE)
  known <- list(asked, sample.cov = S, sample.nobs = n, sample.cov.rescale = FALSE,
                fixed.x = FALSE, std.lv = TRUE)
  if (way == "exact") return(do.call("sem", known))
  G <- unname(as.matrix(read.csv(file.path(folder, "nacov.csv"), header = FALSE)))
  order <- match(lavNames(lavaanify(asked, fixed.x = FALSE), "ov"), colnames(S))
  at <- matrix(0, nrow(S), nrow(S)); at[lower.tri(at, TRUE)] <- seq_len(nrow(G))
  at <- pmax(at, t(at))[order, order]; at <- at[lower.tri(at, TRUE)]; G <- G[at, at]
  parts <- strsplit(way, "/")[[1]]
  known <- c(known, list(NACOV = G, estimator = parts[1]))
  if (parts[1] == "WLS") return(do.call("sem", c(known, list(WLS.V = solve(G)))))
  if (parts[1] == "DWLS")
    known$WLS.V <- diag(scan(file.path(folder, "weights.csv"), quiet = TRUE)[at])
  do.call("sem", c(known, list(se = "robust.sem", test = parts[2])))
}
for (way in ways) for (folder in folders) {
  fit <- try(suppressWarnings(of(folder, way)), silent = TRUE)
  if (inherits(fit, "try-error") || !lavInspect(fit, "converged")) {
    cat(way, "NA,NA,NA\n", sep = ","); next
  }
  e <- parameterEstimates(fit); e <- e[match(truth$name, paste0(e$lhs, e$op, e$rhs)), ]
  covered <- mean(e$ci.lower <= truth$value & truth$value <= e$ci.upper)
  test <- fit@test[[length(fit@test)]]
  cat(way, covered, as.integer(test$pvalue < 0.05), mean(e$se), sep = ","); cat("\n")
}
"""


def by_lavaan(
    model: str, release: str, epsilon: float, seeds: range, ways: str
) -> dict[str, np.ndarray]:
    """Coverage, rejections and standard errors of each way; a row for each release."""
    covariance, words, truth = population(model, release)
    with tempfile.TemporaryDirectory() as name:
        folder, folders = Path(name), []
        for seed in seeds:
            folders.append(str(folder / str(seed)))
            released(covariance, release, epsilon, seed).export(folders[-1], to="lavaan")
        (folder / "fit.R").write_text(FIT)
        (folder / "folders").write_text("\n".join(folders) + "\n")
        (folder / "model").write_text(words + "\n")
        with (folder / "truth").open("w", newline="") as file:
            csv.writer(file).writerows([("name", "value"), *truth.items()])
        inputs = [str(folder / each) for each in ("fit.R", "folders", "model", "truth")]
        done = subprocess.run(
            ["Rscript", *inputs, ways], check=True, capture_output=True, text=True
        )
    rows = [line.split(",") for line in done.stdout.splitlines()]
    numbers = [[float(value.replace("NA", "nan")) for value in row[1:]] for row in rows]
    return {
        way: np.array([each for row, each in zip(rows, numbers, strict=True) if row[0] == way])
        for way in ways.split(",")
    }


def lavaan(epsilon: float, seeds: range, releases: str, ways: str) -> Iterator[str]:
    yield f"n = {N:,}, d = {D}, epsilon = {epsilon:g}, {len(seeds)} releases each"
    yield "| model | release | lavaan | coverage | rejects the truth | standard error | fails |"
    yield "|---|---|---|---|---|---|---|"
    for model in MODELS:
        for release in releases.split(","):
            for way, rows in by_lavaan(model, release, epsilon, seeds, ways).items():
                failed = np.isnan(rows[:, 0])
                covered, rejected, error = rows[~failed].mean(axis=0)
                yield (
                    f"| {model} | {release} | {way} | {covered:.3f} | {rejected:.3f} | {error:.4f} "
                    f"| {failed.sum()} |"
                )


def entries(epsilon: float, runs: int) -> Iterator[str]:
    """How often entries lie within 1.96 deviations by the law, for records that are not normal."""
    from hushcov.answers.clients import law_of_entries

    yield "| records | release | variances | covariances |"
    yield "|---|---|---|---|"
    covariance = population("factors", "adaptive")[0]
    root = np.linalg.cholesky(covariance)
    kinds = {
        "normal": lambda rng: rng.standard_normal((N, D)) @ root.T,
        "t, 8 degrees": lambda rng: (
            rng.standard_normal((N, D)) @ root.T * np.sqrt(6 / rng.chisquare(8, (N, 1)))
        ),
        "skewed by 1": lambda rng: (rng.gamma(4, size=(N, D)) - 4) / 2 @ root.T,
    }
    for kind, draw in kinds.items():
        for make in (GaussianCovariance, PrivateSparseCovariance):
            within = []
            for seed in range(runs):
                estimator = make(epsilon=epsilon, delta=DELTA, random_state=seed)
                release = estimator.fit(draw(np.random.default_rng(seed))).release_
                law = law_of_entries(release, np.arange(D))
                error = (law.part.values - covariance)[law.rows, law.columns]
                within.append(np.abs(error) < 1.96 * np.sqrt(law.variances()[1] / law.part.n))
            own = law.rows == law.columns
            own, pairs = (np.mean(np.array(within)[:, each]) for each in (own, ~own))
            yield f"| {kind} | {make.__name__} | {own:.3f} | {pairs:.3f} |"


def semopy(epsilon: float, runs: int) -> Iterator[str]:
    """Coverage with the number of records, and with the one that the export gives."""
    import json

    import pandas as pd
    from semopy import Model

    yield "| model | release | n | n_effective | n_effective_regressions |"
    yield "|---|---|---|---|---|"
    for model in MODELS:
        covariance, words, truth = population(model, "adaptive")
        covered: dict[str, list[float]] = {
            name: [] for name in ("n", "n_effective", "n_effective_regressions")
        }
        records = []
        for seed in range(runs):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name) / "out"
                released(covariance, "adaptive", epsilon, seed).export(folder, to="semopy")
                known = json.loads((folder / "export.json").read_text())
                matrix = pd.read_csv(folder / "covariance.csv", index_col=0)
            records.append([known[name] for name in covered])
            for which, found in covered.items():
                fit = Model(words)
                fit.fit(cov=matrix, n_samples=known[which])
                table = fit.inspect()
                table = table[(table["op"] == "~") & (table["Std. Err"] != "-")]
                # A factor is measured in units of its first feature.
                lead = {"f1": LOADINGS[0], "f2": LOADINGS[0]}
                true = [
                    truth.get(f"{row.lval}~{row.rval}")
                    or truth[f"{row.rval}=~{row.lval}"] / lead[row.rval]
                    for row in table.itertuples()
                ]
                off = np.abs(table["Estimate"].astype(float) - true)
                found.append(float((off <= 1.96 * table["Std. Err"].astype(float)).mean()))
        mean = np.mean(records, axis=0)
        cells = [
            f"{np.mean(each):.3f} ({n:,.0f})"
            for each, n in zip(covered.values(), mean, strict=True)
        ]
        yield f"| {model} | adaptive | {' | '.join(cells)} |"


PSYCH = r"""
suppressMessages({library(psych); library(psychTools)})
args <- commandArgs(TRUE)
if (args[1] == "write") {
  rows <- cbind(person = paste(sai$study, sai$id), sai[, 4:23])
  write.csv(rows, args[2], row.names = FALSE, na = "")
} else {
  R <- cor(na.omit(sai[, 4:23]))
  own <- function(S) list(alpha = suppressWarnings(alpha(S, check.keys = TRUE))$total$raw_alpha,
                          one = fa(S, 1)$loadings, two = fa(S, 2, rotate = "varimax")$loadings)
  for (folder in args[-1]) {
    there <- read.csv(file.path(folder, "features.csv"))$feature
    truth <- own(R[there, there])
    found <- own(as.matrix(read.csv(file.path(folder, "correlation.csv"), row.names = 1)))
    alike <- function(a, b) abs(factor.congruence(a, b, digits = 4))
    two <- alike(found$two, truth$two)
    cat(truth$alpha, found$alpha, alike(found$one, truth$one), min(apply(two, 2, max)),
        length(there), sep = ","); cat("\n")
  }
}
"""


def psych(epsilon: float, runs: int) -> Iterator[str]:
    """Cronbach's alpha and loadings of the state anxiety inventory, private and not.

    Answers are 1 to 4, which is public. A person may have up to four rows.
    """
    import pandas as pd

    yield "| release | protects | errors of alpha | one factor | two factors | all items |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script, rows = folder / "psych.R", folder / "sai.csv"
        script.write_text(PSYCH)
        subprocess.run(["Rscript", script, "write", rows], check=True, capture_output=True)
        table = pd.read_csv(rows)
        people = table.pop("person")
        known = {"epsilon": epsilon, "delta": DELTA}
        known["bounds"] = np.tile([1.0, 4.0], (table.shape[1], 1))
        for release, whose in (("adaptive", "row"), ("gaussian", "row"), ("adaptive", "person")):
            folders = []
            for seed in range(runs):
                if release == "adaptive":
                    estimator = PrivateSparseCovariance(
                        **known, random_state=seed, on_hopeless="warn"
                    )
                else:
                    estimator = GaussianCovariance(**known, random_state=seed)
                if whose == "person":
                    estimator.set_params(max_rows_per_unit=4).fit(table, unit=people)
                else:
                    estimator.fit(table)
                folders.append(str(folder / f"{release}-{whose}-{seed}"))
                estimator.export(folders[-1], to="psych")
            command = ["Rscript", script, "compare", *folders]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = np.array([line.split(",") for line in done.stdout.splitlines()], dtype=float).T
            error = np.abs(found[1] - found[0])  # of alpha of the same items
            least = [f"{one.mean():.3f}, least {one.min():.3f}" for one in found[2:4]]
            yield (
                f"| {release} | {whose} | {error.mean():.3f}, {np.mean(error <= 0.02):.0%} within "
                f"0.02 | {' | '.join(least)} | {np.mean(found[4] == table.shape[1]):.0%} |"
            )


def portfolio_variances(covariance: np.ndarray, epsilon: float, seed: int, **options: float):
    """True variance of portfolios of least variance, over the least that there is.

    From the released matrix alone, with its uncertainty set, and with that of the noise alone.
    """
    import importlib.util

    import pandas as pd
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk
    from skfolio.prior import EmpiricalPrior

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        released(covariance, "adaptive", epsilon, seed).export(folder, to="skfolio")
        spec = importlib.util.spec_from_file_location("model", folder / "model.py")
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        names = pd.read_csv(folder / "covariance.csv", index_col=0).columns
        places = [int(name[1:]) - 1 for name in names]
        true = covariance[np.ix_(places, places)]
        X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, len(names))), columns=names)

        class Known(script.ReleasedCovariance):
            def fit(self, X, y=None, **fit_params):
                self._set_covariance(true)
                return self

        def variance(matrix: object, errors: object) -> float:
            model = MeanRisk(
                risk_measure=RiskMeasure.VARIANCE,
                prior_estimator=EmpiricalPrior(covariance_estimator=matrix),
                covariance_uncertainty_set_estimator=errors,
                **options,
            )
            weights = model.fit(X).weights_
            return float(weights @ true @ weights)

        best = variance(Known(), None)
        sets = [None, script.ReleasedUncertaintySet()]
        sets.append(script.ReleasedUncertaintySet(noise_only=True))
        return [variance(script.ReleasedCovariance(), each) / best for each in sets]


def skfolio(epsilon: float, runs: int) -> Iterator[str]:
    """Portfolios of 20 assets with a market, four sectors and risks of their own."""
    yield "| epsilon | short sales | released matrix | with the uncertainty set | of noise alone |"
    yield "|---|---|---|---|---|"
    d = 20
    for shorts in (False, True):
        ratios = []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            sectors = np.kron(np.eye(4), np.ones((d // 4, 1))) * rng.uniform(0.2, 0.5, (d, 1))
            common = np.hstack([rng.uniform(0.3, 0.9, (d, 1)), sectors])
            covariance = common @ common.T + np.diag(rng.uniform(0.1, 0.6, d))
            options = {"min_weights": -1.0} if shorts else {}
            ratios.append(portfolio_variances(covariance, epsilon, seed, **options))
        means = " | ".join(f"{value:.3f}" for value in np.mean(ratios, axis=0))
        yield f"| {epsilon:g} | {'yes' if shorts else 'no'} | {means} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "client", choices=("lavaan", "tests", "entries", "semopy", "psych", "skfolio")
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--releases", default=RELEASES, help="for lavaan and tests")
    parser.add_argument("--first", type=int, default=0, help="first seed, for lavaan and tests")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(given.first, given.first + given.runs)
    lines = {
        "lavaan": lambda: lavaan(given.epsilon, seeds, given.releases, "told,exact"),
        "tests": lambda: lavaan(
            given.epsilon,
            seeds,
            given.releases,
            "told,DWLS/satorra.bentler,ML/scaled.shifted,ML/satorra.bentler,WLS",
        ),
        "entries": lambda: entries(given.epsilon, given.runs),
        "semopy": lambda: semopy(given.epsilon, given.runs),
        "psych": lambda: psych(given.epsilon, given.runs),
        "skfolio": lambda: skfolio(given.epsilon, given.runs),
    }[given.client]()
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
