"""A real browser for the pages that hushcov writes: Chromium, without a network.

One for each process of the suite: Playwright refuses a second one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import PATIENCE

PHONE, DESKTOP = {"width": 360, "height": 740}, {"width": 1280, "height": 900}
each_screen = pytest.mark.parametrize(
    ("viewport", "scheme"),
    [
        pytest.param(PHONE, "light", id="phone by day"),
        pytest.param(PHONE, "dark", id="phone by night", marks=pytest.mark.slow),
        pytest.param(DESKTOP, "light", id="desktop by day", marks=pytest.mark.slow),
        pytest.param(DESKTOP, "dark", id="desktop by night"),
    ],
)
# As root Chromium runs only without its sandbox; the other flags keep it from calling home.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

OpenPage = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # few tests need it

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not path:
        missing = "no Chromium: run 'make browser' as root on Debian, or set CHROMIUM to its path"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=path, args=list(_FLAGS), timeout=1000 * PATIENCE
        )
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """`open_page(path, viewport=PHONE, color_scheme="dark")`.

    When the test ends, nothing may have been written to the console as an error or a warning,
    raised, or asked from a network.
    """
    contexts, complaints = [], []

    def opened(path: Path, *, viewport: dict[str, int] = DESKTOP, **options: Any) -> Any:
        context = browser.new_context(viewport=viewport, **options)
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(("file:", "data:", "blob:"))
                else complaints.append(request.url)
            ),
        )
        page.goto(path.resolve().as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
