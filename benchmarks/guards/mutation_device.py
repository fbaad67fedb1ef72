"""Plant the faults of `mutation.py` in the kernels of a GPU, and see which are found; needs a GPU.

    python benchmarks/guards/mutation_device.py --jobs 12 --output results/device.json
    python benchmarks/guards/mutation_device.py --report --output results/device.json

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

KERNELS = "engines/fused.py"
LONGEST = 240.0  # seconds of a process
#: Faults that change no sum: part of the line, what is planted ("" for anything), and why.
EXPLAINED = (
    ("_ROUNDING = tl.constexpr(1.5", "1.35", "in the same octave: the same rounding"),
    ("_PLAIN, _FOURTHS, _SQUARES", "(-1)", "neither of the other kinds"),
    ("_PAIRS, _STEPS = 16, 128, 16, 8", "7", "programs that have nothing to do"),
    *(("_COUNTED = 2**16, 2**22", new, "how many records are held") for new in ("*", "17", "15")),
    ("_COUNTED = 2**16, 2**22", "21", "how many records are counted at a time"),
    *((text, "", "whether kernels work is tried, in one way or another") for text in (
        "rows = torch.ones((1, 1)", "return bool(compact(rows",
    )),
    *((text, new, "programs that have nothing to do") for text, new in (
        ("triton.cdiv(n, 64), triton.cdiv(d, 32)", "31"),
        ("triton.cdiv(n, 64), triton.cdiv(d, 32)", "63"),
        ("grid = triton.cdiv(size, 128)", "127"), ("grid = triton.cdiv(size, 128)", "15"),
        ("if size and len(block) else ()", "or"),
        ("triton.cdiv(part.n, _RECORDS * _STEPS)", "_RECORDS"),
        ("cells = shape[0] // 32", "255"), ("cells = shape[0] // 32", "-(-(shape[0]) // (32))"),
        ("cells = triton.cdiv(n_pairs, 64", "64"), ("cells = triton.cdiv(n_pairs, 64", "63"),
        ("n_pairs, pairs, 64, **tile)", "65"),
    )),
    *((text, new, "loaded, and then left out") for text, news in (
        ("place = tl.load(columns + j", ("<=", "1", "(-1)")), ("middle = tl.load(", ("<=",)),
        ("least = tl.load(", ("<=",)), ("start = tl.load(", ("<=",)), ("first = tl.load(", ("<=",)),
        ("width = tl.load(", ("<=", "1.1", "0.9")), ("inside = (j < d)[:, None]", ("<=",)),
        ("q = tl.load(rows", ("1", "(-1)")), ("y = q.to(tl.float64)", ("<=",)),
        ("y = y - tl.load(centre + j, j < d", ("<=",)), ("most = tl.load(reach + j", ("<=",)),
        ("a = tl.load(left + e", ("1", "(-1)")), ("b = tl.load(right + e", ("1", "(-1)")),
        ("inside = own[:, None] & (i < width)", ("<=",)), ("tl.load(y + a, ", ("1", "(-1)")),
    ) for new in news),
    *((text, "<=", "adds 0") for text in (
        "tl.atomic_add(signs + j", "tl.atomic_add(square + i", "tl.atomic_add(total + e",
    )),
    ("tl.where(y > 0, _OCTAVES, 0)", ">=", "0 is near the centre, in no octave"),
    ("self._filled(([1.0] * self.d, 1.0)", "", "signs do not depend on a grid"),
    ("rows.sums(([0.0] * rows.d, 1.0)", "", "signs do not depend on a grid"),
    ("shape = triton.cdiv(self.d, 32) * 32", "31", "more zeros at the end"),
    ("first, last = start // 32 * 32", "33", "more rows than are needed"),
    ("(mantissa >= ROOT_HALF)", ">", "one bin or the next"),
    ("bins.clamp_(max=N_NORM_BINS - 1)", "+", "squares are below 2^53, in the last bin"),
    ("bins.clamp_(max=N_NORM_BINS - 1)", "0", "squares are below 2^53, in the last bin"),
    ("torch.where(factor < 1.0", "<=", "the share of 1 is all"),
    ("torch.where(factor < 1.0", "1.1", "the share of 1 is all"),
)  # fmt: skip
mutation.EXPLAINED += tuple((KERNELS, *each) for each in EXPLAINED)


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

    assert module.works("cuda:0")
    for n, d in test_fused.SIZES:
        for gaps in (False, True):
            print(f"{n} x {d}, gaps {gaps}", flush=True)
            test_fused.check_same(n, d, "cuda", gaps=gaps)
    print("panels, guards", flush=True)
    test_fused.check_panels(module)
    test_fused.check_long_blocks(module)
    test_fused.check_guards(module)
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
    parser.add_argument("--again", action="store_true", help="try once more what was not found")
    parser.add_argument("--report", action="store_true", help="print the table of --output alone")
    parser.add_argument("--compare", type=Path, help="compare the kernels of a file alone")
    parser.add_argument("--output", type=Path, default=mutation.ROOT / "results" / "device.json")
    options = parser.parse_args()
    if options.compare:
        compare(options.compare)
        return
    if options.report:
        found = mutation.results_of(options.output)
        print(mutation.report(mutation.faults_of(KERNELS), found))
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    if by := try_fault((mutation.SOURCE / KERNELS).read_bytes()):
        raise SystemExit(f"kernels without a fault fail: {by}")
    results = mutation.results_of(options.output)
    known = {e["name"] for e in results if not options.again or e["tier"] != mutation.NONE}
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
