"""Frobenius error of hushcov's default over that of PACE-GGM, with the same public bounds.

Columns are centred and divided by their largest deviation: the bounds of all are -1 and 1, and
means are zero. That is public to PACE-GGM and to the Gaussian mechanism, as their publications have
it, and to hushcov as far as the name of a method says. The covariance sought is the table's own.
"""

from __future__ import annotations

import importlib
import math
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import GaussianCovariance, PaceCovariance, PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.exceptions import AccuracyWarning, SeededNoiseWarning
from hushcov.simulate import gaussian_records, structured_covariance

EPSILONS = (0.1, 1.0, 10.0)
RIVAL = "PACE-GGM"
_REPEATS = {"quick": 1, "full": 5}
_RECORDS, _COLUMNS = 10_000, 20
_SIMULATED = {"chain": "ar-0.8", "factors": "three-factors", "blocks": "block", "mixed": "block"}


@dataclass(frozen=True)
class Study:  # TEMPORARY: the one of hushcov.lab.rivals.study
    """A comparison that can be run again."""

    name: str
    title: str
    cells: Callable[[str, Path | None], list[dict[str, Any]]]
    measure: Callable[[dict[str, Any]], list[dict[str, Any]]]
    draw: Callable[[list[dict[str, Any]]], Any]
    caption: str


def cells(preset: str, folder: Path | None) -> list[dict[str, Any]]:
    """Every table at every budget: those of the folder and of packages, or simulated ones."""
    names = list(_SIMULATED)
    if folder is not None:
        tables = importlib.import_module("hushcov.lab.rivals.tables")
        names = [name for name in tables.table_names(folder) if name not in tables.SIMULATED]
    where = None if folder is None else str(folder)
    return [
        {"table": name, "folder": where, "epsilon": epsilon, "seed": seed}
        for name in names
        for epsilon in EPSILONS
        for seed in range(_REPEATS[preset])
    ]


def bounded_table(name: str, folder: str | None, seed: int) -> FloatArray:
    """Return the columns of a table, centred and over their largest deviation."""
    if folder is None:
        columns = _simulated(name, seed)
    else:
        tables = importlib.import_module("hushcov.lab.rivals.tables")
        table = tables.load_table(name, Path(folder), seed)
        columns = np.column_stack([table.X, table.y])
    columns = columns - columns.mean(axis=0)
    return np.asarray(columns / np.abs(columns).max(axis=0))


def _simulated(name: str, seed: int) -> FloatArray:
    """Normal records of a family; of the mixed ones a third are flags, and a third have tails."""
    model = structured_covariance(_SIMULATED[name], _COLUMNS, random_state=0)
    columns = gaussian_records(model, _RECORDS, random_state=seed + zlib.crc32(name.encode()))
    if name == "mixed":
        columns[:, ::3] = columns[:, ::3] > np.linspace(0.0, 2.0, len(columns[0, ::3]))
        columns[:, 1::3] = np.exp(columns[:, 1::3])
    return columns


def _methods(d: int) -> dict[str, Callable[..., Any]]:
    """Every method, with what is public to it."""
    centred: dict[str, Any] = {"assume_centered": True}
    scaled = centred | {"feature_scale": 1.0}
    bounds: dict[str, Any] = {"bounds": np.tile([-1.0, 1.0], (d, 1))}

    def ours(**known: Any) -> Callable[..., Any]:
        return lambda **budget: PrivateSparseCovariance(**known, **budget)

    return {
        RIVAL: lambda **budget: PaceCovariance(**scaled, radius=1.0, **budget),
        "Gaussian": lambda **budget: GaussianCovariance(**scaled, row_norm=math.sqrt(d), **budget),
        "hushcov, nothing known": ours(),
        "hushcov, bounds": ours(**bounds),
        "hushcov, bounds, all pairs": lambda **budget: GaussianCovariance(**bounds, **budget),
        "hushcov, bounds and means": ours(**bounds, **centred),
        "hushcov, bounds as scales": ours(**scaled),
    }


def measure(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Release one table by every method; errors are relative to the norms of its covariance."""
    X = bounded_table(cell["table"], cell["folder"], cell["seed"])
    n, d = X.shape
    truth = X.T @ X / n
    budget = {"epsilon": cell["epsilon"], "delta": 1 / n**2, "neighbours": "add-remove"}
    free = {"on_hopeless": "warn", "random_state": cell["seed"]}
    rows = []
    for method, make in _methods(d).items():
        with warnings.catch_warnings():
            for category in (AccuracyWarning, SeededNoiseWarning):
                warnings.simplefilter("ignore", category)
            error = make(**budget, **free).fit(X).covariance_ - truth
        errors = {
            "frobenius": float(np.linalg.norm(error) / np.linalg.norm(truth)),
            "operator": float(np.linalg.norm(error, 2) / np.linalg.norm(truth, 2)),
        }
        rows.append(cell | {"n": n, "d": d, "method": method} | errors)
    return rows


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str, float], float]:
    """Geometric means over seeds of errors over PACE's: by method, table and epsilon."""
    logs: dict[tuple[str, str, float], list[float]] = {}
    for row in rows:
        key = row["method"], row["table"], row["epsilon"]
        logs.setdefault(key, []).append(math.log(row["frobenius"]))
    means = {key: float(np.mean(values)) for key, values in logs.items()}
    return {key: math.exp(mean - means[RIVAL, *key[1:]]) for key, mean in means.items()}


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return geometric means over tables as Markdown: a line for each method."""
    found = ratios(rows)
    epsilons = sorted({epsilon for _, _, epsilon in found})
    head = [f"epsilon {epsilon:g}" for epsilon in epsilons] + ["all", "tables below 1, of all"]
    lines = [f"| method | {' | '.join(head)} |", "|" + "---|" * (len(head) + 1)]
    for method in dict.fromkeys(method for method, _, _ in found):
        mine = {key[1:]: math.log(ratio) for key, ratio in found.items() if key[0] == method}
        each = [np.mean([v for (_, e), v in mine.items() if e == epsilon]) for epsilon in epsilons]
        numbers = [f"{math.exp(mean):.2f}" for mean in (*each, np.mean(each))]
        below = sum(value < 0 for value in mine.values())
        lines.append(f"| {method} | {' | '.join(numbers)} | {below} of {len(mine)} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw errors over PACE's for every table, a panel for each epsilon."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    found = ratios(rows)
    epsilons = sorted({epsilon for _, _, epsilon in found})
    widths = {row["table"]: (row["d"], row["n"]) for row in rows}
    tables = sorted(widths, key=lambda name: widths[name])
    methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name != RIVAL]
    figure = Figure(figsize=(10, 1.5 + 0.3 * len(tables)), layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    places = np.arange(len(tables))
    for panel, epsilon in zip(panels, epsilons, strict=True):
        for method, marker in zip(methods, "x^osD+", strict=False):
            values = [found[method, table, epsilon] for table in tables]
            panel.plot(values, places, marker, fillstyle="none", label=method)
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.set(xscale="log", title=f"epsilon {epsilon:g}")
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(axis="y", alpha=0.3)
    labels = [f"{table} ({widths[table][0]} columns)" for table in tables]
    panels[0].set_yticks(places, labels)
    figure.supxlabel(f"Frobenius error over that of {RIVAL} (ratio)", fontsize="medium")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)
    return figure


STUDY = Study(
    "covariance",
    f"Covariance with public bounds: hushcov and {RIVAL}",
    cells,
    measure,
    draw,
    f"Frobenius error over that of {RIVAL}, which knows means and bounds; left of the line is "
    "better. Geometric means over seeds.",
)
