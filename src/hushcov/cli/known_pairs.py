"""Options that say which pairs may covary, and words for what they mean to a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hushcov._words import counted
from hushcov.candidates import Candidates, read_candidates
from hushcov.exceptions import ParameterError

_BANDWIDTH, _PAIRS, _WIDTH = "bandwidth", "candidate_pairs", "adaptive_width"


def known_pairs(
    public: dict[str, Any], n_features: int, names: Sequence[str] | None
) -> tuple[Candidates | None, bool]:
    """Take the options out of `public`: the pairs that may covary, and whether a width is found."""
    bandwidth, pairs = public.pop(_BANDWIDTH, None), public.pop(_PAIRS, None)
    adaptive = bool(public.pop(_WIDTH, False))
    if adaptive and bandwidth is None:
        raise ParameterError(
            "adaptive_width must be given with --bandwidth, which is the most that it chooses: "
            "give both, or neither."
        )
    named = None if names is None else list(map(str, names))
    given: dict[str, Any] = {_BANDWIDTH: bandwidth, _PAIRS: pairs}
    return read_candidates(n_features, **given, names=named), adaptive


def estimator_options(
    public: dict[str, Any], n_features: int, names: Sequence[str] | None
) -> dict[str, Any]:
    """The same as options of an estimator: none where nothing was said."""
    width = public.get(_BANDWIDTH)
    candidates, adaptive = known_pairs(public, n_features, names)
    if candidates is None:
        return {}
    found = {_PAIRS: candidates} if width is None else {_BANDWIDTH: width}
    return found | ({_WIDTH: True} if adaptive else {})


def candidate_words(candidates: Candidates) -> str:
    """Which pairs may covary, and how many of all pairs these are."""
    d, n = candidates.n_features, candidates.n_pairs
    words = candidates.words
    if candidates.bandwidth is not None:
        words += f", {n:,} of them"
    return f"{words}, of {counted(d * (d - 1) // 2, 'pair')}; all others are taken for zero"


def run_words(name: str, candidates: Candidates, *, adaptive_width: bool) -> str:
    """What the default does with them."""
    if adaptive_width:
        return f"{name}: finds how far apart features covary, up to {candidates.bandwidth} columns"
    return f"{name}: looks at the candidate pairs alone"
