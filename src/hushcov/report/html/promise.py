"""What the guarantee promises, what it does not, and what was assumed."""

from __future__ import annotations

import math

from hushcov.report.html.markup import (
    Markup,
    count,
    facts,
    items,
    join,
    number,
    percent,
    printable,
    table,
    tag,
)
from hushcov.report.html.subject import Subject
from hushcov.stages.complete import complete_words

_FALSE_ALARMS = (0.01, 0.05, 0.1, 0.5)
_MOST_EPSILON = 700.0  # of which doubles hold the exponential
_GROUP = 4

NOT_PRIVATE = (
    "The noise came from a seed or a simulation, and can be subtracted by anyone who knows it. "
    "Treat this page like the data. With secret noise the same mechanism would promise what "
    "follows."
)
NOT_CERTIFIED = (
    "The published privacy argument of this mechanism has gaps: nothing is certified. Treat this "
    "page like the data. What follows is what its authors claim."
)


def banners(subject: Subject) -> Markup:
    """Warnings nobody can miss: that a release is not private, and what was said before it."""
    said = [("WARNING.", printable(sentence)) for sentence in subject.release.warnings]
    if not subject.release.guarantee.private:
        said.insert(0, ("NOT PRIVATE.", NOT_PRIVATE if subject.certified else NOT_CERTIFIED))
    return join(
        *(
            tag("p", tag("strong", title), " ", sentence, class_="banner", role="alert")
            for title, sentence in said
        )
    )


def promise_section(subject: Subject) -> Markup:
    """The guarantee in words and in formulas."""
    guarantee = subject.release.guarantee
    epsilon, delta = guarantee.epsilon, guarantee.delta
    factor = number(math.exp(min(epsilon, _MOST_EPSILON)))
    return join(
        tag(
            "p",
            "One person's record hardly changes what was released. Take any dataset, and replace "
            f"any one record in it by any other: whatever happens, it becomes at most {factor} "
            f"times as likely, plus {number(delta)}. It holds whatever the records are, whatever "
            "others know, and whatever is computed from the release later.",
        ),
        tag("p", _formula(), class_="formula"),
        tag(
            "p",
            "for all datasets x and x\N{PRIME} of equally many records that differ in one of them, "
            "and all sets S of outcomes of the mechanism M. Here epsilon = ",
            f"{number(epsilon, 4)} and delta = {number(delta, 4)}: this is (epsilon, delta)-"
            "differential privacy.",
        ),
        tag("h3", "What that means for one person"),
        tag(
            "p",
            "Somebody knows all other records and wants to tell from the release whether your "
            "record is A or B. However clever the test, if it says B wrongly in some cases, it "
            "says B rightly in hardly more:",
        ),
        _test_table(epsilon, delta),
        tag("h3", "What it does not promise"),
        items(_not_promised(epsilon, delta)),
        tag("h3", "On what grounds"),
        items(_grounds(subject)),
    )


def _formula() -> Markup:
    probability = "Pr"
    return join(
        f"{probability}[M(x) \N{ELEMENT OF} S] \N{LESS-THAN OR EQUAL TO} e",
        tag("sup", "\N{GREEK SMALL LETTER EPSILON}"),
        f" {probability}[M(x\N{PRIME}) \N{ELEMENT OF} S] + \N{GREEK SMALL LETTER DELTA}",
    )


def largest_power(false_alarm: float, epsilon: float, delta: float) -> float:
    """How often a test may be right about B that is wrong about A in `false_alarm` of cases."""
    factor = math.exp(min(epsilon, _MOST_EPSILON))
    by_one_side = factor * false_alarm + delta
    by_other_side = 1 - (1 - false_alarm - delta) / factor
    return min(1.0, by_one_side, by_other_side)


def _test_table(epsilon: float, delta: float) -> Markup:
    rows = [
        [percent(alarm), percent(alarm), percent(largest_power(alarm, epsilon, delta))]
        for alarm in _FALSE_ALARMS
    ]
    head = ("wrongly B, when it is A", "rightly B, by guessing", "rightly B, at most")
    return table("What any test can achieve", head, rows, texts=0)


def _not_promised(epsilon: float, delta: float) -> list[str]:
    group = f"{_GROUP} records together have epsilon {number(_GROUP * epsilon)} and delta "
    group += number(min(1.0, _GROUP * math.exp(min((_GROUP - 1) * epsilon, 600)) * delta))
    return [
        f"Groups. A person with several records, or a family, is protected less: {group}. In "
        "general m records have m epsilon and m e^((m \N{MINUS SIGN} 1) epsilon) delta.",
        "Records that tell of each other. If other people's records give yours away, leaving yours "
        "out does not hide it.",
        "What holds for everybody. That two features go together is what a release is for. It may "
        "say something about you if one of the two is known of you, and it would without your "
        "record.",
        "Public inputs: the number of records, the names and number of features, the budget, and "
        "every other input listed below are not hidden.",
        "Other releases from the same records. Each spends anew, and what was spent adds up.",
        "What is not in the release: how long the computation took, its errors and its memory.",
    ]


def _grounds(subject: Subject) -> list[str]:
    guarantee = subject.release.guarantee
    conditions = "; ".join(map(printable, guarantee.preconditions)) or "nothing needed checking"
    if not subject.certified:
        return ["No proof: the numbers are the authors' claim."]
    return [
        "A proof that covers every dataset; its steps name lines of the program.",
        f"Conditions were checked before noise was drawn. {conditions[:1].upper()}"
        f"{conditions[1:]}.",
        "Noise from the operating system's random numbers."
        if guarantee.private
        else "The noise is NOT secret, so that nothing above holds for this very release.",
    ]


_MEANINGS = {
    "n_records": "records averaged; a pair of records counts as one where differences were taken",
    "n_features": "columns of the table",
    "row_sparsity": "most nonzeros of a row of the covariance, the diagonal included. It decides "
    "how much is looked for; if it is wrong, accuracy suffers and privacy does not",
    "epsilon": "privacy budget: the smaller, the more private",
    "delta": "privacy budget: the probability with which the factor may fail",
    "scale": "bound on the standard deviation in every direction",
    "target_error": "error that the theorem seeks, in units of the squared scale",
    "failure_probability": "how often the theorem may miss its target",
}


def assumption_section(subject: Subject) -> Markup:
    """Public inputs, and what the numbers rest on beside them."""
    listed = [
        (name.removeprefix("n_").replace("_", " "), f"{_shown(value)}: {_MEANINGS[name]}.")
        for name, value in subject.inputs.items()
        if name in _MEANINGS and isinstance(value, int | float)
    ]
    return join(
        tag(
            "p",
            "The mechanism was told these numbers. They are public, and must not be chosen by "
            "looking at the records.",
        ),
        facts(listed, class_="inputs") if listed else tag("p", "The release names no inputs."),
        items(_assumptions(subject)),
    )


def _shown(value: int | float) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return count(value) if abs(value) < 10**300 else "out of range"
    return number(value, 4)


def _assumptions(subject: Subject) -> list[str]:
    return [_mean(subject.known_mean), *_scales(subject), *_complete(subject)]


def _mean(known: bool | None) -> str:
    order = (
        "The order of the rows must have nothing to do with their values: shuffle a table that is "
        "sorted, by time for instance, by fresh secret randomness."
    )
    if known is None:
        return (
            "Mean: the release does not say whether the records were taken to have mean zero, or "
            "successive records were replaced by their differences, in which any mean drops out. "
            f"In the second case: {order[0].lower()}{order[1:]}"
        )
    if known:
        return "Mean: the records were said to have mean zero. If not, the covariances are wrong."
    return (
        "Mean: not known. Successive records were replaced by their differences, in which any mean "
        f"drops out; this halves their number. {order}"
    )


def _scales(subject: Subject) -> list[str]:
    if subject.release.feature_scale is None:
        return ["Scales: one bound for all directions was given."]
    if subject.release.making.scales == "released":
        return ["Scales of the features: not known. They were estimated within the budget."]
    return [
        "Scales of the features: given, and public. Wrong ones cost accuracy; they must not come "
        "from the records."
    ]


def _complete(subject: Subject) -> list[str]:
    complete = subject.release.making.complete
    if complete is None:
        return []
    paired = subject.release.making.paired
    words = complete_words(complete, "pairs of records" if paired else "records")
    number_left = f": {words}" if words else ""
    return [
        "Records with missing values were left out, and about how many are complete was estimated "
        f"within the budget{number_left}. Whether a value is missing must have nothing to do with "
        "the values."
    ]
