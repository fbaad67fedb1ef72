"""The noise as printed: the paper's numbers, the law they stand for, and never a promise."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from hushcov.accounting import NOT_CERTIFIED, Gaussian, Pure, compose
from hushcov.exceptions import CapacityError, DataError, PrivacyConditionError
from hushcov.inputs import ReleaseInputs
from hushcov.mechanisms.peers.row_top_k import (
    printed_laplace_scale,
    printed_parameters,
    release_printed,
    row_top_k_parameters,
)
from hushcov.mechanisms.peers.row_top_k.mechanism import mutual_pairs
from hushcov.mechanisms.peers.row_top_k.printed import averaged_values, pick_noisy_largest
from hushcov.noise import Entropy, entropy_source
from hushcov.records import open_records
from hushcov.release import Release
from statistics_helpers import FALSE_ALARM, normal_p_value


def inputs_for(**changes):
    declared = {"n_records": 10_000, "n_features": 6, "row_sparsity": 3}
    budget = {"epsilon": 1.0, "delta": 1e-6}
    return ReleaseInputs(**{**declared, **budget, **changes})


def seeded(seed=0):
    return Entropy(np.random.default_rng(seed), private=False)


def test_numbers_are_the_printed_ones():
    """Evaluated by hand, in the order of the paper, for n = 20,000, d = 50, k = 5."""
    p = printed_parameters(inputs_for(n_records=20_000, n_features=50, row_sparsity=5))
    assert p.radius**2 == pytest.approx(2 * (math.log(60) + math.log(1e6)))  # 35.82
    entry = 2 * p.radius**2 / 20_000  # Delta = 0.003582
    row = 0.25 / math.sqrt(100 * 14.508657738524219)  # eps_row: log(2e6) = 14.5087
    b = 2 * entry / row * math.sqrt(5 * math.log(50 / 1e-8))  # delta_row = 1e-6 / 100
    assert p.noise_sd[0] == pytest.approx(b)
    assert b == pytest.approx(11.53, abs=0.01)
    assert p.noise_sd[1] == pytest.approx(math.sqrt(2) * b)
    assert p.laplace_scale * (p.radius / p.half_width) ** 2 / 20_000 == pytest.approx(b)


@pytest.mark.parametrize("changes", [{}, {"n_features": 1, "row_sparsity": 1}, {"row_sparsity": 6}])
def test_the_release_is_never_private_and_says_so(changes, tmp_path):
    p = printed_parameters(inputs_for(**changes))
    d = p.inputs.n_features
    X = np.random.default_rng(0).standard_normal((10_000, d))
    release = release_printed(open_records(X), np.ones(d), p, entropy_source())
    guarantee = release.guarantee
    assert not guarantee.private
    assert guarantee.method == NOT_CERTIFIED
    assert (guarantee.epsilon, guarantee.delta, guarantee.events) == (1.0, 1e-6, ())
    assert "NOT CERTIFIED" in str(guarantee)
    assert release.parameters["constants"] == "paper"
    np.testing.assert_array_equal(release.integers, release.integers.T)
    assert not release.integers[~release.released].any()
    assert Release.read(release.write(tmp_path / "out")) == release


def test_rows_select_their_largest_noisy_entries():
    """The k largest of all d, the diagonal among them; noise that is small changes nothing."""
    gram = np.array([[1, 50, -60, 3], [50, 9, 4, 2], [-60, 4, 90, -7], [3, 2, -7, 80]])
    p = replace(printed_parameters(inputs_for(n_features=4, row_sparsity=2)), laplace_scale=0.01)
    picked = pick_noisy_largest(gram, p, np.random.default_rng(0))
    expected = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]], dtype=bool)
    np.testing.assert_array_equal(picked, expected)
    rows, columns = mutual_pairs(picked)
    assert [rows.tolist(), columns.tolist()] == [[0, 0], [1, 2]]
    values = averaged_values(gram, rows, columns, p, np.random.default_rng(0))
    # The diagonal of the first row was not selected and is released all the same.
    kept = np.array([[1, 50, -60, 0], [50, 9, 0, 0], [-60, 0, 90, 0], [0, 0, 0, 80]])
    np.testing.assert_array_equal(values, 2 * kept)


def test_noise_is_laplace_and_pairs_have_the_average_of_two():
    """Variances b^2 and 2 b^2; the same test rejects scales that are 10 % wrong."""
    p = printed_parameters(inputs_for(n_records=4, n_features=60, row_sparsity=60))
    zeros = np.zeros((60, 60), dtype=np.int64)
    generator, rows, columns = np.random.default_rng(4), *np.triu_indices(60, 1)
    noise = np.stack([averaged_values(zeros, rows, columns, p, generator) for _ in range(40)])
    diagonal = np.diagonal(noise, axis1=1, axis2=2).ravel() * p.unit
    # Kurtosis 6 of one Laplace draw, 4.5 of the mean of two.
    for draws, sd, kurtosis in (
        (noise[:, rows, columns].ravel() * p.unit, p.noise_sd[0], 4.5),
        (diagonal, p.noise_sd[1], 6.0),
    ):

        def p_value(deviation, draws=draws, kurtosis=kurtosis):
            square = float(np.mean((draws / deviation) ** 2))
            return normal_p_value((square - 1) * math.sqrt(draws.size / (kurtosis - 1)))

        assert p_value(sd) > FALSE_ALARM
        assert normal_p_value(draws.mean() / sd * math.sqrt(draws.size)) > FALSE_ALARM
        if draws.size > 10_000:
            assert max(p_value(0.9 * sd), p_value(1.1 * sd)) < FALSE_ALARM
    # Beyond b ln 2 lies half of a Laplace law.
    share = np.mean(np.abs(diagonal) > p.noise_sd[0] * math.log(2))
    assert normal_p_value((share - 0.5) * 2 * math.sqrt(diagonal.size)) > FALSE_ALARM


def test_scales_that_were_estimated_take_their_part_of_the_budget():
    plain, shared = (printed_parameters(inputs_for(spent=s)) for s in ((), (Gaussian(0.05),)))
    rest = 1.0 - compose((Gaussian(0.05),), delta=5e-7).epsilon
    expected = printed_laplace_scale(2.0, 6, 3, rest, 5e-7) * shared.half_width**2
    assert shared.laplace_scale == pytest.approx(expected)
    assert shared.noise_sd[0] > plain.noise_sd[0]
    with pytest.raises(PrivacyConditionError, match="spent"):
        printed_parameters(inputs_for(spent=(Pure(1.5),)))


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(CapacityError, match="larger budget"):
        printed_parameters(inputs_for(n_records=10**18))
    with pytest.raises(CapacityError, match="larger budget"):
        printed_parameters(inputs_for(n_features=10**9, epsilon=1e-9, delta=1e-9))
    p = printed_parameters(inputs_for())
    with pytest.raises(DataError, match="declare"):
        release_printed(open_records(np.ones((9, 6))), np.ones(6), p, seeded())


# What the proof page says of the printed argument


@pytest.mark.parametrize("d", [10, 1000])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_with_the_constant_of_the_theorem_the_supports_alone_are_over_the_budget(d, delta):
    """8 where 2 is printed, and advanced composition over rows at what is left of delta."""
    k, epsilon = 5, 1.0
    b = printed_laplace_scale(1.0, d, k, epsilon, delta)
    a_row = 8 * math.sqrt(k * math.log(d / (delta / (2 * d)))) / b
    assert a_row <= 0.2  # where the theorem holds
    total = math.sqrt(2 * d * math.log(2 / delta)) * a_row + d * a_row * math.expm1(a_row)
    assert total > epsilon + epsilon**2 / (2 * math.log(2 / delta))


@pytest.mark.parametrize(("d", "k", "part"), [(50, 5, 0.09), (50, 50, 0.29), (200, 200, 0.6)])
def test_another_argument_covers_the_printed_noise_for_moderate_sparsity(d, k, part):
    """Sets are (2 k Delta/b)-DP, values and the diagonal (Delta/b)-DP each."""
    b = printed_laplace_scale(1.0, d, k, 1.0, 1e-6)
    events = (Pure(2 * k / b),) * d + (Pure(1 / b),) * (d * (k + 1))
    assert compose(events, delta=1e-6, pld=False).epsilon < part


def probability_of_leaving_out_the_last(row, b):
    """That the last entry has the smallest |entry + Laplace noise|, by quadrature."""
    noise = np.linspace(-40 * b, 40 * b, 20_001)
    density = np.exp(-np.abs(noise) / b) / (2 * b)
    level = np.abs(row[-1] + noise)

    def beyond(x):
        """P(|x + w| > level): either tail of the Laplace law."""
        above, below = level - x, level + x
        upper = np.where(above > 0, np.exp(-np.abs(above) / b) / 2, 1 - np.exp(above / b) / 2)
        lower = np.where(below > 0, np.exp(-np.abs(below) / b) / 2, 1 - np.exp(below / b) / 2)
        return upper + lower

    joint = density * np.prod([beyond(x) for x in row[:-1]], axis=0)
    return float(np.sum(joint) * (noise[1] - noise[0]))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_sets_of_noisy_absolute_values_are_as_private_as_the_other_argument_says(k):
    """No neighbour moves the probability of a set by more than e^(2 k Delta/b), Delta = 1."""
    b, losses = 2.0, []
    for row in ([0.0, 0, 0, 0], [5.0, 5, 5, 5], [9.0, -9, 9, 0], [1.0, -2, 3, 8]):
        first = np.array(row[-k - 1 :])
        law = probability_of_leaving_out_the_last(first, b)
        for change in itertools.product((-1, 1), repeat=k + 1):
            other = probability_of_leaving_out_the_last(first + np.array(change), b)
            losses.append(abs(math.log(law / other)))
    assert max(losses) <= 2 * k / b
    assert max(losses) > 0.6 * k / b  # the bound is of the right order


@pytest.mark.parametrize("d", [50, 1000])
def test_the_sound_noise_is_hundreds_of_times_smaller(d):
    inputs = inputs_for(n_records=400 * d, n_features=d, row_sparsity=5)
    sound, printed = row_top_k_parameters(inputs), printed_parameters(inputs)
    gumbel_scale = sound.unit / sound.rate
    assert 200 < printed.noise_sd[0] / gumbel_scale < 320
