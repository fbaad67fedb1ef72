"""`hushcov paper`: the numbers of the paper's theorem, and a check of its claims."""

from __future__ import annotations

import click

from hushcov.paper.params_command import command as params
from hushcov.paper.verification.command import command as verify


@click.group(name="paper", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Compute the parameters of the paper's theorem, or check its claims.

    The paper is Zihan Zhang, Improved Private Sparse Covariance Estimation with Multiscale
    Threshold Tests (2026). 'hushcov fit --mechanism theorem' releases with its Algorithm 1.

    \b
    Example:
      hushcov paper params --records 1e16 --features 100 --row-sparsity 5 \\
          --epsilon 1 --delta 1e-6 --scale 1
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


command.add_command(params)
command.add_command(verify)
