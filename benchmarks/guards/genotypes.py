"""Time of sums over windows of genotypes in a `.bed` file, over reading the file.

    python benchmarks/guards/genotypes.py --records 100000 --variants 40000 --width 20

Writes linked genotypes, reads the file alone, then streams it with all sums that a release needs
(counts, norms, products; no noise), in turn and from the disk each time. With `--exponents` also
the processor time of the kernels against records, variants and width, with fitted exponents. With
`--write PATH` it only writes a file: 25 GB for 100,000 records and 1,000,000 variants. All files
are deleted at the end but that one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from hushcov_genotypes.reading import GenotypeRecords, open_genotypes, write_packed, write_tables

BLOCK = 1000
READ_BYTES = 2**24
REPEATS = 3
EVEN, ODD = np.uint64(0x5555555555555555), np.uint64(0xAAAAAAAAAAAAAAAA)
SLOPE, OFFSET, WEIGHTS = 90, 80, (2, 1, 0)
SIZES = {
    "records": [12_800, 25_600, 51_200, 102_400],
    "variants": [1_000, 2_000, 4_000, 8_000],
    "width": [10, 20, 40, 80],
}


def main() -> None:
    arguments = parse_arguments()
    n, d, w = arguments.records, arguments.variants, arguments.width
    if arguments.write:
        write(arguments.write, n, d, arguments.missing)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder, "linked.bed")
        write(path, n, d, arguments.missing)
        result = measure(path, w)
        if arguments.exponents:
            result["exponents"] = exponents(path, arguments)
    result["peak_MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--variants", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=20)
    parser.add_argument("--missing", action="store_true", help="one call in 128 is missing")
    parser.add_argument("--exponents", action="store_true")
    parser.add_argument("--folder", help="where files are written; the system's own if left out")
    parser.add_argument("--write", type=Path, help="write this .bed file and do nothing else")
    parser.add_argument("--output", type=Path, default=Path("results/genotypes.json"))
    return parser.parse_args()


def write(path: Path, n: int, d: int, missing: bool = False) -> None:
    """A file of linked genotypes; all that is written was packed from the start."""
    write_packed(path, packed(n, d, missing, np.random.default_rng(0)))
    write_tables(path, n, d)


def packed(
    n: int, d: int, missing: bool, generator: np.random.Generator
) -> Iterator[np.ndarray[tuple[int, int], np.dtype[np.uint8]]]:
    """Blocks of variants, 64 records at a time in the bits of words.

    Of each of a person's two haplotypes an allele is the one before it (3 in 4), or a new one, of
    frequency 1/2, 1/4 or 1/8.
    """
    words = -(-n // 64)

    def bits(*shape: int) -> np.ndarray:
        return generator.integers(0, 2**64, (*shape, words), dtype=np.uint64)

    allele = bits(2)
    for start in range(0, d, 64):
        out = np.empty((min(64, d - start), words, 2), dtype=np.uint64)
        for row in out:
            new = bits(2)
            for _ in range(generator.integers(3)):
                new &= bits(2)
            stays = bits(2) | bits(2)
            allele = (allele & stays) | (new & ~stays)
            low, high = ~(allele[0] | allele[1]), ~(allele[0] & allele[1])
            if missing:
                lost = np.bitwise_and.reduce(bits(7))
                low, high = low | lost, high & ~lost
            row[:, 0] = (low & EVEN) | ((high & EVEN) << np.uint64(1))
            row[:, 1] = ((low & ODD) >> np.uint64(1)) | (high & ODD)
        yield out.reshape(len(out), -1).view(np.uint8)[:, : -(-n // 4)]


def measure(path: Path, width: int) -> dict[str, object]:
    records = open_genotypes(path)
    stream(open_genotypes(path), width, 50)  # compiled before it is timed
    reading, both, opening, busy = [], [], [], []
    for _ in range(REPEATS):
        forget(path)
        reading.append(seconds(lambda: read(path)))
        forget(path)
        start = time.process_time()
        both.append(seconds(lambda: stream(records, width)))
        busy.append(time.process_time() - start)
        opening.append(seconds(lambda: open_genotypes(path)))
    return {
        "benchmark": "genotypes",
        "n_records": records.n_records,
        "n_features": records.n_features,
        "width": width,
        "bytes": path.stat().st_size,
        "reading_s": reading,
        "stream_s": both,
        "stream_cpu_s": busy,
        "opening_s": opening,
        "ratio": median(b / a for a, b in zip(reading, both, strict=True)),
        "kernel_cpu_us_per_variant": kernels(records, width),
    }


def forget(path: Path) -> None:
    """Let the system drop what it has of the file in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> None:
    room = bytearray(READ_BYTES)
    with path.open("rb", 0) as file:
        while file.readinto(room):
            pass


def stream(records: GenotypeRecords, width: int, blocks: int | None = None) -> None:
    """All sums that a release takes of each block."""
    for number, block in enumerate(records.blocks(BLOCK, width)):
        if number == blocks:
            return
        for action in actions(block, width).values():
            action()


def actions(block: object, width: int) -> dict[str, Callable[[], object]]:
    length = block.end - block.start
    slopes, offsets = np.full(length, SLOPE), np.full(length, OFFSET)
    ends = np.minimum(np.arange(block.start, block.stop) + width + 1, block.end)
    kept = np.ones(block.n_rows, dtype=bool)
    kept[::50] = False
    return {
        "counts": block.counts,
        "norms": lambda: block.squared_norms(slopes, offsets, ends, *WEIGHTS),
        "products": lambda: block.products(kept, slopes, offsets, ends),
    }


def kernels(records: GenotypeRecords, width: int) -> dict[str, float]:
    """Processor time of each kernel, in microseconds a variant: the least of some repeats."""
    block = next(records.blocks(BLOCK, width))
    found = {}
    for name, action in actions(block, width).items():
        action()
        least = min(seconds(action, time.process_time) for _ in range(REPEATS))
        found[name] = 1e6 * least / (block.stop - block.start)
    return found


def exponents(path: Path, arguments: argparse.Namespace) -> dict[str, object]:
    """Processor time of kernels against each size, and the slopes of their logarithms."""
    usual = {"records": arguments.records, "variants": 4000, "width": arguments.width}
    found: dict[str, object] = {}
    for name, sizes in SIZES.items():
        times = []
        for size in sizes:
            sizes_now = usual | {name: size}
            write(path, sizes_now["records"], sizes_now["variants"], arguments.missing)
            records = open_genotypes(path)
            stream(records, sizes_now["width"])
            times.append(
                min(
                    seconds(lambda r=records, s=sizes_now: stream(r, s["width"]), time.process_time)
                    for _ in range(REPEATS)
                )
            )
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        found[name] = {"sizes": sizes, "cpu_s": times, "exponent": round(slope, 2)}
    return found


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    call()
    return clock() - start


if __name__ == "__main__":
    main()
