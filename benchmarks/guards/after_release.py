"""Time and memory of everything after a release, for a band along many features.

    python benchmarks/guards/after_release.py --features 1000000 --width 20

A release is made up, with no record behind it: correlations that decay within blocks, as along a
genome, and noise. Each step runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from hushcov.kernel.accounting import Gaussian, Guarantee
from hushcov.postprocess import symmetric_sparse
from hushcov.release import Making, Part, Release
from hushcov.release.schema import band_counts, of_windows

NOISE_SD, UNIT, N = (0.02, 0.03), 2.0**-12, 100_000
BLOCK, DECAY, CHROMOSOMES = 57, 0.85, 22
MU = 0.2


def banded_release(n_features: int, width: int, *, seed: int = 0, mechanism="genotypes") -> Release:
    """A release of a band of made-up correlations; genotypes of 100,000 people, about."""
    rng = np.random.default_rng(seed)
    pairs = of_windows(band_counts(n_features, width))
    rows, columns = pairs
    lag = columns - rows
    within = rows // BLOCK == columns // BLOCK
    strength = rng.uniform(0.2, 1.0, n_features // BLOCK + 1).astype(np.float32)
    values = np.where(within, strength[rows // BLOCK] * DECAY**lag, 0.0)
    sign = rng.choice([-1.0, 1.0], n_features, p=[0.3, 0.7])  # of the minor allele
    values *= sign[rows] * sign[columns]
    values += NOISE_SD[0] * rng.standard_normal(len(values))
    variances = 1 + NOISE_SD[1] * rng.standard_normal(n_features)
    integers = symmetric_sparse(
        (rows, columns),
        np.rint(values / UNIT).astype(np.int64),
        np.rint(variances / UNIT).astype(np.int64),
    )
    frequency = rng.uniform(0.05, 0.5, n_features)
    guarantee = Guarantee(
        epsilon=1.0,
        delta=1e-6,
        transcript_epsilon=1.0,
        transcript_delta=1e-6,
        numerical_delta=0.0,
        events=(Gaussian(MU),),
        method="rdp",
        preconditions=(),
    )
    parts = (Part("windows of pairs and variances", guarantee.events),)
    inputs = {"n_records": N, "n_features": n_features, "bandwidth": width, "epsilon": 1.0}
    place = np.arange(n_features)
    return Release(
        mechanism=mechanism,
        integers=integers,
        unit=UNIT,
        guarantee=guarantee,
        parameters={"inputs": inputs},
        feature_scale=np.sqrt(2 * frequency * (1 - frequency)),
        location=2 * frequency,
        noise_sd=NOISE_SD,
        selected=pairs,
        column_names=tuple(f"rs{i + 1}" for i in range(n_features)),
        making=Making(n_records=N, scales="given", parts=parts),
        positions=np.cumsum(rng.integers(1, 2_000, n_features)),
        chromosomes=tuple(map(str, (1 + place * CHROMOSOMES // n_features).tolist())),
    )


# ---- steps, each by itself ----


def _make(folder: Path, d: int, w: int) -> None:
    banded_release(d, w)


def _write(folder: Path, d: int, w: int) -> None:
    banded_release(d, w).write(folder / "release")


def _read(folder: Path, d: int, w: int) -> None:
    Release.read(folder / "release")


def _show(folder: Path, d: int, w: int) -> None:
    _command("show", folder / "release")


def _show_column(folder: Path, d: int, w: int) -> None:
    _command("show", folder / "release", "--column", f"rs{d // 2}")


def _report(folder: Path, d: int, w: int) -> None:
    _command("report", folder / "release", "-o", folder / "report.html")


def _save(folder: Path, d: int, w: int) -> None:
    _estimator(folder).save(folder / "saved")


def _pairs(folder: Path, d: int, w: int) -> None:
    _estimator(folder).pairs()


def _intervals(folder: Path, d: int, w: int) -> None:
    _estimator(folder).covariance_interval()


def _correlation(folder: Path, d: int, w: int) -> None:
    _ = _estimator(folder).correlation_


def _window(folder: Path, d: int, w: int) -> None:
    _estimator(folder).window("rs100", "rs120")


def _regression(folder: Path, d: int, w: int) -> None:
    _estimator(folder).regression("rs100", on=["rs101", "rs102"])


def _estimator(folder: Path):
    import hushcov

    return hushcov.load(folder / "release")


def _command(*words: object) -> None:
    from hushcov.cli.main import cli

    with contextlib.suppress(SystemExit):
        cli.main(list(map(str, words)), prog_name="hushcov")


STEPS = {
    "make (not counted below)": _make,
    "make and write": _write,
    "read": _read,
    "hushcov show": _show,
    "hushcov show --column": _show_column,
    "hushcov report": _report,
    "load and save with tables": _save,
    "load and pairs()": _pairs,
    "load and covariance_interval()": _intervals,
    "load and correlation_": _correlation,
    "load and window()": _window,
    "load and regression()": _regression,
}


def _measured(name: str, folder: Path, d: int, w: int, queue) -> None:
    started = time.perf_counter()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        STEPS[name](folder, d, w)
    used = resource.getrusage(resource.RUSAGE_SELF)
    queue.put((time.perf_counter() - started, time.process_time(), used.ru_maxrss * 1024))


def measure(d: int, w: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Seconds, those of the processor, and peak bytes of each step."""
    found, folder = {}, Path(tempfile.mkdtemp())
    fresh = multiprocessing.get_context("spawn")
    try:
        for name in names:
            queue = fresh.Queue()
            process = fresh.Process(target=_measured, args=(name, folder, d, w, queue))
            process.start()
            process.join()
            if process.exitcode != 0:
                raise SystemExit(f"{name} failed")
            seconds, busy, peak = queue.get()
            found[name] = {"seconds": seconds, "processor_seconds": busy, "peak_bytes": peak}
            times = f"{seconds:8.1f} s {busy:8.1f} s of processor"
            print(f"{name:34} {times} {peak / 1e9:6.2f} GB", flush=True)
        for each in sorted(folder.glob("*")):
            size = sum(path.stat().st_size for path in each.rglob("*")) or each.stat().st_size
            print(f"{each.name:34} {size / 1e6:8.1f} MB")
            found[each.name] = {"bytes": size}
    finally:
        shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--steps", nargs="+", default=list(STEPS))
    parser.add_argument("--out", type=Path, default=Path("results/after_release.json"))
    given = parser.parse_args()
    results = {}
    for d in given.features:
        print(f"\n{d:,} features, width {given.width}")
        results[d] = measure(d, given.width, given.steps)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(results, indent=1) + "\n")
