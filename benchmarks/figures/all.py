"""Draw every figure of the documentation again, at a small size.

    python benchmarks/figures/all.py                    # into build/figures; about ten minutes
    python benchmarks/figures/all.py --only sizes.png bands.png

Each line of `MAKERS` is a script or a command with the arguments of a small run, and what is
changed in the script where these do not make it small. `benchmarks/README.md` has the commands of
the figures that are in `docs/figures`. One that fails is named at the end, and the others are drawn
all the same. Pictures of reports need Chromium, and `ld-windows.png` the extra `examples`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from hushcov.cli.main import cli
from hushcov_lab.rivals.study import installed_studies

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Maker:
    """A command that draws, the names of its figures in docs/figures, and what to change in it.

    `files` are the names that it gives them, if they are others.
    """

    command: str
    figures: tuple[str, ...]
    change: str = ""
    files: tuple[str, ...] = ()

    def draw(self, folder: Path) -> None:
        """Run it in `folder`, and put its figures there by their names."""
        name, *arguments = shlex.split(self.command)
        if name == "hushcov":
            try:
                cli.main(arguments)
            except SystemExit as end:
                if end.code:
                    raise
        elif name.endswith(".ipynb"):
            self._draw_notebook(ROOT / name)
        else:
            module = _loaded(ROOT / name)
            exec(self.change, vars(module))
            sys.argv[1:] = arguments
            module.main()
        for figure, file in zip(self.figures, self.files or self.figures, strict=True):
            if file != figure:
                shutil.copy(folder / file, folder / figure)
            if not (folder / figure).exists():
                raise FileNotFoundError(f"{figure} was not drawn: see what was said above.")

    def _draw_notebook(self, path: Path) -> None:
        cells = json.loads(path.read_text())["cells"]
        codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        names: dict[str, object] = {}
        for code in codes[: codes.index("est.plot()")]:
            exec(code, names)
        exec(self.change, names)


def _loaded(path: Path) -> object:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


STUDIES = tuple(installed_studies())
MAKERS = (
    Maker("hushcov audit gaussian --runs 300 --figure audit.png", ("audit.png",)),
    Maker(
        "hushcov bench all -o bench",
        ("bench-error.png", *(f"rivals-{name}.png" for name in STUDIES)),
        files=("bench/error.png", *(f"bench/{name}.png" for name in STUDIES)),
    ),
    Maker(
        "benchmarks/figures/awkward.py --figure awkward.png",
        ("awkward.png",),
        "RELEASES = 1",
    ),
    Maker(
        "benchmarks/figures/bands.py --figure bands.png",
        ("bands.png",),
        "NORM_FEATURES, RUNS, DECAY_SIZE = (100, 1_000), 1, (60, 5_000)\n"
        "MIDDLE = dict(features=60, width=5, records=5_000)\n"
        "SWEEPS = dict(features=(30, 60, 120), width=(2, 5, 10), records=(2_500, 5_000, 10_000))",
    ),
    Maker(
        "benchmarks/figures/crossover.py --output crossover.json --figure crossover.png",
        ("crossover.png",),
        "PRESET, SEEDS = PRESETS['quick'], 1",
    ),
    Maker(
        "benchmarks/figures/report_pages.py --output . --releases reports --only health "
        "--only laboratory",
        ("report-health-desktop.png", "report-laboratory-desktop.png"),
    ),
    Maker(
        "benchmarks/figures/sizes.py --figure sizes.png",
        ("sizes.png",),
        "RECORDS, FEATURES, RELEASES = (1_000, 10_000), (5, 20, 50), 1",
    ),
    Maker(
        "benchmarks/figures/widths.py --figure widths.png",
        ("widths.png",),
        "RECORDS, FEATURES, RELEASES = (20_000, 50_000), (8, 16), 1",
    ),
    Maker(
        "benchmarks/studies/components.py --figures .",
        ("components.png", "partial-correlations.png"),
    ),
    Maker(
        "examples/gene_expression.py --records 20000 --figure example-gene-expression.png",
        ("example-gene-expression.png",),
    ),
    Maker(
        "examples/glucose.py --records 5000 --figure example-glucose.png",
        ("example-glucose.png",),
    ),
    Maker(
        "examples/ld.py --people 2000 --variants 200 --epsilon 1 3 --figures .",
        ("ld-windows.png",),
    ),
    Maker(
        "examples/survey.py --records 5000 --figure example-survey.png",
        ("example-survey.png",),
    ),
    Maker(
        "examples/tutorial.ipynb",
        ("tutorial.png",),
        "est.plot().savefig('tutorial.png', dpi=80)",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/figures"))
    known = [name for maker in MAKERS for name in maker.figures]
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="FIGURE")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    os.chdir(options.output)
    failed = []
    for maker in MAKERS:
        if not set(maker.figures) & set(options.only):
            continue
        started, names = time.perf_counter(), ", ".join(maker.figures)
        try:
            maker.draw(Path())
        except (Exception, SystemExit):
            traceback.print_exc()
            failed.append(names)
        print(f"{names}: {time.perf_counter() - started:.0f} s", flush=True)
    if failed:
        sys.exit(f"not drawn: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
