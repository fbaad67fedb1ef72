"""The directive `command-help`: what `--help` says of every command, one section for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hushcov.cli.main import COMMANDS, cli

_WIDTH = 90  # of the help, in characters


class CommandHelp(SphinxDirective):
    """A section for the program and each of its commands."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        top = click.Context(cli, info_name="hushcov", max_content_width=_WIDTH)
        sections: list[nodes.Node] = [_section("hushcov", top)]
        for name in COMMANDS:
            command = cli.get_command(top, name)
            assert command is not None
            for context in _with_subcommands(command, name, top):
                sections.append(_section(context.command_path, context))
        return sections


def _with_subcommands(
    command: click.Command, name: str, parent: click.Context
) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=parent, max_content_width=_WIDTH)
    yield context
    for each, below in getattr(command, "commands", {}).items():
        yield from _with_subcommands(below, each, context)


def _section(title: str, context: click.Context) -> nodes.section:
    identifier = title.replace(" ", "-")
    section = nodes.section(ids=[identifier], names=[identifier])
    section += nodes.title(text=title)
    # Widths would follow the terminal in which the site is built.
    context.terminal_width = _WIDTH
    section += nodes.literal_block(text=context.get_help(), language="text")
    return section


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
