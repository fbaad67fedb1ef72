"""A rung of the ladder is charged for all that one record moves its scores by."""

from __future__ import annotations

import numpy as np
import pytest

from hushcov.accounting import ADD_REMOVE, REPLACE, Budget, Neighbours
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.adaptive import pairs as module
from hushcov.mechanisms.screened.values import SignScreen
from hushcov.noise import Entropy, gumbel_top


@pytest.mark.parametrize(("relation", "moved"), [(REPLACE, 2), (ADD_REMOVE, 1)])
def test_selections_are_charged_by_how_far_scores_move(monkeypatch, relation, moved):
    """Signs agree or not: one record moves a sum of them by 2 when replaced, by 1 when removed."""
    n, d = 20_000, 40
    neighbours = Neighbours(relation)
    inputs = ReleaseInputs(n, d, 3, 1.0, 1e-6, neighbours=neighbours)
    budget = Budget(1.0, 1e-6, neighbours, selects=True)
    budget.expect(64, 0.3)
    charged, drawn, spend = [], [], Budget.select

    def select(self, eta, count, *rest):
        charged.append((eta, count))
        spend(self, eta, count, *rest)

    def top(generator, scores, rate, count):
        drawn.append((rate, count))
        return gumbel_top(generator, scores, rate, count)

    monkeypatch.setattr(Budget, "select", select)
    monkeypatch.setattr(module, "gumbel_top", top)
    screen = SignScreen()
    scores = np.full(d * (d - 1) // 2, 5000 * screen.resolution, dtype=np.int64)
    ladder = module.Ladder(scores, screen, inputs, 16)
    assert ladder.climb(budget, Entropy(np.random.default_rng(0), private=False), 0.01)
    assert [count for _, count in charged] == [count for _, count in drawn]
    for (eta, _), (rate, _) in zip(charged, drawn, strict=True):
        assert eta >= 2 * moved * screen.resolution * rate  # raised for some, lowered for others
        assert eta <= 2 * moved * screen.resolution * rate * (1 + 1e-9)
