"""Modules of genes that are expressed together, from one private release.

    python examples/gene_expression.py [--records N] [--figure PATH]

Simulated: 240 genes, half of them in 16 modules, measured in 40,000 people, one row each. Nobody
knows which genes belong together, and units differ by a factor of a thousand. The covariance is
released once. What follows uses the release alone: post-processing is free, however much there is.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import adjusted_rand_score

from hushcov import PrivateSparseCovariance
from hushcov.postprocess import hard_threshold, released_correlations, sparse_components
from hushcov.report.figures import colour_bar, panel
from hushcov.report.style import caption, new_figure, write_png

GENES, MODULES = 240, 16
CAPTION = (
    "What to see. Genes in the order of the groups that were found in the release; those without a "
    "group are left out. The blocks of the release (epsilon = 1, delta = 1e-6) are the true ones."
)


def simulate(n_records: int) -> tuple[Any, Any, Any]:
    """Rows, true correlations, and the module of each gene; -1 for none."""
    generator = np.random.default_rng(1)
    sizes = generator.integers(5, 11, MODULES)
    module = np.full(GENES, -1)
    module[generator.permutation(GENES)[: sizes.sum()]] = np.repeat(np.arange(MODULES), sizes)
    sign = generator.choice([-1, 1], GENES, p=[0.2, 0.8])
    loading = np.where(module < 0, 0.0, sign * generator.uniform(0.6, 0.9, GENES))
    truth = np.multiply.outer(loading, loading) * np.equal.outer(module, module)
    np.fill_diagonal(truth, 1.0)
    activity = generator.standard_normal((n_records, MODULES))[:, module]
    own = np.sqrt(1 - loading**2) * generator.standard_normal((n_records, GENES))
    unit = 10 ** generator.uniform(-1, 2, GENES)
    return unit * (5 + loading * activity + own), truth, module


def draw(path: Path, released: Any, truth: Any, group: Any) -> None:
    """Released and true correlations of the genes in groups."""
    order = np.argsort(group, kind="stable")
    order = order[np.bincount(group)[group[order]] > 1]
    figure = new_figure(11, 6)
    panels = figure.subplots(1, 2)
    for axes, matrix, title in zip(panels, (released, truth), ("Released", "True"), strict=True):
        image = panel(axes, matrix[np.ix_(order, order)], 1.0, f"{title} correlations")
        axes.set(xlabel="gene, by group of the release", ylabel="gene")
    colour_bar(image, list(panels), shrink=0.7)
    caption(figure, CAPTION, width=125)
    write_png(path, figure)


def main(arguments: list[str] | None = None) -> None:
    """Release once, and look at the release in three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=40_000, help="rows to simulate")
    parser.add_argument("--figure", type=Path, help="file to draw into")
    options = parser.parse_args(arguments)
    rows, truth, module = simulate(options.records)

    # The one look at the records. Everything after it is post-processing, and free.
    est = PrivateSparseCovariance(epsilon=1.0, delta=1e-6).fit(rows)
    released = released_correlations(est.covariance_)
    print("One release:", str(est.release_.guarantee).splitlines()[0])

    edges, true_edges = (np.triu(matrix != 0, 1) for matrix in (released, truth))
    found, true = (edges & true_edges).sum(), true_edges.sum()
    print(f"1. A graph of {edges.sum()} edges, with {found} of the {true} true ones.")
    _, group = connected_components(hard_threshold(released, 0.25), directed=False)
    agreement = adjusted_rand_score(module[module >= 0], group[module >= 0])
    n_groups = (np.bincount(group) > 1).sum()
    print(f"2. Correlations above 0.25 make {n_groups} groups. Agreement with the {MODULES}")
    print(f"   modules (adjusted Rand index): {agreement:.2f} of 1.")
    components, variance = sparse_components(hard_threshold(released, 0.25), MODULES, 10)
    found = components[variance > 0]
    pure = sum(len(set(module[component != 0])) == 1 for component in found)
    print(f"3. Sparse principal components: {pure} of {MODULES} are of one module alone, with")
    print(f"   variances from {variance.max():.1f} to {variance.min():.1f} (one gene has 1).")
    if options.figure:
        draw(options.figure, released, truth, group)


if __name__ == "__main__":
    main()
