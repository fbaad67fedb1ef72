"""`hushcov fit --mechanism theorem`: the paper's mechanism at the constants of its proof.

Every `hushcov fit` loads this module; what runs the mechanism is loaded where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console

from hushcov._words import number
from hushcov.cli.fitting import Job, Settled, Slice
from hushcov.exceptions import ParameterError, PrivacyConditionError
from hushcov.fit import Caution
from hushcov.kernel.accounting import Guarantee
from hushcov.options import Taker, shared_by
from hushcov.promise import promise_words

if TYPE_CHECKING:
    from hushcov.paper.estimator import MultiscaleCovariance
    from hushcov.paper.parameters import TheoremParameters

_PUBLIC = ("epsilon", "delta", "row_sparsity", "scale", "target_error", "failure_probability")
_TAKEN = ("epsilon", "delta", "row_sparsity", "feature_scale", "assume_centered")
_READING = ("columns", "header", "names", "delimiter", "scheduler", "device", "scratch", "memory")
_ALL_PAIRS = "the theorem is about all pairs."
_ONE_RECORD = "the theorem is about one record for each."
_REFUSED = {
    "drop_nulls": "the theorem is about complete records, and nobody counts them.",
    "on_invalid": "the theorem is about complete records: other values are an error.",
    "codebook": "the theorem is about records of mean zero and one scale; code them before.",
    "transforms": "the theorem is about records as they are; map them before.",
    "marginals": "the theorem is about covariances, and finds no quantiles.",
    "bandwidth": _ALL_PAIRS,
    "candidate_pairs": _ALL_PAIRS,
    "unit": _ONE_RECORD,
    "estimand": _ONE_RECORD,
    "max_rows_per_unit": _ONE_RECORD,
    "sample_weight": "the theorem is about records that count alike.",
    "neighbours": "the theorem is about records that are replaced.",
}
_NEEDED = {
    "row_sparsity": "it bounds the nonzeros of a row, the diagonal included, in the theorem.",
    "feature_scale": "it is a public bound on the standard deviation in every direction, never "
    "inferred from the data.",
    "assume_centered": "the theorem is about records of mean zero. Subtract means that are public "
    "from the records.",
}


@dataclass(frozen=True)
class TheoremJob(Job):
    """A release at the constants of the theorem; its plan are the theorem's parameters."""

    estimator: MultiscaleCovariance
    plan: TheoremParameters

    shown_pairs: ClassVar[int] = 0  # pairs have no single noise level, and so no intervals

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """A caution of delta alone: without accuracy there is no proof of it, no more."""
        return self.estimator.cautions(self.plan)

    def announcement(self) -> list[tuple[str, str]]:
        """Return what will be released, how, and what is proved of it."""
        from hushcov.paper.command import accuracy_verdict, privacy_verdict

        inputs = self.plan.inputs
        d, values = inputs.n_features, asdict(inputs)
        listed = ", ".join(f"{name.replace('_', ' ')} {number(values[name])}" for name in _PUBLIC)
        return [
            ("release", f"{d:,} x {d:,} covariance, rounded to integers"),
            ("mechanism", "multiscale threshold tests at the constants of the paper's theorem"),
            ("guarantee", promise_words(inputs.epsilon, inputs.delta)),
            ("private?", privacy_verdict(self.plan)),
            ("accurate?", accuracy_verdict(self.plan)),
            ("public inputs", f"the size of the data, {listed}"),
        ]

    def certify(self) -> Guarantee:
        """Check the condition of the privacy proof, before any record is read."""
        from hushcov.paper.mechanism import certify

        try:
            return certify(self.plan, private=True, exact_statistic=False)
        except PrivacyConditionError as error:
            if error.smallest_private_n is None:
                raise
            words = f"{error} Or leave out --mechanism: the others are private at any number of "
            raise PrivacyConditionError(words + "records.", error.smallest_private_n) from None

    def fit(self, records: Any) -> None:
        """Run the mechanism."""
        self.estimator.fit(records)

    def expected(self) -> dict[str, object]:
        """Return what is known before any record is read, as plain, JSON-ready data."""
        from hushcov.paper.mechanism import NAME

        sentences = [caution.sentence for caution in self.cautions]
        return {"mechanism": NAME, "constants": self.estimator.constants, "warnings": sentences}


def _prepare(
    options: dict[str, Any], settle: Callable[[], Settled], out: Console | None
) -> TheoremJob:
    """Settle every public number of the release; no record is read."""
    from hushcov.paper.estimator import MultiscaleCovariance
    from hushcov.paper.parameters import TheoremParameters

    if "hopeless" in options["allow"]:
        raise ParameterError(
            f"--allow hopeless must be left out with {SLICE.taker.words}: the theorem has no "
            "prediction that could be hopeless."
        )
    source, found, _ = settle()
    known = {name: found[name] for name in ("epsilon", "delta", "row_sparsity")}
    others = ("assume_centered", "device", "on_large_delta", *shared_by(MultiscaleCovariance))
    known |= {name: found[name] for name in others if name in found}
    estimator = MultiscaleCovariance(**known, scale=found["feature_scale"])
    plan = estimator.public_parameters(source.records.n_records, source.records.n_features)
    assert isinstance(plan, TheoremParameters)
    return TheoremJob(source, estimator, plan)


SLICE = Slice(
    Taker("--mechanism theorem", taken=(*_TAKEN, *_READING), refused=_REFUSED, needed=_NEEDED),
    _prepare,
)
