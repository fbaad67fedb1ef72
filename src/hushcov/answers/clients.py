"""Exports for programs that take a covariance, with the noise of this very release counted.

lavaan and skfolio are told of the noise. The others take a number of records, and get the one for
which their standard errors are about right. Everything is computed from the release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hushcov._arrays import BoolArray, FloatArray, IntArray
from hushcov._words import counted, number
from hushcov.answers.columns import chosen_varying, doubts
from hushcov.answers.files import Table
from hushcov.answers.names import feature_names
from hushcov.answers.uncertain import Uncertain, check_noise, relations
from hushcov.exceptions import CapacityError, printable
from hushcov.postprocess import values_at
from hushcov.postprocess.bands import mend_dense
from hushcov.release import Release
from hushcov.release.coverage import coverage, noise_of
from hushcov.release.estimate import scales_of

_MOST_NACOV = 50  # features, whose d (d + 1) / 2 entries have a covariance of 1.6 million
_MOST = 2_000  # features of a whole matrix
_DIGITS = "%.12g"
_RESERVED = {
    *("if", "else", "repeat", "while", "function", "for", "next", "break", "in"),
    *("TRUE", "FALSE", "NULL", "Inf", "NaN", "NA"),
}
_IN_EXAMPLE = 8  # features of the model that a script begins with
_SCRIPTS = Path(__file__).parent / "scripts"  # what they are made from, by programs

#: How a program is told of noise.
LAW, RECORDS, PENALTY = "covariance of the entries", "number of records", "penalty"


@dataclass(frozen=True)
class Client:
    """A program that takes a covariance: what it gets, and the script that runs it."""

    title: str
    script: str
    correlation: bool
    noise: str  # what is told of it: the law of all entries, a number of records, or a penalty
    imports: str = ""
    package: str = ""


#: Programs that are exported to, by the names of `--to`.
CLIENTS = {
    "lavaan": Client(
        "Structural equation models of a private release, by lavaan.", *("model.R", False, LAW)
    ),
    "semopy": Client(
        "Structural equation models of a private release, by semopy.",
        *("model.py", False, RECORDS, "from semopy import Model", "semopy"),
    ),
    "statsmodels": Client(
        "Factors of a private release, by statsmodels.",
        *("model.py", True, RECORDS),
        *("from statsmodels.multivariate.factor import Factor", "statsmodels"),
    ),
    "psych": Client(
        "Reliability and factors of a private release, by psych.", *("model.R", True, RECORDS)
    ),
    "graphical-lasso": Client(
        "The graph of a private release, by the graphical lasso of scikit-learn.",
        *("model.py", True, PENALTY),
        *("from sklearn.covariance import GraphicalLasso", "scikit-learn"),
    ),
    "skfolio": Client(
        "Portfolios of least variance from a private release, by skfolio.",
        *("model.py", False, LAW),
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


@dataclass(frozen=True, eq=False)
class EntryLaw:
    """The joint law of the entries of a matrix on and below its diagonal, column by column.

    That is the order of vech, and of lavaan. Errors are those against the population: sampling,
    and what the release added to it. Covariances are times `part.n`.

    Parameters
    ----------
    part : Uncertain
        The matrix.
    rows, columns : ndarray
        Where the entries stand.
    noise_sd : ndarray
        Deviation of the error of each entry by itself: its noise, and of a pair that was not
        released what it may be.
    shared_sd : ndarray
        Deviation of each by the one error that all share: what bounds on records took off.
    """

    part: Uncertain
    rows: IntArray
    columns: IntArray
    noise_sd: FloatArray
    shared_sd: FloatArray

    @property
    def released(self) -> BoolArray:
        """Entries that were released; the others are zero in any sample."""
        return np.asarray(self.part.known[self.rows, self.columns])

    def sampling(self) -> FloatArray:
        """Return the covariance of the entries without noise, which lavaan calls Gamma."""
        S, rows, columns, excess = self.part.covariance, self.rows, self.columns, self.part.excess
        pairs = S[np.ix_(rows, rows)] * S[np.ix_(columns, columns)]
        pairs += S[np.ix_(rows, columns)] * S[np.ix_(columns, rows)]
        own = S[rows, columns]
        return np.asarray((1 + excess) * pairs + excess * np.multiply.outer(own, own))

    def total(self) -> FloatArray:
        """Return the covariance of the entries of this release, which lavaan takes as NACOV."""
        found, gone = self.sampling(), ~self.released
        found[gone] = found[:, gone] = 0.0
        return found + self.added()

    def added(self) -> FloatArray:
        """Return the covariance that the release adds to that of sampling."""
        S, i, j = self.part.shape, self.rows, self.columns
        noise = np.diag(self.noise_sd**2) if S is None else S[np.ix_(i, i)] * S[np.ix_(j, j)]
        if S is not None:
            noise += S[np.ix_(i, j)] * S[np.ix_(j, i)]
        shared = np.multiply.outer(self.shared_sd, self.shared_sd)
        return np.asarray(self.part.n * (shared + noise))

    def variances(self) -> tuple[FloatArray, FloatArray]:
        """Return the diagonals of `sampling` and `total`, for matrices of any size."""
        S, excess, own = self.part.covariance, self.part.excess, self.part.covariance.diagonal()
        square = S[self.rows, self.columns] ** 2
        product = own[self.rows] * own[self.columns]
        sampling = (1 + excess) * (product + square) + excess * square
        added = self.part.n * (self.noise_sd**2 + self.shared_sd**2)
        return sampling, np.where(self.released, sampling, 0.0) + added


def law_of_entries(release: Release, features: IntArray) -> EntryLaw:
    """Return the law of the released entries of these features.

    Values are those before any threshold and shrinkage, so that their noise is known. Pairs that
    were not released are zero: surely where it is public that no others covary, else give or take
    `missing_sd`.
    """
    part, known, scale = relations(release, features), coverage(release), scales_of(release)
    if release.making.look is not None and part.lost is not None:  # as if alike in all directions
        bias = release.making.look.moments.bias
        part = replace(part, excess=part.excess + part.n * bias**2)
    columns, rows = np.triu_indices(len(features))
    places, there = (features[rows], features[columns]), part.known[rows, columns]
    raw = np.asarray(values_at(release.integers, *places), dtype=np.float64) * release.unit
    with np.errstate(all="ignore"):
        kept = known.errors(places, raw)[1]
        unit = scale[places[0]] * scale[places[1]] / kept
        shared = known.shared_errors(places, raw) * unit
        noise = noise_of(release, places) * unit
    noise = noise if part.shape is None else part.noise_sd[rows, columns]
    public = release.of_candidates and release.parameters.get("adaptive_width") is not True
    doubt = np.zeros_like(noise) if public else part.noise_sd[rows, columns]
    noise, shared = np.where(there, noise, doubt), np.where(there, shared, 0.0)
    return EntryLaw(part, rows, columns, noise, shared)


class ClientFiles(NamedTuple):
    """An export for a client: texts by file, a table of features, a statement, and all in words."""

    texts: dict[str, str]
    features: Table
    statement: dict[str, Any]
    lines: tuple[tuple[str, str], ...]


def client_files(release: Release, to: str, features: Any = None) -> ClientFiles:
    """Return the files of an export for one of `CLIENTS`; all features that were found if None."""
    client = CLIENTS[to]
    ending = Path(client.script).suffix
    places, said = _places(release, to, features)
    law = law_of_entries(release, places)
    n, deviations = law.part.n, law.part.deviations
    raw = law.part.standardized().values
    matrix, least = mend_dense(raw), float(np.linalg.eigvalsh(raw)[0])
    change = float(np.abs(matrix - raw).max())
    factor, largest, alpha = _errors(law)
    directions = _in_all_directions(law, matrix)
    names = _plain_names(feature_names(release)[places])
    example = f"common =~ {' + '.join(names[:_IN_EXAMPLE])}"
    example = example if len(names) > 2 else f"{names[1]} ~ {names[0]}"
    if not client.correlation:
        matrix = matrix * np.multiply.outer(deviations, deviations)
    texts = {f"{'correlation' if client.correlation else 'covariance'}.csv": _csv(matrix, names)}
    if client.noise == LAW:
        texts["nacov.csv"] = _csv(law.total())
    if to == "skfolio":
        texts["noise.csv"] = _csv(law.added())
    elif client.noise == LAW:
        sampling, own = law.variances()
        weights = 1 / np.where(own > 0, own, sampling)
        texts |= {"weights.csv": _csv(weights[:, None]), "n.csv": f"{law.part.n}\n"}
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
    script = "".join((_SCRIPTS / f"{part}{ending}.txt").read_text("utf-8") for part in ("head", to))
    for word, value in words.items():
        script = script.replace(f"<<{word}>>", str(value))
    texts[client.script] = script
    location = {} if release.location is None else {"mean": release.location[places]}
    known = {"name": np.array(names, dtype=object), "feature": feature_names(release)[places]}
    table = {**known, **location, "standard_deviation": deviations}
    return ClientFiles(texts, table, facts, _lines(facts, to, len(places)))


def _places(release: Release, to: str, features: Any) -> tuple[IntArray, list[str]]:
    """Return the places of the features that are exported, and remarks on the others."""
    check_noise(release)
    places, _, said = chosen_varying(release, features, "model in", related=True)
    law = CLIENTS[to].noise == LAW
    most = _MOST_NACOV if law else _MOST
    if len(places) > most:
        entries = len(places) * (len(places) + 1) // 2
        size = f", whose {entries:,} entries have a covariance of {float(entries) ** 2:.2g} numbers"
        raise CapacityError(
            f"features must be at most {most:,} for {to}, got {len(places):,}"
            f"{size if law else ''}: name those of your model (features, --features)."
        )
    return places, said


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
    """Return names that are words in R, Python and models: letters, digits and underscores."""
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
    """Return notes as comments of a script; no name in them can end a comment."""
    private = release.guarantee.private
    lines = [] if private else ["THIS RELEASE IS NOT PRIVATE: its noise came from a seed."]
    lines += ["Everything is computed from the release, and costs no privacy.", *notes]
    mark = "# " if client.script.endswith(".R") else ""
    return "\n".join(mark + re.sub(r'["\\]', "?", printable(line)) for line in lines)


def _in_all_directions(law: EntryLaw, correlation: FloatArray) -> float:
    """Return the variance of combinations of entries over that of sampling, mean of all directions.

    It is the trace of the inverse of `sampling` times `total`, over the number of entries, but for
    the error that all share.
    """
    rows, columns, own = law.rows, law.columns, law.part.deviations
    P = np.linalg.inv(correlation)
    inverse = P[rows, rows] * P[columns, columns] + P[rows, columns] ** 2
    inverse[rows == columns] /= 4
    if law.part.shape is not None:  # of the same form: the noise of a direction over its variance
        turned = P @ (law.part.shape / np.multiply.outer(own, own))
        d = len(P)
        mean = (np.trace(turned) ** 2 + float((turned * turned.T).sum())) / (d * (d + 1))
        return 1 + law.part.n * float(mean) / (1 + law.part.excess)
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
