"""Units and neighbours of a fit: options, identifiers, and the count that comes first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hushcov.accounting import ONE_REPLACED, RECORD, Neighbours, is_counted
from hushcov.exceptions import DataError, ParameterError
from hushcov.options import ESTIMANDS, check_parameters
from hushcov.release import Release
from hushcov.sums.records import Records

if TYPE_CHECKING:
    from hushcov.noise import Entropy
    from hushcov.planning import Plan, Request
    from hushcov.steps.counting import Counted, Counting
    from hushcov.tables.units import Units


@dataclass(frozen=True, eq=False)
class Whose:
    """Options for units and neighbours, from public inputs alone; nothing is read here.

    `identifiers` are those of the rows, or make them when they are called; `weights` are those of
    the rows over the most that one may have.
    """

    relation: str = ONE_REPLACED.relation
    unit: str = RECORD
    identifiers: Any = None
    most_rows: int | None = 1
    estimand: str = ESTIMANDS[0]
    weights: Any = None
    most_weight: float = 1.0

    @classmethod
    def checked(
        cls,
        options: Any,
        unit: str = RECORD,
        identifiers: Any = None,
        weights: Any = None,
    ) -> Whose:
        """Check the options of an estimator and return them."""
        check_parameters(options)
        most = None if options.max_rows_per_unit is None else int(options.max_rows_per_unit)
        if identifiers is None:
            for name, usual in (("max_rows_per_unit", None), ("estimand", ESTIMANDS[0])):
                if getattr(options, name) != usual:
                    raise ParameterError(
                        f"{name} must be left out without a unit, got "
                        f"{getattr(options, name)!r}: pass unit to fit, a column of identifiers."
                    )
            return cls(options.neighbours, **_weights(options, weights))
        if weights is not None:
            raise ParameterError(
                "sample_weight must be left out with a unit: rows of one unit with weights of "
                "their own are not bounded together. Use one of them."
            )
        if options.estimand == ESTIMANDS[1]:
            if most is not None:
                raise ParameterError(
                    f"max_rows_per_unit must be left out with estimand='unit-means', got {most}: "
                    "all rows of a unit are averaged."
                )
            most = 1
        return cls(options.neighbours, unit, identifiers, most, options.estimand)

    @property
    def counts(self) -> bool:
        """Whether the number of records has to be released first.

        Units are counted from identifiers, and nothing is read of these before a charge.
        """
        given = self.identifiers is not None or self.weights is not None
        return is_counted(self.relation) or given

    @property
    def neighbours(self) -> Neighbours:
        """As far as they are public."""
        combined = self.identifiers is not None and self.estimand == ESTIMANDS[0]
        return Neighbours(self.relation, self.most_rows or 1, self.unit, combined)

    def counting(self, epsilon: float) -> Counting | None:
        """The first release, where there is to be one."""
        if not self.counts:
            return None
        from hushcov.steps.counting import Counting

        return Counting(epsilon, self.neighbours, chooses=self.most_rows is None)

    def prepared(self, records: Records) -> tuple[Records, Units | None]:
        """Records whose rows are counted, and who they belong to; this reads identifiers."""
        if self.estimand == ESTIMANDS[1]:
            return self._units(records).means(records), None
        if self.weights is not None:
            from hushcov.tables.units import weighted

            return weighted(records, self.weights, self.most_weight), None
        return records, None if self.identifiers is None else self._units(records)

    def _units(self, records: Records) -> Units:
        from hushcov.tables.units import Units

        made = self.identifiers() if callable(self.identifiers) else self.identifiers
        return made if isinstance(made, Units) else Units.of(made, records.n_records)

    def check_length(self, n_rows: int) -> None:
        """Refuse identifiers or weights that are not as many as rows."""
        for name, given in (("unit", self.identifiers), ("sample_weight", self.weights)):
            if given is not None and not callable(given) and len(given) != n_rows:
                raise DataError(
                    f"{name} must have one entry for each of the rows, got more or fewer: pass as "
                    "many."
                )


@dataclass(frozen=True, eq=False)
class OpenedRecords:
    """The records of one fit, with everything that was settled when they were opened.

    An estimator keeps nothing of this between fits. A plan is run on these records only if it was
    made for the same request, so that the relation in its certificate is the one through whose
    views they are read.

    Parameters
    ----------
    records : Records
        The records through the views that the request needs: bounds, pairs, units, their count.
    request : Request
        What is asked for, with the relation and the budget that the count has left.
    counted : Counted or None
        The released number of records; None where it is public.
    entropy : Entropy or None
        The source of the count's noise, with which the release goes on.
    fitted : dict
        Attributes of the estimator that are known so far, such as the names of features.
    """

    records: Records
    request: Request
    counted: Counted | None = None
    entropy: Entropy | None = None
    fitted: dict[str, Any] = field(default_factory=dict)

    def check_plan(self, plan: Plan) -> None:
        """Refuse a plan that was made for another request, or for records of another size."""
        asked, planned = vars(self.request), vars(plan.request)
        differing = [name for name, value in asked.items() if planned[name] != value]
        if self.records.gaps != plan.gaps:
            differing.append("drop_nulls")
        if differing:
            raise ParameterError(
                f"plan must be made for the records and options that it is run with, got one that "
                f"differs in {', '.join(differing)}: make it anew, or use fit."
            )
        plan.inputs.check_size(self.records)


def _weights(options: Any, weights: Any) -> dict[str, Any]:
    """Return how many times each row counts, by its weight."""
    most = options.max_sample_weight
    if (most is None) != (weights is None):
        raise ParameterError(
            "max_sample_weight must be given with sample_weight, and only then: it is the largest "
            "weight that any record can have, a public number."
        )
    if weights is None:
        return {}
    from hushcov.tables.units import WEIGHT_LEVELS

    return {"weights": weights, "most_weight": float(most), "most_rows": WEIGHT_LEVELS}


@contextmanager
def paid_count(estimator: Any) -> Iterator[None]:
    """Say of whatever is refused after the count that it is paid."""
    try:
        yield
    except BaseException as error:
        counted = getattr(estimator, "counted_", None)
        if counted is not None:
            error.add_note(counted.paid)
        raise


def completed(release: Release, counted: Counted) -> Release:
    """The document of a release with the count before it: its cost, its part and its words."""
    parts = (*counted.parts, *release.making.parts)
    making = replace(release.making, parts=parts, counted=counted.to_dict())
    guarantee = release.guarantee.after(counted.guarantee)
    return replace(release, guarantee=guarantee, making=making)
