"""How far one record moves every number that gets noise, in deviations of that noise.

All datasets are played with the noisy numbers of the first (see `coupling`), so that whatever was
decided on the way is the same for all of them, and only the record makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np

from coupling import Coupling


class Played:
    """Exact numbers over deviations of their noise: for each dataset, draw by draw."""

    def __init__(self) -> None:
        self.laws: list[tuple[str, int]] = []  # of the run under way: kinds and deviations
        self.kinds: list[str] = []
        self.draws: list[list[np.ndarray]] = []
        self._kind = "values"

    def noise(self, _: Any, sigma: int, size: int) -> np.ndarray:
        """Stands in for what draws noise: none, and its law is written down."""
        self.laws.append((self._kind, sigma))
        return np.random.default_rng(len(self.laws)).integers(-sigma, sigma + 1, size)

    def named(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function; what it draws is of this kind."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            self._kind = kind
            try:
                return function(*arguments, **options)
            finally:
                self._kind = "values"

        return wrapped

    @contextmanager
    def _run(self, coupling: Coupling):
        self.laws, coupling.exact = [], []
        yield
        assert len(self.laws) == len(coupling.exact)
        scaled = zip(self.laws, coupling.exact, strict=True)
        self.draws.append([np.asarray(each, float) / law[1] for law, each in scaled])

    def play(self, release: Callable[[Any], Any], datasets: Iterable[Any]) -> Played:
        """Release each of the datasets, all with the noisy numbers of the first."""
        coupling, first = Coupling(), None
        with coupling.watched():
            for dataset in datasets:
                with self._run(coupling):
                    release(dataset)
                first = first or self.laws
                assert self.laws == first  # noise follows from what was released
                coupling.place = 0
        self.kinds = [kind for kind, _ in first or []]
        return self

    def squares(self, draw: int, *, removed: bool = False) -> np.ndarray:
        """Squared movements in one draw: between any two datasets, or from the first one."""
        found = np.array([each[draw] for each in self.draws])
        others = found[:1] if removed else found
        return ((found[:, None] - others[None]) ** 2).sum(axis=2)

    def square(self, kind: str, *, removed: bool = False) -> float:
        """The largest squared movement of all draws of a kind together."""
        places = [place for place, each in enumerate(self.kinds) if each == kind]
        return float(sum(self.squares(place, removed=removed) for place in places).max())
