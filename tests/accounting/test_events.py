"""Events and guarantees are frozen, checked data."""

import dataclasses
import json
import math

import numpy as np
import pytest

from hushcov.accounting import (
    Approximate,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    OneShotLaplace,
    Pure,
    TotalVariation,
)
from hushcov.exceptions import ParameterError, PrivacyConditionError

VALID = [
    (Gaussian, {"mu": 0.5}),
    (DiscreteGaussian, {"mu": 0.5}),
    (BoundedRange, {"eta": 0.1, "count": 3}),
    (
        OneShotLaplace,
        {"sensitivity": 0.1, "scale": 9.0, "selected": 2, "candidates": 8, "target_delta": 1e-6},
    ),
    (Pure, {"epsilon": 0.3}),
    (Approximate, {"epsilon": 0.3, "delta": 1e-6}),
    (TotalVariation, {"distance": 1e-9}),
]
BAD_NUMBERS = [0, -1, -1e-300, math.nan, math.inf, -math.inf, "1", True, [1.0], 1j]
GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "transcript_epsilon": 0.5,
    "transcript_delta": 5e-7,
    "numerical_delta": 1e-12,
    "events": (Gaussian(0.1), BoundedRange(0.1, 3)),
    "method": "rdp",
    "preconditions": ("the score is finite",),
}


@pytest.mark.parametrize(("kind", "fields"), VALID)
def test_events_are_frozen_plain_and_compare_by_value(kind, fields):
    event = kind(**fields)
    assert event == kind(**{k: np.asarray(v)[()] for k, v in fields.items()})
    assert all(type(v) in (int, float) for v in dataclasses.asdict(event).values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, next(iter(fields)), 1.0)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("kind", "fields", "name"), [(k, f, n) for k, f in VALID for n in f], ids=str
)
def test_every_field_of_every_event_is_checked(kind, fields, name, bad):
    if bad == 1 and name in ("count", "selected", "candidates") and bad is not True:
        pytest.skip("1 is valid there")
    with pytest.raises(ParameterError, match=f"{kind.__name__}.{name}"):
        kind(**(fields | {name: bad}))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Approximate, {"epsilon": 1, "delta": 1.0}),
        (Approximate, {"epsilon": 1, "delta": 1.5}),
        (TotalVariation, {"distance": 1.0}),
        (BoundedRange, {"eta": 0.1, "count": 2.5}),
        (OneShotLaplace, {"sensitivity": 1, "scale": 1, "selected": 9, "candidates": 8}),
        (
            OneShotLaplace,
            {"sensitivity": 1, "scale": 1, "selected": 1, "candidates": 8, "target_delta": 0.051},
        ),
    ],
)
def test_out_of_range_fields_are_refused(kind, fields):
    with pytest.raises(ParameterError):
        kind(**fields)


class TestOneShotLaplace:
    # b = 8 g sqrt(s log(M / delta')) / eps' at g = 0.01, s = 400, M = 5050, eps' = 0.05
    scale = 8 * 0.01 * math.sqrt(400 * math.log(5050 / 1e-8)) / 0.05

    def event(self, **changes):
        return dataclasses.replace(OneShotLaplace(0.01, self.scale, 400, 5050, 1e-8), **changes)

    def test_certified_epsilon_inverts_the_papers_scale(self):
        assert self.event().certified_epsilon == pytest.approx(0.05, rel=1e-14, abs=0)

    def test_pure_epsilon(self):
        assert self.event().pure_epsilon == pytest.approx(
            2 * 400 * 0.01 / self.scale, rel=1e-15, abs=0
        )

    def test_no_approximate_reading_outside_the_theorem(self):
        assert self.event(target_delta=None).certified_epsilon is None
        assert self.event(scale=self.scale / 3.99).certified_epsilon is not None  # 0.1995
        assert self.event(scale=self.scale / 4.01).certified_epsilon is None  # 0.2005
        assert self.event(selected=1, candidates=1).certified_epsilon is None


class TestGuarantee:
    def test_is_frozen_and_accepts_the_exact_limit(self):
        guarantee = Guarantee(**GUARANTEE | {"transcript_epsilon": 1, "transcript_delta": 0})
        assert guarantee.private
        assert guarantee.adjacency == "replace-one"
        with pytest.raises(dataclasses.FrozenInstanceError):
            guarantee.epsilon = 2.0

    @pytest.mark.parametrize(
        "changes",
        [
            {"transcript_epsilon": math.nextafter(1.0, 2)},
            {"transcript_delta": 1.1e-6},
            {"transcript_delta": 6e-7, "numerical_delta": 6e-7},
            {"numerical_delta": 1e-3},
        ],
    )
    def test_refuses_to_promise_less_than_was_spent(self, changes):
        with pytest.raises(PrivacyConditionError):
            Guarantee(**GUARANTEE | changes)

    @pytest.mark.parametrize(
        "changes",
        [
            {"epsilon": 0},
            {"epsilon": math.nan},
            {"epsilon": True},
            {"delta": -1e-9},
            {"delta": math.inf},
            {"delta": 1.5},
            {"numerical_delta": math.nan},
            {"transcript_epsilon": "0.5"},
            {"adjacency": "add-remove"},
            {"private": 1},
            {"method": ""},
            {"events": "Gaussian"},
            {"events": (0.1,)},
            {"preconditions": "checked"},
        ],
    )
    def test_bad_fields_are_refused(self, changes):
        with pytest.raises(ParameterError):
            Guarantee(**GUARANTEE | changes)

    def test_pure_guarantees_have_delta_zero(self):
        zero = {"delta": 0, "transcript_delta": 0, "numerical_delta": 0}
        assert Guarantee(**GUARANTEE | zero).delta == 0.0

    def test_json_round_trip(self):
        data = json.loads(json.dumps(Guarantee(**GUARANTEE).to_dict()))
        assert data["events"] == [
            {"type": "Gaussian", "mu": 0.1},
            {"type": "BoundedRange", "eta": 0.1, "count": 3},
        ]
        assert data["preconditions"] == ["the score is finite"]
        assert {k: data[k] for k in ("epsilon", "delta", "method", "private", "adjacency")} == {
            "epsilon": 1.0,
            "delta": 1e-6,
            "method": "rdp",
            "private": True,
            "adjacency": "replace-one",
        }
