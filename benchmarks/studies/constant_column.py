"""Verdict and error of releases without and with an added column that does not vary.

    python benchmarks/studies/constant_column.py FOLDER --runs 5

FOLDER holds .npz files with X and y; the tables are those of ridge.py. The true error, in brackets,
is that of the correlations of all columns that vary, relative to their norm.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from rich.progress import track
from ridge import FILES, PACKAGED, SIMULATED, folds, release_of

from hushcov.release.estimate import estimate
from hushcov.text.description import verdict


def judged(rows: np.ndarray, runs: int) -> str:
    """Return how often there is each verdict, and the median estimated and true error."""
    varies = rows.std(axis=0) > 0
    scale = rows[:, varies].std(axis=0)
    truth = np.corrcoef(rows[:, varies], rowvar=False)
    words, told, found = Counter[str](), [], []
    for seed in range(runs):
        release = release_of(rows, seed)
        said, matrix = verdict(release), estimate(release)
        matrix = np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)
        off = matrix[np.ix_(varies, varies)] / np.multiply.outer(scale, scale)
        words[said.word] += 1
        told.append(said.error)
        found.append(np.linalg.norm(off - truth, 2) / np.linalg.norm(truth, 2))
    said_words = ", ".join(f"{count} {word}" for word, count in words.most_common())
    return f"{said_words}: {np.median(told):.3f} ({np.median(found):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # public tables: nothing to protect, nothing to refuse
    here = [name for name in FILES if (asked.folder / f"{name}.npz").exists()]
    print("| table | without | with a constant column |\n|---|---|---|")
    for name in track([*SIMULATED, *PACKAGED, *here], "tables", transient=True):
        fold = list(folds(name, asked.folder, seed=0))[:2][-1]  # 20,000 records, or what there are
        rows = fold.fitted[:, fold.fitted.std(axis=0) > 0]
        added = np.column_stack([rows, np.full(len(rows), 5.0)])
        cells = [judged(each, asked.runs) for each in (rows, added)]
        print(f"| {fold.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
