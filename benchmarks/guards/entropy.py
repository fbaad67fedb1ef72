"""Draws a minute from the secure source, by every exact sampler that a private release uses.

    python benchmarks/guards/entropy.py --output results/entropy.json

The aim is 1e8 binomials and 1e8 Gumbel comparisons a minute. Binomials are drawn by inversion
(mean below 10) and by rejection (above); a Gumbel top set counts its items; rounded normals are
those of the Gaussian releases. The raw words of the cipher are measured beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hushcov import __version__
from hushcov.kernel.noise import entropy_source, gumbel_top, rounded_normal
from hushcov.paper.samplers import binomial

AIM = 1e8  # draws a minute


def draws(size: int) -> dict[str, Callable[[], object]]:
    """What is measured; every call draws `size` times from one private source."""
    generator = entropy_source().generator

    def binomials(count: int, mean: float) -> Callable[[], object]:
        success = np.full(size, mean / count)
        return lambda: binomial(generator, np.full(size, count), success, 1 - success)

    scores = np.arange(size, dtype=np.int64) % 1000
    return {
        "words": lambda: generator.integers(0, 2**64, size=size, dtype=np.uint64),
        "binomial, inversion, mean 1": binomials(10**6, 1.0),
        "binomial, inversion, mean 9": binomials(10**6, 9.0),
        "binomial, rejection, mean 1e3": binomials(10**6, 1e3),
        "binomial, rejection, mean 1e12": binomials(10**13, 1e12),
        "Gumbel top 1 % of the items": lambda: gumbel_top(generator, scores, 0.01, size // 100),
        "rounded normal": lambda: rounded_normal(generator, 10**6, size),
    }


def per_minute(draw: Callable[[], object], size: int, repeats: int) -> float:
    draw()  # loads the compiled code
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        draw()
        seconds.append(time.perf_counter() - start)
    return 60 * size / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/entropy.json"))
    arguments = parser.parse_args()
    rates = {}
    for name, draw in draws(arguments.size).items():
        rates[name] = per_minute(draw, arguments.size, arguments.repeats)
        print(f"{name:32s} {rates[name]:.2g} a minute, {rates[name] / AIM:.1f} times the aim")
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "hushcov": __version__}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine, "size": arguments.size, "per_minute": rates}
    arguments.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
