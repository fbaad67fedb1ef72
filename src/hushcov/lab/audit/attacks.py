"""Which attacks there are: those made by hand, and one for every other mechanism there is.

An attack made by hand knows what is hardest on its mechanism and draws quickly. A mechanism of the
registry that has none is attacked all the same, by whole releases on datasets that are hard on most
mechanisms. So a new mechanism is audited as soon as it is registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice
from hushcov.accounting import REPLACE
from hushcov.inputs import ReleaseInputs
from hushcov.lab.audit import (
    adaptive,
    candidates,
    eigenvectors,
    gaussian,
    genotypes,
    neighbours,
    preparation,
    selection,
)
from hushcov.lab.audit.attack import (
    FEATURES,
    RECORDS,
    Attack,
    Builder,
    Draw,
    Promise,
    Target,
    Turned,
    flat,
    inputs_of,
    matrix_statistics,
    promised,
    records_of,
)
from hushcov.lab.audit.neighbours import HUGE, KINDS, Turn, replaced
from hushcov.mechanisms.room import MechanismPlan
from hushcov.noise import Entropy
from hushcov.planning import mechanisms
from hushcov.release import Release
from hushcov.steps import Prepared

_SLOWNESS = 2  # whole releases take a millisecond or more

_HANDMADE = {
    **selection.HANDMADE,
    **adaptive.HANDMADE,
    **candidates.HANDMADE,
    **gaussian.HANDMADE,
    **genotypes.HANDMADE,
    **preparation.HANDMADE,
    **eigenvectors.HANDMADE,
}


@dataclass(frozen=True, eq=False)
class RegisteredTarget(Target):
    """A mechanism of the registry: the released integers, then which entries were released.

    Nothing else is known of the mechanism, so every draw is a whole release.
    """

    mechanism: str
    inputs: ReleaseInputs

    @cached_property
    def plan(self) -> MechanismPlan[Any]:
        """Plan of the mechanism from public inputs, made on first use."""
        return mechanisms()[self.mechanism].plan(self.inputs)

    @property
    def promise(self) -> Promise:
        """Claim that the accountant certifies."""
        guarantee = self.plan.budget(private=False).certificate
        return promised(guarantee.epsilon, guarantee.delta, guarantee.events)

    def quick(self, rows: FloatArray) -> Draw:
        """A whole release each time."""
        return lambda generator: self.released(rows, Entropy(generator, private=False))

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """A whole release of records at scale 1."""
        prepared = Prepared(records_of(rows, self.inputs.n_records), np.ones(rows.shape[1]))
        return self.plan.release(prepared, self.plan.budget(private=entropy.private), entropy)

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """The released integers, and which entries were released."""
        release = self.release(rows, entropy)
        return flat(release.integers, release.released)


def registered(mechanism: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Attack a mechanism of which only its entry in the registry is known.

    The replaced record is an extreme one against zeros, one whose signs are flipped, and one that
    moves from axis to axis.
    """
    n, d = RECORDS, FEATURES
    pairs = (
        turn(neighbours.huge_or_zero(n, d)),
        turn(neighbours.sign_flips(n, d, HUGE)),
        turn(neighbours.axes(n, d, HUGE)),
    )
    target = RegisteredTarget(mechanism, inputs_of(pairs[0], row_sparsity=2))
    return tuple(
        Attack(mechanism, target, pair, matrix_statistics(pair), slowness=_SLOWNESS)
        for pair in pairs
    )


def _builders() -> dict[str, Builder]:
    found = {
        f"{mechanism}-{variant}" if variant else mechanism: build
        for mechanism, variants in _HANDMADE.items()
        for variant, build in variants.items()
    }
    return found | {name: registered for name in mechanisms() if name not in _HANDMADE}


_BUILDERS = _builders()
#: Everything that is audited, by name: a mechanism, or a mechanism and its variant.
AUDITED = tuple(_BUILDERS)


_TURNED: dict[str, Turned] = {
    **selection.TURNED,
    **adaptive.TURNED,
    **candidates.TURNED,
    **gaussian.TURNED,
    **genotypes.TURNED,
    preparation.NAME: preparation.attacks,
}
_OTHERS: dict[str, Turned] = {
    name: registered
    for name in mechanisms()
    if not any(turned.startswith(name) for turned in _TURNED)
}


def audited(kind: str = REPLACE) -> tuple[str, ...]:
    """Everything that is audited on neighbours of this kind, by name."""
    check_choice("neighbours", kind, tuple(KINDS))
    return AUDITED if kind == REPLACE else (*_TURNED, *_OTHERS)


def attacks_on(name: str, kind: str = REPLACE) -> tuple[Attack, ...]:
    """All attacks on one of `audited`."""
    check_choice("mechanism", name, audited(kind))
    if kind == REPLACE:
        return _BUILDERS[name](name)
    return {**_TURNED, **_OTHERS}[name](name, KINDS[kind])


def is_handmade(name: str, kind: str = REPLACE) -> bool:
    """Whether the attacks on one of `audited` are made by hand."""
    return _BUILDERS[name] is not registered if kind == REPLACE else name in _TURNED
