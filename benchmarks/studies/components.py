"""Principal components and partial correlations of one release beside those without privacy.

    python benchmarks/studies/components.py --cells "6,2000;12,10000" --repetitions 4
    python benchmarks/studies/components.py --tables weather --epsilons 1
    python benchmarks/studies/components.py --figures docs/figures

Writes the tables of `docs/questions.md`. Releases are those of
`PrivateSparseCovariance` with nothing known. Directions, shares and edges are held against those of
the sample covariance of the same rows, intervals against the truth (of tables: the sample).
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from unknown_tables import TABLES, Missing

from hushcov import PrivateSparseCovariance
from hushcov.answers.components import Components, components
from hushcov.answers.partial import PartialCorrelations, partial_correlations
from hushcov.exceptions import HushcovError, ParameterError
from hushcov.release import Release
from hushcov.simulate import gaussian_records, structured_covariance

CELLS = "6,2000;6,10000;6,50000;12,2000;12,10000;12,50000;12,200000;50,10000;50,50000;50,200000"
#: Families of `hushcov.simulate` by what they are called here.
FAMILIES = {
    "independent": "identity",
    "blocks": "block",
    "factors": "three-factors",
    "chain": "ar-0.5",
    "hubs": "hubs",
    "factors and blocks": "factor-blocks",
}
HELD_OUT = ("hubs", "factors and blocks")
SHOWN = 3  # components
EDGE = 0.1  # partial correlations of the truth that a graph should show
Matrix = npt.NDArray[np.float64]
Row = dict[str, float]


def correlations(covariance: Matrix) -> Matrix:
    """Covariances over standard deviations."""
    deviation = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.multiply.outer(deviation, deviation))


def directions(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues and eigenvectors, the largest first."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, ::-1]


def partials(matrix: Matrix) -> Matrix:
    """Partial correlations of a matrix."""
    inverse = np.linalg.pinv(matrix)
    unit = np.sqrt(np.diag(inverse))
    return np.asarray(-inverse / np.multiply.outer(unit, unit))


def _angles(found: Matrix, others: Matrix) -> Matrix:
    cosines = np.abs(np.einsum("ij,ij->j", found, others)).clip(0, 1)
    return np.asarray(np.degrees(np.arccos(cosines)))


def _mean(values: Any) -> float:
    values = np.asarray(values, dtype=float)
    return float(values.mean()) if values.size else math.nan


def _span(found: Matrix, others: Matrix) -> float:
    """The largest angle between the spaces of as many first directions."""
    cosines = np.linalg.svd(found.T @ others[:, : found.shape[1]], compute_uv=False)
    return float(np.degrees(np.arccos(min(1.0, cosines[-1]))))


def judge_components(answer: Components, sample: Matrix, truth: Matrix) -> Row:
    """Those that stand out, at most three, beside the sample; coverage of the truth."""
    k = min(SHOWN, answer.loadings.shape[1])
    values, vectors = directions(sample)
    true_values, true_vectors = directions(truth)
    row: Row = {"stand out": answer.n_standing_out}
    shares, loadings = answer.share[:k], answer.loadings[:, :k]
    low, high = answer.share_interval[:k].T
    row["share off by"] = _mean(np.abs(shares - values[:k] / len(values)))
    row["half width"] = _mean((high - low) / 2)
    true_shares = true_values[:k] / len(true_values)
    row["shares covered"] = _mean((low <= true_shares) & (true_shares <= high))
    told = answer.angle[:k] < 90
    row["told apart"] = _mean(told) if k else 0.0
    row["direction off by"] = _mean(_angles(loadings, vectors[:, :k])[told])
    row["bound"] = _mean(answer.angle[:k][told])
    far = _angles(loadings, true_vectors[:, :k])
    row["bounds hold"] = _mean((far <= answer.angle[:k])[told])
    signs = np.sign(np.einsum("ij,ij->j", loadings, true_vectors[:, :k]))
    low, high = np.moveaxis(answer.loading_interval[:, :k], 2, 0)
    inside = (low <= true_vectors[:, :k] * signs) & (true_vectors[:, :k] * signs <= high)
    row["loadings covered"] = _mean(inside[:, told])
    known = np.flatnonzero(answer.span_angle < 90)
    holds = [
        _span(answer.loadings[:, : each + 1], true_vectors) <= answer.span_angle[each]
        for each in known
    ]
    row["spans hold"] = _mean(holds)
    return row


def judge_partial(answer: PartialCorrelations, sample: Matrix, truth: Matrix) -> Row:
    """Edges found and false; coverage of what a pair has given the others of its group."""
    d = len(truth)
    upper = np.triu_indices(d, 1)
    wanted, beside = np.eye(d), np.eye(d)
    for group in range(answer.groups.max() + 1):
        given = (answer.groups == group) & np.isfinite(answer.lower).any(axis=1)
        block = np.ix_(*[np.flatnonzero(given)] * 2)
        wanted[block], beside[block] = partials(truth[block]), partials(sample[block])
    whole = partials(truth)
    related = np.abs(whole[upper]) > 1e-9
    strong = np.abs(whole[upper]) > EDGE
    edges, known = answer.edges[upper], np.isfinite(answer.lower[upper])
    covered = (answer.lower <= wanted)[upper] & (wanted <= answer.upper)[upper]
    return {
        "noise": _mean(answer.noise[upper]),
        "given": _mean(known),
        "off by": _mean(np.abs((answer.matrix - beside)[upper][known])),
        "half width": _mean(((answer.upper - answer.lower) / 2)[upper][known]),
        "covered": _mean(covered[known]),
        "edges found": _mean(edges[strong]),
        "false edges": float(np.count_nonzero(edges & ~related)),
    }


def released(records: Matrix, epsilon: float) -> Release | None:
    """The default, with nothing known; None where it is refused."""
    estimator = PrivateSparseCovariance(epsilon=epsilon, delta=1e-6, on_hopeless="warn")
    try:
        return estimator.fit(records).release_
    except HushcovError:
        return None


def stored(keep: Path | None, name: str, records: Matrix, epsilon: float) -> Release | None:
    """The same, from a folder where it was kept."""
    if keep is None:
        return released(records, epsilon)
    folder = keep / name
    if not folder.exists():
        found = released(records, epsilon)
        if found is None:
            return None
        found.write(folder)
    return Release.read(folder)


def judged(release: Release, sample: Matrix, truth: Matrix) -> dict[str, Row]:
    """Both answers, of the features that noise did not drown."""
    names = [f"x{i}" for i in range(release.n_features)]
    try:
        answer, graph = components(release), partial_correlations(release)
    except ParameterError:  # fewer than two features are left
        return {}
    used = [names.index(name) for name in answer.features]
    block = np.ix_(used, used)
    sample, truth = correlations(sample[block]), correlations(truth[block])
    lost = {"left out": float(len(answer.left_out))}
    return {
        "components": lost | judge_components(answer, sample, truth),
        "partial": lost | judge_partial(graph, sample, truth),
    }


def cases(asked: argparse.Namespace) -> Iterator[tuple[str, str, Matrix, Matrix | None]]:
    """Names of the cell and of the run, records, and the truth if there is one."""
    for name in asked.tables:
        try:
            records = TABLES[name]()
        except Missing as missing:
            print(f"{name}: not run, {missing}", flush=True)
            continue
        for seed in range(asked.repetitions):
            rows = np.random.default_rng(seed).permutation(len(records))
            yield f"{name},{records.shape[1]},{len(records)}", f"{name}-{seed}", records[rows], None
    if asked.tables:
        return
    for cell in asked.cells.split(";"):
        d, n = map(int, cell.split(","))
        for name in asked.families:
            truth = structured_covariance(FAMILIES[name], d, random_state=7)
            scale = np.geomspace(1, 100, d)
            for seed in range(asked.repetitions):
                records = gaussian_records(truth, n, random_state=seed) * scale + 3 * scale
                yield f"{name},{d},{n}", f"{name}-{d}-{n}-{seed}", records, truth


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def table(rows: dict[str, list[Row]]) -> str:
    """Means over runs, one line a cell, as Markdown."""
    names = list(next(iter(rows.values()))[0])
    head = ["family", "columns", "rows", "epsilon", "releases", *names]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for cell, found in rows.items():
        means = []
        for name in names:
            values = np.array([row[name] for row in found])
            values = values[np.isfinite(values)]
            means.append(_short(values.mean()) if len(values) else "")
        lines.append("| " + " | ".join([*cell.split(","), str(len(found)), *means]) + " |")
    return "\n".join(lines)


def draw(folder: Path) -> None:
    """Both figures, of one release each."""
    from matplotlib.figure import Figure

    figures: list[tuple[str, str, int, Any]] = [
        ("components.png", "three-factors", 5_000, _draw_components),
        ("partial-correlations.png", "ar-0.5", 50_000, _draw_partial),
    ]
    for name, family, n, drawn in figures:
        truth = structured_covariance(family, 12, random_state=7)
        records = gaussian_records(truth, n, random_state=0)
        release = released(records, 1.0)
        assert release is not None
        figure = Figure(figsize=(10, 4), layout="constrained")
        drawn(figure.subplots(1, 2), release, correlations(np.cov(records, rowvar=False)))
        figure.suptitle(f"12 columns, {n:,} rows, epsilon = 1", fontsize=11)
        figure.savefig(folder / name, dpi=130)


def _bars(axes: Any, x: Any, middle: Any, ends: Any, **style: Any) -> None:
    sides = np.abs(np.moveaxis(np.asarray(ends), -1, 0) - middle)
    axes.errorbar(x, middle, sides, fmt="o", capsize=3, markersize=4, **style)


def _draw_components(axes: Any, release: Release, sample: Matrix) -> None:
    answer = components(release, 8)
    values, vectors = directions(sample)
    x, out = np.arange(1, 9), answer.stands_out
    for which, colour, label in ((out, "C0", "stands out"), (~out, "0.6", "does not")):
        ends = answer.share_interval[which]
        _bars(axes[0], x[which], answer.share[which], ends, color=colour, label=label)
    axes[0].plot(x + 0.15, values[:8] / 12, "kx", label="without privacy")
    axes[0].set(xlabel="component", ylabel="share of the variance (0 to 1)", ylim=(0, None))
    axes[0].set_title("shares, with intervals of 0.95", fontsize=10)
    sign = np.sign(answer.loadings[:, 0] @ vectors[:, 0])
    x = np.arange(12)
    _bars(axes[1], x, answer.loadings[:, 0], answer.loading_interval[:, 0], label="released")
    axes[1].plot(x + 0.25, sign * vectors[:, 0], "kx", label="without privacy")
    axes[1].axhline(0, color="0.8", zorder=0)
    axes[1].set(xlabel="column", ylabel="loading of component 1 (unit vector)", xticks=x)
    axes[1].set_title(f"direction 1, off by at most {answer.angle[0]:.1f} degrees", fontsize=10)
    for each in axes:
        each.legend(fontsize=8)


def _draw_partial(axes: Any, release: Release, sample: Matrix) -> None:
    answer, upper = partial_correlations(release), np.triu_indices(12, 1)
    order = np.argsort(-answer.matrix[upper], kind="stable")[:30]
    at = upper[0][order], upper[1][order]
    x, edges = np.arange(len(order)), answer.edges[at]
    ends = np.stack([answer.lower[at], answer.upper[at]], axis=1)
    for which, colour, label in ((edges, "C0", "edge"), (~edges, "0.6", "no edge")):
        _bars(axes[0], x[which], answer.matrix[at][which], ends[which], color=colour, label=label)
    axes[0].plot(x + 0.3, partials(sample)[at], "kx", markersize=4, label="without privacy")
    axes[0].axhline(0, color="0.8", zorder=0)
    axes[0].set(xlabel="pair, the 30 largest of 66", ylabel="partial correlation (-1 to 1)")
    axes[0].set_title("with intervals of 0.95", fontsize=10)
    axes[0].legend(fontsize=8)
    turn = np.pi / 2 - 2 * np.pi * np.arange(12) / 12
    places = np.stack([np.cos(turn), np.sin(turn)])
    plain = np.abs(correlations(release.covariance())) > 0.1
    for (i, j), width, style in [
        *(((i, j), 0.8, "0.75") for i, j in zip(*np.nonzero(np.triu(plain, 1)), strict=True)),
        *(((i, j), 3.0, "C0") for i, j in zip(*np.nonzero(np.triu(answer.edges)), strict=True)),
    ]:
        axes[1].plot(*places[:, [i, j]], color=style, linewidth=width, zorder=1)
    axes[1].scatter(*places, s=330, color="white", edgecolor="black", zorder=2)
    for name, x_place, y_place in zip(answer.features, *places, strict=True):
        axes[1].text(x_place, y_place, name, ha="center", va="center", fontsize=8, zorder=3)
    axes[1].set(aspect="equal", title="graph: blue edges; grey: correlations above 0.1")
    axes[1].title.set_fontsize(10)
    axes[1].axis("off")


def _names(known: Any) -> Any:
    def parsed(text: str) -> list[str]:
        names = list(known) if text == "all" else text.split(",")
        if not set(names) <= set(known):
            raise argparse.ArgumentTypeError(f"some of {', '.join(known)}, with commas, or all")
        return names

    return parsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default=CELLS, help="d,n;d,n;...")
    seen = [name for name in FAMILIES if name not in HELD_OUT]
    parser.add_argument("--families", default=seen, type=_names(FAMILIES))
    parser.add_argument("--tables", default=[], type=_names(TABLES), help="instead of families")
    parser.add_argument("--epsilons", default="1", help="with commas")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="where releases are kept and looked for")
    parser.add_argument("--figures", type=Path, help="the folder; draws them and nothing else")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated or public: nothing to protect, nothing to refuse
    if asked.figures is not None:
        draw(asked.figures)
        return
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for cell, run, records, truth in cases(asked):
        sample = np.cov(records, rowvar=False)
        for epsilon in map(float, asked.epsilons.split(",")):
            release = stored(asked.keep, f"{run}-{epsilon:g}", records, epsilon)
            if release is None:
                continue
            rows = judged(release, sample, sample if truth is None else truth)
            for question, row in rows.items():
                found[question][f"{cell},{epsilon:g}"].append(row)
    for question, rows in found.items():
        print(f"\n{question}\n\n{table(rows)}", flush=True)


if __name__ == "__main__":
    main()
