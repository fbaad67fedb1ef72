"""Find what other distributions add to hushcov by entry points, as plug-ins of pytest and click do.

Their `pyproject.toml` has tables such as

    [project.entry-points."hushcov.commands"]
    audit = "hushcov_lab.audit.command:command"

The groups are `hushcov.commands` (click commands), `hushcov.mechanisms` (instances of
`hushcov.fit.mechanism.Mechanism`), `hushcov.estimators` (classes, which `hushcov` offers by the
same name) and `hushcov.slices` (ways to fit, `hushcov.cli.fitting.Slice`). Each is loaded when it
is first asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hushcov.exceptions import MissingPackageError

#: By group, what the other distributions of this project provide, in the order of tables: where one
#: is not installed, this is how errors name it.
PROVIDERS: dict[str, dict[str, str]] = {
    "commands": {"audit": "hushcov-lab", "bench": "hushcov-lab"},
    "mechanisms": {
        "row-top-k": "hushcov-lab",
        "pace": "hushcov-lab",
        "separate": "hushcov-lab",
        "coinpress": "hushcov-lab",
        "eigen-sampling": "hushcov-lab",
    },
    "estimators": {
        "CoinPressCovariance": "hushcov-lab",
        "EigenSamplingCovariance": "hushcov-lab",
        "GenotypeCovariance": "hushcov-genotypes",
        "PaceCovariance": "hushcov-lab",
        "RowTopKCovariance": "hushcov-lab",
        "SeparateCovariance": "hushcov-lab",
    },
    "slices": {"genotypes": "hushcov-genotypes"},
}
#: Files that only such a slice reads, by the ending of their names.
SUFFIXES = {".bed": "genotypes"}


@cache
def installed_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name: those of `PROVIDERS` first, in its order."""
    found = {each.name: each for each in entry_points(group=f"hushcov.{group}")}
    known = [name for name in PROVIDERS[group] if name in found]
    return {name: found[name] for name in (*known, *sorted(set(found) - set(known)))}


def missing_plugins(group: str) -> tuple[str, ...]:
    """Return names that a distribution of this project provides which is not installed."""
    return tuple(name for name in PROVIDERS[group] if name not in installed_plugins(group))


def require_plugin(group: str, name: str, what: str) -> None:
    """Raise an error that says how to install what provides `name`, if that is missing.

    `what` says in the error what is missing, for example "the command 'audit'".
    """
    if name in PROVIDERS[group] and name not in installed_plugins(group):
        raise MissingPackageError(what, PROVIDERS[group][name])


def load_plugin(group: str, name: str) -> Any:
    """Import and return what an installed entry point stands for."""
    return installed_plugins(group)[name].load()
