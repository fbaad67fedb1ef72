"""How far one record moves the values of selected pairs and the squares, all of them together."""

from __future__ import annotations

from collections.abc import Iterable

from hushcov.mechanisms.gaussian import squared_sensitivity


def values_squared_sensitivity(
    n_features: int, half_width: int, pairs: Iterable[tuple[int, int]]
) -> int:
    """The most that replacing a record moves pair products and all squares, squared.

    For integer records with coordinates of at most `half_width`. The pairs are split into groups
    of features in which every pair was selected; a group moves as a whole Gram matrix does, its
    squares included. A feature without a pair moves by its square alone.
    """
    pairs = tuple(pairs)
    # proof: step 5
    total = sum(_whole_group(len(group), half_width) for group in complete_groups(pairs))
    alone = n_features - len({feature for pair in pairs for feature in pair})
    return total + alone * _whole_group(1, half_width)


def _whole_group(size: int, half_width: int) -> int:
    """Squared sensitivity of the upper triangle of a Gram matrix with clipped coordinates."""
    return int(squared_sensitivity(size, half_width, None, 1, 1))


def complete_groups(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Groups of features such that each pair lies in exactly one of them, and no other pair does.

    Greedy, in a fixed order: each group starts from a pair that is left and takes in every feature
    whose pairs with all of its members are left. Any such groups give a valid bound, larger
    groups a smaller one.
    """
    left: dict[int, set[int]] = {}
    for i, j in pairs:
        left.setdefault(i, set()).add(j)
        left.setdefault(j, set()).add(i)
    groups = []
    for first in sorted(left):
        while left[first]:
            group, candidates = [first], left[first]
            while candidates:
                member = min(candidates)
                group.append(member)
                candidates = candidates & left[member]
            for member in group:
                left[member] = left[member].difference(group)
            groups.append(group)
    return groups
