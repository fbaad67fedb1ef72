"""Principal components and partial correlations of one release beside those without privacy.

    python benchmarks/studies/components.py --cells "6,2000;12,10000" --repetitions 4
    python benchmarks/studies/components.py --tables weather --epsilons 1
    python benchmarks/studies/components.py --figures docs/figures

Writes the tables of `docs/components.md` and `docs/partial-correlations.md`. Releases are those of
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
}
HELD_OUT = "hubs"
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


def _share(flags: Any) -> float:
    flags = np.asarray(flags, dtype=float)
    return float(flags.mean()) if flags.size else math.nan


def _span(found: Matrix, others: Matrix) -> float:
    """The largest angle between the spaces of as many first directions."""
    cosines = np.linalg.svd(found.T @ others[:, : found.shape[1]], compute_uv=False)
    return float(np.degrees(np.arccos(min(1.0, cosines[-1]))))


def _covers_span(answer: Components, true_vectors: Matrix) -> float:
    """How often the bound on a space that is known holds."""
    known = np.flatnonzero(answer.span_angle < 90)
    return _share(
        [_span(answer.loadings[:, : k + 1], true_vectors) <= answer.span_angle[k] for k in known]
    )


def judge_components(answer: Components, sample: Matrix, truth: Matrix) -> Row:
    """Those that stand out, at most three, beside the sample; coverage of the truth."""
    k = min(SHOWN, answer.loadings.shape[1])
    row: Row = {"standing_out": answer.n_standing_out}
    values, vectors = directions(sample)
    true_values, true_vectors = directions(truth)
    loadings = answer.loadings[:, :k]
    row["share_error"] = float(np.abs(answer.share[:k] - values[:k] / len(values)).mean())
    row["angle"] = float(_angles(loadings[:, :1], vectors[:, :1])[0]) if k else math.nan
    low, high = answer.variance_interval[:k].T
    row["covers_variance"] = _share((low <= true_values[:k]) & (true_values[:k] <= high))
    row["width"] = float(((high - low) / 2 / len(values)).mean()) if k else math.nan
    told = answer.angle[:k] < 90
    row["told"] = _share(told) if k else 0.0
    row["bound"] = float(answer.angle[0]) if k else math.nan
    row["span_bound"] = float(answer.span_angle[-1]) if k else math.nan
    row["span_angle"] = _span(answer.loadings, vectors) if k else math.nan
    row["covers_span"] = _covers_span(answer, true_vectors)
    far = _angles(loadings, true_vectors[:, :k])
    row["covers_angle"] = _share((far <= answer.angle[:k])[told])
    signs = np.sign(np.einsum("ij,ij->j", loadings, true_vectors[:, :k]))
    low, high = np.moveaxis(answer.loading_interval[:, :k], 2, 0)
    inside = (low <= true_vectors[:, :k] * signs) & (true_vectors[:, :k] * signs <= high)
    row["covers_loadings"] = _share(inside[:, told])
    return row


def judge_partial(answer: PartialCorrelations, sample: Matrix, truth: Matrix) -> Row:
    """Edges found and false; coverage of what a pair has given the others of its group."""
    d = len(truth)
    upper = np.triu_indices(d, 1)
    wanted, beside = np.eye(d), np.eye(d)
    for group in range(answer.groups.max() + 1):
        block = np.ix_(*[np.flatnonzero(answer.groups == group)] * 2)
        wanted[block], beside[block] = partials(truth[block]), partials(sample[block])
    whole = partials(truth)
    related = np.abs(whole[upper]) > 1e-9
    strong = np.abs(whole[upper]) > EDGE
    edges, known = answer.edges[upper], np.isfinite(answer.lower[upper])
    covered = (answer.lower <= wanted)[upper] & (wanted <= answer.upper)[upper]
    half = ((answer.upper - answer.lower) / 2)[upper][known]
    return {
        "noise": _share(answer.noise[upper]),
        "given": _share(known),
        "covers": _share(covered[known]),
        "half_width": float(half.mean()) if len(half) else math.nan,
        "error": float(np.abs((answer.matrix - beside)[upper][known]).mean())
        if known.any()
        else math.nan,
        "edges_found": _share(edges[strong]),
        "false_edges": float(np.count_nonzero(edges & ~related)),
        "any_false": float((edges & ~related).any()),
    }


def released(records: Matrix, epsilon: float) -> Release | None:
    """The default, with nothing known; None where it is refused."""
    estimator = PrivateSparseCovariance(
        epsilon=epsilon, delta=1e-6, store_precision=False, on_hopeless="warn"
    )
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
    lost = {"left_out": float(len(answer.left_out))}
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
            means.append(f"{values.mean():.3g}" if len(values) else "")
        lines.append("| " + " | ".join([*cell.split(","), str(len(found)), *means]) + " |")
    return "\n".join(lines)


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
    seen = [name for name in FAMILIES if name != HELD_OUT]
    parser.add_argument("--families", default=seen, type=_names(FAMILIES))
    parser.add_argument("--tables", default=[], type=_names(TABLES), help="instead of families")
    parser.add_argument("--epsilons", default="1", help="with commas")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="where releases are kept and looked for")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # simulated or public: nothing to protect, nothing to refuse
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
