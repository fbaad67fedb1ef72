"""Exports for programs that take a covariance, with the noise of this very release counted.

lavaan and skfolio are told of the noise. The others take a number of records, and get the one for
which their standard errors are about right. Everything is computed from the release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hushcov._arrays import FloatArray, IntArray
from hushcov._words import counted, number
from hushcov.answers.tables import Table, feature_names
from hushcov.answers.uncertain import (
    EntryLaw,
    check_noise,
    chosen,
    doubts,
    law_of_entries,
    say_left_out,
    without_references,
)
from hushcov.exceptions import CapacityError, ParameterError
from hushcov.postprocess.bands import mend_dense
from hushcov.release import Release

_MOST_NACOV = 50  # features, whose d (d + 1) / 2 entries have a covariance of 1.6 million
_MOST = 2_000  # features of a whole matrix
_DIGITS = "%.12g"
_RESERVED = {
    *("if", "else", "repeat", "while", "function", "for", "next", "break", "in"),
    *("TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"),
}
_IN_EXAMPLE = 8  # features of the model that a script begins with

_R = """\
# <<title>> Run it: Rscript model.R
<<notes>>
if (!requireNamespace("<<client>>", quietly = TRUE)) {
  stop("this script needs <<client>>: install.packages('<<client>>')")
}
file <- sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE))
here <- normalizePath(if (sys.nframe() == 0L && length(file)) dirname(file[1]) else ".")
"""

_LAVAAN = (
    _R
    + """
# sample.cov is as it was released, before any threshold or shrinkage. NACOV is n times the
# covariance of its entries by sampling and by the noise of this release. DWLS weights entries by
# their variances alone. Standard errors are robust.sem, and the test is scaled.shifted: of those
# that lavaan has, they keep their level best at all sizes of noise (docs/outputs.md of hushcov).
# Estimates and intervals are for the population. Fit indices (CFI, RMSEA) are not adapted.
fit_release <- function(model, folder = here, ...) {
  S <- as.matrix(read.csv(file.path(folder, "covariance.csv"), row.names = 1))
  NACOV <- unname(as.matrix(read.csv(file.path(folder, "nacov.csv"), header = FALSE)))
  weights <- scan(file.path(folder, "weights.csv"), quiet = TRUE)
  nobs <- scan(file.path(folder, "n.csv"), quiet = TRUE)
  # lavaan wants the entries of the features of the model alone, in their order.
  used <- lavaan::lavNames(lavaan::lavaanify(model, fixed.x = FALSE), "ov")
  unknown <- setdiff(used, colnames(S))
  if (length(unknown)) stop("not in features.csv: ", paste(unknown, collapse = ", "))
  place <- matrix(0, nrow(S), nrow(S))
  place[lower.tri(place, TRUE)] <- seq_along(weights)
  place <- pmax(place, t(place))[match(used, colnames(S)), match(used, colnames(S))]
  place <- place[lower.tri(place, TRUE)]
  fit <- lavaan::sem(
    model, sample.cov = S[used, used], sample.nobs = nobs, sample.cov.rescale = FALSE,
    NACOV = NACOV[place, place], WLS.V = diag(weights[place]), estimator = "DWLS",
    se = "robust.sem", test = "scaled.shifted", fixed.x = FALSE, ...
  )
  stopifnot(identical(lavaan::lavNames(fit, "ov"), used))
  fit
}

# Your model, in the names of features.csv:
#   factor =~ a + b + c     a factor and what it is measured by
#   y ~ x + z               a regression
#   a ~~ b                  a covariance beside these
model <- "
  <<example>>
"
if (sys.nframe() == 0L) {
  fit <- fit_release(model, std.lv = TRUE)
  lavaan::summary(fit, standardized = TRUE)
}
"""
)

_PSYCH = (
    _R
    + """n <- <<n>>  # records
n.effective <- <<n_effective>>  # records that would tell as much of an entry without noise

# psych cannot be told of noise: it gets n.effective, not n, for its standard errors. With n they
# would be too small by the factor <<factor>>. Chi-square, RMSEA and BIC count noise as misfit: use
# the export for lavaan to test a model.
R <- as.matrix(read.csv(file.path(here, "correlation.csv"), row.names = 1))
scale <- colnames(R)  # the items of one scale: choose them, by the names of features.csv
n.factors <- 1
if (sys.nframe() == 0L) {
  print(psych::alpha(R[scale, scale], n.obs = n.effective, check.keys = TRUE))
  print(psych::fa(R, nfactors = n.factors, n.obs = n.effective, fm = "minres"))
}
"""
)

_PYTHON = '''\
"""<<title>> Run it: python model.py

<<notes>>
"""

from pathlib import Path

try:
    import pandas as pd
<<imports>>
except ImportError:
    words = "this script needs <<package>> and pandas: pip install <<package>> pandas"
    raise SystemExit(words) from None

HERE = Path(__file__).parent
N = <<n>>  # records
N_EFFECTIVE = <<n_effective>>  # records that would tell as much of an entry without noise
'''


_SEMOPY = (
    _PYTHON
    + """N_REGRESSIONS = <<n_effective_regressions>>  # the same of what tells features apart

# semopy cannot be told of noise: it gets fewer records, for its standard errors. With N those of
# loadings would be too small by about the factor <<factor>>, and those of regressions
# among features by <<regressions>>. Its chi-square and fit indices count noise as misfit: use the
# export for lavaan to test a model.
covariance = pd.read_csv(HERE / "covariance.csv", index_col=0)

# Your model, in the names of features.csv.
MODEL = \"\"\"
<<example>>
\"\"\"

if __name__ == "__main__":
    regressions = "~" in MODEL.replace("=~", "").replace("~~", "")
    model = Model(MODEL)
    model.fit(cov=covariance, n_samples=N_REGRESSIONS if regressions else N_EFFECTIVE)
    print(model.inspect(std_est=True).to_string())
"""
)

_STATSMODELS = (
    _PYTHON
    + """
# statsmodels cannot be told of noise: it gets N_EFFECTIVE, not N, for its standard errors. With N
# they would be too small by about the factor <<factor>>.
correlation = pd.read_csv(HERE / "correlation.csv", index_col=0)

if __name__ == "__main__":
    factor = Factor(
        corr=correlation.to_numpy(), nobs=N_EFFECTIVE, n_factor=1, method="ml",
        endog_names=list(correlation),
    )
    found = factor.fit()
    errors = found.load_stderr[:, 0]
    table = {"loading": found.loadings[:, 0], "se": errors, "uniqueness": found.uniqueness}
    print(pd.DataFrame(table, index=correlation.index).to_string())
"""
)

_GRAPHICAL_LASSO = (
    _PYTHON
    + """
# ALPHA is a size that sampling and the noise of this release hardly give to any correlation.
# Smaller values keep more of the noise.
ALPHA = <<alpha>>
correlation = pd.read_csv(HERE / "correlation.csv", index_col=0)

if __name__ == "__main__":
    model = GraphicalLasso(alpha=ALPHA, covariance="precomputed", max_iter=1000)
    precision = pd.DataFrame(
        model.fit(correlation.to_numpy()).precision_, correlation.index, correlation.columns
    )
    print(precision.round(3).to_string())
"""
)

_SKFOLIO = (
    _PYTHON
    + """
# Portfolios that count on the noise: the worst variance over all covariances within the errors of
# this release, sampling and noise, is made least.
released = pd.read_csv(HERE / "covariance.csv", index_col=0)


class ReleasedCovariance(BaseCovariance):
    \"\"\"The released covariance; of what it is fitted to the columns alone count.\"\"\"

    def fit(self, X, y=None, **fit_params):
        validate_data(self, X)
        names = list(getattr(self, "feature_names_in_", released.columns))
        if unknown := sorted(set(names) - set(released)):
            raise ValueError(f"assets must be those of features.csv, got {unknown}")
        self._set_covariance(released.loc[names, names].to_numpy())
        return self


class ReleasedUncertaintySet(BaseCovarianceUncertaintySet):
    \"\"\"An ellipsoid that holds the true covariance with this confidence.

    `noise_only` leaves out the sampling error, which other estimators have, too.
    \"\"\"

    def __init__(self, prior_estimator=None, confidence_level=0.95, noise_only=False):
        super().__init__(prior_estimator=prior_estimator)
        self.confidence_level = confidence_level
        self.noise_only = noise_only

    def fit(self, X, y=None, **fit_params):
        self._validate_X_y(X)
        law = "noise.csv" if self.noise_only else "nacov.csv"
        law = pd.read_csv(HERE / law, header=None).to_numpy() / N
        names = list(getattr(self, "feature_names_in_", released.columns))
        d, order = len(released), released.columns.get_indexer(names)
        columns, rows = np.triu_indices(d)
        place = np.zeros((d, d), dtype=int)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        # Entries of the matrix from those below its diagonal, and these from errors of size 1.
        values, vectors = np.linalg.eigh(law)
        there = values > 1e-12 * values[-1]
        geometry = (vectors[:, there] * np.sqrt(values[there]))[place[np.ix_(order, order)].ravel()]
        radius = float(np.sqrt(chi2.ppf(self.confidence_level, there.sum())))
        self.uncertainty_set_ = UncertaintySet(radius=radius, geometry=geometry, norm=2)
        return self


def least_variance(X, **options):
    \"\"\"Fit the robust portfolio of least variance; of X the columns alone count.\"\"\"
    model = MeanRisk(
        risk_measure=RiskMeasure.VARIANCE,
        prior_estimator=EmpiricalPrior(covariance_estimator=ReleasedCovariance()),
        covariance_uncertainty_set_estimator=ReleasedUncertaintySet(**options),
    )
    return model.fit(X)


if __name__ == "__main__":
    names = released.columns
    # Returns are not in the release. The least variance needs the names of the assets alone.
    draws = pd.DataFrame(np.random.default_rng(0).normal(size=(100, len(names))), columns=names)
    print(pd.Series(least_variance(draws).weights_, names).round(4).to_string())
"""
)


#: How a program is told of noise.
LAW, RECORDS, PENALTY = "covariance of the entries", "number of records", "penalty"


@dataclass(frozen=True)
class Client:
    """A program that takes a covariance: what it gets, and the script that runs it."""

    title: str
    script: str
    template: str
    correlation: bool
    noise: str  # what is told of it: the law of all entries, a number of records, or a penalty
    imports: str = ""
    package: str = ""


#: Programs that are exported to, by the names of `--to`.
CLIENTS = {
    "lavaan": Client(
        "Structural equation models of a private release, by lavaan.",
        *("model.R", _LAVAAN, False, LAW),
    ),
    "semopy": Client(
        "Structural equation models of a private release, by semopy.",
        *("model.py", _SEMOPY, False, RECORDS, "from semopy import Model", "semopy"),
    ),
    "statsmodels": Client(
        "Factors of a private release, by statsmodels.",
        *("model.py", _STATSMODELS, True, RECORDS),
        *("from statsmodels.multivariate.factor import Factor", "statsmodels"),
    ),
    "psych": Client(
        "Reliability and factors of a private release, by psych.",
        *("model.R", _PSYCH, True, RECORDS),
    ),
    "graphical-lasso": Client(
        "The graph of a private release, by the graphical lasso of scikit-learn.",
        *("model.py", _GRAPHICAL_LASSO, True, PENALTY),
        *("from sklearn.covariance import GraphicalLasso", "scikit-learn"),
    ),
    "skfolio": Client(
        "Portfolios of least variance from a private release, by skfolio.",
        *("model.py", _SKFOLIO, False, LAW),
        "import numpy as np\n"
        "from scipy.stats import chi2\n"
        "from sklearn.utils.validation import validate_data\n"
        "from skfolio import RiskMeasure\n"
        "from skfolio.moments import BaseCovariance\n"
        "from skfolio.optimization import MeanRisk\n"
        "from skfolio.prior import EmpiricalPrior\n"
        "from skfolio.uncertainty_set import BaseCovarianceUncertaintySet, UncertaintySet",
        "skfolio",
    ),
}


class ClientFiles(NamedTuple):
    """An export for a client: texts by file, a table of features, a statement, and all in words."""

    texts: dict[str, str]
    features: Table
    statement: dict[str, Any]
    lines: tuple[tuple[str, str], ...]


def client_files(release: Release, to: str, features: Any = None) -> ClientFiles:
    """Return the files of an export for one of `CLIENTS`; all features that were found if None."""
    client = CLIENTS[to]
    places, said = _places(release, to, features)
    law = law_of_entries(release, places)
    n, deviations = law.part.n, law.part.deviations
    raw = law.part.standardized().values
    matrix = mend_dense(raw)
    change, least = float(np.abs(matrix - raw).max()), float(np.linalg.eigvalsh(raw)[0])
    factor, largest, alpha = _errors(law)
    directions = _in_all_directions(law, matrix)
    names = _plain_names(feature_names(release)[places])
    example = f"common =~ {' + '.join(names[:_IN_EXAMPLE])}"
    example = example if len(names) > 2 else f"{names[1]} ~ {names[0]}"
    if not client.correlation:
        matrix = matrix * np.multiply.outer(deviations, deviations)
    texts = {f"{'correlation' if client.correlation else 'covariance'}.csv": _csv(matrix, names)}
    if client.noise == LAW:
        texts |= _law_texts(law, client)
    notes = _notes(release, law, said, change, least)
    facts = {
        "n": n,
        "n_effective": max(2, round(n / factor**2)),
        "n_effective_regressions": max(2, round(n / directions)),
        "standard_error_factor": factor,
        "standard_error_factor_largest": largest,
        "standard_error_factor_regressions": directions**0.5,
        "noise_told_as": client.noise,
        "smallest_eigenvalue": least,
        "largest_change": change,
        "notes": notes,
    }
    words = facts | {
        "title": client.title,
        "client": to,
        "package": client.package,
        "imports": "\n".join("    " + line for line in client.imports.split("\n")),
        "notes": _comment(release, notes, client),
        "factor": f"{factor:.2f} on average",
        "regressions": f"{directions**0.5:.2f}",
        "example": example,
        "alpha": f"{alpha:.4g}",
    }
    script = client.template
    for word, value in words.items():
        script = script.replace(f"<<{word}>>", str(value))
    texts[client.script] = script
    location = {} if release.location is None else {"mean": release.location[places]}
    known = {"name": np.array(names, dtype=object), "feature": feature_names(release)[places]}
    table = {**known, **location, "standard_deviation": deviations}
    return ClientFiles(texts, table, facts, _lines(facts, to, len(places)))


def _places(release: Release, to: str, features: Any) -> tuple[IntArray, list[str]]:
    """Places of the features that are exported, and what must be said of the others."""
    check_noise(release)
    places, left_out = chosen(release, features, "features")
    places, said = without_references(release, places)
    law = CLIENTS[to].noise == LAW
    most = _MOST_NACOV if law else _MOST
    if len(places) > most:
        entries = len(places) * (len(places) + 1) // 2
        size = f", whose {entries:,} entries have a covariance of {float(entries) ** 2:.2g} numbers"
        raise CapacityError(
            f"features must be at most {most:,} for {to}, got {len(places):,}"
            f"{size if law else ''}: name those of your model (features, --features)."
        )
    if len(places) < 2:
        raise ParameterError(
            f"features must be at least 2 that vary beyond the noise, got {len(places)}: there is "
            "nothing to model in fewer."
        )
    return places, said + say_left_out(left_out)


def _errors(law: EntryLaw) -> tuple[float, float, float]:
    """Return errors of entries over those of sampling alone: of their mean square, and at most.

    And a size that correlations hardly exceed by both alone.
    """
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        sampling, total = law.variances()
    if not (np.isfinite(total).all() and sampling.min() > 0):
        raise CapacityError(
            "squares of variances must be numbers that doubles hold for the covariance of entries: "
            "release features in other units."
        )
    ratio = np.maximum((total / sampling)[total > 0], 1.0)
    rows, columns, own = law.rows, law.columns, law.part.deviations
    square = total / (law.part.n * (own[rows] * own[columns]) ** 2)
    square = square[(rows != columns) & (total > 0)]
    most = np.sqrt(2 * np.log(max(len(square), 2)) * square.mean()) if len(square) else 1.0
    return float(ratio.mean()) ** 0.5, float(ratio.max()) ** 0.5, float(most)


def _plain_names(names: FloatArray) -> list[str]:
    """Names that are words in R, Python and models: letters, digits and underscores."""
    found: list[str] = []
    for name in map(str, names):
        word = re.sub(r"\W", "_", name, flags=re.ASCII)
        word = word if word[:1].isalpha() else f"x{word}"
        word = f"{word}_" if word in _RESERVED else word
        plain, more = word, 2
        while plain in found:
            plain, more = f"{word}_{more}", more + 1
        found.append(plain)
    return found


def _csv(matrix: FloatArray, names: list[str] | None = None) -> str:
    lines = [",".join(_DIGITS % value for value in row) for row in matrix.tolist()]
    if names is not None:
        own = [f"{name},{line}" for name, line in zip(names, lines, strict=True)]
        lines = [",".join(["", *names]), *own]
    return "\n".join(lines) + "\n"


def _law_texts(law: EntryLaw, client: Client) -> dict[str, str]:
    """The covariance of the entries, and what lavaan or skfolio need beside it."""
    total = law.total()
    if client.template is _SKFOLIO:
        return {"nacov.csv": _csv(total), "noise.csv": _csv(law.added())}
    sampling, own = law.variances()
    weights = 1 / np.where(own > 0, own, sampling)
    return {
        "nacov.csv": _csv(total),
        "weights.csv": _csv(weights[:, None]),
        "n.csv": f"{law.part.n}\n",
    }


def _notes(
    release: Release, law: EntryLaw, said: list[str], change: float, least: float
) -> list[str]:
    """Return what must be known to use the files, in sentences."""
    notes = [*said, *doubts(release, law.part.features, 0)]
    zero = law.part.n_zero
    if zero and not law.noise_sd[~law.released].any():
        notes.append(f"{counted(zero, 'pair')} were no candidates, and count as zero for sure.")
    elif zero:
        notes += doubts(release, law.part.features[:0], zero)
    if change > 0:
        notes.append(
            f"Noise left a smallest eigenvalue of {number(least, 2)}: correlations were moved by "
            f"{number(change, 2)} at most to make the matrix positive definite."
        )
    return notes


def _comment(release: Release, notes: list[str], client: Client) -> str:
    """Notes as comments of a script; names in them end no comment, whatever they are."""
    private = release.guarantee.private
    lines = [] if private else ["THIS RELEASE IS NOT PRIVATE: its noise came from a seed."]
    lines += ["Everything is computed from the release, and costs no privacy.", *notes]
    mark = "# " if client.script.endswith(".R") else ""
    plain = ("".join(c if c.isprintable() and c not in '"\\' else "?" for c in x) for x in lines)
    return "\n".join(mark + line for line in plain)


def _in_all_directions(law: EntryLaw, correlation: FloatArray) -> float:
    """Return the variance of combinations of entries over that of sampling, mean of all directions.

    It is the trace of the inverse of `sampling` times `total`, over the number of entries, but for
    the error that all share.
    """
    rows, columns, own = law.rows, law.columns, law.part.deviations
    P = np.linalg.inv(correlation)
    inverse = P[rows, rows] * P[columns, columns] + P[rows, columns] ** 2
    inverse[rows == columns] /= 4
    noise = law.part.n * (law.noise_sd / (own[rows] * own[columns])) ** 2
    return 1 + float((noise * inverse).mean()) / (1 + law.part.excess)


def _lines(facts: dict[str, Any], to: str, d: int) -> tuple[tuple[str, str], ...]:
    """Return what the command line says, in labelled sentences."""
    client = CLIENTS[to]
    average, most, directions = (
        number(facts[f"standard_error_factor{which}"], 3)
        for which in ("", "_largest", "_regressions")
    )
    errors = f"errors of entries are {average} times those of sampling alone, {most} times at most"
    noise = {
        LAW: f"told to {to}, as the covariance of all entries: {errors}",
        PENALTY: f"counted in the penalty ALPHA of the script: {errors}",
        RECORDS: f"{to} cannot be told of it. The script gives {facts['n_effective']:,} records "
        f"instead of {facts['n']:,}: with all, standard errors of entries and loadings would be "
        f"too small by about the factor {average}, and those of regressions by {directions}",
    }[client.noise]
    kind = "correlations" if client.correlation else "covariances"
    notes = [("note", note) for note in facts["notes"]]
    run = f"{'Rscript' if client.script.endswith('.R') else 'python'} {client.script}"
    return (kind, counted(d, "feature")), ("noise", noise), *notes, ("run", run)
