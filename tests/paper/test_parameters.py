"""The public parameters of Section 3: golden numbers, exact counts, ranges and conditions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hushcov._validation import shown
from hushcov.exceptions import ParameterError
from hushcov.inputs import PublicInputs
from hushcov.paper.parameters import gate_correction, theorem_parameters

# The note in the file says how its numbers were made.
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "theorem_parameters.json").read_text())
CASES = GOLDEN["cases"]
VALID = {"n_records": 10**11, "n_features": 20, "row_sparsity": 2, "target_error": 0.25}
VALID |= {"epsilon": 1.0, "delta": 1e-6, "failure_probability": 0.1, "scale": 1.0}
SYMBOLS = ("n", "d", "k", "alpha", "epsilon", "delta", "beta", "sigma")
WORDS = dict(zip(SYMBOLS, VALID, strict=True))
EXTREMES = [
    {**VALID, "n_records": 10**18, "n_features": 10**5, "row_sparsity": 100},
    {**VALID, "n_records": 10**18, "n_features": 10**5, "row_sparsity": 1, "target_error": 0.001},
    {**VALID, "n_records": 10**18, "n_features": 2, "row_sparsity": 1, "scale": 1e-3},
    {**VALID, "n_records": 1, "epsilon": 1e-3, "delta": 1e-12, "failure_probability": 1e-6},
]


def parameters_for(**inputs):
    return theorem_parameters(PublicInputs(**inputs))


def golden_inputs(case):
    return {WORDS[symbol]: value for symbol, value in case["inputs"].items()}


def case_name(case):
    inputs = case["inputs"]
    return f"d={inputs['d']},k={inputs['k']},alpha={inputs['alpha']},delta={inputs['delta']}"


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_agrees_with_the_golden_numbers(case):
    symbols = parameters_for(**golden_inputs(case)).to_dict()
    for symbol in ("L", "m", "M", "s", "S_star"):
        got, expected = np.atleast_1d(symbols[symbol]), np.atleast_1d(case[symbol])
        for value, golden in zip(got.tolist(), expected.tolist(), strict=True):
            # The golden integers are doubles, exact below 2^53.
            assert value == golden if golden < 2**53 else abs(value - golden) <= 1e-15 * golden
    for symbol in ("H", "R", "Delta", "t", "rho", "p", "A", "r", "kappa", "Gamma", "log_eta"):
        np.testing.assert_allclose(symbols[symbol], case[symbol], rtol=1e-9, err_msg=symbol)
    assert [b is None for b in symbols["b"]] == [b is None for b in case["b"]]
    pairs = [(b, g) for b, g in zip(symbols["b"], case["b"], strict=True) if g is not None]
    assert all(b == pytest.approx(g, rel=1e-9, abs=0) for b, g in pairs)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_smallest_n_are_the_golden_thresholds_rounded_up(case):
    parameters = parameters_for(**golden_inputs(case))
    for n, golden in (
        (parameters.smallest_private_n, case["smallest_n_where_privacy_condition_holds"]),
        (parameters.smallest_accurate_n, case["smallest_n_where_r_and_b_conditions_hold"]),
    ):
        assert isinstance(n, int)
        assert abs(n - golden) <= 1e-9 * golden + 1


@pytest.mark.parametrize("case", CASES, ids=case_name)
@pytest.mark.parametrize("condition", ["private", "accurate"])
def test_the_named_n_is_the_first_that_passes(case, condition):
    """A user who follows the refusal's advice must not be refused again."""
    inputs = golden_inputs(case)
    named = getattr(parameters_for(**inputs), f"smallest_{condition}_n")
    at, before = (parameters_for(**{**inputs, "n_records": n}) for n in (named, named - 1))
    assert getattr(at, condition)
    assert not getattr(before, condition)


@pytest.mark.parametrize("inputs", EXTREMES, ids=str)
def test_extreme_sizes_give_finite_and_consistent_numbers(inputs):
    parameters = parameters_for(**inputs)
    symbols = parameters.to_dict()
    for symbol in ("H", "R", "Delta", "rho", "A", "r", "kappa", "Gamma", "log_eta"):
        assert math.isfinite(symbols[symbol])
    assert len(symbols["t"]) == symbols["L"] + 1
    sigma2 = inputs["scale"] ** 2
    assert 2 * sigma2 <= symbols["t"][-1] < 4 * sigma2
    assert 1 <= symbols["kappa"] <= 4 / 3
    assert symbols["kappa"] == gate_correction(symbols["r"], 0.25)
    for s, M, b in zip(symbols["s"], symbols["M"], symbols["b"], strict=True):
        assert (b is None) == (s == M)
    assert parameters.smallest_private_n <= parameters.smallest_accurate_n
    assert json.loads(json.dumps(symbols))["m"] == list(parameters.repetitions)


@pytest.mark.parametrize(("k", "alpha", "levels"), [(1, 0.25, 11), (2, 0.25, 12), (4, 0.125, 14)])
def test_the_number_of_levels_at_exact_powers_of_two(k, alpha, levels):
    """512 k / alpha is a power of two: its logarithm must not be rounded up."""
    inputs = {**VALID, "row_sparsity": k}
    assert parameters_for(**{**inputs, "target_error": alpha}).n_levels == levels
    less = parameters_for(**{**inputs, "target_error": math.nextafter(alpha, 0)})
    assert less.n_levels == levels + 1
    if alpha < 0.25:
        more = parameters_for(**{**inputs, "target_error": math.nextafter(alpha, 1)})
        assert more.n_levels == levels


BAD = [
    ("n_records", (0, -5, 1.0, "9", True, math.nan), "at least 1"),
    ("n_features", (1, 0, -2, 2.0, "3", True), "at least 2"),
    ("row_sparsity", (0, 21, -1, 2.0, "2", False), "at least 1 and at most 20"),
    ("target_error", (0, 0.0, -0.1, 0.2500001, math.nan, math.inf, "1", True), "at most 0.25"),
    ("epsilon", (0, -1.0, 1.0000001, math.nan, math.inf, "1", 1j), "above 0 and at most 1"),
    ("delta", (0.0, -1e-9, 0.1000001, math.nan, -math.inf, [1]), "above 0 and at most 0.1"),
    ("failure_probability", (0, 1.0, -0.1, math.nan, b"x"), "above 0 and at most 0.1"),
    ("scale", (0, -1.0, math.inf, math.nan, 1e61, "s"), "above 1e-60 and at most 1e+60"),
]


@pytest.mark.parametrize(("name", "values", "constraint"), BAD)
def test_out_of_range_and_missing_inputs_are_refused(name, values, constraint):
    """Parameter, constraint, value and cure; and a ValueError for scikit-learn's sake."""
    for value in (*values, None):
        with pytest.raises(ParameterError) as info:
            PublicInputs(**{**VALID, name: value})
        text = str(info.value)
        assert text.startswith(name if value is not None else f"{name} is required")
        assert constraint in text
        assert value is None or f"got {shown(value)}:" in text
        assert text.rstrip().endswith(".")
        assert isinstance(info.value, ValueError)
