"""Every rival in private linear regression, under one accounting and one interface.

`fit(X, y, epsilon=, delta=, bounds=, rng=)` is (epsilon, delta) for one record added or removed,
for every table, with all that it looks at composed. Bounds of columns are public, or None: then
they are released out of the same budget. Noise comes from NumPy, for public tables only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushcov_lab.rivals.binagg import fit_binagg
from hushcov_lab.rivals.bounds import ColumnBounds
from hushcov_lab.rivals.coefficients import Coefficients, RivalSilent
from hushcov_lab.rivals.dpsgd import fit_dpsgd
from hushcov_lab.rivals.sufficient import fit_adassp, fit_boosted, fit_mixing
from hushcov_lab.rivals.tukey import fit_tukey

__all__ = ["RIVALS", "Coefficients", "ColumnBounds", "Rival", "RivalSilent"]


@dataclass(frozen=True)
class Rival:
    """A published method: its names, how it is fitted, and the arXiv number of its publication.

    A fit may raise `RivalSilent`.
    """

    name: str
    title: str
    fit: Callable[..., Coefficients]
    needs_bounds: bool
    source: str


#: Every rival by name, in the order of tables and legends.
RIVALS = {
    each.name: each
    for each in (
        Rival("adassp", "AdaSSP", fit_adassp, True, "1803.02596"),
        Rival("boosted", "Boosted AdaSSP", fit_boosted, True, "2303.03451"),
        Rival("tukey", "TukeyEM", fit_tukey, False, "2208.07353"),
        Rival("ihm", "IHM", fit_mixing, True, "2601.07545"),
        Rival("binagg", "BinAgg", fit_binagg, True, "2510.16974"),
        Rival("dpsgd", "DP-SGD", fit_dpsgd, True, "1607.00133"),
    )
}
