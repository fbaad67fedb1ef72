"""Which options of `hushcov fit` go together; nothing is read or planned here."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from hushcov.exceptions import ParameterError
from hushcov.planning import mechanisms

THEOREM = "theorem"
# Options that the other mechanisms, or the theorem, have no use for; and why.
_SMALLEST = "only the theorem has a target; the others make the error as small as they can."
_THEOREM_ONLY = {
    "scale": "it bounds all directions for the theorem; scales of features are --feature-scale.",
    "target_error": _SMALLEST,
    "failure_probability": _SMALLEST,
}
_NOT_THEOREM = {
    "feature_scale": "the theorem has one bound for all directions, --scale.",
    "psd": "the theorem is about the estimate as it is.",
    "drop_nulls": "the theorem is about complete records.",
    "codebook": "the theorem is about records of mean zero and one scale; code them before.",
    "bandwidth": "the theorem is about all pairs.",
    "candidate_pairs": "the theorem is about all pairs.",
    "adaptive_width": "the theorem is about all pairs.",
    "force": "the theorem has no prediction that could be hopeless.",
    "unit": "the theorem is about one record for each.",
    "estimand": "the theorem is about one record for each.",
    "max_rows_per_unit": "the theorem is about one record for each.",
    "sample_weight": "the theorem is about records that count alike.",
    "max_sample_weight": "the theorem is about records that count alike.",
    "neighbours": "the theorem is about records that are replaced.",
}
_NOT_PURE = {
    "drop_nulls": "its guarantee has no delta, which the count of complete records needs.",
}
# Options without which there is nothing to run; and why.
_SUBTRACT = "Subtract means that are public from the records."
_THEOREM_NEEDS = {
    "row_sparsity": "it bounds the nonzeros of a row, the diagonal included, in the theorem.",
    "scale": "it is a public bound on the standard deviation in every direction, never inferred "
    "from the data.",
    "known_mean": f"the theorem is about records of mean zero. {_SUBTRACT}",
}
_PURE_NEEDS = {
    "known_mean": f"its guarantee has no delta, which finding means needs. {_SUBTRACT}",
    "feature_scale": "its guarantee has no delta, which estimating scales needs. Give standard "
    "deviations that are public.",
}


def check_budget(epsilon: float | None, delta: float | None, file: Path | None = None) -> None:
    """Refuse a command line without a promise; say usual values, and what asks for all of it."""
    given = {"--epsilon": epsilon, "--delta": delta}
    missing = [option for option, value in given.items() if value is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise click.UsageError(
            f"{' and '.join(missing)} {are} required: how much privacy. --epsilon 1 and --delta "
            f"1e-6 are usual; 'hushcov start {'DATA' if file is None else shlex.quote(str(file))}' "
            "asks for all of it."
        )


def check_options(mechanism: str, public: dict[str, Any]) -> None:
    """Refuse options that would not change anything, and mechanisms that need one more."""
    pure = mechanism in mechanisms() and mechanisms()[mechanism].pure
    theorem = mechanism == THEOREM
    useless = _NOT_THEOREM if theorem else _THEOREM_ONLY | (_NOT_PURE if pure else {})
    for name, reason in useless.items():
        if public[name] is not None and public[name] is not False:
            raise ParameterError(f"{name} must be left out with --mechanism {mechanism}: {reason}")
    for name, reason in (_THEOREM_NEEDS if theorem else _PURE_NEEDS if pure else {}).items():
        if public[name] is None or public[name] is False:
            option = f"--{name.replace('_', '-')}"
            raise ParameterError(f"{option} is required with --mechanism {mechanism}: {reason}")
    if (public["sample_weight"] is None) != (public["max_sample_weight"] is None):
        raise ParameterError(
            "--weight and --max-weight must be given together, got one of them: the largest weight "
            "that any record can have is public. Give both, or neither."
        )
    if (public["ledger"] is None) != (public["dataset"] is None):
        raise ParameterError(
            "--ledger and --dataset must be given together, got one of them: a release is charged "
            "to a dataset of a ledger. Give both, or neither."
        )
