"""The verdict on a release: how far its estimate can be relied on, in a word and a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hushcov._words import counted, noise_level, number, some_of
from hushcov.release.coverage import coverage
from hushcov.release.document import Release, Structure
from hushcov.release.findings import (
    ErrorEstimate,
    constant_features,
    error_estimate,
    not_found,
)

#: How far an estimate can be relied on.
GOOD, ROUGH, HOPELESS, UNKNOWN = "good", "rough", "hopeless", "not known"
#: Errors up to which an estimate is called good, and rough, if it is surely below; else hopeless.
MOST_GOOD, MOST_ROUGH = 0.2, 0.8
_AS_ZEROS = 0.9  # an error at which the zero matrix, whose error is 1, does as well
_NOT_BELOW = 1.0
#: Features in a sentence.
MOST_NAMED = 10
#: Said where values far away were cut off.
FAR = "some records lie far outside the others and were cut down"


@dataclass(frozen=True)
class Verdict:
    """How far an estimate can be relied on: a word, a sentence, and the error behind both.

    `word` follows the upper end `most`: "good" up to 0.2, "rough" up to 0.8, and "hopeless" beyond;
    "not known" where nothing tells noise. `not_found` and `constant` are the features whose mean
    and scale were not found, and those that do not vary beyond noise. The error leaves them out.
    `heavy_tails` says that records lie far outside the others: what was cut off them is guessed.
    """

    word: str
    sentence: str
    error: float | None
    least: float | None = None
    most: float | None = None
    not_found: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    heavy_tails: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the verdict as plain, JSON-ready data."""
        return asdict(self) | {"not_found": [*self.not_found], "constant": [*self.constant]}


def verdict(release: Release) -> Verdict:
    """Return the verdict on a release from its error estimate."""
    names = release.column_names or tuple(map(str, range(release.n_features)))
    missing, still = (
        tuple(names[i] for i in each) for each in (not_found(release), constant_features(release))
    )
    word, sentence, found = _judged(release, len(missing) + len(still) == release.n_features)
    for listed, what in ((missing, "could not be found"), (still, "came out constant")):
        if listed:
            of = counted(release.n_features, "feature")
            sentence += f". {len(listed):,} of {of} {what}: {some_of(listed, MOST_NAMED)}"
    if missing or still:
        sentence += ". The error leaves them out"
    far = coverage(release).long > 0
    if far:
        sentence += f". {FAR.capitalize()}, and the error counts a guess of how much"
    error, least, most = (None, None, None) if found is None else found
    return Verdict(word, sentence, error, least, most, missing, still, far)


def _judged(release: Release, none_varies: bool) -> tuple[str, str, ErrorEstimate | None]:
    """Return the word of a verdict, the first part of its sentence, and the error behind it."""
    found = error_estimate(release)
    if found is None:
        words = "how far off the estimate is cannot be told, as its noise has no single level"
        return UNKNOWN, words, None
    about = f"off by about {_size(found)}"
    if release.making.structure is None and release.making.tails is None:
        about += ", by noise and sampling alone, as nothing is known of values far away"
    about += ", if all pairs but the candidates are zero" * release.told_pairs
    if found.most > MOST_ROUGH or none_varies:
        words = "even strong relations may be wrong"
        if as_zeros(found) or none_varies:
            words = "zeros for all entries, which need no data, do as well"
        elif found.most >= _NOT_BELOW:
            words += ", and it may be no better than zeros for all entries (off by 1)"
        return HOPELESS, f"do not rely on this estimate, {about}: {words}", found
    if found.most <= MOST_GOOD:
        return GOOD, f"the estimate is {about}; zeros for all entries would be off by 1", found
    words = "strong relations can be used and weak ones cannot"
    return ROUGH, f"the estimate is {about}: {words}", found


def error_words(release: Release) -> str:
    """Say how far off the estimate is and what that means; nothing where it is not known."""
    found, structure = error_estimate(release), release.making.structure
    if found is None or structure is None:
        return ""
    among = " among the candidate pairs" * release.told_pairs
    counts = f"noise, what was cut off large values, and what may have been missed{among}"
    sentences = [f"{_size(found)}: {counts}; zeros for all entries would have 1"]
    if as_zeros(found):
        sentences.append(
            "Zeros for all entries, which need no data, would do as well: do not rely on this "
            "estimate"
        )
    elif found.most >= _NOT_BELOW:
        sentences.append("It may be no better than zeros for all entries")
    return ". ".join(filter(None, [*sentences, multiplied_words(structure)]))


def _size(found: ErrorEstimate) -> str:
    error, least, most = (number(each, 2) for each in found)
    return f"{error} of the covariance's size (its norm), between {least} and {most}"


def as_zeros(found: ErrorEstimate) -> bool:
    """Return whether the zero matrix would do as well."""
    return found.error >= _AS_ZEROS


def multiplied_words(found: Structure) -> str:
    """Say that the estimate was shrunk towards zero, where it was."""
    if found.kept >= 1:
        return ""
    by = number(found.kept, 2)
    return f"The estimate was multiplied by {by}, so that it is hardly worse than zeros"


def noise_words(release: Release) -> str | None:
    """Hold the noise of a correlation against its sampling error; None where one is not known."""
    if release.noise_sd is None or release.n_sampled is None:
        return None
    return noise_level(float(release.noise_sd[0]), release.n_sampled)
