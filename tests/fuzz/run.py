"""Run many hostile cases: `python -m tests.fuzz.run --cases 100000` from the repository root."""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import track

from .cases import KINDS, Finding, run_case


def main() -> int:
    """Run, show progress, and sum up; the exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", choices=tuple(KINDS), action="append")
    asked = parser.parse_args()
    kinds = asked.kind or list(KINDS)
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    found: dict[str, list[str]] = {}
    numbers, console = range(asked.start, asked.start + asked.cases), Console(stderr=True)
    with tempfile.TemporaryDirectory() as place:
        for number in track(numbers, "cases", console=console, disable=not console.is_terminal):
            kind = kinds[number % len(kinds)]
            try:
                outcomes[kind][run_case(kind, number, Path(place) / "case")] += 1
            except Finding as finding:
                outcomes[kind]["FOUND"] += 1
                cause = str(finding).strip().splitlines()[-1][:160]
                found.setdefault(cause, []).append(f"{kind} {number}")
                if len(found[cause]) == 1:
                    print(f"\n=== {kind} {number}\n{finding}", flush=True)
    print(json.dumps({"outcomes": outcomes, "found": found}, indent=1))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
