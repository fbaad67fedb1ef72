"""The figures that the section on the screened release leads with are those of its own command."""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS
from hushcov import PrivateSparseCovariance
from hushcov.planning import forecast

PAGE = (DOCS / "mechanisms.md").read_text().partition("## Screened release\n")[2]
COMMAND = (
    "hushcov plan --features 1000 --row-sparsity 5 --epsilon 1 --delta 1e-6 --target-error 0.1"
)
TARGET = 0.1


def headline() -> dict[tuple[str, str], int]:
    """Records for an error of 0.1 that the page names, by mechanism and model."""
    text = " ".join(PAGE.split())
    found = re.search(
        r"with neither means nor scales known, an error of 0\.1 is predicted from ([\d,]+) "
        r"\(block\) to ([\d,]+) records \(random model\) on, where the Gaussian mechanism with a "
        r"threshold takes ([\d,]+) to ([\d,]+): hushcov plan",
        text,
    )
    assert found is not None
    places = [(name, model) for name in ("screened", "gaussian-threshold") for model in MODELS]
    return dict(zip(places, (int(part.replace(",", "")) for part in found.groups()), strict=True))


MODELS = ("block", "random")


def test_the_command_stands_below_its_figures():
    assert COMMAND in PAGE.split("## ")[0]


@pytest.mark.parametrize("mechanism", ["screened", "gaussian-threshold"])
@pytest.mark.parametrize("model", MODELS)
def test_the_figures_are_the_planners_with_nothing_known(mechanism, model):
    """As the command finds them, in three digits: 2.5 % more records do, 2.5 % fewer do not."""
    estimator = PrivateSparseCovariance(epsilon=1.0, delta=1e-6, row_sparsity=5)
    n = headline()[mechanism, model]

    def error(share: float) -> float:
        inputs = estimator.public_inputs(int(share * n), 1000)
        return forecast(inputs, mechanism).predicted_error[model]

    assert error(1.025) <= TARGET < error(0.975)
