"""Attack a mechanism: run it on neighbouring datasets and bound its epsilon from below."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer
from hushcov.lab.audit.attack import Attack, Draw, weighted_sums
from hushcov.lab.audit.attacks import MECHANISMS, attacks_on
from hushcov.lab.audit.bounds import best_rule, measured_epsilon

#: Told, before each batch of runs, what is being attacked.
Progress = Callable[[str], object]

DEFAULT_RUNS = 30_000
QUICK_RUNS = 2_500
#: Probability of a false alarm anywhere in an audit of all mechanisms.
ALARM_RATE = 1e-3
BATCHES = 10  # of runs on each attack, with a call of `progress` before each
_FEWEST_RUNS = 100
_CHECKED = 3  # releases of each dataset that are compared with the whole mechanism


@dataclass(frozen=True)
class AuditResult:
    """One attack: what was claimed, and the lower bound on epsilon that was measured.

    `runs` is the number on each dataset; half of them chose the rule, half were counted. If the
    claim is true, `measured_epsilon` is above it with probability `alarm_rate` at most.
    """

    mechanism: str
    pair: str
    statistic: str
    method: str
    claimed_epsilon: float
    delta: float
    measured_epsilon: float
    runs: int
    alarm_rate: float

    @property
    def ratio(self) -> float:
        """Measured over claimed."""
        return self.measured_epsilon / self.claimed_epsilon

    @property
    def survives(self) -> bool:
        """Whether the claim is still standing."""
        return self.measured_epsilon <= self.claimed_epsilon

    def to_dict(self) -> dict[str, object]:
        """Return plain, JSON-ready data."""
        return asdict(self) | {"ratio": self.ratio, "survives": self.survives}


def audit(
    mechanism: str,
    *,
    runs: int = DEFAULT_RUNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[AuditResult, ...]:
    """Attack one of `MECHANISMS` on each of its neighbouring datasets.

    Parameters
    ----------
    mechanism : str
        One of `MECHANISMS`.
    runs : int
        Runs on each of the two datasets of a pair; slow mechanisms make a quarter of them.
    seed : int
        Makes the audit repeatable.
    progress : callable, optional
        Called `BATCHES` times for each attack.
    """
    cure = "a few thousand show a mistake by a factor of 2."
    check_integer("runs", runs, at_least=_FEWEST_RUNS, cure=cure)
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    attacks = attacks_on(mechanism)
    alarm_rate = ALARM_RATE / len(MECHANISMS) / len(attacks)
    return tuple(run_attack(attack, runs, alarm_rate, seed, progress) for attack in attacks)


def run_attack(
    attack: Attack, runs: int, alarm_rate: float, seed: int = 0, progress: Progress | None = None
) -> AuditResult:
    """Run both datasets, choose a rule on half of the outputs, and count its errors on the rest."""
    check_path(attack, seed)
    runs = max(_FEWEST_RUNS, runs // attack.slowness)
    outputs = [
        _outputs(attack, draw, _generator(attack, seed, side), runs, progress)
        for side, draw in enumerate(attack.target.draws(attack.pair))
    ]
    promise = attack.target.promise
    chosen, counted = zip(*(np.split(output, [runs // 2]) for output in outputs), strict=True)
    candidates = []
    for statistic in attack.statistics:
        weights = statistic.fitted(*chosen)
        values = [weighted_sums(half, weights) for half in chosen]
        # A stricter bound than is used later prefers rules that are good by more than luck.
        rule, bound = best_rule(values[0], values[1], promise, alarm_rate**2)
        candidates.append((bound, statistic.name, weights, rule))
    _, name, weights, rule = max(candidates, key=lambda candidate: candidate[0])
    values = [weighted_sums(half, weights) for half in counted]
    return AuditResult(
        mechanism=attack.mechanism,
        pair=attack.name,
        statistic=name,
        method="Gaussian curve" if promise.gaussian else "Clopper-Pearson",
        claimed_epsilon=promise.epsilon,
        delta=promise.delta,
        measured_epsilon=measured_epsilon(rule, values[0], values[1], promise, alarm_rate),
        runs=runs,
        alarm_rate=alarm_rate,
    )


def check_path(attack: Attack, seed: int = 0) -> None:
    """Compare some quick draws with whole releases from the same seeds, bit for bit."""
    quick, whole = attack.target.draws(attack.pair), attack.target.releases(attack.pair)
    for side in (0, 1):
        for number in range(_CHECKED):
            drawn = quick[side](np.random.default_rng([seed, number]))
            released = whole[side](np.random.default_rng([seed, number]))
            if not np.array_equal(drawn[: len(released)], released):
                raise RuntimeError(
                    f"the audit of {attack.mechanism} draws other numbers than the release from "
                    "the same seed: bring hushcov.lab.audit up to date with the mechanism."
                )


def _outputs(
    attack: Attack,
    draw: Draw,
    generator: np.random.Generator,
    runs: int,
    progress: Progress | None,
) -> FloatArray:
    """Outputs (rows) of all runs on one dataset."""
    batches = []
    for part in np.array_split(np.arange(runs), BATCHES // 2):
        if progress is not None:
            progress(f"{attack.mechanism}: {attack.name}")
        batches.append(np.stack([draw(generator) for _ in part]))
    return np.concatenate(batches)


def _generator(attack: Attack, seed: int, side: int) -> np.random.Generator:
    """Streams of their own, whatever else is attacked."""
    name = zlib.crc32(f"{attack.mechanism}/{attack.name}".encode())
    return np.random.default_rng([seed, name, side])
