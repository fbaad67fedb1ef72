"""Attack a mechanism: run it on neighbouring datasets and bound its epsilon from below.

An attacker sees one output and says "second dataset" when a number computed from it passes a
threshold. On outputs of the first dataset that is a false positive, and saying "first" on the
second is a miss. Privacy bounds both rates together from below, so rates that are surely small
(Clopper and Pearson 1934) bound epsilon from below. The rule is chosen on one half of the
runs and its errors are counted on the other half, so that choosing it costs no confidence.

An attack made by hand knows what is hardest on its mechanism and draws quickly. A mechanism of the
registry that has none is attacked all the same, by whole releases on datasets that are hard on most
mechanisms. So a new mechanism is audited as soon as it is registered.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from hushcov._arrays import FloatArray
from hushcov._validation import check_choice, check_integer
from hushcov.fit import mechanisms
from hushcov.fit.mechanism import MechanismPlan, Prepared
from hushcov.inputs import ReleaseInputs
from hushcov.kernel.accounting import ONE_REPLACED, gaussian_epsilon
from hushcov.kernel.noise import Entropy
from hushcov.release import Release
from hushcov_lab.audit import gaussian, selection
from hushcov_lab.audit.attack import (
    FEATURES,
    HUGE,
    KINDS,
    RECORDS,
    Attack,
    Builder,
    Promise,
    Target,
    Turn,
    axes,
    flat,
    huge_or_zero,
    inputs_of,
    matrix_statistics,
    promised,
    records_of,
    replaced,
    session_of,
    sign_flips,
    weighted_sums,
)

REPLACED = ONE_REPLACED.relation
_SLOWNESS = 2  # whole releases take a millisecond or more


@dataclass(frozen=True, eq=False)
class RegisteredTarget(Target):
    """A mechanism of the registry: released integers, which entries those are, other numbers.

    Nothing else is known of the mechanism, so every draw is a whole release.
    """

    mechanism: str
    inputs: ReleaseInputs

    @cached_property
    def plan(self) -> MechanismPlan[Any]:
        """Plan of the mechanism from public inputs, made on first use."""
        return mechanisms()[self.mechanism].plan(self.inputs)

    @property
    def promise(self) -> Promise:
        """Claim that the accountant certifies."""
        guarantee = self.plan.budget(private=False).certificate
        return promised(guarantee.epsilon, guarantee.delta, guarantee.events)

    def release(self, rows: FloatArray, entropy: Entropy) -> Release:
        """Return a whole release of records at scale 1."""
        records = records_of(rows, self.inputs.n_records)
        session = session_of(records, self.plan, entropy)
        return self.plan.release(Prepared(session, np.ones(rows.shape[1])))

    def released(self, rows: FloatArray, entropy: Entropy) -> FloatArray:
        """Return the released integers, which entries were released, and its other numbers."""
        release, mechanism = self.release(rows, entropy), mechanisms()[self.mechanism]
        return flat(release.integers, release.released, mechanism.other_numbers(release))


def registered(mechanism: str, turn: Turn = replaced) -> tuple[Attack, ...]:
    """Attack a mechanism of which only its entry in the registry is known.

    The replaced record is an extreme one against zeros, one whose signs are flipped, and one that
    moves from axis to axis.
    """
    n, d = RECORDS, FEATURES
    pairs = (turn(huge_or_zero(n, d)), turn(sign_flips(n, d, HUGE)), turn(axes(n, d, HUGE)))
    target = RegisteredTarget(mechanism, inputs_of(pairs[0], row_sparsity=2))
    return tuple(
        Attack(mechanism, target, pair, matrix_statistics(pair), slowness=_SLOWNESS)
        for pair in pairs
    )


_TURNED = selection.TURNED | gaussian.TURNED
_ALONE = _TURNED | selection.REPLACED | gaussian.REPLACED


def _builders(kind: str = REPLACED) -> dict[str, Builder]:
    """Return what makes the attacks on neighbours of a kind, by what is attacked."""
    made = _ALONE if kind == REPLACED else _TURNED | gaussian.COUNTS
    others = (
        name
        for name in mechanisms()
        if not any(each == name or each.startswith(f"{name}-") for each in made)
    )
    return made | dict.fromkeys(others, registered)


_BUILDERS = {kind: _builders(kind) for kind in KINDS}
#: Everything that is audited, by name: a mechanism, or a mechanism and its variant.
AUDITED = tuple(_BUILDERS[REPLACED])


def audited(kind: str = REPLACED) -> tuple[str, ...]:
    """Everything that is audited on neighbours of this kind, by name."""
    check_choice("neighbours", kind, tuple(KINDS))
    return tuple(_BUILDERS[kind])


def attacks_on(name: str, kind: str = REPLACED) -> tuple[Attack, ...]:
    """Return all attacks on one of `audited`."""
    check_choice("mechanism", name, audited(kind))
    turn = () if kind == REPLACED else (KINDS[kind],)
    return _BUILDERS[kind][name](name, *turn)


def is_handmade(name: str, kind: str = REPLACED) -> bool:
    """Return whether the attacks on one of `audited` are made by hand."""
    return _BUILDERS[kind][name] is not registered


#: Told, before each batch of runs, what is being attacked.
Progress = Callable[[str], object]

DEFAULT_RUNS = 30_000
QUICK_RUNS = 2_500
#: Probability of a false alarm anywhere in an audit of all mechanisms.
ALARM_RATE = 1e-3
BATCHES = 10  # of runs on each attack, with a call of `progress` before each
_FEWEST_RUNS = 100
_CHECKED = 3  # releases of each dataset that are compared with the whole mechanism
_THRESHOLDS = 200  # tried on either side of the median; more would gain nothing


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
    neighbours: str = REPLACED,
    runs: int = DEFAULT_RUNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[AuditResult, ...]:
    """Attack one of `audited` on each of its pairs of neighbouring datasets of this kind.

    `runs` is the number on each dataset of a pair; slow mechanisms make fewer. The seed makes the
    audit repeatable. `progress` is called `BATCHES` times for each attack.
    """
    cure = "a few thousand show a mistake by a factor of 2."
    check_integer("runs", runs, at_least=_FEWEST_RUNS, cure=cure)
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    attacks = attacks_on(mechanism, neighbours)
    alarm_rate = ALARM_RATE / len(audited(neighbours)) / len(attacks)
    return tuple(run_attack(attack, runs, alarm_rate, seed, progress) for attack in attacks)


def run_attack(
    attack: Attack, runs: int, alarm_rate: float, seed: int = 0, progress: Progress | None = None
) -> AuditResult:
    """Run both datasets, choose a rule on half of the outputs, and count its errors on the rest."""
    runs = max(_FEWEST_RUNS, runs // attack.slowness)
    outputs = draw_outputs(attack, runs, seed, progress)
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


def draw_outputs(
    attack: Attack, runs: int, seed: int = 0, progress: Progress | None = None
) -> list[FloatArray]:
    """Check the quick draws, and return the outputs of so many runs on each dataset, as rows."""
    check_path(attack, seed)
    outputs = []
    for side, rows in enumerate((attack.pair.first, attack.pair.second)):
        draw = attack.target.quick(rows)
        # Streams of their own, whatever else is attacked.
        stream = zlib.crc32(f"{attack.mechanism}/{attack.name}".encode())
        generator = np.random.default_rng([seed, stream, side])
        batches = []
        for part in np.array_split(np.arange(runs), BATCHES // 2):
            if progress is not None:
                progress(f"{attack.mechanism}: {attack.name}")
            batches.append(np.stack([draw(generator) for _ in part]))
        outputs.append(np.concatenate(batches))
    return outputs


def check_path(attack: Attack, seed: int = 0) -> None:
    """Compare some quick draws with whole releases from the same seeds, bit for bit."""
    for rows in (attack.pair.first, attack.pair.second):
        draw = attack.target.quick(rows)
        for number in range(_CHECKED):
            drawn = draw(np.random.default_rng([seed, number]))
            entropy = Entropy(np.random.default_rng([seed, number]), private=False)
            released = attack.target.released(rows, entropy)
            if not np.array_equal(drawn[: len(released)], released):
                raise RuntimeError(
                    f"the audit of {attack.mechanism} draws other numbers than the release from "
                    "the same seed: bring hushcov_lab.audit up to date with the mechanism."
                )


@dataclass(frozen=True)
class Rule:
    """Say "second" where sign * value > threshold.

    With `swapped` the attacker is after the first dataset: false positives and misses change
    places, which matters for epsilon because delta and the two rates do not enter alike.
    """

    sign: int
    threshold: float
    swapped: bool

    def errors(self, first: FloatArray, second: FloatArray) -> tuple[int, int]:
        """False positives and misses among values from the first and the second dataset."""
        positives = int(np.sum(self.sign * first > self.threshold))
        misses = int(np.sum(self.sign * second <= self.threshold))
        return (misses, positives) if self.swapped else (positives, misses)


def rate_upper(errors: npt.ArrayLike, runs: int, alarm_rate: float) -> FloatArray:
    """Upper bound of an error rate that is too low with probability `alarm_rate` at most.

    Clopper and Pearson: the rate at which this few errors have exactly that probability.
    """
    errors = np.asarray(errors, dtype=np.float64)
    bound = special.betainccinv(errors + 1, np.maximum(runs - errors, 1), alarm_rate)
    return np.where(errors >= runs, 1.0, bound)


def epsilon_lower(
    false_positive_rate: FloatArray, miss_rate: FloatArray, delta: float
) -> FloatArray:
    """Return the epsilon without which no test has errors this rare; below 0 it says nothing.

    (epsilon, delta)-DP says 1 - miss_rate <= e^epsilon false_positive_rate + delta.
    """
    caught = np.maximum(1 - delta - miss_rate, 0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(caught / false_positive_rate))


def mu_lower(false_positive_rate: FloatArray, miss_rate: FloatArray) -> FloatArray:
    """The mu without which no test of a Gaussian mechanism has errors this rare, or below 0."""
    return np.asarray(-special.ndtri(false_positive_rate) - special.ndtri(miss_rate))


def measured_epsilon(
    rule: Rule, first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> float:
    """Return a lower bound on epsilon at the promised delta, by a rule that was chosen beforehand.

    If the mechanism keeps its promise, this is above the promised epsilon with probability
    `alarm_rate` at most. Where the promise is one Gaussian curve, the errors bound its mu, and
    the curve turns that into epsilon. This is much closer than what the two rates say about
    epsilon itself.
    """
    n_false, n_missed = (len(second), len(first)) if rule.swapped else (len(first), len(second))
    positives, misses = rule.errors(first, second)
    false_positive_rate = rate_upper(positives, n_false, alarm_rate / 2)
    miss_rate = rate_upper(misses, n_missed, alarm_rate / 2)
    if not promise.gaussian:
        return max(0.0, float(epsilon_lower(false_positive_rate, miss_rate, promise.delta)))
    mu = float(mu_lower(false_positive_rate, np.minimum(miss_rate + promise.late, 1.0)))
    return gaussian_epsilon(mu, promise.delta - promise.late) if mu > 0 else 0.0


def best_rule(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> tuple[Rule, float]:
    """Return the rule with the largest lower bound on these runs, and that bound (mu or epsilon).

    The bound is for comparing rules: on the runs that chose the rule it is too large.
    """
    best = (Rule(1, 0.0, False), -math.inf)
    for sign in (1, -1):
        ordered = np.sort(sign * first), np.sort(sign * second)
        # Values of both samples, dense at either end, where the rarest errors are.
        both = np.sort(np.concatenate(ordered))
        ranks = np.geomspace(1, len(both) / 2, _THRESHOLDS).astype(np.int64) - 1
        thresholds = np.unique(both[np.concatenate([ranks, len(both) - 1 - ranks])])
        positives = len(first) - np.searchsorted(ordered[0], thresholds, side="right")
        misses = np.searchsorted(ordered[1], thresholds, side="right")
        rates = (
            rate_upper(positives, len(first), alarm_rate / 2),
            rate_upper(misses, len(second), alarm_rate / 2),
        )
        for swapped in (False,) if promise.gaussian else (False, True):
            pair = rates[::-1] if swapped else rates
            bounds = mu_lower(*pair) if promise.gaussian else epsilon_lower(*pair, promise.delta)
            top = int(np.argmax(bounds))
            if bounds[top] > best[1]:
                best = Rule(sign, float(thresholds[top]), swapped), float(bounds[top])
    return best
