"""Verdict and error of releases without and with an added column that does not vary.

    python benchmarks/studies/constant_column.py FOLDER

FOLDER holds .npz files with X and y; the tables are those of ridge.py. The true error is that of
the correlations of all columns that vary, relative to their norm.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
from rich.progress import track
from ridge import FILES, PACKAGED, SIMULATED, folds, release_of

from hushcov.release.estimate import estimate
from hushcov.text.description import verdict


def judged(rows: np.ndarray) -> str:
    """Return the verdict, the estimated error and the true one."""
    release = release_of(rows, seed=3)
    told, matrix = verdict(release), estimate(release)
    varies = rows.std(axis=0) > 0
    matrix = np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)
    scale = rows[:, varies].std(axis=0)
    off = matrix[np.ix_(varies, varies)] / np.multiply.outer(scale, scale)
    truth = np.corrcoef(rows[:, varies], rowvar=False)
    error = np.linalg.norm(off - truth, 2) / np.linalg.norm(truth, 2)
    return f"{told.word} {told.error:.3f} ({error:.3f})"


def main() -> None:
    warnings.simplefilter("ignore")  # public tables: nothing to protect, nothing to refuse
    folder = Path(sys.argv[1])
    here = [name for name in FILES if (folder / f"{name}.npz").exists()]
    print("| table | without | with a constant column |\n|---|---|---|")
    for name in track([*SIMULATED, *PACKAGED, *here], "tables", transient=True):
        fold = list(folds(name, folder, seed=0))[:2][-1]  # 20,000 records, or what there are
        rows = fold.fitted[:, fold.fitted.std(axis=0) > 0]
        added = np.column_stack([rows, np.full(len(rows), 5.0)])
        print(f"| {fold.name} | {judged(rows)} | {judged(added)} |", flush=True)


if __name__ == "__main__":
    main()
