"""The section on the budget: what was charged for what."""

from __future__ import annotations

from hushcov.release import Part
from hushcov.report.html.markup import Markup, figure, join, number, percent, table, tag
from hushcov.report.html.parts import EPSILON, ZCDP, alone, cost, currency, privacy_parts
from hushcov.report.html.plot import Axis, picture, text
from hushcov.report.html.subject import Subject

_WIDTH, _HEIGHT, _TOP = 420, 82, 24
_NARROW = 16  # pixels below which a part of the bar has no letter
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COLOURS = 6  # classes share-0 to share-5 of the style sheet

_METHODS = {
    "basic": "by adding up epsilons and deltas",
    "gaussian": "by the exact curve of normal noise",
    "zcdp": "by zero-concentrated differential privacy",
    "rdp": "by Rényi differential privacy",
    "embedding": "by a bound that is nearly the exact curve of normal noise",
    "pld": "by privacy-loss distributions",
}


def budget_section(subject: Subject) -> Markup:
    """What was charged for what: a bar, a table, and how to read them."""
    guarantee, parts = subject.release.guarantee, privacy_parts(subject.release)
    delta = guarantee.transcript_delta + guarantee.numerical_delta
    spent = tag(
        "p",
        f"Spent: epsilon {number(guarantee.transcript_epsilon, 4)} of the promised "
        f"{number(guarantee.epsilon, 4)}, delta {number(delta, 3)} of {number(guarantee.delta, 3)}",
        f", {_METHODS[guarantee.method]}." if guarantee.method in _METHODS else ".",
        f" Of this delta, {number(guarantee.numerical_delta, 2)} pays for the finite precision of "
        "the computer."
        if guarantee.numerical_delta
        else None,
    )
    if not subject.certified:
        claim = "Nothing here was certified: the numbers above are what the authors claim."
        return join(spent, tag("p", claim))
    if not parts:
        return join(spent, tag("p", "The release names no parts."))
    unit = currency(parts)
    return join(
        spent,
        None if unit is None else _bar(parts, unit),
        _table(parts, unit, guarantee.transcript_delta),
        tag("p", _EXPLAINED[unit]),
    )


_EXPLAINED = {
    ZCDP: "How to read this: shares are of rho, the cost in zero-concentrated differential "
    "privacy, which adds up exactly. Normal noise costs rho = mu\N{SUPERSCRIPT TWO}/2, where mu is "
    "the most that one record moves the values, in standard deviations of the noise; choosing m "
    "out of many costs m eta\N{SUPERSCRIPT TWO}/8, where eta is the most that one record moves the "
    "odds of a choice, as a logarithm. Epsilons do not add up like this. The last column says what "
    "each part would promise if it were all there is, at the same delta.",
    EPSILON: "How to read this: shares are of epsilon. Here epsilons were simply added up.",
    None: "The parts were composed together, in no unit in which they add up.",
}


def _shares(parts: tuple[Part, ...], unit: str) -> list[float]:
    costs = [cost(part, unit) for part in parts]
    total = sum(costs)
    return [each / total if total > 0 else 0.0 for each in costs]


def _bar(parts: tuple[Part, ...], unit: str) -> Markup:
    axis = Axis(0, 1, 16, _WIDTH - 20)
    drawn, position = [], 0.0
    for place, share in enumerate(_shares(parts, unit)):
        start, end = axis.at(position), axis.at(position + share)
        position += share
        width = max(end - start - 1.5, 0.5)  # a gap tells parts from each other
        block = tag("rect", x=start, y=_TOP, width=width, height=30, class_=_colour(place))
        letter = None
        if width >= _NARROW:
            middle = (start + end) / 2
            letter = text(middle, _TOP + 20, _letter(place), anchor="middle", class_="on-share")
        name = f"{_letter(place)}: {parts[place].name}, {percent(share)}"
        drawn.append(tag("g", tag("title", name), block, letter))
    for tick in axis.ticks():
        drawn.append(text(axis.at(tick), _TOP + 48, f"{100 * tick:.0f} %", anchor="middle"))
    label = "cost in rho" if unit == ZCDP else "epsilon"
    drawn.append(text(16, 14, f"share of the {label}", class_="label"))
    largest = max(zip(_shares(parts, unit), parts, strict=True), key=lambda each: each[0])
    caption = (
        f"What to see: the longer a part of the bar, the more of the budget it took. Most went to "
        f"{largest[1].name} ({percent(largest[0])}). Letters are those of the table."
        if len(parts) > 1
        else f"What to see: all of the budget went to {parts[0].name}."
    )
    return figure(picture(_WIDTH, _HEIGHT, "Shares of the privacy budget", *drawn), caption)


def _table(parts: tuple[Part, ...], unit: str | None, delta: float) -> Markup:
    head = ["", "what was released"]
    head += [] if unit is None else ["share", "rho" if unit == ZCDP else "epsilon"]
    head += ["epsilon alone"]
    shares = [0.0] * len(parts) if unit is None else _shares(parts, unit)
    rows = []
    for place, (part, share) in enumerate(zip(parts, shares, strict=True)):
        row = [_letter(place), part.name]
        if unit is not None:
            row += [percent(share), number(cost(part, unit))]
        epsilon = alone(part, delta)
        rows.append([*row, "\N{EN DASH}" if epsilon is None else number(epsilon)])
    return table("Parts of the privacy budget", head, rows, texts=2)


def _letter(place: int) -> str:
    return _LETTERS[place] if place < len(_LETTERS) else str(place + 1)


def _colour(place: int) -> str:
    return f"share share-{place % _COLOURS}"
