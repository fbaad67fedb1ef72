"""What a release says of its structure and of its error, in words and as plain data.

The command line and the report say it with these functions, so that they say the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushcov._words import counted, number
from hushcov.postprocess import Split, largest
from hushcov.release.document import Release, Structure
from hushcov.release.findings import estimate, factors_of
from hushcov.release.pairs import scan

#: Labels of what is said.
STRUCTURE, ERROR, VERDICT = "structure", "error estimate", "verdict"
#: How far an estimate can be relied on.
GOOD, ROUGH, HOPELESS, UNKNOWN = "good", "rough", "hopeless", "not known"
#: Errors up to which an estimate is called good, and rough; beyond, it is hopeless.
MOST_GOOD, MOST_ROUGH = 0.1, 0.5
_MOST_NAMED = 5  # features of a factor in a sentence
_LISTED = 20  # and in data
_AS_ZEROS = 0.9  # an error at which the zero matrix, whose error is 1, does as well
_NOT_BELOW = 1.0


@dataclass(frozen=True)
class FactorWords:
    """A factor: its share of the variance, and the features that follow it most.

    `strongest` has features, counted from 0, with their correlation to the factor, which noise
    may put at 1; the first one is positive. `share` is that of the summed variances of features
    brought to equal scales.
    """

    share: float
    strongest: tuple[tuple[int, float], ...]

    def named(self, names: tuple[str, ...]) -> str:
        """The features by name, with their correlations."""
        listed = [f"{names[i]} ({number(value, 2)})" for i, value in self.strongest]
        return ", ".join(listed[:_MOST_NAMED])


def released_factors(release: Release) -> tuple[FactorWords, ...]:
    """The factors of a release, the strongest first; none where it has none."""
    found = factors_of(release)
    if found is None:
        return ()
    variance = np.diag(found.matrix)
    total = float(np.maximum(variance, 0.0).sum())
    deviation = np.sqrt(np.maximum(variance, 0.0))
    return tuple(_factor(found, each, deviation, total) for each in range(len(found.values)))


def _factor(found: Split, which: int, deviation: Any, total: float) -> FactorWords:
    value, loading = float(found.values[which]), found.loadings[:, which]
    follows = np.sqrt(value) * loading
    correlation = np.divide(
        follows, deviation, out=np.zeros_like(follows), where=deviation > 0
    ).clip(-1, 1)
    order = np.argsort(-np.abs(correlation), kind="stable")[:_LISTED]
    sign = 1.0 if correlation[order[0]] >= 0 else -1.0
    strongest = tuple((int(i), sign * float(correlation[i])) for i in order if correlation[i] != 0)
    return FactorWords(min(1.0, value / total) if total > 0 else 0.0, strongest)


def structure_words(release: Release) -> list[tuple[str, str]]:
    """Structure, factors and error in labelled sentences; nothing where none was looked for."""
    found = release.making.structure
    if found is None:
        return []
    names = release.column_names or tuple(map(str, range(release.n_features)))
    lines = [(STRUCTURE, kind_words(release, found))]
    for place, each in enumerate(released_factors(release), start=1):
        share = f"{number(100 * each.share, 2)} % of the variance"
        words = f"{share}; most correlated with it: {each.named(names)}"
        lines.append((f"factor {place}", words))
    return [*lines, (ERROR, error_words(release))]


def kind_words(release: Release, found: Structure) -> str:
    """What the covariance was found to be, and why."""
    if release.n_features == 1:
        return short_kind(release, found)
    if found.kind == "sparse" and not _kept_pairs(release):
        return short_kind(release, found)  # there are no strong pairs to speak of
    return f"{short_kind(release, found)}. Why: {found.why}"


def short_kind(release: Release, found: Structure) -> str:
    """What the covariance was found to be."""
    if release.n_features == 1:
        return "a variance: one feature has no pairs"
    if found.kind == "sparse":
        kept, pairs = _kept_pairs(release), math.comb(release.n_features, 2)
        meaning = "no pair stands out of the noise"
        if kept:
            meaning = f"{kept:,} of {counted(pairs, 'pair')} {'is' if kept == 1 else 'are'} kept"
    elif found.kind == "factors":
        meaning = f"{counted(found.rank, 'factor')} that many features follow"
    else:
        meaning = "many pairs of features go together"
    return f"{found.kind}: {meaning}"


def _kept_pairs(release: Release) -> int:
    """How many pairs pass the threshold, and are not tapered to zero."""
    limit = release.making.threshold / release.unit
    ones = np.ones(release.n_features)
    matrix = release.integers
    if "taper" in release.parameters:
        from hushcov.release.tapers import tapered

        matrix = tapered(matrix, release)
    return scan(matrix, ones, most=1, above=limit).total


def short_error(found: Structure) -> str:
    """The error and its interval."""
    return (
        f"{number(found.error, 2)}, between {number(found.least, 2)} and {number(found.most, 2)} "
        "of the covariance's size (its norm)"
    )


def error_words(release: Release) -> str:
    """How far off the estimate is, about, and what that means; nothing where it is not known."""
    found = release.making.structure
    if found is None:
        return ""
    among = " among the candidate pairs" * release.told_pairs
    counts = f"noise, sampling and what may have been missed{among}"
    counts += "; zeros for all entries would have 1"
    sentences = [f"{short_error(found)}: {counts}"]
    if release.making.unresolved:
        sentences.append("Features that were not found do not count")
    return ". ".join(filter(None, [*sentences, error_verdict(found)]))


def as_zeros(found: Structure) -> bool:
    """Whether the zero matrix would do as well."""
    return found.error >= _AS_ZEROS


def error_verdict(found: Structure) -> str:
    """That zeros would do as well, where they would; and what was done about it."""
    words = ""
    if as_zeros(found):
        words = (
            "Zeros for all entries, which need no data, would do as well: do not rely on this "
            "estimate"
        )
    elif found.most >= _NOT_BELOW:
        words = "It may be no better than zeros for all entries"
    return ". ".join(filter(None, [words, multiplied_words(found)]))


def multiplied_words(found: Structure) -> str:
    """That the estimate was taken towards zero, where it was."""
    if found.kept >= 1:
        return ""
    return (
        f"The estimate was multiplied by {number(found.kept, 2)}, so that it is hardly worse than "
        "zeros"
    )


@dataclass(frozen=True)
class Verdict:
    """How far an estimate can be relied on: a word, a sentence, and the error behind both.

    `word` is "good" up to an error of 0.1 that is surely below 1, "rough" up to 0.5, and
    "hopeless" beyond; "not known" where nothing tells noise.
    """

    word: str
    sentence: str
    error: float | None


def verdict(release: Release) -> Verdict:
    """What to think of a release, from its error estimate, or else from its noise and size."""
    found, lost = release.making.structure, len(release.making.unresolved)
    with np.errstate(all="ignore"):  # a release on disk may hold any finite numbers
        error = _error_of_noise(release) if found is None else found.error
    if error is None:
        words = "how far off the estimate is cannot be told, as its noise has no single level"
        return Verdict(UNKNOWN, words, None)
    about = f"off by about {number(error, 2)} of the covariance's size (its norm)"
    if found is None:
        about += ", by noise and sampling alone"
    else:
        about += f", between {number(found.least, 2)} and {number(found.most, 2)}"
    about += ", if all pairs but the candidates are zero" * release.told_pairs
    if lost:
        about += f"; {lost:,} of {counted(release.n_features, 'feature')} could not be found"
    if error > MOST_ROUGH or lost == release.n_features:
        words = "even strong relations may be noise"
        if error >= _AS_ZEROS or lost == release.n_features:
            words = "zeros for all entries, which need no data, do as well"
        return Verdict(HOPELESS, f"do not rely on this estimate, {about}: {words}", error)
    most = error if found is None else found.most
    if error <= MOST_GOOD and most < _NOT_BELOW:
        return Verdict(
            GOOD, f"the estimate is {about}; zeros for all entries would be off by 1", error
        )
    words = "strong relations can be used and weak ones cannot"
    if found is not None and most >= _NOT_BELOW:
        words += ", and it may be no better than zeros for all entries (off by 1)"
    return Verdict(ROUGH, f"the estimate is {about}: {words}", error)


def _error_of_noise(release: Release) -> float | None:
    """The norm of noise and sampling errors of what is kept, over that of the estimate; about.

    Noise of independent entries has about twice the largest root of a row's summed variances as
    its norm, and sampling errors about 2 sqrt(norm trace / n). What was missed does not count.
    """
    n = release.n_sampled
    if release.noise_sd is None or n is None:
        return None
    ones, scale = np.ones(release.n_features), release.feature_scale
    varies = None if scale is None else np.where(scale > 0, ones, 0.0)
    matrix = estimate(replace(release, feature_scale=varies))  # in units of the scales
    partners = np.asarray((matrix != 0).astype(np.float64) @ ones)
    pair, own = np.array(release.noise_sd)
    noise = 2 * float(np.sqrt((partners * pair**2 + own**2).max()))
    norm = largest(matrix) if np.isfinite(matrix @ ones).all() else np.nan
    if norm <= noise:
        return 1.0
    norm = (norm + np.sqrt(norm * norm - noise * noise)) / 2  # without what noise adds to it
    variances = np.maximum(matrix.diagonal(), 0.0)
    trace = float(variances.sum())
    if release.told_pairs:  # others count as zero, so that errors stay among those released
        trace = min(trace, float(np.asarray((matrix != 0).astype(np.float64) @ variances).max()))
    sampling = 2 * np.sqrt(norm * trace / n)
    error = float(np.hypot(noise, sampling) / norm)
    return min(1.0, error) if np.isfinite(error) else None


def structure_dict(release: Release) -> dict[str, object] | None:
    """The same as plain, JSON-ready data."""
    found = release.making.structure
    if found is None:
        return None
    names = release.column_names
    factors = [
        {
            "share_of_variance": each.share,
            "features": [
                {"feature": i, "name": None if names is None else names[i], "correlation": value}
                for i, value in each.strongest
            ],
        }
        for each in released_factors(release)
    ]
    return {
        "kind": found.kind,
        "why": found.why,
        "n_factors": found.rank,
        "factors": factors,
        "error_estimate": found.error,
        "error_interval": [found.least, found.most],
        "multiplied_by": found.kept,
        "as_bad_as_zeros": as_zeros(found),
    }
