"""Contracts of the kernel that are not about imports: who draws, who spends, who sees records."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import hushcov
from project import PACKAGES

SOURCE = Path(hushcov.__file__).parent
#: Everything that others may import of the package that draws; samplers are not among it.
NO_DRAWS = {"Entropy", "check_entropy", "entropy_source"}
NO_DRAWS |= {"LARGEST_SIGMA", "LARGEST_SCORE", "TAKEN"}
DRAWS = {"rounded_normal", "symmetric_noise", "gumbel_top", "discrete_laplace", "random_words"}
#: Methods of a budget that spend it, and what it remembers.
SPENDS = {"gaussian", "fixed", "select"}
STATE = {"mu", "late", "rate", "part", "charges", "certificate", "_taken", "_fixed", "_started"}
#: The only functions that call samplers, or spend.
PLACES = {"measure_in_strips", "reserve", "reserve_selections", "count", "select"}
PLACES |= {"_charge", "_noised"}
#: Who may have the records of a session: the paper's slice, which draws for its own tests, and
#: estimators that go on with the records that were counted; of the lab, the one mechanism that
#: samples by a law of its own.
UNWRAPS = {"paper/plan.py", "estimators/scaled.py", "peers/eigen_sampling.py"}
#: Modules of the lab and of genotypes that draw or charge by themselves; this may only get shorter.
#: One published mechanism samples directions by a law of its own, attacks look at the noise itself,
#: and the rival of regressions has a proof of its own.
DRAWS_ELSEWHERE = {
    *(f"hushcov_lab/audit/{name}.py" for name in ("gaussian", "replay", "selection")),
    *(f"hushcov_lab/peers/{name}.py" for name in ("eigen_sampling", "normals")),
    "hushcov_lab/rivals/sufficient.py",
}
#: What a session keeps to itself, and is used by the kernel alone.
HIDDEN = {"_records", "_state", "_units", "_entropy", "_held", "_noised", "_hold", "_charge"}
#: What a reserve, of queries or of selections, keeps to itself.
PAID = {"_left", "_usual", "_session", "_eta", "_rate"}


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def name_of(function):
    return getattr(function, "id", getattr(function, "attr", ""))


def draws_or_spends(node):
    """Whether something is called like a sampler, by whatever way, or a budget is spent."""
    called = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    return any(name_of(each.func) in DRAWS or spends(each) for each in called)


def spends(call):
    """Whether a method of a budget is called; sessions and reserved selections are charged."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in SPENDS:
        return False
    # Columns of a table are selected, too, by one argument.
    selects = call.func.attr == "select" and len(call.args) < 2
    own = ast.unparse(call.func.value)
    return not selects and "session" not in own and "selections" not in own


def faults(tree):
    """What a module outside the kernel must not do, in words."""
    found = [f"{node.name} draws or spends" for node in functions(tree) if draws_or_spends(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hushcov.kernel"):
            taken = {alias.name for alias in node.names}
            found += [f"imports {name}" for name in taken & (DRAWS | {"noise"})]
            if node.module.startswith("hushcov.kernel.noise"):
                found += [f"imports {name}" for name in taken - NO_DRAWS]
        if isinstance(node, ast.Import):
            found += [f"imports {a.name}" for a in node.names if "kernel.noise" in a.name]
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = ast.unparse(node.value)
            if "budget" in own and node.attr in STATE:
                found.append(f"sets {own}.{node.attr}")
        if isinstance(node, ast.Attribute) and node.attr in HIDDEN:
            own = ast.unparse(node.value)
            found += [f"uses {own}.{node.attr}"] if "session" in own else []
        if isinstance(node, ast.Call) and name_of(node.func) in ("Reserve", "Selections"):
            found.append(f"makes a {name_of(node.func)}, which only a session charges for")
        if isinstance(node, ast.Attribute) and node.attr in PAID:
            own = ast.unparse(node)
            found += [f"uses {own}"] if "reserve" in own or "selections" in own else []
    return found


def modules(*apart):
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if not name.startswith(apart):
            yield name, ast.parse(path.read_text())


def test_nobody_else_draws_or_spends():
    """The paper's slice draws for its own tests, which a page of its own proves."""
    found = {name: said for name, tree in modules("kernel/", "paper/") if (said := faults(tree))}
    assert found == {}


def test_one_place_draws_and_spends():
    found = {}
    for name, tree in modules("kernel/noise/", "paper/"):
        guilty = {node.name for node in functions(tree) if draws_or_spends(node)}
        if guilty:
            found[name] = guilty
    assert found == {"kernel/session.py": PLACES}


def test_other_distributions_draw_where_it_is_known():
    found = {
        str(path.relative_to(folder.parent))
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
        if name != "hushcov" and faults(ast.parse(path.read_text()))
    }
    assert found == DRAWS_ELSEWHERE


@pytest.mark.parametrize(
    "code",
    [
        "from hushcov.kernel.noise import rounded_normal",
        "from hushcov.kernel.noise.normal import rounded_normal as some",
        "from hushcov.kernel.noise import normal",
        "from hushcov.kernel import noise",
        "import hushcov.kernel.noise.normal as n",
        "from hushcov.kernel.session import rounded_normal",
        "def f(n): return n.rounded_normal(g, 3, 5)",
        "def f(budget): budget.gaussian(0.1)",
        "def f(b): b.gaussian(0.1)",
        "def f(b): b.select(0.1, 3)",
        "def f(plan): plan.budget._taken = 0.0",
        "def f(budget): budget.mu *= 2",
        "def f(session): return session._records",
        "def f(self): return self.session._state.budget",
        "def f(session): return Reserve(session, 100, 1)",
        "def f(reserve): reserve._left = 100",
        "def f(session): return Selections(session, event, 0.1)",
        "def f(selections): selections._eta = 100",
    ],
)
def test_ways_around_the_session_are_found(code):
    assert faults(ast.parse(code))


def test_few_have_the_records_of_a_session():
    found = {
        str(path.relative_to(folder))
        for folder in PACKAGES.values()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "unwrap" in {each.name for each in node.names}
    }
    assert found == UNWRAPS


def test_the_kernel_can_be_read():
    lines = sum(len(path.read_text().splitlines()) for path in (SOURCE / "kernel").rglob("*.py"))
    assert lines <= MOST_LINES


def test_the_reading_list_of_auditors_is_the_kernel():
    """Every module is on it once, and it is about as long as the page says."""
    page = (SOURCE.parents[1] / "docs/proofs/index.md").read_text()
    rows = re.findall(r"^\| (`.+`) \| (\d+) \|", page, re.MULTILINE)
    left = set((SOURCE / "kernel").rglob("*.py"))
    assert len(rows) > 5
    for names, lines in rows:
        own = [SOURCE / "kernel" / name for name in re.findall("`(.+?)`", names)]
        paths = {path for path in left if any(path.is_relative_to(each) for each in own)}
        assert all(any(path.is_relative_to(each) for path in paths) for each in own), names
        left -= paths
        counted = sum(len(path.read_text().splitlines()) for path in paths)
        assert abs(counted - int(lines)) <= 0.15 * counted, (names, counted)
    assert left == set()


# Whoever audits the default reads these; the design says how many may be there.
MOST_LINES = 8_000
