"""Descent along lines of designs: small, deterministic, and the same for every mechanism."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Point = TypeVar("Point")
Score = Callable[[Point], float]
Move = Callable[[str, Point, int], Point | None]

_ENOUGH = 0.999  # a line must improve the score by this factor to be walked


def descend(
    score: Score[Point], start: Point, lines: Sequence[str], move: Move[Point]
) -> tuple[float, Point]:
    """Walk along one line after another, as long as one of them helps.

    `move(line, point, stride)` is the point `stride` choices further along a line, None beyond
    its end. Scores are positive, and smaller is better.
    """
    best_score, best = score(start), start
    improved = True
    while improved:
        improved = False
        for line in lines:
            found_score, found = _walk(score, best_score, best, line, move)
            if found_score < _ENOUGH * best_score:
                best_score, best, improved = found_score, found, True
    return best_score, best


def _walk(
    score: Score[Point], best_score: float, best: Point, line: str, move: Move[Point]
) -> tuple[float, Point]:
    """Follow a line one way, then the other, while the score improves; long steps first."""
    for stride in (2, 1, -2, -1):
        trial = move(line, best, stride)
        while trial is not None:
            trial_score = score(trial)
            if trial_score >= best_score:
                break
            best_score, best = trial_score, trial
            trial = move(line, best, stride)
    return best_score, best
