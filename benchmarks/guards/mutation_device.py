"""Plant the faults of `mutation.py` in the kernels of a GPU, and see which are found; needs a GPU.

    python benchmarks/guards/mutation_device.py --jobs 12 --output results/device.json
    python benchmarks/guards/mutation.py --module sums/fused.py --report --output results/device.json

Each fault gets a process of its own, which loads the changed kernels and compares their sums with
those of the processor, as `tests/sums/test_fused.py` does. One without a fault goes first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import mutation

KERNELS = "sums/fused.py"
LONGEST = 240.0  # seconds of a process


def compare(path: Path) -> None:
    """Compare the sums of the kernels in a file with those of the processor."""
    sys.path[:0] = [str(mutation.ROOT / "tests"), str(mutation.ROOT / "tests" / "sums")]
    name = "hushcov." + KERNELS.removesuffix(".py").replace("/", ".")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import test_fused

    from hushcov.sums import device

    assert device.fused is module
    assert module.works("cuda:0")
    for n, d in test_fused.SIZES:
        for gaps in (False, True):
            print(f"{n} x {d}, gaps {gaps}", flush=True)
            test_fused.check_same(n, d, "cuda", gaps=gaps)
    print("same", flush=True)


def try_fault(source: bytes) -> str | None:
    """Return the comparison that finds changed kernels, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fused.py"
        path.write_bytes(source)
        command = [sys.executable, __file__, "--compare", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            return "does not end"
    said = done.stdout.split("\n")
    return None if "same" in said else ([each for each in said if each] or [mutation.LOADING])[-1]


def main() -> None:
    """Try every fault, several at a time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time")
    parser.add_argument("--sample", type=int, help="try so many, of every kind")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--compare", type=Path, help="compare the kernels of a file alone")
    parser.add_argument("--output", type=Path, default=mutation.ROOT / "results" / "device.json")
    options = parser.parse_args()
    if options.compare:
        compare(options.compare)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if by := try_fault((mutation.SOURCE / KERNELS).read_bytes()):
        raise SystemExit(f"kernels without a fault fail: {by}")
    known = {each["name"] for each in mutation.results_of(options.output)}
    faults = mutation.sampled(mutation.faults_of(KERNELS), options.sample, options.seed)
    faults = [each for each in faults if each.name not in known]

    def tried(fault: mutation.Fault) -> dict[str, object]:
        start, by = time.time(), try_fault(fault.planted())
        tier = mutation.PRIVACY if by else mutation.NONE
        more = {"name": fault.name, "tier": tier, "by": by, "seconds": round(time.time() - start)}
        return asdict(fault) | more

    with ThreadPoolExecutor(options.jobs) as pool, options.output.open("a") as file:
        for number, found in enumerate(pool.map(tried, faults), 1):
            file.write(json.dumps(found) + "\n")
            file.flush()
            print(f"{number}/{len(faults)} {found['tier']:8} {found['name']}", flush=True)


if __name__ == "__main__":
    main()
