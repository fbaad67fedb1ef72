"""Private LD of simulated genotypes by every mechanism: what is wrong, window by window.

    python benchmarks/studies/linkage.py                     # 20,000 x 1,000, minutes
    python benchmarks/studies/linkage.py --large             # 200,000 x 10,000 too; 4 GB of disk
    python benchmarks/studies/linkage.py --draw docs/figures/ld-errors.png    # from the results
    python benchmarks/studies/linkage.py --sizes             # noise to expect, by size

Every mechanism of the package is told the same, all of it public: Hardy-Weinberg scales at the
frequencies of a panel and, where it can be told, that pairs are at most 49 variants apart. One that
cannot run is listed with the reason. What there is already is kept: delete the file of results to
measure anew. Needs msprime.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from ld_genotypes import Population, ld, simulate

import hushcov
from hushcov.fit import mechanisms
from hushcov.postprocess import released_correlations

DELTA, WINDOW = 1e-6, 50
SMALL, LARGE = (20_000, 1_000, 1), (200_000, 10_000, 10)  # people, variants, chromosomes
DENSE_AT_MOST = 2_000  # features; raise it to try all pairs of more
LONGEST = 900.0  # seconds of a fit
SEED = 1
EPSILONS = (1.0, 3.0)
PLANNED_PEOPLE = (2_000, 20_000, 200_000, 500_000, 2_000_000)
PLANNED_VARIANTS = (50, 1_000, 10_000, 1_000_000)
RIVALS = {"panel of 500, same population": "panel", "panel of 500, other population": "far"}
Matrix = npt.NDArray[np.float64]
Contender = tuple[str, dict[str, Any]]


def contenders(n_features: int) -> Iterator[tuple[str, Contender | str]]:
    """Every mechanism by name: its class and options, or why it cannot run."""
    yield "genotypes, band", ("GenotypeCovariance", {"bandwidth": WINDOW - 1})
    yield (
        "genotypes, band, add-remove",
        ("GenotypeCovariance", {"bandwidth": WINDOW - 1, "neighbours": "add-remove"}),
    )
    yield "automatic choice, band", ("PrivateSparseCovariance", {"bandwidth": WINDOW - 1})
    for name, mechanism in mechanisms().items():
        default = "PrivateSparseCovariance", {"mechanism": name}
        kind, options = mechanism.estimator or default
        known = inspect.signature(getattr(hushcov, kind)).parameters
        told = {"row_sparsity": 2 * WINDOW - 1} if "row_sparsity" in known else {}
        if "bandwidth" in known and kind != default[0]:
            yield f"{name}, band", (kind, options | told | {"bandwidth": WINDOW - 1})
        if mechanism.most_features is not None and n_features > mechanism.most_features:
            yield name, f"at most {mechanism.most_features} features: {mechanism.limit}"
        elif n_features > DENSE_AT_MOST:
            yield name, f"looks at all {n_features * (n_features - 1) // 2:,} pairs; not tried"
        else:
            yield name, (kind, options | told)


def fit(path: str, contender: Contender, epsilon: float, scale: Any, output: str) -> None:
    """One fit in a process of its own; windows of correlations go into a file."""
    warnings.simplefilter("ignore")
    kind, options = contender
    known = inspect.signature(getattr(hushcov, kind)).parameters
    told = {"epsilon": epsilon, "delta": DELTA, "feature_scale": scale, "on_hopeless": "warn"}
    told |= options
    X: Any = path
    if kind != "GenotypeCovariance":
        large = len(scale) > DENSE_AT_MOST
        X = by_rows(path) if large else np.load(path).astype(np.float64)
    start = time.perf_counter()
    try:
        est = getattr(hushcov, kind)(**{key: told[key] for key in told if key in known}).fit(X)
        found = {"seconds": time.perf_counter() - start}
        blocks = _windows(est.covariance_)
    except Exception as error:
        Path(output).with_suffix(".json").write_text(json.dumps({"skipped": str(error)}))
        return
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.save(output, blocks)
    Path(output).with_suffix(".json").write_text(json.dumps(found))


def by_rows(path: str) -> Path:
    """A copy where the variants of a person lie side by side, which tables are read by."""
    copied = Path(path).with_suffix(".rows.npy")
    if not copied.exists():
        table = np.load(path, mmap_mode="r")
        rows = np.lib.format.open_memmap(copied, "w+", table.dtype, table.shape)
        for start in range(0, table.shape[1], 500):
            rows[:, start : start + 500] = table[:, start : start + 500]
        rows.flush()
    return copied


def _windows(covariance: Any) -> Matrix:
    correlations = released_correlations(covariance)
    if not isinstance(correlations, np.ndarray):
        correlations = correlations.tocsr()
    found = []
    for start in range(0, covariance.shape[0] - WINDOW + 1, WINDOW):
        block = correlations[start : start + WINDOW, start : start + WINDOW]
        block = block if isinstance(block, np.ndarray) else block.toarray()
        block = np.nan_to_num(np.asarray(block)).clip(-1, 1)
        np.fill_diagonal(block, 1.0)
        found.append(block)
    return np.array(found)


def errors(found: Matrix, exact: Matrix) -> dict[str, float]:
    """Operator norms of what is wrong over those of the exact windows."""
    ratios = np.linalg.norm(found - exact, 2, axis=(1, 2)) / np.linalg.norm(exact, 2, axis=(1, 2))
    return {"median": float(np.median(ratios)), "worst": float(ratios.max())}


def run(path: Path, contender: Contender, epsilon: float, scale: Any, longest: float) -> Any:
    """Windows of a fit and what it took, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "windows.npy"
        arguments = str(path), contender, epsilon, scale, str(output)
        process = multiprocessing.get_context("spawn").Process(target=fit, args=arguments)
        process.start()
        process.join(longest)
        if process.is_alive():
            process.kill()
            process.join()
            return None, {"skipped": f"took more than {longest:.0f} seconds"}
        told = output.with_suffix(".json")
        if not told.exists():
            return None, {"skipped": f"ended with status {process.exitcode}: memory"}
        words = json.loads(told.read_text())
        return (np.load(output) if output.exists() else None), words


def prepared(size: tuple[int, int, int], folder: Path) -> tuple[Path, Population, Matrix, float]:
    """The file of genotypes, the population, exact windows, and seconds of writing."""
    people, variants, chromosomes = size
    start = time.perf_counter()
    population = simulate(variants, n_chromosomes=chromosomes)
    path = folder / f"genotypes-{people}-{variants}.npy"
    table = population.table(people, SEED, path)
    seconds = time.perf_counter() - start
    exact = [ld(table[:, start : start + WINDOW]) for start in range(0, variants, WINDOW)]
    return path, population, np.array(exact), seconds


def measure(size: tuple[int, int, int], document: dict[str, Any], options: Any) -> None:
    """All mechanisms and both panels at one size; rows that are there stay."""
    people, variants, _ = size
    rows = document["rows"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, population, exact, seconds = prepared(size, Path(folder))
        document["written"][f"{people} x {variants}"] = seconds
        print(f"{people:,} x {variants:,}: simulated and written in {seconds:.0f} s", flush=True)
        at = {"people": people, "variants": variants}
        for name, which in RIVALS.items():
            blocks = _windows(np.cov(getattr(population, which).T.astype(np.float64)))
            _keep(rows, at | {"mechanism": name, "epsilon": None} | errors(blocks, exact))
        share = population.panel.mean(axis=0) / 2
        scale = np.sqrt(2 * share * (1 - share))
        chosen = [each for each in contenders(variants) if options.only in each[0]]
        for name, contender in chosen:
            for epsilon in EPSILONS:
                row = at | {"mechanism": name, "epsilon": epsilon}
                if any(row.items() <= other.items() and "median" in other for other in rows):
                    continue
                if isinstance(contender, str):
                    row["skipped"] = contender
                else:
                    found, words = run(path, contender, epsilon, scale, options.longest)
                    row |= words | ({} if found is None else errors(found, exact))
                _keep(rows, row)
                print(json.dumps(row), flush=True)
                options.output.write_text(json.dumps(document, indent=1) + "\n")


def _keep(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    """Add a row in place of an older one of the same cell."""
    names = ("people", "variants", "mechanism", "epsilon")
    rows[:] = [other for other in rows if any(other[key] != row[key] for key in names)]
    rows.append(row)


def ordered(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows by size, then panels, then mechanisms in the order of the registry, then epsilon."""
    names = [*RIVALS, *(name for name, _ in contenders(1))]
    place = {name: at for at, name in enumerate(names)}
    return sorted(
        document["rows"],
        key=lambda row: (row["variants"], place[row["mechanism"]], row["epsilon"] or 0),
    )


def show(document: dict[str, Any]) -> None:
    """Tables in Markdown: median and worst window, seconds, and why some are missing."""
    rows = ordered(document)
    for people, variants in dict.fromkeys((row["people"], row["variants"]) for row in rows):
        mine = [row for row in rows if (row["people"], row["variants"]) == (people, variants)]
        print(f"\n{people:,} people, {variants:,} variants\n")
        print("| mechanism | epsilon 1: median (worst) | epsilon 3 | seconds | memory (GB) |")
        print("|---|---|---|---|---|")
        for name in dict.fromkeys(row["mechanism"] for row in mine):
            cells = [row for row in mine if row["mechanism"] == name]
            shown = [_cell(row) for row in cells]
            if "skipped" in cells[0]:  # once
                shown = shown[:1]
            shown += shown if name in RIVALS else [""] * (len(EPSILONS) - len(shown))
            took = max((row.get("seconds", 0) for row in cells), default=0)
            most = max((row.get("memory", 0) for row in cells), default=0) / 1e9
            ends = [f"{took:.1f}", f"{most:.1f}"] if took else ["", ""]
            print(f"| {name} | {' | '.join([*shown, *ends])} |")


def _cell(row: dict[str, Any]) -> str:
    if "median" in row:
        return f"{row['median']:.2g} ({row['worst']:.2g})"
    return "not run: " + str(row["skipped"]).split(". ")[0].rstrip(".")


def draw(path: Path, document: dict[str, Any]) -> None:
    """Median and worst window of each mechanism, at both sizes and budgets."""
    from hushcov.report.style import BLUE, VERMILION, caption, new_figure, tidy, write_png

    rows = [row for row in ordered(document) if "median" in row]
    sizes = list(dict.fromkeys((row["people"], row["variants"]) for row in rows))
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    figure = new_figure(6.2 * len(sizes) + 1.5, 0.36 * len(names) + 3.2)
    grid = figure.subplots(1, len(sizes), squeeze=False, sharey=True)[0]
    looks = {None: ("0.4", "D", 0.0), 1.0: (BLUE, "o", -0.15), 3.0: (VERMILION, "s", 0.15)}
    for axes, (people, variants) in zip(grid, sizes, strict=True):
        for row in rows:
            if (row["people"], row["variants"]) != (people, variants):
                continue
            colour, marker, shift = looks[row["epsilon"]]
            y = names.index(row["mechanism"]) + shift
            axes.plot([row["median"], row["worst"]], [y, y], color=colour, linewidth=1.5)
            axes.plot(row["median"], y, marker, color=colour, markersize=6)
        axes.axvline(1, color="0.3", linestyle="--", linewidth=1)
        axes.set(xscale="log", xlabel="error of a window over its norm (no unit)")
        axes.set_title(f"{people:,} people, {variants:,} variants")
        tidy(axes)
    grid[0].set_yticks(range(len(names)), names)
    grid[0].invert_yaxis()
    for epsilon, (colour, marker, _) in looks.items():
        label = "panel, no noise" if epsilon is None else f"epsilon = {epsilon:g}"
        grid[0].plot([], [], marker, color=colour, label=label)
    grid[0].legend(fontsize=9)
    text = (
        f"What to see. Operator norm of (released LD - sample LD) in windows of {WINDOW} "
        "variants, over the norm of the sample's: median (marker) and worst window (end of the "
        "line), delta = 1e-6. A matrix of zeros has 1 (dashed), one without any LD 0.88. "
        "Mechanisms without a band look at all pairs."
    )
    caption(figure, text, width=95 * len(sizes))
    write_png(path, figure)


def show_sizes() -> None:
    """The noise of a correlation that plans promise, as Markdown; no records are needed."""
    print("| variants | epsilon |" + "".join(f" {n:,} people |" for n in PLANNED_PEOPLE))
    print("|---" * (2 + len(PLANNED_PEOPLE)) + "|")
    for variants in PLANNED_VARIANTS:
        for epsilon in EPSILONS:
            est = hushcov.GenotypeCovariance(epsilon=epsilon, delta=DELTA, bandwidth=WINDOW - 1)
            noise = [est._fit_plan(n, variants).noise for n in PLANNED_PEOPLE]
            print(f"| {variants:,} | {epsilon:g} |" + "".join(f" {each:.2g} |" for each in noise))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="200,000 x 10,000 as well")
    parser.add_argument("--only-large", action="store_true", help="200,000 x 10,000 alone")
    parser.add_argument("--only", default="", help="mechanisms whose name contains this")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of a fit")
    parser.add_argument("--folder", type=Path, help="where genotypes are written for the run")
    parser.add_argument("--output", type=Path, default=Path("results/linkage.json"))
    parser.add_argument("--draw", type=Path, help="draws from the results, and nothing else")
    parser.add_argument("--sizes", action="store_true", help="the noise to expect, nothing else")
    options = parser.parse_args()
    if options.sizes:
        show_sizes()
        return
    options.output.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"rows": [], "written": {}, "processors": os.cpu_count()}
    if options.output.exists():
        document = json.loads(options.output.read_text())
    if options.draw is None:
        if not options.only_large:
            measure(SMALL, document, options)
        if options.large or options.only_large:
            measure(LARGE, document, options)
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    else:
        draw(options.draw, document)
    show(document)


if __name__ == "__main__":
    main()
