"""`hushcov completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hushcov.cli.options import Command

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_HUSHCOV_COMPLETE"


@click.command(cls=Command, name="completion")
@click.argument("shell", type=click.Choice(_SHELLS), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the script by which a shell completes commands, options and file names.

    \b
    Examples:
      hushcov completion bash >> ~/.bashrc
      hushcov completion zsh >> ~/.zshrc
      hushcov completion fish > ~/.config/fish/completions/hushcov.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # the shells above are click's own
    group = click.get_current_context().find_root().command
    script = kind(group, {}, "hushcov", _VARIABLE)
    click.echo(script.source_template % script.source_vars())
