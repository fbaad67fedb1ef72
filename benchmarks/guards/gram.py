"""How much slower the exact integer Gram matrix is than a plain float64 `X.T @ X`; that of signs.

    python benchmarks/guards/gram.py --records 100000 --features 1000 --output results/gram.json

All are timed in turn in one run, so that other load on the machine meets all. Sums of products of
signs should take at most 0.15 of `X.T @ X` for 98,304 records of 1,000 features, where the
processor counts bits in vectors (AVX-512 VPOPCNTDQ).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from hushcov._version import __version__
from hushcov.kernel.grids import IntegerGrid
from hushcov.kernel.sums.gram import second_moments
from hushcov.kernel.sums.signs import PackedSigns, sign_gram_and_sums
from hushcov.tables.sources import ArrayRecords


def main() -> None:
    arguments = parse_arguments()
    result = measure(arguments.records, arguments.features, arguments.repeats)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    ratios = ", ".join(f"{ratio:.3f}" for ratio in result["ratios"])
    signs = ", ".join(f"{kind} {ratio:.3f}" for kind, ratio in result["sign_ratios"].items())
    print(
        f"n={arguments.records:,} d={arguments.features:,}: second_moments "
        f"{result['second_moments_median_s']:.3f} s, X.T @ X {result['plain_median_s']:.3f} s, "
        f"median ratio {result['ratio']:.3f} (all: {ratios}); "
        f"over X.T @ X in the same turn: {signs}; written to {arguments.output}"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/gram.json"))
    return parser.parse_args()


def measure(n_records: int, n_features: int, repeats: int) -> dict:
    X = np.random.default_rng(0).standard_normal((n_records, n_features))
    records = ArrayRecords(X)
    grid = IntegerGrid.for_records(radius=4.0, n_records=n_records)
    holes = X.copy()
    holes[::2, ::3] = 0.0
    actions = {
        "signs": lambda: sign_gram_and_sums(records)[0],
        "signs with zeros": lambda: sign_gram_and_sums(ArrayRecords(holes))[0],
        "signs packed": lambda: PackedSigns(records),
    }
    for action in actions.values():
        action()  # compiled before it is timed
    plain, exact = [], []
    signs: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        plain.append(seconds(lambda: X.T @ X))
        exact.append(seconds(lambda: second_moments(records, grid)))
        for name, action in actions.items():
            signs[name].append(seconds(action) / plain[-1])
    ratios = [slow / fast for slow, fast in zip(exact, plain, strict=True)]
    return {
        "benchmark": "gram",
        "n_records": n_records,
        "n_features": n_features,
        "block_rows": records.block_rows,
        "half_width": grid.half_width,
        "plain_s": plain,
        "second_moments_s": exact,
        "plain_median_s": median(plain),
        "second_moments_median_s": median(exact),
        "ratios": ratios,
        "ratio": median(ratios),
        "sign_ratios": {name: median(each) for name, each in signs.items()},
        "hushcov": __version__,
        "numpy": np.__version__,
        "blas": np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"],
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
