"""Proof pages and code point at each other, and neither side can lose the other unnoticed.

Every mechanism and the accountant have a page `docs/proofs/<name>.md` whose steps are headed
`## Step N: title`; code says `# proof: step N` where it relies on one.
"""

import ast
import io
import itertools
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE, LAB = "src/hushcov", "lab/src/hushcov_lab"
PROVED = (f"{PACKAGE}/fit", f"{LAB}/peers")
# A sampler has a law, which its tests hold it to, and the page of the mechanism rests on it.
NOT_PROVED = {"__init__", "estimators", "plan", "queries", "stage", "bingham", "normals"}
# Public numbers alone.
NOT_PROVED |= {"mechanism", "registry", "reference", "comparison", "outlook"}
# A page for a whole folder.
SLICES = {"multiscale": f"{PACKAGE}/paper", "genotypes": "genotypes/src/hushcov_genotypes"}
# Pages about code in several places, which count for no other page.
SHARED = {
    "neighbours": (
        f"{PACKAGE}/kernel/accounting/neighbours.py",
        f"{PACKAGE}/kernel/records/units.py",
        f"{PACKAGE}/fit/counting.py",
    ),
    "lower_bound": (f"{LAB}/audit/tracing.py",),
}

HEADING = re.compile(r"^## Step (\d+): \S.*$")
COMMENT = re.compile(r"^# proof: step (\d+)$")
# The kernel and the lab have statistics of many pages in one place, and name the page.
KERNEL = (f"{PACKAGE}/kernel/queries.py", f"{PACKAGE}/kernel/scores.py")
KERNEL += (f"{PACKAGE}/kernel/session.py", f"{LAB}/peers/queries.py")
NAMED = re.compile(r"^# proof: (\w+), step (\d+)$")


def proved_code(root: Path) -> dict[str, list[Path]]:
    """Everything that needs a proof page: name of the page, and its modules."""
    found = {
        name: [root / place for place in places if (root / place).exists()]
        for name, places in SHARED.items()
    }
    shared = {path for paths in found.values() for path in paths}
    listed = [path for folder in PROVED for path in sorted((root / folder).glob("*"))]
    for path in (root / PACKAGE / "kernel" / "accounting", *listed):
        is_module = path.suffix == ".py" or (path / "__init__.py").exists()
        if is_module and path.stem not in NOT_PROVED and path not in shared:
            found[path.stem] = [module for module in modules(path) if module not in shared]
    # The search for noise certifies what it finds.
    found["accounting"] += [each for each in [root / PACKAGE / "calibration.py"] if each.exists()]
    for name, folder in SLICES.items():
        found[name] = modules(root / folder)
    return {name: paths for name, paths in found.items() if paths}


def modules(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.suffix != ".py" else [path]


def steps_in_code(paths: list[Path]) -> tuple[set[int], list[str]]:
    """Steps named by comments, and comments about proofs that name none."""
    steps, unreadable = set(), []
    for module in paths:
        for token in tokenize.generate_tokens(io.StringIO(module.read_text()).readline):
            if token.type != tokenize.COMMENT or "proof:" not in token.string.lower():
                continue
            match = COMMENT.match(token.string)
            if match:
                steps.add(int(match[1]))
            else:
                unreadable.append(f"{module.name}:{token.start[0]}: {token.string!r}")
    return steps, unreadable


def steps_in_kernel(root: Path) -> tuple[dict[str, set[int]], list[str]]:
    """Steps of each page that the kernel names, and comments about proofs that name none."""
    steps: dict[str, set[int]] = {}
    unreadable = []
    for module in (root / name for name in KERNEL if (root / name).exists()):
        for number, line in enumerate(module.read_text().splitlines(), 1):
            comment = line[line.index("#") :] if "# proof" in line else ""
            match = NAMED.match(comment)
            if match:
                steps.setdefault(match[1], set()).add(int(match[2]))
            elif comment:
                unreadable.append(f"{module.name}:{number}: {comment!r}")
    return steps, unreadable


def steps_in_page(page: Path) -> tuple[list[int], list[str]]:
    """Numbers of the step headings in order, and headings that look like steps but are not."""
    steps, unreadable = [], []
    for line in page.read_text().splitlines():
        match = HEADING.match(line)
        if match:
            steps.append(int(match[1]))
        elif re.match(r"^#+\s*step\b", line, re.IGNORECASE):
            unreadable.append(f"{page.name}: {line!r}")
    return steps, unreadable


def proof_problems(root: Path) -> list[str]:
    """What is missing between code and proof pages, in words; empty if all is well."""
    kernel, unreadable = steps_in_kernel(root)
    problems = [f"unreadable proof comment: {where}" for where in unreadable]
    problems += [f"{name} has no proof" for name in sorted(kernel.keys() - proved_code(root))]
    for name, paths in proved_code(root).items():
        named, problems_in_code = steps_in_code(paths)
        named |= kernel.get(name, set())
        problems += [f"unreadable proof comment: {where}" for where in problems_in_code]
        page = root / "docs" / "proofs" / f"{name}.md"
        if not page.exists():
            problems.append(f"{name} has no proof page docs/proofs/{name}.md")
            continue
        proved, problems_in_page = steps_in_page(page)
        problems += [f"unreadable step heading: {where}" for where in problems_in_page]
        if proved != list(range(1, len(proved) + 1)) or not proved:
            problems.append(f"{name}.md must number its steps 1, 2, 3, .., has {proved}")
        for step in sorted(named - set(proved)):
            problems.append(f"{name}: code names step {step}, which {name}.md does not have")
        for step in sorted(set(proved) - named):
            problems.append(f"{name}: step {step} of {name}.md is named nowhere in the code")
    return problems


def docstring_problems(root: Path) -> list[str]:
    """Functions `release_*` of steps and mechanisms whose docstring has no Privacy section."""
    problems = []
    for module in (
        path for folder in (*PROVED, *SLICES.values()) for path in modules(root / folder)
    ):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("release_"):
                lines = [line.strip() for line in (ast.get_docstring(node) or "").splitlines()]
                sections = itertools.pairwise(lines)
                if ("Privacy", "-------") not in sections:
                    problems.append(f"{module.name}: {node.name} has no Privacy section")
    return problems


def test_code_and_proof_pages_agree():
    assert proof_problems(ROOT) == []
    assert docstring_problems(ROOT) == []
    assert {"accounting", "multiscale", "neighbours"} <= set(proved_code(ROOT))
    for paths in proved_code(ROOT).values():
        assert steps_in_code(paths)[0]
    sources = [module.read_text() for module in modules(ROOT / PACKAGE / "fit")]
    assert any("\ndef release_" in source for source in sources)


# The checks themselves, on a small tree that is sound until one thing in it is broken.

CODE = '''\
"""A string that says # proof: step 7 is not a comment."""


def release_example(x):
    """Release x.

    Privacy
    -------
    None.
    """
    y = x  # proof: step 1
    # proof: step 2
    return y
'''
PAGE = "# Title\n\n## Step 1: first\n\ntext\n\n## Step 2: second\n\n## Accuracy\n"


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "src/hushcov/kernel/accounting/__init__.py": "",
        "src/hushcov/kernel/accounting/basic.py": "x = 1  # proof: step 1\n",
        "src/hushcov/fit/__init__.py": "",
        "src/hushcov/inputs.py": "x = 1\n",
        "src/hushcov/fit/example/__init__.py": "",
        "src/hushcov/fit/example/inner/deep.py": CODE,
        "src/hushcov/fit/flat.py": CODE,
        "src/hushcov/fit/__pycache__/stale.pyc": "",
        "docs/proofs/accounting.md": "## Step 1: all\n",
        "docs/proofs/example.md": PAGE,
        "docs/proofs/flat.md": PAGE,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def replace(tree, name, old, new):
    path = tree / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_sound_tree_has_no_problems(tree):
    assert set(proved_code(tree)) == {"accounting", "example", "flat"}
    assert proof_problems(tree) == []
    assert docstring_problems(tree) == []
    (tree / "src/hushcov/fit/screened.py").write_text("x = 1\n")
    assert proof_problems(tree) == ["screened has no proof page docs/proofs/screened.md"]


@pytest.mark.parametrize("name", ["accounting", "example", "flat"])
def test_a_missing_page_is_found(tree, name):
    (tree / "docs" / "proofs" / f"{name}.md").unlink()
    assert proof_problems(tree) == [f"{name} has no proof page docs/proofs/{name}.md"]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        # code names a step the page does not have
        ("src/hushcov/fit/flat.py", "step 2", "step 3", "does not have"),
        ("src/hushcov/fit/example/inner/deep.py", "step 2", "step 3", "does not have"),
        ("docs/proofs/flat.md", "## Step 2: second", "## Second", "does not have"),
        ("docs/proofs/accounting.md", "## Step 1: all", "## Step 2: all", "does not have"),
        # the page has a step the code does not name
        ("src/hushcov/fit/flat.py", "# proof: step 2", "", "named nowhere"),
        ("src/hushcov/kernel/accounting/basic.py", "# proof: step 1", "", "named nowhere"),
        ("docs/proofs/flat.md", "## Acc", "## Step 3: more\n\n## Acc", "named nowhere"),
        # neither may be hidden by sloppy writing
        ("src/hushcov/fit/flat.py", "# proof: step 2", "# proof: Step two", "unreadable"),
        ("docs/proofs/flat.md", "## Step 2: second", "### Step 2: second", "unreadable"),
        ("docs/proofs/flat.md", "## Step 2: second", "## Step 2 second", "unreadable"),
        ("docs/proofs/flat.md", "## Step 2: s", "## Step 1: s", "must number its steps"),
    ],
)
def test_a_step_missing_on_either_side_is_found(tree, name, old, new, expected):
    replace(tree, name, old, new)
    problems = proof_problems(tree)
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    Privacy\n    -------\n", ""),
        ("    -------\n", ""),
        ('"""Release x.', 'None\n    """Release x.'),  # no longer a docstring
    ],
)
@pytest.mark.parametrize("name", ["flat.py", "example/inner/deep.py"])
def test_a_release_function_without_a_privacy_section_is_found(tree, name, old, new):
    replace(tree, f"src/hushcov/fit/{name}", old, new)
    file = name.rpartition("/")[2]
    assert docstring_problems(tree) == [f"{file}: release_example has no Privacy section"]
