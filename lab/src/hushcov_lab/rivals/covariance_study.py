"""Frobenius error of hushcov's default over that of PACE-GGM, with the same public bounds.

Columns are centred and divided by their largest deviation: the bounds of all are -1 and 1, and
means are zero. That is public to PACE-GGM and to the Gaussian mechanism, as their publications have
it, and to hushcov as far as the name of a method says. The covariance sought is the table's own. At
epsilon 1 bounds that are three times too wide are tried, too.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushcov import GaussianCovariance, PaceCovariance, PrivateSparseCovariance
from hushcov._arrays import FloatArray
from hushcov.exceptions import AccuracyWarning, SeededNoiseWarning
from hushcov.simulate import gaussian_records, structured_covariance
from hushcov_lab.rivals.study import Study
from hushcov_lab.rivals.tables import SIMULATED, load_table, table_names

EPSILONS = (0.1, 1.0, 10.0)
#: Budgets, and how many times too wide bounds are.
SETTINGS = (*((epsilon, 1.0) for epsilon in EPSILONS), (1.0, 3.0))
RIVAL = "PACE-GGM"
_REPEATS = {"quick": 1, "full": 5}
_RECORDS, _COLUMNS = 10_000, 20
_SIMULATED = {"chain": "ar-0.8", "factors": "three-factors", "blocks": "block", "mixed": "block"}


def cells(preset: str, folder: Path | None) -> list[dict[str, Any]]:
    """Every table at every budget: those of the folder and of packages, or simulated ones."""
    names = list(_SIMULATED)
    if folder is not None:
        names = [name for name in table_names(folder) if name not in SIMULATED]
    where = None if folder is None else str(folder)
    return [
        {"table": name, "folder": where, "epsilon": epsilon, "slack": slack, "seed": seed}
        for name in names
        for epsilon, slack in SETTINGS
        for seed in range(_REPEATS[preset])
    ]


def bounded_table(name: str, folder: str | None, seed: int) -> FloatArray:
    """Return the columns of a table, centred and over their largest deviation."""
    if folder is None:
        columns = _simulated(name, seed)
    else:
        table = load_table(name, Path(folder), seed)
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


def _methods(d: int, bound: float) -> dict[str, Callable[..., Any]]:
    """Every method, with what is public to it."""
    centred: dict[str, Any] = {"assume_centered": True}
    scaled = centred | {"feature_scale": bound}
    bounds: dict[str, Any] = {"bounds": np.tile([-bound, bound], (d, 1))}

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
    for method, make in _methods(d, cell["slack"]).items():
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


Key = tuple[str, str, tuple[float, float]]


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[Key, float]:
    """Geometric means over seeds of errors over PACE's: by method, table and setting."""
    logs: dict[Key, list[float]] = {}
    for row in rows:
        key = row["method"], row["table"], (row["epsilon"], row["slack"])
        logs.setdefault(key, []).append(math.log(row["frobenius"]))
    means = {key: float(np.mean(values)) for key, values in logs.items()}
    return {key: math.exp(mean - means[RIVAL, *key[1:]]) for key, mean in means.items()}


def _titles(found: Mapping[Key, float]) -> dict[tuple[float, float], str]:
    """Every setting that was measured, in words."""
    wide = "bounds {:g} times too wide"
    return {
        (epsilon, slack): f"epsilon {epsilon:g}" + (f", {wide.format(slack)}" if slack > 1 else "")
        for epsilon, slack in SETTINGS
        if any(key[2] == (epsilon, slack) for key in found)
    }


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return geometric means over tables as Markdown: a line for each method."""
    found = ratios(rows)
    titles = _titles(found)
    exact = [setting for setting in titles if setting[1] == 1.0]
    head = [*(titles[setting] for setting in exact), "all", "below 1, of all"]
    head += [titles[setting] for setting in titles if setting not in exact]
    lines = [f"| method | {' | '.join(head)} |", "|" + "---|" * (len(head) + 1)]
    for method in dict.fromkeys(method for method, _, _ in found):
        mine = {key[1:]: math.log(ratio) for key, ratio in found.items() if key[0] == method}
        means = {
            each: float(np.mean([value for (_, setting), value in mine.items() if setting == each]))
            for each in titles
        }
        numbers = [f"{math.exp(means[each]):.2f}" for each in exact]
        numbers.append(f"{math.exp(np.mean([means[each] for each in exact])):.2f}")
        counted = [value < 0 for (_, setting), value in mine.items() if setting in exact]
        numbers.append(f"{sum(counted)} of {len(counted)}")
        numbers += [f"{math.exp(means[each]):.2f}" for each in titles if each not in exact]
        lines.append(f"| {method} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw errors over PACE's for every table, a panel for each setting."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    found = ratios(rows)
    titles = _titles(found)
    widths = {row["table"]: (row["d"], row["n"]) for row in rows}
    tables = sorted(widths, key=lambda name: widths[name])
    methods = [name for name in dict.fromkeys(row["method"] for row in rows) if name != RIVAL]
    figure = Figure(figsize=(3 + 2.8 * len(titles), 1.8 + 0.3 * len(tables)), layout="constrained")
    panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
    places = np.arange(len(tables))
    for panel, (setting, title) in zip(panels, titles.items(), strict=True):
        for method, marker in zip(methods, "x^osD+", strict=False):
            values = [found[method, table, setting] for table in tables]
            panel.plot(values, places, marker, fillstyle="none", label=method)
        panel.axvline(1.0, color="black", linewidth=0.8)
        panel.set(xscale="log")
        panel.set_title(title.replace(", ", ",\n"), fontsize="medium")
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_yticks(places, [f"{table} ({widths[table][0]} columns)" for table in tables])
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
