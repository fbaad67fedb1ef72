"""The free numbers of a screened release, and the screening levels they stand for."""

from __future__ import annotations

from dataclasses import dataclass

from hushcov._validation import check_integer, check_real
from hushcov.inputs import ReleaseInputs


@dataclass(frozen=True)
class ScreenedDesign:
    """What an optimiser may choose freely: every value gives a private mechanism.

    Parameters
    ----------
    screen_share : float
        Share of the budget (in zCDP) that the screen spends.
    selection_factor : float
        Selected pairs, over the d (k - 1) / 2 that can be nonzero.
    n_levels : int
        Screening levels. 0 releases all pairs and screens nothing.
    size_ratio : float
        Pairs of a level over those of the level before.
    noise_ratio : float
        Selection noise of a level over that of the level before.
    norm_factor : float
        Norm bound over the typical norm. A small one means less noise; records beyond it are
        shrunk, and what dividing by the mean shrinkage leaves is a bias of a few parts in d.
    keep_above : float
        Released pairs below this many standard deviations are set to zero.
    """

    screen_share: float
    selection_factor: float
    n_levels: int
    size_ratio: float
    noise_ratio: float
    norm_factor: float
    keep_above: float

    def __post_init__(self) -> None:
        cure = "leave the design to the planner."
        check_real("screen_share", self.screen_share, above=0, at_most=0.95, cure=cure)
        check_real("selection_factor", self.selection_factor, above=0, at_most=1e6, cure=cure)
        check_integer("n_levels", self.n_levels, at_least=0, at_most=30, cure=cure)
        check_real("size_ratio", self.size_ratio, above=0, at_most=1e3, cure=cure)
        check_real("noise_ratio", self.noise_ratio, above=1e-3, at_most=1e3, cure=cure)
        check_real("norm_factor", self.norm_factor, above=0, at_most=1e3, cure=cure)
        check_real("keep_above", self.keep_above, above=-1e-300, at_most=100, cure=cure)


def candidate_pairs(inputs: ReleaseInputs) -> int:
    """Pairs of features."""
    return inputs.n_features * (inputs.n_features - 1) // 2


def possible_pairs(inputs: ReleaseInputs) -> int:
    """The most pairs that can have a covariance: each feature has at most k - 1 partners."""
    return min(candidate_pairs(inputs), inputs.n_features * (inputs.row_sparsity - 1) // 2)


def level_sizes(inputs: ReleaseInputs, design: ScreenedDesign) -> tuple[int, ...]:
    """How many pairs each level selects; empty when every pair is released anyway."""
    candidates, possible = candidate_pairs(inputs), possible_pairs(inputs)
    total = max(possible, 1, round(design.selection_factor * possible))
    if possible == 0 or design.n_levels == 0 or total >= candidates:
        return ()
    n_levels = min(design.n_levels, total)
    weights = [design.size_ratio**ell for ell in range(n_levels)]
    ends = [0]
    for ell in range(n_levels):
        share = sum(weights[: ell + 1]) / sum(weights)
        # At least one pair a level, and room for one in each that follows.
        ends.append(max(ends[-1] + 1, min(round(share * total), total - (n_levels - 1 - ell))))
    return tuple(ends[ell + 1] - ends[ell] for ell in range(n_levels))


def level_shares(sizes: tuple[int, ...], design: ScreenedDesign) -> tuple[float, ...]:
    """How the levels divide the screen's zCDP: rho_ell is proportional to s_ell / noise_ell^2."""
    costs = [size * design.noise_ratio ** (-2 * ell) for ell, size in enumerate(sizes)]
    return tuple(cost / sum(costs) for cost in costs)
