"""Time of planning and of starting up, at d = 1000.

    python benchmarks/guards/planning.py [5]

Processor seconds of one thread, each the median of five new processes (or as many as the argument
says) with its range: `hushcov plan` at one number of records and with a target, what a fit plans, a
fit of 200 x 1,500, `hushcov --help` and `show`, and imports over that of `sklearn.covariance`. Byte
code of modules is kept between the processes, as that of an installed package is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

#: Processor seconds, at most; without loading for plans and fits.
LIMITS = {
    "plan, one number of records": 0.3,
    "plan --target-error": 3.0,
    "what a default fit plans": 0.2,
    "what a multiscale fit plans": 1.0,
    "fit of 200 x 1,500, default": 3.0,
    "hushcov --help": 0.15,
    "hushcov show": 1.0,
    "hushcov plan --records": 1.0,
}
PLAN = "--features 1000 --epsilon 1 --delta 1e-6"
IMPORT = "import sklearn.covariance"
CODE = tempfile.TemporaryDirectory()
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "",
    "PYTHONPYCACHEPREFIX": CODE.name,
}


def command(options: str) -> str:
    return (
        "from click.testing import CliRunner\nfrom hushcov.cli.plan import command\n"
        f"MARK()\nresult = CliRunner().invoke(command, '{PLAN} {options}'.split())\n"
        "assert result.exit_code == 0, result.output"
    )


def planning(mechanism: str) -> str:
    return (
        "import numpy as np\nfrom hushcov.fit import Request, named\n"
        f"request, mechanism = Request(5, 1.0, 1e-6), named('{mechanism}')\nMARK()\n"
        "inputs, stages = request.divide(100_000, 1000)\n"
        "request.plan(inputs, stages, mechanism.plan(inputs), np.ones(1000))"
    )


def fit(options: str) -> str:
    return (
        "import warnings, numpy as np, hushcov\nwarnings.simplefilter('ignore')\n"
        "X = np.random.default_rng(0).standard_normal((200, 1500))\n"
        "insist = {'epsilon': 1.0, 'delta': 1e-3, 'on_hopeless': 'warn'}\n"
        f"MARK()\nhushcov.{options}.fit(X)"
    )


CASES = {
    "plan, one number of records": command("--records 100000"),
    "the same with all known": command("--records 100000 --known-mean --known-scale"),
    "the same with --row-sparsity": command("--records 100000 --row-sparsity 5"),
    "plan --target-error": command("--target-error 0.1"),
    "the same with --row-sparsity, eight rows": command("--row-sparsity 5 --target-error 0.1"),
    "what a default fit plans": planning("adaptive"),
    "what a screened fit plans": planning("screened"),
    "what a multiscale fit plans": planning("multiscale"),
    "fit of 200 x 1,500, default": fit("PrivateSparseCovariance(**insist)"),
    "fit of 200 x 1,500, screened": fit("ScreenedCovariance(row_sparsity=5, **insist)"),
    "fit of 200 x 1,500, Gaussian": fit("GaussianCovariance(**insist)"),
    "plan of MultiscaleCovariance for 200 x 1,500": (
        "import warnings, hushcov\nwarnings.simplefilter('ignore')\n"
        "est = hushcov.MultiscaleCovariance(epsilon=1.0, delta=1e-3, row_sparsity=5, scale=1.0,\n"
        "    constants='calibrated', on_hopeless='warn')\n"
        "MARK()\nest.public_parameters(200, 1500)"
    ),
}
RELEASE = (
    "import warnings, numpy as np, hushcov\nwarnings.simplefilter('ignore')\n"
    "X = np.random.default_rng(0).standard_normal((5000, 20))\n"
    "hushcov.PrivateSparseCovariance(epsilon=1.0, delta=1e-5, on_hopeless='warn').fit(X)"
    ".release_.write({folder!r})"
)


def seconds(code: str) -> tuple[float, float]:
    """Processor time before and after the mark, in a new process."""
    whole = (
        "import time\nmarks = []\n"
        "def MARK(): marks.append(time.process_time())\n"
        f"{code}\nend = time.process_time()\n"
        "print('TOOK', *((marks[0], end - marks[0]) if marks else (end, 0.0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    first, second = done.stdout.split("TOOK")[-1].split()
    return float(first), float(second)


def whole(*arguments: str) -> float:
    """Processor time of a command, all of its processes together."""
    code = "from hushcov.cli.main import main; main()"
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, check=True, env=ENVIRONMENT
    )
    after = os.times()
    return after.children_user + after.children_system - before[2] - before[3]


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} ({min(values):.2f} to {max(values):.2f})"


def measure(runs: int) -> Iterator[tuple[str, list[float]]]:
    """Processor seconds by what is measured."""
    for name, code in CASES.items():
        seconds(code)  # kernels are compiled once
        yield name, [seconds(code)[1] for _ in range(runs)]
    with tempfile.TemporaryDirectory() as folder:
        release = f"{folder}/release"
        seconds(RELEASE.format(folder=release))
        commands = {
            "hushcov --help": ["--help"],
            "hushcov show": ["show", release],
            "hushcov plan --records": ["plan", *PLAN.split(), "--records", "100000"],
        }
        for name, arguments in commands.items():
            whole(*arguments)  # byte code is written once
            yield name, [whole(*arguments) for _ in range(runs)]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, found in measure(runs):
        limit = f", at most {LIMITS[name]}" if name in LIMITS else ""
        print(f"{name:45s} {shown(found)} s{limit}", flush=True)
    found = [
        seconds("from hushcov import PrivateSparseCovariance")[0] / seconds(IMPORT)[0]
        for _ in range(runs)
    ]
    print(f"{'import over sklearn.covariance':45s} {shown(found)}, at most 1.5")


if __name__ == "__main__":
    main()
