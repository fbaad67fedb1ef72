"""Two datasets, and noise chosen so that all noisy numbers agree.

A release is private because it is a function of noisy numbers. So whatever two datasets are, if
noise happens to make their noisy numbers equal, everything released must be equal as well: a
document that differs holds something of the records that no noise covers.

On the first dataset noise is drawn as usual, and every sum of an exact number and its noise is
written down. On the second the noise is what is left to the same sums. Selections and directions
have noise that can lead to any outcome, so there the outcome is written down.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from hushcov.kernel import session
from hushcov.paper import mechanism as multiscale
from hushcov_lab.peers import eigen_sampling

# What draws noise to be added to exact integers, and what draws an outcome.
ADDED = (
    (session, "symmetric_noise"),
    (session, "rounded_normal"),
)
DRAWN = (
    (session, "gumbel_top"),
    (eigen_sampling.Bingham, "draw"),
    (multiscale, "sample_exact"),
    (multiscale, "sample_transcript"),
)


class Coupling:
    """The noisy numbers of the first run, and whether this is the second."""

    def __init__(self) -> None:
        self.noisy: list[Any] = []
        self.exact: list[Any] = []
        self.place: int | None = None

    def meet(self, exact: Any, noise: Any) -> Any:
        """The noisy number: a sum on the first dataset, the same one on the second."""
        self.exact.append(np.array(exact))
        return self.outcome(lambda: np.add(exact, noise))

    def outcome(self, draw: Callable[[], Any]) -> Any:
        """What was drawn on the first dataset."""
        if self.place is None:
            self.noisy.append(draw())
            return copy.deepcopy(self.noisy[-1])
        self.place += 1
        return copy.deepcopy(self.noisy[self.place - 1])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """All noise of all mechanisms, while inside."""
        with pytest.MonkeyPatch.context() as patch:
            for module, name in ADDED:
                patch.setattr(module, name, self._added(getattr(module, name)))
            for module, name in DRAWN:
                patch.setattr(module, name, self._drawn(getattr(module, name)))
            laplace = eigen_sampling.discrete_laplace
            patch.setattr(
                eigen_sampling,
                "discrete_laplace",
                lambda *law: [Chosen.of(np.int64(draw), self) for draw in laplace(*law)],
            )
            yield

    def _added(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *law: Chosen.of(draw(*law), self)

    def _drawn(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *law: self.outcome(lambda: draw(*law))


class Chosen(np.ndarray):
    """Noise that makes what it is added to the noisy number of the first run."""

    coupling: Coupling

    @classmethod
    def of(cls, noise: Any, coupling: Coupling) -> Chosen:
        chosen = np.array(noise).view(cls)
        chosen.coupling = coupling
        return chosen

    def __array_finalize__(self, source: Any) -> None:
        self.coupling = getattr(source, "coupling", None)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        assert ufunc is np.add, "noise is added to one exact number and used for nothing else"
        exact = next(each for each in inputs if each is not self)
        noisy = self.coupling.meet(exact, np.asarray(self))
        if out is None:
            return noisy
        out[0][...] = noisy
        return out[0].view(np.ndarray)  # noise no more


def coupled(release: Callable[[Any], Any], first: Any, second: Any) -> tuple[Any, Any]:
    """What two datasets release with the same noisy numbers; exact ones must have differed."""
    coupling = Coupling()
    with coupling.watched():
        one = release(first)
        exact, coupling.exact, coupling.place = coupling.exact, [], 0
        other = release(second)
    assert coupling.noisy, "no noise was drawn"
    assert coupling.place == len(coupling.noisy)
    assert len(exact) == len(coupling.exact)
    assert not exact or any(
        not np.array_equal(a, b) for a, b in zip(exact, coupling.exact, strict=True)
    )
    return one, other
