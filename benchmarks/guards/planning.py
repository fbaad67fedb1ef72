"""Time of planning and of starting up, at d = 1000.

    python benchmarks/guards/planning.py

Processor seconds of one thread, each the median of five new processes with its range: `hushcov
plan` at one number of records, with a target, a fit of 200 x 1,500, and imports over that of
`sklearn.covariance`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

RUNS = 5
PLAN = "--features 1000 --epsilon 1 --delta 1e-6"
IMPORT = "import sklearn.covariance"


def command(options: str) -> str:
    return (
        "from click.testing import CliRunner\nfrom hushcov.cli.plan import command\n"
        f"MARK()\nresult = CliRunner().invoke(command, '{PLAN} {options}'.split())\n"
        "assert result.exit_code == 0, result.output"
    )


def fit(options: str) -> str:
    return (
        "import warnings, numpy as np, hushcov\nwarnings.simplefilter('ignore')\n"
        "X = np.random.default_rng(0).standard_normal((200, 1500))\n"
        "insist = {'epsilon': 1.0, 'delta': 1e-3, 'on_hopeless': 'warn'}\n"
        f"MARK()\nhushcov.{options}.fit(X)"
    )


CASES = {
    "plan, one number of records (at most 0.3 s)": command("--records 100000"),
    "the same with all known": command("--records 100000 --known-mean --known-scale"),
    "the same with --row-sparsity": command("--records 100000 --row-sparsity 5"),
    "plan --target-error (at most 5 s)": command("--target-error 0.1"),
    "the same with --row-sparsity, eight rows": command("--row-sparsity 5 --target-error 0.1"),
    "fit of 200 x 1,500, default (at most 3 s)": fit("PrivateSparseCovariance(**insist)"),
    "fit of 200 x 1,500, screened": fit("ScreenedCovariance(row_sparsity=5, **insist)"),
    "fit of 200 x 1,500, Gaussian": fit("GaussianCovariance(**insist)"),
}


def seconds(code: str) -> tuple[float, float]:
    """Processor time before and after the mark, in a new process."""
    whole = (
        "import time\nmarks = []\n"
        "def MARK(): marks.append(time.process_time())\n"
        f"{code}\nend = time.process_time()\n"
        "print('TOOK', *((marks[0], end - marks[0]) if marks else (end, 0.0)))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, check=True, env=environment
    )
    first, second = done.stdout.split("TOOK")[-1].split()
    return float(first), float(second)


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    print("seconds: loading, then planning or fitting")
    for name, code in CASES.items():
        seconds(code)  # kernels are compiled once
        found = [seconds(code) for _ in range(RUNS)]
        print(f"{name:45s} {shown([a for a, _ in found])} {shown([b for _, b in found])}")
    found = [
        seconds("from hushcov import PrivateSparseCovariance")[0] / seconds(IMPORT)[0]
        for _ in range(RUNS)
    ]
    print(f"{'import over sklearn.covariance (at most 1.5)':45s} {shown(found)}")


if __name__ == "__main__":
    main()
