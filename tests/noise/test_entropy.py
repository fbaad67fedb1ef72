"""Where random bits come from: none but those keyed by the system reach a private release.

The source code is searched here; `tests/estimators/test_entropy.py` watches whole fits.
"""

from __future__ import annotations

import ast
import copy
import os
import pickle
import re
import secrets
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from randomgen import ChaCha

import hushcov
from command_line import PATIENCE
from hushcov._validation import shown
from hushcov.exceptions import ParameterError, SeededNoiseWarning
from hushcov.kernel.noise import Entropy, check_entropy, entropy_source
from hushcov.kernel.noise.entropy import SecretChaCha
from hushcov.kernel.session import Session
from hushcov.paper.mechanism import release_multiscale
from project import PACKAGES

# RFC 8439, appendix A.1: (key, block number, start of the keystream), nonce zero.
CHACHA20_VECTORS = [
    (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
]


@pytest.fixture(autouse=True)
def _keys_of_the_system(monkeypatch):
    """Not the fixed ones of conftest.py."""
    monkeypatch.setattr("hushcov.kernel.noise.entropy.secrets", secrets)


def test_the_default_is_private_and_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entropy = entropy_source()
        assert entropy_source(None).private is True
    assert entropy.private is True
    assert isinstance(entropy.generator, np.random.Generator)


@pytest.mark.parametrize("renewed", [False, True])
def test_the_default_is_chacha20_under_a_full_fresh_key(renewed):
    """Also the key that a forked child gets."""
    sources = [entropy_source().generator.bit_generator for _ in range(8)]
    for source in sources:
        if renewed:
            source.renew()
    assert all(isinstance(source, ChaCha) for source in sources)
    states = [ChaCha.state.__get__(source) for source in sources]  # what the source itself hides
    assert {state["state"]["rounds"] for state in states} == {20}
    keys = np.stack([state["state"]["keysetup"] for state in states])
    # Every 32-bit word of the key differs between sources: none is constant or zero.
    # Two words are equal by chance with probability 28 * 8 / 2^32 = 5e-8.
    assert all(len(set(word)) == len(states) for word in keys.T)


def test_the_global_seed_has_no_influence():
    """Legacy code that seeds NumPy must not make a release predictable."""
    streams = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        streams.append(entropy_source().generator.random(4))
    assert not np.array_equal(*streams)


@pytest.mark.parametrize(("key", "block", "keystream"), CHACHA20_VECTORS)
def test_the_generator_is_the_cipher_of_rfc_8439(key, block, keystream):
    source = ChaCha(key=int.from_bytes(key, "little"), rounds=20)
    stream = source.random_raw(8 * (block + 1)).astype("<u8").tobytes()
    assert stream[64 * block :][:32].hex() == keystream


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: 0, lambda: 12345678901234567890123, lambda: np.int64(3)),
        *(lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)),
    ],
    ids=["zero", "large", "numpy integer", "RandomState", "Generator"],
)
def test_a_seed_is_reproducible_and_marked_as_not_private(make):
    draws = []
    for _ in range(2):
        with pytest.warns(SeededNoiseWarning, match="NOT private"):
            entropy = entropy_source(make())
        assert entropy.private is False
        draws.append(entropy.generator.random(5))
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize(
    "bad", [-1, 1.0, "7", True, False, np.True_, (1, 2), np.array([1]), object], ids=repr
)
def test_other_values_are_refused(bad):
    with pytest.raises(ParameterError, match="random_state must") as info:
        entropy_source(bad)
    assert shown(bad) in str(info.value)


# No other generator reaches a private release, and no stream runs twice.


SOURCE = Path(hushcov.__file__).parent
PRIVATE = ("fit", "kernel", "engines", "tables", "estimators", "paper")
PRIVATE += ("hushcov_lab/peers", "hushcov_genotypes")
# The only place where a private release may get random bits.
ORIGIN = "kernel/noise/entropy.py"
# Random names of temporary folders and of sums, which are not noise.
NAMES_ONLY = ("release/files.py", "kernel/sums/statistics.py")
# These draw from seeds: simulated records, and predictions from public inputs. They see no data
# that has to be protected, and no noise of a private release comes from them.
# What is made of a release starts iterations, stands in for its noise, and is drawn from seeds.
SEEDED = ("simulate.py", "fit/reference.py", "postprocess/structure.py", "cli/", "paper/command.py")
SEEDED += ("hushcov_lab/audit/", "hushcov_lab/benchmark/", "hushcov_lab/rivals/")
SEEDED += ("answers/components.py", "answers/synthetic.py", "paper/verification/")
# Predictions of a mechanism lie in its `plan.py`; the code that releases does not import them.
PREDICTIONS = {"fit/gaussian/plan.py", "paper/plan.py"}
# What the private folders take from seeded modules that are not public planning.
TAKEN = {"SimulatedMoments"}

MODULES = {"random", "secrets", "uuid", "randomgen", "numpy.random"}
NAMES = {"default_rng", "RandomState", "urandom", "getrandom", "SeedSequence", "randomgen"}


def generators_made(tree):
    """Lines that import, name or call a source of random numbers; type hints are not counted."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            guilty = any(alias.name in MODULES for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            guilty = node.module in MODULES or bool(names & MODULES)
            guilty |= any(alias.name in NAMES for alias in node.names)
        elif isinstance(node, ast.Attribute):
            hint = ast.unparse(node) == "np.random.Generator" and id(node) not in called
            of_random = ast.unparse(node.value) in ("np.random", "numpy.random")
            guilty = not hint and (of_random or node.attr in NAMES)
        else:
            guilty = isinstance(node, ast.Name) and node.id in NAMES
        if guilty:
            yield node.lineno


def modules():
    """Modules of hushcov by their path in it, and those of other distributions with its name."""
    for package, folder in PACKAGES.items():
        root = folder if package == "hushcov" else folder.parent
        for path in sorted(folder.rglob("*.py")):
            yield path.relative_to(root).as_posix(), ast.parse(path.read_text())


def test_one_module_makes_the_generators_of_private_releases():
    made = {name: lines for name, tree in modules() if (lines := list(generators_made(tree)))}
    assert made.pop(ORIGIN)
    for name in (*NAMES_ONLY, *PREDICTIONS):
        assert made.pop(name)
    assert not [name for name in made if not name.startswith(SEEDED)]


@pytest.mark.parametrize("name", ["postprocess/structure.py", "answers/components.py"])
def test_what_is_made_of_a_release_draws_from_fixed_seeds(name):
    """The same numbers for everybody: nothing of the records, and no noise of a release."""
    tree = ast.parse((SOURCE / name).read_text())
    drawn = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    drawn = [node for node in drawn if ast.unparse(node.func) == "np.random.default_rng"]
    assert len(drawn) == len(list(generators_made(tree))) > 0  # there is no other source
    assert all(isinstance(node.args[0], ast.Constant) for node in drawn)


@pytest.mark.parametrize(
    "code",
    [
        *("import random", "import secrets as s", "from numpy import random"),
        *("from numpy.random import default_rng", "np.random.normal(3)", "numpy.random.seed(3)"),
        *("np.random.Generator(x)", "f = np.random.PCG64", "import os\nos.urandom(3)"),
        *("from os import urandom", "from randomgen import AESCounter"),
    ],
)
def test_the_search_finds_sources_and_no_type_hints(code):
    assert list(generators_made(ast.parse(code)))
    assert not list(generators_made(ast.parse("def f(g: np.random.Generator) -> None: g.random()")))


def test_private_code_takes_nothing_that_draws_from_seeded_modules():
    taken = {
        alias.name
        for name, tree in modules()
        if name.startswith(PRIVATE) and not name.startswith(SEEDED)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and re.match(r"hushcov\.simulate|hushcov_lab\.(?!peers)", node.module or "")
        for alias in node.names
    }
    assert taken == TAKEN


def test_what_releases_takes_nothing_from_predictions():
    """Planners, rooms and estimators do, and the packages that name what is in them."""
    seeded = {"hushcov." + name.removesuffix(".py").replace("/", ".") for name in PREDICTIONS}
    taking = {
        name
        for name, tree in modules()
        if name.startswith(PRIVATE) and not name.startswith(("estimators/", *PREDICTIONS))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in seeded
    }
    assert taking
    allowed = {"plan.py", "estimator.py", "fit_command.py"}
    assert {Path(name).name for name in taking} <= allowed


class Impostor:
    """Looks like private entropy, and draws from a seed."""

    generator, private = np.random.default_rng(0), True


class LoadedGenerator(np.random.Generator):
    """A generator with the right bits that may do with them what it likes."""


def tampered():
    entropy = entropy_source()
    object.__setattr__(entropy, "generator", np.random.default_rng(0))
    return entropy


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: np.random.default_rng(0), lambda: np.random.Generator(ChaCha(key=1, rounds=20))),
        *(lambda: np.random.Generator(np.random.PCG64()), lambda: np.random.RandomState(0)),
        *(lambda: LoadedGenerator(SecretChaCha()), lambda: None),
    ],
)
def test_no_other_generator_can_be_called_private(make):
    with pytest.raises(ParameterError, match=r"entropy_source\(None\)"):
        Entropy(make(), private=True)
    assert not Entropy(make(), private=False).private


@pytest.mark.parametrize("make", [Impostor, tampered, lambda: np.random.default_rng(0)])
def test_every_release_refuses_other_entropy(make):
    """Before any record is read: the parameters and records of some do not even exist."""
    for release in (
        lambda: check_entropy(make()),
        lambda: Session(None, None, make()),
        lambda: release_multiscale(None, None, make()),
    ):
        with pytest.raises(ParameterError, match="entropy"):
            release()


def test_a_private_stream_cannot_be_copied_set_or_read():
    entropy = entropy_source()
    source = entropy.generator.bit_generator
    for attempt in (
        *(lambda: pickle.dumps(entropy), lambda: copy.deepcopy(entropy), lambda: copy.copy(source)),
        *(lambda: source.seed(0), lambda: entropy.generator.spawn(2), lambda: SecretChaCha(key=0)),
    ):
        with pytest.raises(TypeError):
            attempt()
    with pytest.raises(AttributeError, match="secret"):
        _ = source.state
    with pytest.raises(AttributeError):
        source.state = ChaCha(key=0).state


FORK = """
import os
import numpy as np
from hushcov.kernel.noise import Entropy, entropy_source

def in_both(draw):
    reading, writing = os.pipe()
    child = os.fork()
    words = draw().tobytes()
    if child == 0:
        os.write(writing, words)
        os._exit(0)
    os.waitpid(child, 0)
    return words, os.read(reading, len(words))

secret = entropy_source().generator
secret.integers(2**32, dtype=np.uint32)  # also half a word that waits to be used
seeded = np.random.default_rng(0)
for generator in (secret, seeded):
    first, second = in_both(lambda: generator.integers(0, 2**64, 8, dtype=np.uint64))
    print(first == second, first[:8] == second[:8])
first, second = in_both(lambda: secret.integers(0, 2**32, 9, dtype=np.uint32))
print(first == second, first[:4] == second[:4])
"""


def test_a_forked_child_does_not_repeat_its_parent():
    """A seeded generator does, so the test would notice. Words of 32 bits agree once in 4e9."""
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    done = subprocess.run(
        [sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.split() == ["False", "False", "True", "True", "False", "False"]
