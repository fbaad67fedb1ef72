"""Parameters edited after they were computed: the certificate is about what will run.

The paper's mechanism draws its own noise. Every number of its parameters is changed with
`dataclasses.replace`, in the direction that protects less. The answer must be a refusal, or a
guarantee that says it is worse. Other mechanisms ask a session, which charges for the noise that
it draws, whatever their parameters say (`tests/kernel/test_session.py`).
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from hushcov.exceptions import HushcovError, ParameterError, PrivacyConditionError
from hushcov.inputs import CalibratedInputs, PublicInputs
from hushcov.paper.mechanism import Design, calibrated_parameters, certify
from hushcov.paper.parameters import theorem_parameters

LESS, MORE = 1e-6, 1e6


@dataclass(frozen=True)
class Case:
    """Parameters, what certifies them, and which change of which number protects less.

    `harmless` numbers say what released integers mean, how finely records are rounded, or where
    they are clipped when the noise follows: no value of theirs changes what is promised.
    """

    parameters: Any
    harmful: dict[str, float]
    harmless: frozenset[str] = frozenset()


def certified(parameters: Any) -> float:
    return certify(parameters, private=True, exact_statistic=False).transcript_epsilon


def case(parameters: Any, harmful: dict[str, float], *harmless: str) -> Case:
    return Case(parameters, harmful, frozenset(harmless))


SCHEDULE = "schedule"
LEVEL = f"{SCHEDULE}.levels.1"
DESIGN_WORDS = (
    *("design.base_threshold", "design.n_levels", "design.base_tests", "design.quota_factor"),
    *("design.energy_factor", "design.selection_ratio", "design.gate_clip", "design.keep_above"),
)
# A change to 1.5 times the number keeps `quota` below the candidates.
MULTISCALE = {
    f"{SCHEDULE}.gate_noise": LESS,
    "design.clip_radius": 10.0,
    f"{LEVEL}.selection_scale": LESS,
    f"{LEVEL}.quota": 1.5,
    f"{LEVEL}.threshold": MORE,
    f"{SCHEDULE}.levels.0.threshold": LESS,
    f"{LEVEL}.repetitions": 2,
    f"{LEVEL}.candidates": 2,
    f"{SCHEDULE}.levels.0.repetitions": 2,
    f"{SCHEDULE}.levels.0.candidates": 2,
    f"{SCHEDULE}.levels.0.selection_scale": LESS,
    f"{SCHEDULE}.levels.0.quota": 1.5,
    f"{SCHEDULE}.n_features": 2,
}
PUBLIC = tuple(
    f"{SCHEDULE}.{name}"
    for name in (
        *("test_rate", "gate_correction", "gumbel"),
        *(f"levels.{ell}.{p}" for ell in (0, 1) for p in ("activation", "inactivation")),
    )
)
GATES = Design(3.0, 0.25, 2, 4, 0.05, 1.0, 0.7, math.inf, 0.0)
THEOREM = theorem_parameters(PublicInputs(2 * 10**15, 100, 5, 0.25, 1.0, 1e-6, 0.1, 1.0))


def multiscale_case(reconstruction: str, clip: float = math.inf, n_records: int = 10**6) -> Case:
    inputs = CalibratedInputs(n_records, 30, 3, 1.0, 1e-6, 1.0, 0.02)
    design = dataclasses.replace(GATES, gate_clip=clip)
    # Clipped noise is private only while it stays inside: less of a clip, or more noise, is worse.
    clipped = {} if math.isinf(clip) else {f"{SCHEDULE}.gate_clip": LESS}
    return case(
        calibrated_parameters(inputs, design, reconstruction),
        {**MULTISCALE, **clipped},
        *DESIGN_WORDS,
        *PUBLIC,
        *(() if clipped else (f"{SCHEDULE}.gate_clip",)),
    )


def cases() -> dict[str, Case]:
    return {
        "gates": multiscale_case("gate"),
        "values": multiscale_case("value"),
        "clipped gates": multiscale_case("gate", 0.25, 10**9),
        # The theorem is about the paper's numbers and no others: one of each tuple will do.
        "theorem": case(
            THEOREM,
            dict.fromkeys(last_of_each_field(THEOREM), LESS),
            *(name for name, _ in numbers(THEOREM) if name not in last_of_each_field(THEOREM)),
        ),
    }


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a dataclass, the dataclasses and tuples in it included."""
    if dataclasses.is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, tuple):
        parts = [(str(i), each) for i, each in enumerate(value)]
    else:
        if isinstance(value, int | float):
            yield name, value
        return
    for part, each in parts:
        yield from numbers(each, f"{name}.{part}" if name else part)


def last_of_each_field(parameters: Any) -> list[str]:
    """One number of every field beside the inputs: the last, where there are several."""
    last = {name.split(".")[0]: name for name, _ in numbers(parameters)}
    return [name for field, name in last.items() if field != "inputs"]


def edited(value: Any, path: list[str], change: Callable[[Any], Any]) -> Any:
    """The same, with the number at `path` changed; other numbers as they were."""
    if not path:
        return change(value)
    first, *rest = path
    if isinstance(value, tuple):
        i = int(first)
        return (*value[:i], edited(value[i], rest, change), *value[i + 1 :])
    return dataclasses.replace(value, **{first: edited(getattr(value, first), rest, change)})


def scaled(factor: float) -> Callable[[Any], Any]:
    def change(number: Any) -> Any:
        return max(1, int(number * factor)) if isinstance(number, int) else number * factor

    return change


CASES = cases()
HARMFUL = [(name, field) for name, each in CASES.items() for field in each.harmful]


@pytest.mark.parametrize("name", CASES)
def test_every_number_has_been_thought_of(name):
    """A new field of parameters must say how it could be edited to protect less."""
    each = CASES[name]
    own = {field for field, _ in numbers(each.parameters) if not field.startswith("inputs.")}
    assert own - each.harmless == set(each.harmful)


@pytest.mark.parametrize(("name", "field"), HARMFUL)
def test_less_protection_is_refused_or_charged(name, field):
    each = CASES[name]
    before = certified(each.parameters)
    try:
        after = certified(edited(each.parameters, field.split("."), scaled(each.harmful[field])))
    except HushcovError:
        return
    assert after > before


@pytest.mark.parametrize("factor", [1e-6, 0.5, 0.99])
@pytest.mark.parametrize("reconstruction", ["gate", "value"])
def test_a_schedule_with_a_part_of_its_noise_is_not_certified(reconstruction, factor):
    """All noise of a calibrated schedule at once: the events used to be those of the old one."""
    parameters = multiscale_case(reconstruction).parameters
    schedule = parameters.schedule
    levels = tuple(
        dataclasses.replace(level, selection_scale=factor * level.selection_scale)
        for level in schedule.levels
    )
    less = dataclasses.replace(schedule, gate_noise=factor * schedule.gate_noise, levels=levels)
    with pytest.raises(PrivacyConditionError):
        certified(dataclasses.replace(parameters, schedule=less))


def test_a_schedule_that_draws_more_is_charged_more_precision():
    parameters = multiscale_case("gate").parameters
    values = dataclasses.replace(parameters, reconstruction="value")
    drawn = parameters.schedule.total_quota * 2.0**-46 * (1 + math.e)
    assert values.numerical_delta - parameters.numerical_delta == pytest.approx(
        drawn, rel=1e-9, abs=0
    )


def test_laplace_noise_is_not_charged_as_gumbel_noise():
    parameters = multiscale_case("gate").parameters
    laplace = dataclasses.replace(parameters.schedule, gumbel=False)
    with pytest.raises(ParameterError, match="Gumbel"):
        dataclasses.replace(parameters, schedule=laplace)


@pytest.mark.parametrize("name", CASES["theorem"].harmful)
@pytest.mark.parametrize("factor", [0.999, 2.0])
def test_the_theorem_is_about_no_other_numbers(name, factor):
    """More noise is refused as well: clipped noise stops being private when it grows."""
    other = edited(THEOREM, name.split("."), scaled(factor))
    if other == THEOREM:
        other = edited(THEOREM, name.split("."), lambda number: number + 1)
    assert THEOREM.private
    assert not other.private
    field = name.split(".")[0]
    with pytest.raises(PrivacyConditionError, match=f"{field} must"):
        certified(other)


@pytest.mark.parametrize("name", ["epsilon", "delta", "n_records"])
def test_the_theorem_refuses_inputs_that_its_numbers_do_not_follow_from(name):
    """A smaller budget, or fewer records, at the noise of the old ones."""
    inputs = edited(THEOREM.inputs, [name], scaled(0.5))
    with pytest.raises(PrivacyConditionError, match="Section 3"):
        certified(dataclasses.replace(THEOREM, inputs=inputs))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("budget", ["epsilon", "delta"])
def test_a_smaller_promise_at_the_same_noise_is_refused(name, budget):
    smaller = edited(CASES[name].parameters, ["inputs", budget], scaled(0.01))
    with pytest.raises(PrivacyConditionError):
        certified(smaller)


def test_numbers_are_found_in_nested_parameters():
    found = dict(numbers(CASES["gates"].parameters))
    assert found[f"{LEVEL}.quota"] == CASES["gates"].parameters.schedule.levels[1].quota
    assert found["inputs.epsilon"] == 1.0
