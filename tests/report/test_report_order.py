"""The order of features in heat maps: groups stay together, and stand in a sensible order."""

from __future__ import annotations

import numpy as np

from hushcov.report import layout as order_module
from hushcov.report.layout import layout, opened_features, related_order, spread_out


def grouped(seed: int, sizes: tuple[int, ...], d: int):
    """Pairs of features in groups that are scattered over the table, and whose each is in."""
    generator = np.random.default_rng(seed)
    places, group, start = generator.permutation(d), np.full(d, -1), 0
    pairs = []
    for number, size in enumerate(sizes):
        members = places[start : start + size]
        group[members], start = number, start + size
        pairs += [(min(i, j), max(i, j)) for i in members for j in members if i < j]
    rows, columns = np.array(pairs).T
    return rows, columns, generator.uniform(0.3, 0.5, len(rows)), group


def test_no_group_is_split():
    rows, columns, values, group = grouped(0, (3, 9, 5, 2), 40)
    order = related_order(40, rows, columns, values)
    assert sorted(order) == list(range(40))
    assert list(group[order]) == [1] * 9 + [2] * 5 + [0] * 3 + [3] * 2 + [-1] * 21
    assert list(order[19:]) == sorted(order[19:])  # what has no pair keeps its order


def test_weak_pairs_between_groups_do_not_mix_them():
    rows, columns, values, group = grouped(1, (8, 8, 8), 24)
    ends = [np.flatnonzero(group == each)[0] for each in range(3)]
    weak = np.array([sorted(ends[:2]), sorted(ends[1:])]).T
    order = related_order(
        24, np.append(rows, weak[0]), np.append(columns, weak[1]), np.append(values, [0.05, 0.05])
    )
    assert np.count_nonzero(np.diff(group[order])) == 2


def test_opposite_signs_stand_apart():
    sign = np.array([1, -1, 1, 1, -1, 1, -1, 1])
    rows, columns = np.triu_indices(8, 1)
    order = related_order(8, rows, columns, 0.4 * sign[rows] * sign[columns])
    assert np.count_nonzero(np.diff(sign[order])) == 1


def test_large_groups_are_kept_together_too(monkeypatch):
    monkeypatch.setattr(order_module, "_MOST_CLUSTERED", 3)
    rows, columns, values, group = grouped(2, (6, 6), 20)
    order = related_order(20, rows, columns, values)
    assert np.count_nonzero(np.diff(group[order])) == 2


def test_without_pairs_nothing_moves():
    nothing = np.empty(0, dtype=np.int64)
    assert list(related_order(3, nothing, nothing, np.empty(0))) == [0, 1, 2]
    assert opened_features(100, nothing, nothing) == 100
    assert opened_features(100, np.array([3]), np.array([9])) == 24
    assert opened_features(30, np.array([3]), np.array([9])) == 30


def test_boxes_around_nodes_do_not_overlap():
    edges = [(i, j) for i in range(12) for j in range(i) if (i + j) % 3]
    boxes = np.stack([np.linspace(0.5, 2.5, 12), np.full(12, 0.7)], axis=1)
    positions = layout(12, edges, 10.0, boxes)
    np.testing.assert_array_equal(positions, layout(12, edges, 10.0, boxes))
    assert (positions - boxes / 2).min() > -1e-9
    assert not _overlaps(positions, boxes)
    assert _overlaps(layout(12, edges, 10.0), boxes)  # the boxes are what moved them apart
    assert not _overlaps(spread_out(np.zeros((12, 2)), boxes), boxes)


def _overlaps(positions, boxes) -> bool:
    room = (boxes[:, None] + boxes[None]) / 2
    over = np.abs(positions[:, None] - positions[None]) < room - 1e-6
    return bool(over.all(axis=2)[np.triu_indices(len(boxes), 1)].any())
