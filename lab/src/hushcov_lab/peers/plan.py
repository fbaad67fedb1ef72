"""Shared by published mechanisms: parameters on a grid, the document of a release, and plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from hushcov._arrays import FloatArray, IntArray
from hushcov.fit.mechanism import Mechanism, MechanismPlan, Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import Budget
from hushcov.kernel.session import Session
from hushcov.release import Making, Release, parts_of


def allowed_for(inputs: ReleaseInputs) -> int:
    """Return the number of records that integer sums have room for."""
    return inputs.neighbours.allowed_for(inputs.n_records)


@dataclass(frozen=True)
class PeerParameters:
    """Public parameters of a published mechanism; those on one grid have its radius."""

    inputs: ReleaseInputs

    @property
    def step(self) -> float:
        """Distance between neighbouring grid points, in units of the scale."""
        grid: Any = self
        return float(grid.radius / grid.half_width)

    @property
    def unit(self) -> float:
        """The public value of one released integer, in units of the squared scale."""
        return self.step**2 / self.inputs.n_records

    def budget(self, *, private: bool = True) -> Budget:
        """Certify the budget of a release."""
        return self.inputs.budget(private=private)

    def to_dict(self) -> dict[str, object]:
        """Return inputs and parameters as plain, JSON-ready data."""
        return asdict(self) | {"inputs": self.inputs.to_dict()}

    def document(
        self,
        mechanism: str,
        integers: IntArray,
        feature_scale: FloatArray,
        budget: Budget | Session,
        found: dict[str, object] | None = None,
        **known: Any,
    ) -> Release:
        """Return the document of a release; `found` joins its parameters."""
        return Release(
            mechanism=mechanism,
            integers=integers,
            unit=self.unit,
            guarantee=budget.guarantee,
            parameters=self.to_dict() | (found or {}),
            feature_scale=feature_scale,
            making=Making(n_records=self.inputs.n_records, parts=parts_of(budget)),
            **known,
        )


@dataclass(frozen=True)
class PeerPlan(MechanismPlan[Any]):
    """Numbers of a published mechanism, and the options that they were made with."""

    options: Mapping[str, Any] = field(default_factory=dict)

    def release(self, prepared: Prepared) -> Release:
        """Release with numbers for the budget that steps before it left."""
        peer = self.mechanism
        assert isinstance(peer, Peer)
        parameters = peer.renew(self, prepared)
        return type(peer).release_by(prepared.session, prepared.feature_scale, parameters)


class Peer(Mechanism):
    """A published mechanism: the function that makes its parameters, and the one that releases."""

    parameters_of: ClassVar[Callable[..., Any]]
    release_by: ClassVar[Callable[..., Release]]

    def plan(
        self, inputs: ReleaseInputs, *, sparse: bool = False, **options: Any
    ) -> MechanismPlan[Any]:
        """See `Mechanism.plan`; the options are those of `parameters_of`."""
        return PeerPlan(self, type(self).parameters_of(inputs, **options), options=options)

    def renew(self, plan: PeerPlan, prepared: Prepared) -> Any:
        """Return the parameters for what steps before found and left of the budget."""
        inputs, mu = plan.parameters.inputs, prepared.session.mu_left
        return type(self).parameters_of(inputs, mu=mu, **plan.options)
