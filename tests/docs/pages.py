"""Code on the pages of the documentation: what is in it, and how it is run."""

import doctest
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from hushcov.cli.main import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(e[-+]?\d+)?")
# What these print depends on noise that nobody knows, so that numbers are not compared.
_NOISY = ("ask", "demo", "export", "fit", "report", "show")
_FAILED = "hushcov: error:"
_RUN_ELSEWHERE = ("hushcov demo",)  # takes seconds, and is run by tests/cli/test_cli_start.py


@dataclass(frozen=True)
class Block:
    """Fenced code, its language and where it starts."""

    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    return [
        Block(match[1], match[2], page.count("\n", 0, match.start()) + 2)
        for match in _FENCE.finditer(page)
    ]


def run_page(path: Path) -> int:
    """Run all Python and all command lines of a page, in their order; return how many."""
    namespace: dict[str, object] = {}
    found = [b for b in blocks(path.read_text()) if b.language in ("python", "console")]
    for block in found:
        if block.language == "console":
            run_console(block.text)
        elif ">>>" in block.text:
            run_examples(block, path, namespace)
        else:
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            exec(code, namespace)
    return len(found)


def run_examples(block: Block, path: Path, namespace: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.text, namespace, path.name, str(path), block.line
    )
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    assert results.failed == 0, "".join(said)
    namespace.update(test.globs)


def run_console(text: str) -> None:
    """Run commands in this process, and compare what they print with what the page shows.

    `...` stands for anything. Nothing is installed.
    """
    for command, shown in commands(text):
        words = shlex.split(command)
        if words[0] == "pip" or command in _RUN_ELSEWHERE:
            continue
        assert words[0] == "hushcov", f"cannot run {command!r}"
        result = CliRunner().invoke(cli, words[1:], prog_name="hushcov")
        assert (result.exit_code != 0) == (_FAILED in shown), (command, result.output)
        if shown:
            noisy = words[1] in _NOISY
            assert is_shown(shown, result.output, noisy=noisy), (command, result.output)


def commands(text: str) -> list[tuple[str, str]]:
    """Commands, which follow a dollar, and what is shown of their output."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = re.sub(r" *\\\n *", " ", part).partition("\n")
        found.append((command, shown))
    return found


def is_shown(shown: str, output: str, *, noisy: bool) -> bool:
    """Whether the output is what is shown, but for white space, `...`, and numbers if noisy."""

    def plain(text: str) -> str:
        text = re.sub("─+", "─", text)
        return " ".join((_NUMBER.sub("0", text) if noisy else text).split())

    pattern = ".*".join(map(re.escape, re.split(r"\s*\.\.\.\s*", plain(shown))))
    return re.fullmatch(pattern, plain(output), re.DOTALL) is not None
