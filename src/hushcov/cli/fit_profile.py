"""Where the time of `hushcov fit` went, for those who ask; never a part of a release."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from hushcov._profile import Profile, profiled
from hushcov._words import counted
from hushcov.cli.output import heading, paragraph, show, text_table


def measured_time(asked: bool) -> Profile | None:
    """What measures where the time goes until the command ends, if that is asked for."""
    return click.get_current_context().with_resource(profiled()) if asked else None


def show_profile(out: Console, profile: Profile, file: Path | None) -> dict[str, object]:
    """Say where the time went, and write it where that is asked for; never into the release."""
    profile.stop()
    found = profile.to_dict()
    heading(out, "Where the time went")
    cells = [
        (what, str(times), f"{spent:.2f}", f"{100 * spent / max(profile.total, 1e-9):.0f} %")
        for what, times, spent in profile.rows()
    ]
    show(out, text_table(("part", "times", "seconds", "share"), cells))
    paragraph(
        out,
        f"The records were read {counted(profile.readings, 'time')}, in {profile.total:.2f} s in "
        "all. Times depend on the records: they are not private, and no part of the release.",
    )
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n")
        paragraph(out, f"written: {file}")
    return found
