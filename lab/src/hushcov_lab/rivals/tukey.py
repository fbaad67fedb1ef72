"""TukeyEM (Amin et al. 2023): a deep point among many regressions, each of its own records."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp, ndtri

from hushcov._arrays import FloatArray
from hushcov_lab.rivals.bounds import ColumnBounds
from hushcov_lab.rivals.coefficients import Coefficients, RivalSilent

_TEST_SHARE = 0.5  # of epsilon and of delta
_PASSES = 0.999  # how surely the test passes where models are normal
_RANK = 0.03  # smaller singular values of scaled columns of a part are zero to it
_FEWEST = 3  # records of a part that has a model
_MARGIN = 1.2  # times as many models, since they are not normal
_TIE_BREAK = 1e-10  # models are moved apart by so little, so that no box has an empty side
_MODELS = np.unique(np.round(np.geomspace(50, 20_000, 80)).astype(int) // 4 * 4)
_LARGEST_EXPONENT = 700.0


def log_volumes(models: FloatArray) -> FloatArray:
    """Return logarithms of the volumes of points that have depth 1, 2, ..., at least.

    The depth of a point is the smallest number of models that are on one side of it in one
    coordinate. Where one model is replaced it changes by at most 1, everywhere.
    """
    ordered = np.sort(models, axis=0)
    half = len(models) // 2
    with np.errstate(divide="ignore"):
        volumes: FloatArray = np.sum(np.log(ordered[::-1][:half] - ordered[:half]), axis=1)
    return volumes


def safe_distance(volumes: FloatArray, eta: float, most_shallow: float) -> int:
    """Return how many models may be replaced before the sampler may favour its outermost depth.

    Let V_i be the volume of depth at least i, t the smallest depth that is sampled, and points of
    depth i >= t have the density exp(eta i). After k replacements, V_t is at most today's V_(t-k)
    and every other V_i is at least today's V_(i+k), which bounds the probability of depth t. The
    answer is the largest k for which that bound is at most `most_shallow`, and -1 if there is none:
    it changes by at most 1 with a model.
    """
    shallowest = len(volumes) // 2
    depths = np.arange(shallowest + 1, len(volumes) + 1)
    for k in range(shallowest):
        deep = volumes[shallowest + k :]  # V_(i+k) for i above the smallest depth
        weight = float(logsumexp(eta * depths[: len(deep)] + deep)) + math.log(-math.expm1(-eta))
        shallow = eta * shallowest + volumes[shallowest - k - 1]
        if weight == -math.inf or shallow - np.logaddexp(shallow, weight) > math.log(most_shallow):
            return k - 1
    return shallowest - 1


@lru_cache(maxsize=256)
def passing_probabilities(epsilon: float, delta: float) -> tuple[float, ...]:
    """Return how probably to pass the test at the distances 0, 1, ...; 1 from the last on.

    No (epsilon, delta) test that fails at distance 0 passes more often: neither answer may become
    more than exp(epsilon) times as probable, plus delta, with one step.
    """
    factor = math.exp(min(epsilon, _LARGEST_EXPONENT))
    found = [0.0]
    while found[-1] < 1:
        last = found[-1]
        found.append(min(1.0, factor * last + delta, 1 - (1 - last - delta) / factor))
    return tuple(found)


@lru_cache(maxsize=256)
def choose_number(length: int, epsilon: float, delta: float) -> int:
    """Return the number of models: enough for the test to pass, from public numbers alone.

    The publication leaves the number open, and names 1,000 for its tables.
    """
    for number in _MODELS:
        ranks = (np.arange(1, number // 2 + 1) - 0.375) / (number + 0.25)
        volumes = length * np.log(-2 * ndtri(ranks))
        if _passes(volumes, epsilon, delta) >= _PASSES:
            break
    return int(_MARGIN * number) // 4 * 4


def _split(epsilon: float, delta: float) -> tuple[float, float, float]:
    """Return epsilon of the test, eta of the sampler, and the delta of each."""
    test, part = _TEST_SHARE * epsilon, _TEST_SHARE * delta
    return test, (epsilon - test + math.log1p(-part)) / 2, part


def _passes(volumes: FloatArray, epsilon: float, delta: float) -> float:
    """Return how probably the test passes."""
    test, eta, part = _split(epsilon, delta)
    curve = passing_probabilities(test, part)
    return curve[min(max(safe_distance(volumes, eta, part), 0), len(curve) - 1)]


def fit_models(X: FloatArray, y: FloatArray, number: int, rng: np.random.Generator) -> FloatArray:
    """Fit least squares to each of the random parts of the records, an intercept first.

    Each record draws its part by itself: one that is added or removed changes one model. Parts of
    equal size, as published, would move others to other parts. A part of one or two records
    has the model zero: where most are such, deep boxes are empty and the test fails. Directions in
    which scaled columns hardly vary are left out, which helps collinear columns very much.
    """
    part = rng.integers(number, size=len(y))
    order = np.argsort(part, kind="stable")
    rows, target = X[order], y[order]
    ends = np.searchsorted(part[order], np.arange(number + 1))
    models = np.zeros((number, X.shape[1] + 1))
    apart: FloatArray = rng.uniform(0, _TIE_BREAK, (number, X.shape[1] + 1))
    for place in np.flatnonzero(np.diff(ends) >= _FEWEST):
        mine = slice(ends[place], ends[place + 1])
        centre, middle = np.mean(rows[mine], axis=0), np.mean(target[mine])
        centred = rows[mine] - centre
        length = np.sqrt(np.sum(centred**2, axis=0))
        size = np.where(length > 0, length, 1.0)
        slopes = np.linalg.lstsq(centred / size, target[mine] - middle, rcond=_RANK)[0] / size
        models[place] = apart[place] + np.append(middle - slopes @ centre, slopes)
    return models


def sample_deep(models: FloatArray, eta: float, rng: np.random.Generator) -> FloatArray:
    """Draw a point with density exp(eta depth) where the depth is a quarter of the models or more.

    That density is a sum over nested boxes of uniform ones.
    """
    volumes, ordered = log_volumes(models), np.sort(models, axis=0)
    shallowest = len(volumes) // 2
    depths = np.arange(shallowest, len(volumes) + 1)
    weights = eta * depths + volumes[shallowest - 1 :]
    weights[1:] += math.log(-math.expm1(-eta))
    drawn = depths[np.argmax(weights + rng.gumbel(size=len(weights)))]
    point: FloatArray = rng.uniform(ordered[drawn - 1], ordered[len(models) - drawn])
    return point


def fit_tukey(
    X: FloatArray,
    y: FloatArray,
    *,
    epsilon: float,
    delta: float,
    bounds: ColumnBounds | None,
    rng: np.random.Generator,
) -> Coefficients:
    """Fit TukeyEM, which needs no bounds and ignores them; raise `RivalSilent` if its test fails.

    Privacy
    -------
    (epsilon, delta) for one record added or removed, which replaces one model. The test is
    (epsilon/2, delta/2) and never passes at distance 0. Where it may pass on either of two
    neighbours, each gives the smallest depth at most the probability b = delta/2; elsewhere their
    densities differ by at most exp(2 eta) / (1 - b), which is exp(epsilon/2). The published code
    draws Laplace noise for its test of scale epsilon/2, in place of its inverse.
    """
    number = choose_number(X.shape[1] + 1, epsilon, delta)
    models = fit_models(X, y, number, rng)
    if rng.random() >= _passes(log_volumes(models), epsilon, delta):
        raise RivalSilent("TukeyEM's test failed: more records for each column are needed.")
    point = sample_deep(models, _split(epsilon, delta)[1], rng)
    return Coefficients(float(point[0]), point[1:])
