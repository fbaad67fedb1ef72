"""The numbers by which the adaptive mechanism decides, each with the study that justifies it.

Studies are scripts in `benchmarks/studies`. None of these numbers affects privacy: whatever they
are, every step is charged before its noise is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class AdaptiveRules:
    """Shares of the budget, evidence that decisions need, and switches for an ablation.

    "Time" is what is left of the budget, as a sum of mu^2. Deviations are those of the noise of an
    entry, together with its sampling error.
    """

    # Switches; `rules.py` measures the error without each of them.

    # Take the whole matrix as soon as what lies beside the selected pairs outweighs its noise.
    leave_ladder_early: bool = True
    # Drop selected pairs that look like noise after a first release of their values.
    release_values_twice: bool = True
    # Probe all pairs by their signs. Errors do not change (0.996 without it), but with products a
    # fit of 50,000 records of 3,000 features takes 1.3 times the computing time.
    probe_signs: bool = True
    # Choose the bound on norms anew once the largest eigenvalue is roughly known.
    move_norm_bound: bool = True

    # Shares of the time: `unknown_structure.py`.

    # A first noisy matrix of all pairs, where pairs may be selected.
    probe_share: float = 0.10
    # A first noisy matrix that only chooses the bound on norms.
    first_matrix_share: float = 0.02
    # All selections together, at most.
    most_ladder_share: float = 0.5
    # Histogram of the norms of records, where no earlier step released one; and the same for
    # the products of the selected pairs.
    norms_share: float = 0.01
    product_norms_share: float = 0.01
    # Mean score of the pairs that a rung selected.
    rung_mean_share: float = 0.001
    # First values of the selected pairs, and the same where means are taken off units
    # (`units.py`).
    first_values_share: float = 0.25
    first_values_of_units_share: float = 0.15
    # The least that a matrix gets, for which its noise must fit into integers: a safe bound.
    least_matrix_share: float = 1e-3

    # Where pairs or the whole matrix are released: `unknown_structure.py`.

    # Noise of the whole matrix over that of few pairs, below which pairs are not selected.
    min_noise_ratio_to_select: float = 1.6
    # The same where tails are heavy, of which single pairs lose more than a whole matrix: the
    # squared bound on norms over typical ones is larger than a least one then. Errors do not
    # change, but without it intervals miss the truth of tables with far records (`raw_tables.py`).
    min_noise_ratio_heavy: float = 12.0
    heavy_norm: float = 4.5
    # Share of mu and of the time that few pairs would be released with, about.
    pairs_mu_share: float = 0.6
    values_time_share: float = 0.8
    # Pairs that are selected, over those that are real.
    selected_over_real: float = 1.3
    # The whole matrix is compared with pairs once noise was lowered so often, or selections took
    # such a share of the time, and only where the next rung takes more than a least share.
    rungs_before_leaving: int = 2
    time_before_leaving: float = 0.1
    dear_rung_share: float = 0.01
    # Deviations from which the comparison leaves an entry to later rungs.
    strong_entry: float = 4.0
    # What lies beside the selected pairs must exceed the noise of the whole matrix by this factor,
    # because pairs that are not selected yet lie there, too.
    hidden_margin: float = 1.2
    # A whole matrix is cleaned afterwards, and better than its noise by about this factor.
    whole_matrix_gain: float = 0.75

    # The bound on norms: `nothing_known.py`.

    # A bound that moves by more than this factor is worth another pass over the records.
    least_bound_move: float = 1.05
    # Share of its noise that cleaning leaves of a matrix, at least.
    least_noise_left: float = 0.1
    # Error of what is put back for the bound, over what the bound takes off.
    put_back_error: float = 0.5
    # Mean variance of centred signs below which they say too little of skewed features.
    least_sign_variance: float = 0.5

    # The ladder of selections: `unknown_structure.py`.

    # Pairs of the first rung, over those that the row sparsity speaks of, and the fewest of a rung.
    first_rung_part: int = 16
    fewest_pairs: int = 8
    # Time that half as many pairs as features take at the first noise.
    first_rung_share: float = 0.004
    # A rung of which so many pairs are real is followed by a larger one at the same noise.
    full_rung: float = 0.8
    rung_growth: float = 2.0
    # Any other is followed by one at less noise, of at least one pair for so many features.
    noise_step: float = math.sqrt(2)
    features_per_pair: int = 8
    # Mean score of real pairs over the edge of a selection, and what selection adds to others.
    real_over_edge: float = 1.2
    null_by_selection: float = 0.6
    # Share of all pairs beyond which nothing is sparse.
    most_pairs: float = 1 / 3
    # Sampling error of a score over its noise at which less noise does not help.
    finest_noise: float = 1.5
    # Noise of all values over a pair that matters: a row may miss several such pairs.
    weakest_pair: float = 0.6
    # Steps and share of the time for which the rate of selections is chosen.
    planned_ladder_share: float = 0.3
    planned_steps_per_feature: float = 1.25
    fewest_planned_steps: int = 64

    # Where the row sparsity is given: `unknown_structure.py --part sparse`.

    # Pairs that are selected over those that there may be, and beside these over the root of their
    # number; in how many levels; and the size of a level over that of the one before.
    told_over_possible: float = 1.1
    told_over_root: float = 1.0
    told_levels: int = 4
    told_size_ratio: float = 0.6
    # Noise of a level over that of the one before, and the time of all levels: what is tried.
    told_noise_ratios: tuple[float, ...] = (0.7, 0.8, 0.9, 1.0)
    told_shares: tuple[float, ...] = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
    # Weight of missed pairs in the logarithm of the error that is expected of a plan.
    told_missed_weight: float = 0.5
    # Expected error over the least one, up to which a plan that takes less time is better: what it
    # leaves finds the pairs that row sparsity does not speak of.
    told_enough: float = 1.01
    # Share of a level that must be real for the plan to go on, and of the last one for the ladder
    # to go on beyond the plan; and the share of the time that it gets for that.
    told_least_real: float = 0.03
    told_more_real: float = 0.5
    told_more_share: float = 0.2
    # As `min_noise_ratio_to_select` and `hidden_margin`.
    told_noise_ratio_to_select: float = 1.0
    told_hidden_margin: float = 2.5
    # Share of what the bound on norms takes of long records that dividing by the mean shrinkage
    # does not restore.
    told_bias: float = 0.5

    # Selected pairs: `unknown_structure.py`.

    # Deviations below which a first value is taken for noise.
    noise_pair: float = 1.5
    # Deviations that a released pair must exceed to be kept.
    kept_pair: float = 3.0

    # Estimates of the error: `error_estimate.py`.

    # Weight of sampling errors beside noise.
    sampling_weight: float = 0.7
    # Factor by which the norm of noise may exceed what is expected.
    noise_margin: float = 1.15
    # Share by which an estimate may be worse than zeros.
    harmless: float = 0.05
    # Steps of the released integers in a deviation of their noise: rounding adds a 10^-7 part.
    steps_in_noise: int = 1024


RULES = AdaptiveRules()
