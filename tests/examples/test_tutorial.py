"""The tutorial notebook runs from top to bottom, and shows what it says it shows."""

import ast
import json
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "examples" / "tutorial.ipynb"


def shown(value: object) -> str:
    """Return how a notebook would show a value: PNG or HTML before text."""
    if value is None:
        return ""
    if hasattr(value, "_repr_png_"):
        assert value._repr_png_().startswith(b"\x89PNG")
        return "PNG"
    if hasattr(value, "_repr_mimebundle_"):
        return value._repr_mimebundle_()["text/html"]
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


def run_cell(source: str, namespace: dict[str, object]) -> str:
    """Run a cell, and return what its last expression shows; nothing for a statement."""
    *body, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    exec(compile(ast.Module(body, []), "<cell>", "exec"), namespace)
    value = None
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    return shown(value)


def test_a_cell_shows_its_last_expression_and_errors_are_not_swallowed():
    assert run_cell("x = 2\nx + 1", {}) == "3"
    assert run_cell("x = 2", {}) == ""
    with pytest.raises(ZeroDivisionError):
        run_cell("1 / 0", {})


def test_the_tutorial_runs_from_a_table_to_its_last_cell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(TUTORIAL.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    namespace: dict[str, object] = {}
    found = {cell["id"]: run_cell("".join(cell["source"]), namespace) for cell in codes}
    assert found["plot"] == "PNG"
    for name in ("fit", "load"):
        assert "<svg" in found[name]
        assert "differential privacy" in found[name]
    assert "<details>" in found["fit"]  # scikit-learn's own display of the parameters
    printed = capsys.readouterr().out
    assert "R^2" in printed
    assert all(name in printed for name in ("age", "weight", "smoker"))
    assert "systolic" in found["prediction"]
    assert "ignore the noise of the release" in " ".join(printed.split())
