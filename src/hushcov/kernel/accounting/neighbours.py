"""Neighbouring datasets: relations, units, and their effect on charges."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from hushcov._validation import check_choice, check_integer, shown
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.kernel.accounting.events import (
    BoundedRange,
    Clocked,
    DiscreteGaussian,
    Event,
    Gaussian,
    OneShotLaplace,
    Pure,
)
from hushcov.promise import ADD_REMOVE_ONE, RECORD, REPLACE_ONE

Number = TypeVar("Number", int, float, Fraction)

REPLACE, ADD_REMOVE = "replace", "add-remove"
#: Every relation by its name, with what a guarantee calls it.
RELATIONS = {REPLACE: REPLACE_ONE, ADD_REMOVE: ADD_REMOVE_ONE}
MOST_ROWS = 2**20
_LONGEST = 60
_UNDERCOUNT = 2  # true records for each one of a released number, at most
#: Makes up for two roundings.
UP = 1 + 2.0**-50


def check_unit(unit: object) -> str:
    """Check the word for a unit, which is written into every release."""
    if not isinstance(unit, str) or not unit.isprintable() or not 0 < len(unit) <= _LONGEST:
        raise ParameterError(
            f"unit must be a word of at most {_LONGEST} printable characters, got {shown(unit)}: "
            "say what one unit is, as patient."
        )
    return unit


@dataclass(frozen=True)
class Neighbours:
    """Datasets that differ in one unit, of which at most `most_rows` records are summed.

    With the relation "replace" a unit has other records in the one than in the other, and there are
    as many units in both. With "add-remove" it is in one of them alone, and how many there are is
    not public. `unit` says in one word what a unit is, and `combined` that its records come one
    after the other, so that sums may bound them as one.
    """

    relation: str = REPLACE
    most_rows: int = 1
    unit: str = RECORD
    combined: bool = False

    def __post_init__(self) -> None:
        check_choice("neighbours", self.relation, tuple(RELATIONS))
        check_unit(self.unit)
        cure = "it is how many records of one unit are summed, at most."
        check_integer("max_rows_per_unit", self.most_rows, at_least=1, at_most=MOST_ROWS, cure=cure)

    @property
    def public_size(self) -> bool:
        """Whether both datasets have the same number of units, which is public."""
        return self.relation == REPLACE

    @property
    def whom(self) -> tuple[str, str]:
        """Adjacency and unit, in the words of a guarantee."""
        return RELATIONS[self.relation], self.unit

    def moved(self, *, replaced: Number, removed: Number) -> Number:
        """Return the distance that applies: of a record that is replaced, or added or removed."""
        return {REPLACE: replaced, ADD_REMOVE: removed}[self.relation]  # proof: step 1

    def allowed_for(self, n_records: int) -> int:
        """Return for how many records roundings are made: more than a released number of them."""
        alone = (self.most_rows, self.unit) == (1, RECORD)
        undercount = 1 if self.public_size and alone else _UNDERCOUNT
        return undercount * n_records  # proof: step 4

    @property
    def together(self) -> int:
        """Number of records that are bounded as one where a sum can do that; 1 is each alone."""
        return self.most_rows if self.combined else 1

    def shared(self, square: int | Fraction) -> Fraction:
        """Divide the squared movement of a unit among its records, which are bounded as one.

        Charges are `most_rows` times those of a record: noise for this makes that enough for all
        that the unit moves.
        """
        return Fraction(square) / self.together**2

    @property
    def outer_product(self) -> float:
        """Approximate movement of a sum of outer products, over that by a replaced record."""
        return self.moved(replaced=1.0, removed=math.sqrt(0.5))

    def guaranteed(self) -> dict[str, Any]:
        """Return what a guarantee says of it."""
        adjacency, unit = self.whom
        return {"adjacency": adjacency, "unit": unit, "rows_per_unit": self.most_rows}

    def charged(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return events of one record as events of a unit, whose records change one by one."""
        return tuple(for_group(event, self.most_rows) for event in events)  # proof: step 2


#: One record is replaced by another, or is there or not.
ONE_REPLACED, ONE_REMOVED = Neighbours(), Neighbours(ADD_REMOVE)


def is_counted(relation: str | None) -> bool:
    """Return whether the number of units is released, as it is not public where one is removed."""
    return relation == ONE_REMOVED.relation


# What grows in proportion to the number of records in which neighbours differ.
_GROWS: dict[type, str] = {
    **dict.fromkeys((Gaussian, DiscreteGaussian, Clocked), "mu"),
    **{BoundedRange: "eta", OneShotLaplace: "sensitivity", Pure: "epsilon"},
}


def for_group(event: Event, size: int) -> Event:
    """Return the event whose neighbours differ in `size` records, not in one."""
    if size == 1:
        return event
    if type(event) not in _GROWS:
        raise PrivacyConditionError(
            f"events must have a law that is known for several records, got {type(event).__name__}:"
            " use a mechanism whose noise is Gaussian, or units of one record."
        )
    name = _GROWS[type(event)]
    return replace(event, **{name: getattr(event, name) * (size * UP)})  # proof: step 2
