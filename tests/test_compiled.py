"""What is made or loaded when it is first used, and not before."""

import ast
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile

from hushcov import _compiled
from hushcov.kernel.sums import products

HEAVY = ("numba", "scipy.optimize", "tomllib")
NOT_FOR_PLANS = ("sklearn", "pandas", "pyarrow", "matplotlib", "jinja2", "torch", "dask")


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_no_compiler_is_loaded_before_a_fit():
    assert "numba" not in loaded("from hushcov import PrivateSparseCovariance")
    for command in ("plan", "show"):
        found = loaded(f"import hushcov.cli.{command}")
        assert found.isdisjoint({*HEAVY, *NOT_FOR_PLANS}), command
    code = (
        "from hushcov.fit import Request, forecast_families\n"
        "request = Request(row_sparsity=5, epsilon=1.0, delta=1e-6)\n"
        "forecast_families(request.inputs(10_000, 50))"
    )
    assert loaded(code).isdisjoint({*HEAVY, *NOT_FOR_PLANS})
    code = (
        "from hushcov.fit import Request, forecast\n"
        "inputs = Request(row_sparsity=5, epsilon=1.0, delta=1e-6).inputs(10**6, 50)\n"
        "forecast(inputs, 'multiscale', rough=True)"
    )
    assert loaded(code).isdisjoint({*HEAVY, *NOT_FOR_PLANS})


def test_functions_that_call_others_work_and_are_pickled_by_name():
    lanes, inside = np.array([1, 2, 3, 4], dtype=np.int16), np.ones(2)
    products._slide(lanes, 1, 1.0, inside)  # calls _product
    np.testing.assert_array_equal(inside, [10.0, 17.0])
    assert pickle.loads(pickle.dumps(products._slide)) is products._slide
    assert products._slide.__doc__ is not None


@pytest.mark.parametrize("workers", [None, 1, 3, 20])
def test_parts_are_done_once_each_and_their_results_are_in_order(workers):
    for number in (0, 1, 2, 7, 50):
        done = []
        jobs = [(k, done) for k in range(number)]
        found = _compiled.run_parts(lambda k, own: own.append(k) or k**2, jobs, workers)
        assert found == [k**2 for k in range(number)]
        assert sorted(done) == list(range(number))
    with pytest.raises(ZeroDivisionError):
        _compiled.run_parts(lambda k: 1 // k, [(1,), (0,), (2,)], workers)


def a_kernel(values):
    return values.sum()


def saved_in_between(monkeypatch, first, second):
    """What the cache has for two types, of which one was saved while the other was being saved."""
    read_index, todo = IndexDataCacheFile._load_index, [lambda: second.save("floats", "of floats")]

    def and_then_another(self):
        found = read_index(self)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", and_then_another)
    first.save("integers", "of integers")
    return {types: first.load(types) for types in ("floats", "integers")}


def caches(monkeypatch, folder):
    """Two processes' views of one cache, as numba has it and as kernels have it."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(folder))
    made = [_compiled.compiled(a_kernel).made()._cache for _ in range(2)]
    stamp, name = made[0]._impl.locator.get_source_stamp(), made[0]._impl.filename_base
    plain = [IndexDataCacheFile(made[0].cache_path, name, stamp) for _ in range(2)]
    return plain, [each._cache_file for each in made]


def test_processes_that_compile_for_two_types_at_once_share_a_cache(monkeypatch, tmp_path):
    _, ours = caches(monkeypatch, tmp_path)
    assert ours[0].load("integers") is None
    found = saved_in_between(monkeypatch, *ours)
    assert found == {"floats": "of floats", "integers": "of integers"}


def test_without_files_for_each_types_one_gets_the_code_of_another(monkeypatch, tmp_path):
    plain, _ = caches(monkeypatch, tmp_path)
    found = saved_in_between(monkeypatch, *plain)
    assert found != {"floats": "of floats", "integers": "of integers"}


def test_what_was_compiled_is_found_again(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    for hits in (0, 1):
        made = _compiled.compiled(a_kernel).made()
        assert made(np.arange(4)) == 6
        assert sum(made.stats.cache_hits.values()) == hits
    assert made(np.arange(4.0)) == 6
    assert sum(made.stats.cache_hits.values()) == 1


PACKAGES = ("kernel.noise", "kernel.accounting", "postprocess", "release")
LATER = (
    "kernel.noise.laplace",
    "kernel.accounting.ledger",
    *("tables.files", "tables.formats", "tables.cluster", "engines.device"),
    *("release.files", "release.schema", "release.signature"),
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = import_module(f"hushcov.{package}")
    nodes = ast.walk(ast.parse(Path(module.__file__).read_text()))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = [each.name for node in imports for each in node.names]
    assert all(getattr(module, name) is not None for name in names)


@pytest.mark.parametrize("package", ["kernel.noise", "release"])
def test_other_names_are_not(package):
    module = import_module(f"hushcov.{package}")
    with pytest.raises(AttributeError, match=rf"'hushcov\.{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_what_is_rarely_needed_is_not_loaded():
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, {', '.join(f'hushcov.{package}' for package in PACKAGES)}\n"
            "print(*(name for name in sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "hushcov.postprocess.matrices" in loaded
    assert not {f"hushcov.{name}" for name in LATER} & set(loaded)
    assert not {"torch", "dask", "pyarrow", "sqlite3", "cryptography"} & set(loaded)
