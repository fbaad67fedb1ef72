"""One hostile case of each kind, and the judgement of its outcome."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import random
import shutil
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner
from scipy import sparse

import hushcov
from hushcov.candidates import read_candidates
from hushcov.cli.main import EXIT_CODES, cli
from hushcov.exceptions import ForeignError, HushcovError
from hushcov.release import Release
from hushcov.tables.sources import open_records

from . import command_lines, values

ESTIMATORS = (
    hushcov.GaussianCovariance,
    hushcov.ScreenedCovariance,
    hushcov.PrivateSparseCovariance,
    hushcov.MultiscaleCovariance,
    hushcov.RowTopKCovariance,
    hushcov.PaceCovariance,
    hushcov.SeparateCovariance,
    hushcov.CoinPressCovariance,
    hushcov.EigenSamplingCovariance,
    hushcov.ThresholdedCovariance,
    hushcov.GenotypeCovariance,
)
USUAL: dict[str, tuple[object, ...]] = {
    "epsilon": (1.0, 0.1, 10),
    "delta": (1e-6, 0.01),
    "row_sparsity": (1, 2, 3),
    "feature_scale": (None, 1.0, [1.0, 2.0, 0.0]),
    "scale": (1.0, 10.0),
    "row_norm": (None, 1.0, 100.0),
    "threshold": (None, "auto", "universal", "adaptive", 0.1),
    "mechanism": ("auto", "screened", "gaussian-threshold", "gaussian"),
    "constants": ("theorem", "calibrated"),
    "method": ("gauss", "separate", "adaptive"),
    "n_steps": (1, 3),
    "n_rounds": (None, 2),
    "eigenvalue_bounds": (None, (0.5, 2.0)),
    "allocation": ("uniform", "adaptive"),
    "radius": (None, 4.0),
    "rule": ("hard", "soft", "scad", "adaptive_lasso"),
    "constant": (2.0, "cv"),
    "n_splits": (2, 5),
    "n_constants": (2, 41),
    "reconstruction": ("gate", "value"),
    "target_error": (0.25, 0.1),
    "failure_probability": (0.1, 0.01),
    "device": (None, "cpu"),
    "sparse_output": ("auto", True, False),
    "random_state": (None, 0),
    "ledger": (None, "ledger.db"),
    "dataset": (None, "patients"),
    "on_hopeless": ("raise", "warn"),
    "bounds": (None, {0: (0.0, 1.0)}),
    "transforms": (None, "log1p", {0: "square:1"}, "rank", "winsorise:0.01"),
    "on_large_delta": ("raise", "warn"),
    "on_invalid": ("missing", "raise"),
    "marginals": (None, 0.05),
    "neighbours": ("replace", "add-remove"),
    "estimand": ("rows", "unit-means"),
    "purpose": ("both", "covariance", "relations"),
    "target": (None, 0),
    "basis": (None, [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "max_rows_per_unit": (None, 3),
    "max_sample_weight": (None, 2.0),
    "bandwidth": (None, 1, "up-to:1"),
    "candidate_pairs": (None, [[0, 1]]),
    "window_bp": (None, 5),
    "frequencies": (None, [0.5, 0.1, 0.2]),
    "positions": (None, [1, 2, 9]),
    "chromosomes": (None, ["1", "1", "2"]),
}
FLAGS = ("positive_semidefinite", "assume_centered", "drop_nulls")
# What is tried with wild arrays; comparing all mechanisms would take longer.
_BOTH = {"assume_centered": (True, False)}
OPTIONS: dict[type, dict[str, tuple[object, ...]]] = {
    hushcov.PrivateSparseCovariance: {
        "mechanism": USUAL["mechanism"],
        "sparse_output": USUAL["sparse_output"],
        **_BOTH,
    },
    hushcov.MultiscaleCovariance: {"assume_centered": (True,)},
    hushcov.RowTopKCovariance: {**_BOTH, "feature_scale": (None, 1.0)},
    hushcov.PaceCovariance: {**_BOTH, "feature_scale": (None, 1.0)},
    hushcov.SeparateCovariance: {**_BOTH, "method": USUAL["method"], "feature_scale": (None, 1.0)},
    hushcov.CoinPressCovariance: {
        **_BOTH,
        "n_steps": USUAL["n_steps"],
        "eigenvalue_bounds": USUAL["eigenvalue_bounds"],
    },
    hushcov.EigenSamplingCovariance: {
        "assume_centered": (True,),
        "allocation": USUAL["allocation"],
        "feature_scale": (1.0, 1000.0),
    },
    hushcov.GenotypeCovariance: {"bandwidth": (0, 1, 5)},
    hushcov.ThresholdedCovariance: {
        "rule": USUAL["rule"],
        "threshold": ("universal", "adaptive"),
        "constant": USUAL["constant"],
        "n_splits": (2,),
        "assume_centered": (True, False),
    },
}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "row_sparsity": 2, "scale": 10.0}
BUDGET |= {"on_hopeless": "warn", "on_large_delta": "warn"}  # the rows are few, and are to be read
ROWS = np.array([[1234.56789, -0.00765432109, 1.0], [0.5, 1234567.89012, 2.0]] * 10)
LIMIT_S = 300  # no case is near it: whatever runs into it would run for ever


# Whose releases are damaged: they have guarantees and parameters of every kind.
STORED: dict[type, dict[str, Any]] = {
    hushcov.ScreenedCovariance: {},
    hushcov.RowTopKCovariance: {},
    hushcov.PaceCovariance: {},
    hushcov.SeparateCovariance: {"method": "adaptive"},
    hushcov.CoinPressCovariance: {"feature_scale": [1.0, 2.0, 3.0, 0.0]},
    hushcov.EigenSamplingCovariance: {"feature_scale": 1.0, "assume_centered": True},
    hushcov.PrivateSparseCovariance: {},
    hushcov.GaussianCovariance: {"bandwidth": 2},
    hushcov.GenotypeCovariance: {"bandwidth": 2, "positions": [1, 5, 7, 9]},
}


class Finding(Exception):
    """An outcome that is neither a valid release nor a typed error that quotes no data."""


def judged(work: Callable[[], Any]) -> str:
    """Run, and return 'released' or the type of the refusal; anything else is a finding."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
            outcome = "released"
        except HushcovError as error:
            for text in messages(error):
                quotes_nothing(text)
            if isinstance(error, ForeignError):  # foreseen by nobody
                raise Finding(str(error)) from None
            outcome = type(error).__name__
        except Finding:
            raise
        except Exception as error:
            raise Finding("".join(traceback.format_exception(error)[-6:])) from None
    for warning in caught:
        quotes_nothing(str(warning.message))
        if not warning.category.__module__.startswith("hushcov"):
            where = f"{warning.filename}:{warning.lineno}"
            raise Finding(f"{warning.category.__name__} at {where}: {warning.message}")
    return outcome


def messages(error: BaseException) -> Iterator[str]:
    """All that an error says or holds: what led to it, shown or not, and what a pickle brings."""
    try:
        pickled = pickle.dumps(error)
    except Exception:
        raise Finding(f"cannot be pickled: a {type(error).__name__}") from None
    yield pickled.decode("latin-1")
    waiting, seen = [error, pickle.loads(pickled)], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield from map(str, (found, *found.args, *vars(found).items()))  # notes are in vars
            waiting += _errors_behind(found)


def _errors_behind(error: BaseException) -> list[BaseException]:
    """Errors that led to this one, and those in the variables of functions that it ended."""
    held = [error.__cause__, error.__context__, *error.args, *vars(error).values()]
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("hushcov"):
            held += trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    return [each for each in held if isinstance(each, BaseException)]


def quotes_nothing(text: str) -> None:
    for marker in values.MARKERS:
        if marker in text:
            raise Finding(f"data is quoted: {text[:300]}")


@contextmanager
def bounded() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(*_: object) -> None:
        raise Finding(f"hangs: no end after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fitted(estimator: Any, folder: Path) -> None:
    """A fit holds a covariance, and its release if it is a private one."""
    covariance = estimator.covariance_
    if sparse.issparse(covariance):
        covariance = covariance.toarray()
    if not np.isfinite(covariance).all() or not np.array_equal(covariance, covariance.T):
        raise Finding("a covariance is not finite or not symmetric")
    if isinstance(estimator, hushcov.ThresholdedCovariance):
        if hasattr(estimator, "release_"):
            raise Finding("a release without privacy")
        return
    sound(estimator.release_, folder)


def sound(release: Release, folder: Path) -> None:
    shutil.rmtree(folder / "out", ignore_errors=True)
    if Release.read(release.write(folder / "out")) != release:
        raise Finding("a release reads back differently")


def fit_array(rng: random.Random, folder: Path) -> str:
    kind = rng.choice(ESTIMATORS)
    X = values.source(rng, folder)

    def work() -> None:
        fitted(kind(**_budget(kind), **_options(kind, rng)).fit(X), folder)

    return judged(work)


def fit_parameters(rng: random.Random, folder: Path) -> str:
    kind = rng.choice(ESTIMATORS)
    # Its own options count double: most of the others are checked by code that all share.
    names = [*inspect.signature(kind).parameters, *OPTIONS.get(kind, ())]
    chosen = _budget(kind) | _options(kind, rng)
    for name in rng.sample(names, rng.choice((1, 1, 1, 2, 3))):
        usual = (True, False) if name in FLAGS else USUAL[name]
        chosen[name] = values.parameter(rng, usual)
    if isinstance(chosen.get("ledger"), str | Path):
        chosen["ledger"] = folder / "ledger.db"
    mechanism = chosen.get("mechanism")
    if isinstance(mechanism, str) and mechanism == "auto" and rng.random() < 0.9:
        chosen["mechanism"] = "gaussian"  # comparing all mechanisms takes longer

    def work() -> None:
        estimator = kind(**chosen)
        how = rng.randrange(8)
        if how == 0 and hasattr(estimator, "_public_inputs"):
            estimator._public_inputs(values.parameter(rng, (50,)), values.parameter(rng, (3,)))
            return
        estimator.fit(ROWS)
        if how == 1 and hasattr(estimator, "covariance_interval"):
            estimator.covariance_interval(values.parameter(rng, (0.9,)))
        elif how == 2 and hasattr(estimator, "labelled_covariance"):
            estimator.labelled_covariance(values.parameter(rng, ("pandas",)))
        else:
            fitted(estimator, folder)

    return judged(work)


def _budget(kind: type) -> dict[str, Any]:
    return {name: BUDGET[name] for name in inspect.signature(kind).parameters if name in BUDGET}


def _options(kind: type, rng: random.Random) -> dict[str, Any]:
    return {name: rng.choice(choices) for name, choices in OPTIONS.get(kind, {}).items()}


def read_npy(rng: random.Random, folder: Path) -> str:
    """Wild `.npy` files."""
    path = folder / "x.npy"
    path.write_bytes(npy_bytes(rng))

    def work() -> None:
        records = open_records(path)
        if records.n_records * records.n_features > 10_000 or records.n_features > 30:
            records.map_sum(lambda block: np.zeros(0, dtype=np.int64))
            return
        sound(
            hushcov.GaussianCovariance(**_budget(hushcov.GaussianCovariance)).fit(path).release_,
            folder,
        )

    return judged(work)


def npy_bytes(rng: random.Random) -> bytes:
    """A `.npy` file, most often damaged."""
    file, rows = BytesIO(), np.asarray(values.array(rng) if rng.random() < 0.5 else ROWS)
    if rows.dtype.kind == "O":
        with suppress(Exception):
            np.save(file, np.array([[1234.56789, values.TEXT]], dtype=object), allow_pickle=True)
    else:
        np.save(file, rows)
    content = file.getvalue()
    how = rng.randrange(8)
    if how == 0:
        return content
    if how == 1:
        return pickle.dumps(ROWS)
    if how == 2:
        shape = rng.choice(
            ["(9999999999, 9999999999)", "(-1, 3)", "(20, 4)", "(60, 1)", "(1e9, 3)"]
        )
        return content.replace(b"(20, 3)", shape.encode(), 1)
    if how == 3:
        dtype = rng.choice(["|O", "<f2", "<i8", "<M8[s]", "<U2", "<c16", "|V8", ">f8", "<f16"])
        return content.replace(b"<f8", dtype.encode(), 1)
    return values.mutated(rng, content)


@cache
def _stored(kind: type) -> dict[str, bytes]:
    import tempfile

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        rows = np.random.default_rng(0).normal(size=(6_000, 4))
        rows[:, 1] += rows[:, 0]  # so that something is found, and what is found is read
        if kind is hushcov.GenotypeCovariance:
            rows = np.random.default_rng(0).integers(0, 3, size=(6_000, 4))
        estimator = kind(**_budget(kind), **STORED[kind], random_state=0)
        release = replace(estimator.fit(rows).release_, column_names=tuple("abcd"))
        folder = release.write(Path(place) / "a")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def read_folder(rng: random.Random, folder: Path) -> str:
    stored = _stored(rng.choice(list(STORED)))
    files, place = dict(stored), folder / "release"
    place.mkdir()
    if rng.random() < 0.5:
        name = rng.choice(sorted(files))
        files[name] = values.mutated(rng, files[name])
    else:
        _forge(rng, files)
    if rng.random() < 0.05:
        del files[rng.choice(sorted(files))]
    for name, content in files.items():
        (place / name).write_bytes(content)
    if rng.random() < 0.05:
        _odd_entry(rng, place / rng.choice(sorted(stored)))

    def work() -> None:
        found = Release.read(place)
        with np.errstate(all="ignore"):
            found.covariance()
        str(found.guarantee)
        sound(found, folder)

    outcome = judged(work)
    expected = (0,) if outcome == "released" else (1, 6)
    export = ["export", "--to", "csv", "-o", "exported"]
    command = rng.choice((["show"], ["show", "--json"], ["report", "-o", "page.html"], export))
    code = _command([command[0], "release", *command[1:]], folder)
    if code not in expected:
        raise Finding(f"{command[0]} answers {code} to {outcome}")
    of_one = [["regression", "a"], ["logistic", "a"], ["predict", "a"]]
    question = rng.choice((["components"], ["partial"], *of_one))
    given = ["--given", "b=1"] if question[0] == "predict" else []
    code = _command(["ask", question[0], "release", *question[1:], *given], folder)
    if outcome != "released" and code not in expected:
        raise Finding(f"ask {question[0]} answers {code} to {outcome}")
    return outcome


def read_settings(rng: random.Random, folder: Path) -> str:
    (folder / "settings.toml").write_bytes(values.toml(rng))
    np.save(folder / "y.npy", ROWS)
    command = rng.choice((["fit", "--dry-run"], ["start", "--yes"]))
    return f"exit {_command([*command, '--settings', 'settings.toml'], folder)}"


def read_pairs(rng: random.Random, folder: Path) -> str:
    path = values.pairs_file(rng, folder / "pairs")
    names = rng.choice((None, ("a", "b", "c"), ("0", "1", "x")))
    return judged(lambda: read_candidates(3, candidate_pairs=path, names=names))


def _odd_entry(rng: random.Random, path: Path) -> None:
    path.unlink(missing_ok=True)
    make = rng.choice((lambda: path.symlink_to(path.name), path.mkdir, lambda: os.mkfifo(path)))
    make()


def _forge(rng: random.Random, files: dict[str, bytes]) -> None:
    about = json.loads(files["release.json"])
    how = rng.random()
    if how < 0.5:
        _change_one(rng, about)
    elif how < 0.6:
        content = values.mutated(rng, files["integers.npy"])
        files["integers.npy"] = content
        digest = hashlib.sha256(content).hexdigest()
        about["files"]["integers.npy"] = {"bytes": len(content), "sha256": digest}
    else:
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change_somewhere(rng, about)
    text = values.json_text(about).encode()
    if rng.random() < 0.1:
        text = values.mutated(rng, text)
    files["release.json"] = text
    files["release.sha256"] = f"{hashlib.sha256(text).hexdigest()}  release.json\n".encode()


def _change_one(rng: random.Random, node: Any) -> None:
    """Replace one number or text by a wild one: most checks of form let it through."""
    node = node[rng.choice(("parameters", "making", "guarantee", "feature_scale", "noise_sd"))]
    while isinstance(node, dict | list) and node:
        parent, key = node, rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node = parent[key]
    if node is not None and not isinstance(node, bool | dict | list):
        wild = values.json_number(rng) if isinstance(node, int | float) else values.json_value(rng)
        parent[key] = wild if rng.random() < 0.8 else "x"


def _change_somewhere(rng: random.Random, node: Any) -> None:
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        how = rng.randrange(6)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, dict):
            node[rng.choice(("more", "", "type", "epsilon"))] = values.json_value(rng)
        elif how == 1:
            node.append(values.json_value(rng))
        else:
            node[key] = values.json_value(rng)
        return


def command_line(rng: random.Random, folder: Path) -> str:
    (folder / "x.npy").write_bytes(npy_bytes(rng))
    np.save(folder / "y.npy", ROWS)
    (folder / "folder").mkdir()
    (folder / "text").write_text(values.TEXT)
    arguments = command_lines.arguments(rng)
    try:
        return f"exit {_command(arguments, folder)}"
    except Finding as finding:
        raise Finding(f"hushcov {' '.join(map(repr, arguments))}\n{finding}") from None


def _command(arguments: list[str], folder: Path) -> int:
    """Run in process, in this folder; the exit code must be documented and nothing quoted."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            result = CliRunner().invoke(cli, arguments, prog_name="hushcov")
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if isinstance(result.exception, Finding):
            raise result.exception
        raise Finding("".join(traceback.format_exception(result.exception)[-6:]))
    if result.exit_code not in EXIT_CODES or "Traceback" in result.output:
        raise Finding(f"exit code {result.exit_code}: {result.output[-300:]}")
    errors = [line for line in result.stderr.splitlines() if line.startswith("hushcov: error: ")]
    if result.exit_code not in (0, 1) and len(errors) != 1:
        raise Finding(f"exit code {result.exit_code} without one line: {result.stderr[-300:]}")
    quotes_nothing(result.output)
    return result.exit_code


KINDS: dict[str, Callable[[random.Random, Path], str]] = {
    "arrays": fit_array,
    "parameters": fit_parameters,
    "npy": read_npy,
    "folders": read_folder,
    "settings": read_settings,
    "pairs": read_pairs,
    "commands": command_line,
}


def run_case(kind: str, seed: int, folder: Path) -> str:
    """Run one case in an empty folder; the seed and the kind say all there is to know of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with bounded():
        return KINDS[kind](random.Random(f"{kind} {seed}"), folder)
