"""A release of LD from a `.bed` file, end to end, over reading the file alone; and how it scales.

    python benchmarks/guards/genotypes.py --write million.bed --records 100000 --variants 1000000
    python benchmarks/guards/million.py million.bed                    # 25 GB: minutes
    python benchmarks/guards/million.py --exponents                    # writes files of its own

A fit is everything from opening the file to the estimate, with all noise, in a process of its own;
the file is read alone before and after it, from the disk each time. Then the release is written.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import mean

import numpy as np

from genotypes import forget, read, seconds, write
from hushcov import GenotypeCovariance

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
N_RECORDS = 100_000
SIZES = {"variants": [15_000, 30_000, 60_000, 120_000], "width": [20, 40, 80, 160]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bed", type=Path, nargs="?")
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--exponents", action="store_true")
    parser.add_argument("--folder", help="where files are written; the system's own if left out")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(fit(arguments.bed, arguments.width, arguments.folder)))
    elif arguments.exponents:
        print(json.dumps(exponents(arguments.folder), indent=1))
    else:
        print(json.dumps(measure(arguments.bed, arguments.width), indent=1))


def fit(path: Path, width: int, folder: str | None) -> dict[str, object]:
    """One fit in this process: seconds, processor seconds, memory; then the release is written."""
    warnings.simplefilter("ignore")
    estimator = GenotypeCovariance(**BUDGET, bandwidth=width, on_hopeless="warn")
    started, busy = time.perf_counter(), time.process_time()
    estimator.fit(path)
    found: dict[str, object] = {
        "fit_s": time.perf_counter() - started,
        "fit_cpu_s": time.process_time() - busy,
        "fit_peak_GB": peak(),
        "noise_sd": estimator.release_.noise_sd[0],
        "n_pairs": int(estimator.release_.selected.shape[1]),
    }
    if folder is not None:
        place = Path(folder, "release")
        found["write_s"] = seconds(lambda: estimator.release_.write(place))
        found["release_MB"] = sum(each.stat().st_size for each in place.iterdir()) / 1e6
        found["peak_GB"] = peak()
    return found


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def apart(path: Path, width: int, folder: str | None = None) -> dict[str, float]:
    """A fit in a process of its own, from the disk."""
    forget(path)
    command = [sys.executable, __file__, str(path), "--width", str(width), "--one"]
    command += [] if folder is None else ["--folder", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(path: Path, width: int) -> dict[str, object]:
    """Reading, a fit, and reading again."""
    reading = []
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        small = Path(folder, "small.bed")
        write(small, 1_000, 2_000)
        apart(small, width)  # compiled before it is timed
        forget(path)
        reading.append(seconds(lambda: read(path)))
        found = apart(path, width, folder)
        forget(path)
        reading.append(seconds(lambda: read(path)))
    size = {"bytes": path.stat().st_size, "width": width, "reading_s": reading}
    return size | found | {"ratio": found["fit_s"] / mean(reading)}


def exponents(folder: str | None) -> dict[str, object]:
    """Processor time of fits against variants and width, and the slope of their logarithms."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place, "linked.bed")
        for name, sizes in SIZES.items():
            times = []
            for size in sizes:
                now = {"variants": 15_000, "width": 20} | {name: size}
                write(path, N_RECORDS, now["variants"])
                apart(path, now["width"])
                times.append(min(apart(path, now["width"])["fit_cpu_s"] for _ in range(2)))
            slopes = np.diff(np.log(times)) / np.diff(np.log(sizes))
            found[name] = {"sizes": sizes, "cpu_s": times, "exponents": slopes.round(2).tolist()}
    return found


if __name__ == "__main__":
    main()
