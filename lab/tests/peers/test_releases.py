"""Published mechanisms, and the Gaussian one: budgets, refusals, noise and releases of each."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import dp_accounting
import numpy as np
import pytest
from scipy import special

from coinpress_steps import noisy
from fit.settings import UNTOUCHABLE, Untouchable, inputs_for, seeded
from hushcov.exceptions import CapacityError, DataError, ParameterError, PrivacyConditionError
from hushcov.fit.gaussian.mechanism import gaussian_parameters, release_gaussian
from hushcov.inputs import CalibratedInputs
from hushcov.kernel.accounting import ADD_REMOVE, Neighbours, Pure
from hushcov.kernel.grids import FeatureGrid
from hushcov.kernel.session import Session
from hushcov.paper.mechanism import Design, calibrated_budget, calibrated_parameters
from hushcov.release import Release
from hushcov.tables.sources import open_records
from hushcov_lab.peers.coinpress import coinpress_parameters, release_coinpress, run_steps
from hushcov_lab.peers.eigen_sampling import (
    eigen_sampling_parameters,
    eigenvalue_sensitivity,
    pure_inputs,
    release_eigen_sampling,
    rounded_eigenvalues,
    score_range,
)
from hushcov_lab.peers.pace import pace_parameters, release_pace
from hushcov_lab.peers.queries import values_squared_sensitivity
from hushcov_lab.peers.row_top_k import release_row_top_k, row_top_k_parameters
from hushcov_lab.peers.separate import (
    draw_transcript,
    matrix_noise,
    release_separate,
    separate_parameters,
)
from sessions import certified
from statistics_helpers import FALSE_ALARM, normal_p_value, variance_p_value

SCALE = np.array([1, 2, 3, 0.5, 1, 1])
RECORDS = np.random.default_rng(5).standard_normal((10_000, 6)) * SCALE


def pure_inputs_for(n_records=10_000, n_features=6, row_sparsity=3, epsilon=1.0, delta=0):
    return pure_inputs(n_records, n_features, row_sparsity, epsilon)


@dataclass(frozen=True)
class Mechanism:
    """How a mechanism is planned and released, and which changes of its plan mean nothing."""

    plan: Callable[..., Any]
    release: Callable[..., Any]
    weaker: tuple[dict[str, Callable[[Any], Any]], ...]  # too little noise, just so
    wrong: tuple[dict[str, Any], ...]  # refused when parameters are made
    error: float  # in operator norm, on the records above
    mus: Callable[[Any], tuple[float, ...]] = lambda p: (p.mu,)
    inputs: Callable[..., Any] = inputs_for


def less_in(step):
    def change(sigmas):
        return tuple(int(s * (1 - 1e-4 * (i == step))) for i, s in enumerate(sigmas))

    return {"sigmas": change}


def more(name, factor):
    return {name: lambda value: type(value)(value * factor)}


def separate(method, *weaker):
    wrong = ("radius", 0.0), ("half_width", 0), ("norm_bound", 0), ("release_mu", 0.0)
    others = {"method": "best"}, {"norm_bound": 2**40}, {"histogram_sigma": 0}
    changed = {"histogram_sigma": None if method == "adaptive" else 5}
    return Mechanism(
        partial(separate_parameters, method=method),
        release_separate,
        (more("release_mu", 1 + 1e-6), *weaker),
        (*({name: value} for name, value in wrong), *others, changed),
        0.3,
        lambda p: p.mus,
    )


MECHANISMS = {
    "gaussian": Mechanism(
        gaussian_parameters,
        release_gaussian,
        (more("sigma", 1 - 1e-6),),
        (
            *({"norm_bound": value} for value in (None, 0)),
            *({"sigma": 0}, {"diagonal_sigma": 1}, {"half_width": 0}),
            {"sigma": 2**41, "diagonal_sigma": 2**41},
        ),
        0.3,
    ),
    "coinpress": Mechanism(
        coinpress_parameters,
        release_coinpress,
        (less_in(0), less_in(2)),
        (
            *({name: 0} for name in ("norm_bound", "record_half_width", "matrix_half_width")),
            *({"sigmas": sigmas} for sigmas in ((5,), (0, 5, 5))),
            *({"sigmas": s, "diagonal_sigmas": s} for s in ((), (2**41,) * 3)),
            {"diagonal_sigmas": (1, 1, 1)},
        ),
        0.3,
        lambda p: p.mus,
    ),
    "row-top-k": Mechanism(
        row_top_k_parameters,
        release_row_top_k,
        (more("mu", 1 + 1e-4), more("rate", 1 + 1e-4)),
        (
            *({"rate": rate} for rate in (None, 0.0)),
            *({"mu": 0.0}, {"half_width": 0}, {"radius": -1.0}),
            {"inputs": inputs_for(row_sparsity=1)},  # a rate where nothing is selected
        ),
        0.3,
    ),
    "pace": Mechanism(
        pace_parameters,
        release_pace,
        (more("mu", 1 + 1e-4), more("rate", 1 + 1e-4)),
        (
            *({"rate": rate} for rate in (None, 0.0)),
            *({"mu": 0.0}, {"half_width": 0}, {"radius": -1.0}, {"n_rounds": 0}),
            {"half_width": 10**6},
        ),
        0.3,
    ),
    "separate, gauss": separate("gauss"),
    "separate": separate("separate"),
    "separate, adaptive": separate("adaptive", {"histogram_sigma": lambda sigma: sigma - 1}),
    "eigen-sampling": Mechanism(
        eigen_sampling_parameters,
        release_eigen_sampling,
        (more("eigenvalue_scale", 0.9999), more("direction_rate", 1.0001)),
        (
            *({"norm_bound": bound} for bound in (None, 0, 10**7)),
            *({"direction_rate": rate} for rate in (0.0, math.inf, 1.0)),
            *({"radius": 0.0}, {"half_width": 0}, {"eigenvalue_scale": 0}),
            {"inputs": replace(pure_inputs_for(), before=0.1)},
        ),
        1.0,
        lambda p: (),
        pure_inputs_for,
    ),
}
each = pytest.mark.parametrize("name", MECHANISMS)


@each
@pytest.mark.parametrize("d", [1, 2, 50, 300])
@pytest.mark.parametrize("n_records", [3, 10**4, 10**8])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (10.0, 0.01)])
def test_parameters_spend_the_budget_and_no_more(name, d, n_records, epsilon, delta):
    made = MECHANISMS[name]
    sizes = {"n_records": n_records, "n_features": d, "row_sparsity": min(d, 3)}
    p = made.plan(made.inputs(**sizes, epsilon=epsilon, delta=delta))
    guarantee = p.budget().certificate
    assert epsilon * (1 - 1e-4) < guarantee.transcript_epsilon <= epsilon
    assert (guarantee.private, guarantee.numerical_delta) == (True, 0)
    if name == "eigen-sampling":
        assert guarantee.events == (Pure(p.epsilon),)
        assert (guarantee.delta, guarantee.transcript_delta) == (0, 0)
    elif name not in ("row-top-k", "pace") or d <= (
        3 if name != "pace" else 1
    ):  # others select by data
        spent = dp_accounting.get_epsilon_gaussian(1 / math.hypot(*made.mus(p)), delta)
        assert epsilon * (1 - 1e-6) < spent <= epsilon * (1 + 1e-9)
        assert guarantee.transcript_epsilon == pytest.approx(spent, rel=1e-5, abs=0)


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "eigen-sampling"])
def test_what_steps_before_take_comes_off_the_budget(name):
    made = MECHANISMS[name]
    p = made.plan(inputs_for(before=0.1))
    assert math.hypot(*made.mus(p)) < math.hypot(*made.mus(made.plan(inputs_for())))
    assert math.hypot(0.1, *made.mus(p)) == pytest.approx(p.budget().mu, rel=1e-6)


def session_on(records, parameters):
    """A session that must refuse before it draws."""
    return Session(records, parameters.budget(private=False), UNTOUCHABLE)


@each
def test_too_little_noise_is_refused_before_it_is_drawn(name):
    made = MECHANISMS[name]
    p = made.plan(made.inputs())
    for weaker in made.weaker:
        weak = replace(p, **{field: change(getattr(p, field)) for field, change in weaker.items()})
        unread = Untouchable(10_000, 6) if name.startswith("separate") else open_records(RECORDS)
        with pytest.raises(PrivacyConditionError, match=r"epsilon|room"):
            made.release(session_on(unread, weak), np.ones(6), weak)


@each
def test_parameters_that_contradict_each_other_are_refused(name):
    made = MECHANISMS[name]
    for wrong in made.wrong:
        with pytest.raises((ParameterError, CapacityError)):
            replace(made.plan(made.inputs()), **wrong)


@each
def test_what_cannot_be_released_is_refused_before_noise_is_drawn(name):
    made, records = MECHANISMS[name], open_records(RECORDS)
    p = made.plan(made.inputs())
    with pytest.raises(DataError, match="7: declare"):
        made.release(session_on(Untouchable(10_000, 7), p), np.ones(7), p)
    with pytest.raises(DataError, match="as declared"):
        made.release(session_on(open_records(RECORDS[:9_999]), p), np.ones(6), p)
    for scale in (np.ones(6) * np.nan, -np.ones(6), np.full(6, 1e-200)):
        with pytest.raises(ParameterError, match="feature_scale"):
            made.release(session_on(records, p), scale, p)
    with pytest.raises(DataError, match="features"):
        made.release(session_on(records, p), np.ones(5), p)
    broken = np.where(RECORDS[77, 3] == RECORDS, np.nan, RECORDS)
    with pytest.raises(DataError, match="finite"):
        made.release(session_on(open_records(broken), p), np.ones(6), p)


@pytest.mark.parametrize(
    ("name", "sizes", "options", "words"),
    [
        ("gaussian", {"n_features": 10**7, "epsilon": 1e-6, "delta": 1e-9}, {}, "larger budget"),
        ("coinpress", {"n_records": 10**18}, {}, "larger budget"),
        (
            *("coinpress", {"n_features": 10**4, "row_sparsity": 1}),
            *({"eigenvalue_bounds": (1e-8, 1e9)}, "closer together"),
        ),
        ("row-top-k", {"n_records": 2**53 + 1}, {}, r"2\*\*53"),
        ("row-top-k", {"n_features": 10**9, "epsilon": 1e-6, "delta": 1e-9}, {}, "larger budget"),
        ("separate, gauss", {"epsilon": 1e-12, "delta": 1e-14}, {}, "fewer features"),
        ("eigen-sampling", {"n_features": 1_001}, {}, r"n_features must .* 1,000"),
        ("eigen-sampling", {"n_records": 10**17}, {}, "fewer records"),
        ("eigen-sampling", {"n_records": 10**13, "n_features": 50}, {}, "fewer records"),
    ],
)
def test_more_than_integers_and_doubles_hold_is_refused(name, sizes, options, words):
    made = MECHANISMS[name]
    with pytest.raises(CapacityError, match=words):
        made.plan(made.inputs(**({"epsilon": 10.0} if "eigen" in name else {}) | sizes), **options)


@each
def test_a_release_is_symmetric_near_the_truth_and_told_apart_by_its_seed(name, tmp_path):
    made = MECHANISMS[name]
    p = made.plan(made.inputs())
    release, again, other = (
        made.release(certified(RECORDS, p, seeded(seed)), SCALE, p) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(release.integers, release.integers.T)
    np.testing.assert_array_equal(release.integers, again.integers)
    assert not np.array_equal(release.integers, other.integers)
    error = release.covariance() / np.multiply.outer(SCALE, SCALE) - np.eye(6)
    assert np.linalg.norm(error, 2) < made.error
    if name not in ("gaussian", "row-top-k"):
        assert np.linalg.eigvalsh(release.integers * release.unit)[0] > -1e-6
        assert release.noise_sd is None
    assert release.mechanism == name.split(",")[0]
    assert not release.guarantee.private
    assert Release.read(release.write(tmp_path / "release")) == release
    json.dumps(p.to_dict())


# The noise of each, with its deviation: of the off-diagonal entries first.


def parts_of(matrices, sigma, diagonal_sigma):
    d = matrices.shape[-1]
    off = matrices[:, *np.triu_indices(d, 1)].ravel()
    return [(off, sigma), (np.diagonal(matrices, axis1=1, axis2=2).ravel(), diagonal_sigma)]


def gaussian_noise():
    p = gaussian_parameters(inputs_for(n_records=4, n_features=40))
    records, entropy = open_records(np.zeros((4, 40))), seeded(11)
    drawn = [
        release_gaussian(certified(records, p, entropy), np.ones(40), p).integers
        for _ in range(100)
    ]
    return parts_of(np.stack(drawn), p.sigma, p.diagonal_sigma)


def row_top_k_noise():
    p = row_top_k_parameters(inputs_for(n_records=4, n_features=30, row_sparsity=30))
    records, entropy = open_records(np.zeros((4, 30))), seeded(11)
    releases = [
        release_row_top_k(certified(records, p, entropy), np.ones(30), p) for _ in range(40)
    ]
    sigma = releases[0].parameters["sigma"]
    assert sigma * releases[0].unit == releases[0].noise_sd[0] == releases[0].noise_sd[1]
    return parts_of(np.stack([release.integers for release in releases]), sigma, sigma)


def coinpress_noise():
    p = coinpress_parameters(inputs_for(n_records=4, n_features=40), eigenvalue_bounds=(1.0, 1.0))
    zeros, generator = np.zeros((40, 40), dtype=np.int64), np.random.default_rng(11)
    measured = noisy(lambda _: zeros, p, generator)
    drawn = [run_steps(measured, p).noisy_grams for _ in range(30)]
    grams = np.stack(drawn, axis=1)
    steps = zip(grams, p.sigmas, p.diagonal_sigmas, strict=True)
    return [part for step in steps for part in parts_of(*step)]


def transcript_noise(d=30):
    """Of records that are zeros, whose matrix and eigenvalues are zeros as well."""
    p = separate_parameters(inputs_for(n_records=4, n_features=d), method="separate")
    grid, records = FeatureGrid(np.ones(d), p.radius, p.half_width), np.zeros((4, d))
    entropy = seeded(7)
    drawn = [draw_transcript(certified(records, p, entropy), grid, p) for _ in range(150)]
    eigenvalues = np.stack([transcript.eigenvalues for transcript in drawn]).ravel()
    noise = matrix_noise(p, "separate", p.norm_bound)
    matrices = np.stack([transcript.gram for transcript in drawn])
    return [
        *parts_of(matrices, noise.sigma, noise.diagonal_sigma),
        (eigenvalues, noise.eigenvalue_sigma),
    ]


def separate_noise(d=20, n=4000):
    """Far from the ends of their range eigenvalues are not clipped: Gram matrix and noise."""
    records, entropy = open_records(np.repeat(np.eye(d), n // d, axis=0)), seeded(3)
    inputs = inputs_for(n_records=n, n_features=d, epsilon=4.0)
    p = separate_parameters(inputs, method="gauss", row_norm=1.0)
    exact = np.eye(d, dtype=np.int64) * (n // d) * p.norm_bound**2
    drawn = [
        release_separate(certified(records, p, entropy), np.ones(d), p).integers for _ in range(40)
    ]
    noise = matrix_noise(p, "gauss", p.norm_bound)
    return parts_of(np.stack(drawn) - exact, noise.sigma, noise.diagonal_sigma)


@pytest.mark.parametrize(
    "noise_of", [gaussian_noise, row_top_k_noise, coinpress_noise, transcript_noise, separate_noise]
)
def test_the_noise_has_the_declared_law(noise_of):
    """The same test rejects deviations that are 10 % wrong, where it has draws enough."""
    parts = noise_of()
    inside = special.erf(math.sqrt(0.5))
    for draws, sigma in parts:
        assert variance_p_value(draws, sigma) > FALSE_ALARM
        if noise_of is not separate_noise:
            assert normal_p_value(draws.mean() / sigma * math.sqrt(draws.size)) > FALSE_ALARM
            # so that not any law with this variance will do
            z = (np.mean(np.abs(draws) < sigma) - inside) / math.sqrt(inside * (1 - inside))
            assert normal_p_value(z * math.sqrt(draws.size)) > FALSE_ALARM
        if draws.size > 2_000:
            for wrong in (0.9, 1.1):
                assert variance_p_value(draws, sigma * wrong) < FALSE_ALARM
    # Neighbouring entries, and parts, have nothing to do with each other.
    off = parts[0][0] / parts[0][1]
    products = [off[1:] * off[:-1]]
    for (one, sigma), (other, tau) in itertools.combinations(parts, 2):
        if one.size == other.size:
            products.append(one / sigma * (other / tau))
    for product in products:
        assert normal_p_value(product.mean() * math.sqrt(product.size)) > FALSE_ALARM


# Records that are removed, where noise is not Gaussian.


REMOVED = Neighbours(ADD_REMOVE)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_eigenvalues_and_scores_of_removed_records(d):
    rng = np.random.default_rng(d)
    bound, n = 1000, 40
    largest = widest = 0.0
    for _ in range(60):
        rows = rng.integers(-300, 301, (n, d))
        rows = np.where(np.sum(rows**2, axis=1, keepdims=True) <= bound**2, rows, 0)
        rows[0] = bound * np.eye(d, dtype=np.int64)[rng.integers(d)]
        gram, less = rows.T @ rows, rows[1:].T @ rows[1:]
        moved = np.subtract(rounded_eigenvalues(gram), rounded_eigenvalues(less))
        largest = max(largest, float(np.abs(moved).sum()))
        change = np.linalg.eigvalsh(gram - less)  # of all scores, between its ends
        widest = max(widest, change[-1] - min(0.0, change[0]))
    most = eigenvalue_sensitivity(n, d, bound, REMOVED)
    assert 0.99 * bound**2 <= largest <= most < 1.001 * bound**2
    assert 0.99 * bound**2 <= widest <= score_range(n, d, bound, REMOVED) < 1.001 * bound**2
    assert score_range(n, d, bound) > 1.99 * bound**2


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("relation", ["replace", ADD_REMOVE])
def test_a_pure_release_certifies_all_of_its_budget(relation, most):
    neighbours = Neighbours(relation, most, "record" if most == 1 else "patient")
    inputs = replace(pure_inputs(500, 3, 2, 1.0), neighbours=neighbours)
    parameters = eigen_sampling_parameters(inputs)
    guarantee = parameters.budget().certificate
    assert 0.99 < guarantee.transcript_epsilon <= 1.0
    assert guarantee.rows_per_unit == most


DESIGN = Design(3.0, 0.2, 1, 4.0, 1.0, 1.0, 1.0, math.inf, 0.0)


def test_multiscale_needs_half_of_the_noise_for_removed_records():
    inputs = CalibratedInputs(5000, 6, 2, 1.0, 1e-6, 1.0)
    plain = calibrated_parameters(inputs, DESIGN, "value")
    removed = calibrated_parameters(replace(inputs, neighbours=REMOVED), DESIGN, "value")
    assert removed.entry_sensitivity == plain.entry_sensitivity / 2 == 9 / 5000
    ratio = removed.schedule.gate_noise / plain.schedule.gate_noise
    assert ratio == pytest.approx(0.5, rel=1e-3)
    assert calibrated_budget(removed).certificate.adjacency == "add-remove-one"
    unit = replace(inputs, neighbours=Neighbours("replace", 3, "patient"))
    tripled = calibrated_parameters(unit, DESIGN, "value")
    assert tripled.schedule.gate_noise == pytest.approx(3 * plain.schedule.gate_noise, rel=1e-3)


def test_values_of_removed_records():
    """All rows of zeros and ones in size, for every graph on four features."""
    rows = np.array(np.meshgrid(*[(-1, 0, 1)] * 4)).reshape(4, -1).T
    every = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for code in range(2 ** len(every)):
        pairs = [pair for place, pair in enumerate(every) if code >> place & 1]
        entries = [rows[:, i] * rows[:, j] for i, j in pairs] + [rows[:, i] ** 2 for i in range(4)]
        largest = np.max(np.sum(np.square(entries), axis=0))
        assert largest == values_squared_sensitivity(4, 1, pairs, REMOVED)
        assert largest <= values_squared_sensitivity(4, 1, pairs)
