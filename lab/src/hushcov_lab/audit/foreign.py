"""Testers of other people, built anew: what they estimate from two samples, and what is allowed.

DP Auditorium (Google, arXiv 2307.05608) bounds a divergence between the outputs on two
neighbouring datasets from below: the hockey-stick divergence by a classifier, Renyi's by its
variational form, the maximum mean discrepancy, and the hockey-stick divergence of a histogram
(Gilbert and McMillan 2018). dp-recorder (arXiv 2602.17454) adds a logistic regression with
Youden's threshold. Their statistics are kept. Their confidence bounds are not: Hoeffding's bound
times 1 + e^epsilon, or a union of loose constants, says nothing at the sizes of an audit.

A network is fitted to half of the outputs on each dataset and scores the other half: the log of
the odds that an output came from the second. Every tester bounds its divergence from what is left.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hushcov._arrays import FloatArray
from hushcov._validation import check_integer
from hushcov.calibration import calibrate_gaussian
from hushcov.kernel.accounting import gaussian_delta
from hushcov.kernel.accounting.composition import pure_divergence
from hushcov_lab.audit.attack import Attack, Promise
from hushcov_lab.audit.run import Progress, draw_outputs, rate_upper

#: What `hushcov audit foreign all` tests: the default, whole and in parts, and three more.
FOREIGN = ("adaptive", "adaptive-looks", "candidates", "gaussian", "genotypes")
#: Mistakes that are tried beside the mechanism itself: so many releases, of which one is charged.
UNCHARGED = (2, 3, 4, 6, 9, 16)
DEFAULT_RUNS = 20_000
_FEWEST_RUNS, _SLOWEST = 300, 5
_LEVEL = 0.5  # epsilon at which divergences are compared where a promise is a whole curve
_ORDER = 2.0  # of Renyi's divergence
_LARGEST_SCORE = 1.5  # of the variational form; larger ones need more runs
_WIDTH = 0.25  # of the kernel, on probabilities
_GRID = 500  # cells of it
_BINS = 8  # of the histogram, on probabilities


@dataclass(frozen=True)
class Finding:
    """One tester on one pair: the divergence as estimated, its lower bound, and what is allowed.

    If the promise is kept, `lower` is above `allowed` with probability `alarm_rate` at most.
    `seen` is the smallest of `UNCHARGED` that is rejected: with so many releases of which one is
    charged, a Gaussian curve is what it is if noise is too small by the square root.
    """

    tester: str
    estimate: float
    lower: float
    allowed: float
    alarm_rate: float
    seen: int | None = None

    @property
    def rejects(self) -> bool:
        """Whether the promise is broken."""
        return self.lower > self.allowed

    def to_dict(self) -> dict[str, object]:
        """Return plain, JSON-ready data."""
        return asdict(self) | {"rejects": self.rejects}


def allowed_hockey_stick(promise: Promise, level: float) -> float:
    """Return the most that P(A) - e^level Q(A) can be for any event A; at 0, total variation."""
    if promise.gaussian:
        return gaussian_delta(_mu(promise), level) + promise.late
    # The worst pair of an (epsilon, delta) promise (Kairouz, Oh and Viswanath 2015).
    kept = max(0.0, math.exp(promise.epsilon) - math.exp(level)) / (1 + math.exp(promise.epsilon))
    return promise.delta + (1 - promise.delta) * kept


def allowed_renyi(promise: Promise) -> tuple[float, float]:
    """Return the largest Renyi divergence, and how much probability either law may have beside.

    Outputs of a promise with delta are a randomised function of two laws without it but for so
    much of their probability.
    """
    if promise.gaussian:
        return _ORDER * _mu(promise) ** 2 / 2, promise.late
    return float(pure_divergence(promise.epsilon, np.array(_ORDER))), promise.delta


def _mu(promise: Promise) -> float:
    return calibrate_gaussian(promise.epsilon, promise.delta - promise.late)


def mean_lower(values: FloatArray, width: float, alarm_rate: float) -> float:
    """Bound a mean from below; the values are within an interval of this width.

    The empirical Bernstein bound of Maurer and Pontil (2009, Theorem 4).
    """
    n, log_rate = len(values), math.log(2 / alarm_rate)
    deviation = math.sqrt(2 * float(np.var(values, ddof=1)) * log_rate / n)
    return float(np.mean(values)) - deviation - 7 * width * log_rate / (3 * (n - 1))


#: A tester: scores of outputs on the first and the second dataset, a promise, an alarm rate.
Tester = Callable[[FloatArray, FloatArray, Promise, float], Finding]
#: Scores outputs, and what makes such a function of outputs on the first and the second dataset.
Score = Callable[[FloatArray], FloatArray]
Learner = Callable[[FloatArray, FloatArray], Score]


def _level(promise: Promise) -> float:
    return min(_LEVEL, promise.epsilon) if promise.gaussian else promise.epsilon


def compare_hockey_stick(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> Finding:
    """Compare P(A) - e^level Q(A), A the outputs that the network finds that much likelier."""
    level, found = _level(promise), []
    for likely, other in ((second, first), (-first, -second)):
        hits, errors = int(np.sum(likely > level)), int(np.sum(other > level))
        caught = 1 - float(rate_upper(len(likely) - hits, len(likely), alarm_rate / 4))
        false = float(rate_upper(errors, len(other), alarm_rate / 4))
        estimate = hits / len(likely) - math.exp(level) * errors / len(other)
        found.append((caught - math.exp(level) * false, estimate))
    lower, estimate = max(found)
    lower = max(0.0, lower)
    allowed = allowed_hockey_stick(promise, level)
    return Finding("hockey-stick", estimate, lower, allowed, alarm_rate)


def compare_renyi(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> Finding:
    """Compare the variational form of Renyi's divergence (Birrell et al. 2021) at the score.

    It is (a / (a - 1)) log E_P exp((a - 1) g) - log E_Q exp(a g), at most the divergence for every
    bounded g.
    """
    allowed, beside = allowed_renyi(promise)
    a, found = _ORDER, []
    for likely, other in ((second, first), (-first, -second)):
        g = np.clip(likely, -_LARGEST_SCORE, _LARGEST_SCORE)
        h = np.clip(other, -_LARGEST_SCORE, _LARGEST_SCORE)
        above, below = np.exp((a - 1) * g), np.exp(a * h)
        widths = [2 * math.sinh(power * _LARGEST_SCORE) for power in (a - 1, a)]
        least = mean_lower(above, widths[0], alarm_rate / 4) - beside * widths[0]
        most = -mean_lower(-below, widths[1], alarm_rate / 4) + beside * widths[1]
        lower = a / (a - 1) * math.log(least) - math.log(most) if least > 0 else -math.inf
        estimate = a / (a - 1) * math.log(np.mean(above)) - math.log(np.mean(below))
        found.append((lower, estimate))
    lower, estimate = max(found)
    return Finding("Renyi", estimate, max(0.0, lower), allowed, alarm_rate)


def compare_mmd(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> Finding:
    """Compare the maximum mean discrepancy of the scores, as probabilities on a grid.

    The norm of the difference of two embeddings of norm 1 at most, whose products are not negative,
    is at most the root of 2 times the total variation. Of n outputs each it is estimated too
    large by sqrt(2/n) at most, on average, and one output moves it by sqrt(2)/n (McDiarmid).
    """
    n = min(len(first), len(second))
    grid = np.linspace(0, 1, _GRID + 1)
    p, q = (
        np.histogram(special.expit(scores), grid)[0] / len(scores) for scores in (first, second)
    )
    kernel = np.exp(-(np.subtract.outer(grid[:-1], grid[:-1]) ** 2) / (2 * _WIDTH**2))
    estimate = math.sqrt(max(0.0, float((p - q) @ kernel @ (p - q))))
    lower = estimate - math.sqrt(2 / n) - math.sqrt(2 * math.log(1 / alarm_rate) / n)
    allowed = math.sqrt(2) * allowed_hockey_stick(promise, 0.0)
    return Finding("MMD", estimate, max(0.0, lower), allowed, alarm_rate)


def compare_histogram(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> Finding:
    """Compare the sum of (p - e^level q)+ over bins of the scores, as probabilities.

    Its mean is too large by half of the deviations of the bins at most, which Cauchy and Schwarz
    bound for any law, and one output moves it by 1/n, or e^level/n (McDiarmid).
    """
    level = _level(promise)
    n, times = min(len(first), len(second)), math.exp(level)
    bins = np.linspace(0, 1, _BINS + 1)
    p, q = (
        np.histogram(special.expit(scores), bins)[0] / len(scores) for scores in (second, first)
    )
    estimate = max(float(np.sum(np.maximum(a - times * b, 0))) for a, b in ((p, q), (q, p)))
    bias = math.sqrt(_BINS * (1 + times**2) / n) / 2
    deviation = math.sqrt((1 + times**2) * math.log(2 / alarm_rate) / (2 * n))
    allowed = allowed_hockey_stick(promise, level)
    lower = max(0.0, estimate - bias - deviation)
    return Finding("histogram", estimate, lower, allowed, alarm_rate)


def compare_youden(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> Finding:
    """Compare Youden's J = 1 - false positives - misses of a rule: "second" where a score is > 0.

    J is at most the total variation.
    """
    errors = int(np.sum(first > 0)), int(np.sum(second <= 0))
    sizes = len(first), len(second)
    estimate = 1 - sum(e / n for e, n in zip(errors, sizes, strict=True))
    upper = [float(rate_upper(e, n, alarm_rate / 2)) for e, n in zip(errors, sizes, strict=True)]
    allowed = allowed_hockey_stick(promise, 0.0)
    return Finding("Youden", estimate, max(0.0, 1 - sum(upper)), allowed, alarm_rate)


def learn_network(first: FloatArray, second: FloatArray) -> Score:
    """Fit DP Auditorium's network (three layers of 12), and return what scores outputs."""
    network = MLPClassifier(
        (12, 12, 12), learning_rate_init=1e-2, batch_size=100, max_iter=12, random_state=0
    )
    return _learn(network, first, second)


def learn_rule(first: FloatArray, second: FloatArray) -> Score:
    """Fit dp-recorder's logistic regression; scores are above 0 beyond Youden's threshold."""
    score = _learn(LogisticRegression(), first, second)
    values, n = np.sort(np.concatenate([score(first), score(second)])), len(second)
    false = 1 - np.searchsorted(np.sort(score(first)), values, side="right") / len(first)
    caught = 1 - np.searchsorted(np.sort(score(second)), values, side="right") / n
    threshold = float(values[np.argmax(caught - false)])
    return lambda outputs: score(outputs) - threshold


def _learn(classifier: Any, first: FloatArray, second: FloatArray) -> Score:
    outputs = np.concatenate([first, second])
    pipeline = make_pipeline(StandardScaler(), classifier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline.fit(outputs, np.repeat([0, 1], [len(first), len(second)]))
    prior = math.log(len(second) / len(first))

    def score(outputs: FloatArray) -> FloatArray:
        log_p = pipeline.predict_log_proba(outputs)
        return np.asarray(np.maximum(log_p[:, 1], -700) - np.maximum(log_p[:, 0], -700) - prior)

    return score


#: Testers by name, with what makes their scores.
TESTERS: dict[str, tuple[Learner, Tester]] = {
    "hockey-stick": (learn_network, compare_hockey_stick),
    "Renyi": (learn_network, compare_renyi),
    "MMD": (learn_network, compare_mmd),
    "histogram": (learn_network, compare_histogram),
    "Youden": (learn_rule, compare_youden),
}


def examine(
    first: FloatArray, second: FloatArray, promise: Promise, alarm_rate: float
) -> tuple[Finding, ...]:
    """Run every tester on outputs (rows) on two neighbouring datasets.

    If the promise is kept, any of them rejects it with probability `alarm_rate` at most.
    """
    n, m = len(first) // 2, len(second) // 2
    scored: dict[Learner, tuple[FloatArray, FloatArray]] = {}
    for learn, _ in TESTERS.values():
        if learn not in scored:
            score = learn(first[:n], second[:m])
            scored[learn] = score(first[n:]), score(second[m:])
    found = []
    for learn, compare in TESTERS.values():
        of_first, of_second = scored[learn]
        rate = alarm_rate / len(TESTERS)
        each = compare(of_first, of_second, promise, rate)
        for count in UNCHARGED:
            if min(n, m) < 2 * count:
                break
            together = (_summed(of_first, count), _summed(of_second, count))
            if compare(together[0], together[1], promise, rate).rejects:
                each = replace(each, seen=count)
                break
        found.append(each)
    return tuple(found)


def _summed(scores: FloatArray, count: int) -> FloatArray:
    """Return the scores of so many releases together: those of each, added up."""
    return np.asarray(scores[: len(scores) // count * count].reshape(-1, count).sum(axis=1))


def examine_attack(
    attack: Attack, runs: int, alarm_rate: float, seed: int = 0, progress: Progress | None = None
) -> tuple[Finding, ...]:
    """Run a mechanism on both datasets of an attack, and every tester on its outputs.

    `runs` is the number on each dataset; slow mechanisms make a third or a fifth.
    """
    cure = "testers need thousands."
    check_integer("runs", runs, at_least=_FEWEST_RUNS, cure=cure)
    check_integer("seed", seed, at_least=0, cure="leave it out for the default.")
    first, second = draw_outputs(attack, runs // min(attack.slowness, _SLOWEST), seed, progress)
    return examine(first, second, attack.target.promise, alarm_rate)
