"""Which datasets, public parameters and statistics each mechanism is attacked with."""

from __future__ import annotations

from hushcov._validation import check_choice
from hushcov.lab.audit.attack import Attack, Builder
from hushcov.lab.audit.attacks import eigenvectors, gaussian, multiscale, selection

_BUILDERS: dict[str, Builder] = {
    **multiscale.BUILDERS,
    **selection.BUILDERS,
    **gaussian.BUILDERS,
    **eigenvectors.BUILDERS,
}

#: Every mechanism that can be attacked.
MECHANISMS = tuple(_BUILDERS)


def attacks_on(mechanism: str) -> tuple[Attack, ...]:
    """All attacks on one of `MECHANISMS`."""
    check_choice("mechanism", mechanism, MECHANISMS)
    return _BUILDERS[mechanism](mechanism)
