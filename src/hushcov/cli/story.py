"""What `hushcov demo` says at each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hushcov._arrays import FloatArray
from hushcov._words import number
from hushcov.cli.forecasts import Planner
from hushcov.cli.output import facts, heading, paragraph, plain_table, show
from hushcov.cli.pairs import found_pairs, pair_remarks, pair_table
from hushcov.cli.progress import busy
from hushcov.cli.tables import mechanism_table, remarks
from hushcov.cli.words import privacy_promise
from hushcov.estimators import PrivateSparseCovariance
from hushcov.exceptions import MissingPackageError
from hushcov.metrics import operator_norm, operator_norm_error
from hushcov.release.findings import LEVEL
from hushcov.report import write_truth_figure

_SHOWN_PAIRS = 6


@dataclass(frozen=True)
class Simulated:
    """Records and the covariance they were drawn with."""

    model: str
    records: FloatArray
    covariance: FloatArray

    @property
    def correlation(self) -> FloatArray:
        """The true correlations."""
        return self.in_true_units(self.covariance)

    def in_true_units(self, matrix: FloatArray) -> FloatArray:
        """A matrix with every feature divided by its true standard deviation."""
        deviation = np.sqrt(np.diag(self.covariance))
        return np.asarray(matrix / np.multiply.outer(deviation, deviation))

    def error(self, estimate: FloatArray) -> float:
        """Operator-norm error of an estimate, in true units, over the norm of the truth."""
        truth = self.correlation
        return operator_norm_error(self.in_true_units(estimate), truth) / operator_norm(truth)

    def pairs(self, estimate: FloatArray) -> tuple[int, int, int]:
        """Related pairs found and missed, and unrelated ones shown."""
        upper = np.triu_indices(len(estimate), 1)
        found, present = estimate[upper] != 0, self.covariance[upper] != 0
        hits = int(np.count_nonzero(found & present))
        return hits, int(np.count_nonzero(present)) - hits, int(np.count_nonzero(found)) - hits


def tell_data(out: Console, data: Simulated, row_sparsity: int) -> None:
    """Say what the data is, and what the estimator is told of it."""
    n, d = data.records.shape
    pairs = np.count_nonzero(np.triu(data.covariance, 1))
    heading(out, "1. The data: simulated, nobody's")
    paragraph(
        out,
        f"{n:,} records of {d:,} features, with means far from zero and standard deviations "
        f"from 0.1 to 100. {pairs:,} of the {d * (d - 1) // 2:,} pairs of features are related "
        f"(model: {data.model}); every other covariance is zero. The estimator is told that a row "
        f"of the covariance has at most {row_sparsity} nonzeros, and nothing else: no mean, no "
        "scale, no position.",
    )


def tell_plan(out: Console, estimator: PrivateSparseCovariance, data: Simulated) -> None:
    """Say what is known before any data is seen."""
    n, d = data.records.shape
    with busy("comparing the mechanisms, from public inputs"):
        row = Planner(estimator.request(d), d).chosen(n)
    heading(out, "2. The plan: all of this is known before any record is read")
    paragraph(
        out,
        f"{privacy_promise(row.inputs.epsilon, row.inputs.delta)} Every mechanism below keeps "
        "this promise. Predicted errors, relative to the covariance's norm (the zero matrix has "
        "1), if the covariance is like one of three models:",
    )
    show(out, "")
    show(out, mechanism_table(row))
    for remark in remarks([row]):
        paragraph(out, remark)


def tell_release(
    out: Console, data: Simulated, estimators: Sequence[PrivateSparseCovariance], seconds: float
) -> None:
    """Hold the releases against the truth; the first is the one that was chosen."""
    best = estimators[0]
    heading(out, f"3. The release, by {best.mechanism_}, against the truth")
    show(out, _against_truth(data, estimators))
    hits, missed, false = data.pairs(best.covariance_)
    error = data.error(best.covariance_)
    paragraph(
        out,
        f"\nThe release is off by {number(100 * error, 2)} % of the covariance's norm. It found "
        f"{hits:,} of {hits + missed:,} related pairs and shows {false:,} unrelated ones, in "
        f"{seconds:.1f} s. Errors are in units of the true standard deviations. Sensitive records "
        "would get the guarantee above; simulated ones need none, so this release is marked as "
        "not private.",
    )


def _against_truth(data: Simulated, estimators: Sequence[PrivateSparseCovariance]) -> Table:
    table = plain_table()
    table.add_column("mechanism", no_wrap=True, vertical="bottom")
    for title in ("predicted\nerror", "measured\nerror", "pairs\nfound", "pairs\nmissed", "false"):
        table.add_column(title, justify="right", no_wrap=True, vertical="bottom")
    for each in estimators:
        found = against_truth(data, each)
        errors = (number(found[name], 2) for name in ("predicted_error", "measured_error"))
        counts = (f"{found[name]:,}" for name in ("pairs_found", "pairs_missed", "false_pairs"))
        table.add_row(each.mechanism_, *errors, *counts)
    return table


def against_truth(data: Simulated, estimator: PrivateSparseCovariance) -> dict[str, Any]:
    """What was predicted of a release, and what came out, as plain, JSON-ready data."""
    assert estimator.plan_ is not None
    plans = {forecast.mechanism: forecast for forecast in estimator.plan_.forecasts}
    hits, missed, false = data.pairs(estimator.covariance_)
    return {
        "mechanism": estimator.mechanism_,
        "predicted_error": plans[estimator.mechanism_].predicted_error[data.model],
        "measured_error": data.error(estimator.covariance_),
        "pairs_found": hits,
        "pairs_missed": missed,
        "false_pairs": false,
    }


def tell_entries(out: Console, data: Simulated, estimator: PrivateSparseCovariance) -> None:
    """Show the strongest pairs with their intervals, and count how many intervals are right."""
    found = found_pairs(estimator.release_, _SHOWN_PAIRS)
    if estimator.detection_limit_ is None or not found.number:
        return
    heading(out, "4. The strongest pairs, with intervals that count privacy noise")
    show(out, pair_table(found.strongest, data.covariance))
    lower, upper = estimator.covariance_interval(LEVEL)
    shown = ~np.isnan(lower) & np.triu(np.ones_like(lower, dtype=bool), 1)
    inside = (lower <= data.covariance) & (data.covariance <= upper)
    paragraph(
        out,
        f"\nOf all {found.number:,} intervals, {np.count_nonzero(inside & shown):,} hold the true "
        f"covariance; {100 * LEVEL:g} % would be {LEVEL * found.number:,.0f}. "
        f"{pair_remarks(found.strongest)}",
    )


def tell_files(
    out: Console, folder: Path, data: Simulated, estimator: PrivateSparseCovariance
) -> None:
    """Write the release with its heat map, and name the files."""
    figures = ["truth and release side by side: look at this one"]

    def attach(draft: Path) -> None:
        np.save(draft / "covariance.npy", estimator.covariance_)
        try:
            _draw(draft / "heatmap.png", data, estimator)
        except MissingPackageError as error:
            figures.append(f"not drawn: {error}")

    # What is there already was simulated too, or the folder would not have been reserved.
    estimator.release_.write(folder, overwrite=True, attach=attach)
    heading(out, "6. Files")
    facts(
        out,
        (
            (f"{folder}/heatmap.png", figures[-1]),
            (f"{folder}/covariance.npy", "the estimate"),
            (f"{folder}/integers.npy", "what was released: integers"),
            (f"{folder}/release.json", "their unit, the guarantee and every public parameter"),
            (f"{folder}/release.sha256", "checksums, by which 'hushcov show' finds damage"),
        ),
    )
    paragraph(out, "\nNext: 'hushcov plan' for your sizes, 'hushcov fit' for your records.")


def _draw(path: Path, data: Simulated, estimator: PrivateSparseCovariance) -> None:
    n, d = data.records.shape
    guarantee = estimator.release_.guarantee
    note = (
        f"Simulated: {n:,} records of {d:,} features, epsilon = {number(guarantee.epsilon)}, "
        f"delta = {number(guarantee.delta)}, by {estimator.mechanism_}."
    )
    estimate = data.in_true_units(estimator.covariance_)
    write_truth_figure(path, data.correlation, estimate, note=note)
